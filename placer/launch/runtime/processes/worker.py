"""The work of one process: makes the model, meets the others, takes the steps, and reports."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from placer.errors import PlacerError
from placer.launch.runtime.codec import Codec
from placer.launch.runtime.processes.loopback_store import connected
from placer.launch.runtime.processes.reports import (
    FAILED,
    LOST,
    Report,
    error_record,
    reporter,
    unlike_models,
)
from placer.launch.runtime.run_plan import RunPlan, Seat, Settings, plan_from
from placer.launch.runtime.strategies import strategy_of
from placer.launch.runtime.training.checkpoint import Checkpoints, gathered
from placer.launch.runtime.training.context import Context, memory_error
from placer.launch.runtime.training.trainer import Trainer, digest_of, load_model
from placer.launch.runtime.wire import Meter, PeerLostError, Wire, butterfly_sum, is_peer_loss
from placer.launch.shaped_network.kernel import end_with_parent
from placer.market.sources.reading.web_address import without_secrets
from placer.problem.exchange import traits
from placer.profiler.devices import choose_device
from placer.profiler.torch_import import is_out_of_memory
from placer.records import replace
from placer.workload.inner_plan import InnerPlan

NOTICED_S = 60.0
"""A process that has lost another waits for its launcher to end it: who died is seen first."""
OTHERS_S = 2.0
"""Between the first and the last process of a world that miss another."""
MOST_LOGGED = 100
"""Models with so few parameters are written to the log, for tests and for reading it by eye."""
_UNTIL_EXIT: list[Any] = []
"""Objects whose destructors must not run before the process ends: gloo's can hang."""


def run_worker(job: dict[str, Any]) -> None:
    """Run one process of a machine's job; every failure becomes a record and an exit code."""
    end_with_parent()
    # A forked worker has those of its agent, which would make a failure of its end.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.disable(logging.NOTSET)
    local = int(os.environ["LOCAL_RANK"])
    seat, report = Seat(**job["seats"][local]), reporter(job["pipes"][local])
    os.dup2(2, 1)  # what the user's code prints is not a result
    try:
        _work(job, seat, report)
    except PlacerError as error:
        report(error_record(seat.rank, error))
        os._exit(FAILED)
    except PeerLostError:
        time.sleep(NOTICED_S)
        os._exit(LOST)
    except BaseException as error:
        words = " ".join(without_secrets(f"{type(error).__name__}: {error}").split())[:300]
        hint = "PLACER_DEBUG=1 shows the traceback"
        report(error_record(seat.rank, PlacerError(words, hint, exit_code=1)))
        if os.environ.get("PLACER_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        os._exit(FAILED)


def _work(job: Mapping[str, Any], seat: Seat, report: Report) -> None:
    """Join the world and train from the first step to the last."""
    settings = Settings(**job["settings"])
    plan = plan_from(job["manifest"], "manifest", deployed=settings.deployed)
    store = connected(job["host"], job["port"], settings.join_s)
    trainer, step = None, 0
    try:
        _join_world(settings, seat, store)
        trainer = _trainer(plan, settings, seat)
        context = Context(
            plan=plan,
            settings=settings,
            seat=seat,
            trainer=trainer,
            meter=Meter(),
            store=store,
            address=job["address"],
        )
        _UNTIL_EXIT.append(context)
        run = _Run(context, report)
        step = context.start
        for step in run.strategy.steps():
            run.take(step)
        run.end()
    except (MemoryError, RuntimeError, PeerLostError) as error:
        if is_out_of_memory(error):
            elements = trainer.elements if trainer else 0
            raise memory_error(plan, seat.rank, elements) from None
        lost = error if isinstance(error, PeerLostError) else PeerLostError(None, str(error))
        if lost is not error and not is_peer_loss(error):
            raise
        _report_loss(report, plan, seat, store, step, lost)
        raise lost from None


def _report_loss(
    report: Report, plan: RunPlan, seat: Seat, store: Any, step: int, lost: PeerLostError
) -> None:
    """Report who is gone: the named one, or the first that misses no other itself."""
    ranks = range(plan.workers) if plan.engine == "torchft" else _world(plan, seat)
    others = [rank for rank in ranks if rank != seat.rank]
    gone = lost.rank
    try:
        store.set(f"missing/{seat.rank}", "1")
        if gone is None:
            time.sleep(OTHERS_S)
            silent = (rank for rank in others if not store.check([f"missing/{rank}"]))
            gone = next(silent, others[0] if others else seat.rank)
    except RuntimeError:  # the store is gone, which the first machine serves
        gone = 0 if gone is None else gone
    words = {"lost": gone, "reason": lost.reason, "checkpoint": None}
    report({"kind": "fault", "rank": seat.rank, "step": step, **words})


def _join_world(settings: Settings, seat: Seat, store: Any) -> None:
    """Make the processes of a world the default group of ``torch.distributed``."""
    if settings.threads:
        torch.set_num_threads(settings.threads)
    on_gpu = settings.device != "cpu" and torch.cuda.is_available()
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if on_gpu else "gloo",
        store=dist.PrefixStore(f"world/{seat.world}", store),
        rank=seat.world_rank,
        world_size=seat.world_size,
        timeout=timedelta(seconds=settings.timeout_s),
    )


def _trainer(plan: RunPlan, settings: Settings, seat: Seat) -> Trainer:
    """Make the model from the same seed everywhere; the processes of a world share it."""
    torch.manual_seed(settings.seed)
    workload = load_model(settings.train)
    inner = plan.inner_of(seat.rank)
    shared = inner or InnerPlan(precision="fp32")
    if plan.engine == "torchft" and shared.sharding == "none":
        # Each process then exchanges its part of the model with other worlds, and not the whole.
        shared = replace(shared, sharding="zero-2")
    # Inside a worker nothing is compressed.
    compression = plan.exchange.compression if len(_world(plan, seat)) > 1 else "none"
    coded = compression not in ("none", "fp16")
    trainer = Trainer(
        workload,
        choose_device(_own_gpu(settings.device) or None),
        seat=seat,
        inner=shared,
        seed=settings.seed,
        microbatch=settings.microbatch or (inner.microbatch if inner else plan.microbatch),
        codec=Codec(compression),
        shards=len(plan.worlds) if traits(plan.exchange.strategy).transport == "leaders" else 1,
        hook=_coded_hook(plan, seat, settings.timeout_s) if coded else None,
    )
    _agree(trainer.first_digest, plan, seat, _crooked)
    return trainer


def _world(plan: RunPlan, seat: Seat) -> tuple[int, ...]:
    return plan.worlds[seat.world] if seat.rank < plan.workers else ()


def _coded_hook(plan: RunPlan, seat: Seat, timeout_s: float) -> Callable[[Any], Any]:
    """Return what averages a bucket of DDP's inside a region, encoded as the plan says."""
    everyone = range(seat.world_size)
    # The ranks are those of the world; what it sends is counted elsewhere.
    wire = Wire(plan, seat.world_rank, everyone, [dist.group.WORLD], Meter(), timeout_s, str)

    def averaged(bucket: Any) -> Any:
        gradient = bucket.buffer()
        part = gradient.detach().cpu().view(-1) / seat.world_size
        future: Any = torch.futures.Future()
        future.set_result(butterfly_sum(wire, part, everyone).view_as(gradient).to(gradient.device))
        return future

    return averaged


def _own_gpu(device: str) -> str:
    """Return the device of this process: each has a GPU of its own, as NCCL wants it."""
    local, here = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if device not in ("", "cuda") or not torch.cuda.is_available():
        return device
    if here > torch.cuda.device_count():
        raise PlacerError(
            f"{here} processes here share {torch.cuda.device_count()} GPUs",
            "each needs one of its own: give fewer --processes, or --device cpu",
        )
    torch.cuda.set_device(local)
    return f"cuda:{local}"


def _agree(
    digest: str, plan: RunPlan, seat: Seat, unlike: Callable[[RunPlan, int, int], PlacerError]
) -> None:
    """Refuse a world whose processes have unlike parameters."""
    digests = gathered((seat.rank, digest))
    for rank, other in digests:
        if other != digests[0][1]:
            raise unlike(plan, rank, digests[0][0])


def _crooked(plan: RunPlan, rank: int, first: int) -> PlacerError:
    return PlacerError(
        f"{plan.rank_name(rank)} begins with other parameters than rank {first}",
        "make the model from torch's random numbers alone: they are seeded",
    )


def _wire(context: Context) -> Wire:
    """Connect the first processes of the worlds, and hubs, over gloo, once for each stream."""
    plan, settings = context.plan, context.settings
    peers = (*context.leaders, *range(plan.workers, plan.ranks))
    groups = [
        dist.ProcessGroupGloo(
            dist.PrefixStore(f"wire/{stream}", context.store),
            peers.index(context.rank),
            len(peers),
            timedelta(seconds=settings.timeout_s),
        )
        for stream in range(plan.exchange.streams if len(peers) > 1 else 0)
    ]
    meter = context.wire_meter if plan.exchange.overlap else context.meter
    return Wire(plan, context.rank, peers, groups, meter, settings.timeout_s)


class _Run:
    """The steps of one process."""

    def __init__(self, context: Context, report: Report) -> None:
        plan, seat = context.plan, context.seat
        self.context, self.plan, self.seat = context, plan, seat
        self.works = seat.rank < plan.workers
        self.report: Report = report if seat.member == 0 else (lambda record: None)
        self.checkpoints = self._checkpoints() if self.works else None
        strategy = strategy_of(plan)
        if strategy.wired and seat.leads:
            context.wire = _wire(context)
        self.strategy = strategy(context)
        given = [_start_of_all(context, self.checkpoints) if seat.leads else (0, "")]
        dist.broadcast_object_list(given, src=0)
        context.start, context.attempt = given[0]
        if context.start and self.checkpoints is not None:
            self._load(self.checkpoints, context.start)
        self.strategy.begin()
        ready = {"pid": os.getpid(), "start": context.start, "elements": context.trainer.elements}
        self.report({"kind": "ready", "rank": seat.rank, **ready})

    def _checkpoints(self) -> Checkpoints | None:
        settings = self.context.settings
        if not settings.checkpoints:
            return None
        seats = [s for s in self.plan.seats(settings.processes) if s.world == self.seat.world]
        identity = {
            "plan": self.plan.manifest.digest,
            "strategy": self.plan.exchange.strategy,
            "world": self.seat.world,
            "ranks": [[s.rank, s.member] for s in seats],
            "seed": settings.seed,
        }
        return Checkpoints(settings.checkpoints, self.seat.world, identity)

    def take(self, step: int) -> None:
        """Take one step, report it, and keep a checkpoint where one is due."""
        context, began = self.context, time.perf_counter()
        record = {
            "kind": "step",
            "step": step,
            "rank": self.seat.rank,
            "place": self.plan.place_of(self.seat.rank),
            "samples": 0,
            "loss": None,
        }
        if self.works:
            record["samples"] = context.shares()[self.seat.rank]
            record["loss"] = self.strategy.step(step)
        else:
            self.strategy.serve(step)
        record["step_s"] = time.perf_counter() - began
        record["exchanged"] = context.ends_round(step)
        self.report({**record, **context.meter.take()})
        if self.checkpoints is not None and context.saves_checkpoint(step):
            self.checkpoints.save(step + 1, self._state())

    def _state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as torch.distributed.checkpoint knows it."""
        trainer = self.context.trainer
        module, optimizer = get_state_dict(trainer.module, trainer.optimizer)
        return {"module": module, "optimizer": optimizer, "between": self.strategy.tensors()}

    def _load(self, checkpoints: Checkpoints, step: int) -> None:
        state, trainer = self._state(), self.context.trainer
        checkpoints.load(step, state)
        set_state_dict(
            trainer.module,
            trainer.optimizer,
            model_state_dict=state["module"],
            optim_state_dict=state["optimizer"],
        )
        if self.seat.leads:
            checkpoints.abandon_later(step, self.context.settings.steps)

    def end(self) -> None:
        """End the exchange and report the model."""
        context = self.context
        self.strategy.close()
        whole = context.trainer.vector()
        _agree(digest_of(whole), self.plan, self.seat, unlike_models)
        record = {
            "kind": "end",
            "rank": self.seat.rank,
            "steps": context.settings.steps - context.start,
            "parameters_sha256": digest_of(whole),
            **({"parameters": whole.tolist()} if len(whole) <= MOST_LOGGED else {}),
        }
        self.report({**record, **context.meter.take()})
        self.strategy.leave()


def _start_of_all(context: Context, checkpoints: Checkpoints | None) -> tuple[int, str]:
    """Wait for all worlds and hubs; return the first step, and a word of this run alone."""
    plan, settings, seat, store = context.plan, context.settings, context.seat, context.store
    steps: list[int] = []
    if checkpoints is not None and settings.resume:
        steps = sorted(checkpoints.steps())
        for step in steps:
            checkpoints.check(step)
    hello = {
        "digest": context.trainer.first_digest,
        "manifest": plan.manifest.digest,
        "rank": seat.rank,
        "steps": steps,
        "token": secrets.token_hex(4),
    }
    store.set(f"hello/{seat.world}", json.dumps(hello))
    hellos: list[dict[str, Any]] = []
    until = time.monotonic() + settings.join_s
    for world in range(len(plan.worlds) + plan.hub_processes):
        while not store.check([f"hello/{world}"]):
            if time.monotonic() > until:
                rank = plan.worlds[world][0] if world < len(plan.worlds) else plan.workers
                raise PeerLostError(rank, f"did not come within {settings.join_s:g} s")
            time.sleep(0.01)
        hellos.append(json.loads(store.get(f"hello/{world}")))
    for other in hellos:
        if other["manifest"] != hellos[0]["manifest"]:
            raise PlacerError(
                f"{plan.rank_name(other['rank'])} runs another manifest than rank 0",
                "give all the same file",
            )
        if other["digest"] != hellos[0]["digest"]:
            raise _crooked(plan, other["rank"], hellos[0]["rank"])
    workers = [set(other["steps"]) for other in hellos if other["rank"] < plan.workers]
    return _first_step(settings, workers), str(hellos[0]["token"])


def _first_step(settings: Settings, kept: list[set[int]]) -> int:
    """Return the first step; with ``resume`` that of the newest checkpoint that all worlds have."""
    common = set.intersection(*kept)
    start = max((step for step in common if step <= settings.steps), default=0)
    if settings.resume and not start and common:
        words = (
            f"the checkpoints in '{settings.checkpoints}' begin with one after step "
            f"{min(common)}, the run ends after {settings.steps}"
        )
        raise PlacerError(words, "ask for more --steps, or run without --resume")
    if settings.resume and not start and not (settings.may_begin and not any(kept)):
        raise PlacerError(
            f"no checkpoint in '{settings.checkpoints}' that all workers have",
            "run without --resume",
        )
    return start

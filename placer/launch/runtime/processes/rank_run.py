"""The work of one rank: it makes the model, meets the others, takes the steps, and reports what it
measures.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies import Executed, executed, step_function
from placer.launch.runtime.training.checkpoint import (
    abandon_later,
    load_checkpoint,
    save_checkpoint,
    steps_of,
)
from placer.launch.runtime.training.context import Context, Settings
from placer.launch.runtime.training.memory import memory_error, out_of_memory
from placer.launch.runtime.training.overlapped_exchange import OverlappedExchange
from placer.launch.runtime.training.trainer import Trainer
from placer.launch.runtime.wire.meter import Meter
from placer.launch.runtime.wire.wire import Wire

PATIENT_S = 86_400.0
"""Time-out of gloo where one slow peer must not close the connections to all."""
MOST_LOGGED = 100
"""Models with so few parameters are written to the log."""
_UNTIL_EXIT: list[Any] = []
"""Objects whose destructors must not run: see `placer.launch.runtime.processes.rank_process`."""
Report = Callable[[dict[str, Any]], None]


def work(
    plan: RunPlan, settings: Settings, rank: int, store: Any, report: Report, backend: str = "gloo"
) -> None:
    """Run one rank from the first step to the last.

    Parameters
    ----------
    store
        A ``torch.distributed`` store at which all ranks meet.
    report
        Takes one record after the other: ``ready``, ``step``, ``notice``, ``fault``, ``end``.
    backend
        gloo's name in ``torch.distributed``.

    Raises
    ------
    PlacerError
        If the model, the device or a file is wrong.
    PeerLostError
        If another rank is gone and the strategy cannot go on.
    """
    trainer = None
    try:
        trainer = _trainer(settings, rank)
        _UNTIL_EXIT.append(trainer)
        _train(plan, settings, rank, store, report, trainer, backend)
    except (MemoryError, RuntimeError) as error:
        if out_of_memory(error):
            raise memory_error(plan, rank, trainer.elements if trainer else 0) from None
        raise


def _train(
    plan: RunPlan,
    settings: Settings,
    rank: int,
    store: Any,
    report: Report,
    trainer: Trainer,
    backend: str,
) -> None:
    """Meet the others, take the steps, report the end."""
    strategy = executed(plan)
    folder = Path(settings.checkpoints)
    start, token = _meet(plan, settings, rank, store, trainer, strategy)
    settings = replace(
        settings, attempt=f"{settings.attempt}-{token}"
    )  # objects that another run left are not this one's
    kept = (
        load_checkpoint(folder, start, rank, replicated=strategy.REPLICATED)
        if start and rank < plan.workers
        else {}
    )
    if kept:
        trainer.load_state(kept)
        abandon_later(folder, start, settings.steps, rank)
    context = Context(
        plan=plan,
        settings=settings,
        rank=rank,
        trainer=trainer,
        meter=Meter(),
        store=store,
        start=start,
        resume_parameters=kept.get("seen") if plan.exchange.overlap else None,
        members=tuple(range(plan.workers)),
        notice=lambda gone, words: report(
            {"kind": "notice", "rank": rank, "gone": gone, "message": words}
        ),
    )
    _UNTIL_EXIT.append(context)
    if strategy.WIRED:
        patient = (
            settings.elastic and strategy.ELASTIC
        )  # those have deadlines of their own, see Wire.swap_each
        meter = Meter() if plan.exchange.overlap else context.meter
        context.wire = Wire(
            plan, rank, store, meter, PATIENT_S if patient else settings.timeout_s, backend
        )
        context.overlapped = (
            OverlappedExchange(context.meter, meter) if plan.exchange.overlap else None
        )
    state = strategy.open(context)
    report(
        {
            "kind": "ready",
            "rank": rank,
            "pid": os.getpid(),
            "start": start,
            "elements": trainer.elements,
        }
    )
    step = start
    try:
        for step in range(start, settings.steps):
            _take_step(context, strategy, state, step, report)
    except PeerLostError as lost:
        saved = _rescue(context, strategy, folder, step)
        report(
            {
                "kind": "fault",
                "rank": rank,
                "step": step,
                "lost": _first(store, lost.rank),
                "reason": lost.reason,
                "checkpoint": saved,
            }
        )
        raise
    strategy.close(context, state)
    digest = hashlib.sha256(trainer.vector().numpy().tobytes()).hexdigest()
    report(
        {
            "kind": "end",
            "rank": rank,
            "steps": settings.steps - start,
            "parameters_sha256": digest,
            **_few(trainer),
            **context.meter.take(),
        }
    )


def _trainer(settings: Settings, rank: int) -> Trainer:
    """Make the model from the same seed everywhere."""
    import torch

    from placer.profiler.devices.device_facts import choose_device
    from placer.profiler.target.target import load_target
    from placer.profiler.workload import Workload

    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    workload = load_target(settings.train, None)
    if not isinstance(workload, Workload):
        raise PlacerError(
            f"{settings.train} returns a step function",
            "placer run needs the model: return a Workload or (module, batch, loss)",
        )
    return Trainer(
        workload,
        choose_device(settings.device or None),
        rank=rank,
        seed=settings.seed,
        microbatch=settings.microbatch,
    )


def _meet(
    plan: RunPlan, settings: Settings, rank: int, store: Any, trainer: Trainer, strategy: Executed
) -> tuple[int, str]:
    """Wait for all ranks, check that they begin alike, and agree on the step to begin with and on a
    name for this attempt.
    """
    digest = hashlib.sha256(trainer.vector().numpy().tobytes()).hexdigest()
    own_steps = (
        steps_of(Path(settings.checkpoints), rank, replicated=strategy.REPLICATED)
        if settings.resume and settings.checkpoints
        else set()
    )
    hello = {
        "digest": digest,
        "manifest": plan.digest,
        "steps": sorted(own_steps),
        "hub": rank >= plan.workers,
        "token": secrets.token_hex(4),
    }
    store.set(f"hello/{rank}", json.dumps(hello))
    others: dict[int, dict[str, Any]] = {}
    until = time.monotonic() + settings.join_s
    while len(others) < plan.ranks:
        for other in set(range(plan.ranks)) - set(others):
            if store.check([f"hello/{other}"]):
                others[other] = json.loads(store.get(f"hello/{other}"))
            elif store.check([f"dead/{other}"]):
                raise PeerLostError(other, "did not start")
        if time.monotonic() > until:
            missing = next(iter(set(range(plan.ranks)) - set(others)))
            raise PeerLostError(missing, f"did not come within {settings.join_s:g} s")
        time.sleep(0.01)
    for other, hello_of in others.items():
        if hello_of["manifest"] != others[0]["manifest"]:
            raise PlacerError(
                f"{plan.rank_name(other)} runs another manifest than rank 0",
                "give all the same file",
            )
        if hello_of["digest"] != others[0]["digest"]:
            raise PlacerError(
                f"{plan.rank_name(other)} begins with other parameters than rank 0",
                "make the model from torch's random numbers alone: they are seeded",
            )
    return _start(settings, others, replicated=strategy.REPLICATED), str(others[0]["token"])


def _start(settings: Settings, others: Mapping[int, Mapping[str, Any]], *, replicated: bool) -> int:
    """Return the step to begin with: with ``resume`` that of the newest checkpoint that all workers
    have.
    """
    common = set.intersection(
        *(set(hello["steps"]) for hello in others.values() if not hello["hub"])
    )
    start = max((step for step in common if step <= settings.steps), default=0)
    if settings.resume and not start and common - {0}:
        words = (
            f"the checkpoints in '{settings.checkpoints}' begin with one after step "
            f"{min(common)}, the run ends after {settings.steps}"
        )
        raise PlacerError(words, "ask for more --steps, or run without --resume")
    nobody = not any(hello["steps"] for hello in others.values())
    if settings.resume and not start and not (settings.may_begin and nobody):
        copy = "" if nobody or not replicated else "copy the newest of another machine into it, or "
        raise PlacerError(
            f"no checkpoint in '{settings.checkpoints}' that all ranks have",
            f"{copy}run without --resume",
        )
    return start


def _take_step(context: Context, strategy: Executed, state: Any, step: int, report: Report) -> None:
    """Take one step, report it, and keep a checkpoint where one is due."""
    began = time.perf_counter()
    record: dict[str, Any] = {
        "kind": "step",
        "step": step,
        "rank": context.rank,
        "place": context.plan.place_of(context.rank),
    }
    if context.rank < context.plan.workers:
        record |= {
            "samples": context.shares()[context.rank],
            "loss": step_function(context.plan)(context, state, step),
        }
    else:
        record |= {"samples": 0, "loss": None}
        strategy.serve(context, state, step)
    record["step_s"] = time.perf_counter() - began
    record["exchanged"] = context.ends_round(step)
    report({**record, **context.meter.take()})
    if context.saves_checkpoint(step) and context.rank < context.plan.workers:
        needed = None if strategy.REPLICATED else _slowest(context, step + 1)
        save_checkpoint(
            Path(context.settings.checkpoints),
            step + 1,
            context.rank,
            context.trainer.state(),
            needed,
        )


def _slowest(context: Context, done: int) -> int:
    """Return the newest step before which every live worker has a checkpoint. Regions that do not
    wait for each other drift apart.
    """
    store, others = context.store, set(range(context.plan.workers)) - {context.rank}
    store.set(f"kept/{context.rank}", str(done))
    lives = [rank for rank in others if not store.check([f"dead/{rank}"])]
    return min(
        (
            int(store.get(f"kept/{rank}")) if store.check([f"kept/{rank}"]) else context.start
            for rank in lives
        ),
        default=done,
    )


def _rescue(context: Context, strategy: Executed, folder: Path, step: int) -> int | None:
    """Keep the state before the first step whose update is not in the model, where it serves all
    ranks; returns that step.

    Notes
    -----
    Where the exchange runs beside the next step, this is the step before the one that failed, and
    its gradient was calculated with parameters that are not the model's any more: they are kept
    too, so that the step can be done again as it was.
    """
    older: dict[str, Any] = {}
    overlapped = context.overlapped
    if overlapped is not None and overlapped.step is not None:
        step = overlapped.step
        older = {} if overlapped.parameters is None else {"seen": overlapped.parameters}
    if not (
        strategy.REPLICATED
        and context.settings.checkpoints
        and context.rank < context.plan.workers
        and step > context.start
    ):
        return None
    save_checkpoint(folder, step, context.rank, {**context.trainer.state(), **older})
    return step


def _first(store: Any, rank: int) -> int:
    """Return the rank that was lost first: one that stops because of another is not the cause."""
    try:
        return int(store.compare_set("lost", "", str(rank)))
    except (RuntimeError, ValueError):  # the store's own process is gone
        return rank


def _few(trainer: Trainer) -> dict[str, Any]:
    """Return the parameters of a small model, for tests and for reading a log by eye."""
    return {"parameters": trainer.vector().tolist()} if trainer.elements <= MOST_LOGGED else {}

"""The work of one rank: it makes the model, meets the others, takes the steps, and reports what it
measures.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.island.calculation import planned
from placer.launch.runtime.island.inner_group import InnerGroup, is_island_loss
from placer.launch.runtime.island.island_trainer import IslandTrainer
from placer.launch.runtime.island.lanes import exchanges_pieces
from placer.launch.runtime.island.leader import LeaderTrainer, follow
from placer.launch.runtime.island.seats import Seat
from placer.launch.runtime.processes.peer_loss import RESCUE, PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies import Executed, executed, saved_state, step_function
from placer.launch.runtime.training.checkpoint import (
    abandon_later,
    load_checkpoint,
    save_checkpoint,
    steps_of,
)
from placer.launch.runtime.training.context import Context, Settings
from placer.launch.runtime.training.memory import memory_error, out_of_memory
from placer.launch.runtime.training.overlapped_exchange import OverlappedExchange
from placer.launch.runtime.training.quorum import Quorum
from placer.launch.runtime.training.trainer import Trainer, digest_of
from placer.launch.runtime.wire.meter import Meter
from placer.launch.runtime.wire.wire import Wire
from placer.records import replace

PATIENT_S = 86_400.0
"""Time-out of gloo where one slow peer must not close the connections to all."""
MOST_LOGGED = 100
"""Models with so few parameters are written to the log, for tests and for reading it by eye."""
ISLAND_PATIENCE = 4.0
"""Time-outs for which processes of an island wait for the one that exchanges: it waits two."""
_UNTIL_EXIT: list[Any] = []
"""Objects whose destructors must not run: see `placer.launch.runtime.processes.rank_process`."""
Report = Callable[[dict[str, Any]], None]


def work(
    plan: RunPlan,
    settings: Settings,
    seat: Seat,
    store: Any,
    report: Report,
    backend: str = "gloo",
    card: Sequence[int] = (0, 1),
) -> None:
    """Run one process from the first step to the last.

    Parameters
    ----------
    seat
        Whose process it is. Of an island only the first process reports.
    store
        A ``torch.distributed`` store at which all ranks meet.
    report
        Takes one record after the other: ``ready``, ``step``, ``notice``, ``fault``, ``end``.
    backend
        gloo's name in ``torch.distributed``.
    card
        Number of this process among those of this machine, and how many they are.

    Raises
    ------
    PlacerError
        If the model, the device or a file is wrong.
    PeerLostError
        If another rank is gone and the strategy cannot go on.
    """
    trainer = None
    try:
        trainer = made_trainer(plan, settings, seat, store, card)
        _UNTIL_EXIT.append(trainer)
        if isinstance(trainer, IslandTrainer) and not exchanges_pieces(plan, settings.processes):
            if seat.member:
                follow(trainer)
                return
            trainer = LeaderTrainer(trainer)
            _UNTIL_EXIT.append(trainer)
        _train(
            plan, settings, seat, store, report if seat.member == 0 else _nothing, trainer, backend
        )
        if isinstance(trainer, LeaderTrainer):
            trainer.end()
    except (MemoryError, RuntimeError) as error:
        if out_of_memory(error):
            raise memory_error(plan, seat.rank, trainer.elements if trainer else 0) from None
        if seat.members > 1 and is_island_loss(error):
            raise PeerLostError(seat.rank, "another process of this island is gone") from None
        raise


def _nothing(record: dict[str, Any]) -> None:
    """Report nothing: the first process of the island does."""


def _train(
    plan: RunPlan,
    settings: Settings,
    seat: Seat,
    store: Any,
    report: Report,
    trainer: Trainer,
    backend: str,
) -> None:
    """Meet the others, take the steps, report the end."""
    strategy, rank = executed(plan), seat.rank
    folder = Path(settings.checkpoints)
    start, token = _island_meets(plan, settings, seat, store, trainer, strategy)
    settings = replace(
        settings, attempt=f"{settings.attempt}-{token}"
    )  # objects that another run left are not this one's
    kept = (
        load_checkpoint(folder, start, rank, replicated=strategy.REPLICATED)
        if start and rank < plan.workers and seat.member == 0
        else {}
    )
    if start and rank < plan.workers:
        trainer.load_state(kept)
    if kept:
        abandon_later(folder, start, settings.steps, rank)
    context = Context(
        plan=plan,
        settings=settings,
        rank=rank,
        trainer=trainer,
        meter=Meter(),
        store=store,
        start=start,
        resume_parameters=_seen(kept, trainer) if plan.exchange.overlap else None,
        kept=_kept_by_strategy(kept, trainer, seat),
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
        lane = (
            str(seat.member) if any(s.members > 1 for s in plan.seats(settings.processes)) else None
        )
        if plan.quorum is None:
            patience = PATIENT_S if patient else settings.timeout_s
            context.wire = Wire(plan, rank, store, meter, patience, backend, lane)
        else:
            _meet_quorum(context, strategy, meter, report)
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
            "elements": trainer.total_elements,
        }
    )
    step = start
    try:
        for step in range(start, settings.steps):
            if step < context.next_step:
                continue
            _take_step(context, strategy, state, step, report, seat)
    except PeerLostError as lost:
        report({"kind": RESCUE, "rank": rank})
        saved = _rescue(context, strategy, folder, step, seat)
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
    whole = trainer.whole()
    report(
        {
            "kind": "end",
            "rank": rank,
            "steps": settings.steps - start,
            "parameters_sha256": digest_of(whole),
            **({"parameters": whole.tolist()} if len(whole) <= MOST_LOGGED else {}),
            **trainer.joined(context.meter.take()),
        }
    )


def _meet_quorum(context: Context, strategy: Executed, meter: Meter, report: Report) -> None:
    """Let exchanges go on with a quorum: workers connect for each, and not for the whole run."""
    plan, settings, rank = context.plan, context.settings, context.rank
    own: Callable[[Context], tuple[int, ...]] | None = getattr(strategy, "exchange_steps", None)
    context.exchanges = (
        tuple(step for step in range(context.start, settings.steps) if context.ends_round(step))
        if own is None
        else own(context)
    )

    def say(other: int, leaves: bool, words: str) -> None:
        if leaves:
            context.notice(other, words)
        else:
            report({"kind": "back", "rank": other, "message": words})

    context.quorum = Quorum(
        plan,
        rank,
        context.store,
        meter,
        context.shares(),
        settings.timeout_s,
        len(context.exchanges) - 1,
        say,
    )


def made_trainer(
    plan: RunPlan, settings: Settings, seat: Seat, store: Any, card: Sequence[int]
) -> Trainer:
    """Make the model from the same seed everywhere; an island cuts it."""
    import torch

    from placer.profiler.devices import choose_device
    from placer.profiler.target import load_target
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
    inner = plan.inner_of(seat.rank)
    name = _own_gpu(settings.device, card) if seat.members > 1 else settings.device
    device = choose_device(name or None)
    if inner is None:
        return Trainer(
            workload,
            device,
            rank=seat.process,
            seed=settings.seed,
            microbatch=settings.microbatch,
        )
    workload = planned(workload, inner, device)
    microbatch = settings.inner_microbatch or inner.microbatch
    if seat.members == 1:
        return Trainer(
            workload, device, rank=seat.process, seed=settings.seed, microbatch=microbatch
        )
    group = InnerGroup(seat, store, ISLAND_PATIENCE * settings.timeout_s, device)
    trainer = IslandTrainer(
        workload, device, group=group, inner=inner, seed=settings.seed, microbatch=microbatch
    )
    if len(set(group.to_leader(trainer.first_digest()))) > 1:
        raise PlacerError(
            f"processes of {plan.rank_name(seat.rank)} begin with other parameters than its first",
            "make the model from torch's random numbers alone: they are seeded",
        )
    return trainer


def _own_gpu(device: str, card: Sequence[int]) -> str:
    """Return the device of a process of an island: each has a GPU of its own, as NCCL wants it.

    Raises
    ------
    PlacerError
        If there are more processes here than GPUs.
    """
    import torch

    number, processes = card
    if device != "cuda" and (device or not torch.cuda.is_available()):
        return device
    if processes > torch.cuda.device_count():
        raise PlacerError(
            f"{processes} processes of islands need a GPU each, this machine has "
            f"{torch.cuda.device_count()}",
            "give --device cpu, or fewer --processes",
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


def _island_meets(
    plan: RunPlan, settings: Settings, seat: Seat, store: Any, trainer: Trainer, strategy: Executed
) -> tuple[int, str]:
    """Meet as `_meet` does; of an island the first process meets the others, and tells its own."""
    if not isinstance(trainer, IslandTrainer):
        return _meet(plan, settings, seat.rank, store, trainer, strategy)
    met = _meet(plan, settings, seat.rank, store, trainer, strategy) if seat.member == 0 else None
    start, token = trainer.group.from_leader(met)
    return int(start), str(token)


def _seen(kept: Mapping[str, Any], trainer: Trainer) -> Any:
    """Return the parameters with which a step that failed under way was calculated, if any."""
    if not isinstance(trainer, IslandTrainer):
        return kept.get("seen")
    seen = trainer.group.from_leader(kept.get("seen"))
    return None if seen is None else trainer.piece_of(seen)


def _state_of_strategy(context: Context, state: Any) -> dict[str, Any]:
    """Return what the strategy keeps in a checkpoint: of an island, in the first process, one state
    for each process, whose piece of the vectors it holds.
    """
    own, trainer = saved_state(context.plan, context, state), context.trainer
    if not own:
        return {}
    each = trainer.group.to_leader(own) if isinstance(trainer, IslandTrainer) else [own]
    return {"strategy": each}


def _kept_by_strategy(kept: Mapping[str, Any], trainer: Trainer, seat: Seat) -> dict[str, Any]:
    """Return what the strategy of this process kept in the checkpoint.

    Raises
    ------
    PlacerError
        If the island was cut into other pieces then.
    """
    each = kept.get("strategy")
    if isinstance(trainer, IslandTrainer):
        each = trainer.group.from_leader(each)
    if each is None:
        return {}
    if len(each) != (trainer.group.size if isinstance(trainer, IslandTrainer) else 1):
        raise PlacerError(
            f"the checkpoint is of an island of {len(each)} processes",
            "resume it with as many, or begin with another --out",
        )
    own: dict[str, Any] = each[seat.member if isinstance(trainer, IslandTrainer) else 0]
    return own


def _meet(
    plan: RunPlan, settings: Settings, rank: int, store: Any, trainer: Trainer, strategy: Executed
) -> tuple[int, str]:
    """Wait for all ranks, check that they begin alike, and agree on the step to begin with and on a
    name for this attempt.
    """
    own_steps = (
        steps_of(Path(settings.checkpoints), rank, replicated=strategy.REPLICATED)
        if settings.resume and settings.checkpoints
        else set()
    )
    hello = {
        "digest": trainer.first_digest(),
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


def _take_step(
    context: Context, strategy: Executed, state: Any, step: int, report: Report, seat: Seat
) -> None:
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
    report({**record, **context.trainer.joined(context.meter.take())})
    if context.saves_checkpoint(step) and context.rank < context.plan.workers:
        whole = {**context.trainer.state(), **_state_of_strategy(context, state)}
        if seat.member == 0:
            needed = None if strategy.REPLICATED else _slowest(context, step + 1)
            save_checkpoint(
                Path(context.settings.checkpoints), step + 1, context.rank, whole, needed
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


def _rescue(
    context: Context, strategy: Executed, folder: Path, step: int, seat: Seat
) -> int | None:
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
        seen = overlapped.parameters
        older = {} if seen is None else {"seen": context.trainer.whole_of(seen)}
    if not (
        strategy.REPLICATED
        and context.settings.checkpoints
        and context.rank < context.plan.workers
        and step > context.start
    ):
        return None
    state = {**context.trainer.state(), **older}
    if seat.member == 0:
        save_checkpoint(folder, step, context.rank, state)
    return step


def _first(store: Any, rank: int) -> int:
    """Return the rank that was lost first: one that stops because of another is not the cause."""
    try:
        return int(store.compare_set("lost", "", str(rank)))
    except (RuntimeError, ValueError):  # the store's own process is gone
        return rank

"""A rehearsal from end to end: make the plan small, measure this machine, predict, run through shaped links, compare."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.exchange import traits
from placer.fitting.run_log import whole_rounds
from placer.manifest import Manifest
from placer.manifest.question import question_of
from placer.rehearsal.kill import Kill, survived
from placer.rehearsal.machine import calibrated
from placer.rehearsal.network import ShapedNetwork, shaped_network
from placer.rehearsal.scaled import Scaled, fewer, scaled, usual_scale, without_hosts
from placer.rehearsal.stand_in import ELEMENTS, TRAIN
from placer.runtime.context import Settings
from placer.runtime.launcher import Record
from placer.runtime.plan import Plan, plan_from
from placer.runtime.runs import run_here
from placer.units import format_duration

WARM_ROUNDS = 1
"""Rounds that open connections, and are not counted."""
MACHINE_ROUNDS = 4
"""Rounds without shaped links, the first of them not counted."""
MACHINE_CALCULATION_S = 0.05
"""What a worker calculates in a step of them: they measure the rest."""
MOST_BYTES = 8e9
"""Most that a rehearsal sends between its machines."""
TIMEOUT_S = 60.0
POLL_S = 0.05
"""Between two looks into the object store: the wait for the next one is nothing beside a round."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """How a plan is rehearsed.

    Parameters
    ----------
    scale
        Bytes and calculation over those of the plan; None: so that a round takes a few seconds.
    rounds
        That are measured.
    per_group
        Most workers of each group; None: all.
    method
        Of the network: ``auto`` or one of `placer.rehearsal.network`.
    limit_s
        Longest time that the prediction may say, all rounds together.
    kill
        A worker that dies, and when.
    train
        ``module:function`` of the user's own model; None: a vector of the scaled size.
    """

    scale: float | None = None
    rounds: int = 5
    per_group: int | None = None
    method: str = "auto"
    limit_s: float = 600.0
    kill: Kill | None = None
    train: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What came of it.

    Parameters
    ----------
    small
        The plan that was run, with the constants of this machine.
    plan, settings
        Of its manifest, and how it was run.
    method, why_not
        How links were shaped, and why not better.
    records
        Of the run through shaped links.
    sent
        Bytes on the wire by directed pair of places, of one round.
    slower
        Links that are faster in the plan than anything here: cut, for the prediction too.
    deaths
        What the death of a worker did, in words.
    """

    small: Scaled
    plan: Plan
    settings: Settings
    method: str
    why_not: str
    records: Sequence[Record]
    sent: Mapping[tuple[str, str], float]
    slower: tuple[tuple[str, str], ...]
    deaths: tuple[str, ...] = ()

    @property
    def went_on(self) -> bool:
        """Whether some worker died and the others went on without it."""
        return any(record["kind"] == "notice" for record in self.records)


Said = Callable[[str], None]


def rehearse(manifest: Manifest, where: str, wishes: Wishes, folder: Path, say: Said = lambda words: None) -> Rehearsal:
    """Rehearse a manifest on this machine.

    Parameters
    ----------
    where
        Name of its file, for errors.
    folder
        Of the logs.
    say
        Takes a line on what happens now.

    Raises
    ------
    PlacerError
        If the plan cannot be rehearsed here, or the run fails.
    """
    problem, placement = question_of(manifest, where)
    _check(placement.exchange.strategy, placement.workers, where)
    placement, problem = fewer(placement, wishes.per_group), without_hosts(problem)
    if wishes.kill is not None:
        wishes.kill.check(placement.workers, (wishes.rounds + WARM_ROUNDS) * manifest.exchange.local_steps)
    _make(folder)
    elements = None if wishes.train is None else own_elements(wishes.train)
    scale = wishes.scale or (usual_scale(problem, placement) if elements is None else elements * 4 / problem.profile.gradient_bytes_fp32)
    first = scaled(problem, placement, scale, float("inf"), elements)
    with _named_end(), shaped_network(first.machines, first.shapes, wishes.method) as network:
        carried = network.carries_bytes_per_s()
        small = scaled(problem, placement, scale, carried, elements)
        _bound(small, wishes)
        say(f"measuring this machine: {MACHINE_ROUNDS} rounds without shaped links")
        small = small.calibrated(calibrated(small, _unshaped(small, wishes, folder)))
        say(f"rehearsing: {wishes.rounds + WARM_ROUNDS} rounds of about {small.estimate.step.total:.3g} s through shaped links")
        try:
            return _shaped(small, network, wishes, folder, say)
        except PlacerError as error:
            network.sent_bytes()  # where the relay has ended, that is why, and it says so
            if error.exit_code != 1:
                raise
            raise PlacerError(error.message, f"start the rehearsal again; its log is {folder / 'run.jsonl'}", exit_code=1) from None


@contextmanager
def _named_end() -> Iterator[None]:
    """Say that the relay has ended where its pipe only breaks: the command takes a broken pipe for a reader that has gone."""
    try:
        yield
    except BrokenPipeError:
        raise PlacerError("the relay of the rehearsal's network has ended", "start the rehearsal again", exit_code=1) from None


def own_elements(train: str) -> int:
    """Trainable parameters of a user's model."""
    from placer.profiler.target import load_target
    from placer.profiler.workload import Workload

    workload = load_target(train, None)
    if not isinstance(workload, Workload):
        raise PlacerError(f"{train} returns a step function", "a rehearsal needs the model: return a Workload or (module, batch, loss)")
    elements: int = sum(p.numel() for p in workload.module.parameters() if p.requires_grad)
    if not elements:
        raise PlacerError(f"the model of {train} has no parameter that is trained", "give a module with parameters that require a gradient")
    return elements


def _check(strategy: str, workers: int, where: str) -> None:
    if workers == 1:
        raise PlacerError(f"{where}: one worker exchanges nothing, so there is nothing to rehearse", "placer run executes it")
    if traits(strategy).transport == "regional-stores":
        raise PlacerError(f"{where}: a rehearsal has one object store, {strategy} one in each region", "plan with --exchange central")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        words = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise PlacerError(f"cannot make the folder '{folder}': {words}", "choose another --dir") from None
    if not os.access(folder, os.W_OK):
        raise PlacerError(f"cannot write into '{folder}'", "choose another --dir")


def _bound(small: Scaled, wishes: Wishes) -> None:
    """Refuse what takes too long or sends too much, before anything is started."""
    rounds = wishes.rounds + WARM_ROUNDS
    seconds = small.estimate.step.total * rounds
    if seconds > wishes.limit_s:
        raise PlacerError(
            f"{rounds} rounds take at least {format_duration(seconds)}, the limit is {format_duration(wishes.limit_s)}",
            "a smaller --scale or a larger --limit",
        )
    sent = sum(use.bytes_per_step for use in small.estimate.links) * (rounds + MACHINE_ROUNDS)
    if sent > MOST_BYTES:
        words = f"the rehearsal would send {sent / 1e9:.3g} GB, the limit is {MOST_BYTES / 1e9:g} GB"
        raise PlacerError(words, "a smaller --scale, or fewer --rounds")


def _settings(small: Scaled, plan: Plan, wishes: Wishes, rounds: int, folder: Path) -> Settings:
    rates = [group.samples_per_second or 1.0 for group in plan.groups for _ in range(group.count)]
    return Settings(
        train=wishes.train or TRAIN,
        steps=rounds * plan.steps_per_round,
        target_batch_size=plan.target_batch_size,
        microbatch=plan.microbatch,
        checkpoints=str(folder.absolute() / "checkpoints"),
        checkpoint_every=0,
        timeout_s=max(TIMEOUT_S, 3 * small.estimate.slow_step.total),
        poll_s=POLL_S,
        attempt=plan.name,
        paced=tuple(rates),
    )


def _unshaped(small: Scaled, wishes: Wishes, folder: Path) -> list[list[Mapping[str, Any]]]:
    """Warm rounds with next to no calculation over the loopback device, past the relay.

    Notes
    -----
    Through the relay without shaping they would measure the relay, which carries all links one after the other; with shaping it
    works while the slowest link is waited for.
    """
    document = small.manifest()
    plan = plan_from(document, "rehearsal")
    settings = _settings(small, plan, wishes, MACHINE_ROUNDS, folder)
    seconds = small.estimate.step.calculation / plan.steps_per_round
    faster = max(1.0, seconds / MACHINE_CALCULATION_S)
    settings = replace(settings, paced=tuple(rate * faster for rate in settings.paced))
    environment = {ELEMENTS: str(small.elements)}
    records = run_here(plan, document, settings, folder / "machine", lambda record: None, environment=environment)
    return _rounds(records, plan)[WARM_ROUNDS:]


def _shaped(small: Scaled, network: ShapedNetwork, wishes: Wishes, folder: Path, say: Said) -> Rehearsal:
    document = small.manifest()
    plan = plan_from(document, "rehearsal")
    rounds = wishes.rounds + WARM_ROUNDS
    settings = _settings(small, plan, wishes, rounds, folder)
    before = Counter(network.sent_bytes())
    began = time.monotonic()
    deaths: list[str] = []

    def run(settings: Settings, watch: Callable[[Record], None]) -> list[Record]:
        environment = {ELEMENTS: str(small.elements)}
        return run_here(plan, document, settings, folder, watch, network=network, environment=environment)

    watch = _watch(plan, rounds, began, say)
    records = run(settings, watch) if wishes.kill is None else survived(wishes.kill, plan, settings, run, watch, deaths.append)
    sent = Counter(network.sent_bytes())
    sent.subtract(before)
    return Rehearsal(
        small=small,
        plan=plan,
        settings=settings,
        method=network.method,
        why_not=network.why_not,
        records=records,
        sent=_by_places(sent, small.machines, max(1, len(_rounds(records, plan)))),
        slower=tuple((shape.src, shape.dst) for shape in network.slower),
        deaths=tuple(deaths),
    )


def _rounds(records: Sequence[Record], plan: Plan) -> list[list[Mapping[str, Any]]]:
    return whole_rounds((r for r in records if r["kind"] == "step"), plan.workers, plan.steps_per_round)


def _watch(plan: Plan, rounds: int, began: float, say: Said) -> Callable[[Record], None]:
    """Say when a round is through."""
    ended: Counter[int] = Counter()
    lost: set[int] = set()
    said: set[int] = set()

    def watch(record: Record) -> None:
        if record["kind"] == "lost":
            lost.add(record["rank"])
        elif record["kind"] == "step" and record["exchanged"] and record["rank"] < plan.workers:
            step = record["step"]
            ended[step] += 1
            if ended[step] >= plan.workers - len(lost) and step not in said:
                said.add(step)
                say(f"round {len(said)}/{rounds}, {time.monotonic() - began:.0f} s")

    return watch


def _by_places(sent: Mapping[tuple[int, int], int], machines: Sequence[str], rounds: int) -> dict[tuple[str, str], float]:
    total: Counter[tuple[str, str]] = Counter()
    for (src, dst), count in sent.items():
        total[machines[src], machines[dst]] += count
    return {pair: count / rounds for pair, count in total.items() if count}

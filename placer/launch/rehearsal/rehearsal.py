"""A rehearsal from end to end: options, the small plan, its network, the run, its records."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.cost_model.estimate import estimate
from placer.documents.manifest import Manifest
from placer.documents.manifest.types import check_executable, question_of
from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder
from placer.launch.rehearsal.processes import Start
from placer.launch.rehearsal.small_plan import SmallPlan, as_hosts, fewer, small_plan
from placer.launch.rehearsal.stand_in_model import TRAIN
from placer.launch.runtime.run_log import all_rounds, rounds_of
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.shaped_network import ShapedNetwork, open_network
from placer.units import counted, format_duration

WARM_ROUNDS = 1
"""Rounds that open connections, and are not counted."""
OVERLAP_ROUNDS = 2
"""More rounds with overlap: the first has no exchange yet, the last waits for its own."""
MOST_PROCESSES = 48
"""About 100 MB of memory each."""


@dataclass(frozen=True, kw_only=True)
class RehearsalOptions:
    """The options of a rehearsal: bytes over those of the plan, at best so that an exchange takes a
    second or two; the rounds that are measured; the most workers of each group; the longest that
    all exchanges are priced at; the worker that dies, and in which step; and the user's own model.
    """

    scale: float | None = None
    rounds: int = 5
    per_group: int | None = None
    limit_s: float = 600.0
    kill: tuple[int, int] | None = None
    train: str | None = None

    def all_rounds(self, *, overlap: bool) -> int:
        """Return the number of rounds that are run."""
        return self.rounds + WARM_ROUNDS + (OVERLAP_ROUNDS if overlap else 0)

    def check(self, small: SmallPlan, plan: RunPlan) -> None:
        """Refuse what is too much or too long for one machine, or has no such worker or step."""
        processes, rounds = len(plan.machines), self.all_rounds(overlap=plan.exchange.overlap)
        if processes > MOST_PROCESSES:
            raise PlacerError(
                f"workers, functions and stores of the plan are {processes} processes, a rehearsal "
                f"has at most {MOST_PROCESSES}",
                "rehearse fewer of each group: --per-group 1, or a plan of fewer regions",
            )
        seconds = small.exchange_s * rounds
        if seconds > self.limit_s:
            raise PlacerError(
                f"{rounds} exchanges take at least {format_duration(seconds)}, the limit is "
                f"{format_duration(self.limit_s)}",
                "a smaller --scale or a larger --limit",
            )
        if self.kill is not None:
            check_kill(*self.kill, plan, rounds * plan.exchange.local_steps)


def read_kill(words: str) -> tuple[int, int]:
    """Read ``RANK@STEP``.

    >>> read_kill("2@3")
    (2, 3)
    """
    match = re.fullmatch(r"([0-9]{1,6})@([0-9]{1,9})", words.strip())
    if match is None or int(match[2]) < 1:
        raise PlacerError(
            f"'{words}' does not name a worker and a step",
            "give RANK@STEP with a step from 1, such as 1@2",
        )
    return int(match[1]), int(match[2])


def check_kill(rank: int, step: int, plan: RunPlan, steps: int) -> None:
    """Refuse a worker or a step that a run of so many steps does not have."""
    if plan.buckets:
        raise PlacerError(
            f"--kill: functions and stores of {plan.exchange.strategy} start with their workers as "
            f"one run",
            "rehearse it without --kill",
        )
    if rank >= plan.workers or step >= steps:
        raise PlacerError(
            f"there is no worker {rank} that dies in step {step}",
            f"workers are ranks 0 to {plan.workers - 1}, steps 1 to {steps - 1}",
        )


MACHINE_ROUNDS = 3
"""Rounds of an exchange through stores without shaped links, the first of them not counted."""
LEAST_LINK_SHARE = 0.01
"""Links that carry less, beside the busiest, are not judged: acknowledgements."""
Record = Mapping[str, Any]
Pair = tuple[str, str]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The result of a rehearsal: of ``records`` the steps of all ranks in whole rounds, bytes on
    the wire in one round, and bytes/s of the slowest link, each by directed pair of places.

    ``priced_again``: seconds of the whole plan's exchange as its manifest says, and as its question
    is priced. ``machine_s``: what this machine takes for an exchange through unshaped stores.
    ``deaths``: what the death of a worker did; ``went_on``: the others went on without it.
    """

    small: SmallPlan
    plan: RunPlan
    records: Sequence[Record]
    sent: Mapping[Pair, float]
    rates: Mapping[Pair, float]
    priced_again: tuple[float, float]
    machine_s: float = 0.0
    deaths: tuple[str, ...] = ()
    went_on: bool = False

    @property
    def rounds(self) -> int:
        """Return the number of rounds that were run."""
        return max(1, len(all_rounds(self.records, self.plan)))


def rehearse(
    manifest: Manifest,
    where: str,
    options: RehearsalOptions,
    folder: Path,
    say: Say = lambda words: None,
) -> Rehearsal:
    """Rehearse a manifest, which lies at ``where``; ``say`` takes a line on what happens now."""
    check_executable(manifest, where)
    problem, planned = question_of(manifest, where)
    if planned.workers == 1:
        raise PlacerError(
            f"{where}: one worker exchanges nothing, so there is nothing to rehearse",
            "placer run executes it",
        )
    placement = fewer(as_hosts(planned, where), options.per_group)
    elements = None
    if options.train is not None:
        from placer.launch.runtime.training.trainer import load_model  # PyTorch with it

        model = load_model(options.train).module
        elements = sum(p.numel() for p in model.parameters() if p.requires_grad)
    small = small_plan(problem, placement, options.scale, elements)
    plan = small.plan
    options.check(small, plan)
    start = Start(
        plan=plan, document=small.manifest(), train=options.train or TRAIN, elements=small.elements
    )
    rounds = options.all_rounds(overlap=plan.exchange.overlap)
    expected = manifest.expected.step_seconds.get("communication", 0.0)
    priced_again = (expected, estimate(planned, problem).step.communication)
    with locked_folder(folder), open_network(plan.machines, small.shapes) as network:
        machine_s = _machine_s(start, folder, say) if plan.buckets else 0.0
        exchange = f"exchanges of about {small.exchange_s:.3g} s"
        say(f"rehearsing: {rounds} {exchange} through shaped links")
        run = _Run(start, network, folder, say)
        deaths = run.all(rounds * plan.exchange.local_steps, options.kill)
        return Rehearsal(
            small=small,
            plan=plan,
            records=run.records,
            sent=run.sent(),
            rates=run.rates(),
            priced_again=priced_again,
            machine_s=machine_s,
            deaths=tuple(deaths),
            went_on=len(deaths) == 1,
        )


def _machine_s(start: Start, folder: Path, say: Say) -> float:
    """Return what stores and functions of this machine take for an exchange over loopback."""
    say(f"measuring this machine: {MACHINE_ROUNDS} rounds without shaped links")
    steps = MACHINE_ROUNDS * start.plan.exchange.local_steps
    records = start.stores(None, steps, folder / "machine", lambda record: None)
    return min(exchange_seconds(records, start.plan), default=0.0)


def exchange_seconds(records: Sequence[Record], plan: RunPlan) -> list[float]:
    """Return the seconds of the exchange of each round that counts, without calculation.

    Where messages are timed, the time in which they are under way; what a worker does with them
    beside that is this machine's. Among peers the last to come waits for nobody, so the shortest
    counts, in a world step by step; with a hub the longest, less what the hub works.
    """
    each = []
    for records_of_round in rounds_of(records, plan):
        by_rank: dict[int, list[Record]] = {}
        for record in records_of_round:
            by_rank.setdefault(record["rank"], []).append(record)
        worlds = [[by_rank[rank] for rank in world if rank in by_rank] for world in plan.worlds]
        workers = [_waited_s(ranks) for ranks in worlds if ranks]
        works = [
            sum(sum(r["exchange_s"].values()) - r.get("wire_s", 0.0) for r in own)
            for rank, own in by_rank.items()
            if rank >= plan.workers and not plan.buckets
        ]
        each.append(max(workers) - max(works, default=0.0) if plan.hubs else min(workers))
    return each


def _waited_s(ranks: Sequence[Sequence[Record]]) -> float:
    """Return the seconds of the exchange of one world, whose ranks take the same steps; sends of
    its first rank are waited for before the next ones.
    """
    steps = list(zip(*ranks, strict=False))
    wire_s = float(sum(min(r.get("wire_s", 0.0) for r in step) for step in steps))
    wire_s += float(sum(r["exchange_s"].get("send", 0.0) for own in ranks for r in own))
    return wire_s or float(sum(min(r["step_s"] - r["calculation_s"] for r in s) for s in steps))


class _Run:
    """A run through shaped links, and the next one where a worker died."""

    def __init__(self, start: Start, network: ShapedNetwork, folder: Path, say: Say) -> None:
        self.start, self.network, self.folder, self.say = start, network, folder, say
        self.records: list[Record] = []
        self.before = self.after = network.traffic()

    def all(self, steps: int, kill: tuple[int, int] | None) -> list[str]:
        """Run all; say what a death did: one line if others went on, two if all began again."""
        plan = self.start.plan
        if kill is None:
            self._once(steps)
            return []
        rank, step = kill
        death, h = f"{plan.rank_name(rank)} killed in step {step}", plan.exchange.local_steps
        try:
            self._once(steps, kill)
        except PlacerError as error:
            deaths = [f"{death}; the run ended: {error.message}"]
        else:
            return [f"{death}; {counted(plan.workers - 1, 'worker')} went on"]
        self._once(-(-(step + steps) // h) * h, resume=True)
        first = next(record["start"] for record in self.records if record["kind"] == "ready")
        again = step - first
        lost = f"{counted(again, 'whole step')} and the step" if again > 0 else "the step"
        were = "were" if again > 0 else "was"
        return [*deaths, f"resumed before step {first}: {lost} under way {were} done again"]

    def _once(
        self, steps: int, kill: tuple[int, int] | None = None, *, resume: bool = False
    ) -> None:
        """Run once; what is counted is that of this run."""
        start, plan, began = self.start, self.start.plan, time.monotonic()
        rounds = steps // plan.exchange.local_steps

        def watch(record: Record) -> None:
            if record["kind"] == "step" and record["exchanged"] and record["rank"] == 0:
                number = record["step"] // plan.exchange.local_steps + 1
                self.say(f"round {number}/{rounds}, {time.monotonic() - began:.0f} s")

        self.before = self.network.traffic()
        self.records = (
            start.stores(self.network, steps, self.folder, watch)
            if plan.buckets
            else start.scripts(self.network, steps, self.folder, watch, kill, resume=resume)
        )
        self.after = self.network.traffic()

    def sent(self) -> dict[Pair, float]:
        """Return the bytes on the wire by directed pair of places, of one round."""
        plan = self.start.plan
        rounds = max(1, len(all_rounds(self.records, plan)))
        total: Counter[Pair] = Counter()
        for (src, dst), (sent, _) in self.after.items():
            total[plan.machines[src], plan.machines[dst]] += sent - self.before[src, dst][0]
        return {pair: count / rounds for pair, count in total.items() if count}

    def rates(self) -> dict[Pair, float]:
        """Return the bytes/s of the slowest link of each directed pair of places, of those that
        carry gradients: messages of a few bytes wait for cards longer than they are carried.
        """
        found: dict[Pair, float] = {}
        moved = {way: sent - self.before[way][0] for way, (sent, _) in self.after.items()}
        for (src, dst), count in moved.items():
            pair = self.start.plan.machines[src], self.start.plan.machines[dst]
            seconds = self.after[src, dst][1] - self.before[src, dst][1]
            if seconds > 0 and count > LEAST_LINK_SHARE * max(moved.values()):
                found[pair] = min(found.get(pair, float("inf")), count / seconds)
        return found

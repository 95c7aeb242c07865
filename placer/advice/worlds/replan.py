"""Replan: a question solved again with what its run measured; keep what runs, or move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from msgspec import to_builtins

from placer.advice.recommendation.other_answers import wanting
from placer.advice.worlds.whatif import Kept, apply, keep
from placer.cost_model.estimate import estimate, replanned
from placer.documents.manifest.types import Manifest
from placer.documents.result_parts import (
    data_document,
    estimate_document,
    placement_document,
    request_document,
)
from placer.documents.schemas.worlds import LostWorker, Observed
from placer.errors import PlacerError
from placer.market.catalog import device_name
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Used
from placer.problem.words.changes import Change, change_document, parse_changes
from placer.records import replace
from placer.report.shown import Shown
from placer.solving import allowance
from placer.solving.answer import SolveOptions
from placer.solving.result import Result, answer_document
from placer.solving.solve import solve
from placer.units import format_plain
from placer.validation.calibration.observations import group_of

SCHEMA = "placer.replan/v1"
MOVE_S = 600.0
"""A spot machine starts within seconds to ten minutes (Erben et al., 2024); the slow end."""
LEAST_GAIN = 0.02
"""Gains below are not worth a move: estimates are no better."""
BETWEEN = "between regions"
MOST_LINK_FACTOR = 10.0
"""Links that seem so much faster or slower than planned are not told from waiting by one run."""


@dataclass(frozen=True, kw_only=True)
class Replan(Shown):
    """What was observed, and whether to keep the plan.

    ``running`` is the plan without lost workers in the observed world, None if all are lost;
    ``answer`` the choice: the best that keeps every machine in use where nothing else is better by
    more than `LEAST_GAIN`, else the best of all. ``gain`` is its share of improvement over what
    runs (None if that cannot go on), ``break_even_s`` the seconds after which a move has paid off.
    """

    manifest: Manifest
    observed: Observed
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    planned: Placement
    running: Kept | None
    answer: Result
    gain: float | None
    move_s: float

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.verdict}: {self.answer.headline}>"

    @property
    def verdict(self) -> str:
        """``keep``, ``restore`` (start the lost machines again), ``move`` or ``nothing``."""
        if self.answer.placement is None:
            return "keep" if self.running is not None and not self.running.broken else "nothing"
        if self.gain is not None and self.gain <= max(LEAST_GAIN, self.answer.gap or 0.0):
            return "keep"
        same = self.answer.placement.canonical() == self.planned.canonical()
        return "restore" if same else "move"

    @property
    def break_even_s(self) -> float | None:
        """Seconds from the beginning of a move until it has paid off; see `break_even_seconds`."""
        gain = self.gain
        return None if gain is None or gain <= 0 else break_even_seconds(self.move_s, gain)

    @property
    def kept_machines(self) -> int:
        """Machines in use that the answer keeps."""
        if self.running is None or self.answer.placement is None:
            return 0
        return (_machines(self.running.placement) & _machines(self.answer.placement)).total()

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.replan/v1`` document."""
        world, kept = self.answer.problem, self.running
        running = None
        if kept is not None:
            priced = kept.estimate and placement_document(kept.placement, world)
            running = {
                "placement": priced,
                "estimate": kept.estimate and estimate_document(kept.estimate),
                "value": kept.value,
                "violations": list(kept.broken),
            }
        return {
            "schema": SCHEMA,
            "manifest": {"name": self.manifest.name, "digest": self.manifest.digest},
            "request": request_document(world),
            "data": data_document(world),
            "observed": to_builtins(self.observed),
            "changes": [change_document(change) for change in self.changes],
            "running": running,
            "answer": answer_document(self.answer),
            "verdict": self.verdict,
            "gain": self.gain,
            "move_seconds": self.move_s,
            "break_even_seconds": self.break_even_s,
            "kept_machines": self.kept_machines,
            "notes": list(self.notes),
        }


def break_even_seconds(move_s: float, gain: float) -> float:
    """Return when a move has paid off: training stands still while the new machines are paid for.

    ``gain`` is a share of the new samples/s, else of the old USD/h or USD per sample. Samples: s1
    (Z - T) = s0 Z gives Z = T s1 / (s1 - s0). USD/h, with lost samples at the old price of a
    sample: (c0 - c1) Z = c0 T. USD per sample p: p0 s1 (Z - T) = p1 s1 Z. All three are Z = T /
    gain. A quarter more samples/s (20 % of the new ones) makes up for ten minutes in fifty.

    >>> round(break_even_seconds(600, 1 - 1 / 1.25))
    3000
    """
    return move_s / gain


def replan(
    manifest: Manifest,
    planned: Placement,
    problem: Problem,
    seen: Observed,
    *,
    changes: Sequence[Change] = (),
    solver: str = "exact",
    options: SolveOptions | None = None,
    move_s: float = MOVE_S,
) -> Replan:
    """Solve the question of a plan again, with a whole book, with what its run measured.

    ``changes`` are more that has changed since, such as prices, as of `parse_changes`; a move stops
    the training for ``move_s``.
    """
    options = options or SolveOptions()
    measured, notes = _measured(seen, problem, planned)
    changes = (*measured, *changes)
    world = apply(problem, changes)
    left = _without(planned, seen.lost, manifest, world)
    running = None if left is None else keep(left, world)
    # One Ctrl-C ends both searches.
    with allowance.opened(memory_limit_bytes=options.memory_limit_bytes, cancel=options.cancel):
        answer = _answer(world, running, solver, options)
    gain, before = None, None if running is None or running.broken else running.value
    if before is not None and answer.value is not None:
        gain = answer.objective.improvement(answer.value, before)
    return Replan(
        manifest=manifest,
        observed=seen,
        changes=changes,
        notes=tuple(notes),
        planned=planned,
        running=running,
        answer=answer,
        gain=gain,
        move_s=move_s,
    )


def _measured(
    seen: Observed, problem: Problem, planned: Placement
) -> tuple[tuple[Change, ...], list[str]]:
    """Return the speeds and links as changes of the world; what the log does not tell is said."""
    if not seen.speeds and not seen.lost and seen.links != "real":
        what = "a rehearsal" if seen.links == "shaped" else "a run on one machine"
        words = "its speed and links are not the plan's, so all is held as planned"
        return (), [f"the log is of {what}: {words}"]
    if not seen.speeds:
        return (), ["the log tells who was lost, not how fast the plan's machines and links are"]
    if problem.profile.architecture is not None and not problem.profile.rates:
        return (), [
            "speeds of a language model follow from its architecture and the inner plan, so what "
            "is below holds them as planned"
        ]
    rates = parse_changes(
        [
            f"rate:{gpu}:{count or 1}=x{format_plain(speed.factor, 6)}"
            for speed in seen.speeds
            for gpu, _, count in [speed.device.partition(":")]
        ]
    )
    if seen.exchange_s is None:
        return rates, []
    step = estimate(planned, apply(problem, rates)).step
    wan = dict(step.parts).get(BETWEEN, 0.0)
    took = (
        f"the exchange took {format_plain(seen.exchange_s)} s a round, planned are "
        f"{format_plain(step.communication)} s"
    )
    if not wan or len(planned.places) < 2:
        return rates, [f"{took}: what is below holds it as planned"]
    over_links = seen.exchange_s - (step.communication - wan)
    if not wan / MOST_LINK_FACTOR <= over_links <= wan * MOST_LINK_FACTOR:
        untold = "one run does not tell what of it the links are"
        return rates, [f"{took}: {untold}, so what is below holds them as planned"]
    factor = format_plain(wan / over_links, 6)
    pairs = combinations(sorted(planned.places), 2)
    links = parse_changes([f"bandwidth:{a}:{b}=x{factor}" for a, b in pairs])
    return (*rates, *links), []


def _without(
    planned: Placement, lost: Sequence[LostWorker], manifest: Manifest, world: Problem
) -> Placement | None:
    """Return the plan without its lost workers; None if none is left."""
    gone: Counter[str] = Counter()
    for one in lost:
        group = group_of(one.rank, manifest.groups)
        if group is not None:
            gone[group.name] += 1
    left = [
        (group, group.count - gone[said.name])
        for group, said in zip(planned.groups, manifest.groups, strict=True)
    ]
    groups = tuple(replace(group, count=count) for group, count in left if count > 0)
    if not groups:
        return None
    alone = sum(group.count for group in groups) == 1
    exchange = exchange_for("none", 1, world) if alone else planned.exchange
    return replanned(replace(planned, groups=groups, exchange=exchange), world)


def _answer(world: Problem, running: Kept | None, solver: str, options: SolveOptions) -> Result:
    """Return the best placement; one that keeps every machine in use where it is about as good."""
    start = None if running is None or running.broken else running.placement
    options = replace(options, start=start)
    best = solve(world, solver, options)
    if running is None or best.value is None:
        return best
    rules = tuple(
        Used(place=p, device=d, market=m, count=n, given=False)
        for (p, d, m), n in sorted(_machines(running.placement).items())
    )
    staying = wanting(world, used=(*world.requirements.used, *rules))
    try:
        stays = solve(staying, solver, options)
    except PlacerError:  # nothing of what runs is admitted any more
        return best
    if stays.value is None or best.objective.improvement(best.value, stays.value) > LEAST_GAIN:
        return best
    # What keeps every machine in use is bounded by less than what may also leave them.
    return replace(stays, problem=world, bound=best.bound, proof=best.proof)


def _machines(placement: Placement) -> Counter[tuple[str, str, str]]:
    """Return the machines by place, device and market."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for group in placement.groups:
        counts[group.place, device_name(group.gpu, group.gpu_count), group.market] += group.count
    return counts

"""Replay: policies over a trace from many starts, beside the offline optimum and what they are
sensitive to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from statistics import fmean
from typing import Any

from placer.advice.policy.job import Job, Market
from placer.advice.policy.offline_optimum import offline_bound, offline_optimum
from placer.advice.policy.policies import POLICIES, policy_named
from placer.advice.policy.simulator import Run, Summary, simulate, starts_of, ticks_of
from placer.advice.policy.trace import Trace
from placer.advice.runner.runner import Opener, answers, here
from placer.errors import PlacerError, unknown
from placer.records import replace
from placer.report.shown import Shown

SCHEMA = "placer.replay/v1"
PART = 16
"""Starts of one policy that one process runs at a time."""
ASSUMPTION = "on-demand machines are always available"
SLOW_REFORM_H = 0.2
LOW_EFFICIENCY = 0.85
NAMES = tuple(policy.name for policy in POLICIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay(Shown):
    """Policies over one trace.

    Notes
    -----
    ``optimum_usd`` and ``bound_usd`` are means over the starts; None where they were not asked for.
    ``sensitive`` has span's mean dollars where re-forming or several places cost more.
    """

    trace: Trace
    job: Job
    market: Market
    starts: tuple[int, ...]
    summaries: tuple[Summary, ...]
    optimum_usd: float | None
    bound_usd: float | None
    sensitive: tuple[tuple[str, float], ...]

    def __repr__(self) -> str:
        names = ", ".join(summary.policy.name for summary in self.summaries)
        return f"<Replay of {names} from {len(self.starts)} starts>"

    def summary(self, name: str) -> Summary:
        """Return the runs of one policy.

        Raises
        ------
        PlacerError
            If it was not replayed.
        """
        for summary in self.summaries:
            if summary.policy.name == name:
                return summary
        raise unknown("policy", name, [summary.policy.name for summary in self.summaries])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.replay/v1`` document: plain types, ready for JSON; within v1 keys are
        only added.
        """
        trace, job, market = self.trace, self.job, self.market
        return {
            "schema": SCHEMA,
            "trace": {
                "zones": list(trace.zones),
                "first": f"{trace.first:%Y-%m-%dT%H:%MZ}",
                "ticks": trace.ticks,
                "tick_hours": trace.tick_h,
                "asked": trace.most,
                "carried": trace.carried,
            },
            "job": {
                "machines": job.machines,
                "work_hours": job.work_h,
                "deadline_hours": job.deadline_h,
                "restart_hours": job.restart_h,
                "reform_hours": job.reform_h,
                "efficiency": job.efficiency,
                "quorum": job.quorum,
                "checkpoint_gib": job.checkpoint_gib,
                "exchange_gib_per_hour": job.exchange_gib_per_h,
            },
            "market": {
                "on_demand_place": market.on_demand_place,
                "on_demand_usd_per_hour": market.on_demand_usd_per_hour,
                "source": market.source,
            },
            "starts": [f"{trace.time(tick):%Y-%m-%dT%H:%MZ}" for tick in self.starts],
            "policies": [self._summary(one) for one in self.summaries],
            "offline": {"optimum_usd": self.optimum_usd, "bound_usd": self.bound_usd},
            "sensitivity": [{"change": words, "span_usd": usd} for words, usd in self.sensitive],
            "assumptions": [ASSUMPTION],
        }

    def _summary(self, one: Summary) -> dict[str, Any]:
        return {
            "policy": one.policy.name,
            "usd": one.usd,
            "worst_usd": one.worst.end.usd,
            "worst_start": f"{self.trace.time(one.worst.first):%Y-%m-%dT%H:%MZ}",
            "missed": one.missed,
            "moves": one.moves,
            "machines_lost": one.lost,
            "checkpoint_usd": one.checkpoint_usd,
            "exchange_usd": one.exchange_usd,
            "on_demand_hours": one.on_demand_h,
            "idle_hours": one.idle_h,
            "several_places_hours": one.spread_h,
            "on_demand_for_good": one.for_good,
        }


def replay(
    trace: Trace,
    job: Job,
    market: Market,
    *,
    names: Sequence[str] = (),
    every_h: float = 2.0,
    offline: bool = True,
    starts: Sequence[int] | None = None,
    opened: Opener = here,
) -> Replay:
    """Run policies over a trace.

    Parameters
    ----------
    names
        Of `NAMES`; empty: all, the censored rule where it differs.
    every_h
        Hours between starts.
    offline
        Whether to work out the optimum and the bound.
    starts
        Ticks at which jobs begin; None: all that have their deadline within the trace.
    opened
        Opens the runner that runs the policies.

    Raises
    ------
    PlacerError
        If a policy is unknown, or the trace is shorter than the deadline.
    """
    for name in names:
        if name not in NAMES:
            raise unknown("policy", name, NAMES)
    if starts is None:
        starts = starts_of(trace.ticks, trace.tick_h, job, every_h)
    if not starts:
        raise PlacerError("a replay without a start", "give at least one")
    chosen = [
        policy
        for policy in POLICIES
        if policy.name in names
        or (not names and (not policy.censored or job.machines > trace.most))
    ]
    dearer = [
        (policy.name, words, changed)
        for policy in chosen
        for words, changed in _dearer(job)
        if policy.name == "span"
    ]
    wanted = [(policy.name, job) for policy in chosen] + [(name, one) for name, _, one in dearer]
    parts = [tuple(starts[at : at + PART]) for at in range(0, len(starts), PART)]
    with opened((trace, market)) as runner:
        runs = answers(_runs, [(name, one, part) for name, one in wanted for part in parts], runner)
        summaries = [
            Summary(
                policy=policy_named(name),
                runs=tuple(chain.from_iterable(islice(runs, len(parts)))),
                machines=one.machines,
            )
            for name, one in wanted
        ]
        pairs = list(answers(_offline, [(job, first) for first in starts if offline], runner))
    return Replay(
        trace=trace,
        job=job,
        market=market,
        starts=tuple(starts),
        summaries=tuple(summaries[: len(chosen)]),
        optimum_usd=fmean(one for one, _ in pairs) if offline else None,
        bound_usd=fmean(one for _, one in pairs) if offline else None,
        sensitive=tuple(
            (words, summary.usd)
            for (_, words, _), summary in zip(dearer, summaries[len(chosen) :], strict=True)
        ),
    )


def _dearer(job: Job) -> Iterator[tuple[str, Job]]:
    """Yield the job where islands re-form slowly, and where several places are slow."""
    yield f"re-forming takes {SLOW_REFORM_H:g} h", replace(job, reform_h=SLOW_REFORM_H)
    yield (
        f"several places have {LOW_EFFICIENCY:g} of the speed of one",
        replace(job, efficiency=LOW_EFFICIENCY),
    )


def _runs(shared: tuple[Trace, Market], asked: tuple[str, Job, Sequence[int]]) -> tuple[Run, ...]:
    """Run one policy from some starts."""
    (trace, market), (name, job, starts) = shared, asked
    policy = policy_named(name)
    seen = trace.observations(job, censored=policy.censored)
    return tuple(
        simulate(seen, trace.tick_h, first, policy.rule(_cheapest(trace, first)), job, market)
        for first in starts
    )


def _cheapest(trace: Trace, tick: int) -> int:
    prices = trace.usd_per_hour[tick].tolist()
    return min(range(len(prices)), key=lambda zone: prices[zone])


def _offline(shared: tuple[Trace, Market], asked: tuple[Job, int]) -> tuple[float, float]:
    """Return the optimum and the bound of one start, in hindsight."""
    (trace, market), (job, first) = shared, asked
    rows = slice(first, first + ticks_of(job, trace.tick_h))
    given = (trace.launched[rows], trace.usd_per_hour[rows], trace.tick_h, job, market)
    return offline_optimum(*given), offline_bound(*given)

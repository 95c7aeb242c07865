"""Figures of an answer in words: time and money of the run, plans inside workers, risk."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import Estimate, pool_of
from placer.cost_model.outlook.outlook import SpotOutlook
from placer.cost_model.outlook.risk import Risk
from placer.cost_model.outlook.totals import totals_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.report.figures import chance, hours_words
from placer.units import (
    Interval,
    format_duration,
    format_number,
    format_plain,
    format_usd,
)
from placer.workload.constants import peer_of
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import TRANSPORTS, Island

COMPRESSION_NAMES = {
    "none": "FP32",
    "fp16": "FP16",
    "int8": "INT8",
    "int4": "INT4",
    "sparse": "1.56 % of the values",
}
SAME_PRICE = 1e-4
"""A price whose ends are closer together is shown without them."""


def short_total_words(got: Estimate, wish: Requirements) -> str:
    """Give time and money for all samples, with their intervals, without the samples."""
    time, usd = _totals(got, wish)
    return f"{time}, {''.join(usd)}{_started(wish)}"


def in_time_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    """Say how likely the deadline is kept; nothing where the speed alone decides it."""
    deadline_s = problem.requirements.deadline_s
    if deadline_s is None:
        return ""
    from placer.advice.confidence.choice import chance_in_time  # few questions need it

    chance = chance_in_time(placement, got, problem)
    if chance is None:
        return ""
    return f"; {format_plain(100 * chance, 2)} % within {format_duration(deadline_s)}"


def _started(wish: Requirements) -> str:
    """Say how much of the time machines take to start."""
    return f"; {format_duration(wish.startup_s)} of it start-up" if wish.startup_s else ""


def _totals(got: Estimate, wish: Requirements) -> tuple[str, tuple[str, str]]:
    """Return the time with its interval, and the money and its interval."""
    totals = totals_of(got, wish)
    time, usd = totals.seconds, totals.usd
    took, between = format_duration(time.value), ""
    if format_duration(time.low) != format_duration(time.high):
        took += f" ({format_duration(time.low)} to {format_duration(time.high)})"
    if usd.high > usd.low * (1 + SAME_PRICE):
        between = f" ({format_usd(usd.low)} to {format_usd(usd.high)})"
    return took, (format_usd(usd.value), between)


SHARDINGS = {
    "none": "plain data parallelism",
    "zero-1": "ZeRO-1",
    "zero-2": "ZeRO-2",
    "zero-3": "ZeRO-3 / FSDP",
    "hybrid": "FSDP inside a machine, replicas over machines",
}


def _plan_words(inner: InnerPlan) -> str:
    """Describe the plan inside a worker by the names of its parts."""
    parts = [SHARDINGS[inner.sharding]]
    if inner.tensor_parallel > 1:
        parts.append(f"tensor parallel {inner.tensor_parallel}")
    if inner.pipeline > 1:
        pieces = f" in {inner.virtual_stages} pieces each" if inner.virtual_stages > 1 else ""
        parts.append(f"{inner.pipeline} stages{pieces}")
    if inner.expert_parallel > 1:
        parts.append(f"experts over {inner.expert_parallel} GPUs")
    if inner.context_parallel > 1:
        parts.append(f"sequences over {inner.context_parallel} GPUs")
    if inner.checkpointing != "none":
        parts.append(f"{inner.checkpointing} checkpointing")
    parts += [f"microbatch {inner.microbatch}", inner.precision.upper()]
    return ", ".join([*parts, *([inner.software] if inner.software else [])])


def inner_lines(placement: Placement, problem: Problem) -> Iterator[str]:
    """Yield the plan of each kind of worker, with the memory that it takes of each GPU."""
    several = len({(group.worker_name, group.inner) for group in placement.groups}) > 1
    told = set()
    for group in placement.groups:
        if group.inner is None or (group.worker_name, group.inner) in told:
            continue
        told.add((group.worker_name, group.inner))
        pool = pool_of(group, problem)
        built = problem.island(pool.offer, group.machines, group.inner, placement.workers)
        text = _plan_words(group.inner)
        if isinstance(built, Island):
            text += f"; {built.memory.of_room(problem.catalog.gpu(group.gpu).memory_gib)}"
        yield f"{group.worker_name}: {text}" if several else text


def short_inner_words(placement: Placement, problem: Problem) -> str:
    """Describe the plan that all workers have in few words; empty without one, and where they have
    several.
    """
    lines = list(inner_lines(placement, problem))
    return lines[0] if len(lines) == 1 else ""


def software_words(placement: Placement, problem: Problem) -> str:
    """Name the software that averages inside a zone."""
    peers = [peer_of(pool_of(group, problem).host) for group in placement.groups]
    names = {peer.transport for peer in peers if peer is not None} or {"hivemind"}
    return " and ".join(sorted(TRANSPORTS[name].title for name in names))


SURE = 0.99
"""A chance per month that is higher says less than the losses an hour."""
WORTH_A_WORD = 0.03
"""A share of the speed from which a loss is named in few words."""


def short_risk_words(spot: SpotOutlook | None, placement: Placement, quota: str) -> str:
    """Say in few words how spot machines are lost, what that costs and how often they launch, with
    the quota that is needed; without intervals and bases.

    ``spot``: None without spot machines. ``placement``: names the markets that its machines are of.
    ``quota``: such as ``32 L4``; empty if none is needed.
    """
    market = "none of it spot" if spot is None else market_words(placement)
    head = f"{market}, quota {quota}" if quota else market
    if spot is None:
        return head
    return f"{head}; {_lost_words(spot)}; {_short_launch(spot)}"


def _lost_words(spot: SpotOutlook) -> str:
    """Say how often a machine is reclaimed, and the speed that costs where it is worth a word."""
    often = spot.risk is not None and spot.chance_per_month > SURE
    if spot.risk is not None and often:
        text = f"a reclaim every {hours_words(1 / spot.risk.losses_per_hour)}"
    else:
        text = f"{format_number(100 * spot.chance_per_month)} % reclaimed a month"
    lost = 1 - spot.share.value
    return text if lost < WORTH_A_WORD else f"{text} (-{100 * lost:.0f} % speed)"


def _short_launch(spot: SpotOutlook) -> str:
    """Say how often all machines launch, without an interval."""
    if spot.risk is None:
        return f"no capacity {format_plain(100 * spot.all_lost, 2)} % of the time (assumed)"
    subject, share = _launch_subject(spot.risk), spot.risk.chance_all
    if share is None:
        return f"launch of {spot.risk.machines} not observed"
    assumed = " (assumed)" if any(s.basis == "assumed" for s in spot.risk.stocks) else ""
    return f"{subject} {chance(share.value)} of the time{assumed}"


def _launch_subject(risk: Risk) -> str:
    few = {1: "it launches", 2: "both launch"}
    return few.get(risk.machines, f"all {risk.machines} launch")


def market_words(placement: Placement) -> str:
    """Name the markets whose machines may be taken away."""
    kinds = sorted({group.market for group in placement.groups} - {"on_demand"}, reverse=True)
    return " and ".join(kinds) or "spot"


def _range(chance: Interval) -> str:
    return f"{100 * chance.low:.0f} to {100 * chance.high:.0f} %"

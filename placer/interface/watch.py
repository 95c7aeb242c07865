"""The Python interface to replanning on a live feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from placer.advice.policy.trace import (
    CHECKPOINT_GIB,
    EFFICIENCY,
    EXCHANGE_GIB_PER_H,
    REFORM_H,
    RESTART_H,
    Job,
    Market,
)
from placer.advice.policy.watch import Change
from placer.advice.policy.watch import watch as watch_lines
from placer.documents.manifest.question import question_of
from placer.documents.manifest.types import Manifest
from placer.documents.reopen import with_present_book
from placer.errors import PlacerError
from placer.files.growing_file import follow
from placer.interface.options import whole_number
from placer.interface.replay import Time, deadline_of, hours_of, priced_market
from placer.interface.worlds import Texts, read_plan
from placer.market.catalog import device_name
from placer.problem.problem import Problem
from placer.units import GIB, SECONDS_PER_HOUR, parse_bytes, parse_fraction

TICK = "10min"


def watch(
    manifest: str,
    feed: str,
    *,
    gpu: str | None = None,
    machines: int | None = None,
    work: Time | None = None,
    deadline: Time | None = None,
    slack: str | float | None = None,
    done: Time | None = None,
    held: Texts = (),
    prices: str | None = None,
    on_demand: float | None = None,
    egress: float | None = None,
    catalog: Texts = (),
    tick: Time = TICK,
    idle: Time | None = None,
    restart: Time = RESTART_H * SECONDS_PER_HOUR,
    reform: Time = REFORM_H * SECONDS_PER_HOUR,
    efficiency: str | float = EFFICIENCY,
    checkpoint: str = f"{CHECKPOINT_GIB:g}GiB",
    exchange: str = f"{EXCHANGE_GIB_PER_H:g}GiB",
) -> Iterator[Change]:
    """Run the policy ``span`` on a feed of launches, and yield what it changes.

    Parameters
    ----------
    manifest
        File of ``placer recommend --manifest``: how many machines of which device.
    feed
        A file that grows, a folder of files, or ``-`` for standard input.
    gpu, machines
        Device of each machine, and their number; None: as in the plan, if it has one device.
    work, deadline, slack
        As in `placer.replay`; None: as the question of the plan has them.
    done
        Work that is done when the feed begins.
    held
        Machines with which the job runs then, such as ``gcp/us-central1-a=8``; empty: none.
    tick
        Time until the next line is expected, until some have come.
    idle
        Time after which a feed without a new line has ended; None: never.
    catalog
        Books to ask; empty: those of the plan, as they are today.
    prices, on_demand, egress, restart, reform, efficiency, checkpoint, exchange
        As in `placer.replay`; ``prices`` is a table.

    Raises
    ------
    PlacerError
        Names the word, or the line of the feed, that is wrong.
    """
    plan = read_plan(manifest)
    saved, _ = question_of(plan, manifest)
    problem, _ = with_present_book(
        saved, manifest, [catalog] if isinstance(catalog, str) else catalog
    )
    device, count = _crew(plan, manifest, gpu, machines)
    work_h = _work_h(plan, problem, work)
    job = Job(
        machines=count,
        work_h=work_h,
        deadline_h=_deadline_h(problem, work_h, deadline, slack),
        restart_h=hours_of("restart", restart),
        reform_h=hours_of("reform", reform),
        efficiency=parse_fraction(str(efficiency), "efficiency", 1.0),
        checkpoint_gib=parse_bytes(checkpoint) / GIB,
        exchange_gib_per_h=parse_bytes(exchange) / GIB,
    )

    def priced(zones: tuple[str, ...]) -> tuple[Any, Market]:
        found, market = priced_market(
            zones, None, device, prices, on_demand, egress, problem.catalog
        )
        return found.usd_per_hour, market

    return watch_lines(
        follow(feed, None if idle is None else hours_of("idle", idle) * SECONDS_PER_HOUR),
        job,
        priced,
        tick_h=hours_of("tick", tick),
        held=_held([held] if isinstance(held, str) else held, job),
        done_h=0.0 if done is None else hours_of("done", done),
    )


def _crew(plan: Manifest, where: str, gpu: str | None, machines: int | None) -> tuple[str, int]:
    """Return the device and the number of machines."""
    if machines is not None:
        whole_number("machines", machines, 1, "give the machines of the job")
    counts: Counter[str] = Counter()
    for group in plan.groups:
        counts[device_name(group.offer.gpu, group.offer.gpu_count)] += group.machine_count
    if len(counts) > 1 and (gpu is None or machines is None):
        raise PlacerError(
            f"{where}: a plan of several devices ({', '.join(sorted(counts))})",
            "say with --gpu and --machines what to hold",
        )
    device = gpu or next(iter(counts))
    return device, counts.total() if machines is None else machines


def _work_h(plan: Manifest, problem: Problem, work: Time | None) -> float:
    if work is not None:
        return hours_of("work", work)
    samples = problem.requirements.samples
    if samples is None:
        raise PlacerError(
            "the plan does not say how much there is to do",
            "give --work 24h, the time that all its machines need",
        )
    return samples / plan.expected.samples_per_second.value / SECONDS_PER_HOUR


def _deadline_h(
    problem: Problem, work_h: float, deadline: Time | None, slack: str | float | None
) -> float:
    seconds = problem.requirements.deadline_s
    if deadline is None and slack is None and seconds is not None:
        return seconds / SECONDS_PER_HOUR
    return deadline_of(work_h, deadline, slack)


def _held(texts: Sequence[str], job: Job) -> dict[str, int]:
    held: dict[str, int] = {}
    for text in texts:
        zone, _, count = text.rpartition("=")
        if not zone or not count.isascii() or not count.isdigit() or int(count) < 1:
            raise PlacerError(f"held '{text}'", "write it as ZONE=N, such as gcp/us-east4-a=8")
        held[zone] = int(count)
    if sum(held.values()) > 2 * job.machines:
        raise PlacerError(
            f"{sum(held.values())} machines held by a job of {job.machines}",
            "give the machines of this job only",
        )
    return held

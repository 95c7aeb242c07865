"""The verb that follows a live feed of capacity, and says what to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from placer.errors import PlacerError
from placer.interface.options import whole_number
from placer.interface.replay import deadline_of, hours_of, job_of, priced_market
from placer.interface.verb import verb
from placer.interface.words import Following, Texts, Time
from placer.interface.worlds import read_plan, texts
from placer.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from placer.advice.policy.trace import Job, Market
    from placer.advice.policy.watch import Change
    from placer.documents.manifest.types import Manifest
    from placer.problem.problem import Problem


@verb("watch", searches=0)
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
    catalog: Texts = (),
    tick: Time = "10min",
    idle: Time | None = None,
    **words: Unpack[Following],
) -> Iterator[Change]:
    """Run the policy ``span`` on a feed of launches, and yield what it changes.

    Parameters
    ----------
    feed
        Log of launches that grows: a file, a folder of files, or - for standard input.
    gpu : GPU[:COUNT]
        Device; default: the plan's.
    machines : 1..
        Machines of the job; default: the plan's.
    work : TIME
        Time that all machines need; default: as the plan's question has it.
    done : TIME
        Work that is done already.
    held : ZONE=N
        Spot machines that run already, such as gcp/us-central1-a=8.
    catalog : NAME|DIR|CSV
        Books to ask; by default those of the plan, as they are today.
    tick : TIME
        Time between lines, until some have come.
    idle : TIME
        End after so long without a new line.
    {words}

    Raises
    ------
    PlacerError
        Names the word, or the line of the feed, that is wrong.
    """
    from placer.advice.policy.watch import watch as watch_lines
    from placer.documents.manifest.question import question_of
    from placer.documents.present_book import with_present_book
    from placer.files.growing_file import follow

    plan = read_plan(manifest)
    saved, _ = question_of(plan, manifest)
    problem, _ = with_present_book(saved, manifest, texts(catalog))
    device, count = _site_group(plan, manifest, gpu, machines)
    work_h = _work_h(plan, problem, work)
    job = job_of(count, work_h, _deadline_h(problem, work_h, deadline, slack), words)

    def priced(zones: tuple[str, ...]) -> tuple[Any, Market]:
        found, market = priced_market(zones, None, device, words, problem.catalog)
        return found.usd_per_hour, market

    return watch_lines(
        follow(feed, None if idle is None else hours_of("idle", idle) * SECONDS_PER_HOUR),
        job,
        priced,
        tick_h=hours_of("tick", tick),
        held=_held(texts(held), job),
        done_h=0.0 if done is None else hours_of("done", done),
    )


def _site_group(
    plan: Manifest, where: str, gpu: str | None, machines: int | None
) -> tuple[str, int]:
    """Return the device and the number of machines."""
    from placer.market.catalog import device_name

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

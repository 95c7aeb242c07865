"""The verbs about what zones launch: a forecast, policies over a trace, a feed that is followed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from placer.errors import PlacerError
from placer.interface.options import book_names, text_of, whole_number
from placer.interface.verb import verb
from placer.interface.words import Books, Following, Replayed, Texts, Time
from placer.interface.worlds import read_plan, texts
from placer.records import replace
from placer.units import GIB, SECONDS_PER_HOUR, parse_bytes, parse_fraction, parse_seconds

if TYPE_CHECKING:
    from placer.advice.policy.replay import Replay
    from placer.advice.policy.trace import Job, Market, ZonePrices
    from placer.advice.policy.watch import Change
    from placer.cost_model.capacity.forecast import CapacityForecast
    from placer.documents.manifest.types import Manifest
    from placer.market.catalog import Catalog
    from placer.market.launch_log import LaunchLog
    from placer.problem.problem import Problem

MOST_SLACK = 10.0


@verb("capacity-forecast", searches=0)
def forecast_capacity(
    log: str | os.PathLike[str] | LaunchLog,
    *,
    machines: int,
    ahead: str = "1h",
    asked: int | None = None,
    zones: int = 4,
) -> CapacityForecast:
    """Forecast from a log of launches how likely zones have enough machines.

    Raise `PlacerError` if the file is no such log, or the zones were asked for fewer machines in
    all.

    log: CSV file with a column ``utc`` and one for each zone: the machines that were launched; or
        what was read of one.
    machines (1..): Machines needed.
    ahead (TIME): How far ahead to forecast, such as 6h.
    zones (1..8): Maximum number of zones combined.
    """
    from placer.cost_model.capacity.forecast import forecast_launches
    from placer.market.launch_log import LaunchLog, read_launch_log

    known = log if isinstance(log, LaunchLog) else read_launch_log(Path(log), asked)
    return forecast_launches(
        known,
        whole_number("machines", machines, 1, "give the machines that are wanted"),
        parse_seconds(ahead) / SECONDS_PER_HOUR,
        whole_number("zones", zones, 1, "give the most zones together"),
    )


@verb("replay", searches=0)
def replay(
    trace: str,
    *,
    machines: int,
    work: Time,
    deadline: Time | None = None,
    slack: str | float | None = None,
    gpu: str | None = None,
    catalog: Books = None,
    policy: Texts = (),
    every: Time = "2h",
    tick: Time | None = None,
    asked: int | None = None,
    offline: bool = True,
    **words: Unpack[Replayed],
) -> Replay:
    """Run policies over a trace of launches: what each pays to finish by the deadline.

    Raise `PlacerError`, which names the word, or the line of a file, that is wrong.

    trace: CSV file: a column ``utc`` and one for each zone, the machines that were launched.
    machines (1..): Machines of the job.
    work (TIME): Time that the job takes on all its machines.
    gpu (GPU[:COUNT]): Device of each machine; prices of the catalog.
    policy (NAME): on-demand, fixed, migrate, migrate-pace, migrate-censored or span; default: all.
    every (TIME): Time between starts.
    tick (TIME): Time between decisions; default: as in the trace.
    offline (Python): Whether to work out the offline optimum too.

    >>> import placer
    >>> replayed = placer.replay(
    ...     "examples/capacity-trace.csv", machines=8, work="12h", slack="50%", gpu="H100",
    ...     policy=["migrate", "span"], every="6h", offline=False)
    >>> [one.missed for one in replayed.policies]
    [0, 0]
    """
    from placer.advice.policy.replay import replay as replay_trace
    from placer.advice.policy.trace import trace_of
    from placer.advice.runner.runner import opener
    from placer.market.launch_log import read_launch_log

    whole_number("machines", machines, 1, "give the machines of the job")
    opened = opener(words["jobs"], words["dask"])
    work_h = hours_of("work", work)
    job = job_of(machines, work_h, deadline_of(work_h, deadline, slack), words)
    log = read_launch_log(Path(text_of("trace", trace)), asked)
    priced, market = priced_market(log.zones, log, gpu, words, catalog)
    grid = trace_of(log, priced.usd_per_hour, None if tick is None else hours_of("tick", tick))
    return replay_trace(
        grid,
        job,
        market,
        names=(policy,) if isinstance(policy, str) else tuple(policy),
        every_h=hours_of("every", every),
        offline=offline,
        opened=opened,
    )


def job_of(machines: int, work_h: float, deadline_h: float, words: Following) -> Job:
    """Build a job from the words that say what it loses when its machines change."""
    from placer.advice.policy.trace import Job

    return Job(
        machines=machines,
        work_h=work_h,
        deadline_h=deadline_h,
        restart_h=hours_of("restart", words["restart"]),
        reform_h=hours_of("reform", words["reform"]),
        efficiency=parse_fraction(str(words["efficiency"]), "efficiency", 1.0),
        checkpoint_gib=parse_bytes(text_of("checkpoint", words["checkpoint"])) / GIB,
        exchange_gib_per_h=parse_bytes(text_of("exchange", words["exchange"])) / GIB,
    )


def hours_of(what: str, value: Time) -> float:
    """Read a time as hours; a number is seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PlacerError(f"{what} {value!r} is not a time", "write it as 90s, 15min or 36h")
    return parse_seconds(value if isinstance(value, str) else f"{value}s") / SECONDS_PER_HOUR


def deadline_of(work_h: float, deadline: Time | None, slack: str | float | None) -> float:
    """Return the hours until the deadline, from a time or from a share beyond the work.

    Raise `PlacerError` if not exactly one of them is given.
    """
    if (deadline is None) == (slack is None):
        raise PlacerError(
            f"{'neither' if slack is None else 'both'} of deadline and slack",
            "give --deadline 30h or --slack 25%, one of them",
        )
    if deadline is not None:
        return hours_of("deadline", deadline)
    return work_h * (1 + parse_fraction(str(slack), "slack", MOST_SLACK))


def priced_market(
    zones: Sequence[str], log: LaunchLog | None, gpu: str | None, words: Following, catalog: Books
) -> tuple[ZonePrices, Market]:
    """Find the prices of zones, of each observation if there is a log, and build the market.

    Raise `PlacerError` if neither a device nor a file of prices is given, or a price is missing.
    """
    from placer.advice.policy.trace import catalog_prices, market_of
    from placer.market.books.book_reader import load_catalog
    from placer.market.catalog import Catalog

    prices, on_demand, egress = words["prices"], words["on_demand"], words["egress"]
    for name, value in (("on-demand", on_demand), ("egress", egress)):
        if value is not None and not 0 <= value < float("inf"):
            raise PlacerError(f"{name} price {value}", "give USD, 0 or more")
    book = catalog if isinstance(catalog, Catalog) else load_catalog(book_names(catalog) or None)
    if prices is None:
        if gpu is None:
            raise PlacerError(
                "no prices", "give --gpu H100 for those of the catalog, or --prices FILE"
            )
        priced = catalog_prices(zones, gpu, book)
    else:
        priced = _from_file(zones, log, Path(text_of("prices", prices)), gpu, on_demand, book)
    if on_demand is not None:
        source = f"{priced.source}; on-demand as given"
        priced = replace(priced, on_demand_usd_per_hour=on_demand, source=source)
    return priced, market_of(zones, priced, book, egress)


def _from_file(
    zones: Sequence[str],
    log: LaunchLog | None,
    path: Path,
    gpu: str | None,
    on_demand: float | None,
    book: Catalog,
) -> ZonePrices:
    from placer.advice.policy.trace import ZonePrices, cheapest_on_demand, file_prices

    spot, cheapest = file_prices(zones, log, path)
    source = str(path)
    if on_demand is not None:
        cheapest = (on_demand, cheapest[1] if cheapest is not None else zones[0])
    elif cheapest is None:
        if gpu is None:
            raise PlacerError(
                f"{path}: has no price of on-demand machines",
                "give --on-demand USD, or --gpu for the catalog's price",
            )
        cheapest = cheapest_on_demand(zones, gpu, book)
        source = f"{path}; on-demand from catalog {book.name}, {gpu}"
    return ZonePrices(
        usd_per_hour=spot,
        on_demand_usd_per_hour=cheapest[0],
        on_demand_zone=cheapest[1],
        source=source,
    )


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

    Raise `PlacerError`, which names the word, or the line of the feed, that is wrong.

    feed: Log of launches that grows: a file, a folder of files, or - for standard input.
    gpu (GPU[:COUNT]): Device; default: the plan's.
    machines (1..): Machines of the job; default: the plan's.
    work (TIME): Time that all machines need; default: as the plan's question has it.
    done (TIME): Work that is done already.
    held (ZONE=N): Spot machines that run already, such as gcp/us-central1-a=8.
    catalog (NAME|DIR|CSV): Books to ask; by default those of the plan, as they are today.
    tick (TIME): Time between lines, until some have come.
    idle (TIME): End after so long without a new line.
    """
    from placer.advice.policy.watch import watch as watch_lines
    from placer.documents.manifest.types import question_of
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

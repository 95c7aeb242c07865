"""The Python interface to policies over traces of capacity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from placer.advice.policy.replay import Replay
from placer.advice.policy.replay import replay as replay_trace
from placer.advice.policy.trace import (
    CHECKPOINT_GIB,
    EFFICIENCY,
    EXCHANGE_GIB_PER_H,
    REFORM_H,
    RESTART_H,
    Job,
    Market,
    trace_of,
)
from placer.advice.policy.zone_prices import (
    ZonePrices,
    catalog_prices,
    cheapest_on_demand,
    file_prices,
    market_of,
)
from placer.advice.runner.choice import opener
from placer.errors import PlacerError
from placer.interface.advisor import Books
from placer.interface.options import book_names, text_of, whole_number
from placer.interface.worlds import Texts
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.market.launch_log import LaunchLog, read_launch_log
from placer.units import GIB, SECONDS_PER_HOUR, parse_bytes, parse_fraction, parse_seconds

MOST_SLACK = 10.0
Time = str | float


def replay(
    trace: str,
    *,
    machines: int,
    work: Time,
    deadline: Time | None = None,
    slack: str | float | None = None,
    gpu: str | None = None,
    prices: str | None = None,
    on_demand: float | None = None,
    egress: float | None = None,
    catalog: Books = None,
    policy: Texts = (),
    every: Time = "2h",
    tick: Time | None = None,
    asked: int | None = None,
    restart: Time = RESTART_H * SECONDS_PER_HOUR,
    reform: Time = REFORM_H * SECONDS_PER_HOUR,
    efficiency: str | float = EFFICIENCY,
    checkpoint: str = f"{CHECKPOINT_GIB:g}GiB",
    exchange: str = f"{EXCHANGE_GIB_PER_H:g}GiB",
    offline: bool = True,
    jobs: int = 1,
    dask: str | None = None,
) -> Replay:
    """Run policies over a trace of launches: what each pays to finish by the deadline.

    Parameters
    ----------
    trace
        CSV file: a column ``utc`` and one for each zone, the machines that were launched.
    machines
        Machines of the job.
    work
        Time that all machines together need, such as ``24h``; a number is seconds.
    deadline, slack
        One of them: time until the deadline, or its share beyond the work, such as ``25%``.
    gpu
        Device of the machines, such as ``H100:8``: prices are the catalog's.
    prices
        CSV file of spot prices instead: a row for each zone, or a trace.
    on_demand
        USD for one on-demand machine and hour; None: as in the file or the catalog.
    egress
        USD for each GiB between two regions; None: the catalog's prices.
    catalog
        As in `placer.recommend`.
    policy
        Names of policies; empty: all.
    every
        Time between the starts.
    tick
        Time between decisions; None: the median time between lines of the trace.
    asked
        Machines that were asked for each time; None: the most that were launched.
    restart, reform
        Time that new machines are paid before they work, and that an island takes to re-form.
    efficiency
        Speed of a job in several places relative to one place.
    checkpoint, exchange
        What goes to each new place, and what goes each hour to and from every place but one.
    offline
        Whether to work out the offline optimum too.
    jobs, dask
        Where policies run, as in `placer.sweep`.

    Raises
    ------
    PlacerError
        Names the word, or the line of a file, that is wrong.

    Examples
    --------
    >>> import placer
    >>> replayed = placer.replay(
    ...     "examples/capacity-trace.csv", machines=8, work="12h", slack="50%", gpu="H100",
    ...     policy=["migrate", "span"], every="6h", offline=False)
    >>> [summary.missed for summary in replayed.summaries]
    [0, 0]
    """
    whole_number("machines", machines, 1, "give the machines of the job")
    opened = opener(jobs, dask)
    work_h = hours_of("work", work)
    job = Job(
        machines=machines,
        work_h=work_h,
        deadline_h=deadline_of(work_h, deadline, slack),
        restart_h=hours_of("restart", restart),
        reform_h=hours_of("reform", reform),
        efficiency=parse_fraction(str(efficiency), "efficiency", 1.0),
        checkpoint_gib=parse_bytes(text_of("checkpoint", checkpoint)) / GIB,
        exchange_gib_per_h=parse_bytes(text_of("exchange", exchange)) / GIB,
    )
    log = read_launch_log(Path(text_of("trace", trace)), asked)
    priced, market = priced_market(log.zones, log, gpu, prices, on_demand, egress, catalog)
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


def hours_of(what: str, value: Time) -> float:
    """Read a time as hours; a number is seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PlacerError(f"{what} {value!r} is not a time", "write it as 90s, 15min or 36h")
    return parse_seconds(value if isinstance(value, str) else f"{value}s") / SECONDS_PER_HOUR


def deadline_of(work_h: float, deadline: Time | None, slack: str | float | None) -> float:
    """Return the hours until the deadline, from a time or from a share beyond the work.

    Raises
    ------
    PlacerError
        If not exactly one of them is given.
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
    zones: Sequence[str],
    log: LaunchLog | None,
    gpu: str | None,
    prices: str | None,
    on_demand: float | None,
    egress: float | None,
    catalog: Books,
) -> tuple[ZonePrices, Market]:
    """Find the prices of zones, of each observation if there is a log, and build the market.

    Raises
    ------
    PlacerError
        If neither a device nor a file of prices is given, or a price is missing.
    """
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
        priced = ZonePrices(
            usd_per_hour=priced.usd_per_hour,
            on_demand_usd_per_hour=on_demand,
            on_demand_zone=priced.on_demand_zone,
            source=f"{priced.source}; on-demand as given",
        )
    return priced, market_of(zones, priced, book, egress)


def _from_file(
    zones: Sequence[str],
    log: LaunchLog | None,
    path: Path,
    gpu: str | None,
    on_demand: float | None,
    book: Catalog,
) -> ZonePrices:
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

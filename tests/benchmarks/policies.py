"""Replay policies over launches of spot machines: fitted on the first days, judged on the last.

    python tests/benchmarks/policies.py DIR [--days fit] [--every 3] [--causes]

DIR has gcp_h100_launch_probes.csv (16 H100 machines asked for in 13 zones every 10 minutes),
gcp_h100_spot_prices.csv and aws_v100_16_nodes_alive.csv (16 V100 machines kept alive in 3 zones).
Jobs of 8, 16 and 32 machines with 24 h of work and 10, 25 and 50 % of slack begin every few hours;
on-demand and egress prices are those of the default catalog. It prints mean dollars of each policy,
the distance to the better migrating rule, to on-demand and to the offline optimum, and what span
costs where islands re-form slowly or go together badly; then whether the acceptance holds.
``--causes`` prints instead what the dollars of span and of the migrating rules were paid for.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import numpy as np
from ledger import markdown

from placer.advice.policy.policies import policy_named, step
from placer.advice.policy.replay import Replay, replay, starts_of
from placer.advice.policy.state import start
from placer.advice.policy.trace import Job, Market, Trace, trace_of
from placer.advice.policy.zone_prices import (
    ZonePrices,
    catalog_prices,
    cheapest_on_demand,
    market_of,
)
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.market.launch_log import LaunchLog, read_launch_log
from placer.records import replace

GANGS, SLACKS, WORK_H = (8, 16, 32), (0.10, 0.25, 0.50), 24.0
FIT_H, V100_FIT_H = 7 * 24.0, 8 * 24.0
"""Hours at the beginning of each trace on which the rules were chosen; the others judge."""
WARM_H = 24.0
"""Hours at the beginning of which no job starts: a policy has a day of history at least."""
GPUS_PRICED = 8
"""GPUs of the machine type in the file of prices; a probe is of one GPU."""
HEADERS = (
    "case|on-demand|migrate|migrate-pace|migrate-censored|span|over the better migrating, %"
    "|over on-demand, %|optimum, one place|bound, any places|over the optimum, %|re-form 0.2 h"
    "|efficiency 0.85|moves|on-demand h|missed"
)

CAUSES = [
    *("USD", "spot work", "on-demand work", "spot waits", "on-demand waits"),
    *("of the work: lost to several places", "checkpoints", "exchange"),
    *("on-demand h", "idle h", "h in several places", "starts", "re-forms", "for good"),
]
"""What dollars are paid for; a wait is a start or a re-form. Then hours and counts, all means."""


def h100(folder: Path, book: Catalog, only: str) -> tuple[LaunchLog, ZonePrices]:
    """Read the launches of zones whose names begin so, with the given prices."""
    log = read_launch_log(folder / "gcp_h100_launch_probes.csv", 16)
    keep = [at for at, zone in enumerate(log.zones) if zone.startswith(only)]
    zones = tuple(log.zones[at] for at in keep)
    log = replace(log, zones=zones, launched=log.launched[:, keep])
    with (folder / "gcp_h100_spot_prices.csv").open(encoding="utf-8", newline="") as handle:
        usd = {row["region"]: float(row["usd_per_hour"]) for row in csv.DictReader(handle)}
    spot = np.array([usd[region] / GPUS_PRICED for region in log.regions])
    on_demand, zone = cheapest_on_demand(zones, "H100", book)
    return log, ZonePrices(
        usd_per_hour=spot,
        on_demand_usd_per_hour=on_demand,
        on_demand_zone=zone,
        source="given spot prices, on-demand of the catalog",
    )


def v100(folder: Path, book: Catalog) -> tuple[LaunchLog, ZonePrices]:
    """Read the V100 machines that stayed alive, with the prices of the catalog."""
    with (folder / "aws_v100_16_nodes_alive.csv").open(encoding="utf-8", newline="") as handle:
        head, *rows = csv.reader(handle)
    first = datetime(2023, 1, 1, tzinfo=UTC)  # the file counts ticks; the day does not matter
    hours = np.array([int(row[0]) for row in rows]) / 12
    counts = [[int(float(cell)) if cell else -1 for cell in row[1:]] for row in rows]
    log = LaunchLog(
        zones=tuple(f"aws/{zone}" for zone in head[1:]),
        hours=hours,
        launched=np.array(counts),
        most=16,
        first=first,
        last=first + timedelta(hours=float(hours[-1])),
    )
    return log, catalog_prices(log.zones, "V100", book)


def asked(
    log: LaunchLog, prices: ZonePrices, book: Catalog, window: tuple[float, float], every_h: float
) -> Iterator[tuple[Trace, Market, Job, float, list[int]]]:
    """Yield every gang and slack, with starts and deadlines within a window of hours."""
    trace = trace_of(log, prices.usd_per_hour)
    market = market_of(log.zones, prices, book, None)
    low, high = (min(trace.ticks, round(hours / trace.tick_h)) for hours in window)
    for gang in GANGS:
        for slack in SLACKS:
            job = Job(machines=gang, work_h=WORK_H, deadline_h=WORK_H * (1 + slack))
            starts = [low + at for at in starts_of(high - low, trace.tick_h, job, every_h)]
            yield trace, market, job, slack, starts


def causes(trace: Trace, market: Market, job: Job, starts: Sequence[int], name: str) -> list[float]:
    """Return what one policy pays for, as in `CAUSES`."""
    sums: dict[str, float] = defaultdict(float)
    seen = trace.observations(job)
    for first in starts:
        usd = trace.usd_per_hour[first]
        rule, state, tick = policy_named(name).rule(int(usd.argmin())), start(market), first
        while not state.finished(job) and state.now_h < job.deadline_h - 1e-9:
            held, after = step(state, seen[tick], trace.tick_h, rule, job, market)
            hours, work_usd, worked = after.now_h - state.now_h, 0.0, 0.0
            for place, count in enumerate(held.machines):
                on_demand = place == market.on_demand
                kind = "on-demand" if on_demand else "spot"
                price = (*seen[tick].usd_per_hour, market.on_demand_usd_per_hour)[place]
                waits = min(hours, held.wait_h[place]) if count else 0.0
                sums[f"{kind} waits"] += waits * count * price
                sums[f"{kind} work"] += (hours - waits) * count * price
                work_usd += (hours - waits) * count * price
                worked += (hours - waits) * count / job.machines
                new = bool(count) and not state.machines[place]
                sums["starts"] += new
                sums["re-forms"] += not new and held.wait_h[place] > state.wait_h[place] + 1e-9
            if worked:
                lost = 1 - (after.done_h - state.done_h) / worked
                sums["of the work: lost to several places"] += work_usd * lost
            state, tick = after, tick + 1
        sums["USD"] += state.usd
        sums["checkpoints"] += state.checkpoint_usd
        sums["exchange"] += state.exchange_usd
        sums["on-demand h"] += state.on_demand_h / job.machines
        sums["idle h"] += state.idle_h
        sums["h in several places"] += state.spread_h
        sums["for good"] += state.for_good
    return [sums[cause] / len(starts) for cause in CAUSES]


def cause_table(name: str, every: Iterator[tuple[Trace, Market, Job, float, list[int]]]) -> None:
    """Print side by side what span and the migrating rules pay for."""
    rows: list[list[object]] = []
    for trace, market, job, slack, starts in every:
        case = f"{name}, {job.machines} machines, slack {slack:.0%}"
        rules = ("migrate", "migrate-pace", "span") if job.machines < 32 else ("span",)
        rows += [[f"{case}: {rule}", *causes(trace, market, job, starts, rule)] for rule in rules]
    print("\n".join(markdown(["case", *CAUSES], rows)), "\n", flush=True)


def row(name: str, got: Replay) -> tuple[str, list[float]]:
    """One line of the table: the case, and its figures as in `HEADERS`."""
    usd = {one.policy.name: one.usd for one in got.summaries}
    spans, optimum = got.summary("span"), got.optimum_usd or math.nan
    better = min(usd["migrate"], usd["migrate-pace"])
    return name, [
        usd["on-demand"],
        usd["migrate"],
        usd["migrate-pace"],
        usd.get("migrate-censored", usd["migrate"]),
        usd["span"],
        100 * (usd["span"] / better - 1),
        100 * (usd["span"] / usd["on-demand"] - 1),
        optimum,
        got.bound_usd or math.nan,
        100 * (usd["span"] / optimum - 1),
        *(cost for _, cost in got.sensitive),
        spans.mean("moves"),
        spans.on_demand_h,
        float(sum(one.missed for one in got.summaries)),
    ]


def table(name: str, replays: Sequence[tuple[int, float, Replay]]) -> None:
    """Print the cells of one trace, and what the acceptance looks at."""
    rows = [row(f"{name}, {gang} machines, slack {slack:.0%}", got) for gang, slack, got in replays]
    print("\n".join(markdown(HEADERS.split("|"), [[case, *figures] for case, figures in rows])))
    pairs = [(gang, figures) for (_, figures), (gang, _, _) in zip(rows, replays, strict=True)]
    small = [figures[5] for gang, figures in pairs if gang < 32]
    large = [figures[6] for gang, figures in pairs if gang == 32]
    print(f"\n{name}: {sum(figures[-1] for _, figures in pairs):.0f} missed")
    print(
        f"8 and 16 machines: {fmean(small):+.1f} % on average and {max(small):+.1f} % at worst "
        f"over the better migrating rule; 32: {max(large):+.1f} % at worst over on-demand\n",
        flush=True,
    )


def main() -> None:
    """Print the tables."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("folder", type=Path, metavar="DIR")
    words.add_argument("--days", choices=("fit", "last"), default="last")
    words.add_argument("--every", type=float, default=3.0, metavar="HOURS")
    words.add_argument("--causes", action="store_true", help="what dollars are paid for")
    given = words.parse_args()
    book = load_catalog(None)
    window = (WARM_H, FIT_H) if given.days == "fit" else (FIT_H, 1e6)
    for name, only in (("H100, US zones", "us-"), ("H100, all zones", "")):
        log, prices = h100(given.folder, book, only)
        show(name, asked(log, prices, book, window, given.every), given.causes)
    log, prices = v100(given.folder, book)
    window = (WARM_H, V100_FIT_H) if given.days == "fit" else (V100_FIT_H, 1e6)
    show("V100", asked(log, prices, book, window, 2 * given.every), given.causes)


def show(
    name: str, every: Iterator[tuple[Trace, Market, Job, float, list[int]]], paid: bool
) -> None:
    """Print the table of one trace."""
    if paid:
        cause_table(name, every)
        return
    table(
        name,
        [
            (job.machines, slack, replay(trace, job, market, starts=starts))
            for trace, market, job, slack, starts in every
        ],
    )


if __name__ == "__main__":
    main()

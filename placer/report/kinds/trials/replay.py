"""Policies over a trace of capacity: what each pays to finish in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.report.blocks import Report, chart, facts, section, table, text
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import SECONDS_PER_HOUR, counted, format_duration, format_usd

CARRIED = 0.0005
"""Share of a trace that was carried forward, from which it is worth a word."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.replay/v1`` document."""
    policies, job, trace = document["policies"], document["job"], document["trace"]
    best = min(policies, key=lambda row: (row["missed"], row["usd"]))
    dearest = max(row["usd"] for row in policies)
    starts = counted(len(document["starts"]), "start")
    saved = 1 - best["usd"] / dearest if dearest else 0.0
    figures = ("USD", "worst USD", "missed", "moves", "lost", "checkpoints", "exchange")
    listed = table(
        "Policies, on average over all starts",
        ("policy", *figures, "on-demand h"),
        [
            [
                row["policy"],
                (f"{row['usd']:,.0f}", row["usd"]),
                (f"{row['worst_usd']:,.0f}", row["worst_usd"]),
                row["missed"],
                (f"{row['moves']:.1f}", row["moves"]),
                (f"{row['machines_lost']:.1f}", row["machines_lost"]),
                (f"{row['checkpoint_usd']:,.2f}", row["checkpoint_usd"]),
                (f"{row['exchange_usd']:,.2f}", row["exchange_usd"]),
                (f"{row['on_demand_hours']:.1f}", row["on_demand_hours"]),
            ]
            for row in policies
        ],
        units={"checkpoints": "checkpoints USD", "exchange": "exchange USD"},
        marked=policies.index(best),
        data=True,
    )
    bound = document["offline"]["bound_usd"]
    dots = [
        Dot(
            name=row["policy"],
            value=row["usd"],
            low=row["usd"],
            high=row["worst_usd"],
            text=f"{format_usd(row['usd'])}, worst {format_usd(row['worst_usd'])}",
            stands_out=row is best,
        )
        for row in policies
    ]
    return Report(
        title=f"{counted(job['machines'], 'machine')} over a trace of "
        f"{counted(len(trace['zones']), 'zone')}",
        subtitle=f"placer capacity replay, {starts} from {trace['first']}",
        verdict=f"The policy {best['policy']} pays {format_usd(best['usd'])} on average, "
        f"{percent(saved)} less than the most expensive, and misses {best['missed']} of "
        f"{counted(len(document['starts']), 'deadline')}.",
        sections=(
            *section(
                "What each policy pays",
                chart(
                    "policies",
                    "Dollars of each policy: the mean, and up to the worst start",
                    lambda: interval_chart(dots, "USD", line=bound),
                    listed,
                    ""
                    if bound is None
                    else f"Dashed: {format_usd(bound)}, which no policy undercuts even if it knew "
                    "everything.",
                    table_open=True,
                ),
            ),
            *section("The job", facts(*_job(document))),
            *section("Bounds and changes", facts(*_bounds(document))),
            *section("What is assumed", text(*document["assumptions"])),
        ),
    )


def _job(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield the trace, the job, and the price of what is always there."""
    job, trace, market = document["job"], document["trace"], document["market"]
    carried = f", {100 * trace['carried']:.1f} % carried forward" * (trace["carried"] > CARRIED)
    ticks = f"in ticks of {_hours(trace['tick_hours'])}, up to {trace['asked']} machines each"
    whole = _hours(trace["ticks"] * trace["tick_hours"])
    zones = counted(len(trace["zones"]), "zone")
    yield "trace", f"{zones}, {whole} from {trace['first']} {ticks}{carried}", ""
    machines, starts = counted(job["machines"], "machine"), len(document["starts"])
    words = f"{machines} with {_hours(job['work_hours'])}; {counted(starts, 'start')}"
    yield "work", words, ""
    yield "deadline", f"after {_hours(job['deadline_hours'])}", ""
    yield "restart", _hours(job["restart_hours"]), ""
    price = format_usd(market["on_demand_usd_per_hour"])
    yield "on-demand", f"{price}/h a machine", market["source"]


def _bounds(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield what no policy undercuts, and what changes if the job or its machines do."""
    offline = document["offline"]
    if offline["optimum_usd"] is not None and offline["bound_usd"] is not None:
        best = f"{offline['optimum_usd']:,.0f} USD in one place at a time"
        least = f"no policy can cost less than {offline['bound_usd']:,.0f} USD"
        yield "who knows the whole trace", best, least
    for row in document["sensitivity"]:
        yield f"span if {row['change']}", f"{row['span_usd']:,.0f} USD", ""


def _hours(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)

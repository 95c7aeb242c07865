"""Policies over a trace of capacity: what each pays to finish in time."""

from __future__ import annotations

from datetime import date

from placer.report.blocks import Chart, Facts, Report, Text, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent
from placer.units import SECONDS_PER_HOUR, counted, format_duration, format_usd


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.replay/v1`` document."""
    policies, job, trace = document["policies"], document["job"], document["trace"]
    best = min(policies, key=lambda row: (row["missed"], row["usd"]))
    dearest = max(row["usd"] for row in policies)
    starts = counted(len(document["starts"]), "start")
    on_demand = format_usd(document["market"]["on_demand_usd_per_hour"])
    saved = 1 - best["usd"] / dearest if dearest else 0.0
    listed = table(
        "Policies, on average over all starts",
        ("policy", "USD", "worst USD", "missed", "moves", "machines lost", "on-demand hours"),
        [
            [
                row["policy"],
                (format_usd(row["usd"]), row["usd"]),
                (format_usd(row["worst_usd"]), row["worst_usd"]),
                str(row["missed"]),
                (f"{row['moves']:.1f}", row["moves"]),
                (f"{row['machines_lost']:.1f}", row["machines_lost"]),
                (f"{row['on_demand_hours']:.1f}", row["on_demand_hours"]),
            ]
            for row in policies
        ],
        numbers=("USD", "worst USD", "missed", "moves", "machines lost", "on-demand hours"),
        marked=policies.index(best),
    )
    assert listed is not None
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
                Chart(
                    name="policies",
                    title="Dollars of each policy: the mean, and up to the worst start",
                    draw=lambda: interval_chart(dots, "USD", line=bound),
                    table=listed,
                    note=""
                    if bound is None
                    else f"Dashed: {format_usd(bound)}, which no policy undercuts even if it knew "
                    "everything.",
                    table_open=True,
                ),
            ),
            *section(
                "The job",
                Facts(
                    rows=(
                        ("work", _hours(job["work_hours"]), ""),
                        ("deadline", _hours(job["deadline_hours"]), ""),
                        ("restart", _hours(job["restart_hours"]), ""),
                        (
                            "on-demand",
                            f"{on_demand}/h a machine",
                            document["market"]["source"],
                        ),
                    )
                ),
            ),
            *section(
                "What may go wrong",
                Text(
                    lines=tuple(f"Assumed: {words}." for words in document["assumptions"]),
                    tone="warning",
                ),
            ),
        ),
    )


def _hours(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)

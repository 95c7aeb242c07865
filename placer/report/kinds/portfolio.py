"""Many jobs that share quotas and budgets."""

from __future__ import annotations

from datetime import date
from typing import Any

from placer.report.blocks import Chart, Facts, Report, Section, section, table
from placer.report.charts.intervals import Dot, interval_chart
from placer.report.figures import Document, percent, placement_words, speed_of
from placer.report.kinds.provenance import provenance_table
from placer.units import counted, format_number, format_usd

STATUSES = {
    "all_run": "All jobs run",
    "some_left_out": "Some jobs are left out",
    "time_limit": "The search reached its time limit",
}


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.portfolio/v1`` document."""
    jobs, unit = document["jobs"], document["unit"]
    running = [job for job in jobs if job["runs"]]
    objective, one_by_one = document["objective"], document["one_by_one"]
    name = objective["name"]
    best = "most" if name == "throughput" else "least"
    gap = "" if objective["gap"] is None else f", within {percent(objective['gap'])} of the {best}"
    work = "" if name == "cost" else f", {_value(objective)} together"
    saving = one_by_one["saving"]
    more = "more" if name == "throughput" else "less"
    saved = f" That is {percent(saving)} {more} than one job after the other." if saving else ""
    estimates = [job["estimate"] for job in running if job["estimate"]]
    return Report(
        title=f"{counted(len(jobs), 'job')} together",
        subtitle="placer portfolio",
        verdict=f"{STATUSES.get(document['status'], document['status'])}: {len(running)} of "
        f"{counted(len(jobs), 'job')} for {_money(document['usd'], unit)}{work}{gap}."
        f"{_shares(document)}{saved}",
        tone="good" if document["status"] == "all_run" else "warning",
        figures=(
            (_money(document["usd"], unit), "together", ""),
            (_money(one_by_one["usd"], unit), "one after the other", ""),
            (str(len(jobs) - len(running)), "left out", ""),
        ),
        sections=(
            *_jobs(document),
            *_shared(document),
            *_worth(document),
            *section("Every figure and its source", provenance_table(estimates, today)),
        ),
    )


def _value(objective: Document) -> str:
    return f"{format_number(objective['value'])} {objective['unit']}"


def _shares(document: Document) -> str:
    """Say what the least share of a job is, where shares are to be fair."""
    fair = document.get("fair")
    if not fair or not fair["held_back"]:
        return ""
    return (
        f" Every job has at least {percent(fair['least_share'])} of the speed that it would have "
        f"by itself; {fair['held_back'][0]} is held back most."
    )


def _money(usd: float, unit: str) -> str:
    return f"{format_usd(usd)}/h" if unit == "USD/h" else format_usd(usd)


def _jobs(document: Document) -> tuple[Section, ...]:
    unit = document["unit"]
    listed = table(
        "Jobs",
        ("job", "model", "workers", "speed", unit, "alone", "why left out"),
        [_cells(job, unit) for job in document["jobs"]],
        numbers=(unit, "alone"),
    )
    if listed is None:
        return ()
    priced = [job for job in document["jobs"] if job["usd"] is not None]
    dots = [
        Dot(
            name=job["name"],
            value=job["usd"],
            other=job["alone_usd"],
            text=_money(job["usd"], unit),
            stands_out=True,
        )
        for job in priced
    ]
    if len(dots) < 2:
        return section("The jobs", listed)
    chart = Chart(
        name="jobs",
        title="What each job costs, together and alone",
        draw=lambda: interval_chart(dots, unit, words=("in the portfolio", "alone on the market")),
        table=listed,
        table_open=True,
    )
    return section("The jobs", chart)


def _cells(job: Document, unit: str) -> list[Any]:
    placement, estimate = job["placement"], job["estimate"]
    usd, alone = job["usd"], job["alone_usd"]
    if estimate:
        speed, name = speed_of(estimate)
        words = (f"{format_number(speed['value'])} {name}", speed["value"])
    return [
        job["name"],
        job["model"],
        placement_words(placement) if placement else "",
        words if estimate else "",
        ("", None) if usd is None else (format_usd(usd), usd),
        ("", None) if alone is None else (format_usd(alone), alone),
        job["reason"],
    ]


def _shared(document: Document) -> tuple[Section, ...]:
    shared = document["shared"]
    rows = [
        (f"quota {row['place']} {row['gpu']} {row['market']}", f"{row['gpus']} GPUs", "")
        for row in shared["quotas"]
    ]
    if shared["budget_usd"] is not None:
        rows.append(("budget", _money(shared["budget_usd"], document["unit"]), ""))
    rows += [
        (
            f"block {row['name']}",
            f"{row['machines']} x {row['offer']} in {row['place']}",
            format_usd(row["usd"]),
        )
        for row in shared["blocks"]
    ]
    return section("What they share", Facts(rows=tuple(rows)) if rows else None)


def _worth(document: Document) -> tuple[Section, ...]:
    rows = [
        [row["resource"], (format_usd(row["usd"]), row["usd"]), row["unit"]]
        for row in document["worth"]
    ]
    return section(
        "What one more is worth",
        table("Shared limits", ("limit", "USD", "unit"), rows, numbers=("USD",)),
    )

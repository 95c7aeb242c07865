"""Many jobs that share quotas and budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from placer.report.blocks import (
    Cell,
    Report,
    Section,
    chart,
    facts,
    figure,
    section,
    table,
    text,
    without_empty_columns,
)
from placer.report.charts.rows import Dot, interval_chart
from placer.report.figures import Document, format_speed_of, percent, placement_words
from placer.report.kinds.shared.provenance import provenance_table
from placer.units import counted, format_number, format_usd

STATUSES = {
    "all_run": "All jobs run",
    "some_left_out": "Some jobs are left out",
    "time_limit": "The search reached its time limit",
}
QUOTA_SCOPES = {"each": "of each place, GPU and market", "together": "of all together"}
COLUMNS = ("job", "team", "model", "hours", "workers", "speed", "of its speed alone")
SMALL_USD = 0.005
"""Differences below are not worth a word."""
MOST_NAMES = 3
"""Jobs that are named in one sentence."""
COST: Document = {"name": "cost"}
"""Objective of documents that are older than the key."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.portfolio/v1`` document."""
    jobs = document["jobs"]
    estimates = [job["estimate"] for job in jobs if job["estimate"]]
    return Report(
        title=f"{counted(len(jobs), 'job')} together",
        subtitle="placer portfolio",
        verdict=_verdict(document),
        tone="good" if document["status"] == "all_run" else "warning",
        figures=tuple(_figures(document)),
        sections=(
            *_jobs(document),
            *_gave_way(document),
            *_shared(document),
            *_worth(document),
            *section(
                "Every figure and its source", provenance_table(estimates, today), detail=True
            ),
        ),
    )


def _objective(document: Document) -> Document:
    return document.get("objective") or COST


def _verdict(document: Document) -> str:
    jobs, objective = document["jobs"], _objective(document)
    most = objective["name"] == "throughput"
    value = f"{format_number(objective['value'])} {objective['unit']}"
    work = "" if objective["name"] == "cost" else f", {value} together"
    saving = document["one_by_one"]["saving"]
    saved = (
        f" That is {percent(saving)} {'more' if most else 'less'} than with the jobs placed one by "
        "one."
        if saving and saving > 0
        else ""
    )
    running = sum(1 for job in jobs if job["runs"])
    return (
        f"{STATUSES.get(document['status'], document['status'])}: {running} of "
        f"{counted(len(jobs), 'job')} for {_money(document['usd'], document)}{work}"
        f"{_bound(document)}.{_shares(document)}{saved}"
    )


def _bound(document: Document) -> str:
    """Say what no other places for the same jobs can do better than."""
    objective = _objective(document)
    bound, gap = objective.get("bound"), objective.get("gap")
    if bound is None or gap is None:
        return ""
    least = max(0.0, bound)
    words = {
        "throughput": f"do more than {format_number(least)}",
        "time": f"take less than {format_number(least)} h",
    }.get(objective["name"], f"cost less than {_money(least, document)}")
    return f"; they cannot {words} (gap {percent(gap)})"


def _shares(document: Document) -> str:
    fair = document.get("fair")
    if not fair or not fair["held_back"]:
        return ""
    bound = fair.get("bound")
    most = (
        ""
        if bound is None or bound >= 1
        else f", and no choice gives all of them more than {percent(bound)}"
    )
    return (
        f" Every job that runs has at least {percent(fair['least_share'])} of the speed that it "
        f"would have by itself{most}; held back most: {_names(fair['held_back'])}."
    )


def _figures(document: Document) -> Iterator[tuple[str, str, str]]:
    """Yield the key figures: what the objective counts first, beside the jobs placed one by one."""
    objective, alone = _objective(document), document["one_by_one"]
    out = sum(1 for job in document["jobs"] if not job["runs"])
    beside = f"{_money(alone['usd'], document)} one by one"
    if alone["left_out"] > out:
        beside += f", but {counted(alone['left_out'] - out, 'job')} fewer"
    if objective["name"] != "cost":
        one_by_one = f"{format_number(alone['value'])} one by one" if "value" in alone else ""
        yield format_number(objective["value"]), objective["unit"], one_by_one
    yield _money(document["usd"], document), "together", beside
    fair = document.get("fair")
    if fair:
        bound = fair.get("bound")
        most = "" if bound is None or bound >= 1 else f"{percent(bound)} at most"
        yield percent(fair["least_share"]), "least share of the speed alone", most
    yield str(out), "left out", "proved" if out and document.get("left_out_proved") else ""


def _money(usd: float, document: Document) -> str:
    return f"{format_usd(usd)}/h" if document["unit"] == "USD/h" else format_usd(usd)


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _jobs(document: Document) -> tuple[Section, ...]:
    unit = document["unit"]
    alone = f"{unit} alone"
    listed = without_empty_columns(
        table(
            "Jobs",
            (*COLUMNS, unit, alone, "why left out"),
            [_cells(job, document) for job in document["jobs"]],
            numbers=("speed", "of its speed alone", unit, alone),
            units={"speed": "samples/s"},
            data=True,
        )
    )
    shares = [_share_dot(job) for job in document["jobs"] if job.get("share") is not None]
    prices = [_price_dot(job, document) for job in document["jobs"] if job["usd"] is not None]
    dots = shares or prices
    if len(dots) < 2:
        return section("The jobs", listed)
    title = "What each job costs, together and by itself"
    if shares:
        title = "Speed of each job over the speed that it would have by itself"

    def draw() -> Any:
        if shares:
            return interval_chart(shares, "% of its speed alone", line=100.0)
        return interval_chart(prices, unit, words=("in the portfolio", "by itself"))

    return section("The jobs", chart("jobs", title, draw, listed, table_open=True))


def _share_dot(job: Document) -> Dot:
    share = job["share"]
    text = f"{percent(share)}, {format_speed_of(job['estimate'])}"
    return Dot(name=job["name"], value=100 * share, text=text, stands_out=True)


def _price_dot(job: Document, document: Document) -> Dot:
    usd, alone, text = job["usd"], job["alone_usd"], _money(job["usd"], document)
    return Dot(name=job["name"], value=usd, other=alone, text=text, stands_out=True)


def _cells(job: Document, document: Document) -> list[Cell]:
    placement, estimate = job["placement"], job["estimate"]
    usd, alone, share = job["usd"], job["alone_usd"], job.get("share")
    speed = estimate["effective_samples_per_second"]["value"] if estimate else None
    return [
        job["name"],
        job.get("team", ""),
        job["model"],
        _hours(job, document["shared"].get("slots")),
        placement_words(placement) if placement else "",
        (format_speed_of(estimate), speed) if estimate else ("", None),
        figure(share, percent),
        figure(usd, format_usd),
        figure(alone, format_usd),
        job["reason"],
    ]


def _hours(job: Document, slots: Document | None) -> str:
    """Say from which hour to which a job runs, where time has slots."""
    if slots is None or not job["runs"]:
        return ""
    first, last = job["start"], job["start"] + job["slots"]
    return f"{first * slots['hours']:g} to {last * slots['hours']:g}"


def _gave_way(document: Document) -> tuple[Section, ...]:
    """Say of each job that is not where it would be alone what was missing, and who has it."""
    lines = [
        f"{job['name']} would run on {' + '.join(job['alone_workers'])} by itself, but "
        f"{'; '.join(_short(row) for row in job['displaced'])}{_extra(job, document)}."
        for job in document["jobs"]
        if job.get("displaced") and job.get("alone_workers")
    ]
    return section("Who takes what others would have", text(*lines))


def _extra(job: Document, document: Document) -> str:
    """Say what a job pays more, or does less, than by itself."""
    if job.get("share") is not None:
        return f": {percent(job['share'])} of that speed is left"
    if job["usd"] is None or job["alone_usd"] is None:
        return ""
    extra = job["usd"] - job["alone_usd"]
    return f": +{_money(extra, document)}" if extra > SMALL_USD else ""


def _short(row: Document) -> str:
    why = f"left after {_names(row['by'])}" if row["by"] else "all that there is"
    after = f"{row['resource']} are {why}"
    if row["unit"].startswith("USD"):
        each = "/h" if row["unit"] == "USD/h" else ""
        return f"{format_usd(row['left'])} of {format_usd(row['wanted'])}{each} {after}"
    return f"{row['left']:g} of {row['wanted']:g} {after}"


def _shared(document: Document) -> tuple[Section, ...]:
    shared = document["shared"]
    rows: list[tuple[str, ...]] = []
    if shared["budget_usd"] is not None:
        rows.append(("budget", _money(shared["budget_usd"], document)))
    slots = shared.get("slots")
    if slots:
        rows.append(("time", f"{counted(slots['count'], 'slot')} of {slots['hours']:g} h"))
    if shared.get("quota_gpus") is not None:
        rows.append(("quota", _gpus(shared["quota_gpus"]), "of each place, GPU and market"))
    rows += [_quota(row) for row in shared["quotas"]]
    for team in shared.get("teams", ()):
        of = f"team {team['name']}, "
        if team["budget_usd"] is not None:
            rows.append((f"{of}budget", _money(team["budget_usd"], document)))
        rows += [_quota(row, of) for row in team["quotas"]]
    rows += [
        (
            f"block {row['name']}",
            f"{row['machines']} x {row['offer']} in {row['place']}",
            format_usd(row["usd"]),
        )
        for row in shared["blocks"]
    ]
    return section("What they share", facts(*rows))


def _quota(row: Document, of: str = "") -> tuple[str, str, str]:
    scope = QUOTA_SCOPES.get(row.get("scope", ""), "")
    return f"{of}quota of {_scope(row)}", _gpus(row["gpus"]), scope


def _gpus(gpus: int | None) -> str:
    return "no limit" if gpus is None else counted(gpus, "GPU")


def _scope(quota: Document) -> str:
    """Write what a row of quotas is of: stars are everything."""
    words = [str(quota[key]) for key in ("gpu", "place", "market") if quota[key] != "*"]
    return ", ".join(words).replace("on_demand", "on-demand") or "any GPU"


def _worth(document: Document) -> tuple[Section, ...]:
    each = "/h" if document["unit"] == "USD/h" else ""
    per_dollar, unit = _objective(document).get("per_dollar"), _objective(document).get("unit")

    def change(row: Document) -> str:
        usd = f"{format_usd(abs(row['usd']))}{each}"
        if not row.get("runs"):
            return f"is worth {usd}" if per_dollar else f"saves {usd}"
        return f"runs {', '.join(row['runs'])}, and {'costs' if row['usd'] < 0 else 'saves'} {usd}"

    rows = [
        [
            row["resource"] if row["unit"] == "GPU" else f"{row['unit']} {row['resource']}",
            change(row),
        ]
        for row in document["worth"]
    ]
    return section(
        "What one more is worth",
        text(
            f"One more dollar an hour is worth {format_number(per_dollar)} {unit}."
            if per_dollar
            else ""
        ),
        table(
            "Chosen again with one more and all else as it is, among the placements looked at",
            ("with one more", "the same search"),
            rows,
        ),
    )

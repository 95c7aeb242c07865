"""A recommendation: the answer, where it lies, what it costs, and what else there was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Literal

from placer.cost_model.outlook.shown_speed import LEVEL_WORDS
from placer.documents.result_parts import OLDER
from placer.report.blocks import Block, Facts, Report, Section, Table, Text, section, table
from placer.report.figures import (
    Document,
    exchange_words,
    market_words,
    percent,
    placement_words,
    price_of_work,
    speed_of,
    speed_spread,
    spread_words,
)
from placer.report.kinds import parts
from placer.report.kinds.provenance import sources
from placer.report.places import map_blocks
from placer.units import (
    SECONDS_PER_HOUR,
    format_duration,
    format_number,
    format_seconds,
    format_usd,
    is_wide,
)

NO_ANSWER = {
    "infeasible": "Nothing in the catalog meets all wishes; that is proved.",
    "time_limit": "The search reached its time limit before it found a placement.",
    "memory_limit": "The search reached its memory limit before it found a placement.",
    "unknown": "The solver found no placement; that is no proof that there is none.",
}


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.result/v1`` document."""
    if document["placement"] is None:
        return _without_placement(document, today)
    placement, estimate = document["placement"], document["estimate"]
    others = [one["placement"] for one in document["alternatives"]]
    budget = document["request"].get("budget_usd_per_hour")
    return Report(
        title=f"Where to train {document['request']['model']}",
        subtitle=_subtitle(document),
        verdict=_verdict(document),
        tone=_tone(document),
        figures=tuple(figures_of(document["estimate"])),
        sections=(
            *section(
                "The answer",
                Facts(rows=tuple(_facts(document))),
                Text(lines=tuple(document["verdict"])) if document["verdict"] else None,
            ),
            *section("Where", *map_blocks(document, placement, estimate, others)),
            *parts.dollars(estimate, budget),
            *parts.step(placement, estimate),
            *parts.considered(document["alternatives"], placement),
            *_why_not(document),
            *parts.warnings_of(document, spot_facts(document), *_price_risk(document)),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document),
        ),
    )


def _without_placement(document: Document, today: date) -> Report:
    """Build the report of a question without an answer."""
    status, nearest = document["status"], document["nearest"]
    first = f" A change that works: {nearest[0]['note']}." if nearest else ""
    blocks: list[Block] = []
    if nearest:
        blocks = map_blocks(
            document,
            nearest[0]["placement"],
            nearest[0]["estimate"],
            [one["placement"] for one in nearest[1:]],
        )
    return Report(
        title=f"Where to train {document['request']['model']}",
        subtitle=_subtitle(document),
        verdict=NO_ANSWER.get(status, NO_ANSWER["unknown"]) + first,
        tone="bad",
        sections=(
            *parts.wishes(document),
            *parts.considered(nearest, None, "What would fit, after one change"),
            *section("Where that would be", *blocks),
            *parts.warnings_of(document),
            *sources(document, [one["estimate"] for one in nearest], today),
            *parts.reproduce(document),
        ),
    )


def _subtitle(document: Document) -> str:
    data = document["data"]
    return f"placer recommend, prices of {data['oldest']} to {data['as_of']} ({data['catalog']})"


def _tone(document: Document) -> Literal["good", "warning", "bad"]:
    return "good" if document["status"] == "optimal" and not _doubt(document) else "warning"


def _doubt(document: Document) -> str:
    """Say that a proof at expected speeds ranks nothing where speeds are hardly known."""
    speed, unit = speed_of(document["estimate"])
    if document["status"] != "optimal" or not is_wide(speed["low"], speed["high"]):
        return ""
    return f" The ranking is not certain: the speed is {speed_spread(document['estimate'])} {unit}."


def _verdict(document: Document) -> str:
    placement, estimate = document["placement"], document["estimate"]
    speed, unit = speed_of(estimate)
    return (
        f"Train on {placement_words(placement)}: {format_number(speed['value'])} {unit} for "
        f"{format_usd(estimate['usd_per_hour']['total'])}/h. {proof_words(document)}"
        f"{_doubt(document)}"
    )


def proof_words(document: Document) -> str:
    """Say in one sentence what is proved about an answer."""
    objective, status = document["objective"], document["status"]
    gap = objective["gap"]
    if status == "optimal":
        better = "better" if percent(gap) == "0 %" else f"more than {percent(gap)} better"
        return f"Proved: at these speeds, nothing that meets the wishes is {better}."
    if gap is None:
        return "Nothing is proved about what else there is."
    older = [one for one in document.get("near_misses", ()) if one["label"] == OLDER]
    if status == "feasible" and older:
        return f"The best of all, {older[0]['note']}, is at most {percent(gap)} better."
    return f"The search ended early: another placement may be better by up to {percent(gap)}."


def figures_of(estimate: Document) -> list[tuple[str, str, str]]:
    """List the key figures of a placement: value, unit and interval."""
    speed, unit = speed_of(estimate)
    price, work = price_of_work(estimate)
    usd = estimate["usd_per_hour_interval"]
    carbon = estimate["carbon_g_per_hour"]
    rows = [
        (format_number(speed["value"]), unit, f"{speed_spread(estimate)}, {LEVEL_WORDS}"),
        (format_usd(usd["value"]), "per hour", spread_words(usd, usd=True)),
    ]
    if price is not None:
        rows.append((format_usd(price), work, ""))
    rows.append((format_seconds(estimate["step_seconds"]["total"]), "a step", ""))
    if carbon is not None:
        grams = format_number(carbon["value"] / 1000)
        spread = spread_words({k: carbon[k] / 1000 for k in ("low", "high")})
        rows.append((grams, "kg CO2e per hour", spread))
    return rows


def facts_of(placement: Document, estimate: Document) -> list[tuple[str, str, str]]:
    """List what a placement is: its workers, the plan inside them, and the exchange."""
    target = estimate["samples_to_target"]
    rows = [("workers", placement_words(placement), f"{placement['worker_count']} in all")]
    for group in placement["workers"]:
        inner = group.get("inner")
        if inner:
            plan = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in inner.items())
            rows.append(("inside a worker", plan, ""))
    rows.append(("exchange", exchange_words(placement), placement.get("transport", "")))
    if target["value"] != 1:
        rows.append(
            (
                "samples to target",
                f"{target['value']:.2f} x those of synchronous steps",
                f"{target['low']:.2f} to {target['high']:.2f}, {target['basis']}",
            )
        )
    return rows


def _facts(document: Document) -> list[tuple[str, str, str]]:
    rows = facts_of(document["placement"], document["estimate"])
    rows += parts.totals_facts(document["totals"])
    solver = document["solver"]
    took = f"{solver['name']}, {format_seconds(solver['seconds'])}"
    rows.append(("proof", proof_words(document), took))
    second = document.get("verification")
    if second:
        rows.append(("second solver", f"{second['solver']}: {second['verdict']}", second["status"]))
    return rows


def _why_not(document: Document) -> tuple[Section, ...]:
    """Show what simpler tools would choose, and what lies just outside a limit."""
    answer = document["placement"]
    same = [one["label"] for one in document["baselines"] if one["placement"] == answer]
    other = [one for one in document["baselines"] if one["placement"] != answer]
    agreed = f"A {' and an '.join(same)} tool would choose the same." if same else ""
    rows = [(f"{one['label']} tool", one) for one in other]
    rows += [("near miss", one) for one in document["near_misses"]]
    return section(
        "Why not something else",
        Text(lines=(agreed,)) if agreed else None,
        parts.option_table("What simpler tools choose, and what lies just outside a limit", rows),
        *_own_machines(document),
    )


def _own_machines(document: Document) -> Iterator[Block | None]:
    """Yield own machines, own with spot ones and spot ones alone, where the question names some."""
    beside = document.get("own_machines")
    if not beside:
        return
    rows = [(one["label"], one) for one in beside["rows"]]
    yield parts.option_table("Own machines beside rented ones", rows)
    lines, even = [beside["idle"]], beside["break_even"]
    if even:
        lines.append(
            f"An own machine costs {format_usd(even['own_usd_per_machine_hour'])}/h, and no more "
            f"per sample than {even['rented']} ones up to "
            f"{format_usd(even['most_own_usd_per_machine_hour'])}/h; these cost "
            f"{format_usd(even['rented_usd_per_hour'])}/h in all, and less per sample below "
            f"{format_usd(even['least_rented_usd_per_hour'])}/h."
        )
    kept = tuple(line for line in lines if line)
    yield Text(lines=kept) if kept else None


def spot_facts(document: Document) -> Facts | None:
    """Show what is known of spot machines that are taken away."""
    spot = (document.get("outlook") or {}).get("spot")
    if not spot:
        return None
    expected, unit = _in_tokens(spot["expected_samples_per_second"], document["estimate"])
    rows = [
        (
            "spot machines reclaimed",
            f"{percent(spot['chance_per_month'])} a month",
            str(spot.get("chance_basis", "")),
        ),
        (
            "speed with interruptions",
            f"{format_number(expected['value'])} {unit}",
            speed_spread(document["estimate"], expected),
        ),
        (
            "no spot capacity",
            f"{percent(spot['unavailable'])} of the time in a zone",
            f"all places at once {percent(spot['all_lost'])}",
        ),
    ]
    return Facts(rows=(*rows, *_gang(spot.get("risk"), document["estimate"])))


def _gang(risk: Document | None, estimate: Document) -> list[tuple[str, str, str]]:
    """Show how likely all machines launch together, and how long they stay."""
    if not risk:
        return []
    chance, machines = risk["chance_all"], risk["machines"]
    rows = [
        (
            f"all {machines} machines launch",
            "not observed" if chance is None else f"{percent(chance['value'])} of the time",
            "" if chance is None else f"{percent(chance['low'])} to {percent(chance['high'])}",
        )
    ]
    if risk["median_hours"] is not None:
        time = format_duration(risk["median_hours"] * SECONDS_PER_HOUR)
        rows.append(("half of such gangs lose a machine within", time, risk["stay_basis"]))
    mean, unit = _in_tokens(risk["expected_samples_per_second"], estimate)
    words = f"{format_number(mean['value'])} {unit}"
    return [
        *rows,
        ("average speed over scenarios of capacity", words, speed_spread(estimate, mean)),
    ]


def _in_tokens(speed: Document, estimate: Document) -> tuple[Document, str]:
    """Return a speed of the machines as what counts of it, in the unit of the estimate."""
    (shown, unit), raw = speed_of(estimate), estimate["samples_per_second"]
    return {end: speed[end] * shown[end] / raw[end] for end in ("value", "low", "high")}, unit


def _price_risk(document: Document) -> list[Text | Table | None]:
    """Show the price that the answer rests on most, and what is best if it is wrong."""
    risk = document.get("price_risk")
    if not risk:
        return []
    row, usd = risk["row"], risk["usd_per_hour"]
    lines = [
        f"The answer rests on one price: {row['gpu']}:{row['gpu_count']} {market_words(row)} in "
        f"{row['place']} at {format_usd(usd['value'])}/h ({row['price_basis']}, as of "
        f"{row['as_of']}; {format_usd(usd['low'])} to {format_usd(usd['high'])} is plausible)."
    ]
    if risk.get("changes_at_usd_per_hour") is not None:
        lines.append(f"Above {format_usd(risk['changes_at_usd_per_hour'])}/h it no longer holds.")
    cases = [
        [
            "without that row"
            if case["usd_per_hour"] is None
            else f"at {format_usd(case['usd_per_hour'])}/h",
            "the same" if case["same"] else placement_words(case["placement"]),
            *_case_figures(case),
            "proved" if case["proved"] else "none: a short search",
        ]
        for case in risk["cases"]
        if case.get("placement") and case.get("estimate")
    ]
    unit = speed_of(document["estimate"])[1]
    columns = ("price", "best then", unit, "USD/h", "proof")
    return [
        Text(lines=tuple(lines)),
        table("If that price is wrong", columns, cases, numbers=(unit, "USD/h")),
    ]


def _case_figures(case: Document) -> list[tuple[str, float]]:
    speed, _ = speed_of(case["estimate"])
    usd = case["estimate"]["usd_per_hour"]["total"]
    return [(format_number(speed["value"]), speed["value"]), (format_usd(usd), usd)]

"""A recommendation: the answer, where it lies, what it costs, and what else there was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from placer.documents.result_parts import OLDER
from placer.documents.schemas.proofs import tail_share
from placer.report.blocks import (
    Cell,
    Pair,
    Report,
    Section,
    Table,
    Text,
    facts,
    figure,
    section,
    table,
    text,
)
from placer.report.figures import (
    Document,
    hours_words,
    market_words,
    percent,
    placement_words,
    shown_speed,
    speed_of,
    speed_spread,
    spoken,
    tokens_per_sample,
)
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.placement import facts_of, figures_of, spot_facts, total_words
from placer.report.kinds.shared.provenance import sources
from placer.report.places import map_blocks
from placer.units import (
    format_number,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
    is_wide,
)

UNITS = {
    "throughput": "samples/s",
    "cost": "USD/h",
    "cost-per-sample": "USD/M",
    "time": "s",
    "carbon": "g/h",
    "total": "USD",
}
"""Units of objectives."""
METHODS = {
    "alone": "every single machine tried",
    "root": "ruled out by its bound",
    "search": "searched",
    "stopped": "not finished",
}
"""How a bound of a strategy was found."""
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
    budget, doubt = document["request"].get("budget_usd_per_hour"), _doubt(document)
    return Report(
        title=f"Where to train {document['request']['model']}",
        subtitle=parts.subtitle(document, "recommend"),
        verdict=f"Train on {parts.option_words(document)}. {proof_words(document)}{doubt}",
        tone="good" if document["status"] == "optimal" and not doubt else "warning",
        figures=tuple(figures_of(document["estimate"])),
        sections=(
            *section(
                "The answer", facts(*_facts(document)), text(*map(spoken, document["verdict"]))
            ),
            *section("Where", *map_blocks(document, placement, estimate, others), detail=True),
            *parts.dollars(estimate, budget),
            *parts.step(placement, estimate),
            *_plan(document),
            *_batches(document),
            *parts.considered(document["alternatives"], placement, data=True),
            *_why_not(document),
            *_own_machines(document),
            *_proof(document),
            *parts.warnings_of(document, spot_facts(document), *_price_risk(document)),
            *parts.wishes(document),
            *sources(document, [estimate], today),
            *parts.reproduce(document, more=_proof_option(document)),
        ),
    )


def _without_placement(document: Document, today: date) -> Report:
    status, nearest = document["status"], document["nearest"]
    first = f" A change that works: {nearest[0]['note']}." if nearest else ""
    others = [one["placement"] for one in nearest[1:]]
    blocks = (
        map_blocks(document, nearest[0]["placement"], nearest[0]["estimate"], others)
        if nearest
        else ()
    )
    return Report(
        title=f"Where to train {document['request']['model']}",
        subtitle=parts.subtitle(document, "recommend"),
        verdict=NO_ANSWER.get(status, NO_ANSWER["unknown"]) + first,
        tone="bad",
        sections=(
            *parts.wishes(document),
            *parts.considered(nearest, None, "What would fit, after one change"),
            *section("Where that would be", *blocks, detail=True),
            *parts.warnings_of(document),
            *sources(document, [one["estimate"] for one in nearest], today),
            *parts.reproduce(document, more=_proof_option(document)),
        ),
    )


def _doubt(document: Document) -> str:
    """Say that a proof at expected speeds ranks nothing where speeds are hardly known."""
    speed, unit = speed_of(document["estimate"])
    if document["status"] != "optimal" or not is_wide(speed["low"], speed["high"]):
        return ""
    return f" The ranking is not certain: the speed is {speed_spread(document['estimate'])} {unit}."


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
    early = "A quick answer" if "proof" in document["solver"] else "The search ended early"
    return f"{early}: another placement may be better by up to {percent(gap)}."


def _facts(document: Document) -> list[Pair]:
    rows, total = facts_of(document), total_words(document)
    if total:
        rows.append(("total", total, ""))
    solver = document["solver"]
    took = f"{solver['name']}, {format_seconds(solver['seconds'])}{_proof_option(document)}"
    rows.append(("proof", proof_words(document), took))
    if document.get("never_tried"):
        rows.append(("never tried", document["never_tried"], ""))
    second = document.get("verification")
    if second:
        rows.append(("second solver", f"{second['solver']}: {second['verdict']}", second["status"]))
    return rows


def _proof_option(document: Document) -> str:
    """Return the option that asked for a draft; empty of a full proof."""
    asked = document["solver"].get("proof")
    return f" --proof {asked}" if asked else ""


def _plan(document: Document) -> tuple[Section, ...]:
    plan = document.get("confidence")
    if not plan:
        return ()
    ranks = [
        ("if time runs out" if rank["certain"] else f"fallback {number}", rank)
        for number, rank in enumerate(plan["ranks"])
        if number
    ]
    return section(
        "The plan and its fallbacks",
        facts(*plan_facts(plan)),
        parts.option_table("Fallbacks", ranks),
    )


def plan_facts(plan: Document) -> Iterator[Pair]:
    """Yield what a plan with fallbacks reaches, and what it costs."""
    asked, hours = plan["asked"], plan["deadline_hours"]
    label = "confidence" if asked else "expected"
    reached, fresh = (
        format_plain(100 * plan[key]) for key in ("reached", "reached_in_fresh_scenarios")
    )
    shares = f"in {reached} % of scenarios, {fresh} % of fresh ones"
    if asked and not plan["holds"]:
        shares += f" (not the {100 * asked:g} % asked for)"
    scenarios = f"{plan['scenarios']:,} scenarios"
    if hours is not None:
        yield label, f"done within {hours_words(hours)} {shares}", scenarios
    else:
        length = tokens_per_sample(plan["ranks"][0]["estimate"])
        speed = format_speed(plan["mean_samples_per_second"], length)
        mean = "" if asked else f"{speed} on average; "
        yield label, f"{mean}machines are available {shares}", scenarios
    if plan["usd"] is not None and plan["tail_usd"] is not None:
        took = f"; {hours_words(plan['mean_hours'])} if finished" if plan["mean_hours"] else ""
        tail = f"{format_usd(plan['tail_usd'])} in the most expensive"
        share = format_plain(100 * tail_share(asked))
        least = plan["least_usd"]
        proved = "" if least is None else f"proved: none costs less than {format_usd(least)}"
        yield "run", f"{_cost_words(plan)}, {tail} {share} %{took}", proved


def _cost_words(plan: Document) -> str:
    """Give the dollars of a run that finishes: those of runs that fail are paid as well."""
    if plan["usd_per_finished_run"] is None:
        return f"{format_usd(plan['usd'])} on average, and none finishes"
    each = "on average" if plan["reached"] == 1 else "per finished run"
    return f"{format_usd(plan['usd_per_finished_run'])} {each}"


def _unit(document: Document) -> tuple[str, float]:
    """Return the unit of the objective, tokens of a language model, and its factor."""
    name, estimate = document["objective"]["name"], document["estimate"]
    length = None if estimate is None else tokens_per_sample(estimate)
    if length is not None and name == "throughput":
        return "tokens/s", length
    if length is not None and name == "cost-per-sample":
        return "USD/Gtok", 1000 / length
    return UNITS[name], 1.0


def _batches(document: Document) -> tuple[Section, ...]:
    rows, chosen = document.get("batches", ()), document["request"].get("target_batch_size")
    value, (unit, each) = document["objective"]["value"], _unit(document)

    def amount(number: float | None, missing: str) -> Cell:
        return figure(None if number is None else each * number, format_number, missing)

    sizes = [row["target_batch_size"] for row in rows]
    cells: list[list[Cell]] = [
        [
            size,
            amount(value if size == chosen else row["value"], "not better"),
            amount(row["bound"], "-"),
        ]
        for size, row in zip(sizes, rows, strict=True)
    ]
    columns = ("TBS", unit, "at best")
    return section(
        "Target batch sizes",
        table(
            "Searched from the largest down, each only for what is better",
            columns,
            cells,
            numbers=columns,
            marked=sizes.index(chosen) if chosen in sizes else None,
        ),
        text(_batch_words(document.get("batch_proof"), unit, each) if rows else ""),
    )


def _batch_words(proof: Document | None, unit: str, each: float) -> str:
    """Say what is proved of the batches that were not solved one by one."""
    if proof is None:
        return "Proved for these batches alone, and for none between them."
    every = f"all batches from {proof['low']:,} to {proof['high']:,}"
    searches = f"{proof['searches']:,} searches over several at once"
    if proof["bound"] is None:
        return f"Nothing is proved of {every} together: the time limit was reached ({searches})."
    early = "" if proof["finished"] else "; the time limit was reached before the gap was met"
    bound = f"{format_number(each * proof['bound'])} {unit} at best"
    return f"Proved over {every}: {bound} ({searches}{early})."


def _proof(document: Document) -> tuple[Section, ...]:
    unit, each = _unit(document)
    bound = f"{unit} at {'most' if document['objective']['name'] == 'throughput' else 'least'}"
    rows: list[list[Cell]] = [
        [
            "one machine" if row["strategy"] == "none" else row["strategy"],
            row["local_steps"],
            figure(
                None if row["bound"] is None else each * row["bound"],
                format_number,
                "not known" if row["method"] == "stopped" else "none fits",
            ),
            METHODS.get(row["method"], row["method"]),
            row["nodes"],
            row["priced"],
        ]
        for row in document.get("proof", ())
    ]
    columns = ("strategy", "steps", bound, "how", "nodes", "priced")
    return section(
        "Proof",
        table("No placement of a strategy is better than its bound", columns, rows),
        detail=True,
    )


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
        text(agreed),
        parts.option_table("What simpler tools choose, and what lies just outside a limit", rows),
    )


def _own_machines(document: Document) -> tuple[Section, ...]:
    """Show own machines, own with spot ones and spot ones alone, where the question names some."""
    beside = document.get("own_machines")
    if not beside:
        return ()
    rows = [(one["label"], one) for one in beside["rows"]]
    even, title = break_even_words(document), "Own machines beside rented ones"
    return section(title, parts.option_table(title, rows), text(beside["idle"], even))


def break_even_words(document: Document) -> str:
    """Say up to which price own machines are cheaper, and below which rented ones are; empty where
    nothing is rented beside them.
    """
    even = document["own_machines"]["break_even"]
    if not even:
        return ""
    most, least = even["most_own_usd_per_machine_hour"], even["least_rented_usd_per_hour"]
    mine = f"up to {format_usd(most)}/h each" if most else "at no price"
    other = f"below {format_usd(least)}/h in all" if least else "at no price"
    own, rented = even["own_usd_per_machine_hour"], even["rented_usd_per_hour"]
    each = speed_of(document["estimate"])[1].removesuffix("s/s")
    return (
        f"own {mine} (now {format_usd(own)}), {even['rented']} {other} "
        f"(now {format_usd(rented)}), per {each}"
    )


def _price_risk(document: Document) -> list[Text | Table | None]:
    """Show the price that the answer rests on most, and what is best if it is wrong."""
    risk = document.get("price_risk")
    if not risk:
        return []
    row, usd = risk["row"], risk["usd_per_hour"]
    lines = [
        spoken(
            f"The answer rests on one price: {row['gpu']}:{row['gpu_count']} {market_words(row)} "
            f"in {row['place']} at {format_usd(usd['value'])}/h ({row['price_basis']}, as of "
            f"{row['as_of']}; {format_usd(usd['low'])} to {format_usd(usd['high'])} is plausible)."
        )
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
    return [text(*lines), table("If that price is wrong", columns, cases)]


def _case_figures(case: Document) -> list[tuple[str, float]]:
    speed, _ = speed_of(case["estimate"])
    usd = case["estimate"]["usd_per_hour"]["total"]
    return [(shown_speed(case["estimate"]), speed["value"]), (format_usd(usd), usd)]

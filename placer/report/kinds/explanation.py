"""An explanation: what binds, why not something else, what one more is worth, why nothing fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date

from placer.report.blocks import (
    Block,
    Cell,
    Report,
    Section,
    figure,
    section,
    table,
    text,
    without_empty_columns,
)
from placer.report.figures import Document, exchange_words, percent, placement_words
from placer.report.kinds.shared import parts
from placer.report.kinds.shared.provenance import sources
from placer.units import (
    counted,
    format_duration,
    format_number,
    format_plain,
    format_seconds,
    format_usd,
)

TOKENS = "effective_tokens_per_second"
"""Speed of a placement of a language model."""
AMOUNTS: Mapping[str, Callable[[float], str]] = {
    "usd_per_hour": lambda value: f"{format_usd(value)}/h",
    "usd": format_usd,
    "usd_per_million_samples": lambda value: f"{format_usd(value)} per million samples",
    "samples_per_second": lambda value: f"{format_number(value)} samples/s",
    "seconds": format_duration,
    "megabits_per_second": lambda value: f"{format_number(value)} Mb/s",
    "g_per_hour": lambda value: f"{format_number(value)} g CO2e/h",
}
"""How an amount of a unit is written; of other units, things that are counted."""
NAMES = {"price": "price", "egress": "egress price", "bandwidth": "bandwidth of its links"}
NO_FACTOR = {
    "price": "It would lose even at $0.",
    "egress": "Free egress alone would not make it enter.",
    "bandwidth": "More bandwidth alone would not make it enter at today's egress prices.",
}
MAXIMISED = ("throughput",)
NO_GAIN = 0.001
"""Gains below are called none, and losses within it are none."""
MUCH = 0.1
"""A share of a step that is worth naming as a reason."""


def report(document: Document, today: date) -> Report:
    """Build the report of a ``placer.explanation/v1`` document."""
    best, conflict = document["best"], document["conflict"]
    ended = (
        ""
        if document["complete"]
        else f"The time was up after {document['seconds']:.0f} s: what is missing or not proved "
        "above was not tried (--time-limit)."
    )
    return Report(
        title=f"Why this answer for {document['request']['model']}"
        if best
        else f"Why nothing fits for {document['request']['model']}",
        subtitle=parts.subtitle(document, "explain"),
        verdict=_verdict(best, conflict),
        tone="good" if best and document["complete"] else "warning" if best else "bad",
        sections=(
            *section("The saved answer", text(document.get("saved", ""))),
            *_conflict(conflict),
            *_binding(document["binding"], document),
            *(part for row in document["why_not"] for part in _why_not(row, document)),
            *_worth(document["worth"], document),
            *section("Stay in one region?", text(*_stay(document["staying"], document))),
            *section("Not complete", text(ended)),
            *parts.wishes(document),
            *sources(document, [], today),
            *parts.reproduce(document, "explain"),
        ),
    )


def _verdict(best: Document | None, conflict: Document | None) -> str:
    if best:
        return f"The best is {option_words(best)}."
    if conflict and conflict["remedies"]:
        wishes = conflict["wishes"]
        return (
            f"Nothing meets {_listed(wishes)}{' together' if len(wishes) > 1 else ''}. "
            "A change that works: "
            f"{conflict['remedies'][0]['change']}."
        )
    return "Nothing was found that meets all wishes; it is not proved that there is nothing."


def option_words(option: Document) -> str:
    """Name the workers of a placement, with its speed and price."""
    (speed, unit), usd = _speed(option), format_usd(option["usd_per_hour"])
    return f"{placement_words(option['placement'])}: {format_number(speed)} {unit} for {usd}/h"


def _speed(option: Document) -> tuple[float, str]:
    """Return the speed that counts, and its unit: tokens of a language model."""
    if TOKENS in option:
        return option[TOKENS], "tokens/s"
    return option["samples_per_second"], "samples/s"


def _gain(gain: float, document: Document) -> str:
    """Write an improvement as a signed share: more samples/s, or less money."""
    sign = 1 if document["objective"]["name"] in MAXIMISED else -1
    return percent(sign * gain, signed=True)


def _listed(wishes: Sequence[Document]) -> str:
    words = [str(wish["words"]) for wish in wishes]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _upper(words: str) -> str:
    return words if words.startswith("-") else words[:1].upper() + words[1:]


def _conflict(conflict: Document | None) -> tuple[Section, ...]:
    """Show the wishes that contradict each other, and what would do instead of each."""
    if conflict is None:
        return ()
    wishes, together = conflict["wishes"], conflict["together"]
    if not wishes:
        none = (
            "No machine of this catalog can train this model: none has the memory and a known "
            "speed."
        )
        return section("Why nothing fits", text(none))
    several = len(wishes) > 1
    others = "; ".join(str(wish["words"]) for wish in conflict["others"])
    without = "both" if len(wishes) == 2 else "all of them"
    may = "" if conflict["minimal"] else " Some of them may suffice for that."
    further = conflict["further"]
    shown = section(
        "Wishes that contradict each other" if several else "The wish that nothing meets",
        text(
            f"{_upper(_listed(wishes))} "
            + ("contradict each other" if several else "cannot be met by anything in this catalog")
            + f". Proved: no placement meets {'them together' if several else 'it'}.{may}"
        ),
        _remedies(conflict["remedies"]),
        text(f"Without {without}: {option_words(together)}." if together else ""),
        text(f"Not involved: {others}." if others and not further else ""),
        text("Even without them the other wishes have no answer:" if further else ""),
    )
    return (*shown, *_conflict(further))


def _remedies(rows: Sequence[Document]) -> Block | None:
    cells = [
        [
            row["change"] or f"without {row['code']}: not enough",
            *_option(row["best"]),
            "proved" if row["proved"] else "not proved",
        ]
        for row in rows
    ]
    unit = _unit([row["best"] for row in rows])
    columns = ("change", "workers then", unit, "USD/h", "proof")
    return table("One change is enough", columns, cells, numbers=(unit, "USD/h"))


def _unit(options: Sequence[Document | None]) -> str:
    return next((_speed(one)[1] for one in options if one is not None), "samples/s")


def _option(option: Document | None) -> list[Cell]:
    if option is None:
        return ["", ("", None), ("", None)]
    speed, _ = _speed(option)
    usd = option["usd_per_hour"]
    return [
        placement_words(option["placement"]),
        (format_number(speed), speed),
        (format_usd(usd), usd),
    ]


def _of(row: Document, keys: tuple[str, str], between: str) -> str:
    """Join two amounts with their unit; nothing is written of one that is not known."""
    known = [row[key] for key in keys if row[key] is not None]
    write = AMOUNTS.get(row["unit"])
    if write is not None:
        return between.join(map(write, known))
    noun = row["unit"].removesuffix("s").replace("gpu", "GPU")
    words = [*map(format_number, known[:-1]), *(counted(round(n), noun) for n in known[-1:])]
    return between.join(words) if noun else between.join(map(format_number, known))


def _binding(binding: Document | None, document: Document) -> tuple[Section, ...]:
    """Show what keeps a better placement away, and what does not."""
    if binding is None:
        return ()
    binds = [row for row in binding["limits"] if row["binds"]]
    rows: list[list[Cell]] = []
    for row in binds:
        used = _of(row, ("used", "limit"), " of ")
        for what, option in (("next better", row["nearest"]), ("without it", row["without"])):
            if option is not None:
                gain = figure(row["gain"], lambda gain: _gain(gain, document))
                share: Cell = gain if what == "without it" else ("", None)
                rows.append([row["words"], used, what, *_option(option), share])
    joint = binding["joint"]
    lines = [
        f"Together: {_upper(', '.join(row['words']))}. No one of them alone changes anything; "
        f"without all of them {option_words(row['without'])} ({_gain(row['gain'], document)})."
        for row in joint or ()
    ]
    idle = [_slack(row) for row in binding["limits"] if row["binds"] is False]
    open_ = [_slack(row) for row in binding["limits"] if row["binds"] is None]
    if not binds and not joint:
        sure = "Nothing binds" if joint is not None and not open_ else "Nothing was found to bind"
        lines.append(f"{sure}: no limit that was tried keeps a better placement away.")
    lines += [f"Not proved either way: {'; '.join(open_)}."] if open_ else []
    alone = " when given up alone" if joint else ""
    lines += [f"Without effect on the answer{alone}: {'; '.join(idle)}."] if idle else []
    unit = _unit([row[best] for row in binds for best in ("without", "nearest")])
    columns = ("limit", "used", "placement", "workers then", unit, "USD/h", "gain")
    return section(
        "What binds",
        table("Limits that bind", columns, rows),
        text(*lines, *_one_more(binding["one_more"], document["best"])),
    )


def _slack(row: Document) -> str:
    used = "" if row["used"] is None else _of(row, ("used", "limit"), " of ")
    return f"{row['words']} ({used} used)" if used else str(row["words"])


def _one_more(more: Document | None, best: Document | None) -> Iterator[str]:
    """Say whether one more of the same machines would do better, or the exchange ends to scale."""
    if more is None or best is None:
        return
    (now, _), (then, unit) = _speed(best), _speed(more)
    usd, share = format_usd(more["usd_per_hour"]), percent(_waiting(more))
    waiting = f"{share} of each step is waiting for the exchange"
    if then <= now * (1 + NO_GAIN):
        yield (
            f"The exchange does not scale further: one more of the same machine reaches "
            f"{format_number(then)} instead of {format_number(now)} {unit}, for {usd}/h; {waiting}."
        )
    else:
        yield (
            f"One more of the same machine would reach {format_number(then)} {unit} "
            f"({percent(then / now - 1, signed=True)}) for {usd}/h; {waiting}."
        )


def _waiting(option: Document) -> float:
    """Return the share of a step in which nothing is calculated."""
    whole = option["step_seconds"]
    return float(option["communication_seconds"] / whole) if whole else 0.0


def _why_not(row: Document, document: Document) -> tuple[Section, ...]:
    remedies = _remedies(row["remedies"]) if row["best_with_it"] is None else None
    return section(f"Why not {row['subject']}", text(*_why_not_lines(row, document)), remedies)


def _why_not_lines(row: Document, document: Document) -> Iterator[str]:
    """Say what the best with it loses, through what, and where it would enter."""
    if row["status"] == "chosen":
        yield "It is part of the best placement."
        return
    yield from (f"A wish excludes it: {words}." for words in row["excluded"][:2])
    option, best = row["best_with_it"], document["best"]
    if option is None and row["status"] == "unknown":
        yield "No placement with it was found; it is not proved that there is none."
    elif option is None:
        yield "No placement with it meets the wishes (proved)."
    else:
        regret = row["regret"]
        wish = " and without that wish" if row["excluded"] else ""
        exchange = exchange_words(option["placement"])
        words = f"The best with it{wish} is {option_words(option)}, {exchange}"
        sure = "proved" if row["proved"] else "at most; not proved that it cannot do better"
        if regret is not None and abs(regret) <= NO_GAIN:
            yield f"{words}, as good as the best."
        else:
            loss = "" if regret is None else f", {_gain(-regret, document)} against the best"
            yield f"{words}{loss} ({sure})."
            if regret is None or regret > 0:
                yield from _reasons(option, best)
        if row["kind"] == "stages":
            yield "Nothing that placer writes starts such workers; it is for software of your own."
    for found in row["break_evens"]:
        yield _break_even(found)
    if row["never_by_network"]:
        yield "No network would change that: not even free egress and links without limit."


def _reasons(option: Document, best: Document | None) -> Iterator[str]:
    """Compare the parts of two placements: price of speed, exchange, egress."""
    if best is None:
        return
    theirs, ours = _usd_per_million(option), _usd_per_million(best)
    reasons = []
    if ours and theirs > ours * (1 + MUCH):
        reasons.append(
            f"its machines cost {format_plain(theirs / ours)} x as much for each sample that they "
            "calculate"
        )
    if _waiting(option) > max(MUCH, _waiting(best)):
        exchange, step = (
            format_seconds(option[key]) for key in ("communication_seconds", "step_seconds")
        )
        reasons.append(f"its exchange takes {exchange} of each {step}")
    egress, usd = option["egress_usd_per_hour"], option["usd_per_hour"]
    if usd and egress > MUCH * usd:
        reasons.append(f"{format_usd(egress)} of its {format_usd(usd)}/h is egress")
    if reasons:
        yield f"It loses because {'; '.join(reasons)}."


def _usd_per_million(option: Document) -> float:
    """Return what machines cost for their samples if nothing had to be exchanged."""
    speed = option["samples_per_second"] / max(1e-9, 1 - _waiting(option))
    return float(option["compute_usd_per_hour"] / speed) if speed else 0.0


def _break_even(found: Document) -> str:
    """Say where it would enter, or that it would nowhere."""
    what, factor = found["what"], found["factor"]
    if found["at_any_price"]:
        return "No price keeps it out: no budget is set, so prices do not decide."
    if factor is None:
        unproved = f"No {NAMES[what]} at which it would enter was found (not proved)."
        return NO_FACTOR[what] if found["proved"] else unproved
    sure = "" if found["proved"] else ", not proved that not earlier"
    option = found["placement"]
    then = "" if option is None else f": {placement_words(option['placement'])}"
    if option is not None and what == "price" and len(option["placement"]["workers"]) == 1:
        usd = option["placement"]["workers"][0]["usd_per_hour"]
        then += f" at {format_usd(factor * usd)}/h instead of {format_usd(usd)}/h"
    return f"Break-even: it enters at {format_plain(factor)} x today's {NAMES[what]}{sure}{then}."


def _worth(rows: Sequence[Document], document: Document) -> tuple[Section, ...]:
    cells: list[list[Cell]] = []
    for row in rows:
        name = row["code"].replace("_", " ")
        one = _of({**row, "limit": None}, ("limit", "step"), "")
        cells.append(
            [
                name,
                f"+{one}",
                figure(row["gain"], lambda gain: _gain(gain, document), "not proved"),
                *_option(row["best"]),
            ]
        )
        least = row["least"]
        if least is not None and row["least_best"] is not None and least != row["step"]:
            amount = _of({**row, "limit": None, "step": least}, ("limit", "step"), "")
            gain = figure(row["least_gain"], lambda gain: _gain(gain, document))
            cells.append([name, f"+{amount}, the least", gain, *_option(row["least_best"])])
    unit = _unit([row[best] for row in rows for best in ("best", "least_best")])
    columns = ("limit", "more", "gain", "workers then", unit, "USD/h")
    listed = table("Each limit by itself", columns, cells, data=True)
    return section("What one more is worth", without_empty_columns(listed))


def _stay(row: Document | None, document: Document) -> Iterator[str]:
    """Say whether one region or several are best, and when that changes."""
    if row is None:
        return
    alone, last, leave = row["best_in_one_region"], row["last_in_one_region"], row["leave"]
    if row["regions"] > 1:
        if alone is None:
            sure = "meets the wishes (proved)" if row["proved"] else "was found (not proved)"
            yield f"Leave: {row['regions']} regions are best, and none in one region {sure}."
            return
        loss = "" if row["loss"] is None else f" {_gain(-row['loss'], document)}"
        sure = "" if row["proved"] else " at most (not proved)"
        stay = f"Staying in one:{loss}{sure}, {option_words(alone)}."
        yield f"Leave: {row['regions']} regions are best. {stay}"
        return
    proofs = {"optimal": "proved", "feasible": "not proved"}
    proof = proofs.get(document["status"], "not proved: the search was stopped")
    yield f"Stay: one region is best for this request ({proof})."
    if leave is not None:
        sure = "" if leave["proved"] else " at the latest (not proved that not earlier)"
        before = f" Up to there one region goes as far as {option_words(last)}." if last else ""
        usd = format_usd(leave["usd_per_hour"])
        yield f"Leaving it starts to pay at {usd}/h{sure}: {option_words(leave)}.{before}"
    elif row["never"]:
        most = f"up to {format_usd(row['most_usd_per_hour'])}/h"
        limit = "at any budget" if row["unlimited"] else most
        within = f"; {most}" if row["unlimited"] else ":"
        far = "" if last is None else f"{within} one region goes as far as {option_words(last)}"
        steps = "steps of speed below 1 % not counted"
        beats = ", and nothing beats that" if far and not row["unlimited"] else ""
        yield f"Leaving never pays {limit}{far}{beats} ({steps})."
    elif last is not None:
        usd = format_usd(last["usd_per_hour"])
        yield f"Leaving does not pay up to {usd}/h: {option_words(last)}."
        yield "Beyond, nothing is proved."

"""What ``placer robust`` prints: the regret, the worst world,
and what to measure first.
"""

from __future__ import annotations

import shlex

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from placer.advice.robustness.regret import FRAGILE_REGRET, FRAGILE_SHARE, FRAGILE_WORST, Robustness
from placer.advice.robustness.uncertainty import BOXES, TOGETHER, changes_of, move_together
from placer.advice.robustness.value_of_information import Worth
from placer.cli.report.recommend.sentences import brief, headline
from placer.cli.report.recommend.terminal import reading
from placer.cli.report.values import value_text
from placer.cli.screen.tables import Sheet
from placer.units import counted, format_plain, format_speed, format_usd

KIND_WORDS = {
    "price": "price",
    "bandwidth": "link",
    "rate": "speed",
    "phi": "number of samples to target",
}
MOST_ROWS = 8
"""Figures that are listed; --json has all."""
LEAST_GAIN = 0.001
"""Figures that save less of the expected regret are not worth a measurement."""


def robust_view(got: Robustness) -> RenderableType:
    """Show the question, the recommendation, its regret, the worst world and what to measure."""
    placement, estimate = got.result.placement, got.result.estimate
    assert placement is not None
    assert estimate is not None
    speed, usd = estimate.effective_samples_per_second.value, estimate.usd_per_hour.total
    price = estimate.usd_per_billion_tokens
    each = (
        f"{format_usd(estimate.usd_per_million_samples)} per million samples"
        if price is None
        else f"{format_usd(price)} per billion tokens"
    )
    figures = f"{format_speed(speed, estimate.tokens_per_sample)} for {format_usd(usd)}/h, {each}"
    proved = str(got.result.status) == "optimal"
    proof = (
        []
        if proved
        else [
            (
                "proof",
                "none: a better placement may exist at the book's own figures; raise --time-limit",
            )
        ]
    )
    lines = [
        ("figures", figures),
        *proof,
        ("unsure", _unsure(got)),
        *_regret(got),
        *_worst(got),
        *_steadier(got),
    ]
    title = Text(f"\n{headline(placement)}", style="bold green")
    return Group(reading(got.result.problem), title, _pairs(lines), *_measurements(got))


def _unsure(got: Robustness) -> str:
    """Say how many figures of each kind vary, and how far."""
    sentences = []
    for kind in BOXES:
        factors = [factor for factor in got.factors if factor.kind == kind]
        if factors:
            low, high = min(f.low for f in factors), max(f.high for f in factors)
            words = (
                counted(len(factors), KIND_WORDS[kind])
                if kind != "phi"
                else f"samples to target of {counted(len(factors), 'exchange')}"
            )
            ends = format_plain(low, 2), format_plain(high, 2)
            if ends[0] != ends[1]:
                sentences.append(f"{words} (x{ends[0]} to x{ends[1]})")
    if not sentences:
        return "nothing: every figure that a candidate rests on is taken as exact"
    together = (
        f"spot prices of one device of a provider together (correlation {TOGETHER:g}, from price "
        "lists of Google Cloud), all else independently"
        if move_together(got.factors)
        else "each independently"
    )
    return f"{', '.join(sentences)}; {together}; egress and everything else as in the book"


def _regret(got: Robustness) -> list[tuple[str, str]]:
    """Give mean and worst regret, and how good these figures are."""
    worst, worlds = got.worst, counted(len(got.sample), "world")
    kept = (
        ""
        if worst is None
        else f"{_percent(got.mean_regret)} on average, {_percent(worst.regret)} at worst"
    )
    if got.share("broken") and kept:
        kept += " where it keeps the limits"
    known = (
        "exact: each world was solved and proved"
        if got.exact
        else (
            f"at least: against the best of {counted(len(got.pool), 'candidate')}; --exact solves "
            f"each world"
        )
    )
    lines = [("regret", f"{kept} ({known})" if kept else "none: it breaks a limit in every world")]
    lines.append(
        (
            "",
            (
                f"best in {_percent(got.share('best'))} of {worlds}, more than "
                f"{_percent(FRAGILE_REGRET)} lost in {_percent(_lost(got))}"
            ),
        )
    )
    if got.share("broken"):
        lines.append(
            ("limits", f"{_limit_words(got)} in {_percent(got.share('broken'))} of the worlds")
        )
    verdict = "steady: it stays good whatever the figures turn out to be"
    if got.fragile:
        reasons = (
            (got.share("broken"), "a limit is broken"),
            (_lost(got), f"more than {_percent(FRAGILE_REGRET)} is lost"),
        )
        verdict = "fragile: " + ", and ".join(
            f"{what} in {_percent(share)} of the worlds" for share, what in reasons if share
        )
        if got.share("bad") <= FRAGILE_SHARE and worst is not None:
            verdict = (
                f"fragile: {_percent(worst.regret)} lost in the worst world, more than "
                f"{_percent(FRAGILE_WORST)}"
            )
    return [*lines, ("verdict", verdict)]


def _lost(got: Robustness) -> float:
    return got.share("bad") - got.share("broken")


def _limit_words(got: Robustness) -> str:
    wish = got.result.problem.requirements
    names = {
        "over budget": wish.budget_usd_per_hour,
        "over the budget in total": wish.budget_usd,
        "over the price of a million samples": wish.most_usd_per_million_samples,
        "past the deadline": wish.deadline_s,
        "above the limit on emissions": wish.max_carbon_g_per_hour,
        "below the floor": wish.min_samples_per_second,
    }
    return (
        " or ".join(name for name, limit in names.items() if limit is not None)
        or "over the time of its functions"
    )


def _worst(got: Robustness) -> list[tuple[str, str]]:
    """Say where the recommendation loses most, and what is best there."""
    world = got.worst
    if world is None or world.regret <= got.result_gap:
        return []
    if world.best is None or world.best_value is None:
        return []
    objective, estimate = got.result.objective, got.result.estimate
    length = None if estimate is None else estimate.tokens_per_sample
    figures = (
        f"{value_text(world.value, objective, length)} against "
        f"{value_text(world.best_value, objective, length)} "
        f"of {brief(world.best)}"
    )
    used = {f.words for c in got.pool[:1] for f in c.factors}
    used |= {
        f.words
        for c in got.pool
        if c.placement.canonical() == world.best.canonical()
        for f in c.factors
    }
    touched = [
        change.text
        for change in changes_of(got.factors, world.shares)
        if change.text.rpartition("=")[0] in used
    ]
    return [("worst", figures), ("", " ".join(f"--set {shlex.quote(text)}" for text in touched))]


def _steadier(got: Robustness) -> list[tuple[str, str]]:
    """Name a candidate that loses less on average, a broken limit counted as a full loss."""
    same = (
        got.steadiest is None
        or got.result.placement is None
        or got.steadiest.canonical() == got.result.placement.canonical()
    )
    if same or got.steadiest is None:
        return (
            [("steadier", "nothing: no candidate has a lower expected regret")]
            if got.fragile
            else []
        )
    text = (
        f"{headline(got.steadiest)}: expected regret {_percent(got.steadiest_regret)} instead "
        f"of {_percent(got.expected_loss)}"
    )
    return [
        ("steadier", f"{text}{'; a broken limit counts as 100 %' if got.share('broken') else ''}")
    ]


def _measurements(got: Robustness) -> list[RenderableType]:
    """Say which figure to measure first."""
    worth = [w for w in got.worth if w.gain > LEAST_GAIN]
    if not worth:
        return [
            Text(
                "\nMeasure nothing: knowing any single figure would not lower the expected regret.",
                style="dim",
            )
        ]
    headers = ("figure", "range", "saves", "measure with")
    table = Sheet(headers, right=("saves",), wrap=("figure", "measure with"))
    for w in worth[:MOST_ROWS]:
        table.add_row(
            _named(w),
            f"x{format_plain(w.factor.low, 2)} to x{format_plain(w.factor.high, 2)}",
            _points(w.gain),
            w.factor.measure,
        )
    return [
        Text(
            "\nMeasure first (saves: points of expected regret avoided if the figure is known "
            "before choosing)",
            style="bold",
        ),
        table,
    ]


def _named(worth: Worth) -> str:
    factor = worth.factor
    moves = factor.kind == "price"
    basis = factor.basis.replace("list", "list price, but it moves") if moves else factor.basis
    return f"{factor.words} ({basis})"


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


def _percent(share: float) -> str:
    return (
        f"{100 * share:.0f} %"
        if share >= 0.095 or share == 0
        else f"{format_plain(100 * share, 2)} %"
    )


def _pairs(lines: list[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    return table

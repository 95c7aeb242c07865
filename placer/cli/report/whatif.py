"""The difference table of ``placer whatif``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from placer.advice.worlds.whatif import WhatIf, figures_of
from placer.cli.report.recommend.sentences import brief, headline
from placer.cli.report.recommend.terminal import reading
from placer.cli.screen.tables import Sheet
from placer.problem.placement import Placement
from placer.problem.words.changes import Change
from placer.solving.answer import Status
from placer.solving.result import Result
from placer.units import format_number, format_speed, format_usd

NOTHING = "nothing fits"
STATUS_WORDS = {
    "optimal": "proved",
    "feasible": "not proved",
    "infeasible": "proved",
    "time_limit": "stopped early",
    "memory_limit": "stopped by the memory limit",
    "unknown": "not proved",
}
FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("samples/s", "samples_per_second", format_number),
    ("USD/h", "usd_per_hour", format_usd),
    ("  of it egress", "egress_usd_per_hour", format_usd),
    ("USD per million samples", "usd_per_million_samples", format_usd),
)
"""Label, figure of `figures_of` and its words."""
TOKEN_FIGURES = (
    ("tokens/s", "effective_tokens_per_second", format_number),
    *FIGURES[1:3],
    ("USD per billion tokens", "usd_per_billion_tokens", format_usd),
)
"""The same for language models."""


def whatif_view(got: WhatIf) -> RenderableType:
    """Show what was asked and changed, the differences, and what the old choice would do now."""
    notes = [("change" if i == 0 else "", _asked(c)) for i, c in enumerate(got.changes)]
    lines = _reaction(got)
    if any(
        str(result.status) not in ("optimal", "infeasible") for result in (got.before, got.after)
    ):
        lines.append(
            (
                "proof",
                (
                    "not both answers are proved, so a part of the difference may be the search's: "
                    "raise --time-limit"
                ),
            )
        )
    return Group(
        reading(got.before.problem), _lines(notes), Text(""), _table(got), Text(""), _lines(lines)
    )


def _asked(change: Change) -> str:
    """Return a change as it was written, and what a given price is the price of."""
    if change.what == "drop":
        return f"without {change.text}"
    return f"{change.text}{' for each GPU' if change.what == 'price' and change.value else ''}"


def _table(got: WhatIf) -> RenderableType:
    table = Sheet(("", "before", "after", "difference"), right=("difference",), unseen=("figure",))
    before, after = got.before, got.after
    table.add_row(
        "chosen",
        _chosen(before),
        _chosen(after),
        "the same" if got.same else "another",
        style="bold",
    )
    language = before.problem.profile.architecture is not None
    for label, name, words in TOKEN_FIGURES if language else FIGURES:
        one, other = (
            None if r.estimate is None else figures_of(r.estimate)[name] for r in (before, after)
        )
        table.add_row(
            label,
            *("-" if value is None else words(value) for value in (one, other)),
            _change_words(one, other, words),
        )
    regions = [None if r.placement is None else len(r.placement.places) for r in (before, after)]
    table.add_row(
        "regions", *("-" if n is None else str(n) for n in regions), _count_words(*regions)
    )
    table.add_row("exchange", *(_exchange(r.placement) for r in (before, after)), "")
    proofs = ("proved" if r.proved else STATUS_WORDS[str(r.status)] for r in (before, after))
    table.add_row("proof", *proofs, "", style="dim")
    return table


def _chosen(result: Result) -> str:
    placement = result.placement
    if placement is None:
        return NOTHING if result.status is Status.INFEASIBLE else "nothing was found"
    return (
        headline(placement)
        if len(placement.groups) == 1
        else brief(placement).replace(" + ", "\n+ ")
    )


def _exchange(placement: Placement | None) -> str:
    if placement is None or placement.exchange.strategy == "none":
        return "-"
    steps = placement.exchange.local_steps
    return placement.exchange.strategy + (f" H={steps}" if steps > 1 else "")


def _change_words(one: float | None, other: float | None, words: Callable[[float], str]) -> str:
    """Format a signed difference and its share of the old figure; ``=`` if there is none."""
    if one is None or other is None:
        return ""
    if abs(other - one) <= 1e-9 * max(abs(one), abs(other)):
        return "="
    sign = "+" if other > one else "-"
    share = f" ({100 * (other / one - 1):+.1f} %)" if one else ""
    return f"{sign}{words(abs(other - one))}{share}"


def _count_words(one: int | None, other: int | None) -> str:
    if one is None or other is None:
        return ""
    return "=" if one == other else f"{other - one:+d}"


def _reaction(got: WhatIf) -> list[tuple[str, str]]:
    """Say what not reacting would cost, in a sentence or two."""
    kept = got.kept
    if kept is None:
        return [("kept", "there is no old choice to keep: nothing fits the question as it is")]
    if got.same and not kept.broken:
        return [("kept", "the best choice stays the best: nothing to do")]
    if kept.estimate is None:
        return [("kept", f"the old choice cannot be kept: {kept.broken[0]}")]
    speed, usd = kept.estimate.effective_samples_per_second.value, kept.estimate.usd_per_hour.total
    each = kept.estimate.usd_per_billion_tokens
    price = (
        f"{format_usd(kept.estimate.usd_per_million_samples)} per million"
        if each is None
        else f"{format_usd(each)} per billion tokens"
    )
    figures = (
        f"{format_speed(speed, kept.estimate.tokens_per_sample)} for {format_usd(usd)}/h ({price})"
    )
    lines = [("kept", f"the old choice would do {figures}")]
    if kept.broken:
        return [*lines, ("", f"and it breaks a limit: {'; '.join(kept.broken)}")]
    regret = got.regret
    if regret is None:
        return lines
    if regret <= (got.after.gap or 0.0) + 1e-9:
        return [*lines, ("regret", "none: the old choice is as good as the new one")]
    quantity = got.after.objective.quantity
    if kept.estimate.tokens_per_sample is not None:
        quantity = quantity.replace("sample", "token")
    return [
        *lines,
        ("regret", f"{100 * regret:.1f} % of the {quantity} of the new choice"),
    ]


def _lines(lines: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    return table

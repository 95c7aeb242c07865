"""What a person reads: the request as understood, the winner, the considered table, the advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placer.cli.report.recommend.confidence_words import confidence_lines
from placer.cli.report.recommend.figures import figures
from placer.cli.report.recommend.price_risk import price_risk_words
from placer.cli.report.recommend.proof import proof_table
from placer.cli.report.recommend.proof_words import doubt_words, proof_words
from placer.cli.report.recommend.request_words import context_lines, request_lines
from placer.cli.report.recommend.sentences import break_even_words, headline, worker_words
from placer.cli.screen.tables import Sheet
from placer.cost_model.estimate import Estimate
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.solving.result import Option, OwnOrRented, Result
from placer.units import (
    format_number,
    format_speed,
    format_usd,
)

COLUMNS = ("", "workers", "exchange", "samples/s", "USD/h", "egress", "data", "USD/M")
"""Of the tables of placements; egress and data are parts of USD/h, USD/M is per million samples."""
TOKEN_COLUMNS = ("", "workers", "exchange", "tokens/s", "USD/h", "egress", "data", "USD/Gtok")
"""The same for language models; USD/Gtok is per billion tokens."""
MOST_WIDTH = 118
"""Columns of a table on a wider terminal."""


def reading(problem: Problem, wanted: str = "") -> RenderableType:
    """Say how the request was understood, so that a misread wish is seen; ``wanted`` stands in
    place of the objective.
    """
    return _pairs(request_lines(problem, wanted))


def context(problem: Problem) -> RenderableType:
    """Say what a hand-made placement is estimated for."""
    return _pairs(context_lines(problem))


def winner(result: Result) -> RenderableType:
    """Describe the chosen placement: machines, exchange, speed, step, price and proof."""
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    return Group(
        Text(f"\n{headline(placement)}", style="bold green"),
        estimate_lines(
            placement,
            got,
            problem,
            f"{proof_words(result)} (details: --certificate)",
            check=verified_words(result),
            doubt=doubt_words(result),
        ),
        *(() if result.confidence is None else (_pairs(confidence_lines(result.confidence)),)),
    )


def estimate_lines(
    placement: Placement,
    got: Estimate,
    problem: Problem,
    proof: str = "",
    notes: Sequence[Warn] = (),
    check: str = "",
    doubt: str = "",
) -> RenderableType:
    """Return the lines of one estimate: speed, step, price and links, its proof and its notes."""
    lines = figures(placement, got, problem)
    if proof:
        lines.append(("proof", proof))
    if doubt:
        lines.append(("", doubt))
    if check:
        lines.append(("verified", check))
    return _pairs(
        [*lines, *(("note" if i == 0 else "", note.message) for i, note in enumerate(notes))]
    )


def considered(result: Result) -> RenderableType:
    """Build the table of the considered placements, the winner marked."""
    table = _table(_columns(result.problem))
    for option in result.options:
        chosen = option.placement == result.placement
        table.add_row(
            "*" if chosen else "",
            *_cells(option.placement, option.estimate),
            style="bold" if chosen else "dim",
        )
    return Group(
        Text(
            f"\nConsidered (best of each kind of machine; effective {_columns(result.problem)[3]})",
            style="bold",
        ),
        table,
    )


def batches(result: Result) -> RenderableType:
    """Build the table of the target batch sizes that were tried, the chosen one marked."""
    table = _table(("", "TBS", result.objective.short_unit, "at best"))
    for row in result.batches:
        chosen = row.target_batch_size == result.problem.batch
        value = result.value if chosen else row.value
        shown = "not better" if value is None else format_number(value)
        bound = "-" if row.bound is None else format_number(row.bound)
        table.add_row(
            "*" if chosen else "",
            f"{row.target_batch_size:,}",
            shown,
            bound,
            style="bold" if chosen else "dim",
        )
    return Group(
        Text(
            "\nTarget batch sizes (searched from the largest down, each only for what is better)",
            style="bold",
        ),
        table,
        Text(_batch_proof_words(result), style="dim"),
    )


def _batch_proof_words(result: Result) -> str:
    """Say what is proved of the batches that were not solved one by one."""
    proof = result.batch_proof
    if proof is None:
        return "Proved for these batches alone, and for none between them."
    all_of_them = f"all batches from {proof.low:,} to {proof.high:,}"
    searches = f"{proof.searches:,} searches over several at once"
    if proof.bound is None:
        return (
            f"Nothing is proved of {all_of_them} together: the time limit was reached ({searches})."
        )
    unit = result.objective.short_unit
    bound = f"{format_number(proof.bound)} {unit} at best"
    finished = "" if proof.finished else "; the time limit was reached before the gap was met"
    return f"Proved over {all_of_them}: {bound} ({searches}{finished})."


def comparison(options: Sequence[Option], problem: Problem) -> RenderableType:
    """Build the table of placements side by side."""
    table = _table(_columns(problem))
    for option in options:
        table.add_row(
            option.label,
            *_cells(option.placement, option.estimate),
            style="dim" if option.note else None,
        )
        if option.note:
            table.add_row("", Text(option.note), *[""] * (len(COLUMNS) - 2))
    return table


def own_machines(result: Result, beside: OwnOrRented) -> RenderableType:
    """Build the table of own machines, own with spot ones and spot ones alone."""
    lines = [("idle", beside.idle)] if beside.idle else []
    if beside.break_even is not None:
        each = "sample" if result.problem.profile.architecture is None else "token"
        lines.append(("cheaper", break_even_words(beside.break_even, each)))
    return Group(
        Text("\nOwn machines beside rented ones (each row by a short search)", style="bold"),
        comparison(beside.rows, result.problem),
        _pairs(lines),
    )


def advice(result: Result) -> RenderableType:
    """Write verdict, baselines and near misses in sentences."""
    lines: list[tuple[str, str]] = [
        ("verdict" if i == 0 else "", sentence) for i, sentence in enumerate(result.verdict)
    ]
    if result.price_risk is not None:
        lines.append(("price risk", price_risk_words(result, result.price_risk)))
    lines += [
        ("compare" if i == 0 else "", _baseline_words(option))
        for i, option in enumerate(result.baselines)
    ]
    lines += [("note" if i == 0 else "", note.message) for i, note in enumerate(result.notes)]
    for option in result.near_misses:
        speed, usd = (
            option.estimate.effective_samples_per_second.value,
            option.estimate.usd_per_hour.total,
        )
        lines.append(
            (
                "near miss",
                (
                    f"{headline(option.placement)}: "
                    f"{format_speed(speed, option.estimate.tokens_per_sample)} for "
                    f"{format_usd(usd)}/h; {option.note}"
                ),
            )
        )
    return Group(Text(""), _pairs(lines))


def _baseline_words(option: Option) -> str:
    """Say what a simpler tool would choose and what that would really cost."""
    article = "An" if option.label[0] in "aeiou" else "A"
    if option.same:
        return f"{article} {option.label} tool would choose the same."
    speed, usd = option.estimate.effective_samples_per_second.value, option.estimate.usd_per_hour
    text = (
        f"{article} {option.label} tool would choose {headline(option.placement)}: "
        f"{format_speed(speed, option.estimate.tokens_per_sample)} at a true cost of "
    )
    return (
        f"{text}{format_usd(usd.total)}/h, {format_usd(usd.egress)}/h of it "
        f"egress{f' ({option.note})' if option.note else ''}."
    )


def warning_lines(warnings: Iterable[Warn]) -> list[str]:
    """Write one sentence for each warning."""
    return [f"warning: {warning.message}" for warning in warnings]


def print_result(console: Console, result: Result, *, certificate: bool = False) -> None:
    """Print a result that has a placement; with ``certificate`` what was proved about each strategy
    as well.
    """
    console.print(reading(result.problem))
    console.print(winner(result))
    if certificate and result.proof:
        console.print(proof_table(result))
    if result.batches:
        console.print(batches(result))
    console.print(considered(result))
    if result.own_machines is not None:
        console.print(own_machines(result, result.own_machines))
    console.print(advice(result))


def bullet(text: str) -> RenderableType:
    """Format a sentence of a list, its further lines indented."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(" -", Text(text))
    return table


def _table(headers: Sequence[str]) -> Sheet:
    text = ("", "workers", "exchange")
    return Sheet(
        headers,
        right=[name for name in headers if name not in text],
        wrap=("workers",),
        unseen=("mark",),
    )


def _columns(problem: Problem) -> tuple[str, ...]:
    return COLUMNS if problem.profile.architecture is None else TOKEN_COLUMNS


def _cells(placement: Placement, got: Estimate) -> list[str]:
    workers = "\n".join(
        f"{g.count} x {worker_words(g)} {g.market.replace('_', '-')}, {g.place}"
        for g in placement.groups
    )
    usd, price = got.usd_per_hour, got.usd_per_billion_tokens
    each = got.usd_per_million_samples if price is None else price
    return [
        workers,
        _strategy_words(placement),
        format_number(got.effective_samples_per_second.value * (got.tokens_per_sample or 1)),
        f"{usd.total:.2f}" if usd.total >= 0.095 else f"{usd.total:.4f}",
        f"{usd.egress:.2f}",
        f"{usd.data:.2f}",
        f"{each:.2f}" if each >= 0.095 else f"{each:.4f}",
    ]


def _strategy_words(placement: Placement) -> str:
    exchange = placement.exchange
    if exchange.strategy == "none":
        return "-"
    return exchange.strategy + (f" H={exchange.local_steps}" if exchange.local_steps > 1 else "")


def _pairs(lines: Iterable[tuple[str, str]]) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    return Padding(table, (0, 0, 0, 0))


def verified_words(result: Result) -> str:
    """Say what a second solver found; empty if none was asked."""
    from placer.solving.cross_check import verification_words

    return "" if result.verification is None else verification_words(result.verification)

"""What a person reads: the request as understood, the winner, the considered table, the advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placer.cli.report.recommend.confidence_words import confidence_lines
from placer.cli.report.recommend.figures import COMPRESSION_NAMES, figures
from placer.cli.report.recommend.price_risk import price_risk_words
from placer.cli.report.recommend.proof import proof_table, ways_out
from placer.cli.report.recommend.sentences import headline, worker_words
from placer.cost_model.estimate import Estimate
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, Requirements
from placer.solving.answer import Warn
from placer.solving.result import Option, Result
from placer.units import (
    format_bytes,
    format_duration,
    format_number,
    format_parameters,
    format_seconds,
    format_speed,
    format_tokens,
    format_usd,
)

COLUMNS = ("", "workers", "exchange", "samples/s", "USD/h", "egress", "data", "USD/M")
"""Of the tables of placements; egress and data are parts of USD/h, USD/M is per million samples."""
TOKEN_COLUMNS = ("", "workers", "exchange", "tokens/s", "USD/h", "egress", "data", "USD/Gtok")
"""The same for language models; USD/Gtok is per billion tokens."""
MOST_WIDTH = 118
"""Columns of a table on a wider terminal."""
OLD_DAYS = 366
"""Egress prices older than this beside the newest machine price are worth a word although nothing
is sent.
"""
OBJECTIVE_WORDS = {
    "throughput": "most samples/s",
    "cost": "lowest USD/h",
    "cost-per-sample": "lowest USD per sample",
    "time": "least time to finish",
    "carbon": "lowest g CO2e/h",
}


def reading(problem: Problem, wanted: str = "") -> RenderableType:
    """Say how the request was understood, so that a misread wish is seen; ``wanted`` stands in
    place of the objective.
    """
    wish, shape = problem.requirements, problem.profile.architecture
    length = None if shape is None else shape.sequence_length
    limits = []
    if wish.budget_usd_per_hour is not None:
        limits.append(f"budget {format_usd(wish.budget_usd_per_hour)}/h")
    if wish.min_samples_per_second is not None:
        limits.append(f"at least {format_speed(wish.min_samples_per_second, length)}")
    limits += _total_limits(wish, length)
    if wish.gpus:
        limits.append(f"GPUs {', '.join(wish.gpus)}")
    if wish.places_in:
        limits.append(f"in {', '.join(wish.places_in)}")
    if wish.places_not_in:
        limits.append(f"not in {', '.join(wish.places_not_in)}")
    limits += [f"using {rule.spec}" for rule in wish.used]
    limits.append(
        _any_market(problem) if wish.market == "any" else f"{wish.market.replace('_', '-')} only"
    )
    limits.append(f"{wish.min_workers} to {wish.max_workers} workers")
    limits += _inner_limits(wish)
    if wish.min_regions > 1 or wish.max_regions < ALL_REGIONS:
        limits.append(
            f"{wish.min_regions} to {wish.max_regions} regions"
            if wish.max_regions < ALL_REGIONS
            else f"{wish.min_regions} regions or more"
        )
    if wish.exchange != "auto":
        limits.append(f"exchange {wish.exchange}")
    if wish.max_local_steps is not None:
        limits.append(f"{wish.min_local_steps} to {wish.max_local_steps} local steps")
    limits += [f"{rule.kind} kept in {rule.area}" for rule in wish.kept]
    limits += [
        f"{name} {place}"
        for name, place in (("aggregator", wish.aggregator_words), ("store", wish.storage))
        if place
    ]
    if wish.require_measured:
        limits.append("measured devices only")
    lines = [
        *_context(problem),
        ("wanted", f"{wanted or _objective_words(problem)}; {', '.join(limits)}"),
        ("quota", _quota_words(wish)),
    ]
    return _pairs(lines)


def _objective_words(problem: Problem) -> str:
    words = OBJECTIVE_WORDS[problem.requirements.objective]
    return words if problem.profile.architecture is None else words.replace("sample", "token")


def _any_market(problem: Problem) -> str:
    """Name the markets that are chosen among."""
    known = {offer.market for offer in problem.catalog.offers}
    return "spot, on-demand and community" if "community" in known else "spot and on-demand"


def _inner_limits(wish: Requirements) -> list[str]:
    """Say what is asked of islands and of the plan inside them."""
    limits = [] if wish.max_machines is None else [f"at most {wish.max_machines} machines in all"]
    if wish.min_island_machines is not None or wish.max_island_machines is not None:
        least, most = wish.min_island_machines or 1, wish.max_island_machines
        limits.append(f"{least} {'or more' if most is None else f'to {most}'} machines a worker")
    plan = (
        ("sharding", wish.sharding),
        ("tensor parallel degree", wish.tensor_parallel),
        ("checkpointing", wish.checkpointing),
        ("microbatch", wish.microbatch),
        ("precision", wish.precision),
        ("transport", wish.transport),
    )
    return limits + [f"{name} {value}" for name, value in plan if value is not None]


def _quota_words(wish: Requirements) -> str:
    """Say which quotas hold."""
    each = f"{wish.quota_gpus} GPUs per region, type and market"
    if wish.quotas:
        return f"from the quota file, else {'no limit' if wish.quota_gpus is None else each}"
    return "no limit (set one with --quota N or FILE)" if wish.quota_gpus is None else each


def _total_limits(wish: Requirements, length: int | None) -> list[str]:
    """Say how many samples, by when, for how much, and with which emissions."""
    limits = [] if wish.samples is None else [f"{wish.samples:,} samples"]
    if wish.tokens is not None:
        limits = [format_tokens(wish.tokens)]
    if wish.deadline_s is not None and wish.samples is not None:
        floor = format_speed(wish.samples / wish.deadline_s, length)
        limits.append(f"within {format_duration(wish.deadline_s)} (at least {floor})")
    if wish.budget_usd is not None:
        limits.append(f"budget {format_usd(wish.budget_usd)} in total")
    if wish.max_carbon_g_per_hour is not None:
        limits.append(f"at most {format_number(wish.max_carbon_g_per_hour)} g CO2e/h")
    return limits


def context(problem: Problem) -> RenderableType:
    """Say what a hand-made placement is estimated for."""
    return _pairs(_context(problem))


def _context(problem: Problem) -> list[tuple[str, str]]:
    wish, profile = problem.requirements, problem.profile
    store = wish.data_store
    admitted = len({id(pool.offer) for pool in problem.pools})  # an offer has islands of several k
    fitting = f"{admitted:,} of {len(problem.catalog.offers):,}"
    gradients = (
        f"{COMPRESSION_NAMES[problem.compression]} gradients {format_bytes(problem.gradient_bytes)}"
    )
    datasets = ", ".join(
        f"{d.samples:,} samples in {d.place} that {'may move' if d.may_move else 'stay'}"
        for d in wish.datasets
    )
    return [
        (
            "model",
            (
                f"{profile.name}: {format_parameters(profile.parameters)} parameters, {gradients}, "
                f"{_batch_words(problem)}"
            ),
        ),
        (
            "data",
            f"read from {store}"
            if store
            else datasets or "with the workers (assumed; name its store with --data)",
        ),
        ("prices", f"catalog {problem.catalog.name}, {_ages(problem)}, {fitting} offers fit"),
    ]


def _batch_words(problem: Problem) -> str:
    """Give the samples of a step, or the range that they are chosen from."""
    wish = problem.requirements
    critical = "" if wish.critical_batch is None else f", critical batch {wish.critical_batch:,}"
    if wish.open_batches:
        low, high = wish.open_batches[0], wish.open_batches[-1]
        return f"{low:,} to {high:,} samples a step, whichever is best (TBS){critical}"
    chosen = (
        ""
        if wish.batch_range is None
        else f", the best of {wish.batch_range[0]:,} to {wish.batch_range[1]:,}"
    )
    return f"{_samples(problem)} a step (TBS{chosen}){critical}"


def _samples(problem: Problem) -> str:
    """Count the samples of a step, of a language model in sequences and tokens."""
    architecture, batch = problem.profile.architecture, problem.batch
    if architecture is None:
        return f"{batch:,} samples"
    length = architecture.sequence_length
    return f"{format_tokens(batch * length)} ({batch:,} sequences of {length:,} tokens)"


def _ages(problem: Problem) -> str:
    """Return the dates of the machine prices, and those of egress where bytes may leave a machine's
    region or the prices are old.
    """
    book, wish = problem.catalog, problem.requirements
    machines = f"machines {_span(*book.as_of)}"
    if book.egress_as_of is None:
        return machines
    oldest, newest = book.egress_as_of
    used = wish.max_workers > 1 or bool(wish.data_store) or bool(wish.datasets)
    old = (date.fromisoformat(book.as_of[1]) - date.fromisoformat(oldest)).days > OLD_DAYS
    return f"{machines}, egress {_span(oldest, newest)}" if used or old else machines


def _span(oldest: str, newest: str) -> str:
    return newest if oldest == newest else f"{oldest} to {newest}"


def winner(result: Result) -> RenderableType:
    """Describe the chosen placement: machines, exchange, speed, step, price and proof."""
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    return Group(
        Text(f"\n{headline(placement)}", style="bold green"),
        estimate_lines(placement, got, problem, _proof(result), check=verified_words(result)),
        *(() if result.confidence is None else (_pairs(confidence_lines(result.confidence)),)),
    )


def estimate_lines(
    placement: Placement,
    got: Estimate,
    problem: Problem,
    proof: str = "",
    notes: Sequence[Warn] = (),
    check: str = "",
) -> RenderableType:
    """Return the lines of one estimate: speed, step, price and links, its proof and its notes."""
    lines = figures(placement, got, problem)
    if proof:
        lines.append(("proof", proof))
    if check:
        lines.append(("verified", check))
    return _pairs(
        [*lines, *(("note" if i == 0 else "", note.message) for i, note in enumerate(notes))]
    )


def considered(result: Result, width: int) -> RenderableType:
    """Build the table of the considered placements, the winner marked."""
    table = _table(_columns(result.problem), width)
    for option in result.options:
        chosen = option.placement == result.placement
        table.add_row(
            "*" if chosen else "",
            *_cells(option.placement, option.estimate),
            style="bold" if chosen else "dim",
        )
    return Group(
        Text(
            "\nConsidered (best of each kind of machine; "
            f"{_columns(result.problem)[3]} that count towards the target)",
            style="bold",
        ),
        table,
    )


def batches(result: Result) -> RenderableType:
    """Build the table of the target batch sizes that were tried, the chosen one marked."""
    table = _table(("", "TBS", result.objective.short_unit, "at best"), 60)
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
        return f"Nothing is proved of {all_of_them} together: the time was up ({searches})."
    unit = result.objective.short_unit
    bound = f"{format_number(proof.bound)} {unit} at best"
    finished = "" if proof.finished else "; the time was up before the gap was met"
    return f"Proved over {all_of_them}: {bound} ({searches}{finished})."


def comparison(options: Sequence[Option], problem: Problem, width: int) -> RenderableType:
    """Build the table of placements side by side."""
    table = _table(_columns(problem), width)
    for option in options:
        table.add_row(
            option.label,
            *_cells(option.placement, option.estimate),
            style="dim" if option.note else None,
        )
        if option.note:
            table.add_row("", Text(option.note), *[""] * (len(COLUMNS) - 2))
    return table


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
    console.print(considered(result, console.width))
    console.print(advice(result))


def bullet(text: str) -> RenderableType:
    """Format a sentence of a list, its further lines indented."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(" -", Text(text))
    return table


def _table(headers: Iterable[str], width: int) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 1),
        expand=False,
        header_style="underline",
        width=min(width, MOST_WIDTH),
    )
    for header in headers:
        right = header not in ("", "workers", "exchange")
        table.add_column(
            header, justify="right" if right else "left", overflow="fold", no_wrap=right
        )
    return table


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


def _proof(result: Result) -> str:
    if result.confidence is not None:
        plan = result.confidence
        early = "stopped early: " if result.status.stopped else ""
        seeds = f"in {plan.scenarios:,} scenarios of spot capacity (seed {plan.seed})"
        least = "; nothing is proved of other plans but the least cost below"
        known = plan.least_usd is not None
        return f"{early}the best of {plan.tried} plans {seeds}{least if known else ''}"
    seconds = f"solver {result.solver}, {format_seconds(result.seconds)}"
    if result.status == "feasible":
        return (
            f"not proved: the best of {result.candidates:,} that were tried; --solver exact "
            f"proves or finds a better one ({seconds})"
        )
    stopped = "ruled out so far" if result.status != "optimal" else "the others ruled out"
    seconds = f"{result.candidates:,} priced in full, {stopped}{ways_out(result.proof)}; {seconds}"
    if result.status == "optimal" and result.gap is not None:
        margin = f" by more than {100 * result.gap:.2g} %" if result.gap > 0 else ""
        beyond = any(warning.code == "extrapolated" for warning in result.warnings)
        doubt = "; averaging times are beyond what was measured" if beyond else ""
        return (
            f"optimal at the expected speeds: nothing in the catalog is better{margin}{doubt} "
            f"({seconds})"
        )
    gap = "not known" if result.gap is None else f"{100 * result.gap:.1f} %"
    early = "stopped by the memory limit" if result.status == "memory_limit" else "stopped early"
    return f"best so far, {early}: gap {gap} ({seconds})"

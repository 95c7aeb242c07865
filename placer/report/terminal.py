"""What a person reads: the request as understood, the winner, the considered table, the advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from placer.elastic import Move
from placer.estimator import Estimate, LinkUse
from placer.placement import Placement
from placer.problem import DEFAULT_QUOTA_GPUS, Problem
from placer.report.sentences import device_words, headline, hub_words
from placer.requirements import ALL_REGIONS
from placer.result import Option, Result, Warn
from placer.units import (
    format_bandwidth,
    format_bytes,
    format_number,
    format_seconds,
    format_usd,
)

COMPRESSION_NAMES = {"none": "FP32", "fp16": "FP16", "int8": "INT8"}
COLUMNS = ("", "workers", "exchange", "samples/s", "USD/h", "egress", "data", "USD/M")
"""Of the tables of placements; egress and data are parts of USD/h, USD/M is per million samples."""
SAME_PRICE = 1e-4
"""A price whose ends are closer together is shown without them."""
MOST_WIDTH = 118
"""Columns of a table on a wider terminal."""
MOST_LINKS = 4
"""Links that are listed; --json lists all."""
OBJECTIVE_WORDS = {"throughput": "most samples/s", "cost": "lowest USD/h", "cost-per-sample": "lowest USD per sample"}


def reading(problem: Problem) -> RenderableType:
    """Say how the request was understood, so that a misread wish is seen."""
    wish = problem.requirements
    limits = []
    if wish.budget_usd_per_hour is not None:
        limits.append(f"budget {format_usd(wish.budget_usd_per_hour)}/h")
    if wish.min_samples_per_second is not None:
        limits.append(f"at least {format_number(wish.min_samples_per_second)} samples/s")
    if wish.gpus:
        limits.append(f"GPUs {', '.join(wish.gpus)}")
    if wish.places_in:
        limits.append(f"in {', '.join(wish.places_in)}")
    if wish.places_not_in:
        limits.append(f"not in {', '.join(wish.places_not_in)}")
    limits.append({"any": "spot and on-demand", "spot": "spot only", "on_demand": "on-demand only"}[wish.market])
    limits.append(f"{wish.min_workers} to {wish.max_workers} workers")
    if wish.min_regions > 1 or wish.max_regions < ALL_REGIONS:
        limits.append(
            f"{wish.min_regions} to {wish.max_regions} regions" if wish.max_regions < ALL_REGIONS else f"{wish.min_regions} regions or more"
        )
    if wish.exchange != "auto":
        limits.append(f"exchange {wish.exchange}")
    if wish.max_local_steps is not None:
        limits.append(f"{wish.min_local_steps} to {wish.max_local_steps} local steps")
    limits += [f"{rule.kind} kept in {rule.area}" for rule in wish.kept]
    limits += [f"{name} {place}" for name, place in (("aggregator", wish.aggregator), ("store", wish.storage)) if place]
    if wish.require_measured:
        limits.append("measured devices only")
    quota = f"{DEFAULT_QUOTA_GPUS} GPUs per region, type and market"
    lines = [
        *_context(problem),
        ("wanted", f"{OBJECTIVE_WORDS[wish.objective]}; {', '.join(limits)}"),
        ("quota", f"from the quota file, else {quota}" if wish.quotas else f"{quota} (default; change with --quota FILE)"),
    ]
    return _pairs(lines)


def context(problem: Problem) -> RenderableType:
    """Say what a hand-made placement is estimated for."""
    return _pairs(_context(problem))


def _context(problem: Problem) -> list[tuple[str, str]]:
    wish, profile = problem.requirements, problem.profile
    store = wish.data_store
    oldest, newest = problem.catalog.as_of
    fitting = f"{len(problem.pools):,} of {len(problem.catalog.offers):,}"
    gradients = f"{COMPRESSION_NAMES[problem.compression]} gradients {format_bytes(problem.gradient_bytes)}"
    datasets = ", ".join(f"{d.samples:,} samples in {d.place} that {'may move' if d.may_move else 'stay'}" for d in wish.datasets)
    return [
        ("model", f"{profile.name}: {profile.parameters / 1e6:,.0f} M parameters, {gradients}, {problem.batch:,} samples a step (TBS)"),
        ("data", f"read from {store}" if store else datasets or "with the workers (assumed; name its store with --data)"),
        ("prices", f"catalog {problem.catalog.name}, {oldest} to {newest}, {fitting} offers fit"),
    ]


def winner(result: Result) -> RenderableType:
    """Describe the chosen placement: machines, exchange, speed, step, price and proof."""
    placement, got, problem = result.placement, result.estimate, result.problem
    assert placement is not None
    assert got is not None
    return Group(Text(f"\n{headline(placement)}", style="bold green"), estimate_lines(placement, got, problem, _proof(result)))


def estimate_lines(placement: Placement, got: Estimate, problem: Problem, proof: str = "") -> RenderableType:
    """Lines about speed, step, price and links of one estimate."""
    speed = got.samples_per_second
    lines = [
        (
            "speed",
            f"{format_number(speed.value)} samples/s ({format_number(speed.low)} to {format_number(speed.high)}; from {_bases(got)} rates)",
        ),
        ("step", _step_words(got)),
        ("price", _price_words(got)),
    ]
    if placement.workers > 1:
        lines[1:1] = [("exchange", _exchange_words(placement, got, problem)), ("to target", _target_words(got))]
    lines += [("moves", _move_words(move)) for move in got.moves]
    if problem.requirements.datasets:
        lines.append(("shares", ", ".join(f"{place} {100 * share:.1f} %" for place, share in got.shares) + " of each step"))
    paid = [use for use in got.links if use.src != use.dst or use.usd_per_hour > 0]
    lines += [("link", _link_words(use, problem)) for use in sorted(paid, key=lambda u: -u.usd_per_hour)[:MOST_LINKS]]
    if len(paid) > MOST_LINKS:
        lines.append(("link", f"and {len(paid) - MOST_LINKS} more (--json lists all)"))
    store, size = problem.requirements.data_store, problem.profile.bytes_per_sample
    if store is not None and size is not None:
        hourly = format_bytes(size * speed.value * 3600)
        lines.append(("data", f"{format_bytes(size)} a sample, {hourly} an hour from {store}, read anew in every pass"))
    if proof:
        lines.append(("proof", proof))
    return _pairs(lines)


def _target_words(got: Estimate) -> str:
    """Samples to target: how many more samples than synchronous training in FP32, and what speed that leaves."""
    times, speed = got.samples_to_target, got.effective_samples_per_second
    spread = f"{times.value:.2f} x the samples of synchronous FP32 ({times.low:.2f} to {times.high:.2f}, {times.basis})"
    counted = f"{format_number(speed.value)} samples/s count ({format_number(speed.low)} to {format_number(speed.high)})"
    return f"{spread}: {counted}"


def _move_words(move: Move) -> str:
    """What a dataset's move costs, once."""
    size, took = format_bytes(move.bytes), format_seconds(move.seconds)
    return f"{format_number(move.samples)} samples from {move.src} to {move.dst}, once: {size}, {format_usd(move.usd)}, about {took}"


def _link_words(use: LinkUse, problem: Problem) -> str:
    """Bytes, streams, bandwidth and price of one directed pair of places."""
    link = problem.network.link(use.src, use.dst)
    where = f"between zones of {use.src}" if use.src == use.dst else f"{use.src} to {use.dst}"
    streams = f"{use.streams} stream{'s' if use.streams > 1 else ''} of {format_bandwidth(link.bytes_per_second)}"
    return f"{where}: {format_bytes(use.bytes_per_step)} a step over {streams} ({use.basis}), {format_usd(use.usd_per_hour)}/h"


def considered(result: Result, width: int) -> RenderableType:
    """Table of the considered placements, the winner marked."""
    table = _table(COLUMNS, width)
    for option in result.options:
        chosen = option.placement == result.placement
        table.add_row("*" if chosen else "", *_cells(option.placement, option.estimate), style="bold" if chosen else "dim")
    return Group(Text("\nConsidered (best of each kind of machine)", style="bold"), table)


def comparison(options: Sequence[Option], problem: Problem, width: int) -> RenderableType:
    """Table of placements side by side."""
    table = _table(COLUMNS, width)
    for option in options:
        table.add_row(option.label, *_cells(option.placement, option.estimate), style="dim" if option.note else None)
        if option.note:
            table.add_row("", Text(option.note), *[""] * (len(COLUMNS) - 2))
    return table


def advice(result: Result) -> RenderableType:
    """Verdict, baselines and near misses in sentences."""
    lines: list[tuple[str, str]] = [("verdict" if i == 0 else "", sentence) for i, sentence in enumerate(result.verdict)]
    lines += [("compare" if i == 0 else "", _baseline_words(option)) for i, option in enumerate(result.baselines)]
    for option in result.near_misses:
        speed, usd = option.estimate.samples_per_second.value, option.estimate.usd_per_hour.total
        lines.append(
            ("near miss", f"{headline(option.placement)}: {format_number(speed)} samples/s for {format_usd(usd)}/h; {option.note}")
        )
    return Group(Text(""), _pairs(lines))


def _baseline_words(option: Option) -> str:
    """What a simpler tool would choose and what it would really cost."""
    article = "An" if option.label[0] in "aeiou" else "A"
    if option.same:
        return f"{article} {option.label} tool would choose the same."
    speed, usd = option.estimate.samples_per_second.value, option.estimate.usd_per_hour
    text = f"{article} {option.label} tool would choose {headline(option.placement)}: {format_number(speed)} samples/s for what is really "
    return f"{text}{format_usd(usd.total)}/h, {format_usd(usd.egress)}/h of it egress{f' ({option.note})' if option.note else ''}."


def warning_lines(warnings: Iterable[Warn]) -> list[str]:
    """One sentence for each warning."""
    return [f"warning: {warning.message}" for warning in warnings]


def print_result(console: Console, result: Result) -> None:
    """Print a result that has a placement."""
    console.print(reading(result.problem))
    console.print(winner(result))
    console.print(considered(result, console.width))
    console.print(advice(result))


def _table(headers: Iterable[str], width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1), expand=False, header_style="underline", width=min(width, MOST_WIDTH))
    for header in headers:
        right = header not in ("", "workers", "exchange")
        table.add_column(header, justify="right" if right else "left", overflow="fold", no_wrap=right)
    return table


def _cells(placement: Placement, got: Estimate) -> list[str]:
    workers = "\n".join(f"{g.count} x {device_words(g.gpu, g.gpu_count)} {g.market.replace('_', '-')}, {g.place}" for g in placement.groups)
    usd = got.usd_per_hour
    return [
        workers,
        _strategy_words(placement),
        format_number(got.effective_samples_per_second.value),
        f"{usd.total:.2f}" if usd.total >= 0.095 else f"{usd.total:.4f}",
        f"{usd.egress:.2f}",
        f"{usd.data:.2f}",
        f"{got.usd_per_million_samples:.2f}" if got.usd_per_million_samples >= 0.095 else f"{got.usd_per_million_samples:.4f}",
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


def _exchange_words(placement: Placement, got: Estimate, problem: Problem) -> str:
    exchange, sent = placement.exchange, sum(use.bytes_per_step for use in got.links)
    every = f"every {exchange.local_steps} steps" if exchange.local_steps > 1 else "a step"
    text = f"{exchange.strategy}, {COMPRESSION_NAMES[exchange.compression]}, {format_bytes(sent)} {every} in all"
    if exchange.streams > 1:
        text += f", {exchange.streams} streams a pair"
    if exchange.overlap:
        text += ", beside the next step"
    if exchange.aggregator is None or exchange.storage is None:
        return text + hub_words(placement).replace(",", ";", 1)
    function, store = problem.catalog.function(exchange.aggregator), problem.catalog.store(exchange.storage)
    text += f"; aggregator {function.function} in {function.place} ({exchange.aggregator_memory_gib:g} GiB)"
    return text + f", store {store.store} in {store.place}"


def _step_words(got: Estimate) -> str:
    step = got.step
    if got.granularity is None:
        return f"{format_seconds(step.total)} of calculation, no exchange"
    parts = ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in step.parts)
    hidden = f" - {format_seconds(step.hidden)} that overlap" if step.hidden else ""
    rounds = f", a round of {got.local_steps} steps" if got.local_steps > 1 else ""
    return (
        f"{format_seconds(step.total)} = calculation {format_seconds(step.calculation)} + communication "
        f"{format_seconds(step.communication)} ({parts}){hidden}{rounds}; granularity {got.granularity:.2f}"
    )


def _price_words(got: Estimate) -> str:
    usd = got.usd_per_hour
    parts = [(n, getattr(usd, n)) for n in ("compute", "egress", "storage", "functions", "data")]
    text = ", ".join(f"{name} {format_usd(value)}" for name, value in parts if value or name in ("compute", "egress"))
    range_ = got.usd_per_hour_interval
    spread = f" ({format_usd(range_.low)} to {format_usd(range_.high)})" if range_.high > range_.low * (1 + SAME_PRICE) else ""
    return f"{format_usd(usd.total)}/h{spread} = {text}; {format_usd(got.usd_per_million_samples)} per million samples"


def _bases(got: Estimate) -> str:
    """How the speeds are known: the worst basis comes last."""
    found = [line.split(": ")[1] for line in got.provenance if line.startswith("speed on ")]
    return " and ".join(dict.fromkeys(found))


def _proof(result: Result) -> str:
    counted = f"{result.candidates:,} priced in full, the others ruled out by bounds"
    seconds = f"{counted}; solver {result.solver}, {format_seconds(result.seconds)}"
    if result.status == "optimal" and result.gap is not None:
        margin = f" by more than {100 * result.gap:.2g} %" if result.gap > 0 else ""
        return f"optimal at the expected speeds: nothing in the catalog is better{margin} ({seconds})"
    gap = "not known" if result.gap is None else f"{100 * result.gap:.1f} %"
    return f"best so far, stopped early: gap {gap} ({seconds})"

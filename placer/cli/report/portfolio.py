"""What people read of a portfolio: who runs where, who displaced whom, what is scarce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console

from placer.advice.portfolio.answer import Placed, PortfolioAnswer
from placer.advice.portfolio.displaced import Displacement, Worth
from placer.cli.output import new_table
from placer.units import counted, format_number, format_speed, format_usd

MOST_WORTHS = 8
"""Scarce resources that are listed; --json has all."""
MOST_NAMES = 3
"""Jobs that are named in one sentence."""
SMALL_USD = 0.005
"""Differences below are not worth a line."""


def print_portfolio(out: Console, answer: PortfolioAnswer) -> None:
    """Print the jobs, what displaced them, and what more of something would be worth."""
    slots = answer.portfolio.slots
    last = "of its speed alone" if answer.portfolio.by_speed else "extra cost"
    headers = ["job", "workers", "speed", answer.portfolio.unit, last]
    if slots is not None:
        headers.insert(1, "hours")
    table = new_table(headers, right={"speed", answer.portfolio.unit, last})
    for placed in answer.jobs:
        table.add_row(*_row(placed, answer))
    out.print(table)
    out.print()
    for line in lines(answer):
        out.print(line, soft_wrap=True)


def lines(answer: PortfolioAnswer) -> Iterator[str]:
    """Yield the sentences below the table."""
    yield _summary(answer)
    yield from _shares(answer)
    saving = answer.saving
    if answer.greedy_left_out > len(answer.left_out):
        more = answer.greedy_left_out - len(answer.left_out)
        yield f"one by one, {counted(more, 'job')} more would be left out"
    elif answer.portfolio.objective != "cost":
        if saving is not None and saving > 0:
            words = "more" if answer.portfolio.maximised else "less"
            yield f"{saving:.1%} {words} than jobs placed one by one in the order of their priority"
    elif saving is not None and saving > 0:
        less = answer.greedy_usd - answer.usd
        yield (
            f"saves {format_usd(less)}{_per(answer)} ({saving:.1%}) against jobs placed one by one "
            f"in the order of their priority"
        )
    elif saving is not None:
        yield "one by one in the order of their priority, the jobs would cost the same"
    for placed in answer.left_out:
        yield f"left out: {placed.name}: {placed.reason}{_held(placed)}"
    for placed in answer.jobs:
        if placed.result is not None and placed.displaced:
            yield _displaced(placed, answer)
    if answer.per_dollar:
        yield f"one more dollar an hour is worth {_value(answer.per_dollar, answer)}"
    yield from (_worth(row, answer) for row in answer.worths[:MOST_WORTHS])


def _shares(answer: PortfolioAnswer) -> Iterator[str]:
    """Say what the least share is, whose it is, and what is out of reach."""
    least, most = answer.least_share, answer.least_share_bound
    if least is None or not answer.held_back:
        return
    words = f"every job has at least {least:.1%} of the speed that it would have by itself"
    if most is not None:
        words += f"; no choice gives all of them more than {most:.1%}"
    yield f"{words}; held back most: {_names(answer.held_back)}"


def _value(value: float, answer: PortfolioAnswer) -> str:
    """Write a value of an objective that is not dollars."""
    return f"{format_number(value)} {answer.unit}"


def _worth(row: Worth, answer: PortfolioAnswer) -> str:
    """Say what one more of something scarce is worth."""
    when = "" if answer.portfolio.slots is None else f" in {counted(len(row.slots), 'slot')}"
    what = row.resource if row.unit == "GPU" else f"{row.unit} {row.resource}"
    return f"one more {what}{when} is worth {format_usd(row.usd)}{_per(answer)}"


def _summary(answer: PortfolioAnswer) -> str:
    run = len(answer.jobs) - len(answer.left_out)
    words = f"{run} of {counted(len(answer.jobs), 'job')} run for {format_usd(answer.usd)}"
    words += _per(answer)
    if answer.portfolio.objective != "cost":
        words += f", {_value(answer.value, answer)} together"
        if answer.bound is not None and answer.gap is not None:
            verb = "do more than" if answer.portfolio.maximised else "take less than"
            bound = _value(max(0.0, answer.bound), answer)
            words += f"; they cannot {verb} {bound} (gap {answer.gap:.1%})"
    elif answer.bound is not None and answer.gap is not None:
        least = format_usd(max(0.0, answer.bound))
        words += f"; they cannot cost less than {least} (gap {answer.gap:.1%})"
    if answer.left_out and answer.left_out_proved:
        words += "; proved that no choice leaves out less"
    if answer.stopped:
        words += "; the time limit was reached"
    return words


def _per(answer: PortfolioAnswer) -> str:
    return "/h" if answer.portfolio.slots is None else ""


def _row(placed: Placed, answer: PortfolioAnswer) -> list[str]:
    slots, result = answer.portfolio.slots, placed.result
    if result is None or result.estimate is None:
        cells = [placed.name, "left out", "-", "-", "-"]
        return cells if slots is None else [cells[0], "-", *cells[1:]]
    estimate = result.estimate
    speed = format_speed(estimate.effective_samples_per_second.value, estimate.tokens_per_sample)
    extra = placed.extra_usd or 0.0
    cells = [
        placed.name,
        " + ".join(placed.workers),
        speed,
        format_usd(placed.usd or 0.0),
        _last(placed, extra),
    ]
    if slots is not None:
        first, last = placed.start * slots.hours, (placed.start + placed.slots) * slots.hours
        cells.insert(1, f"{first:g}-{last:g}")
    return cells


def _last(placed: Placed, extra: float) -> str:
    """Write the last column: a share where speed counts, else the extra cost."""
    if placed.share is not None:
        return f"{placed.share:.0%}"
    return f"+{format_usd(extra)}" if extra > SMALL_USD else ""


def _held(placed: Placed) -> str:
    return "".join(f"; {_short(row)}" for row in placed.displaced)


def _short(row: Displacement) -> str:
    """Say of what there is too little, and who has it."""
    names = _names(row.by)
    if row.unit == "USD/h":
        left, wanted = format_usd(row.left), format_usd(row.wanted)
        return f"{left} of {wanted}/h {row.resource} are left after {names}"
    return f"{row.left:g} of {row.wanted:g} {row.resource} are left after {names}"


def _names(names: Sequence[str]) -> str:
    """Name the first jobs of a list."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _displaced(placed: Placed, answer: PortfolioAnswer) -> str:
    """Say where a job would have run, who is there, and what that costs."""
    would = " + ".join(placed.alone_workers)
    blocked = "; ".join(_short(row) for row in placed.displaced)
    extra = placed.extra_usd or 0.0
    cost = f": +{format_usd(extra)}{_per(answer)}" if extra > SMALL_USD else ""
    if placed.share is not None:
        cost = f": {placed.share:.0%} of that speed is left"
    return f"{placed.name} would have run on {would} by itself, but {blocked}{cost}"

"""The terminal view of ``placer capacity replay``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from placer.advice.policy.replay import ASSUMPTION, Replay, Summary
from placer.cli.output import new_table
from placer.units import SECONDS_PER_HOUR, counted, format_duration, format_usd

HEADERS = (
    "policy", "USD", "worst", "missed", "moves", "lost", "checkpoints", "exchange", "on-demand h",
)  # fmt: skip


def replay_view(replayed: Replay) -> RenderableType:
    """Show what was replayed, a row for each policy, the offline optimum and the sensitivities."""
    table = new_table(HEADERS, right=HEADERS[1:], wrap=HEADERS[1:])
    for summary in replayed.summaries:
        table.add_row(*_row(summary))
    return Group(
        Text("\n".join(_head(replayed))),
        Text(""),
        table,
        Text(""),
        Text("\n".join(_tail(replayed))),
    )


def _head(replayed: Replay) -> Iterator[str]:
    trace, job = replayed.trace, replayed.job
    hours = trace.ticks * trace.tick_h
    yield (
        f"{counted(len(trace.zones), 'zone')}, {_duration(hours)} from "
        f"{trace.first:%Y-%m-%d %H:%M} UTC in ticks of {_duration(trace.tick_h)}, up to "
        f"{trace.most} machines each"
        f"{f', {100 * trace.carried:.1f} % carried forward' if trace.carried > 0.0005 else ''}"
    )
    yield (
        f"{counted(job.machines, 'machine')} with {_duration(job.work_h)} of work, "
        f"deadline after {_duration(job.deadline_h)}; {counted(len(replayed.starts), 'start')}"
    )
    yield (
        f"on-demand {format_usd(replayed.market.on_demand_usd_per_hour)} per machine-hour; "
        f"prices: {replayed.market.source}"
    )


def _row(summary: Summary) -> tuple[str, ...]:
    return (
        summary.policy.name,
        f"{summary.usd:,.0f}",
        f"{summary.worst.end.usd:,.0f}",
        f"{summary.missed}",
        f"{summary.mean('moves'):.1f}",
        f"{summary.mean('lost'):,.0f}",
        f"{summary.mean('checkpoint_usd'):,.2f}",
        f"{summary.mean('exchange_usd'):,.2f}",
        f"{summary.on_demand_h:.1f}",
    )


def _tail(replayed: Replay) -> Iterator[str]:
    if replayed.optimum_usd is not None and replayed.bound_usd is not None:
        yield (
            f"offline optimum, which knows the whole trace: {replayed.optimum_usd:,.0f} USD "
            f"in one place at a time; "
            f"no policy can cost less than {replayed.bound_usd:,.0f} USD"
        )
    for words, usd in replayed.sensitive:
        yield f"span if {words}: {usd:,.0f} USD"
    yield f"assumed: {ASSUMPTION}"


def _duration(hours: float) -> str:
    return format_duration(hours * SECONDS_PER_HOUR)

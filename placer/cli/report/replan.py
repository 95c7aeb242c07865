"""The terminal view of ``placer replan``."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from placer.advice.worlds.replan import Replan
from placer.cli.report.recommend.sentences import headline
from placer.cost_model.estimate import Estimate
from placer.problem.placement import Placement
from placer.units import counted, format_duration, format_number, format_speed, format_usd


def replan_view(got: Replan) -> Table:
    """Show what was observed, what runs, what is best, and the verdict."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _lines(got):
        table.add_row(name, Text(text, style="bold" if name == "verdict" else ""))
    return table


def _lines(got: Replan) -> Iterator[tuple[str, str]]:
    seen, running, answer = got.observed, got.running, got.answer
    yield "plan", f"{got.manifest.name}: {headline(got.planned)}"
    architecture = got.answer.problem.profile.architecture
    length = None if architecture is None else architecture.sequence_length
    where = f"a run of {counted(seen.rounds, 'round')} that count"
    for number, s in enumerate(seen.speeds):
        rates = (
            f"{s.device} {format_speed(s.measured, length)} a machine, planned "
            f"{format_number(s.planned * (length or 1))} ({100 * (s.factor - 1):+.1f} %)"
        )
        yield "observed" if number == 0 else "", f"{where}: {rates}" if number == 0 else rates
    if seen.samples_per_second is not None:
        whole = got.manifest.expected.samples_per_second.value
        yield (
            "",
            (
                f"{format_speed(seen.samples_per_second, length)} in all, planned "
                f"{format_number(whole * (length or 1))}"
            ),
        )
    if seen.exchange_s is not None:
        links = [
            change.text
            for change in got.changes
            if change.what == "bandwidth" and change.factor is not None
        ]
        factor = f"; links between regions {links[0].rpartition('=')[2]}" if links else ""
        yield "", f"exchange and waiting {seen.exchange_s:,.4g} s a round{factor}"
    for one in seen.lost:
        yield (
            "lost",
            (
                f"rank {one.rank}{f' ({one.place})' if one.place else ''} in step {one.step}: "
                f"{one.reason}"
            ),
        )
    for note in got.notes:
        yield "note", note
    if running is None:
        yield "running", "nothing: all workers are lost"
    elif running.estimate is None:
        yield "running", f"{headline(running.placement)}: cannot go on: {running.broken[0]}"
    else:
        yield "running", _choice(running.placement, running.estimate)
        for words in running.broken:
            yield "", f"breaks a limit: {words}"
    if answer.placement is not None and answer.estimate is not None:
        yield "best now", f"{_choice(answer.placement, answer.estimate)} ({answer.status})"
    else:
        yield "best now", f"nothing fits ({answer.status})"
    yield "verdict", _verdict(got)


def _choice(placement: Placement, found: Estimate) -> str:
    speed, usd = found.effective_samples_per_second.value, found.usd_per_hour.total
    fast = format_speed(speed, found.tokens_per_sample)
    return f"{headline(placement)}: {fast} for {format_usd(usd)}/h"


def _verdict(got: Replan) -> str:
    gain, after = got.gain, got.break_even_s
    if got.verdict == "nothing":
        return "nothing fits and nothing can go on: relax a limit"
    if got.verdict == "keep":
        better = (
            f": the best would gain {_gain_words(got, gain)}"
            if gain is not None and gain > 0
            else ": nothing is better"
        )
        return f"keep{better if got.answer.placement is not None else ''}"
    crew = 0 if got.running is None else got.running.placement.workers
    kept = (
        f"{got.kept_machines} of {counted(crew, 'machine')} in use stay"
        if crew
        else "all machines are new"
    )
    words = {"restore": "start the lost machines again", "move": "move"}[got.verdict]
    if gain is None or after is None:
        why = (
            "nothing runs any more"
            if not got.running
            else "what runs cannot go on"
            if not got.running.estimate
            else "what runs breaks a limit"
        )
        return f"{words}: {why}; {kept}"
    objective = got.answer.objective
    unit = objective.quantity
    if got.answer.estimate is not None and got.answer.estimate.tokens_per_sample is not None:
        unit = unit.replace("sample", "token")
    better = f"{'more' if objective.maximised else 'less'} {unit}"
    return (f"{words}: {_gain_words(got, gain)} {better}{_difference(got)}; {kept}; ") + (
        f"a stop of {format_duration(got.move_s)} has paid off after {format_duration(after)}"
    )


def _gain_words(got: Replan, gain: float) -> str:
    """Say how much better the answer is than what runs, in percent of what runs.

    A gain of speed is kept as a share of the new speed; see `Objective.improvement`.
    """
    return f"{100 * (gain / (1 - gain) if got.answer.objective.maximised else gain):,.1f} %"


def _difference(got: Replan) -> str:
    """Give the samples/s and USD/h that a move brings."""
    old, new = got.running.estimate if got.running else None, got.answer.estimate
    if old is None or new is None:
        return ""
    speed = new.effective_samples_per_second.value - old.effective_samples_per_second.value
    usd = new.usd_per_hour.total - old.usd_per_hour.total
    signs = ("+" if speed >= 0 else "-", "+" if usd >= 0 else "-")
    fast = format_speed(abs(speed), new.tokens_per_sample)
    return f" ({signs[0]}{fast}, {signs[1]}{format_usd(abs(usd))}/h)"

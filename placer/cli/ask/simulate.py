"""``placer simulate``: rounds of a placement given by hand, replayed with jitter and stragglers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import groups_option, request_options, table_option
from placer.cli.output import print_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.plot import check_plot, plot_option, write_plot
from placer.units import format_plain

if TYPE_CHECKING:
    from placer.validation.simulation.replay import Simulation

EXAMPLE = """\b
Example:
  placer simulate --model roberta-xlm --catalog erben-2023 --exchange all-reduce \\
    --workers gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot --jitter 0.2
"""
COUNT = click.INT
SHARE = click.FLOAT


@click.command("simulate", cls=GroupedCommand, epilog=EXAMPLE)
@groups_option
@request_options
@click.option(
    "--rounds",
    type=COUNT,
    default=30,
    show_default=True,
    metavar="N",
    help="Rounds to replay, from exchange to exchange.",
)
@click.option(
    "--seed",
    type=COUNT,
    default=0,
    show_default=True,
    metavar="N",
    help="Equal seeds give equal results.",
)
@click.option(
    "--jitter",
    type=SHARE,
    default=0.0,
    show_default=True,
    metavar="X",
    help="Coefficient of variation of speeds, 0 to 2.",
)
@click.option(
    "--stragglers",
    type=SHARE,
    default=0.0,
    show_default=True,
    metavar="P",
    help="Probability that a worker is slow in a step.",
)
@click.option(
    "--straggler-factor",
    type=SHARE,
    default=2.0,
    show_default=True,
    metavar="X",
    help="By how much it is slow then.",
)
@plot_option
@table_option
def command(
    model: str,
    workers: str,
    catalog: tuple[str, ...],
    as_json: bool,
    plot: str | None,
    **words: Any,
) -> None:
    """Replay a placement given by hand, event by event, and compare it with the closed formulas."""
    from placer.interface.advisor import Advisor

    check_plot(plot)
    simulation = Advisor(catalog).simulate(model, workers, **words)
    document = {**simulation.to_dict(), "workers": workers}
    write_plot(plot, document)
    if as_json:
        print_json(document)
        return
    for line in _lines(simulation):
        click.echo(line)


def _lines(simulation: Simulation) -> list[str]:
    """Write prediction and simulation, the spread, and who waits."""
    from placer.units import format_speed

    length = simulation.tokens_per_sample
    slow = (
        f"{100 * simulation.stragglers:g} % stragglers, {simulation.straggler_factor:g} x slower"
        if simulation.stragglers
        else "no stragglers"
    )
    chance = f"jitter {100 * simulation.jitter:g} %" if simulation.jitter else "no jitter"
    lines = [
        f"{simulation.strategy}: {simulation.rounds} rounds; {chance}; {slow}; "
        f"seed {simulation.seed}",
        (
            f"predicted   {format_speed(simulation.predicted_samples_per_second, length)}   "
            f"round {format_plain(simulation.predicted_round_seconds)} s"
        ),
        (
            f"simulated   {format_speed(simulation.samples_per_second, length)}   round "
            f"{format_plain(simulation.mean_round_seconds)} s ({simulation.difference:+.1%})"
        ),
        (
            f"spread      round p5 {format_plain(simulation.p5)} s   "
            f"p50 {format_plain(simulation.p50)} s   p95 {format_plain(simulation.p95)} s"
        ),
    ]
    waits = [
        (place, seconds)
        for place, seconds in simulation.waiting_by_place
        if seconds >= 0.01 * simulation.mean_round_seconds
    ]
    lines += [
        f"waiting     {place}   {format_plain(seconds)} s of each round"
        for place, seconds in sorted(waits, key=lambda w: -w[1])
    ]
    return lines if waits else [*lines, "waiting     no place waits at barriers for 1 % of a round"]

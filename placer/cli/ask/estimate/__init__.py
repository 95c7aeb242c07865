"""``placer estimate``: a placement given by hand."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.ask.estimate.simulation import chances_of, simulation_lines, simulation_options
from placer.cli.options import groups_option, request_options, table_option, wish_option
from placer.cli.output import check_targets, console, print_json, write_json
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.plot import check_plot, plot_option, write_plot
from placer.problem.words.wishes import WISHES

EXAMPLE = """\b
Examples:
  placer estimate --model roberta-xlm --catalog erben-2023 --exchange all-reduce \\
    --workers gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot --manifest plan.json
  placer estimate --model roberta-xlm --workers gcp/us-central1=8xT4:spot --simulate --jitter 0.2
"""


@click.command("estimate", cls=GroupedCommand, epilog=EXAMPLE)
@groups_option
@request_options
@click.option(
    "--manifest", metavar="FILE", help="Write the launch manifest of the placement as JSON."
)
@wish_option(WISHES["quota"])
@simulation_options
@plot_option
@table_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    model: str,
    workers: str,
    catalog: tuple[str, ...],
    manifest: str | None,
    simulate: bool,
    plot: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Time and price a placement given by hand; nothing is searched, limits are reported."""
    from placer.advice.recommendation.notes import notes_of, warnings_of
    from placer.cli.report.recommend import sentences, terminal
    from placer.cost_model.estimate import estimate
    from placer.cost_model.limits import violations
    from placer.documents.manifest import build_manifest
    from placer.interface.advisor import Advisor
    from placer.interface.by_hand import estimate_document
    from placer.solving.by_hand import place_by_hand

    check_targets(manifest)
    check_plot(plot)
    chances = chances_of(ctx, words)
    problem = Advisor(catalog).problem(model, mixed=True, supply="any", **words)
    placement = place_by_hand(workers, problem)
    broken = violations(placement, problem)
    figures = estimate(placement, problem)
    if manifest and not broken:
        write_json(manifest, build_manifest(problem, placement, figures, "feasible", None))
    document: Any
    if simulate:
        from placer.validation.simulation.replay import replay

        simulation = replay(placement, problem, **chances)
        document = {**simulation.to_dict(), "workers": workers}
    else:
        document = estimate_document(problem, placement, figures, broken)
    write_plot(plot, document)
    if as_json:
        print_json(document)
    elif simulate:
        click.echo("\n".join(simulation_lines(simulation)))
    else:
        out, err = console(), console(stderr=True)
        out.print(terminal.context(problem))
        out.print(f"\n{sentences.headline(placement)}", style="bold")
        out.print(
            terminal.estimate_lines(
                placement, figures, problem, notes=notes_of(problem, placement, figures)
            )
        )
        for line in terminal.warning_lines(warnings_of(problem, placement, figures)):
            err.print(line, style="yellow")
    for number, violation in enumerate(broken):
        click.echo(f"{'   also' if number else 'error'}: {violation.message}", err=True)
    if manifest and not broken:
        click.echo(f"wrote manifest to {manifest}", err=True)
    if broken:
        click.echo(
            "  tip: the estimate above ignores these limits; change --workers or raise --quota "
            "FILE",
            err=True,
        )
    ctx.exit(2 if broken else 0)

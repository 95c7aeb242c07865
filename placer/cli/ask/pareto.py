"""``placer pareto``: the frontier of cost against throughput."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from placer.cli.options import json_option, output_option, solve_options
from placer.cli.output import check_targets, console, write_bytes, write_json
from placer.cli.saved_question import question_options, read_question
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.plot import check_plot, plot_option, write_plot
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show

EXAMPLE = """\b
Examples:
  placer pareto --model roberta-xlm --budget 20/h
  placer pareto --model resnet50 --min-throughput 500/s --points 20 --time-limit 5min
  placer pareto --model roberta-xlm --in 'aws/*' --csv frontier.csv
  placer pareto result.json --budget 20/h
"""


@click.command("pareto", cls=GroupedCommand, epilog=EXAMPLE)
@question_options
@click.option(
    "--points",
    default=12,
    show_default=True,
    help="Most points, the cheapest and the fastest among them.",
)
@solve_options(
    "60s",
    solver_help="exact proves; greedy and local_search do not.",
    gap_help="Relative gap to prove for each point.",
    limit_help="For the whole frontier; then the points so far.",
)
@output_option("the frontier")
@click.option("--csv", "table", metavar="FILE", help="Write the points as CSV.")
@plot_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    result: str | None,
    model: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Show what each budget buys: the frontier of USD/h against samples/s, each point proved, the
    knee marked.

    The frontier goes from the cheapest placement (with --min-throughput: the cheapest that reaches
    it) to the fastest (with --budget: the fastest within it). RESULT is a file that 'placer
    recommend -o' wrote; words of a request beside it change its question.
    """
    from placer.interface.advisor import Advisor

    output, table, plot = (words.pop(name) for name in ("output", "table", "plot"))
    check_targets(output, table, plot)
    check_plot(plot)
    question = read_question(ctx, result, model, words)
    # The searches tell samples/s; each has a gap of its own.
    asked = {**words, "objective": "throughput", "gap": ""}
    with progress("tracing the frontier", asked, keeps=True) as heard:
        frontier = Advisor().pareto(question.asked, on_better=heard.better, **question.words)
    written = _write(frontier, output, table)
    write_plot(plot, frontier.to_dict())
    if as_json or frontier.points:
        show(frontier.to_dict(), as_json=as_json)
    if frontier.points and not as_json:
        _say_more(frontier, written)
    question.tell()
    if frontier.failed is not None:
        from placer.cli.ask.recommend import print_no_placement

        if not as_json:
            print_no_placement(frontier.failed)
        ctx.exit(3 if frontier.failed.status == "infeasible" else 4)
    ctx.exit(0 if frontier.points else 4)


def _write(frontier: Any, output: str | None, table: str | None) -> list[str]:
    """Write the files that were asked for; tables only if there are points."""
    if output:
        write_json(output, frontier.to_saved())
    if table and frontier.points:
        rows = frontier.rows()
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_bytes(table, text.getvalue().encode())
    return [path for path in (output, table) if path]


def _say_more(frontier: Any, written: list[str]) -> None:
    """Say on stderr which files there are, and the next command."""
    err = console(stderr=True)
    for path in written:
        err.print(f"wrote {path}")
    at = frontier.knee if frontier.knee is not None else frontier.best_value
    usd = frontier.points[at].usd_per_hour * 1.0005 + 0.005
    err.print(
        f"next: 'placer recommend' with --budget {usd:.2f}/h explains one point; --json is for "
        f"programs",
        style="dim",
    )

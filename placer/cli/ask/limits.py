"""``placer explain``, ``placer pareto`` and ``placer portfolio``: what limits an answer, what each
budget buys, and what many jobs do with the limits that they share.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli.command import Json, Plot, Saved, as_command
from placer.cli.output import check_targets, exit_code, tell, write_csv, write_json
from placer.cli.saved_question import read_question
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.progress import progress
from placer.cli.screen.show import check_plot, show, write_plot
from placer.errors import PlacerError
from placer.interface.advisor import explain, pareto

if TYPE_CHECKING:
    from placer.problem.placement import Placement

EXPLAIN = """\b
Examples:
  placer explain --model roberta-xlm --budget 5/h
  placer explain --model roberta-xlm --budget 5/h --why-not gcp/us-central1 \\
    --why-not A100 --why-not central
  placer recommend --model roberta-xlm --budget 5/h -o result.json && placer explain result.json
  placer explain --model roberta-xlm --budget 1/h --min-throughput 4000/s
"""


@as_command("explain", EXPLAIN, of=explain, saved=True)
def explain_command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    output: Saved,
    as_json: Json,
    **words: Any,
) -> None:
    """Say what binds, why not something else, what one more dollar or GPU is worth, when to leave a
    region, or why nothing fits.

    RESULT is a file that 'placer recommend -o' wrote: its question is asked, and the search begins
    with its answer. Words of a request beside it change the question.
    """
    check_targets(output)
    question = read_question(ctx, result, model, words)
    with progress("explaining"):
        explanation = explain(question.asked, start=question.answer, **question.words)
    document = explanation.to_dict()
    if output:
        write_json(output, document)
    show(document, as_json=as_json, saved=_saved_words(explanation, question.answer))
    question.tell()
    if output:
        tell(f"wrote explanation to {output}")
    ctx.exit(exit_code(explanation.result))


def _saved_words(explanation: Any, saved: Placement | None) -> str:
    """Say what the saved answer does in the question as it is now, where another one is better."""
    from msgspec import to_builtins

    from placer.advice.worlds.whatif import keep
    from placer.documents.result_parts import estimate_document
    from placer.report.figures import placement_words
    from placer.report.kinds.shared.parts import figures_words

    result = explanation.result
    if saved is None or (
        result.placement is not None and saved.canonical() == result.placement.canonical()
    ):
        return ""
    kept = keep(saved, result.problem)
    words = placement_words({"workers": to_builtins(kept.placement.groups)})
    if kept.estimate is not None:
        words += f": {figures_words(estimate_document(kept.estimate))}"
    return f"{words}; it cannot be kept: {kept.broken[0]}" if kept.broken else words


PARETO = """\b
Examples:
  placer pareto --model roberta-xlm --budget 20/h
  placer pareto --model resnet50 --min-throughput 500/s --points 20 --time-limit 5min
  placer pareto --model roberta-xlm --in 'aws/*' --csv frontier.csv
  placer pareto result.json --budget 20/h
"""


@as_command("pareto", PARETO, of=pareto, saved=True)
def pareto_command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    output: Saved,
    table: str | None = None,
    plot: Plot,
    as_json: Json,
    **words: Any,
) -> None:
    """Show what each budget buys: the frontier of USD/h against samples/s, each point proved, the
    knee marked.

    The frontier goes from the cheapest placement (with --min-throughput: the cheapest that reaches
    it) to the fastest (with --budget: the fastest within it). RESULT is a file that 'placer
    recommend -o' wrote; words of a request beside it change its question.

    table (FILE, --csv): Write the points as CSV.
    """
    check_targets(output, table, plot)
    check_plot(plot)
    question = read_question(ctx, result, model, words)
    # The searches tell samples/s; each has a gap of its own.
    asked = {**words, "objective": "throughput", "gap": ""}
    with progress("tracing the frontier", asked, keeps=True) as heard:
        frontier = pareto(question.asked, on_better=heard.get("on_better"), **question.words)
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
        ctx.exit(exit_code(frontier.failed))
    ctx.exit(0 if frontier.points else 4)


def _write(frontier: Any, output: str | None, table: str | None) -> list[str]:
    """Write the files that were asked for; tables only if there are points."""
    if output:
        write_json(output, frontier.to_saved())
    if table and frontier.points:
        rows = frontier.rows()
        write_csv(table, [[*rows[0]], *([*row.values()] for row in rows)])
    return [path for path in (output, table) if path]


def _say_more(frontier: Any, written: list[str]) -> None:
    """Say on stderr which files there are, and the next command."""
    for path in written:
        tell(f"wrote {path}")
    at = frontier.knee if frontier.knee is not None else frontier.best_value
    usd = frontier.points[at].usd_per_hour * 1.0005 + 0.005
    tell(
        f"next: 'placer recommend' with --budget {usd:.2f}/h explains one point; --json is for "
        f"programs",
        style="dim",
    )


PORTFOLIO = """\b
Examples:
  placer portfolio examples/jobs.toml
  placer portfolio examples/jobs.toml --objective throughput --fair
  placer portfolio jobs.toml --time-limit 5min -o portfolio.json --manifests plans
"""


@as_command("portfolio", PORTFOLIO, cls=GroupedCommand)
def portfolio_command(
    ctx: click.Context,
    file: str,
    *,
    catalog: tuple[str, ...] = (),
    budget: str | None = None,
    objective: str | None = None,
    fair: bool | None = None,
    gap: str = "1%",
    time_limit: str = "60s",
    memory_limit: str | None = None,
    output: Saved,
    manifests: str | None = None,
    as_json: Json,
) -> None:
    """Choose where many jobs run, and when, under quotas, budgets and reservations that they share.

    JOBS.TOML has a [[job]] for each job, with the options of 'placer recommend'; docs/manual says
    what else it may have.

    file (JOBS.TOML):
    catalog (NAME|DIR|CSV): Price book, in place of the one that the file names.
    budget (USD[/h]): Budget of all jobs, in place of the one in the file.
    objective ({cost, throughput, time}): Least cost, or for a budget the most weighted samples/s or
        the least weighted hours, in place of the one in the file.
    fair (--fair/--no-fair): First make the smallest share of any job as large as possible: its
        speed over the speed that it would have with the budget and the quotas to itself.
    gap (SHARE): Relative gap to reach.
    time_limit (TIME): Stop after this long with the best so far and its bound.
    memory_limit (SIZE): As in 'placer recommend'.
    manifests (FOLDER): Write the launch manifest of each job here.
    """
    from placer.interface.question_file import portfolio_from_file

    check_targets(output)
    if manifests is not None and os.path.exists(manifests) and not os.path.isdir(manifests):  # noqa: PTH110, PTH112
        raise PlacerError(f"'{manifests}' is not a folder", "name a folder for the manifests")
    with progress("choosing"):
        answer = portfolio_from_file(
            file,
            catalog=catalog,
            budget=budget,
            objective=objective,
            fair=fair,
            gap=gap,
            time_limit=time_limit,
            memory_limit=memory_limit,
        )
    if output:
        write_json(output, answer.to_saved())
    written = _write_manifests(answer, manifests) if manifests else 0
    show(answer.to_dict(), as_json=as_json)
    if not as_json:
        if output:
            tell(f"wrote portfolio to {output}")
        if manifests:
            tell(f"wrote {written} manifests to {manifests}")
    ctx.exit(_code(answer))


def _code(answer: Any) -> int:
    """Return 3 where some jobs do not fit, 4 where time ended before that is known."""
    if not answer.left_out:
        return 0
    return 4 if answer.stopped and not answer.left_out_proved else 3


def _write_manifests(answer: Any, folder: str) -> int:
    """Write the manifest of each job that runs; return how many."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    running = [placed for placed in answer.jobs if placed.result is not None]
    for placed in running:
        name = "".join(c if c.isalnum() or c in "-_." else "-" for c in placed.name)
        write_json(str(Path(folder) / f"{name}.json"), placed.result.to_manifest())
    return len(running)

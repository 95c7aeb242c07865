"""``placer sweep``: one solve for each point of some ranges."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from placer.cli.options import (
    json_option,
    open_request_options,
    runner_options,
    solve_options,
    wish_options,
)
from placer.cli.output import check_targets, console, write_text
from placer.cli.screen.option_groups import GroupedCommand
from placer.cli.screen.plot import check_plot, plot_option, write_plot
from placer.cli.screen.show import show
from placer.errors import PlacerError

if TYPE_CHECKING:
    from placer.advice.sweep.answer import Sweep
    from placer.advice.sweep.run import Tell

EXAMPLE = """\b
Examples:
  placer sweep --model roberta-xlm --over budget=1/h..20/h:log8
  placer sweep --model resnet50 --budget 20/h --over 'bandwidth:*:*=x0.25..x4:log5' \\
    --over tbs=8Ki,32Ki -o sweep.jsonl --jobs 2
  placer sweep --model resnet50 --over budget=1/h..50/h:50 --shard 1/2 -o a.jsonl
  placer sweep --merge a.jsonl b.jsonl -o all.jsonl

\b
--over WHAT=LOW..HIGH[:STEPS|:log STEPS] or WHAT=a,b,c; WHAT is what 'placer whatif --set' takes.
The file of -o has a header and one JSON line a point; run the same command again after a stop, and
only the missing points are solved.
"""


@click.command("sweep", cls=GroupedCommand, epilog=EXAMPLE)
@click.argument("files", nargs=-1, metavar="[FILES]...")
@open_request_options
@wish_options
@click.option(
    "--over",
    multiple=True,
    metavar="WHAT=LOW..HIGH",
    help="A range, one to three times: budget=2/h..20/h:7, gpu=T4,A10.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="WHAT=CHANGE",
    help="A change that holds at every point; see 'placer whatif'.",
)
@click.option(
    "--drop",
    multiple=True,
    metavar="PLACE[:GPU[:MARKET]]",
    help="Offers that are gone at every point.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="JSON lines: grows point by point; the same command continues it.",
)
@runner_options
@click.option("--shard", metavar="I/N", help="Only every N-th point, from the I-th on.")
@click.option("--merge", is_flag=True, help="Put FILES of shards together.")
@solve_options(limit_help="Stop each search after this long.")
@plot_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    model: str | None,
    over: tuple[str, ...],
    merge: bool,
    as_json: bool,
    **words: Any,
) -> None:
    """Solve a question for every combination of one to three ranges, and say where the choice
    changes.
    """
    output: str | None = words["output"]
    plot: str | None = words.pop("plot")
    check_targets(output)
    check_plot(plot)
    sweep = _merged(files, output) if merge else _run(files, model, over, words)
    write_plot(plot, sweep.to_dict())
    show(sweep.to_dict(), as_json=as_json)
    err = console(stderr=True)
    if sweep.interrupted:
        kept = (
            f"{output} has what is done; the same command goes on from there"
            if output
            else "without -o FILE nothing is kept"
        )
        err.print(f"stopped: {kept}")
    elif output:
        err.print(f"wrote {len(sweep.rows):,} of {sweep.points:,} points to {output}")
    ctx.exit(130 if sweep.interrupted else 0)


def _run(
    files: tuple[str, ...], model: str | None, over: tuple[str, ...], words: dict[str, Any]
) -> Sweep:
    from placer.interface.worlds import sweep

    if files:
        raise PlacerError(
            f"'{files[0]}' without --merge",
            "a sweep takes no files; put shards together with --merge",
        )
    if not model:
        raise PlacerError("--model is missing", "see placer sweep --help")
    if not over:
        raise PlacerError("--over is missing", "give a range, such as --over budget=2/h..20/h:7")
    with _progress() as tell:
        return sweep(model, over, set=words.pop("sets"), tell=tell, **words)


def _merged(files: tuple[str, ...], output: str | None) -> Sweep:
    from placer.advice.sweep.answer import Sweep
    from placer.advice.sweep.file import line_of, merged

    header, rows = merged(files)
    if output:
        write_text(output, "".join(line_of(row) for row in (header, *rows)))
    return Sweep(header=header, rows=tuple(rows))


@contextmanager
def _progress() -> Iterator[Tell]:
    """Show on a terminal how many points are done; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    with console(stderr=True).status("solving ...", spinner="line") as status:
        yield lambda done, of: status.update(
            f"solved {done:,} of {of:,} points; Ctrl-C keeps what is done"
        )

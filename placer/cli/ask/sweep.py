"""``placer whatif --over``: one solve for each point of some ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from placer.cli.command import Json, Plot, as_command
from placer.cli.output import check_targets, console, write_text
from placer.cli.saved_question import read_question
from placer.cli.screen.plot import check_plot, write_plot
from placer.cli.screen.progress import telling
from placer.cli.screen.show import show
from placer.errors import PlacerError
from placer.interface.worlds import sweep

if TYPE_CHECKING:
    from placer.advice.sweep.run import Sweep

EXAMPLE = """\b
Examples:
  placer whatif --model roberta-xlm --over budget=1/h..20/h:log8
  placer whatif --model resnet50 --budget 20/h --over 'bandwidth:*:*=x0.25..x4:log5' \\
    --over tbs=8Ki,32Ki -o sweep.jsonl --jobs 2
  placer whatif --model resnet50 --over budget=1/h..50/h:50 --shard 1/2 -o a.jsonl
  placer whatif --merge a.jsonl b.jsonl -o all.jsonl

\b
--over WHAT=LOW..HIGH[:STEPS|:log STEPS] or WHAT=a,b,c; WHAT is what 'placer whatif --set' takes.
The file of -o has a header and one JSON line a point; run the same command again after a stop, and
only the missing points are solved.
"""


@as_command("sweep", EXAMPLE, of=sweep, saved=True)
def command(
    ctx: click.Context,
    files: tuple[str, ...] = (),
    *,
    model: str | None = None,
    over: tuple[str, ...] = (),
    output: str | None = None,
    merge: bool = False,
    plot: Plot,
    as_json: Json,
    **words: Any,
) -> None:
    """Solve a question for every combination of one to three ranges, and say where the choice
    changes.

    FILES are a result that 'placer recommend -o' wrote, whose question is asked; with --merge those
    of shards.

    Parameters
    ----------
    files : [FILES]...
    over : WHAT=LOW..HIGH
        A range, one to three times: budget=2/h..20/h:7, gpu=T4,A10.
    output : FILE, -o --output
        JSON lines: grows point by point; the same command continues it.
    merge
        Put FILES of shards together.
    """
    check_targets(output)
    check_plot(plot)
    words["output"] = output
    swept = _merged(files, output) if merge else _run(ctx, files, model, over, words)
    write_plot(plot, swept.to_dict())
    show(swept.to_dict(), as_json=as_json)
    err = console(stderr=True)
    if swept.interrupted:
        kept = (
            f"{output} has what is done; the same command goes on from there"
            if output
            else "without -o FILE nothing is kept"
        )
        err.print(f"stopped: {kept}")
    elif output:
        err.print(f"wrote {len(swept.rows):,} of {swept.points:,} points to {output}")
    ctx.exit(130 if swept.interrupted else 0)


def _run(
    ctx: click.Context,
    files: tuple[str, ...],
    model: str | None,
    over: tuple[str, ...],
    words: dict[str, Any],
) -> Sweep:
    if len(files) > 1:
        raise PlacerError(f"'{files[1]}' without --merge", "put shards together with --merge")
    if not over:
        raise PlacerError("--over is missing", "give a range, such as --over budget=2/h..20/h:7")
    question = read_question(ctx, files[0] if files else None, model, words)
    with telling("solving ...") as tell:
        return sweep(
            question.asked,
            over,
            tell=lambda done, of: tell(
                f"solved {done:,} of {of:,} points; Ctrl-C keeps what is done"
            ),
            **question.words,
        )


def _merged(files: tuple[str, ...], output: str | None) -> Sweep:
    from placer.advice.sweep.file import line_of, merged
    from placer.advice.sweep.run import Sweep

    header, rows = merged(files)
    if output:
        write_text(output, "".join(line_of(row) for row in (header, *rows)))
    return Sweep(header=header, rows=tuple(rows))

"""``placer whatif`` in its three forms and ``placer robust``: a question in other worlds."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from placer.cli.command import Json, Plot, Table, as_command
from placer.cli.output import check_targets, exit_code, print_json, tell, write_json, write_text
from placer.cli.saved_question import read_question
from placer.cli.screen.progress import nothing_kept, progress, telling
from placer.cli.screen.show import check_plot, show, write_plot
from placer.errors import PlacerError
from placer.interface.worlds import replan, robust, sweep, whatif
from placer.problem.words.wishes import CHANGES

if TYPE_CHECKING:
    from placer.advice.sweep import Sweep

WISH_LINES = textwrap.fill(
    f"{', '.join(CHANGES)}: as the options of these names (yes or no for those without a value); "
    "budget=x2 and tbs=x2 multiply an amount, budget=none takes a limit away",
    98,
    initial_indent="  ",
    subsequent_indent="  ",
    break_on_hyphens=False,
)
WHATIF = f"""\b
Examples:
  placer whatif --model roberta-xlm --budget 5/h --set 'price:gcp/*:H100=+40%'
  placer whatif --model roberta-xlm --budget 5/h --drop 'gcp/*:H100:spot' --set budget=8/h
  placer whatif result.json --drop gcp/us-central1
  placer whatif --model roberta-xlm --over budget=1/h..20/h:log8
  placer whatif plan.json --observed plan-run/run.jsonl
  placer whatif --model resnet50 --budget 50/h --regions 2.. \\
    --set 'egress:*:internet=x0.5' --set 'bandwidth:*:*=x2'

\b
With --over the question is solved for every combination of ranges, and with --observed that of a
plan with what its run measured: see 'placer whatif --over --help' and '--observed --help'.

\b
What --set takes:
  price:PLACE:GPU[:MARKET]=xF|+P%|-P%|USD/h  of each GPU of a machine
  egress:SRC:DST=xF|+P%|-P%|USD/GiB                  DST: PLACE, internet, inter-region, inter-zone
  bandwidth:SRC:DST[:one-way]=xF|+P%|-P%|RATE        both ways unless one-way
  rate:GPU[:COUNT]=xF|+P%|-P%|N/s                    speed of the model on a GPU
  quota:PLACE:GPU[:MARKET]=N    gradient=xF
{WISH_LINES}
"""


@as_command("whatif", WHATIF, of=whatif, saved=True)
def whatif_command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    as_json: Table,
    **words: Any,
) -> None:
    """Solve a question as it is and as changed, and say what not reacting would cost.

    RESULT is a file that 'placer recommend -o' wrote; words of a request beside it change its
    question, before --set does.
    """
    question = read_question(ctx, result, model, words)
    told = {**words, "objective": question.objective or words["objective"]}
    with progress("searching twice", told) as heard:
        answer = whatif(question.asked, **heard, **question.words)
    show(answer.to_dict(), as_json=as_json)
    question.tell()
    ctx.exit(exit_code(answer.after))


SWEEP = """\b
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


@as_command("sweep", SWEEP, of=sweep, saved=True)
def sweep_command(
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

    files ([FILES]...):
    over (WHAT=LOW..HIGH): A range, one to three times: budget=2/h..20/h:7, gpu=T4,A10.
    output (FILE, -o --output): JSON lines: grows point by point; the same command continues it.
    merge: Put FILES of shards together.
    """
    check_targets(output)
    check_plot(plot)
    words["output"] = output
    swept = _merged(files, output) if merge else _run(ctx, files, model, over, words)
    write_plot(plot, swept.to_dict())
    show(swept.to_dict(), as_json=as_json)
    if swept.interrupted:
        kept = (
            f"{output} has what is done; the same command goes on from there"
            if output
            else "without -o FILE nothing is kept"
        )
        tell(f"stopped: {kept}")
    elif output:
        tell(f"wrote {len(swept.rows):,} of {swept.points:,} points to {output}")
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
    from placer.advice.sweep import Sweep, line_of, merged

    header, rows = merged(files)
    if output:
        write_text(output, "".join(line_of(row) for row in (header, *rows)))
    return Sweep(header=header, rows=tuple(rows))


REPLAN = """\b
Examples:
  placer whatif plan.json --observed plan-run/run.jsonl
  placer whatif plan.json --observed run.jsonl -m new.json \\
    --set 'price:gcp/us-central1:T4:spot=+60%'
  placer whatif plan.json --observed run.jsonl --drop gcp/us-central1:T4:spot

\b
The log of a run in the places of the plan tells the speed of the machines and, with several
regions, of the links between them. Any log tells which workers were lost; they may be rented again
unless --drop says otherwise. Machines in use stay unless a plan without them is better by more
than 2 %.
"""


@as_command("replan", REPLAN, of=replan)
def replan_command(
    ctx: click.Context, manifest: str, *, target: str | None = None, as_json: Table, **words: Any
) -> None:
    """Solve the question of MANIFEST again with what its run measured: keep what runs, or move.

    target (FILE, -m --manifest): Write the manifest of the answer.
    """
    check_targets(target)
    with progress("searching twice") as heard:
        replanned = replan(manifest, **heard, **words)
    if target is not None:
        if replanned.answer.placement is None:
            raise PlacerError(
                "nothing fits, so there is no manifest",
                "leave out -m, or relax a limit",
                exit_code=3,
            )
        write_json(target, replanned.answer.to_manifest())
    show(replanned.to_dict(), as_json=as_json)
    if target is not None and not as_json:
        click.echo(f"wrote the manifest to {target}", err=True)
    ctx.exit(exit_code(replanned.answer) if replanned.verdict == "nothing" else 0)


ROBUST = """\b
Examples:
  placer robust --model roberta-xlm --budget 5/h
  placer robust result.json --worlds 32
  placer robust --model resnet50 --budget 20/h --regions 2.. \\
    --box bandwidth=0.5..1.5 --box price=1..1
  placer robust --model roberta-xlm --budget 5/h --gpu T4,A10 --exact --worlds 32

\b
Without --box each figure varies as far as it is uncertain: spot prices as far as they moved in 30
days, else x0.71 to x1.4, estimates further; estimated links x0.5 to x1.5, measured links and the
speeds of devices between their own low and high, samples to target as assumed; list prices on
demand and egress are exact. Regret is the share of the best value that the recommendation gives up
in a world. Fragile: more than 5 % in more than 10 % of the worlds, or more than 20 % in the worst
one.
"""


@as_command("robust", ROBUST, of=robust, saved=True)
def robust_command(
    ctx: click.Context,
    result: str | None = None,
    *,
    model: str | None = None,
    plot: Plot,
    as_json: Table,
    **words: Any,
) -> None:
    """Say how much a recommendation may lose if prices, links and speeds are not what the book
    says.

    RESULT is a file that 'placer recommend -o' wrote; words of a request beside it change its
    question.
    """
    check_plot(plot)
    question = read_question(ctx, result, model, words)
    with (
        nothing_kept("regrets are known after the last world"),
        progress("looking at other worlds"),
    ):
        robustness = robust(question.asked, **question.words)
    if robustness.result.placement is not None:
        write_plot(plot, robustness.to_dict())
    if as_json:
        print_json(robustness.to_dict())
    elif robustness.result.placement is None:
        none = f"no placement satisfies the request ({robustness.result.status})"
        tell(f"error: {none}, so there is nothing to test")
        tell("  tip: run 'placer recommend' with the same options to see what would fit")
    else:
        show(robustness.to_dict())
    question.tell()
    ctx.exit(exit_code(robustness.result))

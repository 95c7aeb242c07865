"""``placer robust``: what a recommendation may lose, and what to measure first."""

from __future__ import annotations

from typing import Any

import click

from placer.cli.command import Plot, Table, as_command
from placer.cli.output import console, exit_code, print_json
from placer.cli.saved_question import read_question
from placer.cli.screen.interruption import nothing_kept
from placer.cli.screen.plot import check_plot, write_plot
from placer.cli.screen.progress import progress
from placer.cli.screen.show import show
from placer.errors import PlacerError
from placer.interface.worlds import robust

EXAMPLE = """\b
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


@as_command("robust", EXAMPLE, of=robust, saved=True)
def command(
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
        error = PlacerError(
            f"no placement satisfies the request ({robustness.result.status}), so "
            "there is nothing to test",
            "run 'placer recommend' with the same options to see what would fit",
        )
        err = console(stderr=True)
        err.print(f"error: {error.message}")
        err.print(f"  tip: {error.hint}")
    else:
        show(robustness.to_dict())
    question.tell()
    ctx.exit(exit_code(robustness.result))

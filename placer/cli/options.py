"""Options that several commands share: the words of a request."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import click

from placer.interface.verb import entries
from placer.interface.words import Common
from placer.problem.words.wishes import Wish

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


CATALOG = entries(Common)["catalog"]
VERBOSE = "placer.verbose"
"""Key in a context's ``meta`` of whether everything is to be printed."""


def _leave_the_cache(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Read books anew while the command runs."""
    from placer.market.books.cache import unused

    if given:
        ctx.with_resource(unused())


def _say_what_the_cache_lacks(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    """Keep that all is to be printed, and say on stderr why books are read anew each time."""
    from placer.market.books.cache import writing_problem

    ctx.meta[VERBOSE] = ctx.meta.get(VERBOSE, False) or given
    problem = writing_problem() if given else ""
    if problem:
        words = "books are read anew each time; set PLACER_HOME to a folder of yours"
        click.echo(f"cache: {problem}: {words}", err=True)


def catalog_option(function: F) -> F:
    """Add the price book of a command, and how it is read."""
    book = click.option(
        "--catalog",
        multiple=True,
        metavar=CATALOG.metavar,
        help=CATALOG.help,
    )
    no_cache = click.option(
        "--no-cache",
        is_flag=True,
        expose_value=False,
        callback=_leave_the_cache,
        help="Read and check the books anew; keep nothing of them.",
    )
    verbose = click.option(
        "-v",
        "--verbose",
        "--all",
        is_flag=True,
        expose_value=False,
        callback=_say_what_the_cache_lacks,
        help="Print everything, and say on stderr where the cache of books cannot be written.",
    )
    return _add([book, no_cache, verbose], function)


FORMAT = "placer.format"
"""Key in a context's ``meta`` of the format that was asked for."""


def _choose_format(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    """Keep what is printed where it is to be written in another format than that of a terminal."""
    from placer.cli.screen.formats import FORMATS, WRITERS, collect
    from placer.errors import unknown

    if name is None or ctx.resilient_parsing:
        return
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    ctx.meta[FORMAT] = name
    if name in WRITERS:
        collect(name)


def _as_json(ctx: click.Context, param: click.Parameter, given: bool) -> bool:
    """Return whether the document is printed: with --json or --format json."""
    from placer.errors import PlacerError

    name = ctx.meta.get(FORMAT)
    if given and name not in (None, "json"):
        raise PlacerError(f"--json together with --format {name}", "use one of them")
    return given or name == "json"


def _to_file(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Write what is printed to a file in place of stdout; ``-`` is stdout."""
    from placer.cli.output import check_targets
    from placer.cli.screen.formats import STDOUT, collect

    if path is not None and path != STDOUT and not ctx.resilient_parsing:
        check_targets(path)
        collect(ctx.meta.get(FORMAT, "table"), path)


def _document_or_table(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Write tables to the file where their format was asked for; else return it for the document.
    ``-`` is stdout, which then has the document alone.
    """
    from placer.cli.screen.formats import STDOUT, collect, whole_tables

    if path is not None and whole_tables():
        _to_file(ctx, param, path)
        return None
    if path == STDOUT and not ctx.resilient_parsing:
        collect(STDOUT)
    return path


def json_option(function: F) -> F:
    """Add the formats of a command's output."""
    json_flag = click.option(
        "--json", "as_json", is_flag=True, callback=_as_json, help="Print JSON."
    )
    format_ = click.option(
        "--format",
        expose_value=False,
        is_eager=True,
        callback=_choose_format,
        metavar="NAME",
        help="table, json, or tables alone as jsonl, csv, md or html.",
    )
    return _add([json_flag, format_], function)


def table_option(function: F) -> F:
    """Add the formats of a command that prints tables, and a file for them."""
    file = click.option(
        "-o",
        "--output",
        expose_value=False,
        callback=_to_file,
        metavar="FILE",
        help="Write what is printed to a file.",
    )
    return _add([json_option, file], function)


plot_option = click.option(
    "--plot", metavar="FILE", help="Draw it as .svg, .png or .pdf (extra report)."
)


def output_option(what: str) -> Option:
    """Make ``-o`` of a command that writes a document, or a table in a format."""
    return click.option(
        "-o",
        "--output",
        callback=_document_or_table,
        metavar="FILE",
        help=f"Write {what} as JSON, or tables in their --format; - is stdout.",
    )


class Range(click.FloatRange):
    """A number between two others; ``nan`` is refused: no comparison excludes it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read the number; a usage error where it is none."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


def wish_option(wish: Wish) -> Option:
    """Make the option of one row of the table."""
    if wish.is_flag:
        return click.option(wish.flag, wish.name, is_flag=True, help=wish.help)
    return click.option(
        wish.flag,
        wish.name,
        multiple=wish.repeatable,
        default=wish.default,
        show_default=wish.default is not None,
        metavar=wish.metavar,
        help=wish.help,
    )


def layer_options(names: Iterable[str]) -> str:
    """Write the books of a catalog as they are given on a command line."""
    return " ".join(f"--catalog {shlex.quote(name)}" for name in names)


def _add(options: Iterable[Option], function: F) -> F:
    changed: Callable[..., Any] = function
    for option in reversed(list(options)):
        changed = option(changed)
    return cast(F, changed)

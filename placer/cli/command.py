"""Commands from functions: each word is an argument or an option, as its entry says.

    @as_command("forecast", EPILOG, of=forecast_capacity)
    def command(log: str, *, as_json: Table, **words: Any) -> None:

`placer.interface.verb` says how entries are written. What stands before ``*`` is an argument. The
words of the verb in ``of`` come next, then the function's own, and those of the class in its
``**words``. An annotation such as `Catalog` brings options that many commands have.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import click

from placer.cli.output import check_targets, tell
from placer.cli.screen.formats import (
    DOCUMENTS,
    FORMAT,
    FORMATS,
    STDOUT,
    WRITERS,
    collect,
    whole_tables,
)
from placer.cli.screen.option_groups import COMMON, GroupedCommand
from placer.errors import PlacerError, unknown
from placer.interface.verb import REQUIRED, Word, entries, hints_of, prose, verb_of
from placer.interface.words import Common, Running, Solving
from placer.problem.words.wishes import WISHES, Wish
from placer.records import replace

Option = Callable[[Callable[..., Any]], Callable[..., Any]]
CATALOG = entries(Common)["catalog"]
LAST = (*reversed(Running.__annotations__), "solver", *Solving.__annotations__)
"""Words of verbs that stand after a verb's own."""
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


def _choose_format(ctx: click.Context, param: click.Parameter, name: str | None) -> None:
    """Keep what is printed where it is to be written in another format than that of a terminal."""
    if name is None or ctx.resilient_parsing:
        return
    if name not in FORMATS:
        raise unknown("format", name, FORMATS)
    ctx.meta[FORMAT] = name
    if name in WRITERS:
        collect(name)


def _as_json(ctx: click.Context, param: click.Parameter, given: bool) -> bool:
    """Return whether the document is printed: with --json or a format of documents."""
    name = ctx.meta.get(FORMAT)
    if given and name not in (None, "json"):
        raise PlacerError(f"--json together with --format {name}", "use one of them")
    return given or name in DOCUMENTS


def _to_file(ctx: click.Context, param: click.Parameter, path: str | None) -> None:
    """Write what is printed to a file in place of stdout; ``-`` is stdout."""
    if path is not None and path != STDOUT and not ctx.resilient_parsing:
        check_targets(path)
        collect(ctx.meta.get(FORMAT, "table"), path)


def _document_or_table(ctx: click.Context, param: click.Parameter, path: str | None) -> str | None:
    """Write tables to the file where their format was asked for; else return it for the document.
    ``-`` is stdout, which then has the document alone.
    """
    if path is not None and whole_tables():
        _to_file(ctx, param, path)
        return None
    if path == STDOUT and not ctx.resilient_parsing:
        collect(STDOUT)
    return path


def _together(*options: Option) -> Option:
    """Make one decorator of the options of some."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return add


catalog_option = _together(
    click.option("--catalog", multiple=True, metavar=CATALOG.metavar, help=CATALOG.help),
    click.option(
        "--no-cache",
        is_flag=True,
        expose_value=False,
        callback=_leave_the_cache,
        help="Read and check the books anew; keep nothing of them.",
    ),
    click.option(
        *("-v", "--verbose", "--all"),
        is_flag=True,
        expose_value=False,
        callback=_say_what_the_cache_lacks,
        help="Print everything, and say on stderr where the cache of books cannot be written.",
    ),
)
json_option = _together(
    click.option("--json", "as_json", is_flag=True, callback=_as_json, help="Print JSON."),
    click.option(
        "--format",
        expose_value=False,
        is_eager=True,
        callback=_choose_format,
        metavar="NAME",
        help="table, json, yaml, or tables alone as jsonl, csv, md or html.",
    ),
)
table_option = _together(
    json_option,
    click.option(
        *("-o", "--output"),
        expose_value=False,
        callback=_to_file,
        metavar="FILE",
        help="Write what is printed to a file.",
    ),
)
plot_option = click.option(
    "--plot", metavar="FILE", help="Draw it as .svg, .png or .pdf (extra report)."
)
saved_option = click.option(
    *("-o", "--output"),
    callback=_document_or_table,
    metavar="FILE",
    help="Write the answer as JSON, or tables in their --format; - is stdout.",
)
Catalog: TypeAlias = Annotated[tuple[str, ...], catalog_option]
Json: TypeAlias = Annotated[bool, json_option]
Table: TypeAlias = Annotated[bool, table_option]
Plot: TypeAlias = Annotated[str | None, plot_option]
Saved: TypeAlias = Annotated[str | None, saved_option]


def as_command(
    name: str,
    epilog: str = "",
    *,
    of: Callable[..., Any] | tuple[Callable[..., Any], ...] = (),
    without: Collection[str] = (),
    saved: bool = False,
    cls: type[click.Command] | None = None,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a click command of a function.

    ``epilog``: examples, below the options of ``--help``. ``of``: verb, or verbs, whose words are
    options too, but those in ``without`` and those that the function has itself. ``saved``: whether
    a saved result may stand in place of the model.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        parameters = inspect.signature(function).parameters
        # A verb declares its model itself: a saved result may stand in its place.
        own = [(n, o) for n, o in _own(function) if n != "model" or not of]
        first = [o for n, o in own if n in parameters and _is_argument(parameters[n])]
        rest = [o for n, o in own if n not in parameters]
        rest += [o for n, o in own if n in parameters and not _is_argument(parameters[n])]
        given = {*parameters, *without}
        made: Any = function
        verbs = of if isinstance(of, tuple) else (of,)
        for option in reversed([*first, *_of_verbs(verbs, given, saved=saved), *rest]):
            made = option(made)
        usual = GroupedCommand if of or name in COMMON else click.Command
        made = click.pass_context(made) if "ctx" in parameters else made
        built: click.Command = click.command(
            name, cls=cls or usual, epilog=epilog or None, help=prose(function)
        )(made)
        return built

    return make


def _is_argument(parameter: inspect.Parameter) -> bool:
    return parameter.kind is not parameter.KEYWORD_ONLY


def _own(function: Callable[..., Any]) -> Iterator[tuple[str, Option]]:
    """Yield the arguments and options that a function has itself."""
    told = entries(function)
    parameters = inspect.signature(function).parameters
    for name, hint, default, note in hints_of(function):
        if name == "ctx":
            continue
        word = replace(told.get(name) or Word(name=name), hint=hint, default=default)
        if name in parameters and _is_argument(parameters[name]):
            yield name, _argument(word)
        elif isinstance(note, Wish):
            yield name, _wish_option(note)
        else:
            yield name, note if callable(note) else made_option(word)


def _of_verbs(
    functions: Collection[Callable[..., Any]], given: Collection[str], *, saved: bool
) -> Iterator[Option]:
    """Yield the options of verbs: what is asked, then their own words, then how to solve."""
    verbs = [verb_of(function) for function in functions]
    found = {n: row for verb in verbs for n, row in verb.rows.items() if not row.here}
    wishes = {name: None for verb in verbs for name in verb.wishes}
    model, catalog = found.pop("model", None), found.pop("catalog", None)
    if model is not None:
        yield made_option(model, required=not saved)
    if catalog is not None and "catalog" not in given:
        yield catalog_option
    rows = [row for name, row in found.items() if name not in given]
    yield from (_wish_option(WISHES[name]) for name in wishes if name not in given)
    yield from map(
        made_option, sorted(rows, key=lambda row: row.name in LAST and 1 + LAST.index(row.name))
    )


def _argument(word: Word) -> Option:
    """Make an argument: ``tuple[str, ...]`` takes any number."""
    given: dict[str, Any] = {"default": word.default} if isinstance(word.default, str) else {}
    return click.argument(
        word.name,
        nargs=-1 if get_origin(word.hint) is tuple else 1,
        required=word.default is REQUIRED,
        metavar=word.metavar,
        **given,
    )


def made_option(word: Word, *, required: bool | None = None) -> Option:
    """Make the option of a word from its type, its default and its entry."""
    flags = word.flags or (f"--{word.name.replace('_', '-')}",)
    default = None if word.default is REQUIRED else word.default
    parts = set(get_args(word.hint)) if isinstance(word.hint, UnionType) else {word.hint}
    parts -= {NoneType}
    # click takes a None that is given for a value, and then misses no required option.
    given: dict[str, Any] = {} if default in (None, ()) else {"default": default}
    if parts == {bool}:
        given = {"default": None} if NoneType in get_args(word.hint) else given
        return click.option(*flags, word.name, is_flag=True, help=word.help, **given)
    bounded = word.least is not None or word.most is not None
    kind: Any = click.Choice(word.choices) if word.choices else None
    if parts == {int}:
        kind = click.IntRange(word.least, word.most) if bounded else int  # type: ignore[arg-type]
    elif parts == {float}:
        kind = Range(word.least, word.most) if bounded else float
    return click.option(
        *flags,
        word.name,
        type=kind,
        multiple=bool({get_origin(part) for part in parts} & {tuple, Sequence}),
        show_default=default not in (None, (), ""),
        required=word.default is REQUIRED if required is None else required,
        metavar=word.metavar,
        help=word.help,
        **given,
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


OWN_FILES = (
    "nodes.txt@Berlin reads what sinfo or 'kubectl get nodes -o json' prints, :nvlink=FILE what "
    "nvidia-smi topo -m or nccl-tests does."
)


def _own_from_files(
    ctx: click.Context, param: click.Parameter, given: tuple[str, ...] | str | None
) -> Any:
    """Put what files of cluster managers say into words of own machines, and say so."""
    if not given or not isinstance(given, tuple):
        return given
    from placer.market.sources.machine_files import with_files

    words: list[str] = []
    for word in given:
        made, said = with_files(word)
        words += made
        if said:
            tell(said)
    return tuple(words)


def _wish_option(wish: Wish) -> Option:
    if wish.is_flag:
        return click.option(wish.flag, wish.name, is_flag=True, help=wish.help)
    return click.option(
        wish.flag,
        wish.name,
        multiple=wish.repeatable,
        default=wish.default,
        show_default=wish.default is not None,
        metavar=wish.metavar,
        help=f"{wish.help} {OWN_FILES}" if wish.name == "own" else wish.help,
        callback=_own_from_files if wish.name == "own" else None,
    )

"""Commands from functions: each word is an argument or an option, as its entry says.

    @as_command("forecast", EPILOG, of=forecast_capacity)
    def command(log: str, *, as_json: Table, **words: Any) -> None:

`placer.interface.verb` says how entries are written. What stands before ``*`` is an argument. The
words of the verb in ``of`` come next, then the function's own, and those of the class in its
``**words``. An annotation such as `Catalog` brings options that many commands have.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, get_args, get_origin

import click

from placer.cli.options import (
    Option,
    Range,
    catalog_option,
    json_option,
    output_option,
    plot_option,
    table_option,
    wish_option,
)
from placer.cli.screen.option_groups import COMMON, GroupedCommand
from placer.interface.verb import REQUIRED, Word, entries, hints_of, prose, verb_of
from placer.interface.words import Running, Solving
from placer.problem.words.wishes import WISHES, Wish
from placer.records import replace

Catalog: TypeAlias = Annotated[tuple[str, ...], catalog_option]
Json: TypeAlias = Annotated[bool, json_option]
Table: TypeAlias = Annotated[bool, table_option]
Plot: TypeAlias = Annotated[str | None, plot_option]
Saved: TypeAlias = Annotated[str | None, output_option("the answer")]
LAST = (*reversed(Running.__annotations__), "solver", *Solving.__annotations__)
"""Words of verbs that stand after a verb's own."""


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
            yield name, wish_option(note)
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
    yield from (wish_option(WISHES[name]) for name in wishes if name not in given)
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

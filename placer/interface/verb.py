"""Verbs: typed functions, whose signatures and documentation are the one place of their words.

A word is a parameter of the function, or a row of the class in its ``**words``. It has an entry in
either documentation, below the prose::

    points (N, 1..100): Most points, the cheapest and the fastest among them.

        What follows a blank line is for Python alone.

In the brackets stand what the command line calls the value, its flags (``-o --output``), the least
and the most of a number, its only values (``{a, b}``), and ``Python`` where only Python takes it.
`verb` gives a function its full signature and documentation;
`placer.cli.command` makes options of them, and `placer.service.openapi` the schema of a body.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from itertools import groupby
from typing import (
    Annotated,
    Any,
    ForwardRef,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    is_typeddict,
)

from msgspec import Struct

from placer.interface.words import Common
from placer.problem.words.meanings import unknown_word
from placer.problem.words.wishes import WISHES, Wish
from placer.records import replace

P = ParamSpec("P")
R = TypeVar("R")
WIDTH = 88
NAMES = {wish.flag: wish.name for wish in WISHES.values()}
"""Names in Python by the option of the command line."""
ENTRY = re.compile(r"(\w+)(?: \((?P<said>[^)\n]*)\))?:(?: (?P<text>.*)|(?<=\):)$)", re.M | re.S)
BOUNDS = re.compile(r"(?P<least>[\d.]*?)\.\.(?P<most>[\d.]*)")
CHOICES = re.compile(r"\{(.*)\}")
REQUIRED = inspect.Parameter.empty


class Word(Struct, frozen=True, kw_only=True):
    """One word of a verb: its type and default, and what people and programs are told of it.

    ``default`` is `REQUIRED` where the word must be given; ``here`` says that only Python takes it.
    """

    name: str
    hint: Any = None
    default: Any = REQUIRED
    help: str = ""
    more: str = ""
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    here: bool = False


class Verb(Struct, frozen=True, kw_only=True):
    """One kind of question.

    ``rows`` are its words beside the ``wishes``, ``takes`` the names of all, ``shared`` the
    defaults of those that stand in a class. ``document`` is the kind of document that answers,
    ``searches`` counts the searches of an answer, each with its time limit.
    """

    name: str
    summary: str
    document: str
    searches: int
    rows: Mapping[str, Word]
    wishes: tuple[str, ...]
    takes: frozenset[str]
    shared: Mapping[str, Any]
    function: Callable[..., Any]

    @property
    def needed(self) -> tuple[str, ...]:
        """Return the words that must be given."""
        return tuple(name for name, row in self.rows.items() if row.default is REQUIRED)


def verb(
    document: str, *, searches: int = 1, **defaults: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a verb of a function.

    ``document``: kind of document that answers; empty: none that is printed. ``searches``: searches
    of an answer. ``**defaults``: of words that it shares with others, in place of theirs. Return
    Callable: fills in the defaults of the words of the class in a function's ``**words``, and
    refuses others. `described` adds them to its signature and its documentation.
    """

    def make(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def ask(*args: P.args, **words: P.kwargs) -> R:
            known = verb_of(ask)
            for name in words.keys() - known.takes:
                raise unknown_word("word", name, sorted(known.takes))
            return function(*args, **{**known.shared, **words})

        ask.declared = document, searches, defaults  # type: ignore[attr-defined]
        return ask

    return make


@cache
def verb_of(function: Callable[..., Any]) -> Verb:
    """Return what is declared of a verb; it is read when it is first asked for, which saves every
    start of a command the verbs that it does not need.
    """
    document, searches, defaults = function.declared  # type: ignore[attr-defined]
    bare = inspect.unwrap(function)
    rows = {
        row.name: replace(row, default=defaults.get(row.name, row.default))
        for row in words_of(bare)
    }
    wishes = tuple(wishes_of(bare))
    own = inspect.signature(bare).parameters
    return Verb(
        name=bare.__name__,
        summary=" ".join((bare.__doc__ or "").partition("\n\n")[0].split()),
        document=document,
        searches=searches,
        rows=rows,
        wishes=wishes,
        takes=frozenset({*own, *rows, *wishes}),
        shared={name: row.default for name, row in rows.items() if name not in own},
        function=function,
    )


def described(function: Callable[P, R]) -> Callable[P, R]:
    """Give a verb its full signature and documentation, once, and return it; other things stay as
    they are.
    """
    if hasattr(function, "declared") and not hasattr(function, "__signature__"):
        verb, bare = verb_of(function), inspect.unwrap(function)
        made: Any = function
        made.__signature__ = _signature(bare, verb.rows, verb.wishes)
        made.__doc__ = _documented(bare, verb)
    return function


def words_of(function: Callable[..., Any]) -> Iterator[Word]:
    """Yield the words of a function that have an entry: its own, then those of its class."""
    told = {**entries(Common), **entries(function)}
    for name, hint, default, note in hints_of(function):
        if name in told and not isinstance(note, Wish):
            yield replace(told[name], hint=hint, default=default)


def wishes_of(function: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the wishes that a function takes."""
    return (name for name, _, _, note in hints_of(function) if isinstance(note, Wish))


def entries(documented: Any) -> dict[str, Word]:
    """Read the entries of a function or class and of its classes of words, without types.

    >>> def show(limit: int = 30):
    ...     '''Show.
    ...
    ...     limit (N, -n --limit, 1..): Most rows.
    ...     '''
    >>> word = entries(show)["limit"]
    >>> word.metavar, word.flags, word.least, word.help
    ('N', ('-n', '--limit'), 1, 'Most rows.')
    """
    shared = None if isinstance(documented, type) else shared_class(documented)
    found = {} if shared is None else _told_of_rows(shared)
    for entry in _parts(documented)[1]:
        match = ENTRY.fullmatch(entry)
        if match is not None:
            help_, _, more = (match["text"] or "").partition("\n\n")
            word = Word(name=match[1], help=" ".join(help_.split()), more=" ".join(more.split()))
            found[match[1]] = _said(word, match["said"] or "")
    return found


@cache
def _told_of_rows(shared: Any) -> dict[str, Word]:
    """Return the entries of a class's rows: each stands in the class of the module that brings it,
    because such classes do not know from which ones they are made.
    """
    known = [c for c in vars(sys.modules[shared.__module__]).values() if is_typeddict(c)]
    rows = shared.__annotations__
    return {
        name: word
        for each in known
        for name, word in entries(each).items()
        if name in rows and each.__annotations__.get(name) == rows[name]
    }


def prose(function: Callable[..., Any]) -> str:
    """Return the documentation of a function without its entries."""
    before, _, after = _parts(function)
    return f"{before}\n\n{after}".strip()


def _parts(documented: Any) -> tuple[str, list[str], str]:
    """Return the prose of a documentation, its entries, and what follows them."""
    first, *others = inspect.cleandoc(documented.__doc__ or "").split("\n\n")
    before, entries, after = [first], list[str](), list[str]()
    for text in others:
        if not after and (ENTRY.match(text) or (entries and text.startswith(" "))):
            entries.append(text)
        else:
            (after if entries else before).append(text)
    each = re.split(r"\n+(?=\S)", "\n\n".join(entries))
    return "\n\n".join(before), each, "\n\n".join(after)


def _said(word: Word, said: str) -> Word:
    """Read what stands behind the name of a word."""
    choices = CHOICES.search(said)
    if choices is not None:
        word = replace(word, choices=tuple(choices[1].split(", ")))
        said = CHOICES.sub("", said).strip(", ")
    for part in filter(None, said.split(", ")):
        bounds = BOUNDS.fullmatch(part)
        if part == "Python":
            word = replace(word, here=True)
        elif part.startswith("-"):
            word = replace(word, flags=tuple(part.split()))
        elif bounds is not None and (bounds["least"] or bounds["most"]):
            word = replace(word, least=_number(bounds["least"]), most=_number(bounds["most"]))
        else:
            word = replace(word, metavar=part)
    return word


def _number(text: str) -> float | None:
    return None if not text else float(text) if "." in text else int(text)


def shared_class(function: Callable[..., Any]) -> Any:
    """Return the class of a function's ``**words``; None if it has none."""
    for parameter in inspect.signature(inspect.unwrap(function)).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD and "Unpack" in str(parameter.annotation):
            (found,) = get_args(eval(parameter.annotation, _namespace(function)))  # noqa: S307
            return found
    return None


def hints_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the name, type, default and note of each parameter, then of each row of its class; the
    note of such a row that is no wish is its default.
    """
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            hint, note = _parted(parameter.annotation, _namespace(function))
            yield name, hint, parameter.default, note
    shared = shared_class(function)
    if shared is not None:
        for name, annotation in shared.__annotations__.items():
            hint, note = _parted(annotation, vars(sys.modules[shared.__module__]))
            many = "Sequence" in str(hint) and "None" not in str(hint)
            empty = False if hint is bool else () if many else None
            yield name, hint, empty if note is None else REQUIRED if note is ... else note, note


def _namespace(function: Callable[..., Any]) -> dict[str, Any]:
    return vars(sys.modules[function.__module__])


def _parted(hint: Any, namespace: dict[str, Any]) -> tuple[Any, Any]:
    """Return the type of an annotation, and the note beside it; None without.

    Types of what a search loads are not there when a verb is declared; their names stay text.
    """
    hint = hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint
    if isinstance(hint, str):
        try:
            hint = eval(hint, namespace)  # noqa: S307 - the text is an annotation of this package
        except NameError:
            return hint, None
    note = None
    if get_origin(hint) is Annotated:
        hint, note = get_args(hint)[:2]
    return (hint.__forward_arg__ if isinstance(hint, ForwardRef) else hint), note


def _signature(
    function: Callable[..., Any], rows: Mapping[str, Word], wishes: tuple[str, ...]
) -> inspect.Signature:
    """Write the signature with every word, and with the types that annotations stand for."""
    signature = inspect.signature(function)
    own = {n: p for n, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
    made = {name: _parameter(name, row.default, row.hint) for name, row in rows.items()}
    made |= {name: _of_wish(name) for name in wishes}
    known = [
        p.replace(annotation=rows[name].hint) if name in rows else made.get(name, p)
        for name, p in own.items()
    ]
    return signature.replace(parameters=[*known, *(p for n, p in made.items() if n not in own)])


def _parameter(name: str, default: Any, hint: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


@cache
def _of_wish(name: str) -> inspect.Parameter:
    wish = WISHES[name]
    return _parameter(name, False if wish.is_flag else wish.default, _parted(wish.hint, {})[0])


def _documented(function: Callable[..., Any], verb: Verb) -> str:
    """Write the documentation with every word, in sections as `help` and the site show them."""
    before, _, examples = _parts(function)
    lines = ["Parameters", "----------"]
    for row in verb.rows.values():
        lines.append(f"{row.name} : {row.metavar}" if row.metavar else row.name)
        lines += _filled(_quoted(f"{row.help} {row.more}".strip()), "    ", "    ")
    if verb.wishes:
        lines += ["**words", "    The wishes, as text or as plain values where the unit is plain:"]
        lines += ["", textwrap.indent(_list(verb.wishes), "    ")]
    if examples:
        lines += ["", "Examples", "--------", examples]
    return textwrap.indent("\n".join([before, "", *lines]), "    ").strip()


def _filled(text: str, first: str, further: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=further, break_on_hyphens=False
    )


@cache
def _list(names: tuple[str, ...]) -> str:
    """List wishes by group, wrapped for the documentation that holds the list."""
    lines = []
    for group, members in groupby(names, key=lambda name: WISHES[name].group):
        lines += [f"{group}:", "", *(line for name in members for line in _line(name)), ""]
    return "\n".join(lines).strip()


@cache
def _line(name: str) -> list[str]:
    wish = WISHES[name]
    text = re.sub("--[a-z-]+", lambda flag: NAMES[flag[0]], f"{wish.help} {wish.more}".strip())
    return _filled(f"{name}: {_quoted(text)}", "* ", "  ")


def _quoted(text: str) -> str:
    """Quote words with a star: in a documentation a single star begins emphasis."""
    return re.sub(r"[^\s,;:]*\*[^\s,;:]*", r"``\g<0>``", text)

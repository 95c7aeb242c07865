"""The exceptions of placer: each says in one line what is wrong, with a hint that starts with what
to do.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self

from placer.version import install_line

EDITED = "the file was edited, or made by another version"
"""Hint about a file whose parts contradict each other."""


class PlacerError(Exception):
    """What placer cannot do: a line that names the thing and its value, and a hint what to do about
    it, empty if there is nothing to add.

    ``PlacerError(...)`` makes an error of the class that its exit code stands for (`KINDS`): wrong
    input and missing data are caught apart. ``field`` and ``value`` are the word of the request
    that is wrong and what it says, where one word is to blame. Errors can be pickled.
    """

    code = 2
    kind = "error"
    field = ""
    value = ""

    def __new__(cls, message: str = "", hint: str = "", exit_code: int | None = None) -> Self:
        """Choose the class by the exit code."""
        made = KINDS.get(2 if exit_code is None else exit_code, cls) if cls is PlacerError else cls
        return super().__new__(made)  # type: ignore[return-value]

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = self.code if exit_code is None else exit_code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.error/v1`` document: plain types, ready for JSON."""
        blamed = {"field": self.field, "value": self.value} if self.field else {}
        said = {"message": self.message, "hint": self.hint, "exit_code": self.exit_code}
        return {"schema": "placer.error/v1", "error": {"type": self.kind, **said, **blamed}}


class BadInputError(PlacerError):
    """Wrong input: a word, a file, a combination of wishes."""

    code = 2
    kind = "bad-input"


class InfeasibleError(PlacerError):
    """Something that needs a placement, where none keeps the limits."""

    code = 3
    kind = "infeasible"


class LimitError(PlacerError):
    """A limit of time or memory, or a stop, came before there was an answer."""

    code = 4
    kind = "limit"


class DataError(PlacerError):
    """Figures that are missing, too old, or not those that were pinned."""

    code = 5
    kind = "data"


class SourceError(PlacerError):
    """A source of prices, links or capacity that did not deliver."""

    code = 7
    kind = "source"


class FailureError(PlacerError):
    """Something failed on the way: a disk, a process, a run."""

    code = 1
    kind = "failure"


KINDS: Mapping[int, type[PlacerError]] = MappingProxyType(
    {kind.code: kind for kind in PlacerError.__subclasses__()} | {130: LimitError}
)
"""Class of an error by its exit code; 130: Ctrl-C."""


def _restored(kind: type[PlacerError], args: tuple[Any, ...], state: dict[str, Any]) -> PlacerError:
    """Build an error again from its pickle."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


@contextmanager
def blaming(field: str, value: object) -> Iterator[None]:
    """Name the word of a request in errors about it."""
    try:
        yield
    except PlacerError as error:
        error.field, error.value = field, str(value)
        raise


def refuse(wrong: Iterable[str], where: str, hint: str = EDITED) -> None:
    """Raise the first of the things that are wrong with a file, but for empty ones."""
    for text in filter(None, wrong):
        raise PlacerError(f"{where}: {text}", hint)


def writing_hint(error: OSError, otherwise: str) -> str:
    """Return what to do about a file that cannot be written: a full disk needs something else than
    a wrong folder.

    >>> writing_hint(OSError(errno.ENOSPC, "No space left on device"), "choose another folder")
    'free some space, or choose another disk'
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error)
    return "free some space, or choose another disk" if full else otherwise


def printable(text: str) -> str:
    """Write blanks for what would end a line or steer a terminal: the text may be anybody's."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def one_line(text: str, most: int = 400) -> str:
    """Put text that quotes a user's value on one line of bounded length.

    >>> len(one_line("a budget of ten", most=12))
    12
    """
    flat = printable(text)
    return flat if len(flat) <= most else f"{flat[: most - 4]} ..."


def not_installed(need: str, extra: str) -> PlacerError:
    """Build the error for a package of an extra, from what needs it."""
    return PlacerError(f"{need}, which is not installed", f"install it: {install_line(extra)}")


def installed(module: str, need: str, extra: str) -> Any:
    """Import a module of an extra; raises `not_installed` where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise not_installed(need, extra) from None


def unknown(kind: str, value: str, known: Iterable[str], hint: str = "") -> PlacerError:
    """Build the error for a name of some kind that does not exist, with the nearest one that does,
    or else a hint.

    >>> unknown("model", "roberta-xml", ["roberta-xlm", "resnet18"]).hint
    "a similar model exists: 'roberta-xlm'"
    >>> [unknown("model", "x", ["b", "a"], hint).hint for hint in ("", "see the list")]
    ['known: a, b', 'see the list']
    >>> unknown("letter", "1", "abcdefghijklm").hint  # the first 12 of 13
    'known: a, b, c, d, e, f, g, h, i, j, k, l ...'
    """
    names = list(known)
    lowered = {name.lower(): name for name in names}
    import difflib  # only for words that are not known

    close = difflib.get_close_matches(value.lower(), lowered, n=1, cutoff=0.6)
    if close:
        hint = f"a similar {kind} exists: '{lowered[close[0]]}'"
    elif not hint and names:
        shown = ", ".join(sorted(names)[:12])
        hint = f"known: {shown}{' ...' if len(names) > 12 else ''}"
    error = PlacerError(f"unknown {kind} '{value}'", hint)
    error.field, error.value = kind, value
    return error

"""The one exception of placer: wrong input, said in one line, with a hint that starts with what to
do.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable


class PlacerError(Exception):
    """Wrong or missing input.

    Parameters
    ----------
    message
        One line that names the thing and its value.
    hint
        What to do about it; empty if there is nothing to add.
    exit_code
        2 for wrong input, 5 for data that is missing or too old.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def writing_hint(error: OSError, otherwise: str) -> str:
    """Return what to do about a file that cannot be written: a full disk needs something else than
    a wrong folder.

    Examples
    --------
    >>> writing_hint(OSError(errno.ENOSPC, "No space left on device"), "choose another folder")
    'free some space, or choose another disk'
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(error)
    return "free some space, or choose another disk" if full else otherwise


def unknown(kind: str, value: str, known: Iterable[str], hint: str = "") -> PlacerError:
    """Build the error for a name that does not exist, with the nearest one that does.

    Parameters
    ----------
    kind
        What was looked up, such as ``model``.
    value
        What the user wrote.
    known
        The names that exist.
    hint
        Said when nothing similar exists.

    Examples
    --------
    >>> unknown("model", "roberta-xml", ["roberta-xlm", "resnet18"]).hint
    "a similar model exists: 'roberta-xlm'"
    """
    names = list(known)
    lowered = {name.lower(): name for name in names}
    close = difflib.get_close_matches(value.lower(), lowered, n=1, cutoff=0.6)
    if close:
        hint = f"a similar {kind} exists: '{lowered[close[0]]}'"
    elif not hint and names:
        shown = ", ".join(sorted(names)[:12])
        hint = f"known: {shown}{' ...' if len(names) > 12 else ''}"
    return PlacerError(f"unknown {kind} '{value}'", hint)

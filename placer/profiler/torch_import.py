"""PyTorch, imported when it is needed, and what can go wrong in the code that it runs: too little
memory, which is an answer, and everything else, which is its author's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError, installed, printable

WORDS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "alloc_failed",
    "bad alloc",
    "resource temporarily unavailable",
)
"""How PyTorch and its libraries say that memory ran out, where they raise a plain RuntimeError; the
last one of a thread.
"""


def load_torch() -> ModuleType:
    """Import PyTorch. Raises `PlacerError` if it is not installed."""
    loaded: ModuleType = installed("torch", "placer profile needs PyTorch", "profile")
    return loaded


if TYPE_CHECKING:
    import torch as torch  # noqa: PLC0414 - for other modules
    from torch import nn as nn  # noqa: PLC0414
else:

    class _Late:
        """A module of PyTorch, imported when something in it is asked for."""

        def __init__(self, name: str) -> None:
            self.name = name

        def __getattr__(self, asked: str) -> Any:
            load_torch()
            return getattr(sys.modules[self.name], asked)

    torch, nn = _Late("torch"), _Late("torch.nn")


class OutOfMemory(Exception):  # noqa: N818 - it is no error: it ends the search for the largest batch
    """A batch size does not fit."""


@contextmanager
def in_one_line(words: str, hint: str) -> Iterator[None]:
    """Turn what code of others raises into one `PlacerError`, after some words; sys.exit, too, ends
    that code and not placer.
    """
    try:
        yield
    except (PlacerError, OutOfMemory, KeyboardInterrupt):
        raise
    except BaseException as error:
        said = f"{type(error).__name__}: {one_line(error)[:200]}"
        raise PlacerError(f"{words}: {said}", hint) from error


@contextmanager
def translate_failures(doing: str) -> Iterator[None]:
    """Turn what the measured code raises into `OutOfMemory`, or into one line that says what it was
    doing, such as ``at batch size 8``.
    """
    with in_one_line(f"the measured code fails {doing}", "run one step of it by hand to see where"):
        try:
            yield
        except BaseException as error:
            if isinstance(error, PlacerError | KeyboardInterrupt) or not is_out_of_memory(error):
                raise
            reason = one_line(error) if str(error).strip() else "out of memory"
            raise OutOfMemory(reason) from None  # without its frames, which hold the memory


def is_out_of_memory(error: BaseException) -> bool:
    """Tell a lack of memory, of the system or of a process with a limit, from other failures.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("wrong shape"))
    (True, False)
    """
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in WORDS)


def one_line(error: BaseException) -> str:
    """Return the first line of an error's text, without characters that would steer a terminal."""
    first = (str(error).strip().splitlines() or ["no message"])[0]
    return printable(first)

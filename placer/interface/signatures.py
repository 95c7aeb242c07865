"""Signatures and documentation of functions that take the wishes as ``**words``."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

from placer.problem.words.values import HINTS
from placer.problem.words.wishes import TRAINING, WISHES, Wish

F = TypeVar("F", bound=Callable[..., Any])
WIDTH = 88
NAMES = {wish.flag: wish.name for wish in WISHES.values()}
"""Names in Python by the option of the command line."""


def with_wishes(function: F) -> F:
    """Show the wishes in the signature of a function that takes them as ``**words``, and list them
    where its documentation says ``{wishes}``.
    """
    signature = inspect.signature(function)
    own = dict(signature.parameters)
    words = own.popitem()[1]
    shown = TRAINING if "TrainingWishes" in words.annotation else WISHES
    names = tuple(name for name in shown if name not in own)
    parameters = [*own.values(), *(_parameter(name) for name in names)]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    if function.__doc__:
        function.__doc__ = function.__doc__.replace("{wishes}", _list(names))
    return function


@cache
def _parameter(name: str) -> inspect.Parameter:
    wish = WISHES[name]
    default = False if wish.is_flag else wish.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=HINTS[name]
    )


@cache
def _list(names: tuple[str, ...]) -> str:
    """List wishes by group, indented and wrapped for the docstrings that hold the list."""
    lines = []
    for group, members in groupby(names, key=lambda name: WISHES[name].group):
        lines += [f"{group}:", "", *(_line(name) for name in members), ""]
    return textwrap.indent("\n".join(lines), " " * 8).strip()


@cache
def _line(name: str) -> str:
    return textwrap.fill(
        f"{name}: {_sentence(WISHES[name])}",
        WIDTH,
        initial_indent="* ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _sentence(wish: Wish) -> str:
    """Write the help of a wish with the names that Python has for the options. Words with a star
    are quoted: in a docstring a single star begins emphasis.
    """
    text = re.sub("--[a-z-]+", lambda flag: NAMES[flag[0]], f"{wish.help} {wish.more}".strip())
    return re.sub(r"[^\s,;:]*\*[^\s,;:]*", r"``\g<0>``", text)

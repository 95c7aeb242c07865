"""YAML from plain Python objects, parsed back at once to prove that it says what was meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from placer.errors import PlacerError

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*([./-][A-Za-z0-9_]+)*")
"""Strings that every version of YAML reads as strings, apart from the words below."""
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes what YAML 1.2 or 1.1 could take for a number, a date or a truth value,
    such as a digest 1234e567.
    """

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal parts in full: not every reader knows aliases."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists below their key."""
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    tag = "tag:yaml.org,2002:str"
    if value.count("\n") > 2 and value.replace("\n", "").isprintable():
        return dumper.represent_scalar(tag, value, style="|")
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return dumper.represent_scalar(tag, value, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def yaml_text(documents: Sequence[Any], comment: str = "") -> str:
    """Dump documents of dicts, lists, strings, numbers, truth values and None.

    Parameters
    ----------
    documents
        One or several; of several, each begins with ``---``.
    comment
        Lines of comment before the first.

    Raises
    ------
    PlacerError
        If the text does not parse back to what was meant: a defect, said instead of being written.

    Examples
    --------
    >>> print(yaml_text([{"a": "12e3", "b": "no", "c": "plain"}]), end="")
    a: "12e3"
    b: "no"
    c: plain
    """
    text = comment + yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        width=1_000_000,
        explicit_start=len(documents) > 1,
    )
    if list(yaml.safe_load_all(text)) != list(documents):
        raise PlacerError(
            "the YAML does not read back as what was meant",
            "report it with the manifest",
            exit_code=1,
        )
    return text

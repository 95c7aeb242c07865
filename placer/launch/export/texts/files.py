"""Text files: templates, their heading, scripts of bash and YAML, each parsed back to prove what it
says.

Values of a plan stand only in quoted assignments; the rest of a script is fixed text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files as packaged
from typing import Any

import yaml

from placer.documents.schemas.parts import Range
from placer.errors import PlacerError, one_line
from placer.launch.export.export_plan import ExportPlan
from placer.units import format_plain

MARK = "written by placer; do not edit"
"""What every written file of text says: an export replaces what it finds with these words."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's where PyYAML has it: it reads ten times as fast as the one in Python."""
LONGEST = 160
"""Names longer than this are cut where people read them; files keep them whole."""


_TAG = re.compile(r"\{% (if|if not|else|endif|include) ?([\w.-]*) %\}")
_PLACE = re.compile(r"\{\{ (\w+) \}\}")


def filled(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a file of ``templates/`` with values in their places, in which no tag has
    an effect.

    ``{{ NAME }}`` is a value, or lines where it stands alone. Lines from ``{% if NAME %}`` or ``{%
    if not NAME %}`` to ``{% else %}`` or ``{% endif %}`` are left out where it is false. ``{%
    include FILE %}`` stands for another template.
    """
    return [one for line in _kept(name, values) for one in _placed(line, values)]


def filled_tree(name: str, values: Mapping[str, Any]) -> Any:
    """Return the document of a template of YAML. It is parsed before it is filled, so that a value
    is one whatever it says; where it stands alone it may be of any type.
    """
    return _with(yaml.load("\n".join(_kept(name, values)), LOADER), values)  # noqa: S506 - safe


def _with(node: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(node, dict):
        return {key: _with(value, values) for key, value in node.items()}
    if isinstance(node, list):
        return [_with(value, values) for value in node]
    alone = _PLACE.fullmatch(node) if isinstance(node, str) else None
    if alone:
        return values[alone[1]]
    return _placed(node, values)[0] if isinstance(node, str) else node


def _kept(name: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a template, and of those that it includes, whose conditions hold."""
    lines: list[str] = []
    shown = [True]
    for line in _template(name):
        tag = _TAG.fullmatch(line)
        word, what = tag.groups() if tag else ("", "")
        if word in ("if", "if not"):
            shown.append(all(shown) and bool(values[what]) == (word == "if"))
        elif word == "else":
            shown[-1] = not shown[-1]
        elif word == "endif":
            shown.pop()
        elif all(shown):
            lines += _kept(what, values) if word else [line]
    return lines


@cache
def _template(name: str) -> tuple[str, ...]:
    """Read the lines of a template without its comments, ``{# ... #}``."""
    text = packaged("placer.launch.export").joinpath("templates", name).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if not line.startswith("{#"))


def _placed(line: str, values: Mapping[str, Any]) -> list[str]:
    alone = _PLACE.fullmatch(line)
    if alone and isinstance(values[alone[1]], list):
        return list(values[alone[1]])
    return [_PLACE.sub(lambda place: str(values[place[1]]), line)]


def heading(plan: ExportPlan, target: str) -> list[str]:
    """Write the lines of the heading, each printable and without a line break."""
    manifest, expected = plan.manifest, plan.manifest.expected
    speed, usd = expected.samples_per_second, expected.usd_per_hour_interval
    each = "a step" if manifest.workers == 1 else "from exchange to exchange"
    lines = [
        f"{manifest.name} for {target}, {MARK}: change the manifest and export again.",
        f"manifest {shown(manifest.digest)}",
        f"catalog {shown(manifest.inputs.catalog)}, prices as of "
        f"{shown(manifest.inputs.as_of or 'unknown')}",
        f"expected {_range(speed)} samples/s, "
        f"{format_plain(expected.step_seconds['total'])} s {each}",
        f"expected cost {_range(usd)} USD/h",
    ]
    if plan.edited:
        lines.append("edited by hand: the expected figures are those of the plan before the edit")
    return lines


def comments(lines: Iterable[str]) -> str:
    """Write lines as comments of a shell or YAML file."""
    return "".join(f"# {line}\n" for line in lines)


def shown(text: str) -> str:
    """Return a user's text on one line of bounded length."""
    return one_line(text, LONGEST)


def _range(figure: Range) -> str:
    """Format a figure with its interval, if that has a width."""
    value, low, high = (
        f"{part:,.0f}" if abs(part) >= 1000 else format_plain(part, 4)
        for part in (figure.value, figure.low, figure.high)
    )
    return value if low == value == high else f"{value} ({low} to {high})"


BASH = "#!/usr/bin/env bash\n"


def script(
    heading: Iterable[str],
    environment: Mapping[str, str],
    tail: Iterable[str] = (),
    *,
    directives: Iterable[str] = (),
) -> str:
    """Write a script of bash from lines of comment, variables to export, and fixed lines after
    them; ``directives`` are options of sbatch.

    Assignments that do not read back as what was meant are a defect, said instead of being written.
    """
    start = BASH + "".join(f"#SBATCH {line}\n" for line in directives) + comments(heading)
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    text = start + "\n".join(["set -euo pipefail", *exports, *tail]) + "\n"
    if assignments(text) != dict(environment):
        raise PlacerError(
            "the shell script does not read back as what was meant",
            "report it with the manifest",
            exit_code=1,
        )
    return text


def assignments(text: str) -> dict[str, str]:
    """Read the variables that ``export NAME=value`` lines of a script set, as a shell does."""
    words = shlex.split(text, comments=True)
    pairs = (
        words[i + 1].partition("=")
        for i, word in enumerate(words[:-1])
        if word == "export" and "=" in words[i + 1]
    )
    return {name: value for name, _, value in pairs if "$" not in name}


_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*([./-][A-Za-z0-9_]+)*")
"""Strings that every version of YAML reads as strings, apart from the words below."""
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.2 or 1.1 could take for a number, date or truth value: 1234e567."""

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
    """Dump documents of dicts, lists, strings, numbers, truth values and None, with a comment
    before the first. What does not parse back to what was meant is a defect, said instead of being
    written.

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
    if list(yaml.load_all(text, Loader=LOADER)) != list(documents):
        raise PlacerError(
            "the YAML does not read back as what was meant",
            "report it with the manifest",
            exit_code=1,
        )
    return text

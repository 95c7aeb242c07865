"""Expressions of mapping files: JMESPath (jmespath.org), with functions for texts and figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from statistics import median
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions, signature

from placer.errors import PlacerError
from placer.files.json_text import parse_json
from placer.market.words.money import exchange_rates, hours_in

_TEXT = {"types": ["string", "null"]}
_PATTERN = {"types": ["string"]}
_FIGURE = {"types": ["number", "null"]}


class _Functions(Functions):  # type: ignore[misc]
    """Functions that expressions have beside those of JMESPath; null gives null."""

    @signature(_TEXT, _PATTERN, _PATTERN)  # type: ignore[untyped-decorator]
    def _func_find(self, text: str | None, pattern: str, template: str) -> str | None:
        match = re.search(pattern, text or "")
        return match and match.expand(template)

    @signature(_TEXT, _PATTERN, _PATTERN)  # type: ignore[untyped-decorator]
    def _func_replace(self, text: str | None, pattern: str, template: str) -> str | None:
        return text and re.sub(pattern, template, text)

    @signature(_TEXT)  # type: ignore[untyped-decorator]
    def _func_lower(self, text: str | None) -> str | None:
        return text and text.lower()

    @signature({"types": ["object"]}, _PATTERN)  # type: ignore[untyped-decorator]
    def _func_cells(self, record: Mapping[str, Any], pattern: str) -> str:
        """Join the texts of a record under names that a pattern finds."""
        found = (
            v for name, v in record.items() if v and isinstance(v, str) and _fits(pattern, name)
        )
        return " ".join(found)

    @signature({"types": ["string", "object"]})  # type: ignore[untyped-decorator]
    def _func_parsed(self, value: Any) -> Any:
        """Read JSON inside of a text, as command lines of clouds print it."""
        return parse_json(value) if isinstance(value, str) else value

    @signature({"types": ["object", "null"]}, {"types": ["object", "null"]})  # type: ignore[untyped-decorator]
    def _func_beside(self, first: Any, second: Any) -> list[dict[str, Any]]:
        """Return what two objects have under each key of both."""
        keys = (key for key in first or () if key in (second or ()))
        return [{"one": first[key], "other": second[key]} for key in keys]

    @signature({"types": ["array-number", "null"]})  # type: ignore[untyped-decorator]
    def _func_median(self, values: list[float] | None) -> float | None:
        return median(values) if values else None

    @signature(_FIGURE, {"types": ["number"]})  # type: ignore[untyped-decorator]
    def _func_times(self, value: float | None, factor: float) -> float | None:
        return None if value is None else round(value * factor, 9)

    @signature(_TEXT)  # type: ignore[untyped-decorator]
    def _func_rate(self, currency: str | None) -> float | None:
        """Return USD for one unit of a currency at its dated rate; null without one."""
        if currency == "USD":
            return 1.0
        dated = exchange_rates().get(currency or "")
        return None if dated is None else dated.usd

    @signature({"types": []}, _TEXT, _TEXT)  # type: ignore[untyped-decorator]
    def _func_per_hour(self, price: Any, currency: str | None, unit: str | None) -> Any:
        """Return in USD/h what ``1 Hour`` or ``100 Hours`` cost; what is no figure stays."""
        rate, hours = self._func_rate(currency), hours_in(unit or "")
        known = isinstance(price, int | float) and rate and hours
        return price * rate / hours if known else price

    @signature(_FIGURE)  # type: ignore[untyped-decorator]
    def _func_day(self, seconds: float | None) -> str | None:
        """Return the day of a Unix time in UTC."""
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC).date().isoformat()


@lru_cache(maxsize=4096)
def _fits(pattern: str, name: str) -> bool:
    return re.search(pattern, name) is not None


_OPTIONS = jmespath.Options(custom_functions=_Functions())


@lru_cache(maxsize=512)
def compiled(expression: str) -> tuple[Any, tuple[str, ...]]:
    """Parse an expression of JMESPath; return it with the names that it has."""
    try:
        parsed = jmespath.compile(expression)
    except (JMESPathError, RecursionError) as error:
        words = " ".join(str(error).split())[:120]
        tip = "write it as jmespath.org says, names with blanks in quotes: '\"Price per hour\"'"
        raise PlacerError(f"'{expression[:80]}' is no expression: {words}", tip) from None
    return parsed, tuple(dict.fromkeys(_names(parsed.parsed)))


def _names(node: dict[str, Any]) -> Iterator[str]:
    if node["type"] == "field":
        yield node["value"]
    for child in node["children"]:
        yield from _names(child) if isinstance(child, dict) else ()


def evaluate(expression: str, record: Any) -> Any:
    """Look up an expression in a record; ValueError if a function does not take what it has."""
    try:
        return compiled(expression)[0].search(record, _OPTIONS)
    except (JMESPathError, ValueError, RecursionError, TypeError, OverflowError, OSError) as error:
        raise ValueError(f"cannot be found: {' '.join(str(error).split())[:120]}") from None


class Lookup:
    """Looks up expressions in records of a document, whose texts often repeat."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._seen: dict[tuple[Any, ...], Any] = {}

    def value(self, expression: str, record: Mapping[str, Any]) -> Any:
        """Look up an expression; see `evaluate`."""
        texts = [record.get(name) for name in compiled(expression)[1]]
        whole = "cells(@" in expression
        if whole or not all(text is None or isinstance(text, str) for text in texts):  # 1 is true
            return evaluate(expression, {**record, "given": self._given})
        key = (expression, *texts)
        if key not in self._seen:
            self._seen[key] = evaluate(expression, {**record, "given": self._given})
        return self._seen[key]

    def text(self, expression: str, record: Mapping[str, Any]) -> str:
        """Look up an expression as a cell; see `as_text`."""
        return as_text(self.value(expression, record)) if expression else ""

    def holds(self, expression: str, record: Mapping[str, Any]) -> bool:
        """Tell whether an expression gives something: neither null, false nor empty."""
        value = self.value(expression, record)
        return value is not None and value is not False and value not in ("", [], {})


def as_text(value: Any) -> str:
    """Write a value as a cell of CSV, null as an empty one; ValueError for a list or an object.

    >>> as_text(8.0), as_text(0.25), as_text(None), as_text(True)
    ('8', '0.25', '', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):  # as boto3 reads them
        return value.isoformat()
    if isinstance(value, list | dict):
        raise ValueError("is a list or an object")
    if isinstance(value, float) and math.isfinite(value):
        value = int(value) if value.is_integer() else round(value, 12)
    return str(value).strip()

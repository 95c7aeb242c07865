"""The difference of two saved results: machines, price, speed, emissions, wishes."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from math import isclose
from typing import Any

from msgspec import Struct

from placer.documents.schemas import RESULT_SCHEMA
from placer.errors import EDITED, PlacerError
from placer.records import Json
from placer.units import HOURS_PER_MONTH, SECONDS_PER_HOUR

DIFF_SCHEMA = "placer.diff/v1"
"""What ``placer report --diff`` writes."""
Figure = Callable[[Json], float | None]


def _of_estimate(read: Figure) -> Figure:
    return lambda result: None if result["estimate"] is None else read(result["estimate"])


def _of_run(total: str, plan: str, unit: float = 1.0) -> Figure:
    """Read a figure of the whole run: of a plan with fallbacks, else of the placement."""

    def read(result: Json) -> float | None:
        sure, totals = result.get("confidence") or {}, result["totals"]
        if sure.get("deadline_hours") is not None:
            return sure.get(plan)
        return None if totals is None else totals[total]["value"] / unit

    return read


FIGURES: Mapping[str, tuple[str, Figure]] = {
    "cost": ("USD/h", _of_estimate(lambda got: got["usd_per_hour"]["total"])),
    "total": ("USD", _of_run("usd", "usd_per_finished_run")),
    "hours": ("h", _of_run("seconds", "mean_hours", SECONDS_PER_HOUR)),
    "machines": ("USD/h", _of_estimate(lambda got: got["usd_per_hour"]["compute"])),
    "egress": ("USD/h", _of_estimate(lambda got: got["usd_per_hour"]["egress"])),
    "speed": ("samples/s", _of_estimate(lambda got: got["effective_samples_per_second"]["value"])),
    "price": ("USD per million samples", _of_estimate(lambda got: got["usd_per_million_samples"])),
    "step": ("s", _of_estimate(lambda got: got["step_seconds"]["total"])),
    "carbon": ("g CO2e/h", _of_estimate(lambda got: (got["carbon_g_per_hour"] or {}).get("value"))),
}
"""Figures that are compared, with their units; ``total`` and ``hours`` are of the whole run."""
RUN = ("total", "hours")
"""Figures that need a number of samples or tokens."""
KIND = ("place", "offer", "gpu", "gpu_count", "market")
"""What tells kinds of machines apart."""
COMPARISONS = {">": operator.gt, "<": operator.lt}
CONDITION = re.compile(r"\s*([a-z]+)\s*([<>])\s*([+-]?\d{1,12}(?:\.\d{1,12})?)\s*(%?)\s*")


class Condition(Struct, frozen=True, kw_only=True):
    """A change that is not accepted, such as ``cost>10%``: of a figure, relative or in its unit."""

    text: str
    figure: str
    sign: str
    bound: float
    relative: bool

    def holds(self, document: Json) -> bool:
        """Tell whether a difference is of this kind; where a figure is missing on one side alone,
        it is.

        Raise `PlacerError` if no result has the figure, though both have a placement: nothing would
        be compared.
        """
        row = next(row for row in document["figures"] if row["name"] == self.figure)
        before, after = row["before"], row["after"]
        if before is None and after is None:
            if None in document["exchange"].values():
                return False
            hint = "ask both questions with --samples or --tokens"
            raise PlacerError(
                f"--fail-on '{self.text}': neither result has the figure '{self.figure}'",
                hint if self.figure in RUN else "name another figure",
            )
        if before is None or after is None:
            return True
        change = row["relative_change"] if self.relative else row["change"]
        if change is None:
            change = float("inf") if after > before else 0.0  # from nothing
        return bool(COMPARISONS[self.sign](change, self.bound))


def parse_condition(text: str) -> Condition:
    """Read a condition: ``cost>10%``, ``speed<-5%`` or, in the unit of the figure, ``egress>0.5``.

    Raise `PlacerError` if it is none; the hint lists the figures.

    >>> parse_condition("cost>10%").bound, parse_condition("speed < -50").relative
    (0.1, False)
    """
    match = CONDITION.fullmatch(text)
    if match is None or match[1] not in FIGURES:
        raise PlacerError(
            f"'{text}' is not a condition",
            f"write it as cost>10%, speed<-5% or total>20 (USD); figures: {', '.join(FIGURES)}",
        )
    name, sign, number, percent = match.groups()
    bound = float(number) / (100 if percent else 1)
    return Condition(text=text, figure=name, sign=sign, bound=bound, relative=bool(percent))


def difference_document(
    before: Any,
    after: Any,
    names: tuple[str, str] = ("before", "after"),
    conditions: Iterable[Condition] = (),
) -> dict[str, Any]:
    """Build the ``placer.diff/v1`` document of two ``placer.result/v1`` documents of some files.
    Conditions name changes that are not accepted; those that hold are listed under ``failed``.

    Raise `PlacerError` if one of them is not a result, or a condition compares what neither has.
    """
    for document, name in zip((before, after), names, strict=True):
        if not isinstance(document, Mapping) or document.get("schema") != RESULT_SCHEMA:
            raise PlacerError(
                f"{name}: not a {RESULT_SCHEMA} document", "give files of placer recommend -o"
            )
    try:
        built = _compared(before, after, names)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = f"{', '.join(names)}: not whole {RESULT_SCHEMA} documents ({error!r:.80})"
        raise PlacerError(words, EDITED) from error
    built["failed"] = [one.text for one in conditions if one.holds(built)]
    return built


def _compared(before: Json, after: Json, names: tuple[str, str]) -> dict[str, Any]:
    figures = _figures(before, after)
    wishes = [
        {"wish": key, "before": before["request"].get(key), "after": after["request"].get(key)}
        for key in dict.fromkeys((*before["request"], *after["request"]))
        if before["request"].get(key) != after["request"].get(key)
    ]
    cost = next(row for row in figures if row["name"] == "cost")
    month = {
        key: None if cost[key] is None else cost[key] * HOURS_PER_MONTH
        for key in ("before", "after", "change")
    }
    exchange = [_exchange(side["placement"]) for side in (before, after)]
    return {
        "schema": DIFF_SCHEMA,
        "before": _side(before, names[0]),
        "after": _side(after, names[1]),
        "same_placement": before["placement"] == after["placement"],
        "wishes": wishes,
        "machines": _machines(before, after),
        "exchange": {"before": exchange[0], "after": exchange[1]},
        "figures": figures,
        "usd_per_month": month,
    }


def _side(document: Json, name: str) -> dict[str, Any]:
    book = {key: document["data"][key] for key in ("catalog", "digest", "as_of")}
    model, status = document["request"]["model"], document["status"]
    return {"name": name, "model": model, "status": status, **book}


def _exchange(placement: Json | None) -> str | None:
    if placement is None:
        return None
    steps = placement["local_steps"]
    return f"{placement['exchange']}{'' if steps == 1 else f' every {steps} steps'}"


def _machines(before: Json, after: Json) -> list[dict[str, Any]]:
    sides = [_groups(document["placement"]) for document in (before, after)]
    rows = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        counts, usd = zip(*(side.get(key, (0, 0.0)) for side in sides), strict=True)
        sign = "+" if not counts[0] else "-" if not counts[1] else "~"
        same = counts[0] == counts[1] and isclose(*usd)
        rows.append(
            {
                "sign": "" if same else sign,
                **dict(zip(KIND, key, strict=True)),
                "machines_before": counts[0],
                "machines_after": counts[1],
                "usd_per_hour_before": usd[0],
                "usd_per_hour_after": usd[1],
                "usd_per_month_change": (usd[1] - usd[0]) * HOURS_PER_MONTH,
            }
        )
    return rows


def _groups(placement: Json | None) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Add up machines and USD/h of each kind; a server is a machine as well."""
    groups: dict[tuple[Any, ...], tuple[int, float]] = {}
    rows = [] if placement is None else [*placement["workers"], placement.get("server")]
    for row in filter(None, rows):
        key = tuple(row[name] for name in KIND)
        count = row["count"] * row.get("machines", 1)
        before = groups.get(key, (0, 0.0))
        groups[key] = (before[0] + count, before[1] + count * row["usd_per_hour"])
    return groups


def _figures(before: Json, after: Json) -> list[dict[str, Any]]:
    rows = []
    for name, (unit, read) in FIGURES.items():
        one, other = read(before), read(after)
        known = one is not None and other is not None
        same = known and isclose(one or 0.0, other or 0.0)
        change = 0.0 if same else (other or 0.0) - (one or 0.0)
        rows.append(
            {
                "sign": "" if same or (one is None and other is None) else "~",
                "name": name,
                "unit": unit,
                "before": one,
                "after": other,
                "change": change if known else None,
                "relative_change": change / one if known and one else 0.0 if same else None,
            }
        )
    return rows

"""Values of an objective in words."""

from __future__ import annotations

from placer.cost_model.objective import Objective
from placer.units import format_duration, format_number, format_usd

_BEHIND = {
    "throughput": " samples/s",
    "cost": "/h",
    "cost-per-sample": " per million samples",
    "time": "",
    "carbon": " g CO2e/h",
    "total": " in all",
}
_FIGURES = {"throughput": format_number, "time": format_duration, "carbon": format_number}


def amount_text(value: float, objective: Objective, length: int | None = None) -> str:
    """Return a value without its unit; money and durations name theirs.

    ``value``: in the unit of the objective. ``objective``: what is best. ``length``: tokens of a
    sample, for a language model: samples/s become tokens/s, and USD per million samples USD per
    billion tokens.

    >>> from placer.cost_model.objective import objective_named
    >>> amount_text(1.2, objective_named("cost")), amount_text(90.0, objective_named("time"))
    ('$1.20', '90 s')
    """
    if length is not None and objective.name == "throughput":
        value *= length
    if length is not None and objective.name == "cost-per-sample":
        value *= 1000 / length
    return _FIGURES.get(objective.name, format_usd)(value)


def value_text(value: float, objective: Objective, length: int | None = None) -> str:
    """Return a value with its unit; parameters as for `amount_text`.

    >>> from placer.cost_model.objective import objective_named
    >>> value_text(1.2, objective_named("cost"))
    '$1.20/h'
    >>> value_text(20.1, objective_named("carbon"))
    '20.1 g CO2e/h'
    >>> value_text(12.5, objective_named("throughput"), 8192)
    '102,400 tokens/s'
    """
    behind = _BEHIND[objective.name]
    if length is not None:
        behind = behind.replace("million samples", "billion tokens").replace("sample", "token")
    return amount_text(value, objective, length) + behind

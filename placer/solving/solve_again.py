"""Solve the question of a saved result a second time, perhaps with another solver, and compare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.documents.reopen import whole_problem
from placer.errors import PlacerError
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve
from placer.units import format_number


def solved_again(document: Mapping[str, Any], where: str, solver: str) -> str:
    """Solve again and say what came out. ``document``: a valid ``placer.result/v1`` document with
    its problem and a certificate. `PlacerError` if the market is neither in the file nor on this
    machine, or if the second answer is better than the bound of the first.
    """
    certificate = document.get("certificate")
    if certificate is None or "problem" not in document:
        raise PlacerError(
            f"{where}: holds no question that could be solved again",
            "write it again with --certificate -o",
        )
    problem = whole_problem(document, where)
    limit = SolveOptions(
        gap=certificate["gap"], time_limit_s=certificate["time_limit_s"], seed=certificate["seed"]
    )
    result = solve(problem, solver, limit)
    bound, before = document["objective"]["bound"], document["objective"]["value"]
    if result.estimate is None or before is None:
        if result.estimate is not None and document["status"] == "infeasible":
            raise PlacerError(
                f"{where}: {solver} finds a placement where nothing is said to fit",
                "the file was edited, or placer has changed",
            )
        if result.estimate is not None:
            return f"{solver} found a placement this time, where the first search found none"
        if document["placement"] is None:
            return (
                f"{solver} solved it again: it found nothing either ({result.status}, "
                f"{result.seconds:.1f} s)"
            )
        if result.status == "infeasible":
            raise PlacerError(
                f"{where}: {solver} finds that nothing fits",
                "the file was edited, or placer has changed",
            )
        return f"{solver} found no placement this time; that says nothing about the first"
    assert result.value is not None
    value = result.value
    for text, one, other in (
        ("the bound", value, bound),
        ("the bound of the second answer", before, result.bound),
    ):
        if other is not None and result.objective.beats_bound(one, other):
            raise PlacerError(
                f"{where}: {text}, {other:.9g}, is beaten by {one:.9g}",
                "one of the two searches is wrong: please report it",
            )
    figure = f"{format_number(value)}, where the file has {format_number(before)}"
    return f"{solver} solved it again: {figure} ({result.status}, {result.seconds:.1f} s)"

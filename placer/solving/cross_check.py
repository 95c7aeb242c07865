"""A second solver's word on an answer, or on a saved one: both must fit each other's bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.documents.schemas.proofs import Verification
from placer.errors import PlacerError
from placer.records import replace
from placer.solving.answer import SolveOptions, Status, Warn
from placer.solving.result import Result
from placer.solving.solve import load_solver, solve
from placer.units import format_number, format_plain, format_seconds

SAME = 2e-5
"""Relative difference that two solvers may have beside their gaps: programs in floating point prove
no closer.
"""
EDITED = "the file was edited, or placer has changed"
CODE = "disagreement"
"""Code of the warning when two solvers contradict each other."""


def check_verifier(solver: str, verifier: str) -> None:
    """Refuse a second solver that does not exist, is the first, or lacks its package."""
    load_solver(verifier)
    if verifier == solver:
        raise PlacerError(
            f"--verify {verifier} is the solver that answers",
            "name another one, such as milp or cpsat",
        )


def verified(result: Result, verifier: str, options: SolveOptions) -> Result:
    """Solve the problem of a result again with another solver, which is told nothing of the answer,
    and say whether both agree; with a warning if they contradict each other, or the second one
    failed.
    """
    try:
        second = solve(result.problem, verifier, replace(options.deaf, start=None, proof="full"))
    except (PlacerError, AssertionError) as error:
        warning = Warn(code="unverified", message=f"the answer was not verified: {error}")
        return replace(result, warnings=(*result.warnings, warning))
    verification = Verification(
        solver=verifier,
        status=second.status,
        value=second.value,
        bound=second.bound,
        seconds=round(second.seconds, 6),
        verdict="disagree"
        if _contradiction(result, second)
        else "agree"
        if result.status.settled and second.status.settled
        else "open",
        left_open=second.left_open,
    )
    warnings = result.warnings
    if verification.verdict == "disagree":
        message = (
            f"the solvers contradict each other: {result.solver} says {value_words(result)}, "
            f"{verifier} says {value_words(second)}; "
            "do not rely on either, and report it with the file that -o writes"
        )
        warnings = (*warnings, Warn(code=CODE, message=message))
    return replace(result, verification=verification, warnings=warnings)


def value_words(result: Result | Verification) -> str:
    """Give status, value and bound in words.

    >>> second = Verification(
    ...     solver="x", status=Status.OPTIMAL, value=2.0, bound=2.02, seconds=1.0, verdict="agree")
    >>> value_words(second)
    '2 (optimal, bound 2.02)'
    """
    if result.value is None:
        return str(result.status)
    bound = "no bound" if result.bound is None else f"bound {format_plain(result.bound, 6)}"
    return f"{format_plain(result.value, 6)} ({result.status}, {bound})"


def verification_words(verification: Verification) -> str:
    """Say what a second solver found, in one sentence.

    >>> second = Verification(
    ...     solver="x", status=Status.OPTIMAL, value=2.0, bound=2.02, seconds=1.0, verdict="agree")
    >>> verification_words(second)
    'x agrees: 2 (optimal, bound 2.02), 1 s'
    >>> stopped = Verification(
    ...     solver="x", status=Status.TIME_LIMIT, value=2.0, bound=2.5, seconds=1.0, verdict="open",
    ...     left_open=("diloco", "diloco H=4"))
    >>> verification_words(stopped)  # doctest: +NORMALIZE_WHITESPACE
    'x does not contradict, but did not finish in its time: its best is 2, and nothing beats 2.5,
    1 s; not finished: diloco, diloco H=4'
    """
    words = {
        "agree": f"{verification.solver} agrees",
        "disagree": f"{verification.solver} CONTRADICTS",
        "open": f"{verification.solver} does not contradict, but did not finish in its time",
    }
    if verification.verdict == "open" and verification.status.settled:
        words["open"] = (
            f"{verification.solver} finished, and does not contradict what is not proved"
        )
    seconds = format_seconds(verification.seconds)
    left = verification.left_open
    open_ = f"; not finished: {', '.join(left)}" if left else ""
    said = _so_far(verification) if verification.status.stopped else value_words(verification)
    return f"{words[verification.verdict]}: {said}, {seconds}{open_}"


def _so_far(verification: Verification) -> str:
    value, bound = verification.value, verification.bound
    best = "it has found nothing" if value is None else f"its best is {format_plain(value, 6)}"
    proved = "it has no bound yet" if bound is None else f"nothing beats {format_plain(bound, 6)}"
    return f"{best}, and {proved}"


def _contradiction(one: Result, other: Result) -> bool:
    """Return whether a value beats a bound, or is where nothing was proved to be."""
    for a, b in ((one, other), (other, one)):
        if a.value is None:
            continue
        if b.status is Status.INFEASIBLE:
            return True
        if b.bound is not None and a.objective.beats_bound(a.value, b.bound, SAME):
            return True
    return False


def solved_again(document: Mapping[str, Any], where: str, solver: str) -> str:
    """Solve the question of a saved result with a certificate again, and say what came out.
    `PlacerError` if its market is not known, or an answer is better than the bound of the other.
    """
    certificate = document.get("certificate")
    if certificate is None or "problem" not in document:
        raise PlacerError(
            f"{where}: holds no question that could be solved again",
            "write it again with --certificate -o",
        )
    from placer.documents.present_book import whole_problem  # `placer recommend` opens no file

    problem = whole_problem(document, where)
    limit = SolveOptions(
        gap=certificate["gap"], time_limit_s=certificate["time_limit_s"], seed=certificate["seed"]
    )
    result = solve(problem, solver, limit)
    bound, before = document["objective"]["bound"], document["objective"]["value"]
    if result.estimate is None or before is None:
        if result.estimate is not None and document["status"] == "infeasible":
            raise PlacerError(
                f"{where}: {solver} finds a placement where nothing is said to fit", EDITED
            )
        if result.estimate is not None:
            return f"{solver} found a placement this time, where the first search found none"
        if document["placement"] is None:
            return (
                f"{solver} solved it again: it found nothing either ({result.status}, "
                f"{result.seconds:.1f} s)"
            )
        if result.status == "infeasible":
            raise PlacerError(f"{where}: {solver} finds that nothing fits", EDITED)
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

"""Check of a proof: the modes that must be there, the arithmetic of their bounds, bounds worked out
again, and a search for a placement that the claimed bound rules out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from placer.cost_model.objective import Objective, objective_named
from placer.documents.checker.market import machines_of
from placer.documents.checker.strategies import required_modes
from placer.documents.checker.witness import OBJECTIVES, witness
from placer.documents.saved_result import (
    SAME,
    device_speeds,
    holds_market,
    mode_factor,
    question_in,
    relaxed_modes,
    searched_document,
    store_links,
)
from placer.problem.problem import Problem
from placer.problem.requirements import Narrowed
from placer.records import Json, replace
from placer.units import format_number

PROVING = "exact"
"""The solver that proves strategy by strategy."""
ALONE = "one machine"
"""Name of the mode without an exchange."""
STOPPED = 1e-6
"""Relative distance up to which a bound is the one that the gap leaves."""
METHOD_WORDS = {
    "alone": "every single machine was tried",
    "root": "ruled out by the solver's relaxation, without a search",
    "search": "searched, {nodes:,} nodes, {priced:,} priced",
    "stopped": "not finished; the bound is that of the solver's relaxation",
}
"""How a bound was found, in words."""
OF_LATE = "never_tried"
"""Part of what was searched that files of earlier versions have not."""
UNCOVERED = "not covered by this check:"
"""How a sentence begins about what a document says and nothing here confirms."""


def wrong_proof(document: Json, whole: Problem | None) -> Iterator[str]:
    """Yield what is wrong about the proof of a result, the most telling first. ``whole`` is its
    question on the whole market, from the file or from the book of this machine; None where neither
    has it.
    """
    if "proof" in document:
        if batch_range_of(document) is None:  # else the modes are those of one batch or span
            yield from _wrong_modes(document)
            yield from _wrong_bounds(document)
        yield from _wrong_methods(document)
        if document.get("certificate") is not None:
            yield from _wrong_gap(document)
    yield from _wrong_relaxation(document)
    yield from _wrong_search(document, whole)
    yield from _refuted(document, whole)


def batch_range_of(document: Json) -> Any:
    """Return the range of batches that the question of a result leaves open; None of one batch."""
    question = question_in(document)
    return None if question is None else question["requirements"].get("batch_range")


def _wrong_modes(document: Json) -> Iterator[str]:
    """Compare the modes of proof and relaxation with those that the request asks for."""
    question, proof = question_in(document), [_key(mode) for mode in document["proof"]]
    proved = document["status"] == "optimal" and document["solver"]["name"] == PROVING
    if question is None or not (proof or proved):
        return
    needed = required_modes(question)
    lists = {"proof": proof}
    relaxation = (document.get("certificate") or {}).get("relaxation")
    if relaxation is not None:
        lists["relaxation"] = [_key(mode) for mode in relaxation["modes"]]
    for name, modes in lists.items():
        lacking = sorted(needed - {*modes})
        if lacking:
            words = ", ".join(_named(*key) for key in lacking[:3])
            yield f"the {name} says nothing of {words}, which the request admits"
        twice = [key for key in modes if modes.count(key) > 1]
        if twice:
            yield f"the {name} has {_named(*twice[0])} twice"


def _wrong_bounds(document: Json) -> Iterator[str]:
    """Check the arithmetic of the bound: value, modes, total, counts."""
    objective, modes = document["objective"], document["proof"]
    if not modes:
        return
    bound, value, asked = objective["bound"], objective["value"], objective_named(objective["name"])
    known = [mode["bound"] for mode in modes if mode["bound"] is not None]
    unknown = [mode for mode in modes if mode["method"] == "stopped" and mode["bound"] is None]
    if bound is not None and (unknown or not known or asked.best(known) != bound):
        said = f"objective.bound is written as {bound:.9g}"
        yield f"{said}, which is not the best of the bounds of the modes"
    for mode in modes:
        name = _name(mode)
        if mode["method"] == "stopped" and document["status"] == "optimal":
            yield f"an optimal answer, but the search of {name} was stopped"
        if document["status"] == "infeasible" and (
            mode["bound"] is not None or mode["method"] == "stopped"
        ):
            yield f"nothing is said to fit, but {name} is not ruled out"
        if mode["method"] == "root" and (mode["nodes"] or mode["priced"]):
            yield f"{name} is said to need no search, but has {mode['nodes']} nodes"
        answer, best = document["placement"], mode["bound"]
        own = answer is not None and name == _named(answer["exchange"], answer["local_steps"])
        if own and (best is None or (not _same(best, value) and asked.better(value, best))):
            yield f"the bound of {name} is beaten by the placement"
    for key, total in (("nodes", "nodes"), ("priced", "candidates")):
        counted, written = sum(mode[key] for mode in modes), document["solver"][total]
        if counted > written:
            yield f"solver.{total} is written as {written}, but the modes have {counted} together"


def _wrong_methods(document: Json) -> Iterator[str]:
    for mode in document["proof"]:
        name, method = _name(mode), mode["method"]
        if (method == "alone") != (name == ALONE) and method != "stopped":
            yield f"{name} is said to end by '{method}'"
        if method == "search" and not (mode["nodes"] or mode["priced"]):
            yield f"{name} is said to be searched, but has no nodes"


def _reached(document: Json) -> float | None:
    """Return the bound that a finished search leaves: the value, and the gap that was asked for."""
    objective, certificate = document["objective"], document.get("certificate")
    if certificate is None or objective["value"] is None or document["status"] != "optimal":
        return None
    slack, value = max(certificate["gap"], SAME), objective["value"]
    if objective["name"] == "time":  # searched as samples/s
        request = document["request"]
        lead_s = request.get("startup_seconds", 0.0) + request.get("copy_seconds", 0.0)
        return float((value - lead_s) / (1 + slack) + lead_s)
    return float(objective_named(objective["name"]).ahead(value, slack))


def _wrong_gap(document: Json) -> Iterator[str]:
    if _reached(document) is None or not document["proof"] or batch_range_of(document):
        return
    if not (_shows_gap(document) or any(_rests_on_root(m, document) for m in document["proof"])):
        gap = document["certificate"]["gap"]
        yield f"no bound of the proof follows from the gap of {gap:.3g} that was asked for"


def _shows_gap(document: Json) -> bool:
    reached = _reached(document)
    bounds = [mode["bound"] for mode in document["proof"] if mode["bound"] is not None]
    return reached is not None and any(_same(bound, reached, STOPPED) for bound in bounds)


def _rests_on_root(mode: Json, document: Json) -> bool:
    """Tell whether a mode has the bound of its relaxation, and that is not behind the value."""
    value, asked = document["objective"]["value"], objective_named(document["objective"]["name"])
    bound, root = mode["bound"], mode["root_bound"]
    if bound is None or root is None:
        return False
    return _same(bound, root) and not asked.better(value, bound, SAME)


def _same(a: float, b: float, relative: float = SAME) -> bool:
    return math.isclose(a, b, rel_tol=relative, abs_tol=1e-12)


def _key(mode: Json) -> tuple[str, int]:
    return mode["strategy"], mode["local_steps"]


def _named(strategy: str, steps: int) -> str:
    return ALONE if strategy == "none" else strategy + (f" H={steps}" if steps > 1 else "")


def _name(mode: Json) -> str:
    return _named(*_key(mode))


def _wrong_relaxation(document: Json) -> Iterator[str]:
    """Work the bounds by weak duality out again, and compare speeds by device with the model's."""
    relaxation = (document.get("certificate") or {}).get("relaxation")
    if relaxation is None:
        return
    problem = Problem.from_dict(document["problem"])
    for mode in relaxation["modes"]:
        factor = mode_factor(mode["strategy"], mode["local_steps"], problem)["samples_to_target"]
        if not _same(mode["samples_to_target"], factor):
            yield f"samples_to_target of {_name(mode)} in the certificate is not the model's"
    if relaxation["speeds"] != device_speeds(problem):
        yield "the speeds of the certificate are not those of the profile"
    again = relaxed_modes(
        document["problem"], relaxation["speeds"], relaxation["multipliers"], relaxation["modes"]
    )
    asked = objective_named(document["objective"]["name"])
    for written, computed in zip(relaxation["modes"], again, strict=True):
        one, other = written["bound"], computed["bound"]
        # A looser one does no harm: earlier versions left fewer machines out.
        if other is not None and (one is None or asked.better(other, one, SAME)):
            said = f"the bound of {_name(written)} by weak duality is written as {one}"
            yield f"{said}, but comes to {other}"
    if {_name(m) for m in relaxation["modes"]} != {_name(m) for m in document["proof"]}:
        yield "the certificate bounds other strategies than the proof"


def _refuted(document: Json, whole: Problem | None) -> Iterator[str]:
    """Look for a placement that keeps the limits and beats the bound that is claimed."""
    name, bound = document["objective"]["name"], document["objective"]["bound"]
    nothing = document["status"] == "infeasible" and document["placement"] is None
    if whole is None or not can_refute(whole) or (bound is None and not nothing):
        return
    better = next(filter(None, (refuter(asked)({}, bound) for asked in _questions(whole))), "")
    if better and nothing:
        yield f"nothing is said to fit, but {better} {objective_named(name).unit}"
    elif better:
        yield f"the bound {bound:.9g} is beaten: {better} and keep every limit"


def refuter(asked: Problem) -> Callable[[Json, float | None], str]:
    """Return what looks for equal machines in one place that beat a bound on a question on its
    whole market, with other wishes in place of its own; see `witness`.
    """
    saved = asked.to_dict()
    machines, links = machines_of(saved, device_speeds(asked)), store_links(asked)
    modes = [mode_factor(strategy, steps, asked) for strategy, steps in required_modes(saved)]

    def better(wishes: Json, bound: float | None) -> str:
        changed = {**saved, "requirements": {**saved["requirements"], **wishes}}
        return witness(changed, machines, modes, bound, links)

    return better


def _questions(whole: Problem) -> Iterator[Problem]:
    """Yield the questions whose workers have one speed each: with a plan 1, 2, 4, ... of them."""
    if whole.island_question is None:
        yield whole
        return
    wish, few = whole.requirements, Narrowed(few_sizes=True)
    workers = wish.min_workers
    while workers <= min(wish.max_workers, whole.batch):
        own = replace(wish, min_workers=workers, max_workers=workers, narrowed=few)
        yield replace(whole, requirements=own)
        workers *= 2


def _wrong_search(document: Json, whole: Problem | None) -> Iterator[str]:
    written = (document.get("certificate") or {}).get("searched")
    if written is None or whole is None:
        return
    needed = searched_document(whole)
    if written != {key: needed.get(key) for key in needed if key in written or key != OF_LATE}:
        yield "the workers that the proof is about are not those of the question"


def can_refute(whole: Problem | None) -> bool:
    """Tell whether placements of the whole market can be priced a second time."""
    if whole is None:
        return False
    wish = whole.requirements
    return wish.objective in OBJECTIVES and wish.max_carbon_g_per_hour is None


def proof_words(document: Json, whole: Problem | None) -> tuple[list[str], list[str]]:
    """Return what is confirmed of a proof that holds, and what is taken on trust, in sentences."""
    objective, modes, status = document["objective"], document["proof"], document["status"]
    asked, bound = objective_named(objective["name"]), objective["bound"]
    confirmed: list[str] = []
    if can_refute(whole) and (bound is not None or status == "infeasible"):
        beaten = "keep every limit" if bound is None else "beat the claimed bound"
        confirmed.append(f"no equal machines in one place {beaten}")
    batches = batch_range_of(document)
    if batches is not None:
        low, high = batches
        what = f"{UNCOVERED} that no batch from {low:,} to {high:,} is better"
        return confirmed, [f"{what}: that rests on the solver's word; --again solves again"]
    if not modes:
        word = f"{UNCOVERED} the bound is the word of the solver; --again solves again"
        return confirmed, ["nothing is proved" if bound is None else word]
    certificate = document["certificate"]
    searched, relaxation = certificate.get("searched"), certificate["relaxation"]
    if searched is not None and whole is not None:
        confirmed.append(_searched_words(searched))
    if bound is not None:
        many = f"best of the {len(modes)} bounds" if len(modes) > 1 else "only bound"
        confirmed.append(
            f"the bound of {format_number(bound)} {asked.unit} is the {many} "
            f"claimed{_gap_words(objective['gap'])}"
        )
    again = {} if relaxation is None else {_name(m): m["bound"] for m in relaxation["modes"]}
    closed = {name: best for name, best in again.items() if _closed(best, bound, asked)}
    if closed:
        offers = len(document["problem"]["catalog"]["offers"])
        most = "; ".join(
            f"{name} {'none fits' if best is None else format_number(best)}"
            for name, best in closed.items()
        )
        confirmed.append(
            f"weak duality over the {offers:,} offers in the file, worked out again, closes "
            f"({asked.unit} at best): {most}"
        )
    trusted = [_believed(mode, again) for mode in modes if _name(mode) not in closed]
    if trusted and status in ("optimal", "infeasible"):
        what = "the answer is optimal" if status == "optimal" else "nothing fits"
        trusted.insert(
            0,
            f"{UNCOVERED} that {what}: that rests on the solver's word for {len(trusted)} of "
            f"{len(modes)} strategies; --again solves again",
        )
    if _reached(document) is not None and not _shows_gap(document):
        trusted.append(
            f"{UNCOVERED} the gap of {100 * certificate['gap']:.3g} % that was asked for"
        )
    if not holds_market(certificate):
        trusted.append(
            "the market is not in this file: --certificate keeps it, so that bounds can be worked "
            "out again"
        )
    return confirmed, trusted


def _gap_words(gap: float | None) -> str:
    """Say how far a bound is from the value; nothing where no placement was found in time."""
    if gap is None:
        return ""
    return f", {100 * gap:.3g} % from the value" if gap > SAME else ", and the value reaches it"


def _searched_words(searched: Json) -> str:
    (low, high), islands = searched["workers"], searched["islands"]
    least, most = (f(n for row in islands for n in row["machines"]) for f in (min, max))
    never = f"; never: {searched[OF_LATE]}" if OF_LATE in searched else ""
    return (
        f"searched: {low} to {high} workers, of every number of machines from {least} to {most} of "
        f"{len(islands)} kinds, with every microbatch{never}"
    )


def _believed(mode: Json, again: Mapping[str, float | None]) -> str:
    """Say how a mode is said to have ended, that its bound is not confirmed, and how far weak
    duality comes. Nor is how it ended: a search also closes without a node what its relaxation
    alone leaves open.
    """
    name, computed = _name(mode), again.get(_name(mode))
    ended = f"{name}: {METHOD_WORDS[mode['method']].format(**mode)}"
    if computed is None:
        return ended
    claimed = "that none fits" if mode["bound"] is None else format_number(mode["bound"])
    return (
        f"{ended}; {UNCOVERED} the bound claimed is {claimed}, worked out again it is "
        f"{format_number(computed)}"
    )


def _closed(proved: float | None, bound: float | None, objective: Objective) -> bool:
    """Return whether what weak duality proves about a mode keeps it behind the bound of all."""
    if proved is None or bound is None:
        return proved is None
    return not objective.better(proved, bound, SAME)

"""A saved result: the answer with what it needs to be priced again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from placer.cost_model.estimate import Estimate, estimate, evaluate
from placer.cost_model.limits import violations
from placer.cost_model.objective import gap_between, objective_of
from placer.cost_model.reduced_problem import question_alone, used_problem
from placer.documents.certificate import (
    SCHEMA,
    figures,
    input_digests,
    relaxation_document,
    searched_document,
)
from placer.documents.result_parts import (
    estimate_document,
    outlook_document,
    placement_document,
    request_document,
    totals_document,
)
from placer.errors import refuse
from placer.market.catalog import OLD_TRANSPORT
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.records import Json, replace
from placer.units import format_plain
from placer.version import __version__
from placer.workload.inner_plan import InnerPlan

MOST_GAP = 0.5
"""Largest gap that can be asked for."""
LARGEST = 1e300
"""Numbers above are not compared."""
LOOKS = 32
"""Batches of a range at which a placement is priced again."""
SAME = 1e-9
"""Relative difference up to which a figure counts as the same."""


def saved_document(
    document: Json,
    problem: Problem,
    placement: Placement | None,
    limits: Json,
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Add the problem and a certificate to the document of a result.

    document: ``placer.result/v1``; its proof names the modes that are bounded again.
    limits: ``gap``, ``time_limit_s``, ``node_limit`` and ``seed`` of the search.
    whole: Keep the whole market, so that bounds can be worked out again, and not only what the
        placement uses; without a placement the question alone.
    """
    kept = problem
    if not whole:
        kept = question_alone(problem) if placement is None else used_problem(problem, placement)
    key = "problem" if whole or placement is not None else "question"
    saved = kept.to_dict()
    planned = problem.island_question is not None
    certificate = {
        "schema": SCHEMA,
        "placer": __version__,
        "solver": document["solver"]["name"],
        **limits,
        "book": problem.catalog.digest,
        "inputs": input_digests(saved if key == "problem" else problem.to_dict()),
        "figures": None if placement is None else figures(placement, problem),
        "relaxation": None,
        "whole": whole,
        **({"searched": searched_document(problem)} if planned else {}),
    }
    # The second implementation bounds no emissions, and no workers whose speed depends on how many
    # they are.
    if whole and problem.requirements.objective != "carbon" and not planned:
        modes = [(mode["strategy"], mode["local_steps"]) for mode in document["proof"]]
        certificate["relaxation"] = relaxation_document(saved, problem, modes)
    return {**document, key: saved, "certificate": certificate}


def placement_from(document: Json) -> Placement:
    """Rebuild a placement from its part of a result document."""
    aggregator, storage, server = document["aggregator"], document["storage"], document["server"]
    return Placement(
        groups=tuple(_group_from(w) for w in document["workers"]),
        exchange=Exchange(
            strategy=document["exchange"],
            compression=document["compression"],
            local_steps=document["local_steps"],
            streams=document["streams"],
            overlap=document["overlap"],
            transport=document.get("transport", OLD_TRANSPORT),
            aggregator=aggregator and aggregator["place"],
            aggregator_memory_gib=aggregator and aggregator["memory_gib"],
            server=server and _group_from(server),
            storage=storage and storage["place"],
        ),
    )


def _group_from(row: Json) -> WorkerGroup:
    fields = ("place", "gpu", "gpu_count", "market", "count")
    return WorkerGroup(
        instance_type=row["offer"],
        machines=row.get("machines", 1),
        inner=msgspec.convert(row["inner"], InnerPlan) if row.get("inner") else None,
        behind=tuple(map(_group_from, row.get("behind", ()))),
        **{name: row[name] for name in fields},
    )


def question_in(document: Json) -> Any:
    """Return the question of a result, saved with its market or without; None if it has none."""
    return document.get("problem", document.get("question"))


def check_result(document: Json, where: str) -> str:
    """Price the placement of a saved result again, from the file alone; say what it is.

    Raise `PlacerError` if a key is unknown, a limit is broken, or a figure differs from what is
    written.
    """
    from placer.documents.schemas.result import Result

    extra = sorted(set(document) - {"schema", *Result.__struct_fields__})
    refuse((f"unknown key '{key}'" for key in extra), where)
    if document["placement"] is None:
        if document["status"] not in ("infeasible", "time_limit", "memory_limit", "unknown"):
            refuse([f"no placement, but the status is {document['status']}"], where)
        return "result without a placement"
    if "problem" not in document:
        hint = "save it with placer recommend -o FILE"
        refuse(["has no problem to price again"], where, hint)
    problem = Problem.from_dict(document["problem"])
    placement = placement_from(document["placement"])
    broken = (
        f"the placement breaks a limit: {one.message}" for one in violations(placement, problem)
    )
    refuse(broken, where, "solve it again")
    priced = estimate(placement, problem)
    refuse(_wrong(document, problem, placement, priced), where)
    return (
        f"result, priced again: {format_plain(priced.samples_per_second.value, 6)} samples/s "
        f"for {format_plain(priced.usd_per_hour.total, 6)} USD/h"
    )


def _wrong(
    document: Json, problem: Problem, placement: Placement, priced: Estimate
) -> Iterator[str]:
    yield from wrong_pricing(document, problem, placement, priced)
    for name, value in (
        ("totals", totals_document(priced, problem)),
        ("outlook", outlook_document(placement, priced, problem)),
    ):
        yield first_difference(value, document.get(name), name)
    yield _wrong_status(document, priced, problem)
    yield _wrong_batch_proof(document, problem, placement)
    if not is_request(document["request"], request_document(problem)):
        yield "the request does not fit the problem"


def wrong_pricing(
    row: Json, problem: Problem, placement: Placement, priced: Estimate, at: str = ""
) -> Iterator[str]:
    """Yield where the parts ``placement`` and ``estimate`` of a row differ from its pricing."""
    for name, value in (
        ("placement", placement_document(placement, problem)),
        ("estimate", estimate_document(priced)),
    ):
        difference = first_difference(value, row[name], f"{at}{name}")
        if difference:
            yield difference


def is_request(written: Any, request: Json) -> bool:
    """Tell whether a request is that of the problem; keys that came later may be missing, but not
    that of a quota, which means another one where it is missing.
    """
    from placer.documents.schemas.parts import Request

    if not isinstance(written, Mapping):
        return False
    optional = {field.name for field in msgspec.structs.fields(Request) if not field.required}
    missing = {*request} - {*written}
    return missing <= optional - {"quota_gpus"} and written == {
        key: value for key, value in request.items() if key not in missing
    }


def _wrong_status(document: Json, priced: Estimate, problem: Problem) -> str:
    objective, asked = document["objective"], objective_of(problem.requirements)
    value = asked.value(priced)
    written, bound, gap = objective["value"], objective["bound"], objective["gap"]
    if objective["name"] != asked.name or first_difference(value, written, "objective.value"):
        return f"the objective is written as {str(written)[:40]} but comes to {value:.9g}"
    if document["status"] not in ("optimal", "feasible", "time_limit", "memory_limit"):
        return f"a placement with the status {str(document['status'])[:40]}"
    if bound is None:
        return "an optimal answer without a bound" if document["status"] == "optimal" else ""
    if asked.beats_bound(value, bound):
        return f"the bound {bound:.9g} is beaten by the value {value:.9g}"
    if first_difference(gap_between(value, bound), gap, "objective.gap"):
        return "gap, bound and value do not fit each other"
    return (
        f"an optimal answer with a gap of {gap:.3g}"
        if document["status"] == "optimal" and gap > MOST_GAP
        else ""
    )


def _wrong_batch_proof(document: Json, problem: Problem, placement: Placement) -> str:
    """Say what is wrong with a proof over a range of batches, none of which may beat the bound."""
    proof, wish = document.get("batch_proof"), problem.requirements
    if proof is None:
        return ""
    low, high, bound = proof["low"], proof["high"], proof["bound"]
    if (low, high) != wish.batch_range:
        return f"batches from {low} to {high} are proved, which is not the range of the request"
    if not low <= problem.batch <= high:
        return f"the batch of {problem.batch} is outside the range"
    if bound != document["objective"]["bound"]:
        return "the bound over all batches is not that of the answer"
    if document["status"] == "optimal" and not proof["finished"]:
        return "an optimal answer, but batches of the range are open"
    if bound is None or problem.profile.architecture is not None:
        return ""  # the workers of a language model are others at another batch
    objective = objective_of(wish)
    for batch in sorted({low + (high - low) * i // LOOKS for i in range(LOOKS + 1)}):
        asked = replace(problem, requirements=replace(wish, target_batch_size=batch))
        if violations(placement, asked):
            continue
        value = objective.value(evaluate(placement, asked))
        if objective.beats_bound(value, bound):
            return f"the bound {bound:.9g} is beaten by the value {value:.9g} at batch {batch:,}"
    return ""


def first_difference(computed: Any, written: Any, at: str) -> str:
    """Say where a written document differs from the computed one; empty if it does not."""
    if isinstance(computed, dict) and isinstance(written, Mapping):
        if computed.keys() != written.keys():
            return f"{at} has other keys"
        parts = ((value, written[key], f"{at}.{key}") for key, value in computed.items())
    elif isinstance(computed, list) and isinstance(written, list) and len(computed) == len(written):
        pairs = enumerate(zip(computed, written, strict=True))
        parts = ((one, other, f"{at}[{number}]") for number, (one, other) in pairs)
    else:
        close = (
            isinstance(computed, float)
            and isinstance(written, int | float)
            and abs(written) < LARGEST
            and math.isclose(computed, written, rel_tol=SAME)
        )
        if close or computed == written:
            return ""
        return f"{at} is written as {str(written)[:40]} but comes to {str(computed)[:40]}"
    return next(filter(None, (first_difference(*part) for part in parts)), "")

"""Saved documents: results that carry what they need to be priced again, and their checks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from placer.cli.report.frontier.frontier_document import SCHEMA as PARETO_SCHEMA
from placer.cli.report.frontier.frontier_document import check_frontier
from placer.cost_model.cut_down import used_problem
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.objective import gap_between, objective_of
from placer.cost_model.violations import violations
from placer.documents.certificate import certificate_document, relaxation_document
from placer.documents.certificate_check import Checked, check_certificate
from placer.documents.manifest.native import build_manifest
from placer.documents.manifest.reading import read_manifest
from placer.documents.manifest.versions import FAMILY as MANIFEST_FAMILY
from placer.documents.manifest.versions import SCHEMA as MANIFEST_SCHEMA
from placer.documents.parts import (
    estimate_document,
    outlook_document,
    placement_document,
    totals_document,
)
from placer.documents.request import request_document
from placer.documents.schemas import RESULT_SCHEMA
from placer.errors import PlacerError, unknown
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.problem.problem import SCHEMA as PROBLEM_SCHEMA
from placer.problem.problem import Problem
from placer.solving.result import Result
from placer.workload.overlay import FAMILY, overlay_from
from placer.workload.overlay import SCHEMA as CALIBRATION_SCHEMA
from placer.workload.profile import SCHEMA as PROFILE_SCHEMA
from placer.workload.profile import profile_from_json

RESULT_KEYS = (
    "schema", "request", "data", "status", "objective", "solver", "placement", "estimate", "totals", "outlook", "alternatives", "baselines",
    "near_misses", "nearest", "verdict", "notes", "warnings", "batches",
)  # fmt: skip
"""Keys of a result document."""
LATER_KEYS = ("proof", "problem", "question", "certificate")
"""Keys that only saved documents have, or none of an older version."""
MOST_GAP = 0.5
"""Largest gap that can be asked for."""
LARGEST = 1e300
"""Numbers above are not compared."""
SAME = 1e-9
"""Relative difference up to which a figure counts as the same."""


def saved_document(result: Result, *, whole: bool = False) -> dict[str, Any]:
    """Build a result document that also holds the problem and a certificate; where nothing fits,
    the question without its market.

    Parameters
    ----------
    whole
        Keep the whole market, so that bounds can be worked out again, and not only what the
        placement uses.
    """
    document = result.to_dict()
    if whole or result.placement is not None:
        document["problem"] = (
            result.problem
            if result.placement is None or whole
            else used_problem(result.problem, result.placement)
        ).to_dict()
    else:
        document["question"] = _asked(result.problem).to_dict()
    document["certificate"] = certificate_document(
        result, document.get("problem") or result.problem.to_dict()
    )
    if (
        whole and result.problem.requirements.objective != "carbon"
    ):  # its bounds are not covered by the second implementation
        document["certificate"]["relaxation"] = relaxation_document(result, document["problem"])
    return document


def _asked(problem: Problem) -> Problem:
    """The question alone, with the regions that it names: what is left to save where nothing fits."""
    wish, book = problem.requirements, problem.catalog
    places = {
        *filter(None, (wish.aggregator, wish.storage, wish.data_store)),
        *(d.place for d in wish.datasets),
    }
    regions = {place: region for place, region in book.regions.items() if place in places}
    bare = replace(book, regions=regions, offers=(), functions=(), stores=(), egress=(), links=())
    return replace(problem, catalog=bare)


def check_document(document: Any, where: str) -> str:
    """Check a document by its schema and say what it is; see `examine_document`."""
    return examine_document(document, where)[0]


def examine_document(document: Any, where: str) -> tuple[str, Checked | None]:
    """Check a document by its schema; say what it is and, of a result, what its certificate
    confirms.

    Raises
    ------
    PlacerError
        If the schema is unknown, a digest differs, or a result does not price as it says.
    """
    if not isinstance(document, Mapping):
        raise PlacerError(f"{where}: not a JSON object", "give a file that placer wrote")
    schema = document.get("schema")
    checks = {
        RESULT_SCHEMA: _check_result,
        MANIFEST_SCHEMA: _check_manifest,
        PROFILE_SCHEMA: _check_profile,
        PROBLEM_SCHEMA: _check_problem,
        CALIBRATION_SCHEMA: _check_calibration,
        PARETO_SCHEMA: check_frontier,
    }
    check = _check_calibration if str(schema).startswith(FAMILY) else checks.get(str(schema))
    check = _check_manifest if str(schema).startswith(MANIFEST_FAMILY) else check
    if check is None:
        raise unknown("schema", str(schema), checks)
    try:
        said = check(document, where)
        return said, check_certificate(document, where) if schema == RESULT_SCHEMA else None
    except (
        KeyError,
        IndexError,
        StopIteration,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
    ) as error:
        raise PlacerError(
            f"{where}: not a complete {schema} document ({type(error).__name__}: {error})",
            "write it again with placer",
        ) from None


def placement_from(document: Mapping[str, Any]) -> Placement:
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
            aggregator=aggregator and aggregator["place"],
            aggregator_memory_gib=aggregator and aggregator["memory_gib"],
            server=server and _group_from(server),
            storage=storage and storage["place"],
        ),
    )


def manifest_of(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Build the launch manifest of a saved result, after its check.

    Raises
    ------
    PlacerError
        If the result does not price as it says, or has no placement.
    """
    check_document(document, where)
    if document["placement"] is None:
        raise PlacerError(
            f"{where}: the result has no placement, so there is nothing to launch",
            "relax a limit first",
        )
    problem, placement = (
        Problem.from_dict(document["problem"]),
        placement_from(document["placement"]),
    )
    gap, data = document["objective"]["gap"], document["data"]
    return build_manifest(
        problem, placement, estimate(placement, problem), document["status"], gap, data
    )


def _group_from(row: Mapping[str, Any]) -> WorkerGroup:
    return WorkerGroup(
        place=row["place"],
        instance_type=row["offer"],
        gpu=row["gpu"],
        gpu_count=row["gpu_count"],
        market=row["market"],
        count=row["count"],
    )


def _check_result(document: Mapping[str, Any], where: str) -> str:
    """Price the placement again from the file alone."""
    extra = sorted(set(document) - {*RESULT_KEYS, *LATER_KEYS, "verification"})
    if extra:
        raise PlacerError(
            f"{where}: unknown key '{extra[0]}'", "the file was edited, or made by another version"
        )
    if document["placement"] is None:
        if document["status"] not in ("infeasible", "time_limit", "unknown"):
            raise PlacerError(
                f"{where}: no placement, but the status is {document['status']}",
                "the file was edited",
            )
        return "result without a placement"
    if "problem" not in document:
        raise PlacerError(
            f"{where}: has no problem to price again", "save it with placer recommend -o FILE"
        )
    problem, placement = (
        Problem.from_dict(document["problem"]),
        placement_from(document["placement"]),
    )
    broken = violations(placement, problem)
    if broken:
        raise PlacerError(
            f"{where}: the placement breaks a limit: {broken[0].message}", "solve it again"
        )
    got = estimate(placement, problem)
    for name, value in (
        ("placement", placement_document(placement, problem)),
        ("estimate", estimate_document(got)),
        ("totals", totals_document(got, problem)),
        ("outlook", outlook_document(placement, got, problem)),
    ):
        difference = _difference(value, document.get(name), name)
        if difference:
            raise PlacerError(
                f"{where}: {difference}", "the file was edited, or made by another version"
            )
    wrong = _wrong_status(document, got, problem)
    if document["request"] != request_document(problem) or wrong:
        raise PlacerError(
            f"{where}: {wrong or 'the request does not fit the problem'}",
            "the file was edited, or made by another version",
        )
    return (
        f"result, priced again: {got.samples_per_second.value:.6g} samples/s for "
        f"{got.usd_per_hour.total:.6g} USD/h"
    )


def _wrong_status(document: Mapping[str, Any], got: Estimate, problem: Problem) -> str:
    """Say so if objective, bound, gap and status do not fit each other; empty if they do."""
    objective, asked = document["objective"], objective_of(problem.requirements)
    value = asked.value(got)
    written, bound, gap = objective["value"], objective["bound"], objective["gap"]
    if objective["name"] != asked.name or _difference(value, written, "objective.value"):
        return f"the objective is written as {str(written)[:40]} but comes to {value:.9g}"
    if document["status"] not in ("optimal", "feasible", "time_limit"):
        return f"a placement with the status {str(document['status'])[:40]}"
    if bound is None:
        return "an optimal answer without a bound" if document["status"] == "optimal" else ""
    if asked.beats_bound(value, bound):
        return f"the bound {bound:.9g} is beaten by the value {value:.9g}"
    if _difference(gap_between(value, bound), gap, "objective.gap"):
        return "gap, bound and value do not fit each other"
    return (
        f"an optimal answer with a gap of {gap:.3g}"
        if document["status"] == "optimal" and gap > MOST_GAP
        else ""
    )


def _difference(computed: Any, written: Any, at: str) -> str:
    """Say where a written document differs from the computed one; empty if it does not."""
    if isinstance(computed, dict) and isinstance(written, Mapping):
        if computed.keys() != written.keys():
            return f"{at} has other keys"
        return next(
            filter(None, (_difference(computed[k], written[k], f"{at}.{k}") for k in computed)), ""
        )
    if isinstance(computed, list) and isinstance(written, list) and len(computed) == len(written):
        return next(
            filter(
                None,
                (
                    _difference(c, w, f"{at}[{i}]")
                    for i, (c, w) in enumerate(zip(computed, written, strict=True))
                ),
            ),
            "",
        )
    number = (
        isinstance(computed, float) and isinstance(written, int | float) and abs(written) < LARGEST
    )
    if computed == written or (number and math.isclose(computed, written, rel_tol=SAME)):
        return ""
    return f"{at} is written as {str(written)[:40]} but comes to {str(computed)[:40]}"


def _check_manifest(document: Mapping[str, Any], where: str) -> str:
    manifest = read_manifest(document, where)
    return f"manifest of {manifest.world_size} workers in {len(manifest.groups)} groups"


def _check_profile(document: Mapping[str, Any], where: str) -> str:
    profile = profile_from_json(json.dumps(document).encode(), where)
    return f"profile of {profile.name} with {len(profile.rates)} rates"


def _check_problem(document: Mapping[str, Any], where: str) -> str:
    problem = Problem.from_dict(document)
    return f"problem: {problem.profile.name} on {len(problem.pools)} admitted offers"


def _check_calibration(document: Mapping[str, Any], where: str) -> str:
    overlay = overlay_from(document, where)
    return (
        f"calibration {overlay.calibration.name}: {len(overlay.rates)} speeds, "
        f"{len(overlay.links)} directed links"
    )

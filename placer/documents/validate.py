"""The check of any document that placer wrote: its kind is read off its schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from placer.cost_model.estimate import estimate
from placer.documents.certificate_check import Checked, check_certificate
from placer.documents.manifest.manifest_document import build_manifest
from placer.documents.manifest.manifest_reader import FAMILY as MANIFEST_FAMILY
from placer.documents.manifest.manifest_reader import read_manifest
from placer.documents.many_check import PORTFOLIO_SCHEMA, check_frontier, check_portfolio
from placer.documents.proof_check import UNCOVERED
from placer.documents.saved_result import check_result, placement_from
from placer.documents.schemas import KINDS, PARETO_SCHEMA, RESULT_SCHEMA, document_type, schema_name
from placer.errors import EDITED, PlacerError, unknown
from placer.files.json_text import misfit
from placer.problem.problem import SCHEMA as PROBLEM_SCHEMA
from placer.problem.problem import Problem
from placer.records import Json
from placer.workload.overlay import FAMILY, overlay_from
from placer.workload.profile import SCHEMA as PROFILE_SCHEMA
from placer.workload.profile import profile_from_json

INCOMPLETE = (LookupError, StopIteration, TypeError, AttributeError, ValueError, ArithmeticError)
"""What a document without one of its parts leads to."""


def check_document(document: Any, where: str) -> str:
    """Check a document by its schema and say what it is; see `examine_document`."""
    return examine_document(document, where)[0]


def examine_document(document: Any, where: str) -> tuple[str, Checked | None]:
    """Check a document by its schema; say what it is and what is confirmed and taken on trust,
    where that is not all or nothing.

    Raise `PlacerError` if the schema is unknown, a digest differs, or a result does not price as it
    says.
    """
    if not isinstance(document, Mapping):
        raise PlacerError(f"{where}: not a JSON object", "give a file that placer wrote")
    schema = str(document.get("schema"))
    families = (family for family in (FAMILY, MANIFEST_FAMILY) if schema.startswith(family))
    check = CHECKS.get(next(families, schema))
    name = schema_name(schema)
    if check is None and name is None:
        raise unknown("schema", schema, [key for key in CHECKS if not key.endswith("/v")])
    if name is not None and (check is None or schema in ANSWERS):
        _check_types(document, name, where)
    if check is None:
        title = KINDS[str(name)][1]
        confirmed = ("every field is there, of its kind and within its bounds",)
        trusted = (f"{UNCOVERED} what its figures follow from",)
        return title[0].lower() + title[1:], Checked(confirmed=confirmed, trusted=trusted)
    try:
        kind = check(document, where)
        return kind if isinstance(kind, tuple) else (kind, None)
    except INCOMPLETE as error:
        raise PlacerError(
            f"{where}: not a complete {schema} document ({type(error).__name__}: {error})",
            "write it again with placer",
        ) from None


def _check_types(document: Json, name: str, where: str) -> None:
    """Refuse a document that lacks a key, or has a value of another kind or out of range."""
    found = document_type(name)
    try:
        msgspec.convert(document, found[0] if isinstance(found, tuple) else found)
    except (msgspec.ValidationError, OverflowError) as error:
        raise PlacerError(f"{where}: {misfit(error, document)}", EDITED) from None


def manifest_of(document: Json, where: str) -> dict[str, Any]:
    """Build the launch manifest of a saved result, after its check.

    Raise `PlacerError` if the result does not price as it says, or has no placement.
    """
    check_document(document, where)
    if document["placement"] is None:
        raise PlacerError(
            f"{where}: the result has no placement, so there is nothing to launch",
            "relax a limit first",
        )
    problem = Problem.from_dict(document["problem"])
    placement = placement_from(document["placement"])
    gap, data = document["objective"]["gap"], document["data"]
    return build_manifest(
        problem, placement, estimate(placement, problem), document["status"], gap, data
    )


def _check_manifest(document: Json, where: str) -> str:
    manifest = read_manifest(document, where)
    machines = f" of {manifest.world_size} machines" if manifest.has_islands else ""
    return f"manifest of {manifest.workers} workers{machines} in {len(manifest.groups)} groups"


def _check_profile(document: Json, where: str) -> str:
    profile = profile_from_json(json.dumps(document).encode(), where)
    return f"profile of {profile.name} with {len(profile.rates)} rates"


def _check_problem(document: Json, where: str) -> str:
    problem = Problem.from_dict(document)
    return f"problem: {problem.profile.name} on {len(problem.pools)} admitted offers"


def _check_calibration(document: Json, where: str) -> str:
    overlay = overlay_from(document, where)
    return (
        f"calibration {overlay.calibration.name}: {len(overlay.rates)} speeds, "
        f"{len(overlay.links)} directed links"
    )


ANSWERS: Mapping[str, Callable[[Json, str], tuple[str, Checked]]] = {
    RESULT_SCHEMA: lambda answer, at: (check_result(answer, at), check_certificate(answer, at)),
    PARETO_SCHEMA: check_frontier,
    PORTFOLIO_SCHEMA: check_portfolio,
}
"""What looks at figures and proofs, by the schema of an answer. Readers of other documents look at
types as well.
"""
CHECKS: Mapping[str, Callable[[Json, str], str | tuple[str, Checked]]] = {
    **ANSWERS,
    MANIFEST_FAMILY: _check_manifest,
    PROFILE_SCHEMA: _check_profile,
    PROBLEM_SCHEMA: _check_problem,
    FAMILY: _check_calibration,
}
"""What checks more than the types of fields, by schema, or by its beginning where later versions
are known.
"""

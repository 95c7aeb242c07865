"""Check of a certificate: prices by the second implementation, digests, limits and the arithmetic
of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from operator import getitem

from msgspec import Struct

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.documents.checker.case import Case
from placer.documents.checker.dollars import dollars_of
from placer.documents.checker.limits import broken_limits
from placer.documents.checker.seconds import round_of
from placer.documents.present_book import Compared, compare_with_book
from placer.documents.proof_check import UNCOVERED, proof_words, wrong_proof
from placer.documents.saved_result import (
    SAME,
    holds_market,
    input_digests,
    placement_from,
    question_in,
    wrong_pricing,
)
from placer.errors import refuse
from placer.problem.problem import Problem
from placer.records import Json, replace
from placer.units import format_number, format_plain

NOT_COVERED = "emissions, intervals, the outlook on spot machines and a month"
"""What only the model itself works out."""
CONSIDERED = ("alternatives", "baselines", "near_misses")
"""Parts of a result that hold placements beside the answer, priced on the same market."""
SENTENCES = ("verdict", "notes", "warnings", "nearest", "batches", "verification")
"""Parts of a result that nothing works out again: sentences, and answers to other questions."""
NO_CERTIFICATE = (
    "no certificate in this file: it was written by an older version, or the certificate was "
    f"removed; {UNCOVERED} the bound, and that the answer is optimal"
)
"""What is said where a file has nothing that its proof is checked with."""


class Checked(Struct, frozen=True, kw_only=True):
    """Sentences: what a certificate confirms from its file alone, and what is taken on trust."""

    confirmed: tuple[str, ...]
    trusted: tuple[str, ...]


def check_certificate(document: Json, where: str) -> Checked:
    """Check the certificate of a result document that prices as it says.

    Raise `PlacerError` if a digest, a price, a limit, a bound or a count does not hold; names it.
    """
    compared = _compared(document)
    whole = compared.problem  # on the whole market: of this machine, else of the file
    if whole is None and _has_market(document):
        whole = Problem.from_dict(document["problem"])
    refuse(_faults(document, compared, whole), where)
    confirmed, trusted = [], [f"{UNCOVERED} {text}" for text in compared.uncovered]
    if document.get("certificate") is None:
        return Checked(
            confirmed=compared.confirmed,
            trusted=(NO_CERTIFICATE, *trusted, *_uncovered(document, whole)),
        )
    if document["placement"] is not None:
        usd = document["estimate"]["usd_per_hour"]["total"]
        speed = document["estimate"]["effective_samples_per_second"]["value"]
        confirmed.append(
            f"a second implementation finds effective {format_number(speed)} samples/s for "
            f"{format_plain(usd, 6)} USD/h, within all limits"
        )
        trusted += [
            *_estimated(document),
            f"not covered by the second implementation: {NOT_COVERED}",
            *_uncovered(document, whole),
        ]
    if "problem" in document:
        confirmed.append("digests of profile, catalog, requirements and calibration")
    proved, believed = proof_words(document, whole)
    confirmed += [*compared.confirmed, *proved]
    if whole is not None and any(document[part] for part in CONSIDERED):
        confirmed.append(f"{', '.join(CONSIDERED).replace('_', ' ')}: priced again")
    return Checked(confirmed=tuple(confirmed), trusted=(*believed, *trusted))


def _compared(document: Json) -> Compared:
    question = question_in(document)
    if question is None:
        return Compared(problem=None, uncovered=("prices, links and dates",))
    placements = [] if document["placement"] is None else [placement_from(document["placement"])]
    whole = _has_market(document)
    return compare_with_book(Problem.from_dict(question), placements, document["data"], whole=whole)


def _has_market(document: Json) -> bool:
    certificate = document.get("certificate")
    return certificate is not None and "problem" in document and holds_market(certificate)


def _uncovered(document: Json, whole: Problem | None) -> Iterator[str]:
    """Name what the document says and nothing works out again."""
    parts = [part for part in SENTENCES if document.get(part)]
    parts += [name for name in ("price_risk", "confidence") if document.get(name)]
    if whole is None:
        parts += [part for part in CONSIDERED if document[part]]
    parts += ["labels", "speed_interval_level", "solver.seconds", "solver.candidates"]
    if document.get("proof"):
        parts += ["root_bound, nodes and priced of the proof"]
    if document.get("certificate") is not None:
        parts += ["time_limit_s", "node_limit", "seed"]
    yield f"{UNCOVERED} {', '.join(parts)}"


def _faults(document: Json, compared: Compared, whole: Problem | None) -> Iterator[str]:
    certificate = document.get("certificate")
    if certificate is not None and "problem" in document:
        yield from _digests(certificate, document)
    if certificate is not None and document["placement"] is not None:
        yield from wrong_prices(certificate["figures"], document)
    if certificate is not None:
        yield from _settings(certificate, document)
    if certificate is None and "proof" in document and "problem" in document:
        yield "the file has a proof, but the certificate that belongs to it is missing"
    yield from compared.wrong
    yield from wrong_proof(document, whole)
    if whole is not None:
        yield from _wrong_considered(document, whole)


def _wrong_considered(document: Json, whole: Problem) -> Iterator[str]:
    asked, bound = objective_of(whole.requirements), document["objective"]["bound"]
    for part in CONSIDERED:
        seen = set()
        for number, row in enumerate(document[part]):
            name, placement = f"{part}[{number}]", placement_from(row["placement"])
            there = whole  # what breaks the age of prices has no offer in the question
            if part == "near_misses" and whole.requirements.oldest_price is not None:
                there = replace(whole, requirements=replace(whole.requirements, oldest_price=None))
            priced = estimate(placement, there)
            yield from wrong_pricing(row, there, placement, priced, f"{name}.")
            if part != "alternatives":
                continue
            if placement.canonical() in seen:
                yield f"{name} appears twice"
            seen.add(placement.canonical())
            broken = violations(placement, whole)
            if broken:
                yield f"{name} breaks a limit: {broken[0].message}"
            if bound is not None and not broken and asked.beats_bound(asked.value(priced), bound):
                yield f"{name} beats the bound {bound:.9g}"


def _digests(certificate: Json, document: Json) -> Iterator[str]:
    for name, digest in input_digests(document["problem"]).items():
        if certificate["inputs"][name] != digest:
            yield f"the digest of the {name} in the file differs from its certificate"
    books = document["data"]["digest"], document["problem"]["catalog"]["digest"]
    if any(certificate["book"] != digest for digest in books):
        yield "the digest of the price book differs from its certificate"


def _settings(certificate: Json, document: Json) -> Iterator[str]:
    if certificate["solver"] != document["solver"]["name"]:
        yield f"the certificate is of the solver {str(certificate['solver'])[:40]}"
    gap = document["objective"]["gap"]
    # A search without a gap rounds the bounds of its leaves outwards, by `SAME`.
    slack = 2 * SAME
    if document["status"] == "optimal" and gap is not None and gap > certificate["gap"] + slack:
        yield (
            f"an optimal answer with a gap of {gap:.3g}, where {certificate['gap']:.3g} was "
            f"asked for"
        )


def wrong_prices(given: Json, document: Json) -> Iterator[str]:
    """Yield where the second implementation differs from what a document with ``problem``,
    ``placement`` and ``estimate`` says, by `placer.documents.saved_result.figures` as given.
    """
    estimate = document["estimate"]
    case = Case(
        document["problem"], document["placement"], given, estimate["samples_to_target"]["value"]
    )
    bill = round_of(case)
    usd = dollars_of(case, bill)
    processed = case.batch * case.local_steps / bill.seconds
    counted = processed / case.multiplier
    rows = {
        "step_seconds.total": bill.seconds,
        "samples_per_second.value": processed,
        "effective_samples_per_second.value": counted,
        "usd_per_million_samples": usd["total"] / 3600 / counted * 1e6,
        **{f"usd_per_hour.{name}": value for name, value in usd.items()},
    }
    for name, computed in rows.items():
        written = reduce(getitem, name.split("."), estimate)
        slack = SAME * usd["total"] if name.startswith("usd_per_hour.") else 0.0
        if not math.isclose(computed, written, rel_tol=SAME, abs_tol=slack):
            yield (
                f"estimate.{name} is written as {written:.12g}; the second implementation finds "
                f"{computed:.12g}"
            )
    for text in broken_limits(case, bill, counted, usd):
        yield f"the second implementation finds a broken limit: {text}"


def _estimated(document: Json) -> Iterator[str]:
    """Yield figures that nobody measured and the second implementation takes as given."""
    given = document["certificate"]["figures"]
    known = ("measured", "published")
    speeds = sorted({row["gpu"] for row in given["machines"] if row["basis"] not in known})
    links = sum(row["basis"] == "estimated" and row["from"] != row["to"] for row in given["links"])
    figures = [f"the speed of {', '.join(speeds)}"] if speeds else []
    figures += [f"{links} links"] if links else []
    if figures:
        yield f"estimated, not measured: {' and '.join(figures)}"

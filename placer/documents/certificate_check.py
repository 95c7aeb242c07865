"""Check of a certificate: prices by the second implementation, digests, limits and the arithmetic
of the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from placer.cost_model.objective import Objective, objective_named
from placer.documents.certificate import (
    SCHEMA,
    device_speeds,
    holds_market,
    input_digests,
    relaxed_modes,
)
from placer.documents.checker.case import Case
from placer.documents.checker.dollars import dollars_of
from placer.documents.checker.limits import broken_limits
from placer.documents.checker.seconds import round_of
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.units import format_number

SAME = 1e-9
"""Relative difference up to which a figure counts as the same."""
NOT_COVERED = (
    "emissions, intervals, the outlook on spot machines and a month, alternatives and sentences"
)
"""What only the model itself works out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """Sentences: what a certificate confirms from its file alone, and what is taken on trust."""

    confirmed: tuple[str, ...]
    trusted: tuple[str, ...]


def check_certificate(document: Mapping[str, Any], where: str) -> Checked:
    """Check the certificate of a result document that prices as it says.

    Raises
    ------
    PlacerError
        If a digest, a price, a limit, a bound or a count does not hold; names it.
    """
    wrong = next(_faults(document), "")
    if wrong:
        raise PlacerError(f"{where}: {wrong}", "the file was edited, or made by another version")
    if "certificate" not in document:
        return Checked(
            confirmed=(),
            trusted=("no certificate in this file: it was written by an older version",),
        )
    confirmed, trusted = [], []
    if document["placement"] is not None:
        usd, speed = (
            document["estimate"]["usd_per_hour"]["total"],
            document["estimate"]["effective_samples_per_second"]["value"],
        )
        priced = (
            f"{format_number(speed)} samples/s that count for {usd:.6g} USD/h, within all limits"
        )
        confirmed.append(f"a second implementation finds {priced}")
        trusted += [
            *_estimated(document),
            f"not covered by the second implementation: {NOT_COVERED}",
        ]
    if "problem" in document:
        confirmed.append("digests of profile, catalog, requirements and calibration")
    bound = _bound_words(document)
    confirmed += bound.confirmed
    trusted = [*bound.trusted, *trusted]
    return Checked(confirmed=tuple(confirmed), trusted=tuple(trusted))


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong, the most telling first."""
    certificate = document.get("certificate")
    if certificate is not None and certificate["schema"] != SCHEMA:
        yield f"unknown certificate {str(certificate['schema'])[:40]}"
    if certificate is not None and "problem" in document:
        yield from _digests(certificate, document)
    if certificate is not None and document["placement"] is not None:
        yield from _odd_figures(certificate["figures"])
        yield from _priced(certificate, document)
    if certificate is not None:
        yield from _settings(certificate, document)
    if "proof" in document:
        yield from _bounds(document)
    if certificate is not None and certificate["relaxation"] is not None:
        yield from _relaxation(certificate, document)


def _digests(certificate: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    for name, digest in input_digests(document["problem"]).items():
        if certificate["inputs"][name] != digest:
            yield f"the digest of the {name} in the file differs from its certificate"
    for key, written in (
        ("book", document["data"]["digest"]),
        ("book", document["problem"]["catalog"]["digest"]),
    ):
        if certificate[key] != written:
            yield "the digest of the price book differs from its certificate"


def _odd_figures(given: Mapping[str, Any]) -> Iterator[str]:
    """Yield speeds that no machine or link has."""
    for rows, names in (
        ("machines", ("alone", "in_group")),
        ("links", ("bytes_per_second", "cap")),
    ):
        for row in given[rows]:
            yield from (
                f"{name} of the certificate is {row[name]}" for name in names if not row[name] > 0
            )
    yield from (
        f"rtt_s of the certificate is {row['rtt_s']}"
        for row in given["links"]
        if not 0 <= row["rtt_s"] < math.inf
    )


def _settings(certificate: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
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


def _priced(certificate: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    """Yield where the second implementation differs from what is written."""
    estimate, given = document["estimate"], certificate["figures"]
    case = Case(
        document["problem"], document["placement"], given, estimate["samples_to_target"]["value"]
    )
    bill = round_of(case)
    usd = dollars_of(case, bill)
    processed = case.batch * case.local_steps / bill.seconds
    counted = processed / case.multiplier
    rows = [
        ("step_seconds.total", bill.seconds, estimate["step_seconds"]["total"], 0.0),
        ("samples_per_second.value", processed, estimate["samples_per_second"]["value"], 0.0),
        (
            "effective_samples_per_second.value",
            counted,
            estimate["effective_samples_per_second"]["value"],
            0.0,
        ),
        (
            "usd_per_million_samples",
            usd["total"] / 3600 / counted * 1e6,
            estimate["usd_per_million_samples"],
            0.0,
        ),
        *(
            (f"usd_per_hour.{name}", value, estimate["usd_per_hour"][name], SAME * usd["total"])
            for name, value in usd.items()
        ),
    ]
    for name, computed, written, slack in rows:
        if not math.isclose(computed, written, rel_tol=SAME, abs_tol=slack):
            yield (
                f"estimate.{name} is written as {written:.12g}; the second implementation finds "
                f"{computed:.12g}"
            )
    for text in broken_limits(case, bill, counted, usd["total"]):
        yield f"the second implementation finds a broken limit: {text}"


def _bounds(document: Mapping[str, Any]) -> Iterator[str]:
    """Check the arithmetic of the bound: value, modes, total, counts."""
    objective, modes = document["objective"], document["proof"]
    if not modes:
        return
    bound, value, asked = objective["bound"], objective["value"], objective_named(objective["name"])
    known = [mode["bound"] for mode in modes if mode["bound"] is not None]
    unknown = [mode for mode in modes if mode["method"] == "stopped" and mode["bound"] is None]
    if bound is not None and (unknown or not known or asked.best(known) != bound):
        yield (
            f"objective.bound is written as {bound:.9g}, which is not the best of the bounds of "
            f"the modes"
        )
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
        own = document["placement"] is not None and name == _name_of(document["placement"])
        if own and (
            mode["bound"] is None
            or (not _same(mode["bound"], value) and asked.better(value, mode["bound"]))
        ):
            yield f"the bound of {name} is beaten by the placement"
    for key, total in (("nodes", "nodes"), ("priced", "candidates")):
        counted = sum(mode[key] for mode in modes)
        if counted > document["solver"][total]:
            yield (
                f"solver.{total} is written as {document['solver'][total]}, but the modes have "
                f"{counted} together"
            )


def _same(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=SAME, abs_tol=1e-12)


def _name(mode: Mapping[str, Any]) -> str:
    steps = mode["local_steps"]
    return (
        "one machine"
        if mode["strategy"] == "none"
        else mode["strategy"] + (f" H={steps}" if steps > 1 else "")
    )


def _name_of(placement: Mapping[str, Any]) -> str:
    return _name({"strategy": placement["exchange"], "local_steps": placement["local_steps"]})


def _relaxation(certificate: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    """Work the bounds by weak duality out again, and compare speeds by device with the model's."""
    relaxation = certificate["relaxation"]
    if relaxation["speeds"] != device_speeds(Problem.from_dict(document["problem"])):
        yield "the speeds of the certificate are not those of the profile"
    if any(not 0 <= multiplier < math.inf for multiplier in relaxation["multipliers"]):
        yield "a multiplier of the certificate is below 0"
    again = relaxed_modes(
        document["problem"], relaxation["speeds"], relaxation["multipliers"], relaxation["modes"]
    )
    for written, computed in zip(relaxation["modes"], again, strict=True):
        one, other = written["bound"], computed["bound"]
        if (one is None) != (other is None) or (
            one is not None and other is not None and not _same(one, other)
        ):
            yield (
                f"the bound of {_name(written)} by weak duality is written as {one}, but comes "
                f"to {other}"
            )
    if {_name(m) for m in relaxation["modes"]} != {_name(m) for m in document["proof"]}:
        yield "the certificate bounds other strategies than the proof"


def _bound_words(document: Mapping[str, Any]) -> Checked:
    """Say what is known of the bound."""
    objective, modes = document["objective"], document["proof"]
    asked, bound = objective_named(objective["name"]), objective["bound"]
    if not modes:
        words = (
            "nothing is proved"
            if bound is None
            else "the bound is the word of the solver; --again solves again"
        )
        return Checked(confirmed=(), trusted=(words,))
    confirmed = []
    if bound is not None:
        gap = (
            f", {100 * objective['gap']:.3g} % from the value"
            if objective["gap"] > SAME
            else ", and the value reaches it"
        )
        confirmed.append(
            f"the bound of {format_number(bound)} {asked.unit} "
            f"is the best of {len(modes)} bounds{gap}"
        )
    relaxation = document["certificate"]["relaxation"]
    closed = (
        []
        if relaxation is None
        else [m for m in relaxation["modes"] if _closed(m["bound"], bound, asked)]
    )
    if closed:
        offers = len(document["problem"]["catalog"]["offers"])
        most = "; ".join(
            f"{_name(m)} {'none fits' if m['bound'] is None else format_number(m['bound'])}"
            for m in closed
        )
        confirmed.append(
            f"weak duality over the {offers:,} offers in the file, worked out again, closes "
            f"({asked.unit} at best): {most}"
        )
    names = {_name(mode) for mode in closed}
    trusted = [
        (
            f"{_name(mode)}: "
            f"{METHOD_WORDS[mode['method']].format(nodes=mode['nodes'], priced=mode['priced'])}"
        )
        for mode in modes
        if _name(mode) not in names
    ]
    if not holds_market(document["certificate"]):
        trusted.append(
            "the market is not in this file: --certificate keeps it, so that bounds can be worked "
            "out again"
        )
    return Checked(confirmed=tuple(confirmed), trusted=tuple(trusted))


METHOD_WORDS = {
    "alone": "every single machine was looked at",
    "root": "ruled out by the solver's relaxation, without a search",
    "search": "searched, {nodes:,} nodes, {priced:,} priced",
    "stopped": "not finished; the bound is that of the solver's relaxation",
}
"""How a bound was found, in words."""


def _closed(proved: float | None, bound: float | None, objective: Objective) -> bool:
    """Return whether what weak duality proves about a mode keeps it behind the bound of all."""
    if proved is None or bound is None:
        return proved is None
    return not objective.better(proved, bound, SAME)


def _estimated(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield figures that nobody measured and the second implementation takes as given."""
    given = document["certificate"]["figures"]
    speeds = sorted(
        {m["gpu"] for m in given["machines"] if m["basis"] not in ("measured", "published")}
    )
    links = sum(
        link["basis"] == "estimated" and link["from"] != link["to"] for link in given["links"]
    )
    figures = [
        *([f"the speed of {', '.join(speeds)}"] if speeds else []),
        *([f"{links} links"] if links else []),
    ]
    if figures:
        yield f"estimated, not measured: {' and '.join(figures)}"

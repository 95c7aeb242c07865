"""Saved results and their certificates: written by -o, and read again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.estimate import Estimate, estimate, evaluate, exchange_phases, pool_of
from placer.cost_model.limits import violations
from placer.cost_model.objective import gap_between, objective_of
from placer.cost_model.reduced_problem import question_alone, used_problem
from placer.documents.checker.market import machines_of
from placer.documents.checker.strategies import Relaxed
from placer.documents.manifest.manifest_reader import document_digest
from placer.documents.result_parts import (
    EXCHANGE,
    GROUP,
    estimate_document,
    island_document,
    outlook_document,
    placement_document,
    request_document,
    totals_document,
)
from placer.errors import refuse
from placer.market.catalog import OLD_TRANSPORT
from placer.market.network.graph import Link
from placer.market.words.own_places import SITES
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.placement import NO_EXCHANGE, Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.question import PARTS
from placer.problem.workers.pool import Pool
from placer.records import Json, replace
from placer.units import format_plain
from placer.version import __version__
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import never_tried

SCHEMA = "placer.certificate/v1"
MULTIPLIERS = 24
"""Lagrange multipliers between the worst and the best speed for a dollar of the market."""


def searched_document(problem: Problem) -> dict[str, Any]:
    """Build which workers with a plan a proof is about: how many, of how many machines of each
    kind; of each the fastest of all plans and of all microbatches up to a rank's share, but those
    that are never tried.
    """
    architecture = problem.profile.architecture
    wish = problem.requirements
    machines: dict[tuple[Any, ...], list[int]] = {}
    for kind in problem.worker_kinds:
        first = kind.offers[0]
        key = first.gpu, first.gpu_count, first.network_gbps or 0.0, first.fabric
        least, most = machines.get(key, [kind.least, kind.most])
        machines[key] = [min(least, kind.least), max(most, kind.most)]
    names = ("gpu", "gpu_count", "network_gbps", "fabric")
    return {
        "workers": [wish.min_workers, min(wish.max_workers, problem.batch)],
        "islands": [
            {**dict(zip(names, key, strict=True)), "machines": machines[key]}
            for key in sorted(machines)
        ],
        **({} if architecture is None else {"never_tried": never_tried(architecture)}),
    }


def holds_market(certificate: Json) -> bool:
    """Return whether a saved file has the whole market; old ones say it by their relaxation."""
    return bool(certificate.get("whole", certificate["relaxation"] is not None))


def input_digests(problem: Json) -> dict[str, str]:
    """Return the SHA-256 of the canonical JSON of each part of a problem document."""
    return {name: document_digest(problem[name]) for name in PARTS}


def figures(placement: Placement, problem: Problem) -> dict[str, Any]:
    """Build the speeds of the machines and links of a placement, as the model has them. The second
    implementation takes those as given that nobody measured.
    """
    exchange, network = placement.exchange, problem.network
    places = {*placement.places, *filter(None, (exchange.aggregator, exchange.storage))}
    pairs = {
        (t.src, t.dst)
        for phase in exchange_phases(placement, problem)
        for t in phase.transfers
        if t.src != t.dst
    }
    pairs |= {(place, place) for place in places} | {(dst, src) for src, dst in pairs}
    if problem.data_store is not None:
        pairs |= {(problem.data_store.place, place) for place in placement.places}
    if problem.data_copy is not None:
        pairs.add((problem.data_copy.source.place, problem.data_copy.store.place))
    return {
        "machines": [
            {
                "place": group.place,
                "offer": group.instance_type,
                "market": group.market,
                **_speeds(pool, group.machines, group.inner),
                **({} if pool.free_share == 1 else {"free_share": pool.free_share}),
            }
            for group in placement.groups
            for pool in [pool_of(group, problem, placement.workers)]
        ],
        "links": [_link_document(network.link(src, dst)) for src, dst in sorted(pairs)],
    }


def _speeds(pool: Pool, machines: int, inner: InnerPlan | None) -> dict[str, Any]:
    return {
        "gpu": pool.offer.gpu,
        "gpu_count": pool.offer.gpu_count,
        "alone": pool.alone.value,
        "in_group": pool.shared.value,
        "basis": pool.alone.basis,
        **island_document(machines, inner),
    }


def store_links(problem: Problem) -> list[dict[str, Any]]:
    """Build the links from the dataset's store to all admitted machines, and the lines of sites."""
    store, places = problem.data_store, {*problem.pools.places[1]}
    if store is None:
        return []
    pairs = {(store.place, place) for place in places}
    pairs |= {(place, place) for place in places if place.startswith(SITES)}
    return [_link_document(problem.network.link(src, dst)) for src, dst in sorted(pairs)]


def _link_document(link: Link) -> dict[str, Any]:
    speed = {name: getattr(link, name) for name in ("bytes_per_second", "cap", "rtt_s", "basis")}
    return {"from": link.src, "to": link.dst, **speed}


def relaxation_document(
    saved: Json, problem: Problem, modes: Iterable[tuple[str, int]]
) -> dict[str, Any]:
    """Build what the bounds of whole strategies are checked with: speeds by device, multipliers,
    and the bound of each strategy with its local steps.
    """
    speeds = device_speeds(problem)
    machines = machines_of(saved, speeds)
    ratios = [machine.speed / max(machine.usd, 1e-6) for machine in machines]
    low, high = min(ratios) / 20, max(ratios) * 5
    multipliers = [low * (high / low) ** (k / (MULTIPLIERS - 1)) for k in range(MULTIPLIERS)]
    factors = [mode_factor(strategy, local_steps, problem) for strategy, local_steps in modes]
    return {
        "speeds": speeds,
        "multipliers": multipliers,
        "modes": relaxed_modes(saved, speeds, multipliers, factors),
    }


def relaxed_modes(
    problem: Json, speeds: Sequence[Json], multipliers: Sequence[float], modes: Sequence[Json]
) -> list[dict[str, Any]]:
    """Bound each mode by weak duality: once to be written, again by ``placer validate``."""
    relaxed = Relaxed(problem, machines_of(problem, speeds), multipliers)
    return [
        {
            **mode,
            "bound": relaxed.best(mode["strategy"], mode["local_steps"], mode["samples_to_target"]),
        }
        for mode in modes
    ]


def mode_factor(strategy: str, local_steps: int, problem: Problem) -> dict[str, Any]:
    """Build one mode with its samples-to-target factor."""
    exchange = exchange_for(strategy, 1, problem, local_steps=local_steps)
    factor = (
        batch_factor(problem) if strategy == NO_EXCHANGE else multiplier_of(exchange, problem).value
    )
    return {"strategy": strategy, "local_steps": local_steps, "samples_to_target": factor}


def device_speeds(problem: Problem) -> list[dict[str, Any]]:
    """List samples/s of each admitted device, alone and in a group."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    islands = problem.island_question is not None
    for pool in problem.pools:
        offer = pool.offer
        # The plan inside a worker depends on its network, a machine without a plan does not.
        network = (offer.network_gbps or 0.0, offer.fabric) if islands else ()
        row = _speeds(pool, pool.machines, pool.inner)
        if islands:
            row |= {"network_gbps": offer.network_gbps, "fabric": offer.fabric}
        kind = (offer.gpu, offer.gpu_count, pool.machines, *network)
        # Of machines that read their samples at different speeds the fastest bounds them all.
        kept = rows.setdefault(kind, row)
        for speed in ("alone", "in_group"):
            kept[speed] = max(kept[speed], row[speed])
    return [rows[kind] for kind in sorted(rows)]


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
            **{name: document[name] for name in EXCHANGE},
            transport=document.get("transport", OLD_TRANSPORT),
            aggregator=aggregator and aggregator["place"],
            aggregator_memory_gib=aggregator and aggregator["memory_gib"],
            server=server and _group_from(server),
            storage=storage and storage["place"],
        ),
    )


def _group_from(row: Json) -> WorkerGroup:
    return WorkerGroup(
        instance_type=row["offer"],
        machines=row.get("machines", 1),
        inner=msgspec.convert(row["inner"], InnerPlan) if row.get("inner") else None,
        behind=tuple(map(_group_from, row.get("behind", ()))),
        **{name: row[name] for name in GROUP},
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


def is_request(written: Json, request: Json) -> bool:
    """Tell whether a request is that of the problem; keys that came later may be missing, but not
    that of a quota, which means another one where it is missing.
    """
    from placer.documents.schemas.parts import Request

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

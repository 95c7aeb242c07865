"""What a manifest is good for: its plan can be priced and timed again from the file alone, by its
question and its placement; and what placer's runtime cannot do with it, said before anything is
started or rented.
"""

from __future__ import annotations

from placer.documents.manifest.types import Group, Manifest
from placer.errors import PlacerError
from placer.market.checks.agreement import check_figures
from placer.problem.exchange import traits
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.problem.problem import Problem
from placer.problem.requirements import OUTER
from placer.records import replace
from placer.workload.engines import ENGINES
from placer.workload.profile import FEEDBACK_COMPRESSIONS


def question_of(manifest: Manifest, where: str) -> tuple[Problem, Placement]:
    """Rebuild the problem and the placement of a manifest.

    Raise `PlacerError` if the manifest has no question, or the question lacks what the plan uses.
    """
    if manifest.question is None:
        raise PlacerError(
            f"{where}: a manifest without links and prices",
            "write it again with placer recommend --manifest FILE",
        )
    try:
        problem = Problem.from_dict(manifest.question)
        check_figures(problem.catalog)
        exchange = exchange_of(manifest, _server(manifest, problem))
    except PlacerError as error:
        raise PlacerError(
            f"{where}: {error.message}", error.hint, exit_code=error.exit_code
        ) from None
    placement = Placement(
        groups=tuple(_workers(group) for group in manifest.groups), exchange=exchange
    )
    if placement.workers > 1:  # the manifest's question says which software averages
        placement = replace(placement, exchange=replace(exchange, transport=problem.transport))
    return problem, placement


def _workers(group: Group) -> WorkerGroup:
    offer = group.offer
    return WorkerGroup(
        place=group.place,
        instance_type=offer.instance_type,
        gpu=offer.gpu,
        gpu_count=offer.gpu_count,
        market=offer.market,
        count=group.count,
        machines=group.machines,
        inner=group.inner,
    )


def exchange_of(manifest: Manifest, server: WorkerGroup | None = None) -> Exchange:
    """Rebuild the exchange of a manifest, which lacks the whole machine of a server."""
    settings, hub, storage = manifest.exchange, manifest.aggregator, manifest.storage
    return Exchange(
        strategy=settings.strategy,
        compression=settings.compression,
        local_steps=settings.local_steps,
        streams=settings.streams,
        overlap=settings.overlap,
        aggregator=None if hub is None else hub.place,
        aggregator_memory_gib=None if hub is None else hub.memory_gib,
        server=server,
        storage=None if storage is None else storage.place,
    )


def _server(manifest: Manifest, problem: Problem) -> WorkerGroup | None:
    """Rebuild the machine of a parameter server, with its offer from the question's book."""
    hub = manifest.aggregator
    if hub is None or hub.server is None:
        return None
    for offer in problem.catalog.offers_at(hub.place):
        if (offer.instance_type, offer.market) == (hub.server.instance_type, hub.server.market):
            return WorkerGroup.of(offer, 1)
    raise PlacerError(
        f"the question has no {hub.server.instance_type} in {hub.place}", "write the manifest again"
    )


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raise `PlacerError` if the runtime lacks a part of it, or exchange, compression, overlap and
    local steps do not go together.
    """
    exchange, can = manifest.exchange, traits(manifest.exchange.strategy)
    lack = ENGINES["placer"].lack(exchange, manifest.groups)
    if lack is not None:
        raise PlacerError(f"{where}: placer run does not do {lack.part}", lack.remedy)
    if exchange.compression in FEEDBACK_COMPRESSIONS and not (can.outer or can.transport == "none"):
        raise PlacerError(
            f"{where}: {exchange.compression} is too coarse for the exchange {exchange.strategy}",
            f"plan it with {' or '.join(OUTER)}, or with int8",
        )
    if can.always_overlaps and not exchange.overlap:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} always overlaps the calculation",
            "plan it again",
        )
    if exchange.local_steps > 1 and not can.local_steps:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} comes after each step, not after "
            f"{exchange.local_steps}",
            "plan it again",
        )

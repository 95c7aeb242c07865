"""What placer's runtime cannot do with a manifest: said before anything is started or rented."""

from __future__ import annotations

from placer.documents.manifest.types import Manifest
from placer.errors import PlacerError
from placer.problem.exchange import traits
from placer.problem.requirements import OUTER
from placer.workload.engines import ENGINES
from placer.workload.profile import FEEDBACK_COMPRESSIONS


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raises
    ------
    PlacerError
        If the runtime lacks a part of it, or exchange, compression, overlap and local steps do not
        go together.
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

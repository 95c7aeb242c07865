"""What placer's runtime cannot do with a manifest: said before anything is started or rented."""

from __future__ import annotations

from placer.documents.manifest.types import Manifest
from placer.errors import PlacerError
from placer.problem.exchange import traits
from placer.workload.profile import COMPRESSION_BYTES


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raises
    ------
    PlacerError
        If the compression is unknown, or the strategy has no overlap or no local steps and the plan
        has.
    """
    exchange, can = manifest.exchange, traits(manifest.exchange.strategy)
    if exchange.compression not in COMPRESSION_BYTES:
        raise PlacerError(
            f"{where}: compression '{exchange.compression}' is unknown", "none, fp16 or int8"
        )
    if exchange.overlap and not can.may_overlap:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} cannot run beside the next step",
            "plan it without --overlap",
        )
    if exchange.local_steps > 1 and not can.local_steps:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} comes after each step, not after "
            f"{exchange.local_steps}",
            "plan it again",
        )

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
    said, can = manifest.exchange, traits(manifest.exchange.strategy)
    if said.compression not in COMPRESSION_BYTES:
        raise PlacerError(
            f"{where}: compression '{said.compression}' is unknown", "none, fp16 or int8"
        )
    if said.overlap and not can.may_overlap:
        raise PlacerError(
            f"{where}: the exchange {said.strategy} cannot run beside the next step",
            "plan it without --overlap",
        )
    if said.local_steps > 1 and not can.local_steps:
        raise PlacerError(
            f"{where}: the exchange {said.strategy} comes after each step, not after "
            f"{said.local_steps}",
            "plan it again",
        )

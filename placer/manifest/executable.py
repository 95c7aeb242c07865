"""What placer's runtime cannot do with a manifest: said before anything is started or rented."""

from __future__ import annotations

from placer.errors import PlacerError
from placer.manifest.document import Manifest
from placer.profile import COMPRESSION_BYTES


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raises
    ------
    PlacerError
        If the compression is unknown, or the exchange runs beside the next step.
    """
    if manifest.exchange.compression not in COMPRESSION_BYTES:
        raise PlacerError(f"{where}: compression '{manifest.exchange.compression}' is unknown", "none, fp16 or int8")
    if manifest.exchange.overlap:
        raise PlacerError(f"{where}: the plan runs the exchange beside the next step", "placer run does not: plan without --overlap")

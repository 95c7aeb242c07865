"""What placer's runtime cannot do with a manifest: said before anything is started or rented."""

from __future__ import annotations

from placer.documents.manifest.types import Group, Manifest
from placer.errors import PlacerError
from placer.problem.exchange import traits
from placer.problem.requirements import OUTER
from placer.workload.profile import COMPRESSION_BYTES, FEEDBACK_COMPRESSIONS

UNEXECUTED = ("fp16", "fp8")
"""Precisions that need scaling of losses or of matrices."""


def check_executable(manifest: Manifest, where: str) -> None:
    """Refuse plans that ``placer run`` does not run.

    Raises
    ------
    PlacerError
        If the compression is unknown, an inner plan divides the model or has a precision that is
        not executed, or the strategy has no overlap or no local steps and the plan
        has.
    """
    exchange, can = manifest.exchange, traits(manifest.exchange.strategy)
    if exchange.compression not in COMPRESSION_BYTES:
        raise PlacerError(
            f"{where}: compression '{exchange.compression}' is unknown",
            f"one of {', '.join(COMPRESSION_BYTES)}",
        )
    if exchange.compression in FEEDBACK_COMPRESSIONS and not (can.outer or can.transport == "none"):
        raise PlacerError(
            f"{where}: {exchange.compression} is too coarse for the exchange {exchange.strategy}",
            f"plan it with {' or '.join(OUTER)}, or with int8",
        )
    for group in manifest.groups:
        _check_inner(group, where)
    if exchange.overlap and not can.may_overlap:
        raise PlacerError(
            f"{where}: the exchange {exchange.strategy} cannot overlap the next step",
            "plan it without --overlap",
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


def _check_inner(group: Group, where: str) -> None:
    inner = group.inner
    if inner is not None and (inner.rank_gpus > 1 or inner.expert_parallel > 1):
        raise PlacerError(
            f"{where}: placer run divides no matrices, stages, experts or sequences, and group "
            f"{group.name} works by {inner.spec[1:]}",
            "export it to torchtitan or megatron, or plan it with --tp 1 --pp 1 --ep 1 --cp 1",
        )
    if inner is not None and inner.precision in UNEXECUTED:
        raise PlacerError(
            f"{where}: placer run does not execute the precision {inner.precision} of group "
            f"{group.name}",
            "plan it with bf16, tf32 or fp32",
        )

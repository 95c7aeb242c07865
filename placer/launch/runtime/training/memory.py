"""Errors of a process that is out of memory: they name the place, what it holds, what it has, and
what to do.
"""

from __future__ import annotations

from placer.errors import PlacerError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.codec import Codec
from placer.units import GIB, format_bytes

REFUSED = (
    *("can't allocate memory", "not enough memory", "out of memory", "bad alloc"),
    "resource temporarily unavailable",
)
"""What PyTorch and C++ say where the system gives no more memory; the last one of a thread."""


def check_fits(plan: RunPlan, rank: int, elements: int) -> None:
    """Refuse a function that cannot hold the gradients of the model that is trained.

    Raises
    ------
    PlacerError
        Names place, gradients and memory.
    """
    gib = plan.exchange.aggregator_memory_gib
    need = len(plan.hub_at(rank).gathers) * Codec(plan.exchange.compression).size(elements)
    if gib is not None and need > gib * GIB:
        raise memory_error(plan, rank, elements)


def out_of_memory(error: BaseException) -> bool:
    """Return whether the system, or the memory limit of a process, refused memory.

    Examples
    --------
    >>> out_of_memory(MemoryError()), out_of_memory(RuntimeError("wrong shape"))
    (True, False)
    """
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in REFUSED)
    )


def memory_error(plan: RunPlan, rank: int, elements: int) -> PlacerError:
    """Build the error of a rank that got no more memory."""
    place, gib = plan.place_of(rank), plan.exchange.aggregator_memory_gib
    if rank < plan.workers:
        return PlacerError(
            f"out of memory: the worker in {place}, {plan.microbatch} samples at once by the plan",
            "give a smaller --microbatch",
            exit_code=1,
        )
    size = Codec(plan.exchange.compression).size(elements)
    words = (
        f"aggregator out of memory: the {plan.hub} in {place} holds "
        f"{len(plan.hub_at(rank).gathers)} gradients"
        f"{f' of {format_bytes(size)}' if elements else ''} and their sum"
    )
    hint = "take a server with more memory, or fewer workers"
    if gib is not None:
        words += f"; it has {gib:g} GiB"
        hint = "plan with the real size of the gradients, or fewer workers"
    return PlacerError(words, hint, exit_code=1)

"""Errors of a process that is out of memory: they name the place, what it holds, what it has, and
what to do.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from placer.errors import PlacerError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.wire.codec import Codec
from placer.units import GIB, format_bytes

REFUSED = (
    *("can't allocate memory", "not enough memory", "out of memory", "bad alloc"),
    "resource temporarily unavailable",
)
"""What PyTorch and C++ say where the system gives no more memory; the last one of a thread."""
VMSTAT = Path("/proc/vmstat")


def check_fits(plan: RunPlan, rank: int, elements: int) -> None:
    """Refuse a function that cannot hold the gradients of the model that is trained.

    Raises
    ------
    PlacerError
        Names place, gradients and memory.
    """
    memory_gib, need = (
        plan.exchange.aggregator_memory_gib,
        _held(plan, rank) * Codec(plan.exchange.compression).size(elements),
    )
    if memory_gib is not None and need > memory_gib * GIB:
        raise _too_small(plan, rank, elements)


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
    if rank >= plan.workers:
        return _too_small(plan, rank, elements)
    words = (
        f"out of memory: the worker in {plan.place_of(rank)}, {plan.microbatch} samples at "
        f"once by the plan"
    )
    return PlacerError(words, "give a smaller --microbatch", exit_code=1)


def _held(plan: RunPlan, rank: int) -> int:
    """Return the number of gradients that a hub holds at once."""
    return len(plan.hub_at(rank).gathers)


def _too_small(plan: RunPlan, rank: int, elements: int) -> PlacerError:
    place, has = plan.place_of(rank), plan.exchange.aggregator_memory_gib
    size = (
        f" of {format_bytes(Codec(plan.exchange.compression).size(elements))}" if elements else ""
    )
    words = (
        f"aggregator out of memory: the {plan.hub} in {place} holds {_held(plan, rank)} "
        f"gradients{size} and their sum"
    )
    if has is None:
        return PlacerError(words, "take a server with more memory, or fewer workers", exit_code=1)
    return PlacerError(
        f"{words}; it has {has:g} GiB",
        "plan with the real size of the gradients, or fewer workers",
        exit_code=1,
    )


def oom_kills() -> int:
    """Count the processes that the kernel has killed for lack of memory since it started; 0 where
    it does not report them.
    """
    with suppress(OSError, ValueError, IndexError):
        return int(
            next(
                (
                    line.split()[1]
                    for line in VMSTAT.read_text().splitlines()
                    if line.startswith("oom_kill ")
                ),
                "0",
            )
        )
    return 0

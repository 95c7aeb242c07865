"""One round of training in seconds: calculation, communication, and what of it overlaps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionRun:
    """One run of a cloud function: where, and for how many seconds (waiting included)."""

    place: str
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreUse:
    """One object store in one exchange: how many gradients are put into it, and polls that found
    nothing.
    """

    place: str
    gradients: int
    failed_polls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class StepSeconds:
    """From exchange to exchange in seconds: one optimizer step, or H local ones.

    Notes
    -----
    ``parts`` names what communication consists of; ``hidden`` is how much of it overlaps with the
    calculation. ``waiting`` is how long the first gradient waits for the last. ``functions`` and
    ``stores`` say what is billed by use.
    """

    calculation: float
    communication: float
    parts: tuple[tuple[str, float], ...] = ()
    hidden: float = 0.0
    waiting: float = 0.0
    functions: tuple[FunctionRun, ...] = ()
    stores: tuple[StoreUse, ...] = ()

    @property
    def total(self) -> float:
        """Calculation plus the communication that nothing hides.

        Notes
        -----
        Erben et al. (2024), logs: without overlap the plain sum holds within 0.94 % over 119 runs.
        """
        return self.calculation + self.communication - self.hidden


def overlapped(step: StepSeconds) -> StepSeconds:
    """Return the same step when the exchange runs beside the calculation of the next one: the
    longer of the two counts.
    """
    return StepSeconds(
        calculation=step.calculation,
        communication=step.communication,
        parts=step.parts,
        hidden=min(step.calculation, step.communication),
        waiting=step.waiting,
        functions=step.functions,
        stores=step.stores,
    )


def gain_bound(granularity: float, factor: float = 2.0) -> float:
    """Return the most that ``factor`` times the workers can multiply the throughput by.

    Notes
    -----
    Erben et al. (2024): calculation shrinks with the workers, communication does not: (1 + g) / (1
    + g / factor).

    Examples
    --------
    >>> round(gain_bound(1), 2), round(gain_bound(10), 2)
    (1.33, 1.83)
    """
    return (1 + granularity) / (1 + granularity / factor)

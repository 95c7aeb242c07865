"""The options of a rehearsal, and the checks before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.errors import PlacerError
from placer.launch.rehearsal.scaled_plan import Scaled
from placer.launch.rehearsal.worker_death import WorkerDeath
from placer.units import format_duration

WARM_ROUNDS = 1
"""Rounds that open connections, and are not counted."""
OVERLAP_ROUNDS = 2
"""Rounds more where the exchange runs beside the next one: the first has none yet, the last waits
for its own.
"""
MACHINE_ROUNDS = 4
"""Rounds without shaped links, the first of them not counted."""
MOST_PROCESSES = 48
"""About 100 MB of memory each."""
MOST_BYTES = 8e9
"""Most that a rehearsal sends between its machines."""


@dataclass(frozen=True, kw_only=True)
class RehearsalOptions:
    """The options of a rehearsal.

    Parameters
    ----------
    scale
        Bytes and calculation over those of the plan; None: so that a round takes a few seconds.
    rounds
        That are measured.
    per_group
        Most workers of each group; None: all.
    method
        Of the network: ``auto`` or one of `placer.launch.shaped_network`.
    limit_s
        Longest time that the prediction may say, all rounds together.
    kill
        A worker that dies, and when.
    train
        ``module:function`` of the user's own model; None: a vector of the scaled size.
    """

    scale: float | None = None
    rounds: int = 5
    per_group: int | None = None
    method: str = "auto"
    limit_s: float = 600.0
    kill: WorkerDeath | None = None
    train: str | None = None

    def all_rounds(self, *, overlap: bool) -> int:
        """Return the number of rounds that are run through shaped links."""
        return self.rounds + WARM_ROUNDS + (OVERLAP_ROUNDS if overlap else 0)


def check_plan(workers: int, where: str) -> None:
    """Refuse plans without an exchange."""
    if workers == 1:
        raise PlacerError(
            f"{where}: one worker exchanges nothing, so there is nothing to rehearse",
            "placer run executes it",
        )


def check_processes(machines: Sequence[str]) -> None:
    """Refuse what is too much for one machine: with a function and a store in each region a plan
    has many more processes than workers.
    """
    if len(machines) > MOST_PROCESSES:
        words = (
            f"workers, functions and stores of the plan are {len(machines)} processes, a "
            f"rehearsal has at most {MOST_PROCESSES}"
        )
        raise PlacerError(
            words, "rehearse fewer of each group: --per-group 1, or a plan of fewer regions"
        )


def check_size(small: Scaled, options: RehearsalOptions) -> None:
    """Refuse what takes too long or sends too much, before anything is started."""
    rounds = options.all_rounds(overlap=small.placement.exchange.overlap)
    seconds = small.estimate.step.total * rounds
    if seconds > options.limit_s:
        raise PlacerError(
            f"{rounds} rounds take at least {format_duration(seconds)}, the limit is "
            f"{format_duration(options.limit_s)}",
            "a smaller --scale or a larger --limit",
        )
    sent = sum(use.bytes_per_step for use in small.estimate.links) * (rounds + MACHINE_ROUNDS)
    if sent > MOST_BYTES:
        words = (
            f"the rehearsal would send {sent / 1e9:.3g} GB, the limit is {MOST_BYTES / 1e9:g} GB"
        )
        raise PlacerError(words, "a smaller --scale, or fewer --rounds")


def own_elements(train: str) -> int:
    """Count the trainable parameters of a user's model."""
    from placer.profiler.target import load_target
    from placer.profiler.workload import Workload

    workload = load_target(train, None)
    if not isinstance(workload, Workload):
        raise PlacerError(
            f"{train} returns a step function",
            "a rehearsal needs the model: return a Workload or (module, batch, loss)",
        )
    elements: int = sum(p.numel() for p in workload.module.parameters() if p.requires_grad)
    if not elements:
        raise PlacerError(
            f"the model of {train} has no parameter that is trained",
            "give a module with parameters that require a gradient",
        )
    return elements

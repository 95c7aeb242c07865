"""The options of a rehearsal, and the checks before anything is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from placer.errors import PlacerError
from placer.launch.rehearsal.small_plan import SmallPlan
from placer.launch.runtime.run_plan import RunPlan
from placer.units import format_duration

WARM_ROUNDS = 1
"""Rounds that open connections, and are not counted."""
OVERLAP_ROUNDS = 2
"""Rounds more where the exchange runs beside the next one: the first has none yet, the last waits
for its own.
"""
MOST_PROCESSES = 48
"""About 100 MB of memory each."""


@dataclass(frozen=True)
class WorkerDeath:
    """A worker whose machine dies after some steps, in the next one."""

    rank: int
    step: int

    @staticmethod
    def of(words: str) -> WorkerDeath:
        """Read ``RANK@STEP``.

        Raises
        ------
        PlacerError
            If the words are no rank and step.

        Examples
        --------
        >>> WorkerDeath.of("2@3")
        WorkerDeath(rank=2, step=3)
        """
        match = re.fullmatch(r"([0-9]{1,6})@([0-9]{1,9})", words.strip())
        if match is None or int(match[2]) < 1:
            raise PlacerError(
                f"'{words}' does not name a worker and a step",
                "give RANK@STEP with a step from 1, such as 1@2",
            )
        return WorkerDeath(rank=int(match[1]), step=int(match[2]))

    def check(self, plan: RunPlan, steps: int) -> None:
        """Refuse a worker or a step that a run of so many steps does not have.

        Raises
        ------
        PlacerError
            Says which there are.
        """
        if plan.buckets:
            raise PlacerError(
                f"--kill: functions and stores of {plan.exchange.strategy} start with their "
                f"workers as one run",
                "rehearse it without --kill",
            )
        if self.rank >= plan.workers or self.step >= steps:
            raise PlacerError(
                f"there is no worker {self.rank} that dies in step {self.step}",
                f"workers are ranks 0 to {plan.workers - 1}, steps 1 to {steps - 1}",
            )


@dataclass(frozen=True, kw_only=True)
class RehearsalOptions:
    """The options of a rehearsal.

    Parameters
    ----------
    scale
        Bytes over those of the plan; None: so that an exchange takes a second or two.
    rounds
        That are measured.
    per_group
        Most workers of each group; None: all.
    limit_s
        Longest time that all exchanges together are priced at.
    kill
        A worker that dies, and when.
    train
        ``module:function`` of the user's own model; None: a vector of the scaled size.
    """

    scale: float | None = None
    rounds: int = 5
    per_group: int | None = None
    limit_s: float = 600.0
    kill: WorkerDeath | None = None
    train: str | None = None

    def all_rounds(self, *, overlap: bool) -> int:
        """Return the number of rounds that are run."""
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


def check_size(small: SmallPlan, options: RehearsalOptions) -> None:
    """Refuse what takes too long, before anything is started."""
    rounds = options.all_rounds(overlap=small.placement.exchange.overlap)
    seconds = small.exchange_s * rounds
    if seconds > options.limit_s:
        raise PlacerError(
            f"{rounds} exchanges take at least {format_duration(seconds)}, the limit is "
            f"{format_duration(options.limit_s)}",
            "a smaller --scale or a larger --limit",
        )


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

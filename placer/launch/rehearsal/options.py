"""The options of a rehearsal, and the checks before anything is started."""

from __future__ import annotations

import re
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
        Rank of a worker whose machine dies, and the step in which it does.
    train
        ``module:function`` of the user's own model; None: a vector of the scaled size.
    """

    scale: float | None = None
    rounds: int = 5
    per_group: int | None = None
    limit_s: float = 600.0
    kill: tuple[int, int] | None = None
    train: str | None = None

    def all_rounds(self, *, overlap: bool) -> int:
        """Return the number of rounds that are run."""
        return self.rounds + WARM_ROUNDS + (OVERLAP_ROUNDS if overlap else 0)

    def check(self, small: SmallPlan, plan: RunPlan) -> None:
        """Refuse what cannot be rehearsed so, before anything is started.

        Raises
        ------
        PlacerError
            If it is too much for one machine, takes too long, or has no such worker or step.
        """
        processes, rounds = len(plan.machines), self.all_rounds(overlap=plan.exchange.overlap)
        if processes > MOST_PROCESSES:
            raise PlacerError(
                f"workers, functions and stores of the plan are {processes} processes, a rehearsal "
                f"has at most {MOST_PROCESSES}",
                "rehearse fewer of each group: --per-group 1, or a plan of fewer regions",
            )
        seconds = small.exchange_s * rounds
        if seconds > self.limit_s:
            raise PlacerError(
                f"{rounds} exchanges take at least {format_duration(seconds)}, the limit is "
                f"{format_duration(self.limit_s)}",
                "a smaller --scale or a larger --limit",
            )
        if self.kill is not None:
            check_kill(*self.kill, plan, rounds * plan.steps_per_round)


def read_kill(words: str) -> tuple[int, int]:
    """Read ``RANK@STEP``.

    Raises
    ------
    PlacerError
        If the words are no rank and step.

    Examples
    --------
    >>> read_kill("2@3")
    (2, 3)
    """
    match = re.fullmatch(r"([0-9]{1,6})@([0-9]{1,9})", words.strip())
    if match is None or int(match[2]) < 1:
        raise PlacerError(
            f"'{words}' does not name a worker and a step",
            "give RANK@STEP with a step from 1, such as 1@2",
        )
    return int(match[1]), int(match[2])


def check_kill(rank: int, step: int, plan: RunPlan, steps: int) -> None:
    """Refuse a worker or a step that a run of so many steps does not have."""
    if plan.buckets:
        raise PlacerError(
            f"--kill: functions and stores of {plan.exchange.strategy} start with their workers as "
            f"one run",
            "rehearse it without --kill",
        )
    if rank >= plan.workers or step >= steps:
        raise PlacerError(
            f"there is no worker {rank} that dies in step {step}",
            f"workers are ranks 0 to {plan.workers - 1}, steps 1 to {steps - 1}",
        )

"""The death of a worker in a rehearsal: its time, its effect, and what is lost."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from placer.errors import PlacerError
from placer.launch.runtime.processes.launcher import Record
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies import executed
from placer.launch.runtime.training.checkpoint import steps_of
from placer.launch.runtime.training.context import Settings
from placer.records import replace
from placer.units import counted

LEAST_BESIDE = 3
"""Rounds between checkpoints of which one has an exchange beside it: the first has none yet, the
last waits for its own.
"""


@dataclass(frozen=True, kw_only=True)
class WorkerDeath:
    """A worker that gets SIGKILL after some steps, so that it dies in the next one."""

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

    def check(self, workers: int, steps: int) -> None:
        """Refuse a worker or a step that a run of so many does not have.

        Raises
        ------
        PlacerError
            Says which there are.
        """
        if self.rank >= workers or self.step >= steps:
            words = f"there is no worker {self.rank} that dies in step {self.step}"
            raise PlacerError(
                words, f"workers are ranks 0 to {workers - 1}, steps 1 to {steps - 1}"
            )


def run_with_death(
    kill: WorkerDeath,
    plan: RunPlan,
    settings: Settings,
    run: Callable[[Settings, Callable[[Record], None]], list[Record]],
    watch: Callable[[Record], None],
    tell: Callable[[str], None],
) -> list[Record]:
    """Run with a death; where the strategy cannot go on without the worker, resume from what was
    kept.

    Parameters
    ----------
    run
        Runs the plan with settings and a watch.
    tell
        Takes sentences on what happened.

    Returns
    -------
    list
        Records of the whole: those of the run that was ended and of the one that resumed it.

    Raises
    ------
    PlacerError
        If there is no such worker or step, or the run cannot be resumed.
    """
    kill.check(plan.workers, settings.steps)
    pids: dict[int, int] = {}
    seen: list[Record] = []
    died = [0.0]

    def both(record: Record) -> None:
        watch(record)
        seen.append(record)
        if record["kind"] == "ready":
            pids[record["rank"]] = record["pid"]
        if (
            record["kind"] == "step"
            and record["rank"] == kill.rank
            and record["step"] + 1 == kill.step
            and not died[0]
        ):
            died[0] = time.monotonic()
            os.kill(pids[kill.rank], signal.SIGKILL)

    elastic = executed(plan).ELASTIC
    settings = replace(settings, elastic=elastic, checkpoint_every=_every(kill, plan))
    try:
        records = run(settings, both)
    except PlacerError as error:
        if not died[0]:
            raise
        waited_s = time.monotonic() - died[0]
        tell(
            f"{plan.rank_name(kill.rank)} killed in step {kill.step}; {waited_s:.1f} s later the "
            f"run had ended: {error.message}"
        )
        before = [r for r in seen if r["kind"] != "run"]
        records = run(replace(settings, resume=_kept(plan, settings)), watch)
        start = next(r["start"] for r in records if r["kind"] == "ready")
        done = (
            min(
                (r["step"] for r in before if r["kind"] == "step" and r["rank"] == kill.rank),
                default=0,
            )
            + kill.step
        )
        again = (
            f"resumed before step {start}" if start else "nothing was kept yet, so it began again"
        )
        tell(f"{again}: {_lost(done - start)}")
        return [
            records[0],
            *(r for r in before if r["kind"] != "step" or r["step"] < start),
            *records[1:],
        ]
    went_on = (
        f"{counted(plan.workers - 1, 'worker')} went on, its samples of the step under way "
        f"were left out"
    )
    tell(f"{plan.rank_name(kill.rank)} killed in step {kill.step}; {went_on}")
    return records


def _every(kill: WorkerDeath, plan: RunPlan) -> int:
    """Return the steps between checkpoints: a round, unless that would leave no overlapped
    exchange.

    Notes
    -----
    Then those who are left keep what they have, or where nobody's state serves the others, there is
    a checkpoint before the death.
    """
    if not plan.exchange.overlap:
        return plan.steps_per_round
    if executed(plan).REPLICATED:
        return 0
    return plan.steps_per_round * max(LEAST_BESIDE, kill.step // plan.steps_per_round)


def _kept(plan: RunPlan, settings: Settings) -> bool:
    """Return whether all workers have a checkpoint of one step. Early in the first round of local
    steps they have none.
    """
    folder, replicated = Path(settings.checkpoints or ""), executed(plan).REPLICATED
    return bool(
        set.intersection(
            *(steps_of(folder, rank, replicated=replicated) for rank in range(plan.workers))
        )
        - {0}
    )


def _lost(steps: int) -> str:
    if steps <= 0:
        return "nothing was lost but the step under way"
    return f"{counted(steps, 'whole step')} and the step under way were done again"

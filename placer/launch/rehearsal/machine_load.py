"""How busy this machine was during a rehearsal: a plan is not to blame for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL = range(8)
"""Columns of its first row: time of all CPUs since the start, in ticks."""
MOST_IN_USE, MOST_STOLEN = 0.9, 0.05
"""Shares of CPU time beyond which seconds are not those of a quiet machine: workers wait for a CPU
that is in use 90 % of the time (assumed), and notice 5 % that the host gives to other machines.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineLoad:
    """Shares of the CPU time of this machine, 0 to 1.

    Parameters
    ----------
    in_use
        By any process of this machine.
    stolen
        By the host of a virtual machine for others.
    """

    in_use: float
    stolen: float

    @property
    def is_busy(self) -> bool:
        """Return whether seconds measured meanwhile say little about the plan."""
        return self.in_use + self.stolen > MOST_IN_USE or self.stolen > MOST_STOLEN

    def __str__(self) -> str:
        """Say both shares."""
        stolen = f", {self.stolen:.0%} stolen by its host" if self.stolen >= 0.005 else ""
        return f"its CPUs were {self.in_use:.0%} in use{stolen}"


def cpu_ticks() -> tuple[int, ...]:
    """Read the time of all CPUs since the start; empty where the system does not say."""
    try:
        with STAT.open(encoding="ascii") as rows:
            return tuple(int(word) for word in rows.readline().split()[1:9])
    except (OSError, ValueError):
        return ()


def load_between(before: Sequence[int], after: Sequence[int]) -> MachineLoad | None:
    """Return the load between two readings of `cpu_ticks`; None where the system does not say.

    Examples
    --------
    Of 100 ticks 60 were in use and 10 stolen.

    >>> load_between((0,) * 8, (40, 0, 20, 30, 0, 0, 0, 10))
    MachineLoad(in_use=0.6, stolen=0.1)
    """
    if len(before) <= STEAL or len(after) <= STEAL:
        return None
    ticks = [end - begin for begin, end in zip(before, after, strict=True)]
    total = sum(ticks)
    if total <= 0:
        return None
    idle = ticks[IDLE] + ticks[IOWAIT]
    return MachineLoad(in_use=(total - idle - ticks[STEAL]) / total, stolen=ticks[STEAL] / total)

"""Limits on sums over several kinds of workers: joint quotas of GPUs, the number of machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placer.problem.requirements import Quota, Requirements


class Counted(Protocol):
    """A kind of worker: what one of them takes of a limited sum."""

    @property
    def machines(self) -> int:
        """Machines of one worker."""

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""

    @property
    def bucket(self) -> tuple[str, str, str]:
        """Place, GPU and market."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JointLimit:
    """At most so many GPUs of a joint quota, or machines where there is no quota."""

    most: int
    quota: Quota | None = None

    def taken(self, pool: Counted) -> int:
        """Return what one worker takes."""
        if self.quota is None:
            return pool.machines
        return pool.gpus if self.quota.covers(*pool.bucket) else 0


def joint_limits(wish: Requirements) -> tuple[JointLimit, ...]:
    """List the limits on sums that the wishes set."""
    quotas = (JointLimit(most=row.gpus, quota=row) for row in wish.joint_quotas)
    machines = [] if wish.max_machines is None else [JointLimit(most=wish.max_machines)]
    return (*quotas, *machines)

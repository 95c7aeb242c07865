"""A kind of worker that a question admits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from placer.market.catalog import VmOffer, worker_name
from placer.problem.placement import WorkerGroup
from placer.problem.requirements import Quota
from placer.problem.shares import SpeedCap, units_of
from placer.records import replace
from placer.workload.data_loading import Loader
from placer.workload.inner_plan import InnerPlan
from placer.workload.profile import Rate


class ChainPart(NamedTuple):
    """Machines of an offer that hold some layers of a worker's model; a plan of None is chosen."""

    offer: VmOffer
    machines: int
    inner: InnerPlan | None


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of worker that the request admits: machines of an offer, with the speed of one worker
    alone and in a group.

    ``host`` names its class of averaging time. ``machines`` of the offer are one worker, an island,
    that works by the plan ``inner``; ``alone`` and ``shared`` are samples/s of the whole island, on
    average over all passes of what ``loader`` reads (None: the data is with the workers).
    ``speed_cap`` limits the speed of all workers of this kind. ``free_share`` of the time behind
    which an exchange may hide is left to an exchange between workers. ``machines_there`` of the
    offer are what every quota, stock and supply leave, each by itself. Where the machines are
    ``supplied``, ``gpu_quota`` is that of their type alone. Machines ``behind`` those of the offer
    hold the later layers of the same copy of the model.
    """

    offer: VmOffer
    alone: Rate
    shared: Rate
    gpu_quota: int
    machines_there: int
    host: str
    machines: int = 1
    inner: InnerPlan | None = None
    behind: tuple[ChainPart, ...] = ()
    loader: Loader | None = None
    speed_cap: int | None = None
    free_share: float = 1.0
    supplied: bool = False

    @property
    def streamed(self) -> float:
        """Share of its samples that comes from the store; 1 where every pass reads anew."""
        return 1.0 if self.loader is None else self.loader.streamed

    @property
    def keeps_data(self) -> bool:
        """Whether its disks keep the data for later passes."""
        return self.loader is not None and self.loader.keeps

    def first(self, speed: float) -> float:
        """Return the speed in the first pass over the data, of the mean speed over all passes."""
        return speed if self.loader is None else self.loader.first(speed)

    def in_pass(self, number: int) -> Pool:
        """Return the worker as it is expected to be in the first pass over the data, or later."""
        if self.loader is None or not self.loader.keeps:
            return self
        speed = self.loader.first if number == 1 else self.loader.later
        alone, shared = (
            replace(rate, value=now, low=now, high=now)
            for rate in (self.alone, self.shared)
            for now in (speed(rate.value),)
        )
        loader = replace(self.loader, streamed=1.0 if number == 1 else 0.0)
        return msgspec.structs.replace(self, alone=alone, shared=shared, loader=loader)

    @property
    def place(self) -> str:
        """Where the machines are: ``provider/region``."""
        return self.offer.place

    @property
    def parts(self) -> tuple[ChainPart, ...]:
        """Machines of one worker by offer, in the order of their layers."""
        return ChainPart(self.offer, self.machines, self.inner), *self.behind

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        own = self.machines * self.offer.gpu_count
        if not self.behind:  # asked of every row of a book
            return own
        return own + sum(part.machines * part.offer.gpu_count for part in self.behind)

    @property
    def usd_per_hour(self) -> float:
        """Price of one worker."""
        own = self.machines * self.offer.usd_per_hour
        if not self.behind:
            return own
        return own + sum(part.machines * part.offer.usd_per_hour for part in self.behind)

    @property
    def kind(self) -> tuple[str, int, int, InnerPlan | None]:
        """What workers have in common that do equal parts of a step in equal times."""
        return self.offer.gpu, self.offer.gpu_count, self.machines, self.inner

    @property
    def name(self) -> str:
        """One worker as users write it: ``T4``, ``V100:8`` or ``4xH100:8``."""
        return worker_name(self.offer.gpu, self.offer.gpu_count, self.machines)

    def group(self, count: int) -> WorkerGroup:
        """Build the group of some workers."""
        group = WorkerGroup.of(self.offer, count, self.machines, self.inner)
        if not self.behind:
            return group
        behind = (WorkerGroup.of(part.offer, 1, part.machines, part.inner) for part in self.behind)
        return replace(group, behind=tuple(behind))

    @property
    def bucket(self) -> tuple[str, ...]:
        """What a quota counts together; where supply limits machines, those of one type."""
        offer = self.offer
        shared = offer.place, offer.gpu, offer.market
        return (*shared, offer.instance_type, str(offer.gpu_count)) if self.supplied else shared

    @property
    def speed_units(self) -> int:
        """Speed of one worker in millionths of a sample per second."""
        return units_of(self.shared.value)

    @property
    def max_count(self) -> int:
        """Workers that quotas, stock and caps allow."""
        most = self.machines_there // self.machines
        return most if self.speed_cap is None else min(most, self.speed_cap // self.speed_units)


class JointLimit(msgspec.Struct, frozen=True, kw_only=True):
    """At most so much of a joint quota, of speed under a cap, or of machines without either."""

    most: int
    quota: Quota | None = None
    cap: SpeedCap | None = None

    def taken(self, pool: Pool) -> int:
        """Return what one worker takes."""
        if self.cap is not None:
            covered = self.cap.covers(pool.offer.place, pool.offer.market)
            return pool.speed_units if covered else 0
        return pool.machines if self.quota is None else self.quota.taken(pool.offer, pool.machines)


def groups_of(pools: Sequence[Pool], counts: Sequence[int]) -> tuple[WorkerGroup, ...]:
    """Build the worker groups of some counts; a pool without machines has no group."""
    return tuple(pool.group(count) for pool, count in zip(pools, counts, strict=True) if count)

"""The validated question: a model, a market, a network and the user's wishes. Saves to one JSON
file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from placer.errors import PlacerError
from placer.market.capacity_table import (
    CapacityRow,
    capacity_document,
    most_launched,
    rows_about,
)
from placer.market.carbon import NO_GRID, NO_POWER, carbon_unknown
from placer.market.catalog import (
    OLD_TRANSPORT,
    Catalog,
    FunctionOffer,
    StoreOffer,
    VmOffer,
    gpu_document,
    offer_document,
    store_document,
    worker_name,
)
from placer.market.network.geography import pairwise_km
from placer.market.network.graph import Network, largest_cards, network_of
from placer.market.scaled_market import AGGREGATOR_PLACES, ONE_ROW, RowChange
from placer.market.words.own_places import SITES, own_places
from placer.market.words.selection import asks_for
from placer.problem.data.copies import Copy, copies_of, least_usd_per_sample
from placer.problem.data.datasets import bytes_of, passes_of
from placer.problem.exchange import goes_on_without, traits
from placer.problem.islands import IslandQuestion, StepPart
from placer.problem.kept_answers import Recent
from placer.problem.placement import WorkerGroup
from placer.problem.requirements import (
    LATER_FIELDS,
    LOCAL,
    OUTER,
    SYNCHRONOUS,
    JointLimit,
    Narrowed,
    Quota,
    Requirements,
    joint_limits,
)
from placer.problem.shares import units_of
from placer.problem.worker_sizes import ROUNDING, Kind, Ladder, Limits, Size, sizes
from placer.records import replace
from placer.units import GIB
from placer.workload.constants import (
    PUBLISHED,
    Calibration,
    calibration_document,
    with_former_figures,
)
from placer.workload.data_loading import (
    CACHES,
    LOADER_STREAMS,
    Loader,
    loader_of,
    machine_bytes_per_s,
    samples_per_s,
    site_line,
)
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Island, Refusal
from placer.workload.island.machine_counts import MOST_ISLAND_MACHINES
from placer.workload.peer import ASSUMED_GBPS, RINGS, Peer
from placer.workload.profile import (
    FEEDBACK_COMPRESSIONS,
    NODE_EFFICIENCY,
    ModelProfile,
    Rate,
    profile_document,
)

T = TypeVar("T")
SCHEMA = "placer.problem/v1"
PARTS = ("profile", "requirements", "catalog", "calibration")
"""What a problem file holds."""
MOST_KNOWN_LOCAL_STEPS = 512
"""Where catalogs/convergence.csv ends; beyond, only strategies whose multiplier the user gives."""
MOST_LOCAL_STEPS = 64
"""Local steps that are tried where a local strategy is asked for without a number."""
NO_QUOTA_GPUS = 10**9
"""GPUs where there is no quota: more than any quota can say."""
FORMER_QUOTA_GPUS = 8
"""Quota where a document does not name any: once it held for everybody, so that such documents
mean the same as ever.
"""
KEPT_POOLS = 32
"""Sets of admitted offers that a catalog keeps for further questions, of up to 3 MB each: a set for
each shipped model, and some.
"""
KM_PER_DEGREE = 111.0
"""Kilometres of one degree of latitude, rounded down."""
SAME_CITY_KM = 100.0
"""An aggregator and its store are chosen in one city unless the user names their places."""


STALE = "stale"
"""Code of an offer whose price is older than the request allows."""


MEMORY_CODES = {"memory": "device-memory"}
"""Codes of refused plans that have another name among the problems of offers."""


def _island_kind(offer: VmOffer) -> tuple[object, ...]:
    """Return all of an offer that its islands depend on."""
    return (
        offer.gpu,
        offer.gpu_count,
        offer.network_gbps,
        offer.fabric,
        offer.max_island_machines,
        offer.memory_gib,
        offer.nvlink_gb_per_s,
    )


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of worker that the request admits: machines of an offer, with the speed of one worker
    alone and in a group.

    Notes
    -----
    ``host`` names its class of averaging time. ``machines`` of the offer are one worker, an
    island, that works by the plan ``inner``; ``alone`` and ``shared`` are samples/s of the whole
    island, on average over all passes of what ``loader`` reads (None: the data is with the
    workers). ``speed_cap`` limits the speed of all workers of this kind. ``free_share`` of the
    time behind which an exchange may hide is left to an exchange between workers. ``room`` is how
    many quotas of vCPUs and of machine types allow, each by itself (None: there are none). Where
    the machines are ``supplied``, ``gpu_quota`` is that of their type alone.
    """

    offer: VmOffer
    alone: Rate
    shared: Rate
    gpu_quota: int
    host: str
    machines: int = 1
    inner: InnerPlan | None = None
    loader: Loader | None = None
    speed_cap: int | None = None
    free_share: float = 1.0
    room: int | None = None
    supplied: bool = False

    @property
    def streamed(self) -> float:
        """Share of its samples that comes from the dataset's store; 1 where every pass reads
        anew.
        """
        return 1.0 if self.loader is None else self.loader.streamed

    @property
    def keeps_data(self) -> bool:
        """Whether its disks keep the data for later passes."""
        return self.loader is not None and self.loader.keeps

    def first(self, speed: float) -> float:
        """Return the speed in the first pass over the data, of the mean speed over all passes."""
        return speed if self.loader is None else self.loader.first(speed)

    def in_pass(self, number: int) -> Pool:
        """Return the same worker as it is expected to work in the first pass over the data, or in a
        later one.
        """
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
    def gpus(self) -> int:
        """GPUs of one worker."""
        return self.machines * self.offer.gpu_count

    @property
    def usd_per_hour(self) -> float:
        """Price of one worker."""
        return self.machines * self.offer.usd_per_hour

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
        return WorkerGroup.of(self.offer, count, self.machines, self.inner)

    @property
    def bucket(self) -> tuple[str, ...]:
        """What the quota counts together: place, GPU, market; machines of one type where it is
        their supply.
        """
        offer = self.offer
        shared = offer.place, offer.gpu, offer.market
        return (*shared, offer.instance_type, str(offer.gpu_count)) if self.supplied else shared

    @property
    def speed_units(self) -> int:
        """Speed of one worker in millionths of a sample per second."""
        return units_of(self.shared.value)

    @property
    def max_count(self) -> int:
        """Workers that quota, availability and caps allow."""
        most, available = self.gpu_quota // self.gpus, self.offer.available
        if available is not None:
            most = min(most, available // self.machines)
        if self.room is not None:
            most = min(most, self.room)
        return most if self.speed_cap is None else min(most, self.speed_cap // self.speed_units)


def _at_most(rate: Rate, most: float) -> Rate:
    """Return a speed, or a limit on it if that is less."""
    return rate if rate.value <= most else replace(rate, value=most, low=min(rate.low, most))


def groups_of(pools: Sequence[Pool], counts: Sequence[int]) -> tuple[WorkerGroup, ...]:
    """Build the worker groups of some counts; a pool without machines has no group."""
    return tuple(pool.group(count) for pool, count in zip(pools, counts, strict=True) if count)


def _with_one_row(pools: Sequence[Pool], row: RowChange) -> tuple[Pool, ...]:
    """Return the pools with one row at another price, or without it."""
    changed = (
        msgspec.structs.replace(pool, offer=row.changed) if pool.offer is row.offer else pool
        for pool in pools
    )
    return tuple(pool for pool in changed if pool.offer is not None)


class Problem(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One question, ready to solve: profile, catalog, requirements and network."""

    profile: ModelProfile
    catalog: Catalog
    requirements: Requirements
    calibration: Calibration = PUBLISHED

    def __post_init__(self) -> None:
        """Set how long the data is copied, which the book says and no user."""
        if self.requirements.copies_data:
            seconds = min((copy.seconds for copy in self.data_copies), default=0.0)
            wish = replace(self.requirements, copy_s=seconds)
            msgspec.structs.force_setattr(self, "requirements", wish)

    def __repr__(self) -> str:
        return (
            f"<Problem {self.profile.name} on {self.catalog.name}: {self.requirements.objective}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the question alone: what was worked out of it is found by identity, which means
        nothing in another process.
        """
        return {name: getattr(self, name) for name in PARTS}

    @cached_property
    def network(self) -> Network:
        """Links and egress prices of the catalog."""
        return network_of(self.catalog)

    @property
    def batch(self) -> int:
        """Target batch size: samples of one step over all workers, B in the formulas; of batches
        still to choose from, the smallest.
        """
        wish = self.requirements
        return wish.target_batch_size or min(
            wish.open_batches, default=self.profile.target_batch_size
        )

    @property
    def batch_assumed(self) -> bool:
        """Whether the batch is the default of adapters: nobody asked for it."""
        wish = self.requirements
        asked = wish.target_batch_size is not None or wish.batch_range is not None
        return not asked and (wish.lora or wish.qlora) is not None

    @property
    def transport(self) -> str:
        """Software that averages inside a zone: the one asked for, else the book's."""
        return self.requirements.transport or self.catalog.transport

    @property
    def compression(self) -> str:
        """Compression of gradients on the wire."""
        return self.requirements.compression or self.profile.compression

    @cached_property
    def gradient_bytes(self) -> float:
        """Bytes of one gradient on the wire, S in the formulas."""
        return self.profile.gradient_bytes(self.compression)

    @cached_property
    def data_store(self) -> StoreOffer | None:
        """Store of the dataset; None: the data is with the workers."""
        name = self.requirements.data_store
        return None if name is None else self.catalog.store(name)

    @cached_property
    def data_copy(self) -> Copy | None:
        """How the data gets to its store before the run; None: it is there."""
        return self.data_copies[0] if self.data_copies and self.data_store is not None else None

    @cached_property
    def data_copies(self) -> tuple[Copy, ...]:
        """Copies of the data, of which one is made before the run; several only in questions that
        bound them all, whose data is at hand everywhere.
        """
        wish = self.requirements
        if not wish.copies_data:  # asked of every problem: no network is made for it
            return ()
        return copies_of(wish, self.catalog, self.network, self.profile.bytes_per_sample)

    def least_copy(self, place: str) -> tuple[float, Copy]:
        """Return the USD of a sample for a worker in a place from the copy that takes least."""
        kept: dict[str, tuple[float, Copy]] = self._least_copies
        if place not in kept:
            wish, size = self.requirements, self.profile.bytes_per_sample or 0.0
            passes = passes_of(wish.passes, wish.samples, wish.data_bytes, size)
            kept[place] = least_usd_per_sample(self.data_copies, place, self.network, size, passes)
        return kept[place]

    @cached_property
    def _least_copies(self) -> dict[str, tuple[float, Copy]]:
        return {}

    @cached_property
    def joint_limits(self) -> tuple[JointLimit, ...]:
        """Limits on sums over all workers that the wishes set."""
        return joint_limits(self.requirements)

    @property
    def fixed_workers(self) -> int | None:
        """Number of workers where the request leaves no choice; None where it does."""
        wish = self.requirements
        return wish.min_workers if wish.min_workers == wish.max_workers else None

    def sharing(self, workers: int | None) -> int | None:
        """Return how many workers share a step, of some (None: as many as the request asks for); a
        search about one number of them times all as so many. None where the request leaves it open.
        """
        return self.fixed_workers if self.requirements.narrowed else workers or self.fixed_workers

    def sequences(self, workers: int) -> int:
        """Return the sequences of a step that the fullest of some workers has: all have equal
        parts.
        """
        return StepPart(self.batch, workers).fullest

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Offers that the request admits, in the order of the book; questions that admit the same
        share them.

        Notes
        -----
        For a model with an architecture, workers of every number of machines with their plan and
        speed where the number of workers is known; else the smallest ones, with a speed that no
        plan exceeds.
        """
        if self.island_question is not None and self.fixed_workers is not None:
            return self._sized(self.fixed_workers)
        return self._shared("pools", self._island_limits, self._admitted)

    @property
    def every_pool(self) -> tuple[Pool, ...]:
        """Offers that the request admits, as workers of every number of machines: for a whole book
        many more than `pools`.
        """
        if self.island_question is None or self.fixed_workers is not None:
            return self.pools
        pools = (
            self.pool(offer, machines)
            for kind in self.worker_kinds
            for offer in kind.offers
            for machines in range(kind.least, kind.most + 1)
        )
        return tuple(pool for pool in pools if pool is not None and pool.max_count >= 1)

    @cached_property
    def worker_kinds(self) -> tuple[Kind, ...]:
        """Admitted offers by what decides the plans of their machines."""
        return self._shared("kinds", self._island_limits, self._build_kinds)

    def _shared(self, name: str, more: tuple[object, ...], build: Callable[[], T]) -> T:
        """Return what questions of the catalog share that admit the same offers."""
        wish = self.requirements
        limits = (
            wish.gpus,
            wish.places_in,
            tuple(rule.place for rule in wish.used),
            wish.places_not_in,
            wish.market,
            wish.quotas,
            wish.quota_gpus,
            wish.supply,
            wish.require_measured,
            wish.oldest_price,
            wish.counts_carbon,
            wish.speed_caps,
            self.data_reads,
            self.transport,
        )
        kept: Recent[tuple[ModelProfile, T]] = self.catalog.memo.setdefault(
            name, Recent(KEPT_POOLS)
        )
        # While the profile is held, nothing else has its id.
        key = id(self.profile), limits, more
        return kept.get(key, lambda: (self.profile, build()))[1]

    def _admitted(self) -> tuple[Pool, ...]:
        row: RowChange | None = self.catalog.memo.get(ONE_ROW)
        if row is not None:  # a price decides nothing of what is admitted, nor how fast it is
            return _with_one_row(replace(self, catalog=row.plain).pools, row)
        pools: list[Pool] = []
        for offer in self._admitted_offers():
            pools += [pool for pool in self.pools_of(offer) if pool.max_count >= 1]
        return tuple(pools)

    def _admitted_offers(self) -> Iterator[VmOffer]:
        """Yield the offers that the request admits, in the order of the book; whether some plan
        fits their machines is not looked at.
        """
        plans = self.island_question is not None
        places: dict[tuple[str, str, bool], bool] = {}
        kinds: dict[tuple[object, ...], bool] = {}
        for offer in self.catalog.offers:
            where = offer.provider, offer.region, offer.price_basis == "owned"
            if where not in places:
                places[where] = self._place_admitted(offer)
            if not places[where]:
                continue
            kind = (
                offer.gpu,
                offer.gpu_count,
                offer.market,
                offer.memory_gib,
                offer.as_of,
                _island_kind(offer) if plans else None,
            )  # all that `offer_problems` looks at
            if kind not in kinds:
                kinds[kind] = not self._unwanted(offer) and not self._unfit(offer)
            if kinds[kind]:
                yield offer

    def _build_kinds(self) -> tuple[Kind, ...]:
        question = self.island_question
        assert question is not None
        by_kind: dict[tuple[object, ...], list[VmOffer]] = {}
        for offer in self._admitted_offers():
            by_kind.setdefault(_island_kind(offer), []).append(offer)
        prices: dict[tuple[str, int], list[tuple[float, int]]] = {}
        for offer in (offer for offers in by_kind.values() for offer in offers):
            row = offer.usd_per_hour, self.machines_there(offer)
            prices.setdefault((offer.gpu, offer.gpu_count), []).append(row)
        twins = {device: Ladder.of(rows) for device, rows in prices.items()}
        kinds = (self._kind(question, tuple(offers), twins) for offers in by_kind.values())
        return tuple(kind for kind in kinds if kind is not None)

    def _kind(
        self,
        question: IslandQuestion,
        offers: tuple[VmOffer, ...],
        twins: Mapping[tuple[str, int], Ladder],
    ) -> Kind | None:
        """Return offers of one kind with the sizes of their workers; None if none fits the model.

        Notes
        -----
        A smaller part of a step never needs fewer machines than the whole step.
        """
        first = offers[0]
        gpu, (_, limit) = self.catalog.gpu(first.gpu), question.limits(first)
        most = min(
            limit if first.network_gbps and first.fabric else 1,
            max(map(self.machines_there, offers)),
        )
        least, built = question.nearest(first, gpu, StepPart(self.batch, 1), most)
        if most < 1 or isinstance(built, Refusal):
            return None
        return Kind(
            offers=offers,
            rank_s=question.sequence_seconds(first, gpu, most),
            least=least,
            most=most,
            usd_per_hour=min(offer.usd_per_hour for offer in offers),
            twins=twins[first.gpu, first.gpu_count],
        )

    def machines_there(self, offer: VmOffer) -> int:
        """Return the machines of an offer that quota and stock leave."""
        most = self.quota(offer.place, offer.gpu, offer.market) // offer.gpu_count
        others = (offer.available, self.supply(offer), self._room(offer, 1))
        return min([most, *(other for other in others if other is not None)])

    def _limits(self, workers: int) -> Limits:
        wish, asked = self.requirements, self.requirements.narrowed or Narrowed()
        usd, machines = wish.budget_usd_per_hour, wish.max_machines
        return Limits(
            workers=workers,
            sequences=self.sequences(workers),
            longest_s=asked.most_s,
            usd_s=asked.most_usd_s,
            alike=not self.mixes_workers,
            few_sizes=asked.few_sizes,
            usd_per_hour=math.inf if usd is None else usd,
            machines=math.inf if machines is None else machines,
        )

    def worker_sizes(self, workers: int) -> tuple[Size, ...]:
        """List the kinds and sizes of workers that may be among some of them, by bounds alone."""
        known = self._sizes.get(workers)
        if known is None:
            known = self._sizes[workers] = sizes(self.worker_kinds, self._limits(workers))
        return known

    @cached_property
    def _sizes(self) -> dict[int, tuple[Size, ...]]:
        return {}

    def _sized(self, workers: int) -> tuple[Pool, ...]:
        """Return the workers that some of them may be, each with its plan for an equal part of a
        step, in the order of the book.
        """
        limits = self._limits(workers)
        longest_s, most = limits.longest_s * (1 + ROUNDING), limits.usd_s * (1 + ROUNDING)
        pools = [
            pool
            for size in self.worker_sizes(workers)
            for built in (self.island(size.kind.offers[0], size.machines, workers=workers),)
            if isinstance(built, Island) and built.step.seconds <= longest_s
            for offer in size.offers
            if size.machines * offer.usd_per_hour * built.step.seconds <= most
            for inner in (None, *built.rivals)
            for pool in (self.pool(offer, size.machines, inner, workers),)
            if pool is not None and pool.max_count >= 1 and self.part_s(pool, workers) <= longest_s
        ]
        order = {id(offer): number for number, offer in enumerate(self.catalog.offers)}
        return tuple(sorted(pools, key=lambda pool: (order[id(pool.offer)], pool.machines)))

    def part_s(self, pool: Pool, workers: int) -> float:
        """Return the seconds in which a worker does its part of a step, one of some equal ones."""
        speed = pool.alone.value if workers == 1 else pool.shared.value
        return self.batch / workers / speed

    @cached_property
    def free_share(self) -> float:
        """Share of the time behind which an exchange may hide that some worker leaves to it, at
        most.
        """
        if self.island_question is None or self.fixed_workers is None:
            return 1.0
        return max((pool.free_share for pool in self.pools), default=1.0)

    @cached_property
    def mixes_workers(self) -> bool:
        """Whether workers with a plan may be of several kinds: where machines or data are given,
        not chosen. Else all of them are equally fast, for each waits for the slowest.
        """
        owned = {o.device for o in self.catalog.offers if o.price_basis == "owned"}
        return bool(self.requirements.used or self.requirements.datasets) or len(owned) > 1

    @cached_property
    def uniform(self) -> bool:
        """Whether all workers are machines of one kind with one plan: the software divides a step
        equally, and nothing says which machines take part.
        """
        wish = self.requirements
        return wish.uniform and self.transport in RINGS and not self.mixes_workers

    def with_pools(self, requirements: Requirements, pools: tuple[Pool, ...]) -> Problem:
        """Return the question with other wishes, about some of its workers alone."""
        asked = replace(self, requirements=requirements)
        asked.__dict__["pools"] = pools
        return asked

    @cached_property
    def _island_limits(self) -> tuple[object, ...]:
        """What the plans inside workers depend on; empty for models without an architecture."""
        if self.island_question is None:
            return ()
        wish = self.requirements
        fields = (wish.min_island_machines, wish.max_island_machines, wish.same_zone)
        plan = self.island_question.plan_wishes()
        return (*fields, plan, wish.max_machines, self.batch)

    @cached_property
    def island_question(self) -> IslandQuestion | None:
        """What the plans inside workers depend on; None for a model without an architecture."""
        if self.profile.architecture is None:
            return None
        return IslandQuestion(
            profile=self.profile,
            architecture=self.profile.architecture,
            transport=self.transport,
            compression=self.compression,
            wish=self.requirements,
        )

    def pools_of(self, offer: VmOffer) -> tuple[Pool, ...]:
        """Return the workers that stand for an offer: one machine, or the smallest island that can
        train the model.
        """
        if self.island_question is None:
            pool = self.pool(offer)
            return () if pool is None else (pool,)
        kind = _island_kind(offer)
        _, known, _ = self._known_islands
        if kind not in known:
            least, built = self.nearest_island(offer) or (1, None)
            known[kind] = least if isinstance(built, Island) else 0
        pool = self.pool(offer, known[kind]) if known[kind] else None
        return () if pool is None else (pool,)

    def island(
        self,
        offer: VmOffer,
        machines: int = 1,
        inner: InnerPlan | None = None,
        workers: int | None = None,
    ) -> Island | Refusal | None:
        """Return the plan and rate of some machines of an offer as one of some workers, or why
        there is none; None for a model without an architecture. Where the request leaves their
        number open and none is given, it does the whole step.
        """
        question = self.island_question
        if question is None:
            return None
        count = self.sharing(workers) or 1
        part = StepPart(self.batch, count)
        kind = _island_kind(offer), machines, inner, part
        _, _, known = self._known_islands
        if kind not in known:
            gpu = self.catalog.gpu(offer.gpu)
            known[kind] = question.island(offer, gpu, machines, part, inner)
        return known[kind]

    def nearest_island(
        self, offer: VmOffer, machines: int = MOST_ISLAND_MACHINES
    ) -> tuple[int, Island | Refusal] | None:
        """Return the smallest island of at most so many machines of an offer that can train the
        model, else the refused one that lacks least; None for a model without an architecture.
        """
        question = self.island_question
        if question is None:
            return None
        whole = StepPart(self.batch, 1)
        return question.nearest(offer, self.catalog.gpu(offer.gpu), whole, machines)

    @cached_property
    def pools_of_groups(self) -> dict[tuple[object, ...], Pool]:
        """Pools that groups were found to be of, by offer, machines and plan."""
        return {}

    @cached_property
    def _known_islands(
        self,
    ) -> tuple[ModelProfile, dict[object, int], dict[object, Island | Refusal]]:
        """The profile, smallest numbers of machines and plans of islands that were worked out;
        questions of the book that differ in nothing that decides plans share them.
        """
        kept: Recent[tuple[ModelProfile, dict[object, int], dict[object, Island | Refusal]]] = (
            self.catalog.memo.setdefault("islands", Recent(KEPT_POOLS))
        )
        # While the profile is held, nothing else has its id.
        key = id(self.profile), self._island_limits, self.transport, self.compression
        return kept.get(key, lambda: (self.profile, {}, {}))

    @cached_property
    def lanes(self) -> int:
        """Machines of the largest worker that send their parts side by side; 1 under hivemind,
        where a worker is one peer.
        """
        if self.transport == OLD_TRANSPORT or self.island_question is None:
            return 1
        return max((pool.machines for pool in self.pools), default=1)

    @cached_property
    def aggregator_places(self) -> tuple[tuple[str, str], ...]:
        """Pairs (function place, store place) that a central exchange may use, sorted; worked out
        once for a catalog.
        """
        kept: Recent[tuple[tuple[str, str], ...]] = self.catalog.memo.setdefault(
            AGGREGATOR_PLACES, Recent(KEPT_POOLS)
        )
        return kept.get(
            (self.requirements.aggregator, self.requirements.storage), self._aggregator_places
        )

    def _aggregator_places(self) -> tuple[tuple[str, str], ...]:
        functions = list(dict.fromkeys(f.place for f in self.catalog.functions))
        stores = [s.place for s in self.catalog.stores]
        wanted_f, wanted_s = self.requirements.aggregator, self.requirements.storage
        regions = self.catalog.regions
        if wanted_f is not None and wanted_s is not None:
            return ((wanted_f, wanted_s),)
        functions = functions if wanted_f is None else [wanted_f]
        stores = stores if wanted_s is None else [wanted_s]
        lines = [regions[store].latitude_deg for store in stores]
        near = [
            (function, store)
            for function in functions
            for line in (regions[function].latitude_deg,)
            for store, other in zip(stores, lines, strict=True)
            # Degrees first: most stores are farther away than a city by these alone.
            if abs(line - other) <= SAME_CITY_KM / KM_PER_DEGREE
        ]
        apart = pairwise_km([(regions[a], regions[b]) for a, b in near])
        return tuple(
            sorted(
                pair
                for pair, km in zip(near, apart, strict=True)
                if pair[0] == pair[1] or km <= SAME_CITY_KM
            )
        )

    @cached_property
    def modes(self) -> tuple[tuple[str, int], ...]:
        """Pairs (strategy, local steps) that the request admits for two workers or more.

        Notes
        -----
        ``auto`` admits what is synchronous, and with local steps also what exchanges every H steps.
        Local steps are tried as powers of two between the ends of their range.
        """
        wish = self.requirements
        least, most = wish.min_local_steps or 1, wish.max_local_steps or MOST_LOCAL_STEPS
        counts = sorted(
            {least, most, *(2**k for k in range(most.bit_length()) if least <= 2**k <= most)}
        )
        wanted = wish.exchange
        named = (
            SYNCHRONOUS + (self._local if wish.max_local_steps is not None else ())
            if wanted == "auto"
            else (wanted,)
        )
        given = {name for name, _ in wish.samples_to_target}
        able = [
            name
            for name in named
            if (traits(name).may_overlap or not wish.overlap)
            and (wish.quorum is None or goes_on_without(name, overlap=wish.overlap))
            and (traits(name).outer or self.compression not in FEEDBACK_COMPRESSIONS)
        ]
        modes = [(name, 1) for name in able if name not in LOCAL and least == 1]
        known = [
            (name, h)
            for name in able
            if name in LOCAL
            for h in counts
            if h <= MOST_KNOWN_LOCAL_STEPS or name in given
        ]
        return tuple(modes + known)

    @property
    def _local(self) -> tuple[str, ...]:
        """Strategies with local steps that ``auto`` tries: for language models DiLoCo in place of
        local SGD, which sends the same bytes and has no published figures there.
        """
        language = self.profile.architecture is not None
        return tuple(name for name in LOCAL if name not in (("local-sgd",) if language else OUTER))

    @cached_property
    def serverless_places(self) -> frozenset[str]:
        """Places that have a function and exactly one store."""
        stores = [store.place for store in self.catalog.stores]
        return frozenset(f.place for f in self.catalog.functions if stores.count(f.place) == 1)

    def function(self, place: str) -> FunctionOffer:
        """Find the function of a place: the one that the user names where the place has it, else
        the first of the book.

        Raises
        ------
        PlacerError
            If the place has no function.
        """
        wanted = self.requirements.function
        if wanted is not None and any(
            f.place == place and f.function == wanted for f in self.catalog.functions
        ):
            return self.catalog.function(f"{wanted}@{place}")
        return self.catalog.function(place)

    def quota(self, place: str, gpu: str, market: str) -> int:
        """Return the GPUs allowed for a place, type and market: the last matching row of the quota
        file, and no more than any joint quota; `NO_QUOTA_GPUS` where there is none.
        """
        quotas = self.requirements.quotas
        rows = [row for row in quotas if not row.of_machines and row.covers(place, gpu, market)]
        own = next((row.most for row in reversed(rows) if row.scope == "each"), self._other_quota)
        return min([own, *(row.most for row in rows if row.scope == "together")])

    @cached_property
    def _machine_quotas(self) -> tuple[Quota, ...]:
        return tuple(row for row in self.requirements.quotas if row.of_machines)

    def _room(self, offer: VmOffer, machines: int) -> int | None:
        """Return how many workers of some machines the quotas of vCPUs and of machine types allow,
        each by itself; None without one that counts them.
        """
        rows = self._machine_quotas
        if not rows:  # asked of every row of a book
            return None
        return min(
            (row.most // taken for row in rows for taken in [row.taken(offer, machines)] if taken),
            default=None,
        )

    def supply(self, offer: VmOffer) -> int | None:
        """Return how many machines of an offer launch together at most: of spot machines that no
        quota covers, those that the capacity table has seen, else as many as the wishes say; None:
        nothing is said.
        """
        wish = self.requirements
        most = wish.other_supply
        if most is None or offer.market != "spot" or offer.price_basis == "owned":
            return None
        if any(row.counts(offer) for row in wish.quotas):
            return None
        seen = most_launched(self._launch_rows, offer) if self._launch_rows else None
        return most if seen is None else seen

    @cached_property
    def _launch_rows(self) -> tuple[CapacityRow, ...]:
        return tuple(row for row in self.catalog.capacity if row.region and row.share is not None)

    def quota_problem(self, offer: VmOffer, machines: int = 1) -> str:
        """Return which quota has no room for a worker of some machines, and what it would have to
        be; empty if there is room.
        """
        bucket, needed = (offer.place, offer.gpu, offer.market), machines * offer.gpu_count
        most = self.quota(*bucket)
        if most < needed:
            split = any(r.market != "*" for r in self.requirements.quotas if r.covers(*bucket))
            name = f"{offer.gpu} {offer.market.replace('_', '-')}" if split else offer.gpu
            return f"the quota allows {most} {name} in {offer.place}; raise it to {needed}"
        machine = f"{offer.instance_type} in {offer.place}"
        for row in self._machine_quotas:
            if row.lacks_vcpus(offer):
                return (
                    f"the quota of {row.words} counts {machine}, whose vCPUs nobody knows; name "
                    f"the places of the cloud in the quota"
                )
            if row.taken(offer, machines) > row.most:
                return (
                    f"the quota allows {row.most} {row.words}; raise it to "
                    f"{row.taken(offer, machines)} for {machines} x {machine}"
                )
        return ""

    @property
    def _other_quota(self) -> int:
        """GPUs of a place, type and market where no row of a quota file matches."""
        gpus = self.requirements.quota_gpus
        return NO_QUOTA_GPUS if gpus is None else gpus

    def pool(
        self,
        offer: VmOffer,
        machines: int = 1,
        inner: InnerPlan | None = None,
        workers: int | None = None,
    ) -> Pool | None:
        """Return the rates and quota of an offer as workers of some machines; None if nobody can
        say how fast it is, or the model fits no plan.

        Parameters
        ----------
        inner
            The plan inside a worker; None: the fastest, for a model with an architecture.
        workers
            How many workers share a step in equal parts; None: as many as the request asks for.
            Where it leaves that open a worker has no plan, and a speed that none exceeds.
        """
        if self.island_question is None and (machines > 1 or inner is not None):
            return None
        workers = self.sharing(workers)
        built = self.island(offer, machines, inner, workers)
        if isinstance(built, Refusal):
            return None
        rates = (
            self._machine_rates(offer)
            if built is None
            else self._rates_of(built, offer, machines, workers)
        )
        alone, shared = rates
        if alone is None or shared is None:
            return None
        loader = self.loader(offer, machines)
        if loader is not None:
            alone, shared = loader.loaded(alone), loader.loaded(shared)
        asked = self.requirements.narrowed
        if asked is not None and workers is not None and asked.least_s > 0:
            most = self.batch / workers / asked.least_s
            alone, shared = (_at_most(rate, most) for rate in (alone, shared))
        quota = (
            self.quota(offer.place, offer.gpu, offer.market)
            if self.requirements.quotas
            else self._other_quota
        )
        supply = self.supply(offer)
        if supply is not None:  # so no quota covers it
            quota = supply * offer.gpu_count
        planned = built is not None and (workers is not None or inner is not None)
        return Pool(
            offer=offer,
            alone=alone,
            shared=shared,
            gpu_quota=quota,
            host=self.averaging_class(offer, machines),
            machines=machines,
            inner=built.plan if built is not None and planned else None,
            loader=loader,
            speed_cap=self._speed_cap(offer),
            room=self._room(offer, machines),
            supplied=supply is not None,
            free_share=1.0 if built is None or workers is None else built.step.free_share,
        )

    def _speed_cap(self, offer: VmOffer) -> int | None:
        """Return the most speed of one kind of worker under the caps; None without one."""
        caps = self.requirements.speed_caps
        if not caps:  # asked of every row of a book
            return None
        found = [cap.most for cap in caps if cap.covers(offer.place, offer.market)]
        return min(found, default=None)

    @cached_property
    def data_reads(self) -> tuple[str | None, float, float | None, str] | None:
        """The dataset's store (None: the best of all copies), how often a run reads its data, the
        size of the data, and where later passes read from; None: the data is with the workers.
        """
        wish, size = self.requirements, self.profile.bytes_per_sample
        if wish.data_store is None and not self.data_copies:
            return None
        known = wish.passes, wish.samples, wish.data_bytes
        passes, data_bytes = (
            (1.0, None) if size is None else (passes_of(*known, size), bytes_of(*known, size))
        )
        # Read once, it does not matter what a disk holds: such questions share their machines.
        cache = "none" if passes <= 1 else wish.data_cache or CACHES[0]
        return wish.data_store, passes, data_bytes if cache == "auto" else None, cache

    def loader(self, offer: VmOffer, machines: int) -> Loader | None:
        """Return how a worker of some machines of an offer reads from the dataset's store; None
        where the data is with the workers.
        """
        size = self.profile.bytes_per_sample
        if self.data_reads is None or size is None:
            return None
        _, passes, data_bytes, cache = self.data_reads
        return loader_of(
            self.read_bytes_per_s(offer),
            offer,
            machines,
            bytes_per_sample=size,
            data_bytes=data_bytes,
            passes=passes,
            cache=cache,
        )

    def read_bytes_per_s(self, offer: VmOffer) -> Rate:
        """Return the bytes/s that one machine of an offer reads from the dataset's store."""
        kind = offer.place, offer.gpu, offer.gpu_count, offer.network_gbps
        read = self._reads.get(kind)
        if read is None:
            store = self.data_store or self.fastest_copy(offer.place).store
            read = self._reads[kind] = machine_bytes_per_s(store, offer, self.network)
        return read

    def fastest_copy(self, place: str) -> Copy:
        """Return the copy that machines of a place read the fastest."""
        link = self.network.link
        return max(
            self.data_copies,
            key=lambda copy: (
                copy.store.place == place,
                link(copy.store.place, place).speed(LOADER_STREAMS),
            ),
        )

    @cached_property
    def _reads(self) -> dict[tuple[object, ...], Rate]:
        return {}

    @cached_property
    def workers_hold_back(self) -> bool:
        """Whether workers may be slower together than each by itself, as they wait for their data:
        at a store that all of them read, or in another pass than others do.
        """
        return self.least_loaded_samples_per_s < math.inf or any(
            pool.keeps_data for pool in self.pools
        )

    @cached_property
    def least_loaded_samples_per_s(self) -> float:
        """Samples/s that store and lines leave to all workers together where these ask for more, at
        least.
        """
        if self.data_store is None:
            return self.most_loaded_samples_per_s
        lines = (self.line_samples_per_s(place) for place in {pool.place for pool in self.pools})
        return min([self.most_loaded_samples_per_s, *lines])

    def line_samples_per_s(self, place: str, case: int = 0) -> float:
        """Return the samples/s of the dataset's store that all workers of a place get together:
        what the line of a site of one's own carries; infinite in clouds.

        Parameters
        ----------
        case
            0, 1 or 2: expected, slow or fast.
        """
        store, size = self.data_store, self.profile.bytes_per_sample
        if store is None or size is None or not place.startswith(SITES) or store.place == place:
            return math.inf
        return site_line(self.network, place)[case] / size

    @cached_property
    def most_loaded_samples_per_s(self) -> float:
        """Samples/s that the dataset's store gives to all workers together, at most."""
        return samples_per_s(self.data_store, self.profile.bytes_per_sample)

    def _machine_rates(self, offer: VmOffer) -> tuple[Rate | None, ...]:
        kind = offer.gpu, offer.gpu_count
        rates = self._rates.get(kind)
        if rates is None:
            gpu = self.catalog.gpu(offer.gpu)
            node = NODE_EFFICIENCY[self.transport]
            rates = self._rates[kind] = tuple(
                self.profile.rate(gpu, offer.gpu_count, framework, self.catalog, node)
                for framework in ("none", self.transport)
            )
        return rates

    def _rates_of(
        self, built: Island, offer: VmOffer, machines: int, workers: int | None
    ) -> tuple[Rate | None, ...]:
        kind = id(built), offer.gpu, offer.gpu_count, workers
        rates = self._rates.get(kind)
        question = self.island_question
        if rates is None and question is not None:
            sequences = self.batch / (workers or 1)
            rates = question.rates(built, offer, sequences)
            if workers is None:
                gpu = self.catalog.gpu(offer.gpu)
                rank_s = question.sequence_seconds(offer, gpu, question.limits(offer)[1])
                most = machines * offer.gpu_count / min(s / degree for degree, s in rank_s)
                rates = tuple(
                    replace(rate, value=most, high=max(most, rate.high)) for rate in rates
                )
            self._rates[kind] = rates
        return rates or ()

    def averaging_class(self, offer: VmOffer, machines: int = 1) -> str:
        """Name the class of averaging time of a worker of some machines: its usual host under
        hivemind, else the software and the network of all its machines.
        """
        kind = offer.gpu, offer.network_gbps, machines
        known = self._averaging_classes.get(kind)
        if known is None:
            known = self._averaging_classes[kind] = self._averaging_class(*kind)
        return known

    def _averaging_class(self, device: str, network_gbps: float | None, machines: int) -> str:
        gpu, transport = self.catalog.gpu(device), self.transport
        if transport == OLD_TRANSPORT:
            return gpu.host
        if transport == "nccl" and gpu.kind == "cpu":
            transport = "gloo"
        gbps = machines * (network_gbps or ASSUMED_GBPS)
        return Peer(transport=transport, gbps=gbps).name

    @cached_property
    def _averaging_classes(self) -> dict[tuple[str, float | None, int], str]:
        return {}

    @cached_property
    def _rates(self) -> dict[tuple[object, ...], tuple[Rate | None, ...]]:
        return {}

    def offer_problems(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Return why an offer may not be used, as (code, message); empty if it may."""
        return [*self._unwanted(offer), *self._unplanned(offer), *self._unfit(offer)]

    def _unwanted(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Return the wishes that an offer does not meet."""
        wish, problems = self.requirements, []
        if not asks_for(wish.gpus, offer.gpu, offer.gpu_count):
            name = offer.device if any(":" in gpu for gpu in wish.gpus) else offer.gpu
            problems.append(("gpu", f"{name} is not among --gpu {','.join(wish.gpus)}"))
        if wish.market not in ("any", offer.market):
            problems.append(
                (
                    "market",
                    f"{offer.instance_type} in {offer.place} is {offer.market}, not {wish.market}",
                )
            )
        if wish.oldest_price is not None and offer.as_of < wish.oldest_price:
            problems.append(
                (
                    STALE,
                    (
                        f"the newest price is of {offer.as_of}, older than --max-price-age allows "
                        f"({wish.oldest_price})"
                    ),
                )
            )
        if wish.counts_carbon and carbon_unknown(offer, self.catalog) == NO_POWER:
            problems.append(("carbon", f"{offer.gpu}: {NO_POWER}"))
        if wish.require_measured and not self._measured(offer):
            problems.append(("estimated", f"nobody measured {self.profile.name} on {offer.device}"))
        return problems

    def _unplanned(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Return why no plan fits the machines of an offer."""
        built = self.island(offer)
        if isinstance(built, Refusal) and not self.pools_of(offer):
            _, nearest = self.nearest_island(offer) or (1, built)
            # Where an island fits that is not offered, one machine says why.
            refused = nearest if isinstance(nearest, Refusal) else built
            return [(MEMORY_CODES.get(refused.code, refused.code), refused.reason)]
        return []

    def _unfit(self, offer: VmOffer) -> list[tuple[str, str]]:
        """Return what a machine lacks for a model without an architecture."""
        problems: list[tuple[str, str]] = []
        if self.island_question is not None:
            return problems
        device_gib = self.catalog.gpu(offer.gpu).memory_gib
        if self.profile.device_memory_bytes > device_gib * GIB:
            need = self.profile.device_memory_bytes / GIB
            problems.append(
                (
                    "device-memory",
                    (
                        f"{self.profile.name} needs {need:.1f} GiB on each device; {offer.gpu} has "
                        f"{device_gib:g} GiB"
                    ),
                )
            )
        failed = self.profile.ran_out_of_memory(offer.gpu, offer.gpu_count)
        if failed is not None:
            problems.append(
                (
                    "device-memory",
                    (
                        f"{self.profile.name} ran out of memory on a machine of "
                        f"{failed.gpu_count} x {failed.gpu}: {failed.source}"
                    ),
                )
            )
        if self.profile.host_memory_bytes > offer.memory_gib * GIB:
            need = self.profile.host_memory_bytes / GIB
            problems.append(
                (
                    "host-memory",
                    (
                        f"{self.profile.name} needs {need:.1f} GiB of host memory; "
                        f"{offer.instance_type} has {offer.memory_gib:g} GiB"
                    ),
                )
            )
        return problems

    def place_problem(self, place: str) -> str:
        """Return why workers may not be in a place; empty if they may."""
        wish = self.requirements
        if wish.places_in and not any(fnmatchcase(place, p) for p in wish.places_in):
            return f"{place} is not in --in {','.join(wish.places_in)}"
        if any(fnmatchcase(place, p) for p in wish.places_not_in):
            return f"{place} is excluded by --not-in {','.join(wish.places_not_in)}"
        if (
            wish.counts_carbon
            and place in self.catalog.regions
            and self.catalog.regions[place].grid_carbon_g_per_kwh is None
        ):
            return f"{place}: {NO_GRID}"
        return ""

    def _place_admitted(self, offer: VmOffer) -> bool:
        """Return whether a place is admitted; owned machines count only at sites the user names."""
        if self.place_problem(offer.place):
            return False
        wish = self.requirements
        named = (
            *wish.places_in,
            *(rule.place for rule in wish.used),
            *own_places(self.catalog.changes),
        )
        return offer.price_basis != "owned" or any(
            fnmatchcase(offer.place, p) and not p.startswith("*") for p in named
        )

    def _measured(self, offer: VmOffer) -> bool:
        pool = self.pool(offer)
        return pool is not None and pool.alone.basis in ("measured", "published")

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the answer depends on, ready for JSON: admitted offers, others
        that may serve, the largest network cards.
        """
        built = msgspec.to_builtins(
            {name: getattr(self, name) for name in PARTS if name != "profile"}
        )
        built = {"profile": profile_document(self.profile, measurements=False), **built}
        for name in LATER_FIELDS:
            if not built["requirements"][name]:
                del built["requirements"][name]
        kept = {
            id(offer)
            for offer in (
                *(pool.offer for pool in self.pools),
                *largest_cards(self.catalog, self.catalog.regions),
            )
        }
        built["calibration"] = calibration_document(self.calibration)
        rows = rows_about(self.catalog.capacity, self.catalog.offers)
        built["catalog"]["capacity"] = [capacity_document(row) for row in rows]
        for name in ("settings", "changes", "capacity"):
            if not built["catalog"].get(name):
                built["catalog"].pop(name, None)
        if self.requirements.quota_gpus == FORMER_QUOTA_GPUS:
            del built["requirements"]["quota_gpus"]
        servers = "parameter-server" in {name for name, _ in self.modes}
        built["catalog"]["offers"] = [
            offer_document(o) for o in self.catalog.offers if servers or id(o) in kept
        ]
        built["catalog"]["stores"] = [store_document(store) for store in self.catalog.stores]
        built["catalog"]["gpus"] = {
            name: gpu_document(gpu) for name, gpu in self.catalog.gpus.items()
        }
        return {"schema": SCHEMA, **built}

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Problem:
        """Read what `to_dict` wrote.

        Raises
        ------
        PlacerError
            If the text is not a problem of this version.
        """
        if raw.get("schema") != SCHEMA:
            raise PlacerError(f"not a {SCHEMA} file", f'its "schema" must be "{SCHEMA}"')
        try:
            parts = {k: raw[k] for k in PARTS}
            parts["requirements"] = {"quota_gpus": FORMER_QUOTA_GPUS, **parts["requirements"]}
            parts["calibration"] = with_former_figures(parts["calibration"])
            return msgspec.convert(parts, Problem)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            raise PlacerError(f"problem file: {error}", "write it with Problem.to_dict") from None

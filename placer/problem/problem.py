"""The validated question with the workers that it admits; saves to one JSON file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np

from placer.errors import PlacerError
from placer.market.capacity_table import capacity_document, rows_about
from placer.market.catalog import OLD_TRANSPORT, Catalog, VmOffer, gpu_document, offer_document
from placer.market.network.graph import largest_cards
from placer.market.network.link_model import Array
from placer.market.scaled_market import ONE_ROW, REPRICED, RowChange
from placer.market.table import Table
from placer.problem.kept_answers import Recent
from placer.problem.question import KEPT_POOLS, PARTS
from placer.problem.requirements import LATER_FIELDS, Narrowed, Requirements
from placer.problem.workers.admission import WithAdmission
from placer.problem.workers.islands import IslandQuestion, StepPart
from placer.problem.workers.pool import Pool
from placer.problem.workers.pools import Pools
from placer.problem.workers.speeds import ISLAND_FIELDS, island_kind
from placer.problem.workers.worker_sizes import ROUNDING, Kind, Limits, Size, Twins, sizes
from placer.records import replace
from placer.workload.constants import calibration_document
from placer.workload.island import Island, Refusal
from placer.workload.profile import ModelProfile, profile_document

T = TypeVar("T")
SCHEMA = "placer.problem/v1"
FORMER_QUOTA_GPUS = 8
"""Quota where a document does not name any: once it held for everybody, so that such documents
mean the same as ever.
"""


def _most_machines(offer: VmOffer, question: IslandQuestion) -> int:
    """Return how many machines of an offer a worker may have, however many there are."""
    return question.limits(offer)[1] if offer.network_gbps and offer.fabric else 1


def _unwritten(offers: object) -> list[object]:
    """Leave the offers of a catalog to who chooses some of them."""
    if not isinstance(offers, Table):
        raise NotImplementedError(f"{type(offers).__name__} is no part of a document")
    return []


WORKER_FIELDS = (*ISLAND_FIELDS, "market", "price_basis", "available")
"""All of an offer that its workers depend on, where they are alike everywhere."""


SHARED_OFFERS = 20_000
"""Offers of a book up to which questions about some places share what is admitted anywhere."""


class Problem(WithAdmission, frozen=True, kw_only=True, dict=True):
    """One question, ready to solve: profile, catalog, requirements and network."""

    @cached_property
    def pools(self) -> Pools:
        """Offers that the request admits, in the order of the book; questions that admit the same
        share them. For a model with an architecture, workers of every number of machines with their
        plan and speed where the number of workers is known; else the smallest ones, with a speed
        that no plan exceeds.
        """
        if self.island_question is not None and self.fixed_workers is not None:
            longest_s = self._limits(self.fixed_workers).longest_s
            return Pools.of(self.sized(self.fixed_workers, lambda _: longest_s))
        return self._shared("pools", self._island_limits, self._admitted)

    @property
    def every_pool(self) -> Sequence[Pool]:
        """Offers that the request admits, as workers of every number of machines."""
        if self.island_question is None or self.fixed_workers is not None:
            return self.pools
        pools = (
            self.pool(offer, machines)
            for kind in self.worker_kinds
            for offer in kind.offers
            for machines in range(kind.least, kind.most + 1)
        )
        return tuple(pool for pool in pools if pool is not None and pool.max_count >= 1)

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

    def _admitted(self) -> Pools:
        table = self.catalog.table
        row: RowChange | None = self.catalog.memo.get(ONE_ROW)
        if row is not None:  # a price decides nothing of what is admitted, nor how fast it is
            left_out = row.at if row.changed is None else None
            return replace(self, catalog=row.plain).pools.over(table, without=left_out)
        plain: Catalog | None = self.catalog.memo.get(REPRICED)
        if plain is not None:
            return replace(self, catalog=plain).pools.over(table)
        if self.island_question is None and (wider := self._wider) is not None:
            every = replace(self, requirements=wider).pools
            return every.at(self._asked_for(every.rows))
        rows = self.admitted_rows()
        kind_of = first = np.arange(len(rows))
        if self._alike_everywhere:
            kind_of, first = table.groups(WORKER_FIELDS, rows)
        pools = [self.pools_of(table[row]) for row in rows[first].tolist()]
        kinds: list[Any] = [
            next((pool for pool in each if pool.max_count >= 1), None) for each in pools
        ]
        able = np.array([kind is not None for kind in kinds], dtype=bool)[kind_of]
        return Pools(kinds, kind_of, table, rows).at(able)

    @property
    def _wider(self) -> Requirements | None:
        """The same wishes wherever, in whatever market and at whatever age of price: questions that
        differ in these share what is slow to work out. None where they ask for no less.
        """
        wish, table = self.requirements, self.catalog.table
        everywhere = replace(wish, oldest_price=None)
        # Owned machines are admitted where they are named; a large book costs more than it saves.
        if len(table) <= SHARED_OFFERS and "owned" not in table.column("price_basis").values:
            everywhere = replace(everywhere, places_in=(), places_not_in=(), market="any")
        return None if everywhere == wish else everywhere

    def _asked_for(self, rows: Array) -> Array:
        """Return which rows have a place, a market and a price as new as is asked for."""
        table, wish = self.catalog.table, self.requirements
        place, first = table.groups(("provider", "region"), rows)
        asked = np.array([not self.place_problem(table[row].place) for row in rows[first].tolist()])
        kept = asked[place] if len(rows) else np.zeros(0, dtype=bool)
        if wish.market != "any":
            kept &= table.column("market").where(lambda market: market == wish.market)[rows]
        if wish.oldest_price is not None:
            oldest = wish.oldest_price
            kept &= table.column("as_of").where(lambda day: day >= oldest)[rows]
        return kept

    @cached_property
    def _alike_everywhere(self) -> bool:
        """Whether neither the place nor the type of a machine decides how many there are, nor how
        fast they are.
        """
        wish = self.requirements
        limited = wish.quotas or wish.speed_caps or self._launch_rows
        return not limited and self.data_reads is None

    @cached_property
    def worker_kinds(self) -> tuple[Kind, ...]:
        """Admitted offers by what decides the plans of their machines."""
        return self._shared("kinds", self._island_limits, self._build_kinds)

    def _build_kinds(self) -> tuple[Kind, ...]:
        question = self.island_question
        assert question is not None
        by_kind: dict[tuple[object, ...], list[VmOffer]] = {}
        for offer in self.admitted_offers():
            by_kind.setdefault(island_kind(offer), []).append(offer)
        prices: dict[tuple[str, int], list[tuple[float, int, int]]] = {}
        for offer in (offer for offers in by_kind.values() for offer in offers):
            row = offer.usd_per_hour, self.machines_there(offer), _most_machines(offer, question)
            prices.setdefault((offer.gpu, offer.gpu_count), []).append(row)
        twins = {device: Twins(rows) for device, rows in prices.items()}
        kinds = (self._kind(question, tuple(offers), twins) for offers in by_kind.values())
        return tuple(kind for kind in kinds if kind is not None)

    def _kind(
        self,
        question: IslandQuestion,
        offers: tuple[VmOffer, ...],
        twins: Mapping[tuple[str, int], Twins],
    ) -> Kind | None:
        """Return offers of one kind with the sizes of their workers; None if none fits the model. A
        smaller part of a step never needs fewer machines than the whole step.
        """
        first = offers[0]
        most = min(_most_machines(first, question), max(map(self.machines_there, offers)))
        least, built = question.nearest(first, StepPart(self.batch, 1), most)
        if most < 1 or isinstance(built, Refusal):
            return None
        return Kind(
            offers=offers,
            rank_s=question.sequence_seconds(first, most),
            least=least,
            most=most,
            usd_per_hour=min(offer.usd_per_hour for offer in offers),
            twins=twins[first.gpu, first.gpu_count],
        )

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
        return self._once("sizes", workers, lambda: sizes(self.worker_kinds, self._limits(workers)))

    def sized(self, workers: int, longest_s: Callable[[Size], float]) -> tuple[Pool, ...]:
        """Return workers with a plan for an equal part of a step, in the order of the book.
        ``longest_s``: seconds of a part of a worker of some size, at most.
        """
        most = self._limits(workers).usd_s * (1 + ROUNDING)
        pools = [
            pool
            for size in self.worker_sizes(workers)
            for longest in (longest_s(size) * (1 + ROUNDING),)
            if size.calculation_s <= longest
            and self.may_reach(size.kind.offers[0], size.machines, workers, longest)
            for built in (self.island(size.kind.offers[0], size.machines, workers=workers),)
            if isinstance(built, Island) and built.step.seconds <= longest
            for offer in size.offers
            if size.machines * offer.usd_per_hour * built.step.seconds <= most
            for inner in (None, *(rival.plan for rival in built.rivals))
            for pool in (self.pool(offer, size.machines, inner, workers),)
            if pool is not None and pool.max_count >= 1 and self.part_s(pool, workers) <= longest
        ]
        order = self.catalog.offer_order
        return tuple(sorted(pools, key=lambda pool: (order[id(pool.offer)], pool.machines)))

    def part_s(self, pool: Pool, workers: int) -> float:
        """Return the seconds in which a worker with a plan does its part of a step, one of some
        equal ones: alone it is as fast as beside others.
        """
        return self.batch / workers / pool.shared.value

    def with_pools(
        self,
        requirements: Requirements,
        pools: Iterable[Pool],
        modes: tuple[tuple[str, int], ...] | None = None,
    ) -> Problem:
        """Return the question with other wishes, about some of its workers alone, and some of its
        modes.
        """
        asked = replace(self, requirements=requirements)
        asked.__dict__["pools"] = Pools.of(pools)
        if modes is not None:
            asked.__dict__["modes"] = modes
        return asked

    @cached_property
    def pools_of_groups(self) -> dict[tuple[object, ...], Pool]:
        """Pools that groups were found to be of, by offer, machines and plan."""
        return {}

    @cached_property
    def free_share(self) -> float:
        """Most of the time behind which an exchange may hide that some worker leaves to it."""
        if self.island_question is None or self.fixed_workers is None:
            return 1.0
        return max((pool.free_share for pool in self.pools.kinds), default=1.0)

    @cached_property
    def lanes(self) -> int:
        """Machines of the largest worker that send side by side; 1 under hivemind."""
        if self.transport == OLD_TRANSPORT or self.island_question is None:
            return 1
        return max((pool.machines for pool in self.pools.kinds), default=1)

    @cached_property
    def workers_hold_back(self) -> bool:
        """Whether workers may be slower together than each by itself, as they wait for their data:
        at a store that all of them read, or in another pass than others do.
        """
        return self.least_loaded_samples_per_s < math.inf or any(
            pool.keeps_data for pool in self.pools.kinds
        )

    @cached_property
    def least_loaded_samples_per_s(self) -> float:
        """Least samples/s that store and lines leave to all workers together."""
        if self.data_store is None:
            return self.most_loaded_samples_per_s
        lines = (self.line_samples_per_s(place) for place in self.pools.places[1])
        return min([self.most_loaded_samples_per_s, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return everything that the answer depends on, ready for JSON."""
        built = msgspec.to_builtins(
            {name: getattr(self, name) for name in PARTS if name != "profile"}, enc_hook=_unwritten
        )
        built = {"profile": profile_document(self.profile, measurements=False), **built}
        for name in LATER_FIELDS:
            if not built["requirements"][name]:
                del built["requirements"][name]
        cards = largest_cards(self.catalog, self.catalog.regions)
        kept = {*map(id, cards), *(id(pool.offer) for pool in self.pools)}
        built["calibration"] = calibration_document(self.calibration)
        machines = ((o.provider, o.region, o.gpu, o.market) for o in self.catalog.offers)
        rows = rows_about(self.catalog.capacity, machines)
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
        built["catalog"]["stores"] = [offer_document(store) for store in self.catalog.stores]
        built["catalog"]["gpus"] = {
            name: gpu_document(gpu) for name, gpu in self.catalog.gpus.items()
        }
        return {"schema": SCHEMA, **built}

    @staticmethod
    def from_dict(raw: Mapping[str, Any]) -> Problem:
        """Read what `to_dict` wrote. `PlacerError` if the text is not a problem of this version."""
        if raw.get("schema") != SCHEMA:
            raise PlacerError(f"not a {SCHEMA} file", f'its "schema" must be "{SCHEMA}"')
        try:
            parts = {k: raw[k] for k in PARTS}
            parts["requirements"] = {"quota_gpus": FORMER_QUOTA_GPUS, **parts["requirements"]}
            return msgspec.convert(parts, Problem)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            raise PlacerError(f"problem file: {error}", "write it with Problem.to_dict") from None

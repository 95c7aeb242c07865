"""The parts of a question, and what follows from them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from placer.market.catalog import Catalog, FunctionOffer, StoreOffer
from placer.market.network.graph import Network, network_of
from placer.market.network.link_model import pairwise_km
from placer.market.scaled_market import AGGREGATOR_PLACES
from placer.problem.copies import Copy, copies_of
from placer.problem.exchange import goes_on_without, overlaps, traits
from placer.problem.kept_answers import Recent
from placer.problem.placement import Exchange
from placer.problem.requirements import LOCAL, OUTER, SYNCHRONOUS, Requirements, doublings
from placer.problem.workers.islands import StepPart
from placer.problem.workers.pool import JointLimit
from placer.records import replace
from placer.workload.constants import PUBLISHED, RINGS, Calibration
from placer.workload.engines import ENGINES, engines_of
from placer.workload.profile import FEEDBACK_COMPRESSIONS, ModelProfile

T = TypeVar("T")
PARTS = ("profile", "requirements", "catalog", "calibration")
"""What a problem file holds."""
MOST_KNOWN_LOCAL_STEPS = 512
"""Where catalogs/convergence.csv ends; beyond, only strategies whose multiplier the user gives."""
MOST_LOCAL_STEPS = 64
"""Local steps that are tried where a local strategy is asked for without a number."""
KEPT_POOLS = 32
"""Sets of admitted offers that a catalog keeps for further questions, of up to 3 MB each: a set for
each shipped model, and some.
"""
KM_PER_DEGREE = 111.0
"""Kilometres of one degree of latitude, rounded down."""
SAME_CITY_KM = 100.0
"""An aggregator and its store are chosen in one city unless the user names their places."""


class Question(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A question in its four parts; `Problem` adds which workers it admits."""

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
        """Return the question alone: its memos go by identity, which ends with a process."""
        return {name: getattr(self, name) for name in PARTS}

    @cached_property
    def _memo(self) -> defaultdict[str, dict[Any, Any]]:
        return defaultdict(dict)

    def _once(self, name: str, key: object, build: Callable[[], T]) -> T:
        known: dict[object, T] = self._memo[name]
        if key not in known:
            known[key] = build()
        return known[key]

    @cached_property
    def network(self) -> Network:
        """Links and egress prices of the catalog."""
        return network_of(self.catalog)

    @cached_property
    def batch(self) -> int:
        """Samples of one step over all workers, B in the formulas; of several the smallest."""
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

    @property
    def data_copy(self) -> Copy | None:
        """How the data gets to its store before the run; None: it is there."""
        return self.data_copies[0] if self.data_copies and self.data_store is not None else None

    @cached_property
    def data_copies(self) -> tuple[Copy, ...]:
        """Copies of the data, of which one is made before the run; several only in questions that
        bound them all, whose workers read whichever is best for them.
        """
        wish = self.requirements
        if not wish.copies_data:  # asked of every problem: no network is made for it
            return ()
        return copies_of(wish, self.catalog, self.network, self.profile.bytes_per_sample)

    @cached_property
    def joint_limits(self) -> tuple[JointLimit, ...]:
        """Limits on sums over all workers that the wishes set."""
        wish = self.requirements
        quotas = (JointLimit(most=row.most, quota=row) for row in wish.joint_quotas)
        machines = [] if wish.max_machines is None else [JointLimit(most=wish.max_machines)]
        together = (cap for cap in wish.speed_caps if cap.scope != "each")
        caps = (JointLimit(most=cap.most, cap=cap) for cap in together)
        return (*quotas, *machines, *caps)

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
        """Return the sequences of a step that the fullest of some workers has."""
        return StepPart(self.batch, workers).fullest

    @cached_property
    def mixes_workers(self) -> bool:
        """Whether workers with a plan may be of several kinds: where machines or data are given,
        not chosen. Else all of them are equally fast, for each waits for the slowest.
        """
        wish = self.requirements
        rows = self.catalog.table.matching(price_basis="owned").tolist()
        owned = {self.catalog.offers[row].device for row in rows}
        return bool(wish.datasets) or any(rule.given for rule in wish.used) or len(owned) > 1

    @cached_property
    def uniform(self) -> bool:
        """Whether all workers are of one kind: steps are divided equally, none is given."""
        wish = self.requirements
        return wish.uniform and self.transport in RINGS and not self.mixes_workers

    @cached_property
    def modes(self) -> tuple[tuple[str, int], ...]:
        """Pairs (strategy, local steps) that the request admits for two workers or more. ``auto``
        admits what is synchronous, and with local steps also what exchanges every H steps, as far
        as an engine does it. Local steps are tried as powers of two between the ends of their
        range.
        """
        wish = self.requirements
        least, most = wish.min_local_steps or 1, wish.max_local_steps or MOST_LOCAL_STEPS
        wanted = wish.exchange
        usual = SYNCHRONOUS if wish.max_local_steps is None else SYNCHRONOUS + self._local
        named = usual if wanted == "auto" else (wanted,)
        given = {name for name, _ in wish.samples_to_target}
        able = [
            name
            for name in named
            if (traits(name).may_overlap or not wish.overlap)
            and (wish.quorum is None or goes_on_without(name, overlap=wish.overlap))
            and (traits(name).outer or self.compression not in FEEDBACK_COMPRESSIONS)
            and ((wanted == name and not wish.engine) or self._is_executed(name))
        ]
        modes = [(name, 1) for name in able if name not in LOCAL and least == 1]
        known = [
            (name, h)
            for name in able
            if name in LOCAL
            for h in doublings(least, most)
            if h <= MOST_KNOWN_LOCAL_STEPS or name in given
        ]
        return tuple(modes + known)

    def _is_executed(self, name: str) -> bool:
        """Return whether an engine does an exchange as the request asks for it."""
        wish = self.requirements
        asked = Exchange(
            strategy=name,
            compression=self.compression,
            overlap=overlaps(name, wanted=wish.overlap),
            streams=wish.streams,
        )
        able = [ENGINES[wish.engine]] if wish.engine else engines_of(self.transport)
        return any(engine.lack(asked) is None for engine in able)

    @property
    def _local(self) -> tuple[str, ...]:
        """Local strategies of ``auto``: local SGD has no published figures for language models."""
        language = self.profile.architecture is not None
        return tuple(name for name in LOCAL if name not in (("local-sgd",) if language else OUTER))

    @cached_property
    def aggregator_places(self) -> tuple[tuple[str, str], ...]:
        """Pairs (function place, store place) that a central exchange may use, sorted."""
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
        pairs = zip(near, apart, strict=True)
        together = ((a, b) for (a, b), km in pairs if a == b or km <= SAME_CITY_KM)
        return tuple(sorted(together))

    @cached_property
    def serverless_places(self) -> frozenset[str]:
        """Places that have a function and exactly one store."""
        stores = [store.place for store in self.catalog.stores]
        return frozenset(f.place for f in self.catalog.functions if stores.count(f.place) == 1)

    def function(self, place: str) -> FunctionOffer:
        """Find the function that the user names where the place has it, else its first."""
        wanted = self.requirements.function
        if wanted is not None and any(
            f.place == place and f.function == wanted for f in self.catalog.functions
        ):
            return self.catalog.function(f"{wanted}@{place}")
        return self.catalog.function(place)

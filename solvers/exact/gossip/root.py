"""The bound of all placements of regions that send to each other in turn."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from msgspec import Struct

from placer.cost_model.limits import TOLERANCE
from placer.records import replace
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices
from ..._target import Target
from ..bounds.exchange_pattern import Partners
from ..bounds.relaxation import Relaxation
from ..search import Ranges
from .pricing import Cases, Prices, Pricing, within
from .site_groups import Sends, SiteGroups, site_groups_of

SLICE = 1.15
"""Ratio of the ends of a slice of speeds, at most."""
STRIDE = 7
"""One of so many slices is bounded first, where one that is open is enough."""
SPLITS = 3
"""Times that a slice which is open is halved in speeds and regions before it stays open."""
AT_ONCE = 32
"""First regions of a slice that are bounded together."""
REGIONS = (2, 3, 4, 5, 7, 9, 12, 16, 21, 28, 38, 51, 68, 91, 121, 161)
"""Fewest regions of the intervals that are bounded together."""


class Slice(Struct, frozen=True, kw_only=True, dict=True):
    """Placements of so many regions whose machines do so many samples/s, both ends included."""

    regions: tuple[int, int]
    speeds: tuple[float, float]

    @property
    def halves(self) -> list[Slice]:
        """The same placements in slices of half the speeds and, where there are several, half the
        regions: the bound takes the partners of the fewest and the waits of the least speed.
        """
        (fewest, most), (low, high) = self.regions, self.speeds
        middle, half = (low * high) ** 0.5, (fewest + most) // 2
        regions = [(fewest, half), (half + 1, most)] if fewest < most else [self.regions]
        speeds = [(low, middle), (middle, high)]
        return [Slice(regions=r, speeds=v) for r in regions for v in speeds]


class GossipRoot:
    """Bound of a mode by slices of total speed and intervals of regions.

    ``ranges``: numbers of workers and regions. With V samples/s of all machines, a region of v
    samples/s counts v / mean over its partners of max(1 + a V / B, D V / (H B)): a is what its
    machines need for one average, D a send. In a slice V is at least its lower end, and the mean at
    least that of the nearest partners.
    """

    def __init__(self, relaxation: Relaxation, ranges: Ranges) -> None:
        self.relaxation, self.ranges = relaxation, ranges
        self.market = relaxation.market
        self.mode = relaxation.mode
        self.problem = relaxation.problem
        self.sends = Sends(self.market, self.mode)

    @property
    def target(self) -> Target:
        """Incumbent and limits."""
        return self.relaxation.target

    @cached_property
    def applies(self) -> bool:
        """Whether the bound says anything: data that has its place fixes the shares of regions."""
        return not self.problem.requirements.datasets

    @cached_property
    def site_groups(self) -> SiteGroups:
        """All site groups of the market."""
        families = self.relaxation.families
        key = (
            "site_groups",
            self.ranges.most_workers,
            tuple((family.own, family.averaging_s.tobytes()) for family in families),
        )
        if key not in self.market.kept:
            self.market.kept[key] = site_groups_of(self.market, families, self.ranges.most_workers)
        return self.market.kept[key]

    @cached_property
    def pricing(self) -> Pricing:
        """Bounds over the site groups."""
        return Pricing(self.site_groups, self._check_time)

    def _check_time(self) -> None:
        self.target.check_time()  # of the target of the moment

    @cached_property
    def near(self) -> Partners:
        """Nearest partners of each place."""
        return Partners(self.sends.seconds)

    @cached_property
    def cheap(self) -> Partners:
        """Cheapest partners of each place."""
        return Partners(self.sends.usd)

    def bound(self) -> float:
        """Return samples/s that count which no improvement exceeds."""
        slices = self.slices()
        return float(self.reached(slices).max()) if slices else 0.0

    def slices(self) -> list[Slice]:
        """Cover what an improvement may be."""
        needed = self.mode.multiplier * self.target.min_speed
        fastest = self.fastest
        if fastest < needed:
            return []
        count = max(1, int(np.ceil(np.log(fastest / needed) / np.log(SLICE))))
        ends = np.geomspace(needed * (1 - TOLERANCE), fastest * (1 + TOLERANCE), count + 1)
        first, last = max(2, self.ranges.fewest_regions), self.ranges.most_regions
        starts = sorted({first, *(r for r in REGIONS if first < r <= last)})
        return [
            Slice(regions=(low, high - 1), speeds=(float(v1), float(v2)))
            for low, high in zip(starts, [*starts[1:], last + 1], strict=True)
            for v1, v2 in pairwise(ends)
        ]

    @property
    def fastest(self) -> float:
        """Samples/s that the machines of an improvement do at most."""
        market = self.market
        rows = (market.weights[:, 0] > 0) & ~np.any(market.weights[:, 2:] > 0, axis=1)
        sums = market.best_sums.of(
            np.arange(len(market.places)), market.hosts, self.ranges.most_workers
        )[rows].max(axis=1)
        price = market.weights[rows, 1]
        return float(within(sums, price, self.most_usd, self.most_usd_per_speed).min())

    @property
    def most_usd(self) -> float:
        """USD/h that an improvement pays for machines and egress at most."""
        data = min(self.market.data_usd)
        processed = self.mode.multiplier * self.target.min_speed
        return self.target.max_usd_per_hour - SECONDS_PER_HOUR * processed * data

    @property
    def most_usd_per_speed(self) -> float:
        """USD/h that an improvement pays at most for a samples/s that counts for its target."""
        usd = self.target.max_usd_per_sample / self.mode.multiplier
        return max(0.0, SECONDS_PER_HOUR * (usd - min(self.market.data_usd)))

    def allows(self) -> bool:
        """Return whether some slice may hold an improvement: False is a proof."""
        slices = self.slices()
        some = slices[::STRIDE]  # mostly one of these is open, or none at all
        return self._open(some, SPLITS) or self._open(
            [one for at, one in enumerate(slices) if at % STRIDE], SPLITS
        )

    def _open(self, slices: list[Slice], splits: int) -> bool:
        """Return whether some slice stays open, however often it is halved."""
        if not slices:
            return False
        cases = self._cases(slices)
        reached, dollar, speed = self.pricing.bounds(cases, self._needed)
        left = np.flatnonzero(reached >= self._needed)
        order = left[np.argsort(-reached[left], kind="stable")]
        for k in order.tolist():
            if not self._first_open(slices[k], cases.at(slice(k, k + 1)), dollar[k], speed[k]):
                continue
            if splits == 0 or self._open(slices[k].halves, splits - 1):
                return True
        return False

    def _first_open(self, own: Slice, case: Cases, dollar: float, speed: float) -> bool:
        """Return whether a slice stays open where one of its regions is known.

        ``case``: the slice. ``dollar``, ``speed``: prices at which its bound is tight. Every
        placement has a region that comes first in the order of worth. With it known, each other
        region sends to it, however far away it is, and none that comes before has workers.
        """
        pricing, (_, most) = self.pricing, own.regions
        prices = Prices(dollar=np.array([[dollar]]), speed=np.array([[speed]]))
        worth = pricing.worth(case, prices)[0, 0]
        order = np.argsort(-worth, kind="stable")
        rank, ranked = np.argsort(order), worth[order]
        sums = np.concatenate([[0.0], np.cumsum(np.maximum(ranked, 0.0))])
        ends = np.minimum(np.arange(len(order)) + most, len(order))
        # At these prices, with as many of the best that come later as there may be.
        reached = speed * case.most_speed[0] + ranked + sums[ends] - sums[1:]
        reached = within(reached, dollar, case.most_usd, case.most_usd_per_speed)
        firsts, step = np.flatnonzero(reached >= self._needed), 1
        while len(firsts):  # the best alone: mostly it leaves the slice open
            some, firsts, step = firsts[:step], firsts[step:], AT_ONCE
            each = case.at(np.zeros(len(some), dtype=np.intp))
            weight = self._weights_with(order[some], own, _inverse(case.weight[0]))
            each = replace(each, weight=weight, first=order[some], open=rank > some[:, None])
            every = np.ones(len(some))
            if pricing.near(each, dollar * every, speed * every, self._needed).any():
                return True
        return False

    def _weights_with(self, firsts: Indices, own: Slice, nearest: Array) -> Array:
        """Return `weights` where each of some places is known to have workers, by position among
        the places of the site groups; shape (firsts, site groups).

        ``nearest``: mean of the sends to the nearest of the fewest regions. Of R - 1 sends of
        another region one goes to the known one, the others are no shorter than to the nearest
        R - 2 of the fewest: their mean lies between those of the fewest and of the most R.
        """
        site_groups, (fewest, most) = self.site_groups, own.regions
        scale = own.speeds[0] / float(self.mode.samples)
        here = 1 + site_groups.averaging_s * scale * self.mode.local_steps
        places = site_groups.place[self.pricing.starts][firsts]
        sent = np.maximum(here, scale * self.sends.seconds[np.ix_(site_groups.place, places)].T)
        rest: Array | float = 0.0
        if fewest > 2:
            others = np.array([fewest - 2])
            rest = (fewest - 2) * _inverse(self.weights(np.array([own.speeds[0]]), others)[0])
        least = (sent + rest) / (fewest - 1)
        if most > fewest > 2:
            longer = rest * ((most - 2) / (fewest - 2))
            least = np.minimum(least, (sent + longer) / (most - 1))
        mine = site_groups.place == places[:, None]
        return 1 / np.where(mine, nearest, least)

    def reached(self, slices: list[Slice]) -> Array:
        """Return what no improvement in a slice exceeds; shape (slices,)."""
        if not slices:
            return np.zeros(0)
        built: Array = self.pricing.bounds(self._cases(slices), self._needed)[0]
        return built / self.mode.multiplier

    def _cases(self, slices: list[Slice]) -> Cases:
        low, high = (np.array([each.speeds[k] for each in slices]) for k in (0, 1))
        fewest, most = (
            np.array([each.regions[k] for each in slices], dtype=np.intp) for k in (0, 1)
        )
        return Cases(
            weight=self.weights(low, fewest - 1),
            usd=self.usd(fewest - 1),
            most_speed=high,
            most_usd=self.most_usd,
            most_usd_per_speed=self.most_usd_per_speed,
            fewest=fewest,
            most=most,
        )

    @property
    def _needed(self) -> float:
        return self.mode.multiplier * self.target.min_speed * (1 - TOLERANCE)

    def weights(self, speed: Array, partners: Indices) -> Array:
        """Return what a samples/s of each site group counts at most; shape (cases, site groups)."""
        site_groups, samples = self.site_groups, float(self.mode.samples)
        own = 1 + site_groups.averaging_s * speed[:, None] * self.mode.local_steps / samples
        return 1 / self.near.means_above(site_groups.place, own, speed / samples, partners)

    def usd(self, partners: Indices) -> Array:
        """Return the least egress of each site group in USD/h; shape (cases, site groups)."""
        rounds = SECONDS_PER_HOUR * self.mode.multiplier * self.target.min_speed / self.mode.samples
        site_groups = self.site_groups
        home = (site_groups.machines - 1) * self.sends.home_usd[site_groups.place]
        return rounds * (self.cheap.means(partners)[:, site_groups.place] + home)


def _inverse(weight: Array) -> Array:
    """Return 1 / weight, infinite for none; of its shape."""
    with np.errstate(divide="ignore"):
        built: Array = 1 / weight
    return built

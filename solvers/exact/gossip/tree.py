"""Branch and bound over numbers of regions, slices of speed, classes of regions, and regions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice

import numpy as np

from placer.cost_model.limits import TOLERANCE
from placer.problem.placement import WorkerGroup
from placer.problem.problem import groups_of
from placer.records import replace
from placer.units import SECONDS_PER_HOUR

from ..._market.arrays import Array, Indices, Mask
from .guess import Guess
from .known import every_set
from .known.settled import Limits, Place, Settled
from .node import Box, Chosen, Node, least_partners
from .packing import NEAR, Packing
from .pairs.bound import Pairs
from .pairs.lines import Sends
from .pairs.rules import Rules
from .pricing import SPEED
from .root import GossipRoot, Slice
from .sends import near_classes, price_classes
from .work import CYCLES, Work

ROUNDS = 3
"""How often a node is bounded again after crews of it were ruled out."""
COARSE, FINE, FINEST = 1.3, 1.004, 1.00001
"""Ratios of speeds: coarse slices are cut before numbers of regions, fine ones where all places are
known alone, the finest ones not at all.
"""
PAIRED = 0.2
"""Pairs are looked at where sends lose this much of what a bound is above what is needed."""
PACKED = 0.5
"""Whole machines are looked at where sends lose less than this of it."""
SHARE = 0.2
"""A slice is cut where that takes this much of what a bound is above what is needed."""
GUESSES = 20
"""Machines of known places that are tried before their slice is cut."""
HALF = 0.5
"""Share of what a samples/s counts that is lost where one has to be given up, as a guess: a dearer
one takes its place.
"""
CREWS = 250
"""Crews of a node that count as one node of other searches: they take about as long."""
PAIRS = 2_000
"""Pairs of a crew and a place that count as one more."""
FEW, OPTIONS = 5_000, 200
"""Steps of an enumeration of the machines of known places, and machines of one place that it looks
at, at any range of speeds; more steps in slices that are finer than `FINE`.
"""


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """A node with its bound in samples/s of all machines that count."""

    reached: float
    node: Node
    chosen: Chosen | None


class GossipTree:
    """Best-first branch and bound.

    Parameters
    ----------
    root
        Bound of the mode.
    offer
        Offers groups of machines.

    Notes
    -----
    ``proved`` is a value in samples/s that no placement that is still open exceeds.
    """

    def __init__(
        self,
        root: GossipRoot,
        offer: Callable[[tuple[WorkerGroup, ...]], None],
    ) -> None:
        self.root, self.offer = root, offer
        self.mode, self.crews = root.mode, root.crews
        seconds, usd = root.sends.seconds, root.sends.usd
        self.seconds, self.usd = seconds, usd
        self.kinds = near_classes(seconds.copy()), price_classes(usd.copy())
        self.proved = np.inf
        self._number = count()
        self.settled = Settled(root.market, root.averaging, root.target.tick)
        self.guess = Guess(root.market, root.target.tick)
        self.packing = Packing(root.market, root.crews, root.target.tick)
        self._guessed: set[bytes] = set()
        self.nodes = 0

    @property
    def needed(self) -> float:
        """Samples/s of all machines, as they count, that an improvement has at least."""
        return self.mode.multiplier * self.root.target.min_speed * (1 - TOLERANCE)

    def turns(self, slices: list[tuple[float, Slice]]) -> Iterator[None]:
        """Search all placements of some slices, each with what none of them exceeds; yield now and
        then. Raises StoppedError if it is stopped.
        """
        self._heap: list[tuple[float, int, Node | Bounded]] = []
        for reached, node in self._first(slices):
            self._push(reached, node)
        self.proved = max((reached for reached, _ in slices), default=self.root.target.min_speed)
        while self._heap:
            least, _, found = heapq.heappop(self._heap)
            self.proved = -least / self.mode.multiplier
            if -least < self.needed:
                break
            yield
            self.root.target.check_time()
            if isinstance(found, Node):
                found = self._fast_enough(found)
            node = found if isinstance(found, Node) else found.node
            for _ in range(1 + len(node.crews) // CREWS):
                self.root.target.tick()
            if isinstance(found, Node):
                bounded = self.bounded(found)
                if bounded is not None:
                    reached = min(bounded.reached, -least)
                    self._push(reached, replace(bounded, reached=reached))
                continue
            if found.chosen is not None:
                self._guess(found.chosen)
            for child_reached, child in self._children(found):
                self._push(child_reached, child)
        self.proved = self.root.target.min_speed

    def _fast_enough(self, node: Node) -> Node:
        """Return a node with the total speed that an improvement on the best answer of the moment
        has at least: no samples/s counts more than one.
        """
        low, high = node.speeds
        least = min(self.needed, high)
        return replace(node, speeds=(least, high)) if low < least else node

    def _push(self, reached: float, node: Node | Bounded) -> None:
        if reached >= self.needed:
            heapq.heappush(self._heap, (-reached, next(self._number), node))

    def _guess(self, chosen: Chosen) -> None:
        """Offer what a relaxation chooses, where it is new."""
        key = np.sort(chosen.crews).tobytes()
        if key not in self._guessed:
            self._guessed.add(key)
            crews = self.crews.among(chosen.crews)
            for machines in self.guess.placements(crews, chosen, self.root.most_usd, self.needed):
                self._offer(machines)

    def _offer(self, machines: dict[int, int]) -> None:
        """Offer machines by pool, if they seem to be better than the best."""
        if machines and self._promises(machines):
            pools = [self.root.market.pools[i] for i in machines]
            self.offer(groups_of(pools, list(machines.values())))

    def _promises(self, machines: dict[int, int]) -> bool:
        """Return whether machines by pool may be better than the best, by the least that their
        sends take: to ask the model takes much longer.
        """
        market, target = self.root.market, self.root.target
        pools, count = np.array(list(machines)), np.array(list(machines.values()))
        used, at = np.unique(market.place_of[pools], return_inverse=True)
        if len(used) < 2:
            return False
        speed, workers = np.bincount(at, count * market.speed[pools]), np.bincount(at, count)
        averaging_s = np.zeros(len(used))
        for pool, place in zip(pools.tolist(), at.tolist(), strict=True):
            if workers[place] > 1:
                own = float(self.root.averaging[market.host_of[pool]][int(workers[place])])
                averaging_s[place] = max(averaging_s[place], own)
        per_sample = float(speed.sum()) / float(self.mode.samples)
        own_s = 1 + averaging_s * (per_sample * self.mode.local_steps)
        waits = np.maximum(own_s[:, None], self.seconds[np.ix_(used, used)] * per_sample)
        np.fill_diagonal(waits, 0.0)
        reached = float((speed / waits.sum(axis=1)).sum()) * (len(used) - 1)
        least = target.min_speed if target.best is None else target.best_value
        return reached >= self.mode.multiplier * least * (1 - TOLERANCE)

    def _first(self, slices: list[tuple[float, Slice]]) -> Iterator[tuple[float, Node]]:
        """Yield a node for each slice."""
        boxes = tuple(
            Box(low=np.zeros(kinds.max() + 1, dtype=np.intp), high=np.bincount(kinds))
            for kinds in self.kinds
        )
        every = np.arange(len(self.crews.place))
        none = np.zeros(len(self.seconds), dtype=bool)
        price = self.needed / max(self.root.most_usd, 1e-9)
        for reached, own in slices:
            node = Node(
                regions=own.regions,
                speeds=own.speeds,
                crews=every,
                forced=none,
                boxes=(boxes[0], boxes[1]),
                prices=(0.5 * price if np.isfinite(price) else 0.0, 0.3),
            )
            yield reached * self.mode.multiplier, node

    def bounded(self, node: Node) -> Bounded | None:
        """Return a node with its bound and without crews that are ruled out; None if there is no
        improvement in it.
        """
        self.nodes += 1
        needed, last = self.needed, None
        if node.transfers is not None:
            return self._paired(node, np.inf)
        for again in range(ROUNDS):
            work = self._work(node)
            if work is None:
                return None
            work.improve(needed, 2 if again else CYCLES)
            if work.reached < needed:
                return None
            left = work.reduced(needed)
            if left is None:
                return None
            changed = not np.array_equal(left.forced, work.node.forced) or len(
                np.unique(self.crews.place[left.crews])
            ) < len(work.places)
            node, last = left, work
            if not changed:
                break
        assert last is not None
        chosen = self._chosen(last)
        spare = last.reached - needed
        if spare < NEAR * needed and chosen.lost < PACKED * spare:
            last.reached = min(last.reached, self._packed(node, needed))
            if last.reached < needed:
                return None
        least = PAIRED * (last.reached - needed)
        if node.regions[1] < 3 or max(chosen.lost, self._lost_at_level(last)) < least:
            return Bounded(reached=last.reached, node=node, chosen=chosen)
        return self._paired(node, last.reached)

    def _lost_at_level(self, work: Work) -> float:
        """Return what sends lose in what a bound would choose if a samples/s cost nothing: at a
        price that is near its weight, no loss counts.
        """
        return self._chosen(replace(work, node=replace(work.node, prices=_level(work)))).lost

    def _packed(self, node: Node, needed: float) -> float:
        """Return what whole machines of a node reach at most; offer those that come close."""
        work = self._work(node)
        if work is None:
            return -np.inf
        packed = self.packing.packed(work, needed)
        if packed is None:
            return np.inf
        for machines in packed.machines:
            self._offer(machines)
        return packed.reached

    def _paired(self, node: Node, reached: float) -> Bounded | None:
        """Return a node with the bound that knows pairs; None if there is no improvement in it."""
        work, needed = self._work(node), self.needed
        if work is None:
            return None
        pairs = self._pairs(work)
        for _ in range(pairs.sends.waits.size // PAIRS):
            self.root.target.tick()
        if node.transfers is None:
            pairs.prices = _level(pairs)
        pairs.relax(needed)
        if pairs.reached < needed:
            return None
        left = pairs.reduced(needed)
        if left is None:
            return None
        left, chosen = replace(left, transfers=pairs.transfers), self._chosen(pairs)
        spare, reached = pairs.reached - needed, min(reached, pairs.reached)
        if node.transfers is not None and spare < NEAR * needed and chosen.lost < PACKED * spare:
            reached = min(reached, self._packed(left, needed))
            if reached < needed:
                return None
        return Bounded(reached=reached, node=left, chosen=chosen)

    @property
    def _rounds(self) -> float:
        """Rounds of an hour of the slowest improvement."""
        per_s = self.mode.multiplier * self.root.target.min_speed / self.mode.samples
        return SECONDS_PER_HOUR * per_s

    def _work(self, node: Node) -> Work | None:
        """Return a node with what its crews are worth at most; None if it is empty."""
        settled = self._within(node)
        if settled is None:
            return None
        node = settled
        crews = self.crews.among(node.crews)
        able = np.zeros(len(node.forced), dtype=bool)
        able[crews.place] = True
        if np.any(node.forced & ~able) or able.sum() < node.regions[0]:
            return None
        weight = self._weights(node, able, crews.place, crews.averaging_s)
        each = least_partners(self.usd, self.kinds[1], node.boxes[1], node, able)
        home = (crews.machines - 1) * self.root.sends.home_usd[crews.place]
        usd = self._rounds * (each.mean(axis=1)[crews.place] + home)
        fitting = (weight > 0) & np.isfinite(usd)
        if not fitting.all():
            kept = np.flatnonzero(fitting)
            node = replace(node, crews=node.crews[kept])
            if len(kept) == 0:
                return None
            crews, weight, usd = crews.among(kept), weight[kept], usd[kept]
        return Work(
            node=node,
            crews=crews,
            kinds=self.kinds,
            weight=weight,
            usd=usd,
            most_usd=self.root.most_usd,
        )

    def _pairs(self, work: Work) -> Pairs:
        """Return the same with what the crews wait for each partner and pay to it."""
        node, crews = work.node, work.crews
        per_sample = node.speeds[0] / float(self.mode.samples)
        own = 1 + crews.averaging_s * (per_sample * self.mode.local_steps)
        waits = np.maximum(own[:, None], self.seconds[crews.place] * per_sample)
        able = np.zeros(len(node.forced), dtype=bool)
        able[crews.place] = True
        rules = tuple(Rules.of(crews.place, kinds, box, node, able) for kinds, box in work.boxes())
        shortest = 1 / work.weight
        far, _ = rules[0].cheapest(-waits)
        longest = np.take_along_axis(waits, far, axis=1).mean(axis=1)
        usd = self._rounds * self.usd[crews.place]
        usd[np.arange(len(usd)), crews.place] = 0.0
        transfers = node.transfers
        return Pairs(
            node=node,
            crews=crews,
            kinds=work.kinds,
            weight=work.weight,
            usd=work.usd,
            most_usd=work.most_usd,
            rules=rules,
            transfers=np.zeros_like(self.seconds) if transfers is None else transfers,
            sends=Sends(
                waits=np.where(np.isfinite(waits), waits, 0.0),
                usd=usd,
                shortest=shortest,
                longest=np.maximum(longest, shortest * (1 + 1e-9)),
                home_usd=self._rounds
                * (crews.machines - 1)
                * self.root.sends.home_usd[crews.place],
            ),
        )

    def _chosen(self, work: Work) -> Chosen:
        """Say what a bound chooses, and what it loses against the sends among these places."""
        at, rounds = work.best(), self._rounds
        if len(at) < 2:
            none = np.zeros(len(at))
            return Chosen(
                crews=work.node.crews[at],
                weight=none,
                dollar=0.0,
                usd=none,
                lost_time=none,
                lost_usd=none,
                lost_speed=0.0,
                middle=_middle(*work.node.speeds),
                counts=none,
                paid=none,
            )
        crews, (dollar, _) = work.crews.among(at), work.prices
        speed, _ = crews.best(np.maximum(0.0, work.weight[at] - work.prices[1]), dollar)
        among = np.ix_(crews.place, crews.place)
        samples, low = float(self.mode.samples), work.node.speeds[0]
        partners = max(1, len(at) - 1)

        def weights(total: float) -> Array:
            own = 1 + crews.averaging_s * (total * self.mode.local_steps / samples)
            sends = np.maximum(own[:, None], self.seconds[among] * (total / samples))
            np.fill_diagonal(sends, 0.0)
            built: Array = partners / sends.sum(axis=1)
            return built

        high, total, now = work.node.speeds[1], float(speed.sum()), weights(low)
        # Below the middle, a choice of more has to give some up, or the price of each is less.
        middle = _middle(low, float(np.clip(total, low * FINE, high)))
        less = max(
            max(0.0, work.prices[1]) * (high - middle),
            HALF * float(now.mean()) * (total - middle),
        )
        usd = self.usd[among].copy()
        np.fill_diagonal(usd, 0.0)
        home = (crews.machines - 1) * self.root.sends.home_usd[crews.place]
        paid = rounds * (usd.sum(axis=1) / partners + home)
        lost_time, lost_usd = speed * (work.weight[at] - now), dollar * (paid - work.usd[at])
        if isinstance(work, Pairs):
            share = work.lost(at, now, paid) / max(float(lost_time.sum() + lost_usd.sum()), 1e-9)
            lost_time, lost_usd = share * lost_time, share * lost_usd
        return Chosen(
            crews=work.node.crews[at],
            weight=np.maximum(0.0, work.weight[at] - work.prices[1]),
            dollar=dollar,
            usd=work.usd[at],
            lost_time=lost_time,
            lost_usd=lost_usd,
            lost_speed=min(less, float((speed * (now - weights(middle))).sum())),
            middle=middle,
            counts=now,
            paid=paid,
        )

    def _within(self, node: Node) -> Node | None:
        """Return a node with the numbers of regions that its boxes and its places allow."""
        places = len(np.unique(self.crews.place[node.crews]))
        low = max(node.regions[0], int(node.forced.sum()), *(int(b.low.sum()) for b in node.boxes))
        high = min(node.regions[1], places, *(int(b.high.sum()) for b in node.boxes))
        return None if low > high else replace(node, regions=(low, high))

    def _weights(self, node: Node, able: Mask, place: Indices, averaging_s: Array) -> Array:
        samples = float(self.mode.samples)
        own = 1 + averaging_s * (node.speeds[0] * self.mode.local_steps / samples)
        partners = least_partners(self.seconds, self.kinds[0], node.boxes[0], node, able)
        partners = partners * (node.speeds[0] / samples)
        built: Array = 1 / np.maximum(own[:, None], partners[place]).mean(axis=1)
        return built

    def _children(self, bounded: Bounded) -> Iterator[tuple[float, Node | Bounded]]:
        """Yield the parts of a node, with what nothing in them exceeds."""
        chosen = bounded.chosen
        if chosen is None or bounded.node.forced.sum() == bounded.node.regions[1]:
            yield from self._settle(bounded)
        elif self._few_sets(bounded.node):
            yield from self._sets(bounded)
        else:
            for child in self._parts(bounded, chosen):
                yield bounded.reached, child

    def _few_sets(self, node: Node) -> bool:
        """Return whether a node has few sets of regions."""
        places = np.unique(self.crews.place[node.crews])
        few = every_set.count_of(node, places) <= every_set.MOST
        return few and 0 < self.root.most_usd < np.inf and node.prices[0] > 0

    def _sets(self, bounded: Bounded) -> Iterator[tuple[float, Bounded]]:
        """Yield the sets of regions of a node that may hold an improvement."""
        node = bounded.node
        crews = self.crews.among(node.crews)
        per_sample = node.speeds[0] / float(self.mode.samples)
        sends = every_set.Sends(
            waits=self.seconds * per_sample,
            usd=self._rounds * self.usd,
            home_usd=self._rounds * (crews.machines - 1) * self.root.sends.home_usd[crews.place],
            own=1 + crews.averaging_s * (per_sample * self.mode.local_steps),
        )
        limits = every_set.Limits(needed=self.needed, most_usd=self.root.most_usd)
        tick = self.root.target.tick
        every = every_set.EverySet(node, crews, sends, limits, self.packing, tick)
        for found in every.open():
            self._offer(found.machines)
            if found.reached < self.needed:
                continue
            forced = np.zeros_like(node.forced)
            forced[found.places] = True
            reached = min(bounded.reached, found.reached)
            own = replace(node, forced=forced, crews=node.crews[forced[crews.place]])
            yield reached, Bounded(reached=reached, node=own, chosen=None)

    def _parts(self, bounded: Bounded, chosen: Chosen) -> Iterator[Node]:
        node = bounded.node
        (first, last), (low, high) = node.regions, node.speeds
        width, ratio, used = last - first, high / low, len(chosen.crews)
        time, usd = float(chosen.lost_time.sum()), float(chosen.lost_usd.sum())
        spare = bounded.reached - self.needed
        if width > max(0, used // 6) and ratio < COARSE:
            yield from _fewer_and_more(node, used)
        elif ratio > FINE and chosen.lost_speed > max(time + usd, SHARE * spare):
            yield from _halves(node, chosen.middle)
        elif width > 0:
            yield from _fewer_and_more(node, used)
        else:
            yield from self._places(bounded, chosen, time, usd)

    def _places(self, bounded: Bounded, chosen: Chosen, time: float, usd: float) -> Iterator[Node]:
        """Branch on the regions of a class, then on a region."""
        node = bounded.node
        places = self.crews.place[chosen.crews]
        tiny = 1e-4 * bounded.reached
        free = ~node.forced[places]
        for k in (0, 1) if time >= usd else (1, 0):
            box, own = node.boxes[k], (time, usd)[k]
            wide = box.high - box.low
            if own > tiny and wide.max(initial=0) > 0:
                counts = np.bincount(self.kinds[k][places], minlength=len(wide))
                score = np.where(wide > 0, counts - box.low + 0.5, -np.inf)
                kind = int(np.argmax(score))
                gone = int(counts[kind] - box.low[kind])
                middle = (int(box.low[kind]) + int(counts[kind])) // 2
                at = middle if gone >= 2 else int(counts[kind])
                at = int(np.clip(at, box.low[kind], box.high[kind] - 1))
                for half in (box.below(kind, at), box.above(kind, at)):
                    boxes = (half, node.boxes[1]) if k == 0 else (node.boxes[0], half)
                    yield replace(node, boxes=boxes)
                return
        if not free.any():
            # The boxes keep what is worth most apart: any place that is left.
            places = np.setdiff1d(self.crews.place[node.crews], np.flatnonzero(node.forced))
            yield from self._with_and_without(node, int(places[0]))
            return
        lost = np.where(free, chosen.lost_time + chosen.lost_usd, -np.inf)
        # Without any loss: the region that is worth most.
        yield from self._with_and_without(node, int(places[int(np.argmax(lost))]))

    def _with_and_without(self, node: Node, place: int) -> Iterator[Node]:
        forced = node.forced.copy()
        forced[place] = True
        yield replace(node, forced=forced)
        yield replace(node, crews=node.crews[self.crews.place[node.crews] != place])

    def _settle(self, bounded: Bounded) -> Iterator[tuple[float, Node | Bounded]]:
        """Offer the machines of places that are all known; yield both halves of the slice, with
        what nothing in them exceeds, if there are too many.
        """
        node = bounded.node
        limits = Limits(
            needed=self.needed,
            most_usd=self.root.most_usd,
            speeds=node.speeds,
            prices=node.prices,
        )
        ratio, places = node.speeds[1] / node.speeds[0], self._known(node)
        wide = ratio > FINEST
        best, some = self.settled.best(places, limits, lambda: self.needed, GUESSES)
        for machines in some:
            self._offer(machines)
        if best < self.needed:
            return
        reached = min(bounded.reached, best)
        options = self.settled.options(places, limits, OPTIONS if wide else None)
        if options is not None:
            if not all(options):
                return
            knapsack = self.settled.knapsack(options, limits)
            found = self.settled.placements(options, limits, knapsack, lambda: self.needed)
            finer = max(1.0, np.log(FINE) / np.log(ratio)) if wide else 1.0
            for machines in islice(found, int(FEW * finer) if wide else None):
                self._offer(machines)
            if next(found, None) is None:
                return
        for half in _halves(node, _middle(*node.speeds)):
            yield reached, half

    def _known(self, node: Node) -> list[Place]:
        """Return what is known of each place of a node, where no others may be used."""
        low, samples = node.speeds[0], float(self.mode.samples)
        used = np.flatnonzero(node.forced)
        partners = max(1, len(used) - 1)
        places = []
        for place in used.tolist():
            others = used[used != place]
            sends = self.seconds[place, others] * (low / samples)
            crews = node.crews[self.crews.place[node.crews] == place]
            machines = {
                n
                for first, last in zip(
                    self.crews.machines[crews], self.crews.most_machines[crews], strict=True
                )
                for n in range(first, last + 1)
            }
            places.append(
                Place(
                    place=place,
                    machines=frozenset(machines),
                    usd=self._rounds * float(self.usd[place, others].sum()) / partners,
                    home_usd=self._rounds * float(self.root.sends.home_usd[place]),
                    weight=partial(_weight, sends, low * self.mode.local_steps / samples),
                )
            )
        return places


def _level(work: Work) -> tuple[float, float]:
    """Return prices at which a samples/s costs nothing and a dollar buys as much."""
    most = float(work.weight.max())
    dollar, speed = work.prices
    return dollar * most / max(most - speed, (1 - SPEED) * most), min(speed, 0.0)


def _weight(sends: Array, per_second: float, averaging_s: float) -> float:
    """Return what a samples/s counts where an average takes so long."""
    return float(1 / np.maximum(1 + averaging_s * per_second, sends).mean())


def _fewer_and_more(node: Node, regions: int) -> Iterator[Node]:
    first, last = node.regions
    at = regions if first <= regions < last else (first + last) // 2
    yield replace(node, regions=(first, at))
    yield replace(node, regions=(at + 1, last))


def _middle(low: float, high: float) -> float:
    return float(np.sqrt(low * high))


def _halves(node: Node, middle: float) -> Iterator[Node]:
    low, high = node.speeds
    yield replace(node, speeds=(low, middle))
    yield replace(node, speeds=(middle, high))

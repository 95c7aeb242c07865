"""Which islands may be a worker where their number is known: bounds, before any plan is made."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from msgspec import Struct

from placer.market.catalog import VmOffer

ROUNDING = 1e-9
"""Relative slack of a bound, so that sums in another order are not cut off."""


class Ladder(Struct, frozen=True, kw_only=True):
    """Prices of some machines, the cheapest first. ``steps``: machines up to a step, and USD/h of
    one machine of it, by rising price. ``sums``: USD/h of all machines below each step.
    """

    steps: tuple[tuple[int, float], ...]
    sums: tuple[float, ...]

    @staticmethod
    def of(rows: Iterable[tuple[float, int]]) -> Ladder:
        """Order machines of some prices and numbers."""
        steps, sums, machines, usd = list[tuple[int, float]](), list[float](), 0, 0.0
        for price, count in sorted(rows):
            sums.append(usd)
            machines, usd = machines + count, usd + count * price
            steps.append((machines, price))
        return Ladder(steps=tuple(steps), sums=tuple(sums))

    def usd(self, machines: int) -> float:
        """Return the least price of so many machines together; infinite where there are fewer.

        >>> [Ladder.of([(3.0, 9), (1.0, 2)]).usd(n) for n in (1, 2, 4, 12)]
        [1.0, 2.0, 8.0, inf]
        """
        at = bisect_left(self.steps, (machines, -math.inf))
        if at == len(self.steps):
            return math.inf
        below = self.steps[at - 1][0] if at else 0
        return self.sums[at] + (machines - below) * self.steps[at][1]


class Twins:
    """Prices of the same devices, whatever their network: alone they are equally fast.

    Mutable: prices of workers of each number of machines are ordered once, when somebody asks.
    """

    def __init__(self, rows: Iterable[tuple[float, int, int]]) -> None:
        """Take USD/h of a machine of each offer, how many there are, and the most of a worker."""
        self._rows = [(usd, count, min(count, most)) for usd, count, most in sorted(rows)]
        self.least_usd = self._rows[0][0] if self._rows else math.inf
        self._ladders: dict[int, Ladder] = {}

    def usd(self, workers: int, machines: int) -> float:
        """Return the least price of some workers of some machines each, which are of one offer;
        infinite where there are fewer. It never falls with either.

        >>> Twins([(1.0, 3, 2), (2.0, 4, 4)]).usd(2, 2)
        6.0
        """
        return self.ladder(machines).usd(workers)

    def ladder(self, machines: int) -> Ladder:
        """Return the prices of workers of some machines each."""
        found = self._ladders.get(machines)
        if found is None:
            found = self._ladders[machines] = Ladder.of(
                (machines * usd, count // machines)
                for usd, count, most in self._rows
                if machines <= most
            )
        return found


class Kind(Struct, frozen=True, kw_only=True):
    """Offers whose machines work alike, in the order of the book. ``rank_s`` are seconds in which a
    rank calculates a sequence at least, by tensor parallel degree; ``least`` and ``most`` machines
    of one worker; ``usd_per_hour`` the cheapest.
    """

    offers: tuple[VmOffer, ...]
    rank_s: tuple[tuple[int, float], ...]
    least: int
    most: int
    usd_per_hour: float
    twins: Twins

    @property
    def gpu_s(self) -> float:
        """Seconds in which one device calculates a sequence at least."""
        return min((seconds * degree for degree, seconds in self.rank_s), default=math.inf)

    @property
    def gpus(self) -> int:
        """Devices of one machine."""
        return self.offers[0].gpu_count

    def calculation_s(self, machines: int, sequences: int) -> float:
        """Return the least seconds of some sequences: the fullest rank has whole ones."""
        gpus, least_s = machines * self.gpus, math.inf
        for degree, seconds in self.rank_s:
            if sequences * degree >= gpus:
                own_s = -(-sequences * degree // gpus) * seconds
                least_s = own_s if own_s < least_s else least_s
        return least_s

    def is_step(self, machines: int, sequences: int) -> bool:
        """Tell whether the fullest device has more sequences with one machine less."""
        if machines == self.least:
            return True
        fullest, before = (-(-sequences // (k * self.gpus)) for k in (machines, machines - 1))
        return fullest < before

    def fewest(self, sequences: int, longest_s: float) -> int:
        """Return the fewest machines that may do some sequences in some time."""
        needed = sequences * self.gpu_s / self.gpus / longest_s * (1 - ROUNDING)
        return max(self.least, math.ceil(needed)) if needed < math.inf else self.most + 1

    def least_usd(self, machines: int, others: int) -> float:
        """Return the least price of a worker of some machines with so many others like it."""
        ladder = self.twins.ladder(machines)
        return max(machines * self.usd_per_hour + ladder.usd(others), ladder.usd(others + 1))

    def least_usd_s(self, sequences: int, others: int) -> float:
        """Return the least price times seconds of workers of any number of machines: those that
        calculate as fast as their devices together, beside so many others of the cheapest.
        """
        usd = self.usd_per_hour + (others * self.twins.least_usd if others else 0.0)
        return sequences * self.gpu_s / self.gpus * usd

    def sizes(
        self, sequences: int, longest_s: float, usd_per_hour: float, others: int
    ) -> Iterator[tuple[int, float, float]]:
        """Yield the numbers of machines of which each rank has a sequence, that may be done in some
        time and cost no more than a price with so many others like them; with their least price and
        seconds.
        """
        most = min(self.most, sequences * max((d for d, _ in self.rank_s), default=0) // self.gpus)
        for machines in range(self.fewest(sequences, longest_s), most + 1):
            usd = self.least_usd(machines, others)
            if usd > usd_per_hour * (1 + ROUNDING):
                return
            seconds = self.calculation_s(machines, sequences)
            if seconds <= longest_s * (1 + ROUNDING):
                yield machines, usd, seconds


class Limits(Struct, frozen=True, kw_only=True):
    """What limits N ``workers``, of which the fullest has some ``sequences`` of a step: the seconds
    that the slowest may calculate in a step, the price and machines of all together, and that price
    times the seconds of the slowest. ``few_sizes``: numbers of machines are enough with which the
    fullest device has less than with one machine less.
    """

    workers: int
    sequences: int
    longest_s: float
    usd_per_hour: float
    machines: float
    usd_s: float
    alike: bool
    few_sizes: bool = False


class Size(Struct, frozen=True, kw_only=True):
    """A worker of some machines of a kind, what one of these may cost at most, the least price of a
    worker on average over all, and the seconds that it calculates its part of a step at least.
    """

    kind: Kind
    machines: int
    most_usd: float
    usd_per_hour: float
    calculation_s: float

    @property
    def offers(self) -> Iterator[VmOffer]:
        """Offers that are cheap enough."""
        most = self.most_usd * (1 + ROUNDING)
        return (offer for offer in self.kind.offers if offer.usd_per_hour <= most)


def sizes(kinds: Iterable[Kind], limits: Limits) -> tuple[Size, ...]:
    """List the workers that may be part of a placement within some limits, by bounds alone. All
    workers wait for the slowest, so that each one has to calculate within `Limits.longest_s`. Where
    they are alike the others cost at least as much as so many of the cheapest offer of the same
    devices. Both leave too many workers in, never too few.
    """
    others = limits.workers - 1 if limits.alike else 0
    found = []
    for kind in kinds:
        if kind.least_usd_s(limits.sequences, others) > limits.usd_s * (1 + ROUNDING):
            continue
        for machines, usd, seconds in kind.sizes(
            limits.sequences, limits.longest_s, limits.usd_per_hour, others
        ):
            if (
                usd * seconds <= limits.usd_s * (1 + ROUNDING)
                and (others + 1) * machines <= limits.machines
                and (not limits.few_sizes or kind.is_step(machines, limits.sequences))
            ):
                left = limits.usd_per_hour - kind.twins.usd(others, machines)
                each = usd / (others + 1)
                found.append(
                    Size(
                        kind=kind,
                        machines=machines,
                        most_usd=left / machines,
                        usd_per_hour=each,
                        calculation_s=seconds,
                    )
                )
    return tuple(found)

"""Strategies, a second time: those that a proof about a request must speak of, and bounds on whole
ones: weak duality over the market, and the least that an exchange of N workers takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from placer.documents.checker.averages import class_seconds, straight_rounds, transport_of, window
from placer.documents.checker.case import ALWAYS_OVERLAP, BUTTERFLIES, BYTES_PER_ELEMENT
from placer.documents.checker.limits import LOCAL
from placer.documents.checker.market import CHEAPEST, Machine, largest_sums, undominated
from placer.documents.checker.seconds import (
    FUNCTION_BYTES_PER_S,
    STORE_START_S,
    STORE_STREAM_BYTES_PER_S,
    SUM_BYTES_PER_S,
    SUMMING_VCPUS,
    server_sum,
)
from placer.records import Json

SLACK = 1e-9
LEAST_WORK_S = 1e-6
"""Seconds of work that are left of a deadline by which machines have not started."""
INTERVALS = 60
"""Pieces into which speeds are cut where cost per sample is bounded."""
WIDEST = 1e4
"""Ratio of the largest speed to the smallest that is cut up; slower placements pay at least the
price of N machines.
"""

SYNCHRONOUS = (
    "all-reduce",
    "hierarchical-all-reduce",
    "central",
    "hierarchical",
    "parameter-server",
)
"""Strategies that exchange every step; `auto` always tries them."""
OUTER = ("diloco", "streaming-diloco")
"""Strategies with an outer optimizer, which takes up what a coarse compression loses."""
MAY_OVERLAP = ("all-reduce", "hierarchical-all-reduce", "local-sgd", "streaming-diloco")
QUORUM = {False: ("local-sgd", *OUTER), True: ("streaming-diloco",)}
"""Strategies that go on with some of the workers: in turn, and beside the next step."""
COARSE = ("int4", "sparse")
"""Compressions whose loss must be added to the next message."""
MOST_LOCAL_STEPS = 64
"""Local steps that are tried at most where the request says no number."""
MOST_PUBLISHED = 512
"""Beyond these local steps only strategies whose samples to target the user gives are tried."""


def required_modes(problem: Json) -> set[tuple[str, int]]:
    """Return the strategies with local steps that a proof about a request must bound.

    Single machines are required where the request surely admits them: rules about machines and data
    that name several places ask for several machines, and one machine has all of the speed, which
    no share below 100 % allows.
    """
    wish = problem["requirements"]
    strategies = [name for name in _named(problem) if _able(name, problem)]
    least = wish["min_local_steps"] or 1
    modes = {(name, 1) for name in strategies if name not in LOCAL and least == 1}
    given = {row[0] for row in wish["samples_to_target"]}
    modes |= {
        (name, steps)
        for name in strategies
        if name in LOCAL
        for steps in _local_steps(wish)
        if steps <= MOST_PUBLISHED or name in given
    }
    alone = wish["min_workers"] == 1 and wish["min_regions"] <= 1
    staying = {data["place"] for data in wish["datasets"] if not data["may_move"]}
    if alone and not wish["used"] and not wish.get("max_shares") and len(staying) < 2:
        modes.add(("none", 1))
    return modes


def _named(problem: Json) -> tuple[str, ...]:
    wish = problem["requirements"]
    if wish["exchange"] != "auto":
        return (wish["exchange"],)
    if wish["max_local_steps"] is None:
        return SYNCHRONOUS
    language = problem["profile"].get("architecture") is not None
    left_out = ("local-sgd",) if language else OUTER
    return (*SYNCHRONOUS, *(name for name in LOCAL if name not in left_out))


def _able(name: str, problem: Json) -> bool:
    wish = problem["requirements"]
    coarse = (wish["compression"] or problem["profile"]["compression"]) in COARSE
    if wish.get("quorum") is not None and name not in QUORUM[bool(wish["overlap"])]:
        return False
    late = name == "local-sgd" and wish["overlap"] and wish["exchange"] == "auto"
    if late and transport_of(problem) != "hivemind":  # no engine but hivemind does it
        return False
    return (name in MAY_OVERLAP or not wish["overlap"]) and (name in OUTER or not coarse)


def _local_steps(wish: Json) -> set[int]:
    least, most = wish["min_local_steps"] or 1, wish["max_local_steps"] or MOST_LOCAL_STEPS
    powers = {2**k for k in range(most.bit_length()) if least <= 2**k <= most}
    return {least, most, *powers}


class Relaxed:
    """What no placement of a strategy can beat, for a whole ``placer.problem/v1`` document and the
    machines that it admits. Any Lagrange multipliers of 0 or more give valid bounds, good ones
    tight ones.
    """

    def __init__(
        self, problem: Json, machines: Sequence[Machine], multipliers: Sequence[float]
    ) -> None:
        wish, self.profile, self.problem = problem["requirements"], problem["profile"], problem
        self.wish, self.machines = wish, machines
        self.multipliers = [0.0, *multipliers, CHEAPEST]
        self.budget: float = (wish["budget_usd_per_hour"] or float("inf")) * (1 + SLACK)
        startup_s: float = wish.get("startup_s", 0.0)
        in_time = 0.0
        if wish["deadline_s"] is not None:
            left_s = wish["deadline_s"] - startup_s - wish.get("copy_s", 0.0)
            in_time = wish["samples"] / max(left_s, LEAST_WORK_S)
        self.floor: float = max(wish["min_samples_per_second"] or 0.0, in_time) * (1 - SLACK)
        total = wish["objective"] == "total"
        self.startup_s: float = startup_s / wish["samples"] if total else 0.0  # of each sample
        self.objective = "throughput" if wish["objective"] == "time" else wish["objective"]
        self.batch: int = wish["target_batch_size"] or self.profile["target_batch_size"]
        packed = BYTES_PER_ELEMENT[wish["compression"] or self.profile["compression"]]
        self.size: float = self.profile["gradient_bytes_fp32"] * packed / BYTES_PER_ELEMENT["none"]
        self.hosts, self.most = sorted({m.host for m in machines}), int(wish["max_workers"])
        # Seconds of averaging inside a zone, as in `seconds`: of one class, and of the fastest.
        self._average = cache(lambda host, n: class_seconds(host, self.size, n, problem))
        self._fastest = cache(
            lambda n: min(self._average(host, n) for host in self.hosts) if n > 1 else 0.0
        )
        self._kept = cache(
            lambda within: undominated([m for m in machines if m.host in within], self.most)
        )
        self._sums = cache(lambda within, x: largest_sums(self._kept(within), x, self.most))

    def best(self, strategy: str, local_steps: int, samples_to_target: float) -> float | None:
        """Return the objective that no placement of a strategy beats; None: none keeps limits."""
        if strategy == "none":
            return self._told(self._alone(samples_to_target))
        bounds, hosts = [], self.hosts
        most = min(self.most, len(self._sums(frozenset(hosts), 0.0)) - 1)
        for n in range(max(2, self.wish["min_workers"]), most + 1):
            averages = {host: self._average(host, n) for host in hosts}
            for host in hosts:
                within = frozenset(h for h in hosts if averages[h] <= averages[host])
                seconds = self._least_exchange(strategy, n, host)
                rounds = self._rounds(strategy, seconds)
                value = self._value(n, within, rounds, self.batch * local_steps, samples_to_target)
                if value is not None:
                    bounds.append(value)
        return self._told((max if self.objective == "throughput" else min)(bounds, default=None))

    def _told(self, value: float | None) -> float | None:
        """Return samples/s, or the price of a million samples, as the objective asks for them."""
        if value is None:
            return None
        if self.wish["objective"] == "time":
            lead_s = self.wish.get("startup_s", 0.0) + self.wish.get("copy_s", 0.0)
            return float(self.wish["samples"] / value + lead_s)
        return value * self.wish["samples"] / 1e6 if self.wish["objective"] == "total" else value

    def _alone(self, factor: float) -> float | None:
        if self.wish["min_workers"] != 1:
            return None
        counted = [(m.alone / factor, m.usd) for m in self.machines]
        allowed = [row for row in counted if row[1] <= self.budget and row[0] >= self.floor]
        if self.objective == "throughput":
            return max((speed for speed, _ in allowed), default=None)
        if self.objective == "cost":
            return min((usd for _, usd in allowed), default=None)
        paid = (usd / 3600 * (1 / speed + self.startup_s) * 1e6 for speed, usd in allowed)
        return min(paid, default=None)

    def _rounds(self, strategy: str, seconds: float) -> list[tuple[float, float]]:
        """List the pairs (a, b) of which a round is the longest a x calculation + b."""
        if self.wish["overlap"] or strategy in ALWAYS_OVERLAP:
            return [(1.0, 0.0), (0.0, seconds)]
        return straight_rounds(seconds, window(strategy, self.problem))

    def _least_exchange(self, strategy: str, n: int, host: str) -> float:
        """Return the least seconds of N workers with slowest hosts of a class; links take none."""
        size, streams = self.size, int(self.wish["streams"])
        summing = size / SUM_BYTES_PER_S
        if strategy in BUTTERFLIES:
            return self._average(host, n)
        if strategy == "hierarchical-all-reduce":
            groups = [(-(-n // r), r) for r in range(2, n + 1)]
            return min(self._fastest(k) + self._average(host, r) for k, r in groups)
        if strategy == "parameter-server":
            return server_sum(n, size, SUMMING_VCPUS, self.problem)
        moved = 2 * (STORE_START_S + size / (STORE_STREAM_BYTES_PER_S * streams))
        reading = size / FUNCTION_BYTES_PER_S
        if strategy == "central":
            return moved + STORE_START_S + n * (summing + reading) + reading
        if strategy == "hierarchical":
            summed = min((-(-n // r) + r) * (summing + reading) for r in range(2, n + 1))
            return moved + summed + 2 * (STORE_START_S + reading) + STORE_START_S + 2 * reading
        return 0.0

    def _value(
        self,
        n: int,
        within: frozenset[str],
        rounds: Sequence[tuple[float, float]],
        samples: int,
        multiplier: float,
    ) -> float | None:
        """Return the best objective of N machines: V <= sum_lambda + lambda C for every lambda."""
        if len(self._sums(within, 0.0)) <= n:
            return None
        lines = [(m, self._sums(within, m)[n]) for m in self.multipliers if m != CHEAPEST]
        least_usd = -self._sums(within, CHEAPEST)[n]
        most_speed = min(total + (m * self.budget if m else 0.0) for m, total in lines)
        if least_usd > self.budget or most_speed <= 0:
            return None
        fastest = self._counted(most_speed, rounds, samples, multiplier)
        if fastest < self.floor:
            return None
        if self.objective == "throughput":
            return fastest
        if self.objective == "cost":
            needed = self._needed(rounds, samples, multiplier)
            return max([least_usd, *((needed - total) / m for m, total in lines if m > 0)])
        low = self._needed(rounds, samples, multiplier)
        started_s = self.startup_s / multiplier
        least = max(
            self._per_sample(lines, least_usd, (low, most_speed), (a, b / samples + started_s))
            for a, b in rounds
            if a > 0
        )
        return least * multiplier / 3600 * 1e6

    def _counted(
        self, speed: float, rounds: Sequence[tuple[float, float]], samples: int, multiplier: float
    ) -> float:
        return samples / multiplier / max(a * samples / speed + b for a, b in rounds)

    def counted(
        self, strategy: str, n: int, host: str, speed: float, samples: int, multiplier: float
    ) -> float:
        """Return the samples/s that count, of N equal machines of one place in a butterfly."""
        rounds = self._rounds(strategy, self._average(host, n))
        return self._counted(speed, rounds, samples, multiplier)

    def _needed(
        self, rounds: Sequence[tuple[float, float]], samples: int, multiplier: float
    ) -> float:
        """Return the speed that the floor asks for at least."""
        if self.floor <= 0:
            return 0.0
        longest = samples / multiplier / self.floor
        return max(a * samples / (longest - b) for a, b in rounds)

    def _per_sample(
        self,
        lines: Sequence[tuple[float, float]],
        least_usd: float,
        speeds: tuple[float, float],
        seconds_per_sample: tuple[float, float],
    ) -> float:
        """Return the least C (a / V + b), where the price C is at least (V - sum) / lambda for
        every lambda.

        V is cut into intervals; in each the best lambda counts. With sum >= 0 the product grows
        with V, below it falls until V = sqrt(-sum a / b); the price of the cheapest N bounds it
        too.
        """
        share, beside = seconds_per_sample
        needed, most_speed = speeds
        low = min(max(needed, most_speed / WIDEST), most_speed)
        ends = [low * (most_speed / low) ** (k / INTERVALS) for k in range(INTERVALS + 1)]
        prices = [least_usd * (share / low + beside)]
        for left, right in pairwise(ends):
            bounds = [least_usd * (share / right + beside)]
            for m, total in lines:
                if m > 0:
                    turn = 0.0 if total >= 0 else right
                    if total < 0 < beside:
                        turn = (-total * share / beside) ** 0.5
                    speed = min(max(left, turn), right)
                    bounds.append((speed - total) / m * (share / speed + beside))
            prices.append(max(bounds))
        return min(prices)

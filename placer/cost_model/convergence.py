"""How many more samples a model needs when workers exchange less often, later or coarser."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean

from msgspec import Struct, convert

from placer.errors import PlacerError
from placer.market.books.folders import shipped_records
from placer.problem.exchange import traits
from placer.problem.placement import Exchange
from placer.problem.problem import Problem
from placer.problem.question import MOST_KNOWN_LOCAL_STEPS
from placer.units import format_plain
from placer.workload.profile import ModelProfile

ARROW = " -> "


class Multiplier(Struct, frozen=True, kw_only=True):
    """Samples to target over those of plain synchronous training in FP32: 1 is as good, 2 needs
    twice as many.
    """

    value: float
    low: float
    high: float
    basis: str
    source: str

    @property
    def words(self) -> str:
        """The value in words.

        >>> from msgspec.structs import replace
        >>> replace(PLAIN, value=1.05).words, replace(PLAIN, value=2.5).words, PLAIN.words
        ('5 % more samples', '2.5 x the samples', 'no more samples')
        """
        more = round(100 * (self.value - 1))
        if self.value >= 2:
            return f"{format_plain(self.value)} x the samples"
        if more == 0:
            return "no more samples"
        return f"{abs(more)} % {'more' if more > 0 else 'fewer'} samples"

    @property
    def figures(self) -> tuple[float, float, float]:
        """The value with both of its ends."""
        return self.value, self.low, self.high

    @staticmethod
    def of(figures: Iterable[float], basis: str, source: str) -> Multiplier:
        """Build a multiplier of a value, its low and its high end."""
        value, low, high = figures
        return Multiplier(value=value, low=low, high=high, basis=basis, source=source)


PLAIN = Multiplier(value=1.0, low=1.0, high=1.0, basis="published", source="synchronous steps")


def samples_to_target(
    exchange: Exchange, given: Sequence[tuple[str, float]] = (), profile: ModelProfile | None = None
) -> Multiplier:
    """Return the samples to target of an exchange, as a multiple of synchronous training in FP32.
    The product of the factors of catalogs/convergence.csv for local steps, staleness and
    compression, unless the user's figures are ``given``. With an outer optimizer (DiLoCo) local
    steps and lateness are taken together, from published losses: `placer.cost_model.convergence`.

    >>> got = samples_to_target(Exchange(strategy="local-sgd", compression="fp16", local_steps=16))
    >>> # 1.05 (1 to 1.25) for H = 16, times 1 (1 to 1.02) for FP16
    >>> got.value, got.low, round(got.high, 3)
    (1.05, 1.0, 1.275)
    >>> local = Exchange(strategy="local-sgd", compression="fp16", local_steps=16)
    >>> samples_to_target(local, [("local-sgd", 1.2)]).value
    1.2
    """
    for strategy, value in given:
        if strategy == exchange.strategy:
            return Multiplier.of([value] * 3, "given", "given with --samples-to-target")
    if exchange.strategy == "none":
        return PLAIN
    chosen, steps = traits(exchange.strategy), exchange.local_steps
    size = None if profile is None else profile.parameters
    language = profile is not None and profile.architecture is not None
    if chosen.outer:
        return _outer(exchange.strategy, steps, exchange.compression, size, language=language)
    late = chosen.staleness + exchange.overlap
    return _product(steps, late, exchange.compression, size if language else None)


def multiplier_of(exchange: Exchange, problem: Problem) -> Multiplier:
    """Return the samples to target of an exchange for one problem, its batch included."""
    row = samples_to_target(exchange, problem.requirements.samples_to_target, problem.profile)
    factor = batch_factor(problem)
    if factor == 1:
        return row
    text = (
        f"batch {problem.batch:,} beside {problem.profile.target_batch_size:,}, critical batch "
        f"{problem.requirements.critical_batch:,}"
    )
    sure = (row.low, row.high) == (1, 1)
    source = f"{text} (given; McCandlish et al., 2018)"
    return Multiplier.of(
        (figure * factor for figure in row.figures),
        "given" if sure else row.basis,
        source if sure else f"{row.source}; {source}",
    )


def batch_factor(problem: Problem) -> float:
    """Return the samples to target at the problem's batch over those at the profile's; 1 without a
    critical batch. McCandlish et al. (2018), An Empirical Model of Large-Batch Training, eq. 2.11:
    the samples that a loss needs are in proportion to 1 + B / B_crit, so a batch B needs (B_crit +
    B) / (B_crit + B_profile) times those of the profile's batch. Without the user's B_crit every
    batch is taken to be as good for each sample, and the answer says so.
    """
    critical = problem.requirements.critical_batch
    return (
        1.0
        if critical is None
        else (critical + problem.batch) / (critical + problem.profile.target_batch_size)
    )


@lru_cache(maxsize=1_024)
def _product(local_steps: int, late: int, compression: str, parameters: int | None) -> Multiplier:
    """Return the product of the table's factors; ``parameters`` are those of a language model."""
    rows = [
        _local_steps(local_steps)
        if parameters is None or local_steps == 1
        else _without_outer(local_steps, parameters),
        _row("staleness", str(late)),
        _row("compression", compression),
    ]
    return _together(rows)


@lru_cache(maxsize=1_024)
def _outer(
    strategy: str, local_steps: int, compression: str, parameters: int | None, *, language: bool
) -> Multiplier:
    """Return the multiplier of DiLoCo or Streaming DiLoCo for a model of some size; None: unknown,
    so the smallest that was trained, which needs the most.
    """
    _check_known(local_steps)
    delayed = traits(strategy).always_overlaps
    size = int(PARAMETERS[0]) if parameters is None else parameters
    known = language and was_trained(size)
    words = "2 to 8 replicas, decoders of 35 M to 10 B parameters; losses turned into samples"
    losses = Multiplier.of(
        times_samples(size, local_steps, delayed=delayed, known=known),
        "estimated" if known else "assumed",
        "Charles et al. (2025), Tables 4 and 5, and Douillard et al. (2025), Table 6: "
        f"{words}{'' if known else ', and this is another model'}",
    )
    return _together([losses, _row("outer-compression", compression)])


def _without_outer(local_steps: int, parameters: int) -> Multiplier:
    """Return the multiplier of local steps of a language model without an outer optimizer: the
    table's, but no better than DiLoCo's. Douillard et al. (DiLoCo, 2023) find plain averages of
    models worse than an outer optimizer.
    """
    outer = times_samples(parameters, local_steps, delayed=False, known=False)
    return Multiplier.of(
        map(max, _local_steps(local_steps).figures, outer),
        "assumed",
        "no better than with an outer optimizer, of which losses are published: Charles et al. "
        "(2025); without one assumed",
    )


def _together(rows: Sequence[Multiplier]) -> Multiplier:
    counted = [row for row in rows if row.high > 1] or [PLAIN]
    bases = {row.basis for row in counted}
    return Multiplier.of(
        map(math.prod, zip(*(row.figures for row in rows), strict=True)),
        next((b for b in ("assumed", "estimated") if b in bases), "published"),
        "; ".join(row.source for row in counted),
    )


def _check_known(count: int) -> None:
    if count > MOST_KNOWN_LOCAL_STEPS:
        raise PlacerError(
            f"nothing is known about how {count} local steps converge",
            f"take at most {MOST_KNOWN_LOCAL_STEPS}, or say it with --samples-to-target "
            f"STRATEGY=FACTOR",
        )


def _local_steps(count: int) -> Multiplier:
    """Return the multiplier for H local steps: between two rows linear in the logarithm of H."""
    rows = sorted(
        (int(setting), row) for (factor, setting), row in table().items() if factor == "local-steps"
    )
    _check_known(count)
    (after, upper) = next((h, row) for h, row in rows if h >= count)
    if after == count:
        return upper
    before, lower = max((h, row) for h, row in rows if h < count)
    share = math.log(count / before) / math.log(after / before)
    return Multiplier.of(
        (a + share * (b - a) for a, b in zip(lower.figures, upper.figures, strict=True)),
        upper.basis,
        f"H {before}{ARROW}{after}: {upper.source}",
    )


def _row(factor: str, setting: str) -> Multiplier:
    rows = table().get((factor, setting))
    if rows is None:
        raise PlacerError(
            f"nothing is known about how {factor} {setting} converges",
            "say it with --samples-to-target STRATEGY=FACTOR",
        )
    return rows


@lru_cache(maxsize=1)
def table() -> dict[tuple[str, str], Multiplier]:
    """Return the default table, catalogs/convergence.csv, by factor and setting."""
    return {
        (row["factor"], row["setting"]): convert(row, Multiplier, strict=False)
        for row in shipped_records("convergence.csv")
    }


PARAMETERS = (35e6, 10e9)
"""Sizes of the models whose losses are published."""
REPLICAS = (2, 4, 8)
"""Workers with published losses: the low end, the value and the high end are taken there."""
KNOWN_STEPS = 30
"""Local steps of Charles et al. (2025); fewer are taken to be as good, no better."""
TOKEN_EXPONENT = 0.0953 / 2
"""Share by which the loss falls when tokens grow by a share, at 20 tokens a parameter.

Charles et al. (2025), Table 7: loss falls with N^-0.0953 where tokens are 20 N. Where that split of
the calculation is optimal, parameters and tokens lower the loss alike, so half of it is the
tokens'.
"""
TOKEN_EXPONENTS = (0.034, 0.09)
"""Low end: half the slope between 4 B and 10 B parameters of the same paper (Table 5). High end:
Hoffmann et al. (2022) at 35 M. In between lie Hoffmann et al. at 10 B (0.037), Douillard et al.
(2025, Table 1) at 1 B and 25 to 100 B tokens (0.042).
"""
LOSS_SPREAD = 0.002
"""Relative difference of two losses that means nothing: Charles et al., Table 12, find as much
between two choices of the hyperparameters.
"""
DELAY_LOSS = (0.001, 0.0, 0.002)
"""Loss from applying a fragment late: Douillard et al. (2025), fig. 8, find under 0.2 % up to ten
steps; value, low, high.
"""
ROUNDED = 1.05
"""Sizes are published as round figures: models as much larger or smaller count as trained."""
OUTSIDE_SPREAD = 1.5
"""Factor on the high end for models that the papers did not train: assumed."""


class Loss(Struct, frozen=True, kw_only=True):
    """A published loss of DiLoCo beside that of data-parallel training at the same tokens."""

    strategy: str
    parameters: float
    replicas: int
    local_steps: int
    loss: float
    data_parallel_loss: float

    @property
    def excess(self) -> float:
        """Logarithm of the one loss over the other."""
        return math.log(self.loss / self.data_parallel_loss)


def was_trained(parameters: int) -> bool:
    """Return whether the papers trained decoders of such a size.

    >>> was_trained(10_211_381_248), was_trained(70_000_000_000)
    (True, False)
    """
    return PARAMETERS[0] / ROUNDED <= parameters <= PARAMETERS[1] * ROUNDED


def times_samples(
    parameters: int, local_steps: int, *, delayed: bool, known: bool
) -> tuple[float, float, float]:
    """Return the samples to target of DiLoCo over those of data-parallel training: value, low,
    high; none is below 1, and none falls with the local steps. At equal tokens the loss is higher
    by a share x(N, M, H) = x(N, M, 30) + b(M) ln(H / 30); m times the tokens lower it by m^-e, so m
    = exp(x / e), e from `TOKEN_EXPONENT`. The number of workers M is in the interval: a search
    compares strategies before it knows M. Outside `PARAMETERS` N is the nearest size that was
    trained; the high end is farther off where no such model is ``known``.

    10 B parameters at 30 steps: 2.096 with four replicas over 2.090 is 0.29 % more, exp(0.0029 /
    0.0477).

    >>> value, low, high = times_samples(10**10, 30, delayed=False, known=True)
    >>> round(value, 2), low
    (1.06, 1.0)
    """
    least, middle, most = (_excess(parameters, m, local_steps) for m in REPLICAS)
    late = DELAY_LOSS if delayed else (0.0, 0.0, 0.0)
    value = _times(middle + late[0], TOKEN_EXPONENT)
    low = _times(least + late[1] - LOSS_SPREAD, TOKEN_EXPONENTS[1])
    high = _times(max(middle, most) + late[2] + LOSS_SPREAD, TOKEN_EXPONENTS[0])
    return value, min(low, value), high * (1.0 if known else OUTSIDE_SPREAD)


def times_samples_of(parameters: int, replicas: int, local_steps: int) -> float:
    """Return the value for a known number of workers, between those that were trained.

    >>> two, eight = (times_samples_of(10**10, m, 100) for m in (2, 8))
    >>> round(two, 2), round(eight, 2)
    (1.11, 1.73)
    """
    at = math.log(min(max(replicas, REPLICAS[0]), REPLICAS[-1]))
    points = [(math.log(m), _excess(parameters, m, local_steps)) for m in REPLICAS]
    return _times(_between(at, points), TOKEN_EXPONENT)


def _times(excess: float, exponent: float) -> float:
    return math.exp(max(0.0, excess) / exponent)


def _excess(parameters: float, replicas: int, local_steps: int) -> float:
    points = [
        (math.log(row.parameters), row.excess)
        for row in published()["diloco"]
        if row.replicas == replicas
    ]
    within = _between(math.log(parameters), sorted(points))
    return within + _slope(replicas) * math.log(max(local_steps, KNOWN_STEPS) / KNOWN_STEPS)


@lru_cache(maxsize=8)
def _slope(replicas: int) -> float:
    """Return how the share grows with the logarithm of the local steps: the mean over models from
    30 to 100 steps; where no such runs are published, on the line through those that are.
    """
    pairs: dict[int, dict[tuple[float, int], float]] = defaultdict(dict)
    for row in published()["streaming-diloco"]:
        pairs[row.replicas][row.parameters, row.local_steps] = row.excess
    slopes = {}
    for count, losses in pairs.items():
        grown = [
            losses[size, steps] - losses[size, KNOWN_STEPS]
            for size, steps in losses
            if steps != KNOWN_STEPS and (size, KNOWN_STEPS) in losses
        ]
        slopes[math.log(count)] = fmean(grown) / math.log(100 / KNOWN_STEPS)
    (a, low), (b, high) = sorted(slopes.items())
    return low + (math.log(replicas) - a) / (b - a) * (high - low)


def _between(at: float, points: Sequence[tuple[float, float]]) -> float:
    """Interpolate linearly; outside the points the nearest counts."""
    if at <= points[0][0]:
        return points[0][1]
    for (a, low), (b, high) in pairwise(points):
        if at <= b:
            return low + (at - a) / (b - a) * (high - low)
    return points[-1][1]


@lru_cache(maxsize=1)
def published() -> dict[str, tuple[Loss, ...]]:
    """Return the published losses by strategy."""
    rows: dict[str, tuple[Loss, ...]] = defaultdict(tuple)
    for row in shipped_records("diloco.csv"):
        rows[row["strategy"]] += (convert(row, Loss, strict=False),)
    return dict(rows)

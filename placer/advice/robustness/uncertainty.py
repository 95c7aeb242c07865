"""What is not known exactly about a market: a factor for each figure, its range, and draws."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist

from placer.cost_model.convergence import samples_to_target
from placer.cost_model.estimate import exchange_phases, offers_of, workers_of
from placer.documents.schemas import worlds
from placer.errors import PlacerError, unknown
from placer.market.price_interval import price_interval
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.words.changes import Change
from placer.units import format_plain
from placer.workload.profile import Rate

BOXES = ("price", "bandwidth", "rate", "phi")
"""Kinds of figures: USD/h of machines, bytes/s of links, samples/s of devices, samples to target.
"""
LINK_SPREAD = (0.5, 1.5)
"""Low and high of an estimated link between regions."""
TOGETHER = 0.7
"""Correlation of the spot prices of one device over the regions of a provider.

Over one window of price lists the changes of log(price) have an uncentred correlation of 0.86 for
H100 (7 rows of Google Cloud) and 0.88 for L4 (4); A100, which hardly moved, has none (3):
``tests/market/spot_price_moves.csv``. Devices and providers are taken as independent.
"""
_NORMAL = NormalDist()
_EDGE = 1e-9
MOST = 1e3
"""Wider ranges are a slip of the keyboard."""
Ranges = Mapping[str, tuple[float, float]]
"""Factors on the figures of a kind, low and high."""
REFRESHED = ("aws", "azure", "gcp")
"""Providers whose prices ``placer catalog refresh`` fetches."""


class Factor(worlds.Factor, frozen=True, kw_only=True):
    """One uncertain figure: what multiplies it at the ends of its range, and how to measure it."""

    measure: str

    def at(self, share: float) -> float:
        """Return the factor at a share of the range: 0 is the low end, 1/2 the book's figure, 1 the
        high end; logarithmic in between.

        >>> f = Factor(kind="price", figure="", low=0.5, high=8.0, basis="", measure="")
        >>> f.at(0), f.at(0.5), f.at(0.75), f.at(1)
        (0.5, 1.0, 2.8284271247461903, 8.0)
        """
        return float(self.low ** (1 - 2 * share) if share < 0.5 else self.high ** (2 * share - 1))

    @property
    def bad(self) -> float:
        """Share of the range at its unwelcome end: dear, slow."""
        return 1.0 if self.kind in ("price", "phi") else 0.0


def parse_boxes(given: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Read ``KIND=LOW..HIGH``: factors on all figures of a kind, in place of the range of each.

    >>> parse_boxes(["bandwidth=0.5..1.5", "price=x0.9..x1.1"])
    {'bandwidth': (0.5, 1.5), 'price': (0.9, 1.1)}
    """
    ranges: dict[str, tuple[float, float]] = {}
    for word in [given] if isinstance(given, str) else given:
        kind, sign, ends = str(word).partition("=")
        if kind not in BOXES:
            raise unknown("box", kind, BOXES)
        match = re.fullmatch(
            r"\s*x?([0-9]{1,4}(?:\.[0-9]{0,9})?)\s*\.\.\s*x?([0-9]{1,4}(?:\.[0-9]{0,9})?)\s*", ends
        )
        low, high = (float(match[1]), float(match[2])) if sign and match else (0.0, 0.0)
        if not 1 / MOST <= low <= 1 <= high <= MOST:
            raise PlacerError(
                f"box '{word}' is not a range of factors around 1",
                f"write {kind}=0.8..1.2; {kind}=1..1 takes it as exact",
            )
        if kind in ranges:
            raise PlacerError(f"two boxes for {kind}", "give one")
        ranges[kind] = (low, high)
    return ranges


def factors_of(
    problem: Problem, candidates: Sequence[Placement], boxes: Ranges
) -> tuple[Factor, ...]:
    """Return the uncertain figures that some placements rest on, with their ranges."""
    by_figure: dict[str, Factor] = {}
    for placement in candidates:
        for kind in (_prices, _links, _speeds):
            for factor in kind(problem, placement, boxes):
                if factor.low < 1 - 1e-9 or factor.high > 1 + 1e-9:
                    by_figure.setdefault(factor.figure, factor)
    return tuple(by_figure.values())


def changes_of(factors: Sequence[Factor], shares: Sequence[float]) -> tuple[Change, ...]:
    """Return the changes of ``placer whatif`` where each figure is at a share of its range."""
    changes = []
    for factor, share in zip(factors, shares, strict=True):
        times = factor.at(share)
        if times != 1.0 and factor.kind != "phi":
            text = f"{factor.figure}=x{format_plain(times, 4)}"
            what, *target = factor.figure.replace("on-demand", "on_demand").split(":")
            changes.append(Change(text=text, what=what, target=tuple(target), factor=times))
    return tuple(sorted(changes, key=lambda change: change.what))


def _prices(problem: Problem, placement: Placement, boxes: Ranges) -> Iterable[Factor]:
    for offer, _ in offers_of(workers_of(placement, problem), placement, problem):
        fetched = f"placer catalog refresh {offer.provider} --in {offer.region} --gpu {offer.gpu}"
        measure = fetched if offer.provider in REFRESHED else "placer catalog import csv FILE"
        ends = boxes.get("price") or price_interval(offer).factors
        figure = f"price:{offer.place}:{offer.gpu}:{offer.market.replace('_', '-')}"
        yield Factor("price", figure, *ends, offer.price_basis, measure=measure)


def _links(problem: Problem, placement: Placement, boxes: Ranges) -> Iterable[Factor]:
    pairs = {
        (min(t.src, t.dst), max(t.src, t.dst))
        for phase in exchange_phases(placement, problem)
        for t in phase.transfers
        if t.src != t.dst
    }
    for src, dst in sorted(pairs):
        link = problem.network.link(src, dst)
        known = (link.low / link.bytes_per_second, link.high / link.bytes_per_second)
        ends = boxes.get("bandwidth") or (LINK_SPREAD if link.basis == "estimated" else known)
        measure = f"iperf3 --json from {src} to {dst}, then placer network import iperf3"
        yield Factor("bandwidth", f"bandwidth:{src}:{dst}", *ends, link.basis, measure=measure)


def _speeds(problem: Problem, placement: Placement, boxes: Ranges) -> Iterable[Factor]:
    """Return the speed of each device, what several in a machine make of it, and phi."""
    profile, catalog = problem.profile, problem.catalog
    measure = "placer profile runs RUNS.csv -o FILE, with runs on {}"
    for gpu, count in dict.fromkeys((group.gpu, group.gpu_count) for group in placement.groups):
        one = profile.rate(catalog.gpu(gpu), 1, "none", catalog)
        node = profile.rate(catalog.gpu(gpu), count, "none", catalog)
        if one is None or node is None:
            continue
        apart, given = node.basis in ("estimated", "assumed"), boxes.get("rate")
        (low, high), (node_low, node_high) = _ends(one), _ends(node)
        if count == 1 or apart:
            ends, how = given or (low, high), measure.format(gpu)
            yield Factor("rate", f"rate:{gpu}", *ends, one.basis, measure=how)
        if count > 1:
            # What is estimated from one GPU moves with it: only what is wider is its own.
            own = (min(1.0, node_low / low), max(1.0, node_high / high))
            ends = ((1.0, 1.0) if given else own) if apart else given or (node_low, node_high)
            device = f"{gpu}:{count}"
            how = measure.format(device)
            yield Factor("rate", f"rate:{device}", *ends, node.basis, measure=how)
    exchange = placement.exchange
    times = samples_to_target(exchange, problem.requirements.samples_to_target, profile)
    ends = boxes.get("phi", (times.low / times.value, times.high / times.value))
    train = f"train some runs, then --samples-to-target {exchange.strategy}=X"
    ends = ends if placement.workers > 1 else (1.0, 1.0)
    yield Factor("phi", f"phi:{exchange.strategy}", *ends, times.basis, measure=train)


def _ends(rate: Rate) -> tuple[float, float]:
    return rate.low / rate.value, rate.high / rate.value


def latin_hypercube(worlds: int, factors: int, seed: int) -> list[list[float]]:
    """Draw shares of ranges so that each factor has one value in each of ``worlds`` equal strips.

    McKay, Beckman and Conover (1979), Technometrics 21: the mean over such a sample varies no more
    than over a plain random one where the figure is monotone in each factor.

    >>> sample = latin_hypercube(4, 2, 0)
    >>> [sorted(int(4 * row[k]) for row in sample) for k in (0, 1)]
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """
    import numpy as np

    draw = np.random.default_rng(seed)
    strips = np.array([draw.permutation(worlds) for _ in range(factors)]).reshape(factors, worlds).T
    shares: list[list[float]] = ((strips + draw.random((worlds, factors))) / worlds).tolist()
    return shares


def check_count(what: str, value: object, most: int) -> int:
    """Refuse numbers of worlds that are none, or beyond reason."""
    if not isinstance(value, int) or not 0 < value <= most:
        raise PlacerError(f"{what} {value!r}", f"give a whole number from 1 to {most:,}")
    return value


def sampled(factors: Sequence[Factor], worlds: int, seed: int) -> list[list[float]]:
    """Draw shares of ranges: a Latin hypercube in which prices that move together share a part.

    A Gaussian copula with one common factor for each group: each figure's share stays uniform.
    """
    group_of = [_group(factor) for factor in factors]
    shared = sorted({g for g in group_of if g is not None and group_of.count(g) > 1})
    rows = latin_hypercube(worlds, len(factors) + len(shared), seed)
    own, common = math.sqrt(1 - TOGETHER), math.sqrt(TOGETHER)
    for row in rows:
        market = dict(zip(shared, map(_score, row[len(factors) :]), strict=True))
        for at, group in enumerate(group_of):
            if group in market:
                row[at] = _NORMAL.cdf(own * _score(row[at]) + common * market[group])
    return [row[: len(factors)] for row in rows]


def _group(factor: Factor) -> tuple[str, str, str] | None:
    """Return provider, device and market of a price that moves by itself; None for all else."""
    if factor.kind != "price":
        return None
    _, place, gpu, market = factor.figure.split(":")
    return None if market == "on-demand" else (place.partition("/")[0], gpu, market)


def _score(share: float) -> float:
    return _NORMAL.inv_cdf(min(max(share, _EDGE), 1 - _EDGE))


def move_together(factors: Sequence[Factor]) -> bool:
    """Return whether any two figures are prices that move together."""
    groups = [group for group in map(_group, factors) if group is not None]
    return len(set(groups)) < len(groups)

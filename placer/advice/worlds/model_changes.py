"""Changed speeds, gradients and quotas: the parts of a changed world that lie in the profile and in
the wishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from placer.errors import PlacerError
from placer.market.market_changes import Row
from placer.market.words.selection import gpus_like, places_of
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.records import replace
from placer.workload.profile import ModelProfile, Rate


def set_gradient(profile: ModelProfile, factor: float) -> ModelProfile:
    """Make the gradients of a model larger or smaller; speeds and memory stay."""
    return replace(profile, gradient_bytes_fp32=max(1, round(profile.gradient_bytes_fp32 * factor)))


def set_quota(problem: Problem, target: tuple[str, ...], gpus: int) -> Requirements:
    """Lay a quota over those of a request: the last row that matches counts."""
    place, gpu, market = target
    rows = [
        Quota(place=pattern, gpu=name, market=market, gpus=gpus)
        for pattern in places_of(place, problem.catalog)
        for name in (("*",) if gpu == "*" else gpus_like(gpu, problem.catalog))
    ]
    return replace(problem.requirements, quotas=(*problem.requirements.quotas, *rows))


def set_rates(problem: Problem, rows: Sequence[Row]) -> ModelProfile:
    """Change how fast a model runs on some devices, alone and in a group alike.

    Notes
    -----
    An unmeasured device is estimated from a measured one, so the speeds of all devices are first
    written down as they are: a changed T4 must not change what is estimated from it. A value is
    samples/s of one GPU alone; machines with several follow in proportion.
    """
    known = _all_rates(problem)
    for text, target, factor, value in rows:
        gpus = gpus_like(target[0], problem.catalog)
        count = int(target[1]) if len(target) == 2 else None
        touched = [key for key in known if key[0] in gpus and count in (None, key[1])]
        if not touched:
            raise PlacerError(
                f"change '{text}': nobody knows how fast {problem.profile.name} is on it",
                "see placer models",
            )
        times_of = {
            gpu: factor if value is None else value / _alone(known, gpu, text)
            for gpu, _, _ in touched
        }
        for key in touched:
            now, times = known[key], times_of[key[0]] or 1.0
            ends = {end: getattr(now, end) * times for end in ("value", "low", "high")}
            known[key] = replace(now, source=f"what if: {text}; {now.source}", **ends)
    return replace(problem.profile, rates=tuple(known.values()))


def _alone(known: dict[tuple[str, int, str], Rate], gpu: str, text: str) -> float:
    """Return the samples/s of one GPU alone."""
    rate = known.get((gpu, 1, "none"))
    if rate is None:
        raise PlacerError(
            f"change '{text}': nobody knows how fast one {gpu} alone is", f"write rate:{gpu}=xF"
        )
    return rate.value


def _all_rates(problem: Problem) -> dict[tuple[str, int, str], Rate]:
    """Return every speed that the model has on the machines of the catalog, and those of its
    profile.
    """
    profile, catalog = problem.profile, problem.catalog
    known = {(rate.gpu, rate.gpu_count, rate.framework): rate for rate in profile.rates}
    kinds = {(offer.gpu, count) for offer in catalog.offers for count in (1, offer.gpu_count)}
    for (gpu, count), framework in product(sorted(kinds), ("none", "hivemind")):
        rate = profile.rate(catalog.gpu(gpu), count, framework, catalog)
        if rate is not None:
            named = replace(rate, gpu=gpu, gpu_count=count, framework=framework)
            known[gpu, count, framework] = named
    return known

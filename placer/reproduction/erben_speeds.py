"""Experiments of Erben et al. (PVLDB 17(6), 2024) as placements over the places of their book; and
speeds, times and links: figures 2 to 10 and 12, tables 3 to 6, the penalty of interruptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, permutations
from typing import Any

from placer.cost_model.estimate import Estimate, estimate, pool_of
from placer.cost_model.outlook.losses import ASSUMED_INTERRUPTION, Interruption, expected_share
from placer.market.catalog import Catalog
from placer.market.network.graph import Network, network_of
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.reproduction.comparison import Finding, PublishedClaim, percent_range, told, within
from placer.solving.by_hand import place_by_hand
from placer.units import SECONDS_PER_HOUR, Interval
from placer.workload.profile import load_profile

BOOK = "erben-2023"
CV, NLP, ASR = "convnext-large", "roberta-xlm", "whisper-small"
VISION = ("resnet18", "resnet50", "resnet152", "wide-resnet101", CV)
LANGUAGE = ("roberta-base", "roberta-large", NLP)
CONTINENTS = ("gcp/us-central1", "gcp/europe-west1", "gcp/asia-east1", "gcp/australia-southeast1")
US, EU, _, _ = CONTINENTS
WEST, AWS, AZURE = "gcp/us-west1", "aws/us-west-2", "azure/southcentralus"
LAMBDA, SITE, DGX2 = "lambda/us-west-1", "onprem/erben-eu", "onprem/erben-dgx2"


def _on(places: tuple[str, ...], count: int, gpu: str = "T4") -> str:
    return ",".join(f"{place}={count}x{gpu}" for place in places)


RUNS = {
    **{f"A-{n}": _on((US,), n) for n in (1, 2, 3, 4, 6, 8)},
    **{f"B-{2 * n}": _on((US, EU), n) for n in (1, 2, 4)},
    "C-3": _on(CONTINENTS[:3], 1),
    "C-4": _on(CONTINENTS, 1),
    "C-6": _on(CONTINENTS[:3], 2),
    "C-8": _on(CONTINENTS, 2),
    "D-1": _on((WEST,), 4),
    "D-2": _on((WEST, AWS), 2),
    "D-3": _on((WEST, AZURE), 2),
    "E-A-8": f"{SITE}=1xRTX8000,{_on((EU,), 8)}",
    "E-B-8": f"{SITE}=1xRTX8000,{_on((US,), 8)}",
    "E-C-8": f"{SITE}=1xRTX8000,{_on((LAMBDA,), 8, 'A10')}",
    "1xT4": _on((WEST,), 1),
    "8xT4": _on((WEST,), 8),
    "4xT4 node": f"{US}=1xT4:4",
    "E-A-1": f"{SITE}=1xRTX8000,{_on((EU,), 1)}",
    "F-A-8": f"{DGX2}=1xV100:8,{_on((EU,), 8)}",
    "F-C-8": f"{DGX2}=1xV100:8,{_on((LAMBDA,), 8, 'A10')}",
    "DGX-2": f"{DGX2}=1xV100:8",
    "rented DGX-2": f"{US}=1xV100:8",
    **{f"{n}xA10": _on((LAMBDA,), n, "A10") for n in (1, 2, 8)},
}
"""Workers of each experiment: table 2 (A, B, C), sections 5 (D), 6 (E, F), 3 (A10), 7 (nodes)."""


@dataclass(frozen=True)
class Bench:
    """The book of the paper and placer's estimates of its experiments, on the cheapest market."""

    book: Catalog

    @cached_property
    def network(self) -> Network:
        """Links and egress prices of the book."""
        return network_of(self.book)

    @cached_property
    def unmeasured(self) -> Network:
        """The same places without a measured link: all are estimated from coordinates."""
        return network_of(replace(self.book, links=()))

    def place(self, model: str, workers: str, tbs: int | None = None) -> tuple[Placement, Problem]:
        """Place workers as on the command line."""
        wish = Requirements(same_zone=True, target_batch_size=tbs)
        problem = Problem(profile=load_profile(model), catalog=self.book, requirements=wish)
        return place_by_hand(workers, problem), problem

    def estimate(self, model: str, run: str, tbs: int | None = None) -> Estimate:
        """Estimate an experiment of `RUNS`."""
        return estimate(*self.place(model, RUNS[run], tbs))

    def speed(self, model: str, run: str, tbs: int | None = None) -> float:
        """Return the samples/s of an experiment."""
        return self.estimate(model, run, tbs).samples_per_second.value


Setup = tuple[Any, ...]
"""Model, experiment and, unless it is 32,768, target batch size."""
GBPS = 1e9 / 8
MATCHMAKING_S = 5.0
"""Least time in which hivemind forms groups: section 3 (2)."""


def speed(
    claim: PublishedClaim, bench: Bench, model: str, run: str, tbs: int | None = None
) -> Finding:
    """Compare samples/s."""
    got = bench.estimate(model, run, tbs).samples_per_second
    return Finding(
        within(claim, got.value),
        f"{got.value:,.1f} samples/s ({got.low:,.0f} to {got.high:,.0f})",
        "placer's estimate of the placement",
    )


def ratio(
    claim: PublishedClaim, bench: Bench, setup: Setup, against: Setup, times: float = 1.0
) -> Finding:
    """Divide the samples/s of two setups; ``times`` 100 for percent."""
    ours, base = bench.speed(*setup), bench.speed(*against)
    return Finding(
        within(claim, times * ours / base),
        f"{times * ours / base:.4g}: {ours:,.1f} against {base:,.1f} samples/s",
        "placer's estimates of both placements",
    )


def share(claim: PublishedClaim, bench: Bench, model: str, run: str, against: str) -> Finding:
    """Return the percent of another experiment's samples/s."""
    return ratio(claim, bench, (model, run), (model, against), 100.0)


def local_share(claim: PublishedClaim, bench: Bench, model: str) -> Finding:
    """Compare two A10 without the averaging with two single ones, in percent."""
    two = bench.estimate(model, "2xA10")
    local = two.samples_per_second.value * two.step.total / two.step.calculation
    ours = 100 * local / (2 * bench.speed(model, "1xA10"))
    return Finding(
        within(claim, ours),
        f"{ours:.0f} %: {local / 2:,.0f} samples/s an A10 between exchanges",
        "rates fitted to these runs: agreement is no prediction",
    )


def global_share(claim: PublishedClaim, bench: Bench, model: str) -> Finding:
    """Compare two A10 with and without the averaging, in percent."""
    step = bench.estimate(model, "2xA10").step
    ours = 100 * step.calculation / step.total
    return Finding(
        within(claim, ours),
        f"{ours:.0f} %: {step.calculation:.1f} of {step.total:.1f} s are calculation",
        "averaging of A10 hosts fitted to these runs: agreement is no prediction",
    )


def communication(claim: PublishedClaim, bench: Bench, model: str, run: str) -> Finding:
    """Compare the seconds of an exchange."""
    ours = bench.estimate(model, run).step.communication
    return Finding(
        within(claim, ours),
        f"{ours:.1f} s",
        "averaging of A10 hosts fitted to these runs: agreement is no prediction",
    )


def a_larger_batch_is_faster(claim: PublishedClaim, bench: Bench) -> Finding:
    """Double the target batch size twice on two A10, for each model."""
    gains = [
        bench.speed(model, "2xA10", 2 * tbs) / bench.speed(model, "2xA10", tbs) - 1
        for model in (*VISION, *LANGUAGE)
        for tbs in (8_192, 16_384)
    ]
    return Finding(
        told(min(gains) > 0),
        f"faster in {sum(g > 0 for g in gains)} of {len(gains)}: {percent_range(gains)}",
        "the exchange takes as long for any batch",
    )


def small_models_wait_for_groups(claim: PublishedClaim, bench: Bench) -> Finding:
    """Find the models that calculate 8K samples on two A10 before groups are formed."""
    seconds = {
        model: bench.estimate(model, "2xA10", 8_192).step.calculation
        for model in (*VISION, *LANGUAGE)
    }
    assert claim.tolerance is not None
    short = {m for m, s in seconds.items() if s < MATCHMAKING_S * (1 + claim.tolerance)}
    ours = ", ".join(f"{m} {s:.1f} s" for m, s in sorted(seconds.items(), key=lambda x: x[1])[:3])
    held = short == {"resnet18", "roberta-base"}
    return Finding(
        told(held), f"{ours}; the others take longer", "seconds of calculation of a step"
    )


def granularity_ratio(claim: PublishedClaim, bench: Bench, setup: Setup, against: Setup) -> Finding:
    """Divide two granularities, so that it does not matter how calculation is counted."""
    ours, base = (bench.estimate(*s).granularity or 0.0 for s in (setup, against))
    return Finding(
        within(claim, ours / base),
        f"{ours / base:.2f}: {ours:.1f} against {base:.1f} by the wall clock",
        "the paper's granularities count logged calculation, about 1 / 1.5 of the clock's",
    )


def granularity(claim: PublishedClaim, bench: Bench, model: str, run: str) -> Finding:
    """Compare a granularity by the speeds of single GPUs, as the paper's calculation leaves out
    what hivemind adds to it.
    """
    got, (placement, problem) = bench.estimate(model, run), bench.place(model, RUNS[run])
    alone = sum(g.count * pool_of(g, problem).alone.value for g in placement.groups)
    seconds, wall = problem.batch / alone, got.granularity or 0.0
    ours = seconds / got.step.communication
    return Finding(
        within(claim, ours),
        f"{ours:.2f} at the speeds of single GPUs, {wall:.2f} by the wall clock",
        "the logged calculation lacks the accumulation of gradients, to which hivemind "
        "loses up to half of a GPU; it is slower than a single GPU's all the same",
    )


def faster(claim: PublishedClaim, bench: Bench, *pairs: tuple[Setup, Setup]) -> Finding:
    """Compare setups, the first of each pair to be the faster."""
    speeds = [(bench.speed(*a), bench.speed(*b)) for a, b in pairs]
    held = [a > b for a, b in speeds]
    words = [
        f"{a[0]} {a[1]} {x:,.0f} against {b[1]} {y:,.0f}"
        for (a, b), (x, y) in zip(pairs, speeds, strict=True)
    ]
    return Finding(
        told(all(held)),
        f"{sum(held)} of {len(held)}: {'; '.join(words)} samples/s",
        "placer's estimates of both placements",
    )


def links(claim: PublishedClaim, bench: Bench, pairs: Sequence[tuple[str, str]]) -> Finding:
    """Compare published links with those estimated from coordinates."""
    assert claim.tolerance is not None
    errors = [
        bench.unmeasured.link(a, b).bytes_per_second / bench.network.link(a, b).bytes_per_second - 1
        for a, b in pairs
    ]
    near = [abs(error) <= claim.tolerance for error in errors]
    return Finding(
        told(all(near)),
        f"{sum(near)} of {len(near)} links; errors {percent_range(errors)}",
        "round trip from coordinates, one window of 2.67 MB in flight"
        + ("; the line of a site is its own: measure it" if pairs[0][0] == SITE else ""),
    )


def streams(claim: PublishedClaim, bench: Bench, src: str, dst: str, count: int) -> Finding:
    """Compare the bandwidth of many streams side by side."""
    link = bench.network.link(src, dst)
    ours, one = link.speed(count) / GBPS, link.speed() / GBPS
    return Finding(
        within(claim, ours),
        f"{ours:.2f} Gb/s; one carries {one:.2f}, {count} at most {link.cap / GBPS:.1f}",
        "so many times one stream, up to what the model of links gives a machine",
    )


def small_models_send_less(claim: PublishedClaim, bench: Bench) -> Finding:
    """Compare the bytes per second of neighbouring sizes on two and eight A10."""
    words, held = [], []
    for family in (VISION, LANGUAGE):
        for run in ("2xA10", "8xA10"):
            rates = []
            for model in family:
                got = bench.estimate(model, run)
                rates.append(sum(use.bytes_per_step for use in got.links) / got.step.total)
            held += [a < b for a, b in pairwise(rates)]
            words.append(f"{run} {', '.join(f'{8 * rate / 1e6:,.0f}' for rate in rates)}")
    return Finding(
        told(all(held)),
        f"{sum(held)} of {len(held)} neighbours in Mb/s: {'; '.join(words)}",
        "ConvNeXt calculates longer for each parameter than WideResNet-101",
    )


def interruptions_cost_their_share(claim: PublishedClaim, bench: Bench) -> Finding:
    """Let every machine be away for the share of time of the claim, with rejoins of two steps."""
    away = 1 - float(claim.value) / 100
    assumed = ASSUMED_INTERRUPTION
    restart_s = away / (1 - away) / assumed.per_hour.value * SECONDS_PER_HOUR
    interruption = Interruption(
        per_month=assumed.per_month,
        restart_s=Interval(value=restart_s, low=restart_s, high=restart_s),
        lost_steps=assumed.lost_steps,
        basis="given",
        source=claim.source,
    )
    step = bench.estimate(CV, "A-8").step.total
    ours = 100 * expected_share(8, 8, step, interruption).value
    return Finding(
        within(claim, ours),
        f"{ours:.2f} % of the speed, rejoins of {step:.0f} s a step included",
        "what is away does not calculate; rejoins are rare at 20 % of machines a month",
    )


_T6 = ("E-A-8", "E-B-8", "E-C-8")
CHECKS: dict[str, tuple[Any, ...]] = {
    "E17": (ratio, (CV, "A-8"), (CV, "4xT4 node")),
    "E18": (ratio, (CV, "8xA10"), (CV, "DGX-2")),
    "E19": (ratio, (CV, "A-8"), (CV, "DGX-2")),
    "E20": (local_share, "resnet152"),
    "E21": (local_share, CV),
    "E22": (global_share, CV),
    "E23": (global_share, "roberta-base"),
    "E24": (ratio, (CV, "2xA10"), (CV, "1xA10"), 50.0),
    "E25": (a_larger_batch_is_faster,),
    "E26": (small_models_wait_for_groups,),
    "E27": (granularity_ratio, (CV, "2xA10"), (NLP, "2xA10")),
    "E28": (granularity_ratio, (CV, "2xA10", 32_768), (CV, "2xA10", 16_384)),
    "E29": (ratio, ("resnet152", "8xA10"), ("resnet152", "1xA10")),
    "E30": (ratio, (NLP, "8xA10"), (NLP, "1xA10")),
    "E31": (communication, NLP, "2xA10"),
    "E32": (communication, NLP, "8xA10"),
    "E33": (share, NLP, "B-2", "A-2"),
    "E34": (share, CV, "B-8", "A-8"),
    "E35": (share, NLP, "B-8", "A-8"),
    "E36": (share, CV, "C-3", "A-3"),
    "E37": (share, NLP, "C-3", "A-3"),
    "E38": (share, CV, "C-4", "A-4"),
    "E39": (share, NLP, "C-4", "A-4"),
    "E40": (share, CV, "C-6", "A-6"),
    "E41": (share, NLP, "C-6", "A-6"),
    "E42": (share, CV, "C-8", "A-8"),
    "E43": (share, NLP, "C-8", "A-8"),
    "E44": (links, tuple(permutations(CONTINENTS, 2))),
    "E45": (links, ((WEST, AWS), (AWS, WEST), (WEST, AZURE), (AZURE, WEST))),
    "E46": (links, ((SITE, EU), (SITE, US), (SITE, LAMBDA))),
    "E47": (streams, EU, US, 20),
    "E48": (streams, SITE, EU, 80),
    "E49": (streams, SITE, US, 80),
    "E61": (small_models_send_less,),
    "E62": (speed, CV, "E-A-8"),
    "E63": (speed, NLP, "E-A-8"),
    "E64": (speed, CV, "E-B-8"),
    "E65": (speed, NLP, "E-B-8"),
    "E66": (speed, CV, "E-C-8"),
    "E67": (speed, NLP, "E-C-8"),
    "E68": (faster, *(((m, "8xA10"), (m, run)) for m in (CV, NLP) for run in _T6)),
    "E69": (faster, *(((NLP, "A-8"), (NLP, run)) for run in _T6)),
    "E72": (ratio, (NLP, "8xA10"), (NLP, "DGX-2")),
    "E73": (faster, *(((m, "E-A-8"), (m, "E-B-8")) for m in (CV, NLP))),
    "E80": (speed, ASR, "A-8", 1_024),
    **{
        f"E{87 + at}": (granularity, *run)
        for at, run in enumerate(
            (
                *((model, run) for run in ("2xA10", "A-8") for model in (CV, NLP)),
                *((NLP, "B-2"), (CV, "E-A-1"), (NLP, "E-A-1"), (CV, "F-A-8"), (CV, "F-C-8")),
                *((CV, "C-8"), (NLP, "C-8")),
            )
        )
    },
    "E98": (speed, CV, "F-A-8"),
    "E99": (speed, CV, "F-C-8"),
    "E82": (interruptions_cost_their_share,),
    "E83": (ratio, (ASR, "A-8", 1_024), (ASR, "1xT4")),
    "E84": (ratio, (ASR, "A-8", 512), (ASR, "1xT4")),
}
"""The function that judges each claim about speeds, times and links, and what it is asked about."""

"""Claims P14 to P29 of Phalak et al. (2024), each judged by a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from statistics import fmean, median

from placer.cost_model.estimate import Estimate
from placer.cost_model.timing.services import worker_transfer_seconds
from placer.documents.schemas.measured import Claim, Verdict
from placer.reproduction.comparison import (
    LINK_ERROR,
    Finding,
    PublishedClaim,
    decided,
    judged_claims,
    percent_range,
    told,
    within,
)
from placer.reproduction.phalak_placements import (
    BOOK,
    CHOICES,
    CITIES,
    CLOUDS,
    MODELS,
    STORES,
    Choice,
    Study,
    other_assumptions,
    placed,
    usd_per_step,
)

MODEL = "niser"
ALONE, REGIONAL = "central", "hierarchical"
"""One aggregator for all cities, or one in each before it."""
MOST_WORKERS_PER_CITY = 8
"""The paper does not say how many workers a region has in figure 8: one to this many may be."""
PUBLISHED_INPUTS = ("P26", "P27", "P28", "P29")
"""Claims that rest on no assumed speed, or say which of them they lack."""
TIE = 1e-9
"""Shares below are rounding."""
BATCHES = 100
"""Mini-batches of the bill in P29."""
KNOWN = f"estimated links are known within {100 * LINK_ERROR:.0f} %"
UNTOLD = (
    "no figures of the bandwidths of figure 4 are known; estimated links know distance, "
    "not the front ends of a store"
)


def judged(study: Study) -> tuple[Claim, ...]:
    """Judge every claim of claims.csv; what rests on unpublished speeds is judged with half and
    twice of them as well.
    """
    others = other_assumptions(study.book)
    return judged_claims(BOOK, lambda claim: _steady(claim, study, others))


def _steady(claim: PublishedClaim, study: Study, others: Mapping[str, Study]) -> Finding:
    """Judge a claim under each set of assumptions: undecided where the verdict changes."""
    check = CHECKS[claim.id]
    finding = check(claim, study)
    if claim.id in PUBLISHED_INPUTS:
        return finding
    changed = [
        words for words, other in others.items() if check(claim, other).verdict != finding.verdict
    ]
    if not changed:
        return finding
    return Finding(
        Verdict.UNDECIDED,
        finding.ours,
        f"{finding.why}; {finding.verdict} here, otherwise with {', '.join(changed)}",
    )


def upload_is_faster_inside_a_city(claim: PublishedClaim, study: Study) -> Finding:
    """P14: compare each VM's upload to the store of its city with its best one to another city."""
    margins = []
    for vms, store, city in product(CLOUDS, STORES, CITIES):
        away = (upload_rate(study, vms, city, store, other) for other in CITIES if other != city)
        margins.append(upload_rate(study, vms, city, store, city) / max(away) - 1)
    held, count = sum(m > 0 for m in margins), len(margins)
    ours = f"{held} of {count} cases"
    if min(margins) > 0:
        ours = f"{1 + min(margins):.1f} to {1 + max(margins):.1f} times the bandwidth in {ours}"
    why = "uploads of one gradient over the links of the book, start-up included"
    return Finding(decided(min(margins)), ours, why)


def s3_is_faster_between_cities(claim: PublishedClaim, study: Study) -> Finding:
    """P15: compare uploads to S3 and to GCS of another city for all VMs."""
    margins = [
        _ratio(study, vms, city, other, "aws") - 1
        for vms, city, other in product(CLOUDS, CITIES, CITIES)
        if city != other
    ]
    return Finding(decided(min(margins)), _s3_against_gcs(margins), UNTOLD)


def s3_is_faster_inside_a_city(claim: PublishedClaim, study: Study) -> Finding:
    """P16: compare uploads inside a city; GCP VMs in London and Oregon are to prefer GCS."""
    margins, agree = [], []
    for vms, city in product(CLOUDS, CITIES):
        winner = "gcp" if (vms, city) in {("gcp", "London"), ("gcp", "Oregon")} else "aws"
        margins.append(_ratio(study, vms, city, city, "aws") - 1)
        agree.append(_ratio(study, vms, city, city, winner) - 1)
    ours = (
        f"{sum(m > TIE for m in agree)} of {len(agree)} cases as in the paper; "
        f"{_s3_against_gcs(margins)}"
    )
    return Finding(decided(min(agree)), ours, UNTOLD)


def waiting_is_the_largest_share(claim: PublishedClaim, study: Study) -> Finding:
    """P17: split each mini-batch into waiting, download and aggregate."""
    margins = []
    for estimate in study.estimates[MODEL].values():
        parts = dict(estimate.step.parts)
        waited = estimate.step.calculation + parts["upload"]
        margins += [waited / parts["download"] - 1, parts["download"] / parts["aggregate"] - 1]
    oregon = Choice("aws", "aws", "aws", "Oregon")
    step = study.estimates[MODEL][oregon].step
    parts = dict(step.parts)
    pairs = zip(margins[::2], margins[1::2], strict=True)
    orderly = sum(wait > 0 and transfer > 0 for wait, transfer in pairs)
    return Finding(
        decided(min(margins)),
        f"{oregon.label}: {step.calculation + parts['upload']:.1f} s waiting, "
        f"{parts['download']:.1f} s transfer to the workers, {parts['aggregate']:.1f} s "
        f"aggregating; the same order in {orderly} of {len(CHOICES)} placements",
        "waiting is counted from the start of the mini-batch, calculation at an assumed speed "
        f"included; from the first gradient to the last it is {step.waiting:.1f} s",
    )


def all_aws_is_fastest_and_all_gcp_slowest(claim: PublishedClaim, study: Study) -> Finding:
    """P18: compare everything in GCP with everything in AWS, city by city."""
    pairs = [
        [study.seconds(MODEL, Choice(cloud, cloud, cloud, city)) for cloud in ("aws", "gcp")]
        for city in CITIES
    ]
    margins = [gcp / aws - 1 for aws, gcp in pairs]
    ours = f"seconds of all-GCP against all-AWS in each city: {percent_range(margins)}"
    return Finding(decided(min(margins)), ours, UNTOLD)


def all_gcp_takes_as_long_everywhere(claim: PublishedClaim, study: Study) -> Finding:
    """P19: compare the four all-GCP placements with each other, then with the published seconds."""
    seconds = [study.seconds(MODEL, Choice("gcp", "gcp", "gcp", city)) for city in CITIES]
    spread, mean = max(seconds) / min(seconds) - 1, fmean(seconds)
    ours = (
        f"{min(seconds):.1f} to {max(seconds):.1f} s by city ({100 * spread:.0f} % apart), "
        f"mean {mean:.1f} s"
    )
    verdict = decided(-spread)
    if verdict is not Verdict.CONTRADICTED and within(claim, mean) is Verdict.REPRODUCED:
        verdict = Verdict.REPRODUCED
    why = (
        "placer's links make the city matter; the speed of the VMs, on which the seconds "
        "rest, was not published and is assumed"
    )
    return Finding(verdict, ours, why)


def the_fastest_placement(claim: PublishedClaim, study: Study) -> Finding:
    """P20: compare the paper's fastest placement with placer's, for both models."""
    named = next(choice for choice in CHOICES if choice.label == claim.value)
    margins, figures = [], []
    for model in MODELS:
        seconds, fastest = study.seconds(model, named), study.fastest(model)
        margins.append(
            min(study.seconds(model, choice) for choice in CHOICES if choice != named) / seconds - 1
        )
        figures.append(
            f"{model}: {fastest.label} in {study.seconds(model, fastest):.2f} s, the paper's "
            f"{seconds:.2f} s"
        )
    where = (
        "the same city"
        if all(study.fastest(model).city == named.city for model in MODELS)
        else "another city"
    )
    why = (
        f"{where}; the best other placement differs by {percent_range(margins)}, {KNOWN}; {UNTOLD}"
    )
    return Finding(decided(min(margins)), "; ".join(figures), why)


def the_cheapest_placement(claim: PublishedClaim, study: Study) -> Finding:
    """P21: compare the paper's cheapest placement with placer's, for both models."""
    cheapest = {model: study.cheapest(model) for model in MODELS}
    ours = "; ".join(
        f"{m}: {c.label} for {usd_per_step(study.estimates[m][c]):.6f} USD a mini-batch"
        for m, c in cheapest.items()
    )
    held = all(choice.label == claim.value for choice in cheapest.values())
    why = (
        "transfer decides, and its list prices are known; London sends as cheaply, its VMs "
        "and requests cost more"
    )
    return Finding(told(held), ours, why)


def gcp_function_and_store_are_slower(claim: PublishedClaim, study: Study) -> Finding:
    """P22: compare GCP function and GCS with every other pair."""
    margins = []
    for model, choice in product(MODELS, CHOICES):
        if (choice.function, choice.store) != ("gcp", "gcp"):
            gcp = study.seconds(model, Choice(choice.vms, "gcp", "gcp", choice.city))
            margins.append(gcp / study.seconds(model, choice) - 1)
    ours = (
        f"slower in {sum(m > TIE for m in margins)} of {len(margins)} comparisons, by "
        f"{percent_range(margins)}"
    )
    why = (
        "placer assumes the same network and speed for both functions, so a function beside "
        "its own store wins by little"
    )
    return Finding(decided(median(margins)), ours, why)


def one_cloud_is_cheapest_but_not_fastest(claim: PublishedClaim, study: Study) -> Finding:
    """P23: count the clouds of the cheapest and of the fastest placement, for both models."""
    margins, cheap = [], [study.cheapest(model).clouds for model in MODELS]
    for model in MODELS:
        one, more = (
            min(study.seconds(model, c) for c in CHOICES if (c.clouds == 1) == alone)
            for alone in (True, False)
        )
        margins.append(one / more - 1)
    ours = (
        f"the cheapest has {max(cheap)} cloud; the best placement of one cloud is "
        f"{percent_range(margins)} slower than of several"
    )
    verdict = decided(min(margins)) if max(cheap) == 1 else Verdict.CONTRADICTED
    why = (
        f"the half about cost {'holds' if max(cheap) == 1 else 'fails'}; the half about time "
        f"would need more: {KNOWN}"
    )
    return Finding(verdict, ours, why)


def egress_price_ratio(claim: PublishedClaim, study: Study, city: str) -> Finding:
    """P27 and P28: compare AWS egress prices of a city and of London, rounded as the paper does."""
    usd = [
        study.network.egress_price(CITIES[name]["aws"], CITIES["Oregon"]["aws"]).usd_per_gib
        for name in (city, "London")
    ]
    held = round(usd[0] / usd[1]) == float(claim.value)
    ours = (
        f"{usd[0] / usd[1]:.1f} x: {usd[0]:g} against {usd[1]:g} USD/GiB to another region of AWS"
    )
    why = "list prices of the book; the paper rounds"
    return Finding(told(held), ours, why)


def error_against_the_bill(claim: PublishedClaim, study: Study) -> Finding:
    """P29: say what placer expects for the mini-batches of the bill."""
    choices = [Choice("aws", "aws", "aws", city) for city in CITIES]
    usd = [BATCHES * usd_per_step(study.estimates[MODEL][choice]) for choice in choices]
    ours = (
        f"{min(usd):.2f} to {max(usd):.2f} USD for {BATCHES} mini-batches, by city of Lambda and S3"
    )
    return Finding(
        Verdict.UNDECIDED,
        ours,
        "needs their bill and the seconds of their VMs: no figures of either are known",
    )


def one_aggregator_is_faster(claim: PublishedClaim, study: Study) -> Finding:
    """Compare both ways with one AWS worker in each city, for both functions in all cities."""
    margins = []
    for choice in (choice for pair in _beside() for choice in pair):
        regional = placed(MODEL, choice, study, exchange=REGIONAL)
        margins.append(regional.step.total / study.seconds(MODEL, choice) - 1)
    ours = f"regional and global together take {percent_range(margins)} against global alone"
    return Finding(
        decided(min(margins)),
        ours,
        "one worker in each city, AWS VMs; store and function times are assumed",
    )


def lambda_is_faster(claim: PublishedClaim, study: Study) -> Finding:
    """Compare Lambda beside S3 with the GCP function beside GCS in each city, for both ways."""
    pairs = list(_beside())
    alone = [_behind(*(study.estimates[MODEL][choice] for choice in pair)) for pair in pairs]
    regional = [
        _behind(*(placed(MODEL, choice, study, exchange=REGIONAL) for choice in pair))
        for pair in pairs
    ]
    return Finding(
        decided(min(*alone, *regional)),
        f"global aggregator alone, GCF beside GCS against Lambda beside S3: "
        f"{percent_range(alone)} seconds; with regional ones {percent_range(regional)}",
        "placer assumes the same network and speed for both functions: nobody published them",
    )


def one_aggregator_costs_half_more(claim: PublishedClaim, study: Study) -> Finding:
    """Work out the ratio of costs in London on AWS for each number of workers that a city may have:
    decided only where all of them agree, as the paper does not say it.
    """
    choice, wanted, ratios = Choice("aws", "aws", "aws", "London"), float(claim.value), {}
    for workers in range(1, MOST_WORKERS_PER_CITY + 1):
        alone, regional = (
            usd_per_step(placed(MODEL, choice, study, workers, exchange))
            for exchange in (ALONE, REGIONAL)
        )
        ratios[workers] = alone / regional
    verdicts = {within(claim, ratio) for ratio in ratios.values()}
    ours = (
        f"{ratios[1]:.2f} with one worker in each city, as P24 has it; "
        f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f} with one to "
        f"{MOST_WORKERS_PER_CITY}, {wanted:g} among them"
    )
    return Finding(
        verdicts.pop() if len(verdicts) == 1 else Verdict.UNDECIDED,
        ours,
        "the ratio follows from the workers of a region, which figure 8 does not tell",
    )


CHECKS: dict[str, Callable[[PublishedClaim, Study], Finding]] = {
    "P14": upload_is_faster_inside_a_city,
    "P15": s3_is_faster_between_cities,
    "P16": s3_is_faster_inside_a_city,
    "P17": waiting_is_the_largest_share,
    "P18": all_aws_is_fastest_and_all_gcp_slowest,
    "P19": all_gcp_takes_as_long_everywhere,
    "P20": the_fastest_placement,
    "P21": the_cheapest_placement,
    "P22": gcp_function_and_store_are_slower,
    "P23": one_cloud_is_cheapest_but_not_fastest,
    "P24": one_aggregator_is_faster,
    "P25": lambda_is_faster,
    "P26": one_aggregator_costs_half_more,
    "P27": partial(egress_price_ratio, city="Sydney"),
    "P28": partial(egress_price_ratio, city="Mumbai"),
    "P29": error_against_the_bill,
}
"""The function that judges each claim of claims.csv."""


def upload_rate(study: Study, vms: str, city: str, store: str, store_city: str) -> float:
    """Return bytes per second of one gradient from a VM to a store, start-up included."""
    size = study.gradient_bytes[MODEL]
    link = study.network.link(CITIES[city][vms], CITIES[store_city][store])
    return size / worker_transfer_seconds(size, link, study.calibration.services)


def _ratio(study: Study, vms: str, city: str, store_city: str, winner: str) -> float:
    """Divide the bandwidth to the winner's store by that to the other cloud's in the same city."""
    (loser,) = STORES.keys() - {winner}
    return upload_rate(study, vms, city, winner, store_city) / upload_rate(
        study, vms, city, loser, store_city
    )


def _s3_against_gcs(margins: Sequence[float]) -> str:
    s3, gcs = sum(m > TIE for m in margins), sum(m < -TIE for m in margins)
    return f"S3 faster in {s3} of {len(margins)} pairs, GCS in {gcs}, by {percent_range(margins)}"


def _beside() -> list[tuple[Choice, Choice]]:
    """Put Lambda beside S3 and the GCP function beside GCS in each city, for AWS VMs."""
    return [
        (Choice("aws", "aws", "aws", city), Choice("aws", "gcp", "gcp", city)) for city in CITIES
    ]


def _behind(first: Estimate, second: Estimate) -> float:
    """Share of time that the second takes more than the first."""
    return second.step.total / first.step.total - 1

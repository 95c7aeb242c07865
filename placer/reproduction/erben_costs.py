"""Dollars of Erben et al. (PVLDB 17(6), 2024), figures 1, 11 and 15: placer's speeds and bytes
under the paper's own accounting.

The paper prices traffic between clouds of one region of the world as traffic between regions of a
cloud, not as traffic to the internet, and the exchange over four continents as groups that average
first. Both are its conditions; placer prices neither so by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from placer.cost_model.dollars import usd_per_million_samples
from placer.documents.schemas.measured import Verdict
from placer.reproduction.comparison import Finding, PublishedClaim, told, within
from placer.reproduction.erben_speeds import ASR, AWS, AZURE, CONTINENTS, CV, NLP, RUNS, WEST, Bench
from placer.units import GIB, SECONDS_PER_HOUR
from placer.workload.profile import load_profile

INSIDE, OUTSIDE = 1 / 3, 2 / 3
"""Parts of a worker's traffic in D-2 and D-3 that stay in its cloud and leave it: section 5 (2)."""
INSIDE_C8, BETWEEN_C8, OCEANIA_C8 = 8 / 20, 6 / 20, 6 / 20
"""Parts inside a continent, between three of them, and with Australia: section 5 (3)."""
OTHER_CLOUD = {"D-2": AWS, "D-3": AZURE}
SPOT_OF_C8 = {"aws": (0.4388, 0.2394, 0.3474, 0.2934), "azure": (0.15056, 0.14542, 0.18025, 0.2313)}
"""USD/h of a spot T4 in the USA, Europe, Asia and Australia on 12 May 2023: network analysis
notebook of the artifact. Those of Google Cloud are in the book.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class VmHour:
    """USD of one VM and hour by what it is spent on."""

    vm: float
    inside: float
    outside: float
    loading: float

    @property
    def total(self) -> float:
        """Everything together."""
        return self.vm + self.inside + self.outside + self.loading

    def __str__(self) -> str:
        """Write the sum with its parts."""
        return (
            f"{self.total:.3f} USD/h = VM {self.vm:.3f}, egress inside {self.inside:.3f} and "
            f"outside {self.outside:.3f}, loading {self.loading:.3f}"
        )


def t4_usd(bench: Bench, place: str) -> dict[str, float]:
    """Return the USD/h of a machine with one T4 by market."""
    return {
        offer.market: offer.usd_per_hour
        for offer in bench.book.offers
        if (offer.place, offer.device) == (place, "T4")
    }


def egress_usd(bench: Bench, provider: str, src: str, dst: str) -> float:
    """Return the USD/GiB of a row of table 1."""
    return next(
        row.usd_per_gib
        for row in bench.book.egress
        if (row.provider, row.src, row.dst) == (provider, src, dst)
    )


def gib_per_hour(bench: Bench, model: str, run: str) -> tuple[float, float]:
    """Return the GiB that one worker sends to others and loads in an hour."""
    placement, problem = bench.place(model, RUNS[run])
    got = bench.estimate(model, run)
    sent = sum(use.bytes_per_step for use in got.links) / got.step.total
    loaded = got.samples_per_second.value * (problem.profile.bytes_per_sample or 0)
    hourly = SECONDS_PER_HOUR / placement.workers / GIB
    return sent * hourly, loaded * hourly


def multi_cloud(bench: Bench, model: str, run: str, place: str) -> VmHour:
    """Price one VM of D-2 or D-3 in one of its clouds (figure 11a)."""
    provider = place.split("/", maxsplit=1)[0]
    sent, loaded = gib_per_hour(bench, model, run)
    return VmHour(
        vm=t4_usd(bench, place)["spot"],
        inside=sent * INSIDE * egress_usd(bench, provider, "*", "inter_zone"),
        outside=sent * OUTSIDE * egress_usd(bench, provider, "NA", "NA"),
        loading=loaded * egress_usd(bench, "backblaze", "*", "internet"),
    )


def four_continents(bench: Bench, model: str, provider: str) -> VmHour:
    """Price one VM of C-8 with the prices of a cloud (figure 11b)."""
    sent, loaded = gib_per_hour(bench, model, "C-8")
    spots = SPOT_OF_C8.get(provider) or [t4_usd(bench, place)["spot"] for place in CONTINENTS]
    return VmHour(
        vm=fmean(spots),
        inside=sent * INSIDE_C8 * egress_usd(bench, provider, "*", "inter_zone"),
        outside=sent
        * (
            BETWEEN_C8 * egress_usd(bench, provider, "*", "*")
            + OCEANIA_C8 * egress_usd(bench, provider, "*", "OC")
        ),
        loading=loaded * egress_usd(bench, "backblaze", "*", "internet"),
    )


def total_of(claim: PublishedClaim, bench: Bench, model: str, run: str) -> Finding:
    """Add up two VMs in each cloud of D-2 or D-3."""
    first = multi_cloud(bench, model, run, WEST)
    second = multi_cloud(bench, model, run, OTHER_CLOUD[run])
    usd = 2 * first.total + 2 * second.total
    why = "placer's speed and bytes; prices of table 1"
    if model == CV and within(claim, usd) is Verdict.CONTRADICTED:
        why += (
            "; the parts that the paper names (VM, loading, egress of a VM) do not add up to "
            "its totals for this model either"
        )
    return Finding(
        within(claim, usd),
        f"{usd:.2f} USD/h; a VM of Google Cloud {first}; of the other {second}",
        why,
    )


def outside_over_spot(claim: PublishedClaim, bench: Bench, place: str, run: str) -> Finding:
    """Compare traffic that leaves the cloud with the price of the spot machine."""
    hour = multi_cloud(bench, NLP, run, place)
    times = hour.outside / hour.vm
    return Finding(
        within(claim, times),
        f"{times:.2f} times: {hour}",
        "placer's speed and bytes; prices of table 1",
    )


def loading(claim: PublishedClaim, bench: Bench, model: str) -> Finding:
    """Price the samples that one VM of D-2 loads."""
    sent, loaded = gib_per_hour(bench, model, "D-2")
    usd = multi_cloud(bench, model, "D-2", WEST).loading
    return Finding(
        within(claim, usd),
        f"{usd:.3f} USD/h for {loaded:.1f} GiB; {sent:.1f} GiB are exchanged",
        "bytes of a sample from the logs, placer's speed",
    )


def total_of_c8(claim: PublishedClaim, bench: Bench, provider: str) -> Finding:
    """Price a VM of C-8 with the prices of one cloud."""
    hour = four_continents(bench, NLP, provider)
    return Finding(within(claim, hour.total), str(hour), _bytes_of_c8(bench))


def egress_is_most_of_c8(claim: PublishedClaim, bench: Bench) -> Finding:
    """Compare the egress between continents with all cost of a VM of C-8 at Google Cloud."""
    hour = four_continents(bench, NLP, "gcp")
    share = 100 * hour.outside / hour.total
    held = share > float(claim.value)
    return Finding(told(held), f"{share:.1f} %: {hour}", _bytes_of_c8(bench))


def per_million(claim: PublishedClaim, bench: Bench, model: str, run: str) -> Finding:
    """Price a million samples on machines that send nothing, or nothing that costs."""
    got = bench.estimate(model, run)
    usd = usd_per_million_samples(got.usd_per_hour.total, got.samples_per_second.value)
    return Finding(
        within(claim, usd),
        f"{usd:.2f} USD: {got.usd_per_hour.total:.2f} USD/h at "
        f"{got.samples_per_second.value:,.0f} samples/s",
        "price of the machines and placer's speed",
    )


def eight_t4(bench: Bench, model: str) -> tuple[float, float]:
    """Return USD/h of eight spot T4 in one zone and what of it is egress, as figures 1 and 15 have
    it: the egress inside the cloud is that of a VM of D-2.
    """
    inside = 8 * multi_cloud(bench, model, "D-2", WEST).inside
    return 8 * t4_usd(bench, WEST)["spot"] + inside, inside


def eight_t4_per_million(claim: PublishedClaim, bench: Bench, model: str) -> Finding:
    """Price a million samples on eight T4."""
    usd, inside = eight_t4(bench, model)
    speed = bench.speed(model, "A-8")
    each = usd_per_million_samples(usd, speed)
    return Finding(
        within(claim, each),
        f"{each:.2f} USD: {usd:.2f} USD/h, {inside:.2f} of it egress, {speed:,.0f} samples/s",
        "prices of table 1, placer's speed of A-8 and bytes of D-2",
    )


def eight_t4_are_mostly_egress(claim: PublishedClaim, bench: Bench) -> Finding:
    """Compare egress with all cost of eight T4 that train the language model."""
    usd, inside = eight_t4(bench, NLP)
    held = inside / usd > float(claim.value) / 100
    return Finding(
        told(held),
        f"{100 * inside / usd:.1f} %: {inside:.2f} of {usd:.2f} USD/h",
        "prices of table 1, placer's bytes of D-2",
    )


def cost_ratio(claim: PublishedClaim, bench: Bench, model: str, run: str, against: str) -> Finding:
    """Divide the USD of a million samples of two setups."""
    usd = []
    for name in (run, against):
        got = bench.estimate(model, name)
        hourly = eight_t4(bench, model)[0] if name == "8xT4" else got.usd_per_hour.total
        usd.append(usd_per_million_samples(hourly, got.samples_per_second.value))
    ratio = usd[0] / usd[1]
    return Finding(
        within(claim, ratio),
        f"{ratio:.2f} times: {usd[0]:.2f} against {usd[1]:.2f} USD per million samples",
        "prices of the machines, egress inside the cloud, placer's speeds",
    )


def price_of_nobody(claim: PublishedClaim, bench: Bench) -> Finding:
    """Say what is missing for the A100 of the speech model."""
    rate = next(r for r in load_profile(ASR).rates if (r.gpu, r.gpu_count) == ("A100-80", 1))
    hourly = float(claim.value) * rate.value * SECONDS_PER_HOUR / 1e6
    return Finding(
        Verdict.UNDECIDED,
        f"nothing to compare: it would be {hourly:.2f} USD/h at {rate.value:g} samples/s",
        "the price of that machine follows from this very figure only",
    )


def table_1(claim: PublishedClaim, bench: Bench) -> Finding:
    """Compare every price of table 1 with the row that placer prices by."""
    kinds = [("*", "inter_zone"), *((zone, zone) for zone in ("NA", "EU", "AS", "OC"))]
    kinds += [("*", "OC"), ("*", "*")]
    wrong = []
    for place, published in TABLE_1.items():
        provider = place.split("/", maxsplit=1)[0]
        markets = t4_usd(bench, place)
        ours = [markets["spot"], markets["on_demand"]]
        ours += [egress_usd(bench, provider, *kind) for kind in kinds]
        wrong += [
            f"{provider} {mine:g} for {said:g}"
            for mine, said in zip(ours, published, strict=True)
            if mine != said
        ]
    count = sum(map(len, TABLE_1.values())) - len(wrong)
    return Finding(
        told(not wrong),
        f"{count} of {claim.value} prices{': ' if wrong else ''}{', '.join(wrong)}",
        "the rows that placer prices by, exact",
    )


def spot_is_cheaper(claim: PublishedClaim, bench: Bench) -> Finding:
    """Work out what spot saves in each cloud, in whole percent."""
    prices = [t4_usd(bench, place) for place in TABLE_1]
    ours = ", ".join(f"{100 * (1 - usd['spot'] / usd['on_demand']):.0f}" for usd in prices)
    return Finding(told(ours == claim.value), f"{ours} %", "prices of the book, whole percent")


TABLE_1 = {
    WEST: (0.180, 0.572, 0.01, 0.01, 0.02, 0.05, 0.08, 0.15, 0.08),
    AWS: (0.395, 0.802, 0.01, 0.01, 0.01, 0.01, 0.01, 0.02, 0.02),
    AZURE: (0.134, 0.489, 0.00, 0.02, 0.02, 0.08, 0.08, 0.08, 0.02),
}
"""Table 1, top to bottom: T4 spot and on demand in USD/h; USD/GB between zones, between regions of
the USA, the EU, Asia and Oceania, from anywhere to Oceania, and between continents.
"""


def _bytes_of_c8(bench: Bench) -> str:
    sent, _ = gib_per_hour(bench, NLP, "C-8")
    return (
        f"{sent:.0f} GiB/h a VM at placer's speed; in the flat butterfly that the byte counters "
        f"show, 6/7 would leave the continent, not 12/20"
    )


CHECKS: dict[str, tuple[Any, ...]] = {
    "E02": (egress_is_most_of_c8,),
    "E04": (table_1,),
    "E05": (spot_is_cheaper,),
    "E10": (per_million, CV, "1xT4"),
    "E11": (per_million, CV, "1xA10"),
    "E12": (per_million, CV, "rented DGX-2"),
    "E13": (per_million, CV, "8xA10"),
    "E14": (eight_t4_per_million, CV),
    "E15": (per_million, CV, "4xT4 node"),
    "E16": (cost_ratio, CV, "8xT4", "4xT4 node"),
    "E50": (total_of, NLP, "D-2"),
    "E51": (total_of, NLP, "D-3"),
    "E52": (total_of, CV, "D-2"),
    "E53": (total_of, CV, "D-3"),
    "E54": (outside_over_spot, WEST, "D-2"),
    "E55": (outside_over_spot, AZURE, "D-3"),
    "E56": (loading, CV),
    "E57": (loading, NLP),
    "E58": (total_of_c8, "gcp"),
    "E59": (total_of_c8, "azure"),
    "E60": (total_of_c8, "aws"),
    "E70": (cost_ratio, NLP, "8xA10", "rented DGX-2"),
    "E71": (eight_t4_are_mostly_egress,),
    "E81": (price_of_nobody,),
    "E85": (per_million, ASR, "4xT4 node"),
    "E86": (per_million, ASR, "8xT4"),
}
"""The function that judges each claim about dollars, and what it is asked about."""

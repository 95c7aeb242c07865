"""Markets of a given size: real regions, links and egress prices, machines around list prices; and
the default book of one day.

    python tests/benchmarks/markets.py --copy    copy the default book of today

Regions, egress, functions and stores of drawn markets come from `book/`, a copy of the default book
without its machines, and `whole_book/` has its machines too, so that an instance stays what it is
when prices are refreshed. A new copy changes all instances, which `frozen.py` notices by their
digests.
"""

import argparse
import csv
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from placer.interface.advisor import Advisor
from placer.market.books.book_reader import load_catalog
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Catalog, VmOffer
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.workload.constants import Calibration, HostConstants, ServiceConstants
from placer.workload.profile import load_profile

SIZES = {"small": (20, 20), "medium": (40, 30), "large": (100, 50)}
"""Regions and types of machines by name; each in two markets."""
BUDGETS = (5.0, 50.0, 500.0)
MODELS = ("roberta-xlm", "resnet50", "convnext-large", "resnet18", "whisper-small")
BATCH_FACTORS = (0.25, 1, 4)
"""Multiples of the profile's target batch size: 8,192 to 131,072 samples for most models, as in
Erben et al. (2024) and 4 x beyond.
"""
HUGE_FACTORS = (1, 8, 64)
"""Multiples beyond what is trained: up to 2,097,152 samples a step, more than an epoch of ImageNet.
Many small regions pay.
"""
PRESENT = 0.31
"""Share of (region, type, market) that exist: about 3,000 machines at 100 x 50, as in today's
books.
"""
BOOK = Path(__file__).parent / "book"
WHOLE_BOOK = Path(__file__).parent / "whole_book"
BOOK_MODELS = (
    "roberta-xlm",
    "resnet50",
    "convnext-large",
    "whisper-small",
    "gpt-1.3b",
    "mpt-7b",
    "llama-3.1-8b",
)
"""What the whole book is asked for: models that fit one device, and language models on islands."""
BOOK_BUDGETS = (5.0, 50.0, 500.0, 5_000.0)
BOOK_QUOTAS = (None, 64)
"""GPUs of one kind in one region, as in requests; None: no limit."""
PROFILES = BOOK / "profiles"
"""Copies of the profiles of `MODELS`, so that new speeds do not change the instances."""
CONSTANTS = Calibration(
    name="published",
    hosts={
        "t4": HostConstants(0.386, 10.53, 0.978),
        "a10": HostConstants(0.0, 7.26, 0.304, 0.00669),
    },
    kappa=(1.0, 1.2, 0.74),
    averaging_spread=(1.0, 1.15, 0.87),
    services=ServiceConstants(server_sum_bytes_per_s=None),
)
"""The constants that the instances were frozen with, so that new fits do not change the answers."""
CLOUDS = ("aws", "azure", "gcp")
SELLERS = (*CLOUDS, "lambda", "runpod")
"""Providers of machines: 180 regions."""
COUNTS = (1, 2, 4, 8)
DEVICE_USD_PER_HOUR = {
    "T4": 0.35,
    "L4": 0.56,
    "A10": 0.75,
    "A10G": 0.90,
    "V100": 2.48,
    "V100-32": 3.40,
    "A100-40": 2.93,
    "A100-80": 3.93,
    "L40S": 1.60,
    "H100": 8.80,
    "H200": 9.90,
    "RTX8000": 1.30,
    "H100-PCIe": 6.90,
    "H100-NVL": 7.60,
}
"""About the list price of one device without its host (US regions, 2026)."""
HOST_USD_PER_HOUR = 0.13
"""A small host beside each device."""

AS_BEFORE = {"mixed": True, "figures": "book", "supply": "any"}
"""Words of a question as it was before machines had to be alike, and figures to be defended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One benchmark question by the numbers it is drawn from.

    With local steps all strategies are open, else the synchronous ones; ``huge`` questions have
    batches of `HUGE_FACTORS`. With a ``book_model`` the copy of the default book is asked as a user
    would, islands included: regions, types and seed are 0.
    """

    regions: int
    types: int
    budget: float
    seed: int
    local_steps: int | None = None
    huge: bool = False
    book_model: str | None = None
    quota: int | None = 8

    def problem(self) -> Problem:
        """Build the question."""
        if self.book_model is not None:
            words = {**AS_BEFORE, **self._steps}
            return book_problem(self.book_model, self.budget, quota=self.quota, **words)
        draw = random.Random(f"question {self.seed} {self.regions} {self.types} {self.budget}")
        profile = load_profile(str(PROFILES / f"{draw.choice(MODELS)}.json"))
        wishes = Requirements(
            budget_usd_per_hour=self.budget,
            max_local_steps=self.local_steps,
            quota_gpus=self.quota,
            target_batch_size=int(
                profile.target_batch_size
                * draw.choice(HUGE_FACTORS if self.huge else BATCH_FACTORS)
            ),
        )
        return Problem(
            profile=profile,
            catalog=market(self.regions, self.types, self.seed),
            requirements=wishes,
            calibration=CONSTANTS,
        )

    @property
    def _steps(self) -> dict[str, str]:
        return {} if self.local_steps is None else {"local_steps": f"1..{self.local_steps}"}


def market(regions: int, types: int, seed: int) -> Catalog:
    """Draw a market.

    ``regions``, ``types``: regions of the default book that have machines of a large cloud, of any
    provider where more are wanted; and kinds of machines: GPU and how many, with several hosts
    where more than 56 are wanted. ``seed``: the same seed gives the same market.
    """
    book = _book()
    draw = random.Random(f"market {seed} {regions} {types}")
    able = sorted({offer.place for offer in book.offers if offer.provider in CLOUDS})
    if regions > len(able):
        able = sorted(place for place in book.regions if place.split("/")[0] in SELLERS)
    places = draw.sample(able, regions)
    kinds = [(gpu, count, "") for gpu in DEVICE_USD_PER_HOUR for count in COUNTS]
    more = range(1, 1 + -(-types // len(kinds)))
    if types > len(kinds):
        kinds = [(gpu, count, f"-{host}") for host in more for gpu, count, _ in kinds]
    chosen = sorted(draw.sample(kinds, types))
    level = {place: draw.uniform(0.95, 1.35) for place in places}
    offers = []
    for place in sorted(places):
        provider, region = place.split("/")
        for gpu, count, host in chosen:
            usd = (
                level[place]
                * count
                * (DEVICE_USD_PER_HOUR[gpu] + HOST_USD_PER_HOUR)
                * draw.uniform(0.97, 1.03)
            )
            for name, share in (("on_demand", 1.0), ("spot", draw.uniform(0.3, 0.6))):
                if draw.random() < PRESENT:
                    kind = f"{gpu.lower()}-{count}x{host}"
                    usd_per_hour = round(usd * share, 4)
                    offers.append(_offer(provider, region, kind, gpu, count, name, usd_per_hour))
    return replace(
        book,
        name=f"market-{regions}x{types}-{seed}",
        digest=f"market {seed} {regions} {types}",
        offers=tuple(offers),
    )


def _offer(
    provider: str, region: str, kind: str, gpu: str, count: int, market: str, usd: float
) -> VmOffer:
    return VmOffer(
        provider=provider,
        region=region,
        instance_type=kind,
        gpu=gpu,
        gpu_count=count,
        vcpus=8 * count,
        memory_gib=64 * count,
        market=market,
        usd_per_hour=usd,
        price_basis="estimated",
        available=None,
        source="drawn around list prices",
        as_of="2026-01-01",
    )


@lru_cache(maxsize=1)
def _book() -> Catalog:
    """The copy of the default book, with one machine in each place that has any."""
    return load_catalog(str(BOOK))


def book_problem(model: str, budget: float, **words: Any) -> Problem:
    """Ask the copy of the default book, USD/h and other words as in `placer.recommend`."""
    return _whole_book().problem(model, budget=f"{budget}/h", **words)


@lru_cache(maxsize=1)
def _whole_book() -> Advisor:
    """The copy of the default book with all its machines."""
    return Advisor(str(WHOLE_BOOK))


def book_questions(
    budgets: Sequence[float], quotas: Sequence[int | None], local_steps: int | None
) -> list[Question]:
    """List the questions to the copy of the default book: each model, quota and budget."""
    return [
        Question(
            regions=0,
            types=0,
            budget=budget,
            seed=0,
            local_steps=local_steps,
            book_model=model,
            quota=quota,
        )
        for budget in budgets
        for quota in quotas
        for model in BOOK_MODELS
    ]


def copy_book() -> None:
    """Copy the default book, whole; and all files but its machines, of which one a place is kept to
    say which places have any.
    """
    source = shipped_catalogs() / "default"
    for path in source.glob("*.csv"):
        shutil.copyfile(path, WHOLE_BOOK / path.name)
    for name in ("regions.csv", "egress.csv", "functions.csv", "stores.csv"):
        shutil.copyfile(source / name, BOOK / name)
    with (source / "offers.csv").open(encoding="utf-8", newline="") as handle:
        kept: dict[tuple[str, str], dict[str, str]] = {}
        for row in csv.DictReader(handle):
            if row["provider"] in CLOUDS:
                kept.setdefault((row["provider"], row["region"]), row)
    with (BOOK / "offers.csv").open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(
            handle, fieldnames=list(next(iter(kept.values()))), lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(kept[key] for key in sorted(kept))


if __name__ == "__main__":
    words = argparse.ArgumentParser(description="Markets that instances are drawn from.")
    words.add_argument("--copy", action="store_true", help="copy the default book of today")
    if words.parse_args().copy:
        copy_book()

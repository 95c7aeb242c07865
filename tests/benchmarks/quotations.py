"""Published figures in claims, profiles and books against files of facts of the papers.

python tests/benchmarks/quotations.py FOLDER    what differs; exit code 1 if anything does

FOLDER holds phalak_facts.csv, cloudless_facts.csv, erben_prices.csv, erben_network.csv,
erben_baselines.csv, erben_dev.csv and erben_dev_2.csv. Nothing is fitted or estimated here: figures
are compared as they are written, rates and speeds to half a unit of the last published digit.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from placer.market.books.book_reader import load_catalog  # noqa: E402
from placer.reproduction.comparison import (  # noqa: E402
    published_claims,
    published_runs,
)
from placer.reproduction.erben_costs import SPOT_OF_C8, TABLE_1  # noqa: E402
from placer.workload.profile import load_profile  # noqa: E402

Row = dict[str, str]
Difference = tuple[str, str, str]
"""What, in the project, in the facts."""
MODELS = {
    "RN18": "resnet18",
    "RN50": "resnet50",
    "RN152": "resnet152",
    "WRN101": "wide-resnet101",
    "CONV": "convnext-large",
    "RBase": "roberta-base",
    "RLrg": "roberta-large",
    "RXLM": "roberta-xlm",
    "WhisperSmall": "whisper-small",
}
GPUS = {"T4": ("T4", 1), "A10": ("A10", 1), "RTX8000": ("RTX8000", 1), "8xV100": ("V100", 8)}
PLACES = {
    "GC-US": "gcp/us-central1",
    "GC-EU": "gcp/europe-west1",
    "GC-ASIA": "gcp/asia-east1",
    "GC-AUS": "gcp/australia-southeast1",
    "GC": "gcp/us-west1",
    "AWS": "aws/us-west-2",
    "AZURE": "azure/southcentralus",
    "RTX8000": "onprem/erben-eu",
    "EU-T4": "gcp/europe-west1",
    "US-T4": "gcp/us-central1",
    "US-A10": "lambda/us-west-1",
    "LAMBDA-A10": "lambda/us-west-1",
}
KINDS = (
    "T4 spot",
    "T4 on-demand",
    "egress inter-zone",
    "egress inter-region US",
    "egress inter-region EU",
    "egress inter-region ASIA",
    "egress inter-region OCE",
    "egress ANY-OCE",
    "egress between continents",
)
TABLE_6 = {"E62": ("E-A-8", "CONV"), "E63": ("E-A-8", "RXLM")}
"""Claims of table 6 whose runs the facts have."""


def rows_of(folder: Path, file: str) -> list[Row]:
    """Read a file of facts."""
    with (folder / file).open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def claims_by_fact(folder: Path) -> Iterator[Difference]:
    """Compare values of the claims of Phalak et al. and of Cloudless-Training."""
    for book, file in (("phalak-2023", "phalak_facts.csv"), ("cloudless", "cloudless_facts.csv")):
        facts = {row["id"]: row for row in rows_of(folder, file)}
        for claim in published_claims(book):
            fact = facts.get(claim.id)
            if fact is None:
                yield claim.id, claim.statement, "no such fact"
            elif re.fullmatch(r"[<]?[0-9.-]+", fact["value"]) and claim.value:
                said = fact["value"].lstrip("<")
                same = said == claim.value or _number(said) == _number(claim.value)
                if not same or fact["unit"].replace("ratio", "x") != claim.unit:
                    yield claim.id, f"{claim.value} {claim.unit}", f"{said} {fact['unit']}"
            elif claim.value and not _same_placement(claim.value, fact["value"]):
                yield claim.id, claim.value, fact["value"]


def prices(folder: Path) -> Iterator[Difference]:
    """Compare table 1 and the spot prices of C-8."""
    facts = rows_of(folder, "erben_prices.csv")
    for place, ours in TABLE_1.items():
        provider = place.split("/", maxsplit=1)[0]
        name = {"gcp": "GC"}.get(provider, provider.upper())
        for kind, mine in zip(KINDS, ours, strict=True):
            said = next(
                float(row["value"])
                for row in facts
                if row["item"] == kind
                and row["provider"] == name
                and row["source"].startswith("Table 1")
            )
            if said != mine:
                yield f"table 1, {provider} {kind}", f"{mine:g}", f"{said:g}"
        if provider in SPOT_OF_C8:
            said_all = tuple(
                float(row["value"])
                for row in facts
                if (row["item"], row["provider"], row["date"]) == ("T4 spot", name, "12 May 2023")
            )
            if said_all != SPOT_OF_C8[provider]:
                yield f"C-8, {provider}", str(SPOT_OF_C8[provider]), str(said_all)


def links(folder: Path) -> Iterator[Difference]:
    """Compare the links of the book with tables 3 to 5."""
    ours = {(row.src, row.dst): row for row in load_catalog("erben-2023").links}
    for row in rows_of(folder, "erben_network.csv"):
        if not row["source"].startswith("Table") or row["src"] not in PLACES:
            continue
        found = ours.get((PLACES[row["src"]], PLACES[row["dst"]]))
        said = f"{float(row['gbps']):g} Gb/s, {float(row['rtt_ms']):g} ms"
        mine = f"{found.gbps_one_stream:g} Gb/s, {found.rtt_ms:g} ms" if found else "nothing"
        if said != mine:
            yield f"{row['source']}, {row['src']} to {row['dst']}", mine, said


def rates(folder: Path) -> Iterator[Difference]:
    """Compare single-machine rates of profiles with the runs that the paper used."""
    facts = rows_of(folder, "erben_baselines.csv")
    for short, model in MODELS.items():
        for rate in load_profile(model).rates:
            if rate.framework != "none" or rate.basis != "published":
                continue
            near = [
                row
                for row in facts
                if row["model"] == short and GPUS.get(row["gpu"]) == (rate.gpu, rate.gpu_count)
            ]
            said = [float(row["sps_mean_of_steps"]) for row in near]
            if said and not min(said) - 0.5 <= rate.value <= max(said) + 0.5:
                yield f"{model} on {rate.gpu_count} x {rate.gpu}", f"{rate.value:g}", str(said)


def speeds(folder: Path) -> Iterator[Difference]:
    """Compare the shipped runs and table 6 with the logs."""
    facts = [row for file in ("erben_dev.csv", "erben_dev_2.csv") for row in rows_of(folder, file)]
    said = {
        (row["exp"], MODELS[row["model"]]): row["sps"] for row in facts if row["tbs"] == "32768"
    }
    for run in published_runs("erben-2023"):
        if run.target_batch_size != 32_768:
            continue
        value = said.get((run.experiment, run.model), "nothing")
        if _number(value) != run.samples_per_second:
            yield f"{run.experiment} {run.model}", f"{run.samples_per_second:g}", value
    claims = {claim.id: claim.value for claim in published_claims("erben-2023")}
    for name, (experiment, model) in TABLE_6.items():
        value = said[experiment, MODELS[model]]
        if abs(float(value) - float(claims[name])) > 0.06:  # a digit after the point
            yield name, claims[name], value


def main() -> int:
    """Print what differs."""
    folder = Path(sys.argv[1])
    count = 0
    for compare in (claims_by_fact, prices, links, rates, speeds):
        found = list(compare(folder))
        count += len(found)
        print(f"{compare.__name__}: {len(found)} differ")
        for what, ours, said in found:
            print(f"  {what}: {ours}; the facts: {said}")
    return min(count, 1)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _same_placement(ours: str, said: str) -> bool:
    """Compare the words of two placements: VMs/function/store, city."""
    words = {"S3", "GCS", "Lambda", "GCF", "AWS", "GCP", "Mumbai", "London", "Oregon", "Sydney"}
    return {w for w in words if w in ours} == {w for w in words if w in said}


if __name__ == "__main__":
    sys.exit(main())

"""Measure what a question to a large book takes, cold from CSV and warm from the cache.

    python tests/benchmarks/market_size.py --regions 100 --types 500
    python tests/benchmarks/market_size.py --regions 1000 --types 500 --proof quick

A book is drawn: regions of one provider, and types of machines in two markets in each. CPU seconds
and peak memory of whole processes; the question is the main job with that book in place of the
default one.
"""

import argparse
import csv
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ledger import markdown
from markets import COUNTS, DEVICE_USD_PER_HOUR, HOST_USD_PER_HOUR

ASK = (sys.executable, "-m", "placer", "recommend", "--model", "roberta-xlm", "--budget", "5/h")
RUN = """
import resource, runpy, sys
sys.argv = sys.argv[1:]
try:
    runpy.run_module("placer", run_name="__main__", alter_sys=True)
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
"""
DATED = ("drawn around list prices", "2026-01-01")


def write_book(folder: Path, regions: int, types: int) -> None:
    """Write a book of so many regions, each with all types of machines in two markets."""
    draw = random.Random(f"{regions} {types}")
    tables: dict[str, tuple[str, list[tuple[object, ...]]]] = {
        "egress": (
            "provider,src,dst,above_gib_per_month,usd_per_gib",
            [("big", "*", end, 0, usd) for end, usd in EGRESS.items()],
        ),
        "regions": (
            "provider,region,display_name,city,country,continent,egress_zone,latitude_deg,"
            "longitude_deg",
            [
                ("big", f"r{n}", f"R {n}", f"C {n}", "US", "NA", "NA", *_point(draw))
                for n in range(regions)
            ],
        ),
    }
    for name, (head, rows) in tables.items():
        _write(folder / f"{name}.csv", head, rows)
    _write(folder / "offers.csv", OFFER, _offers(draw, regions, types))


def _offers(draw: random.Random, regions: int, types: int) -> Iterator[tuple[object, ...]]:
    kinds = [(gpu, n) for gpu in DEVICE_USD_PER_HOUR for n in COUNTS]
    for region in range(regions):
        level = draw.uniform(0.95, 1.35)
        for number in range(types):
            gpu, count = kinds[number % len(kinds)]
            machine = f"{gpu}-{count}-{number}".lower(), gpu, count, 8 * count, 64 * count
            usd = level * count * (DEVICE_USD_PER_HOUR[gpu] + HOST_USD_PER_HOUR)
            for market, low, high in (("on_demand", 0.9, 1.1), ("spot", 0.3, 0.6)):
                price = round(usd * draw.uniform(low, high), 4)
                yield "big", f"r{region}", *machine, market, price, "published", ""


EGRESS = {"*": 0.02, "intra_zone": 0.0, "inter_zone": 0.01, "internet": 0.09}
OFFER = (
    "provider,region,instance_type,gpu,gpu_count,vcpus,memory_gib,market,usd_per_hour,price_basis,"
    "available"
)


def _point(draw: random.Random) -> tuple[float, float]:
    return round(draw.uniform(-50, 65), 4), round(draw.uniform(-180, 180), 4)


def _write(path: Path, head: str, rows: Iterable[tuple[object, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow([*head.split(","), "source", "as_of"])
        writer.writerows((*row, *DATED) for row in rows)


def timed(words: list[str]) -> tuple[str, str, str]:
    """Ask in a process of its own; return CPU seconds, peak MiB and the first line or the error."""
    asked = [sys.executable, "-c", RUN, "placer", *ASK[3:], *words]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    *said, figures = ended.stderr.strip().splitlines()
    seconds, mib = map(float, figures.split())
    first = (ended.stdout.splitlines() or said or [""])[0]
    return f"{seconds:.2f}", f"{mib:.0f}", first.strip()


def main() -> None:
    """Write a book, ask it cold and warm, and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--regions", type=int, default=100)
    words.add_argument("--types", type=int, default=500)
    words.add_argument("--proof", default="full")
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLACER_HOME"] = f"{folder}/home"
        book = Path(folder) / "book"
        write_book(book, given.regions, given.types)
        size = (book / "offers.csv").stat().st_size / 2**20
        print(f"{2 * given.regions * given.types:,} offers, offers.csv of {size:.0f} MiB\n")
        asked = ["--catalog", str(book), "--proof", given.proof]
        rows = [[name, *timed(asked)] for name in ("cold, from CSV", "warm, from the cache")]
    print("\n".join(markdown(["", "CPU s", "peak MiB", "answer"], rows)))


if __name__ == "__main__":
    main()

"""Check how often intervals of spot prices hold: on pairs of price lists, and on drawn histories.

    python tests/benchmarks/spot_prices.py [--walks 20000]

Pairs: changes of log(price) between two dated lists (tests/market/spot_price_moves.csv), scaled to
30 days, by device and with each device or region left out. Histories: 30 days of hourly prices are
drawn, the 10 % and 90 % quantile of the first 30 days make the interval, and a price of the next 30
days is held or not.
"""

from __future__ import annotations

import argparse
import csv
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ledger import markdown

from placer.market.price_interval import MOVING

Array = npt.NDArray[Any]
PAIRS = Path(__file__).parent.parent / "market" / "spot_price_moves.csv"
DAYS, HOURS = 30, 720
Z = 1.2816
"""80 % of a normal law lie within so many standard deviations."""
SIGMA = 0.268
"""Root mean square of the changes of log(price) of H100 in 30 days."""


def pairs() -> list[tuple[str, str, float]]:
    """Device, region and change of log(price) of each pair, scaled to 30 days."""
    found = []
    with PAIRS.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            days = (date.fromisoformat(row["after"]) - date.fromisoformat(row["before"])).days
            change = math.log(float(row["usd_after"]) / float(row["usd_before"]))
            device = row["device"].split("-")[0]
            found.append((device, row["region"], change * math.sqrt(DAYS / days)))
    return found


def factor(changes: list[float]) -> float:
    """Factor within which 80 % of a normal law with this root mean square lie."""
    return math.exp(Z * math.sqrt(sum(x * x for x in changes) / len(changes)))


def judged() -> list[list[str]]:
    """Rows of the table of pairs: what is left out, the factor of the others, and what it holds."""
    known = pairs()
    rows: list[list[str]] = []
    for column in (0, 1):
        for name in sorted({str(row[column]) for row in known}):
            others: dict[str, list[float]] = {}
            for row in known:
                if row[column] != name:
                    others.setdefault(row[0], []).append(row[2])
            f = max(factor(changes) for changes in others.values())
            inside = [abs(row[2]) <= math.log(f) for row in known if row[column] == name]
            rows.append([name, f"x{f:.2f}", f"{sum(inside)} of {len(inside)}"])
    inside = [abs(change) <= math.log(MOVING.high) for _, _, change in known]
    return [*rows, ["nothing", f"x{MOVING.high:.2f}", f"{sum(inside)} of {len(inside)}"]]


def held(logs: Array, draw: np.random.Generator) -> tuple[float, float]:
    """Share of prices of the next 30 days inside the quantiles, and inside the wider interval."""
    past, later = logs[:, :HOURS], logs[:, HOURS:]
    now = past[:, -1]
    low = np.minimum(np.quantile(past, 0.1, axis=1), now)
    high = np.maximum(np.quantile(past, 0.9, axis=1), now)
    price = later[np.arange(len(logs)), draw.integers(0, HOURS, len(logs))]
    width, tiny = high - low, 1e-9
    plain = (price >= low - tiny) & (price <= high + tiny)
    wide = np.abs(price - now) <= width + tiny
    return float(plain.mean()), float(wide.mean())


def histories(walks: int) -> list[list[str]]:
    """Rows of the table of drawn histories."""
    draw = np.random.default_rng(0)
    steps = draw.normal(size=(walks, 2 * HOURS))
    laws = {"random walk": steps * SIGMA / math.sqrt(HOURS)}
    for jumps in (1, 3, 10):
        hit = draw.random(steps.shape) < jumps / HOURS
        laws[f"{jumps} jumps a month"] = steps * hit * SIGMA / math.sqrt(jumps)
    rows = []
    for name, moves in laws.items():
        plain, wide = held(np.cumsum(moves, axis=1), draw)
        rows.append([name, f"{100 * plain:.0f} %", f"{100 * wide:.0f} %"])
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--walks", type=int, default=20_000)
    walks = parser.parse_args().walks
    print("\n".join(markdown(["left out", "factor of the others", "held"], judged())), "\n")
    print("\n".join(markdown(["history", "quantiles alone", "as far again"], histories(walks))))


if __name__ == "__main__":
    main()

"""Compare the egress prices between AWS regions of the default book with AWS's own list.

python tests/benchmarks/aws_egress.py FILE    FILE has the columns from_region, to_region and
                                              price_usd_per_gb
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from pathlib import Path

from placer.market.books.book_reader import load_catalog
from placer.market.network.graph import Network


def main() -> int:
    """Print the pairs that differ; returns 1 if one does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    with parser.parse_args().file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    network = Network(load_catalog("default"))
    wrong: Counter[str] = Counter()
    for row in rows:
        src, dst, listed = row["from_region"], row["to_region"], float(row["price_usd_per_gb"])
        ours = network.egress_price(f"aws/{src}", f"aws/{dst}").usd_per_gib
        if abs(ours - listed) > 1e-9:
            wrong["too cheap" if ours < listed else "too dear"] += 1
            print(f"{src} to {dst}: {ours:g}, listed {listed:g}")
    print(
        f"{len(rows) - wrong.total():,} of {len(rows):,} pairs agree; "
        f"{wrong['too cheap']} too cheap, {wrong['too dear']} too dear"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

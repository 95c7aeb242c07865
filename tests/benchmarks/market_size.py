"""Measure seconds and memory at the size of a whole market: 40,000 offers in 100 regions.

    python tests/benchmarks/market_size.py

Imports a synthetic market from SkyPilot's format, loads it cold (CSV) and warm (cache), and asks
for a recommendation. CPU seconds; only ratios within one run compare between machines.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from market_40000 import write_book, write_skypilot

LOAD = """
import time
from placer.book import load_catalog
start = time.process_time()
book = load_catalog({names!r})
print(len(book.offers), time.process_time() - start)
"""


def main() -> None:
    """Print one line for each step."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLACER_HOME"] = f"{folder}/home"
        write_skypilot(Path(folder) / "v8")
        write_book(Path(folder) / "book")
        placer = [sys.executable, "-m", "placer"]
        timed(
            "import of SkyPilot's files",
            [*placer, "catalog", "import", "skypilot", f"{folder}/v8", "--as", "market"],
        )
        for words in ("cold, from CSV", "warm, from the cache"):
            load = [sys.executable, "-c", LOAD.format(names=[f"{folder}/book"])]
            offers, seconds = subprocess.run(
                load, check=True, capture_output=True, text=True
            ).stdout.split()
            print(f"load {int(offers):,} offers, {words}: {float(seconds):.3f} s CPU")
        ask = [*placer, "recommend", "--model", "roberta-xlm", "--budget", "5/h", "--catalog"]
        timed("recommend on that book", [*ask, f"{folder}/book"])
        timed("recommend on the default book", [*ask, "default"])
        timed("recommend on both, one over the other", [*ask, "default", "--catalog", "market"])


def timed(words: str, command: list[str]) -> None:
    """Run a command and print its CPU seconds; the memory is the peak of all children so far."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{words}: {seconds:.2f} s CPU, peak {after.ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()

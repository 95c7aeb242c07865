"""Kill commands that write at random moments, and look at what is lost or left.

``python tests/benchmarks/kill_nine.py [--kills 200] [--seed 0]``; under a second a kill. After each
kill the file or folder is whole, the old or the new one (the file of a sweep may have a torn last
line); after one more run to the end nothing lies beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ASKED = ("--model", "roberta-xlm", "--catalog", "erben-2023", "--gpu", "T4", "--budget", "2/h")
COMMANDS = {
    "recommend": ("recommend", *ASKED, "-o", "result.json", "--manifest", "plan.json"),
    "pareto": ("pareto", *ASKED[:6], "-o", "front.json"),
    "export": ("export", "plan.json", "--to", "torchrun", "--dir", "launch"),
    "sweep": ("sweep", *ASKED[:6], "--over", "budget=1/h..3/h:3", "-o", "points.jsonl"),
}


def main() -> None:
    """Kill, look, and print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    draw = random.Random(words.seed)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        seconds = {name: _to_the_end(folder, name) for name in COMMANDS}
        there = sorted(entry.name for entry in folder.iterdir())
        for name in COMMANDS:
            count = words.kills // len(COMMANDS)
            faults = sum(
                _killed(folder, name, draw.uniform(0, seconds[name])) for _ in range(count)
            )
            _to_the_end(folder, name)
            left = sorted({entry.name for entry in folder.iterdir()} - set(there))
            print(f"{name}: {count} kills, {faults} files not whole, left: {left or 'nothing'}")


def _to_the_end(folder: Path, name: str) -> float:
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "placer", *COMMANDS[name]],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    return time.monotonic() - began


def _killed(folder: Path, name: str, after_s: float) -> bool:
    """Kill a command after some seconds; return whether a document is not whole or is gone."""
    with subprocess.Popen(
        [sys.executable, "-m", "placer", *COMMANDS[name]],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        time.sleep(after_s)
        process.kill()
    try:
        for file in ("result.json", "plan.json", "front.json", "launch/manifest.json"):
            json.loads((folder / file).read_bytes())
    except (OSError, ValueError):
        return True
    return not (folder / "points.jsonl").is_file()


if __name__ == "__main__":
    main()

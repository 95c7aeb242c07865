"""Kill every command that writes at random moments, and look at what is lost or left.

    python tests/benchmarks/kill_nine.py --kills 220
    python tests/benchmarks/kill_nine.py --kills 20 --only run,export

Half of the kills come in the last fifth of a command's time, where files are written. After each
kill every file is whole, the old or the new one (of a file that grows by lines the last may be
torn), and no process of the command outlives it by `ENDING_S`. After one more run to the end
nothing lies in the folder, in the home of placer or in the temporary folder that did not lie there
before. What a run sets aside by design (``run.jsonl.1``) does not count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from placer.files.whole_files import MARK
from placer.market.books.cache import MARK_BYTES

ROOT = Path(__file__).resolve().parents[2]
ENDING_S = 20.0
"""Time of the children of a killed command to end."""
FINE = (0, 6)
"""Exit codes of a command that came to its end; 6: a rehearsal on a busy machine."""
ASIDE = re.compile(r"\.[0-9]+(/|$)")
"""In the path of a log or of checkpoints that a later run set aside."""
VERSION = re.compile(r"@[0-9a-z_]+")
"""Random part of the name of a book's folder."""
KEPT = 2
"""Folders of a book: the present one and the one before."""
LATE = 0.8
"""Share of its time after which a command mostly writes."""
FEW = "--model roberta-xlm --catalog erben-2023 --gpu T4"
ASKED = f"{FEW} --budget 2/h"
TRAINED = "run two.json --train run_plans:tiny --local --tbs 8 --microbatch 2 -o trained"


@dataclass(frozen=True, kw_only=True)
class Writer:
    """A command that writes.

    Notes
    -----
    ``again`` is the command after the kills, where it is another one; ``fresh`` what is removed
    before each start, since a second run would leave it as it is; ``share`` its part of all kills.
    """

    words: str
    again: str = ""
    fresh: str = ""
    share: float = 1.0


WRITERS = {
    "recommend": Writer(words=f"recommend {ASKED} -o result.json --manifest plan.json"),
    "certificate": Writer(words=f"recommend {ASKED} --certificate -o whole.json"),
    "milp": Writer(
        words=f"recommend {ASKED} --in gcp/us-west1 --workers 1..2 --exchange all-reduce "
        "--solver milp -o milp.json"
    ),
    "estimate": Writer(
        words="estimate --model roberta-xlm --catalog erben-2023 --workers gcp/us-west1=2xT4:spot "
        "--manifest two.json"
    ),
    "pareto": Writer(words=f"pareto {FEW} --points 3 -o front.json --csv front.csv"),
    "explain": Writer(words="explain result.json -o explained.json"),
    "sweep": Writer(
        words=f"whatif {FEW} --over budget=1/h..3/h:3 -o points.jsonl", fresh="points.jsonl"
    ),
    "merge": Writer(words="whatif --merge points.jsonl -o merged.jsonl"),
    "export": Writer(words="export plan.json --to torchrun --dir launch", share=2),
    "calibrate": Writer(words="profile runs runs.csv --catalog erben-2023 -o calibration.json"),
    "catalog export": Writer(words="catalog export skypilot sky --force"),
    "catalog import": Writer(words="catalog import csv quote.csv --kind offers --as quote"),
    "network import": Writer(
        words="network import iperf3 one.json --from gcp/us-west1 --to aws/us-east-1 --as wire"
    ),
    "pin": Writer(words="catalog pin default"),
    "cache": Writer(words="offers --gpu T4", fresh="home/cache"),
    "run": Writer(
        words=f"{TRAINED} --steps 6 --checkpoint-every 2",
        again=f"{TRAINED} --steps 12 --checkpoint-every 2 --resume-if-any",
    ),
    "replan": Writer(words="whatif two.json --observed trained/run.jsonl -m again.json"),
    "rehearse": Writer(
        words="run --rehearse two.json --rounds 3 --scale 1/2000 --dir rehearsal -o rehearsed.json",
        share=0.7,
    ),
    "profile": Writer(
        words="profile run_plans:tiny --batch-sizes 1 --steps 1 --threads 1 -o tiny.json",
        share=0.7,
    ),
}
"""All commands that write a file of the user, a book or a cache, with small questions. ``catalog
refresh`` writes books as the imports do, ``profile exchange`` as calibrate.
"""


def main() -> int:
    """Kill, look, and print a row for each command; exit code 1 if anything was lost or left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=220, help="of all commands together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of commands, with commas")
    given = parser.parse_args()
    draw, chosen = random.Random(given.seed), given.only.split(",") if given.only else [*WRITERS]
    shares = sum(WRITERS[name].share for name in chosen)
    total = wrong = 0
    with tempfile.TemporaryDirectory() as made:
        place = Place(Path(made))
        seconds = {name: place.to_the_end(writer.words) for name, writer in WRITERS.items()}
        place.known = place.names()
        place.wanted = {name for name in place.files() if not is_changing(name)}
        for name in chosen:
            writer = WRITERS[name]
            count = max(1, round(given.kills * writer.share / shares))
            faults = [
                fault for _ in range(count) for fault in place.killed(writer, seconds[name], draw)
            ]
            place.to_the_end(writer.again or writer.words)
            left = sorted(place.names() - place.known)
            total, wrong = total + count, wrong + len(faults) + len(left)
            print(
                f"{name}: {count} kills in up to {seconds[name]:.1f} s, "
                f"wrong: {'; '.join(faults) or 'nothing'}, left: {', '.join(left) or 'nothing'}",
                flush=True,
            )
    print(f"{total} kills of {len(chosen)} commands, {wrong} faults")
    return 1 if wrong else 0


class Place:
    """A folder for the commands, with placer's home and the temporary folder in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "TMPDIR": str(folder / "tmp"),
            "PLACER_HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}",
            "PLACER_KILLED_IN": str(folder),
        }
        (folder / "tmp").mkdir()
        for file in ("examples/runs.csv", "examples/quote.csv", "tests/fixtures/links/one.json"):
            shutil.copy(ROOT / file, folder)
        self.known: set[str] = set()
        self.wanted: set[str] = set()

    def to_the_end(self, words: str) -> float:
        """Run a command and return the seconds."""
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "placer", *words.split()],
            cwd=self.folder,
            env=self.environment,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode not in FINE:
            raise SystemExit(f"placer {words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return time.monotonic() - began

    def killed(self, writer: Writer, lasts_s: float, draw: random.Random) -> Iterator[str]:
        """Kill a command at some moment; yield what is wrong."""
        for path in self.folder.rglob("*"):
            if ASIDE.search(path.name) and path.with_suffix("").exists():
                removed(path)
        if writer.fresh:
            removed(self.folder / writer.fresh)
        after_s = draw.uniform(LATE * lasts_s if draw.random() < 0.5 else 0.0, lasts_s)
        with subprocess.Popen(
            [sys.executable, "-m", "placer", *writer.words.split()],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(after_s)
            except subprocess.TimeoutExpired:
                process.kill()
        yield from self.alive()
        yield from self.lost()
        for name in self.files():
            if not is_temporary(name) and not is_whole(self.folder / name):
                yield f"{name} is not whole"

    def alive(self) -> Iterator[str]:
        """Yield the processes of a killed command that do not end, and end them."""
        until = time.monotonic() + ENDING_S
        while (alive := self.processes()) and time.monotonic() < until:
            time.sleep(0.1)
        for pid in alive:
            yield f"process {pid} lives"
            os.kill(pid, signal.SIGKILL)

    def lost(self) -> Iterator[str]:
        """Yield what was there before and is not; a log may have been set aside."""
        files = self.files()
        for name in self.wanted.difference(files):
            yield f"{name} is lost"
        for part in ("trained", "rehearsal"):
            if not any(name.startswith(f"{part}/run.jsonl") for name in files):
                yield f"{part}/run.jsonl is lost"

    def processes(self) -> list[int]:
        """List the processes that the commands started, by a variable that they inherit."""
        mark, found = f"PLACER_KILLED_IN={self.folder}".encode(), []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def files(self) -> list[str]:
        """List all files; those of a book by its name, which is a link."""
        catalogs = self.folder / "home" / "catalogs"
        roots = (self.folder, *(path for path in catalogs.glob("*") if path.is_symlink()))
        files = (path for root in roots for path in root.rglob("*") if path.is_file())
        return [str(path.relative_to(self.folder)) for path in files]

    def names(self) -> set[str]:
        """Return all files and folders but those of runs that were set aside and of steps; versions
        of a book, of which two are kept, without their random names.
        """
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")}
        kept = {name for name in found if not ASIDE.search(name) and "/step-" not in name}
        versions = Counter(re.sub(VERSION, "@", name) for name in kept if "@" in name)
        many = {f"{count} x {name}" for name, count in versions.items() if count > KEPT}
        return {name for name in kept if "@" not in name} | many


def removed(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Return whether a path is of a file that is being written, or of the folder of a book, which
    counts by its link.
    """
    return MARK in name or "@" in name or name.startswith("tmp/")


def is_changing(name: str) -> bool:
    """Return whether a file may be gone after a kill: temporary ones, logs and checkpoints that the
    next run sets aside, and what is removed here.
    """
    return is_temporary(name) or name.startswith(
        ("trained/", "rehearsal/", "home/cache/", "points.jsonl")
    )


def is_whole(path: Path) -> bool:
    """Return whether a file can be read to its end."""
    data = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(data)
        elif ".jsonl" in path.name:
            for line in data.split(b"\n")[:-1]:
                json.loads(line)
        elif path.suffix == ".pt":
            torch.load(path, weights_only=True)
        elif path.suffix == ".msgpack":
            return hashlib.sha256(data[:-MARK_BYTES]).digest() == data[-MARK_BYTES:]
        elif path.suffix in (".csv", ".sh", ".md", ".py"):
            return data.endswith(b"\n")
    except (ValueError, RuntimeError, EOFError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())

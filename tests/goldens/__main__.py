"""Compare frozen outputs with those of this checkout, or accept these."""

import argparse
import difflib
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest.mock import patch

from conftest import ROOT
from goldens import PATHS
from goldens.commands import CLOCK
from goldens.measures import cpu
from goldens.outputs import goldens, made

FROZEN = Path(__file__).parent / "frozen"
CPU = "cpu.txt"
"""Measured alone, and compared within a tolerance."""
MOST_LINES = 40
MOST_CHARACTERS = 200


def frozen(folder: Path) -> dict[str, str]:
    """Read what is frozen, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in files}


def chosen(names: Sequence[str], beginnings: Sequence[str]) -> list[str]:
    """Return the names that begin with one of the words; without words all.

    Raises
    ------
    SystemExit
        If a word begins no name.
    """
    for word in beginnings:
        if not any(name.startswith(word) for name in names):
            raise SystemExit(f"error: no golden begins with '{word}'")
    return [name for name in names if name.startswith(tuple(beginnings) or "")]


def fresh(names: Sequence[str], processes: int) -> dict[str, str]:
    """Make outputs anew, several at a time, in processes whose clocks stand still."""
    paths = os.pathsep.join(map(str, [CLOCK, *(ROOT / name for name in PATHS)]))
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="goldens-") as home,
        patch.dict(os.environ, TMPDIR=home, PYTHONPATH=paths),
        ProcessPoolExecutor(processes, mp_context=context) as pool,
    ):
        return dict(zip(names, pool.map(made, names), strict=True))


def difference(name: str, before: str, now: str) -> list[str]:
    """Return a unified diff, shortened."""
    sides = before.splitlines(), now.splitlines()
    rows = [
        row[:MOST_CHARACTERS] + ("..." if len(row) > MOST_CHARACTERS else "")
        for row in difflib.unified_diff(*sides, f"frozen/{name}", f"now/{name}", n=1, lineterm="")
    ]
    more = len(rows) - MOST_LINES
    return [*rows[:MOST_LINES], *([f"... {more} more lines"] if more > 0 else [])]


def compared(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the differences by name, also of what is only frozen or only made now."""
    pairs = ((name, before.get(name, ""), now.get(name, "")) for name in {**before, **now})
    return {name: difference(name, *texts) for name, *texts in pairs if texts[0] != texts[1]}


def accept(folder: Path, names: Sequence[str], now: Mapping[str, str]) -> None:
    """Freeze outputs as they are now; those that are made no more go."""
    for name in names:
        file = folder / name
        if name in now:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(now[name], encoding="utf-8")
        else:
            file.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare or accept; return the exit code."""
    words = argparse.ArgumentParser(prog="goldens", description=__doc__)
    words.add_argument("names", nargs="*", help="how names begin, such as screens or help/pareto")
    words.add_argument("--accept", action="store_true", help="freeze them as they are now")
    words.add_argument("--folder", type=Path, default=FROZEN, help="of the frozen outputs")
    words.add_argument("--processes", type=int, default=2)
    given = words.parse_args(arguments)
    began = time.monotonic()
    before = frozen(given.folder)
    names = chosen([*dict.fromkeys([*goldens(), CPU, *before])], given.names)
    now = fresh([name for name in names if name in goldens()], given.processes)
    if CPU in names:
        now[CPU] = cpu("" if given.accept else before.get(CPU, ""))
    found = compared({name: before[name] for name in names if name in before}, now)
    if given.accept:
        accept(given.folder, [*found], now)
    for lines in () if given.accept else found.values():
        print(*lines, sep="\n")
    did = "accepted" if given.accept else "differ"
    print(f"{len(names)} goldens, {len(found)} {did}, {time.monotonic() - began:.0f} s")
    return int(bool(found) and not given.accept)


if __name__ == "__main__":
    sys.exit(main())

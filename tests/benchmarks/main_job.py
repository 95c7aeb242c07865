"""Measure the CPU of whole processes: the main job of the README and its neighbours, in one run.

    python tests/benchmarks/main_job.py
    python tests/benchmarks/main_job.py --runs 9 --checkout ../other
    python tests/benchmarks/main_job.py --write
    python tests/benchmarks/main_job.py --large

Prints the median CPU (user and system) of each command, its least, and the ratio of its median to
that of `import numpy`, which the same machine does at the same time. Byte code is warm: every
command runs once before it is measured. Commands take turns, so that a busy minute falls on all of
them. `--write` records the measurements in `main_job.jsonl` and writes the table of
`docs/manual/accuracy.md` from them. `--large` asks about the largest language models instead, and
prints the CPU of each question, once, with the value and the gap of its answer.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ledger import ROOT, Ledger, Record, children_cpu_s, markdown, origin, read

FILE = Path(__file__).with_suffix(".jsonl")
PAGE = ROOT / "docs" / "manual" / "accuracy.md"
BEGIN, END = "<!-- begin: main_job.py -->", "<!-- end: main_job.py -->"
"""Marks of a page around what this script writes."""
PLACER = (sys.executable, "-m", "placer")
MAIN = (*PLACER, "recommend", "--model", "roberta-xlm", "--budget", "5/h")
LARGE = (*PLACER, "recommend", "--model", "llama-3.1-8b", "--tokens", "10B", "--budget", "100/h")
COMMANDS = {
    "import numpy": (sys.executable, "-c", "import numpy"),
    "placer --help": (*PLACER, "--help"),
    "main job, no cache": MAIN,
    "main job": MAIN,
    "llama-3.1-8b, 100 USD/h": LARGE,
}
LARGEST = ("deepseek-v3", "qwen3-235b-a22b", "llama-3.1-405b", "gpt-oss-120b", "mixtral-8x7b")
BUDGETS = ("500/h", "5000/h")
"""What `--large` asks about, and within which budgets; 10B tokens each."""
COLD = "main job, no cache"
"""Runs with a cache that nothing was written to before."""


def cpu_seconds(command: tuple[str, ...], checkout: Path, home: str) -> float:
    """Run a command and return the CPU seconds of its process.

    Raises subprocess.CalledProcessError if it fails.
    """
    return run(command, checkout, home)[0]


def run(command: tuple[str, ...], checkout: Path, home: str) -> tuple[float, bytes]:
    """Run a command and return the CPU seconds of its process, and what it prints.

    Raises subprocess.CalledProcessError if it fails.
    """
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PLACER_HOME": home}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = children_cpu_s()
    ended = subprocess.run(command, cwd=checkout, env=environment, check=True, capture_output=True)
    return children_cpu_s() - before, ended.stdout


def measured(runs: int, checkout: Path) -> list[Record]:
    """Run all commands in turn; return the CPU seconds of each."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as warm:
        for run in range(runs + 1):
            for name, command in COMMANDS.items():
                with tempfile.TemporaryDirectory() as cold:
                    took = cpu_seconds(command, checkout, cold if name == COLD else warm)
                if run:
                    seconds[name].append(round(took, 3))
    return [{"kind": "command", "name": name, "cpu_s": each} for name, each in seconds.items()]


def table(records: Sequence[Record]) -> list[str]:
    """Return a line for each command: median, least, and the ratio of the medians."""
    seconds = {r["name"]: r["cpu_s"] for r in records if r["kind"] == "command"}
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    unit = medians["import numpy"]
    rows = [
        (name, medians[name], min(each), f"{medians[name] / unit:.1f}")
        for name, each in seconds.items()
    ]
    return markdown(("command", "CPU s, median", "least", "times `import numpy`"), rows)


def largest(checkout: Path) -> list[str]:
    """Ask about the largest models; return a line for each question, as it is answered cold."""
    rows = []
    for model in LARGEST:
        for budget in BUDGETS:
            asked = ("recommend", "--model", model, "--tokens", "10B", "--budget", budget, "--json")
            with tempfile.TemporaryDirectory() as home:
                unit = cpu_seconds(COMMANDS["import numpy"], checkout, home)
                took, printed = run((*PLACER, *asked), checkout, home)
            answer = json.loads(printed)
            value, gap = (answer["objective"][key] for key in ("value", "gap"))
            status = answer["status"]
            rows.append((model, budget, f"{took:.1f}", f"{took / unit:.0f}", value, status, gap))
    head = ("model", "budget", "CPU s", "times `import numpy`", "samples/s", "status", "gap")
    return markdown(head, rows)


def page(former: str, path: Path = FILE) -> str:
    """Replace what stands between the marks of a page by the recorded measurements."""
    run, records = read(path)
    before, rest = former.split(BEGIN)
    _, after = rest.split(END)
    lines = [BEGIN, "", *table(records), "", *origin(run, records), "", END]
    return before + "\n".join(lines) + after


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--runs", type=int, default=5, help="of each command")
    code = words.add_mutually_exclusive_group()
    code.add_argument("--checkout", type=Path, default=ROOT, help="whose code is measured")
    code.add_argument("--write", action="store_true", help="keep the figures, write the page")
    words.add_argument("--large", action="store_true", help="ask about the largest models instead")
    given = words.parse_args()
    if given.large:
        print("\n".join(largest(given.checkout.resolve())))
        return
    log = Ledger(FILE, runs=given.runs) if given.write else None
    records = measured(given.runs, given.checkout.resolve())
    print("\n".join(table(records)))
    if log is not None:
        for record in records:
            log.write(record)
        log.close()
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

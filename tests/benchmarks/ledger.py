"""The files that the benchmarks write: JSON lines, one a measurement.

The first line says where, when and with which code they were measured.
"""

import hashlib
import json
import math
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from placer.problem.problem import Problem
from placer.workload.constants import ServiceConstants

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench"
"""Where measurements go unless another file is named; git ignores it."""
Record = dict[str, Any]


class Ledger:
    """A file of JSON lines that is complete up to the last measurement, also after Ctrl-C.

    ``path``: file that is written anew. ``settings``: what the run was asked for: it stands in the
    first line.
    """

    def __init__(self, path: Path, **settings: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        path.write_text("", encoding="utf-8")
        self.write({"kind": "run", **where(), "settings": settings})

    def write(self, record: Record) -> None:
        """Add one line."""
        with self.path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(record) + "\n")

    def close(self) -> None:
        """Say that the run came to its end."""
        self.write({"kind": "end", "ended": now()})


def where() -> Record:
    """Machine, date, commit and command of this run."""
    return {
        "machine": (
            f"{processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
        ),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "started": now(),
        "commit": commit(),
        "command": shlex.join(["python", *(_short(word) for word in sys.argv)]),
    }


def now() -> str:
    """Date and time, UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


WRITTEN = (
    "tests/benchmarks/frozen.csv",
    "tests/benchmarks/main_job.jsonl",
    "docs/benchmarks",
    "docs/manual/accuracy.md",
)
"""What the benchmarks themselves write does not make the code another one."""


def commit() -> str:
    """Commit of the code, with ``-dirty`` where other files than the benchmarks' own results differ
    from it.
    """
    head = _git("rev-parse", "--short=10", "HEAD")
    changed = _git(
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        ".",
        *(f":!{name}" for name in WRITTEN),
    )
    return f"{head}-dirty" if head and changed else head or "unknown"


def _git(*words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def processor() -> str:
    """Name of the processor as Linux has it, else as Python has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
        platform.processor() or "unknown",
    )


def _short(word: str) -> str:
    return (
        str(Path(word).resolve().relative_to(ROOT))
        if Path(word).is_absolute() and Path(word).resolve().is_relative_to(ROOT)
        else word
    )


def read(path: Path) -> tuple[Record, list[Record]]:
    """First line and measurements of a ledger; a last line that was cut off is left out.

    Raises SystemExit if there is no such file, or it is no ledger.
    """
    if not path.exists():
        raise SystemExit(
            f"error: no measurements in '{path}'\n  tip: run the benchmark that writes it first, "
            f"such as make bench"
        )
    found = list(_documents(path.read_text(encoding="utf-8").splitlines()))
    if not found or found[0].get("kind") != "run":
        raise SystemExit(
            f"error: '{path}' does not start with the line of a run\n  tip: run the benchmark that "
            f"writes it again"
        )
    return found[0], found[1:]


def origin(run: Record, records: Sequence[Record]) -> list[str]:
    """Name command, machine, date and commit of a run, and whether it was cut off."""
    settings = ", ".join(
        f"{name} {value}" for name, value in run["settings"].items() if value is not None
    )
    ended = any(record["kind"] == "end" for record in records)
    cut = "" if ended else " **The run was cut off: what is there is shown.**"
    load = f"load {run['load']:.1f} at its start"
    return [
        (
            f"`{run['command']}` ({settings}); {run['machine']}, {load}, Python {run['python']}; "
            f"{run['started']}, commit {run['commit']}.{cut}"
        )
    ]


def _documents(lines: Iterable[str]) -> Iterator[Record]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that at least this share of all values does not exceed.

    >>> percentile([3.0, 1.0, 2.0, 4.0], 0.5), percentile([3.0, 1.0, 2.0, 4.0], 0.95)
    (2.0, 4.0)
    """
    ranked = sorted(values)
    return ranked[max(1, math.ceil(share * len(ranked) - 1e-9)) - 1] if ranked else math.nan


def markdown(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    r"""Lines of a table: the first column to the left, the others to the right.

    Examples
    --------
    >>> print("\n".join(markdown(["what", "s"], [["a", 1.0], ["b", float("nan")]])))
    | what | s |
    |---|---:|
    | a | 1.00 |
    | b | - |
    """
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return lines + [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]


def _cell(value: object) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        return (
            f"{value:.3f}"
            if 0 < abs(value) < 0.1
            else f"{value:,.2f}"
            if abs(value) < 100
            else f"{value:,.0f}"
        )
    return "-" if value is None else str(value)


def peak_mib() -> float:
    """Most memory that this process ever held, in MiB."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def children_cpu_s() -> float:
    """CPU seconds of all children that ended, theirs included."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def problem_digest(problem: Problem) -> str:
    """Digest of everything that the answer depends on beside placer's formulas: it tells whether
    two runs had the same instance.

    Of the wishes and the times of services only those that differ from their defaults count, so a
    new one with a default does not change old instances. The name and the digest of the book do not
    count, its rows do, but for those of capacity: they change what is said of risk, and no answer.
    """
    document = problem.to_dict()
    plain = type(problem.requirements)()
    given = {
        name
        for name in plain.__struct_fields__
        if getattr(problem.requirements, name) != getattr(plain, name)
    }
    document["requirements"] = {
        name: value for name, value in document["requirements"].items() if name in given
    }
    if problem.calibration.services == ServiceConstants(server_sum_bytes_per_s=None):
        document["calibration"].pop("services")
        document["calibration"].pop("ring_kappa")
    for name in ("name", "digest", "capacity"):
        document["catalog"].pop(name, None)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]

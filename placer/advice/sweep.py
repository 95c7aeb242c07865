"""A sweep: one solve for each point of one to three ranges, kept in a file of points."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from placer.advice.runner.runner import Runner, answers, here, interrupts, stopping
from placer.advice.worlds.whatif import apply, figures_of, set_wish
from placer.documents.schemas.worlds import SweepHeader, SweepRow
from placer.errors import PlacerError, writing_hint
from placer.files.bounded_file import MOST_LINES_BYTES, read_file
from placer.files.json_text import parse_json
from placer.problem.problem import Problem
from placer.problem.words.changes import parse_changes
from placer.problem.words.wishes import CHANGES
from placer.report.shown import Shown
from placer.report.stretches import breakpoints
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import load_solver, require_pools, solve
from placer.units import parse_count
from placer.version import __version__

if TYPE_CHECKING:
    import pandas as pd

STEPS = 5
"""Points of a range that does not say how many."""
MOST_AXES = 3
MOST_POINTS = 100_000
"""More points are a slip of the keyboard."""
WHOLE = ("quota", *(word for word, wish in CHANGES.items() if wish.whole))
"""What is changed by whole numbers."""
_NUMBER = (
    r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})"
    r"(?:[eE][+-]?[0-9]{1,2})?(?![0-9]|[eE][+-]?[0-9])"
)
_RANGE = re.compile(
    rf"(?P<times>[xX]?)(?P<low>{_NUMBER})(?P<unit>[^.:]*)\.\.(?P<again>[xX]?)(?P<high>{_NUMBER})(?P<last>[^.:]*)(?::(?P<log>log)?\s*(?P<steps>[0-9]{{1,6}})?)?"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """What is varied, and the words of ``--set`` for each of its values, in order."""

    what: str
    words: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Read ``WHAT=LOW..HIGH``, with ``:STEPS`` or ``:log STEPS`` behind it, or ``WHAT=a,b,c``.

    >>> parse_axis("budget=2/h..8/h:3").words
    ('budget=2/h', 'budget=5/h', 'budget=8/h')
    >>> parse_axis("price:gcp/*:T4=x0.5..2:log 3").words
    ('price:gcp/*:T4=x0.5', 'price:gcp/*:T4=x1', 'price:gcp/*:T4=x2')
    """
    if not isinstance(text, str) or not text.strip():
        raise PlacerError(
            f"over {text!r} is not a range", "write WHAT=LOW..HIGH, such as budget=2/h..20/h:7"
        )
    what, sign, values = (part.strip() for part in text.partition("="))
    if not sign or not values:
        raise PlacerError(
            f"over '{text}' gives no values",
            f"write {what or 'WHAT'}=LOW..HIGH or {what or 'WHAT'}=a,b,c",
        )
    listed = [value.strip() for value in values.split(",") if value.strip()]
    spread = _spread(what, values, text) if ".." in values else listed
    words = tuple(dict.fromkeys(f"{what}={value}" for value in spread))
    parse_changes(words)
    return Axis(what=what, words=words)


def points_of(axes: Sequence[Axis]) -> list[tuple[str, ...]]:
    """Return every combination of the values of one to three axes, the last one fastest."""
    names = [axis.what for axis in axes]
    if not 1 <= len(axes) <= MOST_AXES:
        raise PlacerError(
            f"{len(axes)} ranges", f"give --over WHAT=LOW..HIGH one to {MOST_AXES} times"
        )
    if len(set(names)) < len(names):
        raise PlacerError(
            f"two ranges for {next(name for name in names if names.count(name) > 1)}",
            "give one range for each",
        )
    size = math.prod(len(axis.words) for axis in axes)
    if size > MOST_POINTS:
        raise PlacerError(f"{size:,} points", f"at most {MOST_POINTS:,}: take fewer steps")
    return list(product(*(axis.words for axis in axes)))


def parse_shard(text: str | None) -> tuple[int, int]:
    """Read ``i/n``: every n-th point from the i-th on; None is all of them.

    >>> parse_shard("2/3"), parse_shard(None)
    ((2, 3), (1, 1))
    """
    if text is None:
        return 1, 1
    match = re.fullmatch(r"\s*([0-9]{1,5})\s*/\s*([0-9]{1,5})\s*", str(text))
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise PlacerError(f"shard '{text}' is not one of so many", "write it as 1/4, 2/4, 3/4, 4/4")
    return int(match[1]), int(match[2])


def _spread(what: str, values: str, text: str) -> Iterable[str]:
    """Return the values between two ends, as words."""
    match = _RANGE.fullmatch(values)
    if match is None or (match["log"] and not match["steps"]) or values.endswith(":"):
        raise PlacerError(
            f"over '{text}' is not a range",
            f"write {what}=LOW..HIGH:STEPS or {what}=LOW..HIGH:log STEPS",
        )
    units = [match["unit"].strip(), match["last"].strip()]
    if units[0] and units[1] and units[0] != units[1]:
        raise PlacerError(
            f"over '{text}': the ends are in {units[0]} and {units[1]}", "give both in one unit"
        )
    unit, steps = units[0] or units[1], int(match["steps"] or STEPS)
    times = "x" if match["times"] or match["again"] else ""
    whole = what.partition(":")[0] in WHOLE and not times
    if whole:
        low, high = (
            float(parse_count(f"{match[end]}{unit}", what)) if float(match[end]) else 0.0
            for end in ("low", "high")
        )
        unit = ""
    else:
        low, high = float(match["low"]), float(match["high"])
    if steps < 2 or high <= low:
        raise PlacerError(
            f"over '{text}' goes from {match['low']} to {match['high']} in {steps}",
            "give the lower end first, and two steps or more",
        )
    if match["log"] and low <= 0:
        raise PlacerError(f"over '{text}': a logarithmic range starts above 0", "leave out log")
    if steps > MOST_POINTS:
        raise PlacerError(f"{steps:,} points", f"at most {MOST_POINTS:,}: take fewer steps")
    shares = [step / (steps - 1) for step in range(steps)]
    between = [
        low * (high / low) ** share if match["log"] else low + share * (high - low)
        for share in shares
    ]
    if whole:
        return [str(round(value)) for value in between]
    return [f"{times}{value:{'+' if unit == '%' else ''}.6g}{unit}" for value in between]


PLACED = (
    "exchange",
    "local_steps",
    "regions",
    "samples_per_second",
    "usd_per_hour",
    "egress_usd_per_hour",
    "usd_per_million_samples",
)
"""What every answer with workers has."""
TOKENS = ("effective_tokens_per_second", "usd_per_billion_tokens")
"""What every answer of a language model has too."""
LARGEST = 1e30
"""No figure of an answer is larger; far below the largest number, so that sums stay finite."""
POINTS_SCHEMA = "placer.sweep-points/v1"
"""Schema of the header line."""
EDITED = "one of them was edited, or stopped by the time limit; delete it"
AGAIN = "delete the line; its point is solved again"
WROTE = "give a file that 'placer whatif --over -o' wrote"
ANOTHER = "give another file, or ask the question that it was made with"


def row_fault(row: Mapping[str, Any], header: Mapping[str, Any]) -> str:
    """Say what is wrong with the line of a point below a right header; empty: nothing."""
    fault = _fault(row, SweepRow)
    if fault:
        return fault
    tokens = TOKENS if any(name in row for name in TOKENS) else ()
    lacking = [name for name in (*PLACED, *tokens) if name not in row]
    if "workers" in row and lacking:
        return f"an answer without {lacking[0]}"
    if not 0 <= row["point"] < header["points"]:
        return f"point {row['point']} of {header['points']}"
    words = _words(row["point"], header)
    if row["set"] != words or row["key"] != " ".join(words):
        return f"point {row['point']} is {' '.join(words)}, not {row['key'][:80]}"
    for name, value in row.items():
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            return f"{name} is beyond {LARGEST:.0e}, which no answer has"
    return ""


def _fault(row: Mapping[str, Any], kind: type[msgspec.Struct]) -> str:
    """Say which value is missing or of another type."""
    try:
        msgspec.convert(row, kind, strict=True)
    except (msgspec.ValidationError, OverflowError) as error:
        return str(error)
    return ""


def _words(point: int, header: Mapping[str, Any]) -> list[str]:
    """Return the changes of a point: the last range runs fastest."""
    words = []
    for axis in reversed(header["over"]):
        point, position = divmod(point, len(axis["values"]))
        words.append(f"{axis['what']}={axis['values'][position]}")
    return words[::-1]


@contextmanager
def opened_alone(path: str) -> Iterator[FileIO]:
    """Open a file to add lines to it, and lock it; PlacerError if another process has.

    The lock is the file's own (flock), so nothing is left beside it, and the kernel frees it with
    the process, also after SIGKILL. Windows has no flock: there a file beside it is locked, which
    its system removes. File systems without locks, such as some network disks, go on without one.
    """
    with Path(path).open("ab", buffering=0) as handle:
        try:
            import fcntl
        except ImportError:
            with _locked_beside(path):
                yield handle
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(path) from None
        except OSError:  # no locks here
            pass
        yield handle


@contextmanager
def _locked_beside(path: str) -> Iterator[None]:
    """Lock a file beside a file."""
    from filelock import FileLock, Timeout

    beside = Path(f"{path}.lock")
    lock = FileLock(beside, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise _taken(path) from None
    try:
        yield
    finally:
        lock.release()
        with suppress(OSError):
            beside.unlink()


def _taken(path: str) -> PlacerError:
    return PlacerError(
        f"another sweep is writing into '{path}'",
        "wait until it has ended, or give each a file of its own; --merge puts them together",
    )


def line_of(document: Mapping[str, Any]) -> str:
    """Return one line of the file; NaN and infinity are an error, not JSON."""
    return json.dumps(document, allow_nan=False) + "\n"


def read_points(
    path: str | Path, header: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], int]:
    """Read a file of points; concatenated files of shards are one file.

    ``header`` is of the question that is asked; None: any, the same one throughout. Returns the
    header, None for an empty file; the points in the order of the file, each once; bytes up to the
    end of the last whole line. Raises PlacerError if the file is another question's, or a line but
    a torn last one is no point.
    """
    data = read_file(path, most_bytes=MOST_LINES_BYTES)
    whole = data.rfind(b"\n") + 1
    torn = header is not None and line_of(header).encode().startswith(data)
    if not whole and data and not torn:
        raise PlacerError(f"{path}: no file of a sweep", "give another file")
    rows: dict[str, dict[str, Any]] = {}
    first: dict[str, Any] | None = None
    for number, line in enumerate(data[:whole].decode("utf-8", "replace").splitlines(), start=1):
        row = _read_row(line, path, number)
        if "schema" in row:
            first = first or row
            _check_header(row, header or first, f"{path}:{number}")
            continue
        fault = row_fault(row, header or first) if first else "it stands before the header"
        if fault:
            wrong = f"not a point of this sweep: {fault[:200]}"
            raise PlacerError(f"{path}:{number}: {wrong}", AGAIN)
        if rows.setdefault(row["key"], row) != row:
            raise PlacerError(f"{path}:{number}: two answers for '{row['key']}'", EDITED)
    _check_alike(rows.values(), path)
    return first, list(rows.values()), whole


@contextmanager
def open_points(
    path: str, header: Mapping[str, Any]
) -> Iterator[tuple[list[dict[str, Any]], FileIO]]:
    """Take a file up again, or start it: cut off a torn last line, write the header if there is
    none. Yields the points that are there, and the file, open at its end and locked.
    """
    with ExitStack() as stack:
        try:
            if Path(path).exists() and not Path(path).is_file():
                raise PlacerError(f"'{path}' is no regular file", "give the name of a file")
            handle = stack.enter_context(opened_alone(path))
            first, there, whole = read_points(path, header)
            handle.truncate(whole)
            if first is None:
                append(handle, header)
        except (OSError, ValueError) as error:
            raise PlacerError(
                f"cannot write '{path}': {getattr(error, 'strerror', None) or error}",
                "choose a folder that exists and can be written",
            ) from None
        yield there, handle


def append(handle: FileIO, row: Mapping[str, Any]) -> None:
    """Write a line and see it on the disk; a torn one is cut off when the file is opened again."""
    left = memoryview(line_of(row).encode())
    try:
        while left:
            left = left[handle.write(left) :]
        os.fsync(handle.fileno())
    except OSError as error:
        raise PlacerError(
            f"cannot write '{handle.name}': {error.strerror or error}",
            writing_hint(error, "choose another -o"),
            exit_code=1,
        ) from None


def merged(paths: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Put files of shards of one question together, points in order."""
    header: dict[str, Any] | None = None
    points: dict[str, dict[str, Any]] = {}
    for path in paths:
        first, rows, _ = read_points(path)
        if first is None:
            raise PlacerError(f"{path}: empty", "give files that 'placer whatif --over -o' wrote")
        header = header or first
        _check_header(first, header, path)
        for row in rows:
            if points.setdefault(row["key"], row) != row:
                raise PlacerError(f"{path}: another answer for '{row['key']}'", EDITED)
    if header is None:
        raise PlacerError(
            "nothing to merge", "name the files: placer whatif --merge a.jsonl b.jsonl -o all.jsonl"
        )
    _check_alike(points.values(), paths[-1])
    return header, sorted(points.values(), key=lambda row: int(row["point"]))


def _read_row(line: str, path: str | Path, number: int) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}:{number}: not valid JSON: {error}", AGAIN) from None
    if not isinstance(row, dict):
        raise PlacerError(f"{path}:{number}: not a JSON object", AGAIN)
    return row


def _check_alike(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Refuse answers of a language model among those of others: one question has one model."""
    if len({"usd_per_billion_tokens" in row for row in rows if "workers" in row}) > 1:
        raise PlacerError(f"{path}: only some points have tokens: of two models", WROTE)


def _check_header(row: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    if row.get("schema") != POINTS_SCHEMA:
        schema = str(row.get("schema"))[:40]
        raise PlacerError(f"{where}: schema '{schema}' is not {POINTS_SCHEMA}", WROTE)
    fault = _fault(row, SweepHeader)
    if not fault:
        over, points = row["over"], math.prod(len(axis["values"]) for axis in row["over"])
        if not 1 <= len(over) <= MOST_AXES or not all(axis["values"] for axis in over):
            fault = f"1 to {MOST_AXES} ranges with values, not {len(over)}"
        elif not points == row["points"] <= MOST_POINTS:
            fault = f"its ranges span {points:,} points, not {row['points']:,}"
    if fault:
        raise PlacerError(f"{where}: not the header of a sweep: {fault[:200]}", WROTE)
    if any(row.get(key) != wanted.get(key) for key in ("question", "over")):
        raise PlacerError(
            f"{where}: points of another question, catalog or version of placer", ANOTHER
        )


SCHEMA = "placer.sweep/v1"
Row = dict[str, Any]
"""Figures of one point, as its file has them."""
REFUSED = "refused"
"""Status of a point whose question contradicts itself or admits no machine."""
Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Sweep(Shown):
    """The points of a sweep that are solved: ``rows``, one a point, in order."""

    header: Mapping[str, Any]
    rows: tuple[Row, ...] = field(repr=False)
    interrupted: bool = False

    def __repr__(self) -> str:
        over = " x ".join(axis["what"] for axis in self.header["over"])
        return f"<Sweep over {over}: {len(self.rows)} of {self.points} points>"

    @property
    def points(self) -> int:
        """Points that the ranges span."""
        return int(self.header["points"])

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.sweep/v1`` document."""
        return {
            **self.header,
            "schema": SCHEMA,
            "complete": len(self.rows) == self.points,
            "breakpoints": [
                {"from": one["set"], "to": other["set"]}
                for one, other in breakpoints(self.header["over"], self.rows)
            ],
            "rows": list(self.rows),
        }

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row a point (pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [{**dict(word.split("=", 1) for word in row["set"]), **row} for row in self.rows]
        )


def solve_point(shared: tuple[Problem, str, SolveOptions], words: tuple[str, ...]) -> Row:
    """Solve the question of one point; what it refuses is an answer as well."""
    problem, solver, options = shared
    head: Row = {"key": " ".join(words), "set": list(words)}
    try:
        changed = apply(problem, parse_changes(words))
        require_pools(changed)
        return head | _row(solve(changed, solver, options))
    except PlacerError as error:
        return head | {"status": REFUSED, "message": error.message}


def _row(result: Result) -> Row:
    """Return the figures of one answer; no times, so that equal questions have equal rows."""
    row: Row = {"status": str(result.status), "objective": result.problem.requirements.objective}
    row |= {"value": result.value, "bound": result.bound}
    if result.placement is None:
        return row
    placement, got = result.found
    return row | {
        "workers": [group.spec for group in placement.groups],
        "offers": [group.instance_type for group in placement.groups],
        "exchange": placement.exchange.strategy,
        "local_steps": placement.exchange.local_steps,
        "regions": len(placement.places),
        **figures_of(got),
    }


def check_axes(problem: Problem, axes: Sequence[Axis]) -> None:
    """Refuse wrong values of wishes and patterns that match nothing, before a point is solved."""
    for axis in axes:
        changes = parse_changes(axis.words)
        if changes[0].what not in CHANGES:
            apply(problem, changes[:1])
            continue
        for change in changes:
            set_wish(problem, change)


def header_of(
    problem: Problem, axes: Sequence[Axis], solver: str, options: SolveOptions
) -> dict[str, Any]:
    """Return the first line of the file: the question, its digest, and the number of points."""
    from placer.documents.result_parts import data_document, request_document

    points = [" ".join(words) for words in points_of(axes)]
    named = {name: getattr(options, name) for name in ("gap", "time_limit_s", "seed")}
    solving = {"solver": solver, **named}
    # Rows of capacity are in the digest of their book, and class rows belong to the version.
    question = problem.to_dict()
    question["catalog"].pop("capacity", None)
    parts = json.dumps([question, points, solving, __version__], sort_keys=True)
    return {
        "schema": POINTS_SCHEMA,
        "question": hashlib.sha256(parts.encode()).hexdigest(),
        "placer_version": __version__,
        "request": request_document(problem),
        "data": data_document(problem),
        "over": [
            {"what": axis.what, "values": [word.split("=", 1)[1] for word in axis.words]}
            for axis in axes
        ],
        "points": len(points),
        **solving,
    }


def run_sweep(
    problem: Problem,
    axes: Sequence[Axis],
    *,
    solver: str = "exact",
    options: SolveOptions | None = None,
    output: str | None = None,
    shard: tuple[int, int] = (1, 1),
    runner: Runner | None = None,
    tell: Tell = lambda done, of: None,
) -> Sweep:
    """Solve every point of some ranges that is not in the output file yet.

    ``shard`` (i, n) takes every n-th point from the i-th on. Without a ``runner`` one is solved
    after the other, here. ``tell`` hears how many points of how many are done. Raises PlacerError
    if a range or the solver is wrong, or the file is another question's.
    """
    load_solver(solver)
    options = (options or SolveOptions()).deaf
    points = points_of(axes)
    check_axes(problem, axes)
    header = header_of(problem, axes, solver, options)
    mine = [(i, words) for i, words in enumerate(points) if i % shard[1] == shard[0] - 1]
    with ExitStack() as stack:
        rows: list[Row] = []
        handle: FileIO | None = None
        if output is not None:
            rows, handle = stack.enter_context(open_points(output, header))
        known = {row["key"] for row in rows}
        missing = [(i, words) for i, words in mine if " ".join(words) not in known]
        done, stopped = len(mine) - len(missing), False
        tell(done, len(mine))
        try:
            with interrupts() as interrupted:
                place = runner or stack.enter_context(here((problem, solver, options)))
                stop, words_of = stopping(options, interrupted), [words for _, words in missing]
                solved = answers(solve_point, words_of, place, stop)
                for (point, _), solved_row in zip(missing, solved, strict=False):
                    row = {"point": point, **solved_row}
                    rows.append(row)
                    if handle is not None:
                        append(handle, row)
                    done += 1
                    tell(done, len(mine))
        except KeyboardInterrupt:
            stopped = True
    stopped = stopped or done < len(mine)
    if stopped and runner is not None:
        runner.stop()
    rows.sort(key=lambda row: int(row["point"]))
    return Sweep(header=header, rows=tuple(rows), interrupted=stopped)

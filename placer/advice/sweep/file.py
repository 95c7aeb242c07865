"""The file of a sweep: a header, then a line for each point; it is taken up again after a stop."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from placer.advice.sweep.file_lock import opened_alone
from placer.advice.sweep.point_rows import header_fault, row_fault
from placer.errors import PlacerError, writing_hint
from placer.files.bounded_file import MOST_LINES_BYTES, read_file
from placer.files.json_text import parse_json
from placer.problem.problem import Problem

SCHEMA = "placer.sweep-points/v1"
"""Schema of the header line."""
EDITED = "one of them was edited, or stopped by the time limit; delete it"
AGAIN = "delete the line; its point is solved again"
WROTE = "give a file that 'placer whatif --over -o' wrote"
ANOTHER = "give another file, or ask the question that it was made with"


def question_digest(
    problem: Problem, points: Sequence[str], solving: Mapping[str, object], version: str
) -> str:
    """Digest of everything that points depend on: question, changes, solver, version of placer.

    Rows of capacity are in the digest of the book that has them; class rows belong to the version.
    """
    question = problem.to_dict()
    question["catalog"].pop("capacity", None)
    parts = [question, list(points), dict(solving), version]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


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
        row = _row(line, path, number)
        if "schema" in row:
            first = first or row
            _check_header(row, header or first, f"{path}:{number}")
            continue
        _check_point(row, first and (header or first), f"{path}:{number}")
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


def _row(line: str, path: str | Path, number: int) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}:{number}: not valid JSON: {error}", AGAIN) from None
    if not isinstance(row, dict):
        raise PlacerError(f"{path}:{number}: not a JSON object", AGAIN)
    return row


def _check_point(row: Mapping[str, Any], header: Mapping[str, Any] | None, where: str) -> None:
    fault = "it stands before the header" if header is None else row_fault(row, header)
    if fault:
        raise PlacerError(f"{where}: not a point of this sweep: {fault[:200]}", AGAIN)


def _check_alike(rows: Iterable[Mapping[str, Any]], path: str | Path) -> None:
    """Refuse answers of a language model among those of others: one question has one model."""
    if len({"usd_per_billion_tokens" in row for row in rows if "workers" in row}) > 1:
        raise PlacerError(f"{path}: only some points have tokens: of two models", WROTE)


def _check_header(row: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    if row.get("schema") != SCHEMA:
        schema = str(row.get("schema"))[:40]
        raise PlacerError(f"{where}: schema '{schema}' is not {SCHEMA}", WROTE)
    fault = header_fault(row)
    if fault:
        raise PlacerError(f"{where}: not the header of a sweep: {fault[:200]}", WROTE)
    if any(row.get(key) != wanted.get(key) for key in ("question", "over")):
        raise PlacerError(
            f"{where}: points of another question, catalog or version of placer", ANOTHER
        )

"""The file of a sweep: one JSON line of header, then one a point; it grows line by line and is
taken up again after a stop.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from placer.errors import PlacerError
from placer.json_text import unique_keys
from placer.market.sources.reading.bounded_file import MOST_LINES_BYTES, read_file
from placer.problem.problem import Problem

SCHEMA = "placer.sweep-points/v1"
"""Schema of the header line."""
ANOTHER = "give another file, or ask the question that it was made with"


def question_digest(
    problem: Problem, points: Sequence[str], solving: Mapping[str, object], version: str
) -> str:
    """Digest of everything that the points depend on: question, changes, solver and version of
    placer.
    """
    parts = [problem.to_dict(), list(points), dict(solving), version]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def line_of(document: Mapping[str, Any]) -> str:
    """Return one line of the file; NaN and infinity are an error, not JSON."""
    return json.dumps(document, allow_nan=False) + "\n"


def read_points(
    path: str | Path, header: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], int]:
    """Read a file of points; concatenated files of shards are one file.

    Parameters
    ----------
    path
        The file.
    header
        Of the question that is asked; None: any question, the same one throughout.

    Returns
    -------
    tuple[dict | None, list[dict], int]
        The header, None for an empty file; the points in the order of the file, each once; bytes up
        to the end of the last whole line.

    Raises
    ------
    PlacerError
        If the file is another question's, or a line but a torn last one is no point.
    """
    data = read_file(path, most_bytes=MOST_LINES_BYTES)
    whole = data.rfind(b"\n") + 1
    if (
        not whole
        and data
        and not (header is not None and line_of(header).encode().startswith(data))
    ):
        raise PlacerError(f"{path}: no file of a sweep", "give another file")
    rows: dict[str, dict[str, Any]] = {}
    first: dict[str, Any] | None = None
    for number, line in enumerate(data[:whole].decode("utf-8", "replace").splitlines(), start=1):
        row = _row(line, path, number)
        if "schema" in row:
            first = first or row
            _check_header(row, dict(header) if header is not None else first, f"{path}:{number}")
        elif (
            first is None
            or not isinstance(row.get("key"), str)
            or not isinstance(row.get("point"), int)
        ):
            raise PlacerError(
                f"{path}:{number}: not a point of a sweep",
                "give a file that 'placer sweep -o' wrote",
            )
        elif rows.setdefault(row["key"], row) != row:
            raise PlacerError(
                f"{path}:{number}: two answers for '{row['key']}'",
                "one of them was edited, or stopped by the time limit; delete it",
            )
    return first, list(rows.values()), whole


def open_points(path: str, header: Mapping[str, Any]) -> tuple[list[dict[str, Any]], TextIO]:
    """Take a file up again, or start it: cut off a torn last line, write the header if there is
    none.

    Returns
    -------
    tuple[list[dict], TextIO]
        Points that are there already, and the file, open at its end.

    Raises
    ------
    PlacerError
        If the file is another question's or cannot be written.
    """
    first, there, whole = read_points(path, header) if Path(path).exists() else (None, [], 0)
    try:
        handle = Path(path).open("a", encoding="utf-8", newline="\n")  # noqa: SIM115 - the caller closes it
        handle.truncate(whole)
        if first is None:
            append(handle, header)
    except OSError as error:
        raise PlacerError(
            f"cannot write '{path}': {error.strerror or error}",
            "choose a folder that exists and can be written",
        ) from None
    return there, handle


def append(handle: TextIO, row: Mapping[str, Any]) -> None:
    """Write one line and see it on the disk before anything else is done."""
    handle.write(line_of(row))
    handle.flush()
    os.fsync(handle.fileno())


def merged(paths: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Put files of shards of one question together, points in order.

    Raises
    ------
    PlacerError
        If there is nothing to merge, the questions differ, or two answers to one point do.
    """
    header: dict[str, Any] | None = None
    points: dict[str, dict[str, Any]] = {}
    for path in paths:
        first, rows, _ = read_points(path)
        if first is None:
            raise PlacerError(f"{path}: empty", "give files that 'placer sweep -o' wrote")
        header = header or first
        _check_header(first, header, path)
        for row in rows:
            if points.setdefault(row["key"], row) != row:
                raise PlacerError(
                    f"{path}: another answer for '{row['key']}'",
                    "one of them was edited, or stopped by the time limit; delete it",
                )
    if header is None:
        raise PlacerError(
            "nothing to merge", "name the files: placer sweep --merge a.jsonl b.jsonl -o all.jsonl"
        )
    return header, sorted(points.values(), key=lambda row: int(row["point"]))


def _row(line: str, path: str | Path, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise PlacerError(
            f"{path}:{number}: not valid JSON: {error}",
            "delete the line; its point is solved again",
        ) from None
    if not isinstance(row, dict):
        raise PlacerError(
            f"{path}:{number}: not a JSON object", "delete the line; its point is solved again"
        )
    return row


def _check_header(row: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    if row.get("schema") != SCHEMA:
        raise PlacerError(
            f"{where}: schema '{str(row.get('schema'))[:40]}' is not {SCHEMA}",
            "give a file that 'placer sweep -o' wrote",
        )
    if row.get("question") != wanted.get("question"):
        raise PlacerError(
            f"{where}: points of another question, catalog or version of placer", ANOTHER
        )

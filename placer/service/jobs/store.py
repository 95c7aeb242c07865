"""Jobs in an SQLite file: what was accepted outlasts the process that accepted it."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from placer.errors import PlacerError, writing_hint
from placer.records import Json, replace
from placer.service.problems import DISK_HINT, problem_of

LOG = logging.getLogger("placer.service")
VERSION = 1
TABLE = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY,
    verb TEXT NOT NULL,
    words TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    created REAL NOT NULL,
    started REAL,
    finished REAL,
    document BLOB,
    manifest BLOB,
    problem TEXT
)
"""
ROOM = "CREATE TABLE IF NOT EXISTS unkept (id TEXT PRIMARY KEY, failed INTEGER) WITHOUT ROWID"
"""A row for each unfinished job. Its ``failed`` turns from 0 to 1 without taking a byte more, and
the journal keeps its length: so a disk without room can still be told that a job has failed.
"""
UNKEPT = problem_of("disk", "its answer could not be kept on the disk of the service", DISK_HINT)
COLUMNS = "id, verb, words, state, attempts, created, started, finished, problem"


class State(StrEnum):
    """Where a job stands. ``interrupted``: the service ended twice while it was solved, so it is
    not tried again. ``cancelled`` jobs may have a document: the best until then.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def finished(self) -> bool:
        """Whether nothing more will come."""
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One job without its documents; times are seconds since 1970."""

    id: str
    verb: str
    words: Json
    state: State
    attempts: int
    created: float
    started: float | None
    finished: float | None
    problem: Json | None


class Store:
    """The jobs of one service; not to be shared between threads, nor between services.

    Raise `PlacerError` if another service has the file, or it cannot be written or is none of this
    version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._failed: set[str] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(f"{path}.lock", timeout=0)
            self._lock.acquire()
            self._base = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            path.chmod(0o600)  # questions tell what somebody plans
            self._base.execute("PRAGMA journal_mode=PERSIST")
            self._base.execute("PRAGMA synchronous=FULL")
            found = self._base.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise PlacerError(
                    f"'{path}' has jobs of another version of placer", "name another with --jobs"
                )
            self._base.execute(TABLE)
            self._base.execute(ROOM)
            self._set_aside()
            self._base.execute(f"PRAGMA user_version={VERSION}")
        except Timeout:
            raise PlacerError(
                f"another service has the jobs of '{path}'", "name another file with --jobs"
            ) from None
        except (OSError, sqlite3.Error) as error:
            hint = "name another file with --jobs"
            hint = writing_hint(error, hint) if isinstance(error, OSError) else hint
            raise PlacerError(f"cannot keep jobs in '{path}': {error}", hint) from None

    def _set_aside(self) -> None:
        """Move rows that cannot be read into a table of their own, so that the others go on."""
        self._base.execute("CREATE TABLE IF NOT EXISTS unreadable AS SELECT * FROM jobs LIMIT 0")
        for number, *row in self._base.execute(f"SELECT rowid, {COLUMNS} FROM jobs").fetchall():  # noqa: S608
            try:
                _job(tuple(row))
            except (ValueError, TypeError) as error:
                LOG.error("job %r cannot be read and is set aside: %s", row[0], error)
                same = "FROM jobs WHERE rowid = ?"
                self._base.execute(f"INSERT INTO unreadable SELECT * {same}", (number,))
                self._base.execute(f"DELETE {same}", (number,))

    def close(self) -> None:
        """Close the file, and let another service have it."""
        self._base.close()
        self._lock.release()

    def add(self, id_: str, verb: str, words: Json) -> None:
        """Keep a job that is accepted: when this returns it is on the disk."""
        self._base.execute("BEGIN")
        with self._base:
            self._base.execute(
                "INSERT INTO jobs (id, verb, words, state, created) VALUES (?, ?, ?, ?, ?)",
                (id_, verb, json.dumps(words), State.QUEUED, time.time()),
            )
            self._base.execute("INSERT INTO unkept VALUES (?, 0)", (id_,))

    def get(self, id_: str) -> Job | None:
        """Return a job; None if there is none of that name."""
        row = self._base.execute(f"SELECT {COLUMNS} FROM jobs WHERE id = ?", (id_,)).fetchone()  # noqa: S608
        if row is None:
            return None
        job = _job(row)
        if job.state.finished or id_ not in self._unkept():
            return job
        return replace(job, state=State.FAILED, finished=job.started or job.created, problem=UNKEPT)

    def _unkept(self) -> set[str]:
        rows = self._base.execute("SELECT id FROM unkept WHERE failed")
        return self._failed | {id_ for (id_,) in rows}

    def part(self, id_: str, name: str) -> bytes | None:
        """Return the ``document`` or the ``manifest`` of a job; None without."""
        assert name in ("document", "manifest")
        row = self._base.execute(f"SELECT {name} FROM jobs WHERE id = ?", (id_,)).fetchone()  # noqa: S608
        return None if row is None else row[0]

    def unfinished(self) -> list[Job]:
        """List the jobs that are queued or were running, the oldest first."""
        rows = self._base.execute(
            f"SELECT {COLUMNS} FROM jobs WHERE finished IS NULL ORDER BY created, rowid"  # noqa: S608
        )
        unkept = self._unkept()
        return [job for job in map(_job, rows) if job.id not in unkept]

    def begin(self, id_: str) -> None:
        """Note that a worker has taken a job."""
        self._base.execute(
            "UPDATE jobs SET state = ?, started = ?, attempts = attempts + 1 WHERE id = ?",
            (State.RUNNING, time.time(), id_),
        )

    def finish(
        self,
        id_: str,
        state: State,
        *,
        document: bytes = b"",
        manifest: bytes = b"",
        problem: Json | None = None,
    ) -> None:
        """Note how a job ended."""
        self._base.execute(
            "UPDATE jobs SET state = ?, finished = ?, document = ?, manifest = ?, problem = ? "
            "WHERE id = ?",
            (
                state,
                time.time(),
                document or None,
                manifest or None,
                None if problem is None else json.dumps(problem),
                id_,
            ),
        )

    def fail(self, id_: str) -> None:
        """Note that a job has ended whose answer cannot be kept, on a disk without room too."""
        self._failed.add(id_)
        try:
            self.finish(id_, State.FAILED, problem=UNKEPT)
        except sqlite3.Error:
            self._base.execute("UPDATE unkept SET failed = 1 WHERE id = ?", (id_,))

    def remove(self, id_: str) -> None:
        """Forget a job."""
        self._base.execute("DELETE FROM jobs WHERE id = ?", (id_,))
        self._failed.discard(id_)

    def prune(self, keep_s: float, most: int) -> int:
        """Forget finished jobs that are old, or the oldest above a number; return how many."""
        old = self._base.execute(
            "DELETE FROM jobs WHERE finished IS NOT NULL AND (finished < ? OR id NOT IN "
            "(SELECT id FROM jobs WHERE finished IS NOT NULL ORDER BY finished DESC LIMIT ?))",
            (time.time() - keep_s, most),
        )
        for id_ in self._unkept():
            self.finish(id_, State.FAILED, problem=UNKEPT)
            self._failed.discard(id_)
        self._base.execute(
            "DELETE FROM unkept WHERE id NOT IN (SELECT id FROM jobs WHERE finished IS NULL)"
        )
        return old.rowcount


def _job(row: tuple[Any, ...]) -> Job:
    made = dict(zip(COLUMNS.split(", "), row, strict=True))
    problem = None if made["problem"] is None else json.loads(made["problem"])
    read = {"words": json.loads(made["words"]), "state": State(made["state"]), "problem": problem}
    return msgspec.convert(made | read, Job)

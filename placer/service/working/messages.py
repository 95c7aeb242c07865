"""What the service and its workers tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A checked question: a verb or a list, with its words as `placer.service.questions.body`
    returns them. ``seconds`` limits each of its ``searches``.
    """

    name: str
    words: Mapping[str, Any]
    seconds: float = 30.0
    searches: int = 0

    @property
    def longest_s(self) -> float:
        """Return the seconds that the answer may take."""
        return self.seconds * max(1, self.searches)


@dataclass(frozen=True, kw_only=True, slots=True)
class Better:
    """A better placement of a running search: its value, and the bound where one is known."""

    value: float
    unit: str
    seconds: float
    bound: float | None = None
    gap: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as the data of an event."""
        return {**asdict(self), "seconds": round(self.seconds, 3)}


class Outcome(StrEnum):
    """How a question ended."""

    ANSWERED = "answered"
    REFUSED = "refused"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What came of a question: the JSON that ``--json`` prints and the manifest of its placement,
    or what is wrong. ``seconds`` is how long it was worked on, ``gap`` what the search proved,
    ``worn`` that the process should be replaced.
    """

    outcome: Outcome
    document: bytes = b""
    manifest: bytes = b""
    message: str = ""
    hint: str = ""
    field: str = ""
    seconds: float = 0.0
    gap: float | None = None
    worn: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Book:
    """A price book as a worker has it in memory."""

    name: str
    digest: str
    as_of: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A worker has read its books, or says why it cannot; ``folder`` is its own, and empty."""

    books: tuple[Book, ...] = ()
    folder: str = ""
    problem: str = ""

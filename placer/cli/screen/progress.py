"""One line that says how a search goes, on a terminal only."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct, field

if TYPE_CHECKING:
    from rich.text import Text

MOST_GAP = 10.0
"""A gap of more than 1,000 % says nothing: an objective near zero, or a first rough bound."""


class SearchProgress(Struct, kw_only=True, dict=True):
    """How a search goes.

    Mutable: ``best`` is the value of the best placement so far, ``bound`` what no placement beats,
    in the unit of ``objective``. ``gap`` and ``limit`` are what ends the search, as they were
    written; without a gap nothing is said of proofs. ``keeps`` says that the best so far is the
    answer where the user stops it.
    """

    what: str
    objective: str = ""
    gap: str = ""
    limit: str = ""
    keeps: bool = False
    best: float | None = None
    bound: float | None = None
    begun: float = field(default_factory=time.monotonic)

    def heard(self, value: float) -> None:
        """Keep the value of a better placement."""
        self.best = value

    def proved(self, bound: float | None) -> None:
        """Keep a bound; None where another search begins."""
        if bound is None:
            self.best = None
        self.bound = bound

    def words(self, now: float) -> str:
        """Say what is done, for how long, what was found, what is proved of it, and what Ctrl-C
        does.

        >>> search = SearchProgress(what="searching", objective="cost", gap="0.1%", limit="30s")
        >>> search.begun, search.best, search.bound, search.keeps = 0.0, 4.8, 4.656, True
        >>> search.words(2.4)
        'searching 2 s of 30s; best $4.80/h, gap 3 % (0.1% asked); Ctrl-C keeps the best'
        """
        seconds = f"{self.what} {now - self.begun:.0f} s{f' of {self.limit}' if self.limit else ''}"
        parts = [seconds]
        if self.best is not None:
            parts.append(f"best {self._value(self.best)}{self._proof(self.best)}")
        parts.append(
            "Ctrl-C keeps the best" if self.keeps and self.best is not None else "Ctrl-C stops"
        )
        return "; ".join(parts)

    def _proof(self, best: float) -> str:
        """Return the gap that is reached, and the one that was asked for."""
        from placer.cost_model.objective import gap_between

        if not self.gap:
            return ""
        reached = None if self.bound is None else gap_between(best, self.bound)
        if reached is None or reached > MOST_GAP:
            return f", no bound yet ({self.gap} asked)"
        return f", gap {100 * reached:.2g} % ({self.gap} asked)"

    def _value(self, value: float) -> str:
        from placer.units import format_duration, format_number, format_usd

        write: dict[str, Callable[[float], str]] = {
            "": format_number,
            "throughput": lambda value: f"{format_number(value)} samples/s",
            "cost": lambda value: f"{format_usd(value)}/h",
            "cost-per-sample": lambda value: f"{format_usd(value)} per million samples",
            "time": format_duration,
            "carbon": lambda value: f"{format_number(value)} g CO2e/h",
            "total": lambda value: f"{format_usd(value)} in all",
        }
        return write[self.objective](value)

    def __rich__(self) -> Text:
        """Return the words of this moment; a terminal asks again and again."""
        from rich.text import Text

        return Text(self.words(time.monotonic()))


@contextmanager
def progress(
    what: str, asked: Mapping[str, Any] | None = None, *, keeps: bool = False
) -> Iterator[dict[str, Any]]:
    """Show one transient line on a terminal while a search runs; elsewhere show nothing.

    ``what``: what is done, such as ``searching``. ``asked``: words of the request: objective, gap
    and time limit. ``keeps``: whether Ctrl-C ends it with the best so far. Yield the words of a
    verb that say what hears of its search: none where nothing is shown.
    """
    if not sys.stderr.isatty():
        yield {}
        return
    words = asked or {}
    search = SearchProgress(
        what=what,
        objective=_objective(words),
        gap=str(words.get("gap") or ""),
        limit=str(words.get("time_limit") or ""),
        keeps=keeps,
    )
    with telling(search):
        yield {"on_better": search.heard, "on_bound": search.proved}


@contextmanager
def telling(first: str | SearchProgress) -> Iterator[Callable[[str], None]]:
    """Show on a terminal what is being done, as a line that changes; elsewhere show nothing."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status(first, spinner="line") as status:
        yield status.update


@contextmanager
def bar(first: str) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal, elsewhere nothing. Yield a function to call with the share that is
    done, and perhaps with what is being done.
    """
    if not sys.stderr.isatty():
        yield lambda share, words="": None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    described = TextColumn("{task.description}")
    with Progress(described, *columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(first, total=1.0)
        yield lambda share, words=first: shown.update(
            task, completed=min(share, 1.0), description=words
        )


def _objective(words: Mapping[str, Any]) -> str:
    """Return the objective of a request that was not read yet; empty where it is no usual one."""
    from placer.problem.requirements import OBJECTIVES
    from placer.problem.words.readers import default_objective

    given = {name: value for name, value in words.items() if value not in (None, (), False)}
    if not given:
        return ""
    named = given.get("objective") or default_objective(given)
    return named if named in OBJECTIVES else ""


class _AbortedError(BaseException):
    """Raised at Ctrl-C: what takes a failure of its own for an answer must not take this one."""


@contextmanager
def nothing_kept(why: str) -> Iterator[None]:
    """End all searches at Ctrl-C, say that nothing is kept and why, and exit with code 130.

    A solver takes a KeyboardInterrupt for itself and returns its best, and the next search would
    begin.
    """

    def abort(number: int, frame: object) -> None:
        raise _AbortedError

    heard = signal.signal(signal.SIGINT, abort)
    try:
        yield
    except _AbortedError:
        click.echo(f"stopped: nothing is kept, because {why}", err=True)
        raise click.exceptions.Exit(130) from None
    finally:
        signal.signal(signal.SIGINT, heard)

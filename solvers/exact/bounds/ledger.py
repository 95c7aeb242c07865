"""The ledger of a proof: how the search of each mode ended, and the bound that its relaxation
proves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

from placer.documents.schemas.proofs import Method, ModeProof
from placer.problem.placement import NO_EXCHANGE
from placer.solving.allowance import OutOfTimeError

from ..._target import STRICT, Target

BISECTIONS = 16
"""Halvings of the logarithm of a bound: to about 0.03 % of it."""
FARTHEST = 1e3
"""A mode whose relaxation is this many times worse than the best is not followed further."""


class Entry(Struct, dict=True):
    """What is known of one mode so far.

    Notes
    -----
    ``closed`` says that nothing of it beats the incumbent by more than the gap that was asked for.
    ``reached`` is a value that no placement of it beats, once some search of it has ended: None
    while nothing keeps the limits. ``root`` is what the relaxation proves, if ``worked_out``;
    ``skipped`` that a part was too large for the search under way.
    """

    closed: bool = False
    ended: bool = False
    skipped: bool = False
    reached: float | None = None
    worked_out: bool = False
    root: float | None = None
    nodes: int = 0
    priced: int = 0


class Ledger:
    """Notes of one run of the searches, mode by mode.

    Parameters
    ----------
    target
        Incumbent, nodes and placements are read from it.

    Notes
    -----
    When the search of a mode ends, no placement of it is better than the incumbent of that moment
    by more than the gap of that moment.
    """

    def __init__(self, target: Target) -> None:
        self._target, self._gap = target, target.gap
        self._entries: dict[tuple[str, int], Entry] = {}

    def of(self, mode: tuple[str, int]) -> Entry:
        """Return what is known of a mode."""
        return self._entries.setdefault(mode, Entry())

    @contextmanager
    def mode(self, strategy: str, local_steps: int) -> Iterator[None]:
        """Note a search that takes one turn."""
        with self.turn((strategy, local_steps)):
            yield
        self.end((strategy, local_steps))

    @contextmanager
    def turn(self, mode: tuple[str, int]) -> Iterator[None]:
        """Note the nodes and placements of one turn of a search."""
        target, entry = self._target, self.of(mode)
        ticks, priced, target.skipped = target.ticks, target.candidates, entry.skipped
        try:
            yield
        finally:
            entry.nodes += target.ticks - ticks
            entry.priced += target.candidates - priced
            entry.skipped = target.skipped

    def end(self, mode: tuple[str, int]) -> None:
        """Note that a search has ended; nothing is proved where it skipped a part."""
        entry, target = self.of(mode), self._target
        if not entry.skipped:
            entry.ended, entry.reached = True, self._reached()
            entry.closed = entry.closed or target.gap <= self._gap
        entry.skipped = False

    def root(self, mode: tuple[str, int], value: float | None) -> None:
        """Note a bound that the relaxation of a mode proves; None if it excludes all placements."""
        entry = self.of(mode)
        if value is not None and entry.worked_out:
            value = None if entry.root is None else self._tighter(entry.root, value)
        entry.worked_out, entry.root = True, value

    def bound(self, mode: tuple[str, int]) -> float | None:
        """Return the tightest value known that no placement of a mode beats; None if none is
        known, or the mode is empty.
        """
        entry = self.of(mode)
        known = [entry.reached] if entry.ended else []
        known += [entry.root] if entry.worked_out else []
        values = [value for value in known if value is not None]
        if len(values) < len(known) or not values:
            return None
        return values[0] if len(values) == 1 else self._tighter(*values)

    def known(self, mode: tuple[str, int]) -> bool:
        """Return whether any bound on a mode is known."""
        entry = self.of(mode)
        return entry.ended or entry.worked_out

    def _reached(self) -> float | None:
        """Return the value that nothing which was ruled out so far beats; None while nothing keeps
        the limits.
        """
        target = self._target
        if target.best is None:
            return None
        return target.objective.ahead(target.best_value, target.slack)

    def behind(self, mode: tuple[str, int]) -> bool:
        """Return whether no placement of a mode beats the best by more than the gap."""
        if not self.known(mode):
            return False
        bound, reached = self.bound(mode), self._reached()
        return bound is None or (reached is not None and self._tighter(reached, bound) == bound)

    def proofs(self) -> tuple[ModeProof, ...]:
        """Put the notes together."""
        alone = [(NO_EXCHANGE, 1)] if (NO_EXCHANGE, 1) in self._entries else []
        return tuple(self._proof(mode) for mode in [*alone, *self._target.problem.modes])

    def _proof(self, mode: tuple[str, int]) -> ModeProof:
        entry = self.of(mode)
        # A mode whose search has not ended is closed all the same if its relaxation cannot beat the
        # incumbent.
        if not entry.closed and not self.behind(mode):
            method: Method = "stopped"
        elif mode[0] == NO_EXCHANGE:
            method = "alone"
        else:
            method = "search" if entry.nodes or entry.priced else "root"
        return ModeProof(
            strategy=mode[0],
            local_steps=mode[1],
            method=method,
            bound=self.bound(mode),
            root_bound=entry.root,
            nodes=entry.nodes,
            priced=entry.priced,
        )

    def _tighter(self, one: float, other: float) -> float:
        # Of two bounds that both hold, the worse value is the tighter one.
        return one if self._target.objective.better(other, one) else other


def root_bound(may_improve: Callable[[], bool], trial: Target, outermost: float) -> float | None:
    """Return the best objective value that the relaxation of a mode does not exclude, by bisection;
    None if it excludes all.

    Parameters
    ----------
    may_improve
        Whether the relaxation allows a placement that is better than ``trial.best_value``.
    trial
        A target of its own with some placement; its value is moved.
    outermost
        A value that no placement is better than; it is all that is proved where ``trial`` runs out
        of time.
    """
    try:
        return _bisected(may_improve, trial, outermost)
    except (OutOfTimeError, MemoryError):
        return outermost


def _bisected(may_improve: Callable[[], bool], trial: Target, outermost: float) -> float | None:
    best, value, maximised = trial.best, trial.best_value, trial.objective.maximised
    trial.best = None
    if not may_improve():
        return None
    trial.best = best

    def open_at(at: float) -> bool:
        trial.best_value = at
        return may_improve()

    hard = outermost if maximised else value / FARTHEST**2
    easy = value / FARTHEST if maximised else value * FARTHEST
    # Bisection needs a value that is ruled out at one end; without one the outermost value is all
    # that is proved.
    if hard <= 0 or easy <= 0 or open_at(hard):
        return outermost
    if open_at(easy):
        with suppress(OutOfTimeError):  # what is ruled out so far holds
            for _ in range(BISECTIONS):
                trial.check_time()
                middle = (easy * hard) ** 0.5
                easy, hard = (middle, hard) if open_at(middle) else (easy, middle)
    else:
        hard = easy
    # The last value that was ruled out, and a little more: a tie counts as no improvement.
    return trial.objective.ahead(hard, STRICT)

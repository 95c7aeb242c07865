"""Turns of the modes of a question: a first look, their kept bounds, then one stage after the other
towards the gap that is asked for.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from placer.solving.answer import total_bound

from .._target import STRICT, Target
from .bounds.ledger import Ledger
from .search import Search

LOOK = 1_000
"""Nodes after which a question is not closed at once: bounds of whole modes are worked out then."""
TURN = 250
"""Nodes of the first turn of a mode, twice as many in each later one."""
NEAR = 1.002
"""A bound is sharp enough where the relaxation allows a value that is less than this worse."""
ROUGHLY = 1.03
"""The same of a rough bound."""
TELL_EVERY_S = 0.25
"""Seconds between two bounds that are told."""
FACTORS = tuple(1.05**k for k in (1, 2, 4, 8, 16, 32, 64, 128))
"""Values that the relaxation of a mode is asked for first, over the incumbent's."""


class Pending(Struct, dict=True):
    """A search that is under way, and whether it has left out a part that was too large."""

    turns: Iterator[None]
    skipped: bool = False


class Stage(Struct, dict=True):
    """Searches for an improvement by more than a gap: under way, and in turn."""

    gap: float
    pending: dict[tuple[str, int], Pending] = field(default_factory=dict)
    queue: deque[tuple[Search, float]] = field(default_factory=deque)


class Schedule:
    """Searches of one question, and which of them has its turn when.

    ``target``: incumbent, limits and gap. ``ledger``: what is proved of each mode. ``searches``:
    one for each mode that is open. A bound at stage g says that nothing beats the incumbent by more
    than g; a stage ends when that is proved of all modes, so a stopped search has the bound of its
    last stage, and modes whose bound is below that cost nothing. Nodes are counted, not seconds, so
    that the same question has the same answer.
    """

    def __init__(self, target: Target, ledger: Ledger, searches: Sequence[Search]) -> None:
        self.target, self.ledger, self.searches = target, ledger, searches
        self._open_at: dict[tuple[str, int], float] = {}
        self._stage = Stage(target.gap)
        self._tell_at = 0.0

    def run(self) -> bool:
        """Search all modes; return whether each of them is closed.

        Raises StoppedError if the time or the nodes are up, or the target wants no more than one
        placement.
        """
        target = self.target
        if target.tied is not None or target.first or (target.short and target.beat is not None):
            for search in self.searches:
                # Asked no sooner: a short search may run out of nodes before it comes to this mode.
                if target.short and not search.may_improve():
                    self.ledger.end(_key(search))
                else:
                    self._turn(search, math.inf)
            return self._closed()
        if target.beat is not None and any(s.mode.local_steps > 1 for s in self.searches):
            self.bound_all()  # a value is known, and what is stopped needs a bound most
        self._look(LOOK)
        if target.known_value is not None and not self._closed():
            self.bound_all()
            self._approach()
        self._begin()
        self._all_turns()
        return self._closed()

    def _closed(self) -> bool:
        """Return whether nothing beats the incumbent by more than the gap."""
        return all(self._done(search) for search in self.searches)

    def _done(self, search: Search) -> bool:
        mode = _key(search)
        return self.ledger.of(mode).closed or self.ledger.behind(mode)

    def _look(self, nodes: int) -> None:
        """Search mode after mode until a number of nodes is used up: side questions with as few
        nodes find more in one mode to its end than in a little of each.
        """
        last = self.target.ticks + nodes
        for search in self.searches:
            if self._done(search):
                continue
            if not self._turn(search, last - self.target.ticks):
                return

    def _turn(self, search: Search, nodes: float) -> bool:
        """Search a mode for so many nodes, where it paused last; return whether it has ended."""
        mode, target, pending = _key(search), self.target, self._stage.pending
        last = target.ticks + nodes
        own = pending.setdefault(mode, Pending(search.turns()))
        entry = self.ledger.of(mode)
        entry.skipped = own.skipped
        try:
            with self.ledger.turn(mode):
                for _ in own.turns:
                    if target.ticks > last:
                        return False
                    self._tell()
        finally:
            own.skipped = entry.skipped
        self.ledger.end(mode)
        del pending[mode]
        self._tell()
        return True

    def _all_turns(self, nodes: float = math.inf) -> bool:
        """Search the open modes in turn for so many nodes; return whether none is left."""
        queue, last = self._stage.queue, self.target.ticks + nodes
        while queue:
            search, own = queue.popleft()
            if self._done(search):
                continue
            left = last - self.target.ticks
            if left < 0:
                queue.appendleft((search, own))
                return False
            if left < own:
                if not self._turn(search, left):
                    queue.appendleft((search, own - left))
            elif not self._turn(search, own):
                queue.append((search, 2 * own))
        return True

    def _begin(self) -> None:
        """Queue the modes that are not behind, the one with the best bound first."""
        left = [search for search in self.searches if not self._done(search)]
        left.sort(key=self._rank)
        self._stage.queue = deque((search, float(TURN)) for search in left)

    def _approach(self) -> None:
        """Prove one gap after the other, each half of the one before."""
        gap = math.inf
        while True:
            left = [search for search in self.searches if not self._done(search)]
            gap = min(gap, max(map(self._gap, left), default=0.0)) / 2
            if gap < 2 * self.target.slack:
                return
            if not self._excluded(left, gap):
                self._alternate(gap)

    def _excluded(self, searches: Sequence[Search], gap: float) -> bool:
        """Return whether the relaxations of all modes exclude improvements by more than a gap.

        `bound_all` works out no more than the bound of the question, which other modes decide
        later.
        """
        ahead = [search for search in searches if self._gap(search) > gap]
        return not [search for search in ahead if self._allows(search, gap)]

    def _alternate(self, gap: float) -> None:
        """Prove a gap, in turn with the gap that is asked for.

        Both get as many nodes, so that stages at most double the work of a question that could be
        closed without them, and one that is stuck does not hold up the question.
        """
        stage, nodes, ended = Stage(gap), float(LOOK), False
        with self._within(stage):
            self._begin()
        while not ended:
            began = self.target.ticks
            with self._within(stage):
                ended = self._all_turns(nodes)
            self._begin()
            self._all_turns(self.target.ticks - began)
            nodes *= 2

    @contextmanager
    def _within(self, stage: Stage) -> Iterator[None]:
        """Look for improvements by more than the gap of a stage while this lasts."""
        asked, self.target.gap, kept = self.target.gap, stage.gap, self._stage
        self._stage = stage
        try:
            yield
        finally:
            self.target.gap, self._stage = asked, kept

    def _gap(self, search: Search) -> float:
        """Return the share by which the bound of a mode is better than the incumbent."""
        bound = self.ledger.bound(_key(search))
        if bound is None:
            return 0.0 if self.ledger.known(_key(search)) else 1.0
        return self._share(bound)

    def _share(self, value: float) -> float:
        """Return by how much of the incumbent's value another one is better."""
        best = self.target.known_value
        return max(0.0, self.target.objective.gain(value, best) / abs(best)) if best else 0.0

    @property
    def _known(self) -> float:
        """Value that is to be beaten, where modes are bounded by shares of it."""
        known = self.target.known_value
        assert known is not None
        return known

    def _rank(self, search: Search) -> float:
        return -self._gap(search) if self.target.known_value is not None else 0.0

    def close(self, outermost: float) -> None:
        """Bound each mode that is open in little time: roughly of all, then as `bound_all`.

        ``outermost``: a value that no placement beats. A rough bound takes a few milliseconds where
        a sharp one may take all the time that is left, and the worst bound of all modes is that of
        the question.
        """
        left = [search for search in self.searches if not self._done(search)]
        if outermost > 0:  # nothing lies halfway to a bound of 0
            for search in left:
                self.ledger.root(_key(search), outermost)
        # What a rough bound allows a sharp one may exclude.
        sharply, self._open_at = self._open_at, dict(self._open_at)
        self.target.rough = True
        try:
            while left and self._sharpen(min(left, key=self._rank), ROUGHLY):
                pass
        finally:
            self.target.rough, self._open_at = False, sharply
        self.bound_all()

    def bound_all(self) -> None:
        """Bound each open mode: roughly all, then sharply those that decide."""
        left = [search for search in self.searches if not self._done(search)]
        for search in left:
            if not self.ledger.known(_key(search)):
                self._bound(search)
        while left:
            first = min(left, key=self._rank)
            if not self._sharpen(first):
                return

    def _bound(self, search: Search) -> None:
        """Ask the relaxation of a mode for ever better values until it excludes one."""
        for factor in FACTORS:
            if not self._allows(search, self._slack(factor)):
                return

    def _sharpen(self, search: Search, near: float = NEAR) -> bool:
        """Halve what is unknown about the bound of a mode; False if nothing is to be gained."""
        mode = _key(search)
        bound, opened = self.ledger.bound(mode), self._open_at.get(mode, self._known)
        if (
            bound is None
            or min(bound, opened) <= 0
            or max(bound, opened) < near * min(bound, opened)
        ):
            return False
        middle = (bound * opened) ** 0.5
        gain = self._share(middle)
        if gain <= STRICT:
            return False
        self._allows(search, gain)
        return True

    def _allows(self, search: Search, slack: float) -> bool:
        """Return whether a mode's relaxation allows a gain; note what it excludes."""
        mode, target = _key(search), self.target
        with self._within(Stage(slack)):
            allowed = search.may_improve()
        value = target.objective.ahead(self._known, slack)
        if allowed:
            self._open_at[mode] = value
        else:
            self.ledger.root(mode, value)
            self._tell()
        return allowed

    def _tell(self) -> None:
        """Tell the bound of the question to whoever listens, a few times a second at most."""
        if self.target.on_bound is None or time.monotonic() < self._tell_at:
            return
        bound = total_bound(self.ledger.proofs(), self.target.objective)
        if bound is not None:
            self.target.on_bound(bound)
        self._tell_at = time.monotonic() + TELL_EVERY_S

    def _slack(self, factor: float) -> float:
        return factor - 1 if self.target.objective.maximised else 1 - 1 / factor


def _key(search: Search) -> tuple[str, int]:
    return search.mode.strategy, search.mode.local_steps

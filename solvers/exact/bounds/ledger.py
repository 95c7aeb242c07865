"""The ledger of a proof: how the search of each mode ended, and the bound that its relaxation
proves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from placer.problem.placement import NO_EXCHANGE
from placer.solving.allowance import OutOfTimeError
from placer.solving.answer import ModeProof

from ..._target import STRICT, Target

BISECTIONS = 16
"""Halvings of the logarithm of a bound: to about 0.03 % of it."""
FARTHEST = 1e3
"""A mode whose relaxation is this many times worse than the best is not followed further."""


class Ledger:
    """Notes of one run of the searches, mode by mode.

    Parameters
    ----------
    target
        Incumbent, nodes and placements are read from it.

    Notes
    -----
    When the search of a mode ends, no placement of it is better than the incumbent of that moment
    by more than the gap.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._closed: dict[tuple[str, int], tuple[str, float | None, int, int]] = {}

    @contextmanager
    def mode(self, strategy: str, local_steps: int) -> Iterator[None]:
        """Note how one search ends."""
        target = self._target
        ticks, priced, skipped = target.ticks, target.candidates, target.skipped
        finished = False
        try:
            yield
            finished = target.skipped == skipped
        finally:
            nodes, tried = target.ticks - ticks, target.candidates - priced
            if not finished:
                method = "stopped"
            elif strategy == NO_EXCHANGE:
                method = "alone"
            else:
                method = "search" if nodes or tried else "root"
            self._closed[strategy, local_steps] = (
                method,
                self._reached() if finished else None,
                nodes,
                tried,
            )

    def _reached(self) -> float | None:
        """Return the value that nothing which was ruled out so far beats; None while nothing keeps
        the limits.
        """
        target = self._target
        if target.best is None:
            return None
        return target.objective.ahead(target.best_value, target.slack)

    def proofs(self, roots: Mapping[tuple[str, int], float | None]) -> tuple[ModeProof, ...]:
        """Put the notes and the bounds of the relaxations together.

        Parameters
        ----------
        roots
            Bound of the relaxation by mode, as far as it was worked out.
        """
        problem = self._target.problem
        modes = [*([(NO_EXCHANGE, 1)] if (NO_EXCHANGE, 1) in self._closed else []), *problem.modes]
        return tuple(self._proof(mode, roots) for mode in modes)

    def _proof(
        self, mode: tuple[str, int], roots: Mapping[tuple[str, int], float | None]
    ) -> ModeProof:
        method, reached, nodes, priced = self._closed.get(mode, ("stopped", None, 0, 0))
        root, worked_out = roots.get(mode), mode in roots
        if method == "stopped":
            # A mode that was never begun is closed all the same if its relaxation cannot beat the
            # incumbent.
            behind = (
                worked_out and not nodes and not priced and (root is None or self._behind(root))
            )
            method, bound = "root" if behind else "stopped", root
        elif reached is None or (worked_out and root is None):
            bound = None
        else:
            bound = reached if root is None else self._tighter(reached, root)
        return ModeProof(
            strategy=mode[0],
            local_steps=mode[1],
            method=method,
            bound=bound,
            root_bound=root,
            nodes=nodes,
            priced=priced,
        )

    def _behind(self, root: float) -> bool:
        """Return whether a mode with this bound cannot beat the best by more than the gap."""
        reached = self._reached()
        return reached is not None and self._tighter(reached, root) == root

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

"""What was proved about each way to exchange: the parts that the bound of an answer is made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

METHODS = ("alone", "root", "search", "stopped")
"""How the bound of a mode was found; see `ModeProof`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeProof:
    """What was proved about one strategy with its local steps.

    Notes
    -----
    ``method`` is ``alone`` (every single machine was looked at), ``root`` (the relaxation alone
    rules the mode out, no node was searched), ``search`` (branch and bound, finished) or
    ``stopped`` (not finished: only the relaxation holds). ``bound``: no placement of this mode is
    better, on the objective (samples/s, USD/h or USD per million samples); ``root_bound`` is what
    the relaxation alone proves. Of a closed mode, a bound of None says that no placement of it
    keeps the limits; of a stopped one, that nothing is known. ``nodes`` were searched, ``priced``
    placements priced in full.
    """

    strategy: str
    local_steps: int
    method: str
    bound: float | None
    root_bound: float | None
    nodes: int
    priced: int


def total_bound(proofs: Iterable[ModeProof], objective: str) -> float | None:
    """Bound on all modes together: the best of theirs; None if one is not known, or none holds a
    placement.

    Examples
    --------
    >>> made = dict(local_steps=1, root_bound=None, nodes=0, priced=0)
    >>> alone = ModeProof(strategy="none", method="alone", bound=200.0, **made)
    >>> ring = ModeProof(strategy="all-reduce", method="search", bound=212.0, **made)
    >>> total_bound([alone, ring], "throughput"), total_bound([alone, ring], "cost")
    (212.0, 200.0)
    """
    known = list(proofs)
    if any(proof.method == "stopped" and proof.bound is None for proof in known):
        return None
    bounds = [proof.bound for proof in known if proof.bound is not None]
    if not bounds:
        return None
    return max(bounds) if objective == "throughput" else min(bounds)

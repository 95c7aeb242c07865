"""The contract of a solver: what it is given beside the problem, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from placer.cost_model.objective import Objective
from placer.documents.schemas import proofs
from placer.documents.schemas.proofs import ModeProof, ProofWish
from placer.problem.placement import Placement
from placer.records import replace
from placer.solving.allowance import Cancel, Reason

Status = proofs.Status
"""How a solve ended: part of the contract, and of documents."""


def stopped_by(reason: Reason) -> Status:
    """Return how a search ended that was stopped.

    >>> [str(stopped_by(reason)) for reason in (Reason.MEMORY, Reason.NODES)]
    ['memory_limit', 'time_limit']
    """
    return Status.MEMORY_LIMIT if reason is Reason.MEMORY else Status.TIME_LIMIT


class SolveOptions(Struct, frozen=True, kw_only=True):
    """What a solver is given beside the problem.

    Relative gap, limits in seconds and in nodes of the search, seed, a placement to start from if a
    good one is known, a ``hint`` that may be far from the best, a function that hears the objective
    value of every better placement, whether a stopped search should work out a bound, whether to
    stop at the first placement that keeps every limit (`exact` alone), whether ties are broken by a
    second search, and a value of the objective that is known: only a better placement is wanted,
    and infeasible then says that there is none (`exact` alone; others may return a worse one).
    ``memory_limit_bytes`` is resident memory of the process, None what `allowance.opened` takes;
    ``cancel`` ends the search when it is set. ``on_bound`` hears None where a search begins, then a
    few times a second the best bound on the whole question, from solvers that prove one on the way.
    With a ``proof`` that is not full `exact` answers with a draft; a tighter limit may find better.
    After ``pause_nodes`` `exact` stops as if its time were up, with what it has found.
    """

    gap: float = 0.001
    proof: ProofWish = "full"
    time_limit_s: float = 30.0
    node_limit: int | None = None
    pause_nodes: int | None = None
    seed: int = 0
    start: Placement | None = None
    hint: Placement | None = None
    bound_if_stopped: bool = True
    first: bool = False
    certificate: bool = False
    break_ties: bool = True
    beat: float | None = None
    on_better: Callable[[float], None] | None = None
    on_bound: Callable[[float | None], None] | None = None
    memory_limit_bytes: int | None = None
    cancel: Cancel | None = None

    @property
    def deaf(self) -> SolveOptions:
        """Return the options of a search that nobody listens to."""
        return replace(self, on_better=None, on_bound=None)

    @property
    def asked(self) -> SolveOptions:
        """Return what a result keeps of its options: how it was asked, without what was known."""
        return replace(self.deaf, start=None, hint=None, beat=None, cancel=None)


class Answer(Struct, frozen=True, kw_only=True):
    """What a solver returns: a decision and a bound, not priced yet. ``bound`` is on the objective
    (samples/s, USD/h, USD per million samples, seconds or g CO2e/h); None if nothing is proved.
    ``candidates`` counts placements that were evaluated, ``nodes`` those of the search tree;
    ``proof`` says how the bound came about, mode by mode, and is empty where nothing is proved that
    way. ``interrupted`` says that Ctrl-C ended the search; ``left_open`` names the strategies that
    a second solver did not finish.
    """

    status: Status
    placement: Placement | None
    bound: float | None
    candidates: int
    nodes: int = 0
    proof: tuple[ModeProof, ...] = ()
    interrupted: bool = False
    left_open: tuple[str, ...] = ()


class Warn(Struct, frozen=True):
    """Something the user should know: a code for machines, a sentence for people."""

    code: str
    message: str


def total_bound(proofs: Iterable[ModeProof], objective: Objective) -> float | None:
    """Bound on all modes together: the best of theirs; None if one is not known, or none holds a
    placement.

    >>> from placer.cost_model.objective import objective_of
    >>> from placer.problem.requirements import Requirements
    >>> made = dict(local_steps=1, root_bound=None, nodes=0, priced=0)
    >>> alone = ModeProof(strategy="none", method="alone", bound=200.0, **made)
    >>> ring = ModeProof(strategy="all-reduce", method="search", bound=212.0, **made)
    >>> total_bound([alone, ring], objective_of(Requirements()))
    212.0
    >>> total_bound([alone, ring], objective_of(Requirements(objective="cost")))
    200.0
    """
    known = list(proofs)
    if any(proof.method == "stopped" and proof.bound is None for proof in known):
        return None
    return objective.best(proof.bound for proof in known if proof.bound is not None)

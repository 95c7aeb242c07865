"""What a user gets: a placement with estimate, fallbacks and proof, and what is said about it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, to_builtins

from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.limits import TOLERANCE
from placer.cost_model.objective import Objective, gap_between, objective_of
from placer.documents.result_parts import (
    OLDER,
    data_document,
    estimate_document,
    outlook_document,
    placement_document,
    request_document,
    totals_document,
    written,
)
from placer.documents.schemas import RESULT_SCHEMA, proofs
from placer.documents.schemas.proofs import BatchProof, BatchRow, ModeProof, ProofWish, Verification
from placer.errors import InfeasibleError
from placer.market.catalog import VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.report.shown import Shown
from placer.solving.answer import SolveOptions, Status, Warn
from placer.units import SPEED_LEVEL
from placer.workload.island import never_tried

if TYPE_CHECKING:
    import pandas as pd

DOUBT_Z = 1.96
"""Standard errors between what is promised and what a share of scenarios shows: of 40 ladders that
hold in the checked scenarios one has a share below what is asked.
"""
Rank: TypeAlias = proofs.Rank[Placement, Estimate]


def assured(share: float, count: int) -> float:
    """Return the share that at least so many scenarios in the long run reach, where some of a
    number of them do. The lower end of the score interval (Wilson, 1927) at `DOUBT_Z` standard
    errors.

    95.7 % of 4,096 scenarios are enough for 95 %.

    >>> round(assured(0.957, 4096), 3)
    0.95
    """
    doubt = DOUBT_Z**2 / count
    middle = share + doubt / 2
    width = math.sqrt(doubt * (share * (1 - share) + doubt / 4))
    return (middle - width) / (1 + doubt)


class ConfidentPlan(proofs.LadderOutcome[Placement, Estimate], frozen=True, kw_only=True):
    """What a plan reaches, and what follows from it."""

    @property
    def holds(self) -> bool:
        """Whether the plan reaches what was asked for."""
        return self.reached >= self.asked

    @property
    def assured(self) -> float:
        """Share of the scenarios that the plan reaches in the long run, with a margin."""
        return assured(self.reached, self.scenarios)

    @property
    def usd_per_finished(self) -> float | None:
        """Cost of all runs over those that finish, so that failing is no saving."""
        return None if self.usd is None or not self.reached else self.usd / self.reached

    def status(self, budget_usd: float | None) -> str:
        """Say how a plan ends: ``holds``, ``not-assured`` (it holds here, which may be chance),
        ``over-budget`` (its dearest runs cost more than the budget) or ``not-reached``.
        """
        if not self.holds:
            return "not-reached"
        if budget_usd is not None and (self.tail_usd or 0.0) > budget_usd * (1 + TOLERANCE):
            return "over-budget"
        # Nothing is assured beyond what scenarios that are all done show.
        most = assured(1.0, self.scenarios)
        return "holds" if self.assured >= min(self.asked, most) else "not-assured"


def confident_document(plan: ConfidentPlan | None, problem: Problem) -> dict[str, Any] | None:
    """Build the part ``confidence`` of a result; None where nobody asked."""
    if plan is None:
        return None
    finished, least = plan.usd_per_finished, plan.least_usd
    return {
        **written(plan, problem),
        "status": plan.status(problem.requirements.budget_usd),
        "assured": plan.assured,
        "holds": plan.holds,
        "usd_per_finished_run": finished,
        "gap": None if finished is None or least is None else gap_between(finished, least),
    }


PriceCase: TypeAlias = proofs.PriceCase[Placement, Estimate]
PriceRisk: TypeAlias = proofs.PriceRisk[VmOffer, Placement, Estimate]
HIGH, USUAL, WITHOUT = proofs.PRICE_CASES


class Option(Struct, frozen=True, kw_only=True):
    """A placement that was considered, with its estimate and what is said about it; ``same`` as the
    answer or not, ``proved`` best of its kind or only found.
    """

    placement: Placement
    estimate: Estimate
    label: str = ""
    note: str = ""
    same: bool = False
    proved: bool = True

    @staticmethod
    def of(placement: Placement, problem: Problem, **said: Any) -> Option:
        """Price a placement; ``said`` are label, note, and whether it is the same or proved."""
        return Option(placement=placement, estimate=estimate(placement, problem), **said)

    def __repr__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"<Option {self.placement.headline}: {self.estimate.headline}{note}>"


OwnOrRented: TypeAlias = proofs.OwnMachines[Option]


@dataclass(frozen=True, kw_only=True)
class Result(Shown):
    """One solver's checked and priced answer to one problem.

    `placer.solving.solve` fills the first fields; `placer.recommend` adds what was considered:
    ``options`` (best equal machines of each kind), ``baselines`` (what a single-region and an
    egress-blind tool would choose), ``near_misses`` (just outside a limit), ``verdict``
    (sentences), ``notes`` (what its shape implies) and ``warnings``; ``verification`` is what a
    second solver says, if one was asked; ``price_risk`` what is best if the price that the answer
    rests on most is wrong; ``spread`` the best found over two or more regions, where the answer
    stays in one; ``bold`` the answer at the figures of the book, where that is better;
    ``own_machines`` compares machines of one's own, where the question names some, with spot ones.
    ``batches`` holds a row for each batch of a range that was solved by itself, ``batch_proof``
    what is proved of all; ``problem`` has the chosen one. If nothing fits, ``nearest`` holds
    placements that fit after one change, named in their notes.
    """

    problem: Problem = field(repr=False)
    status: Status
    placement: Placement | None = None
    estimate: Estimate | None = None
    bound: float | None = None
    solver: str
    seconds: float = 0.0
    candidates: int = 0
    nodes: int = 0
    proof: tuple[ModeProof, ...] = ()
    limits: SolveOptions | None = field(default=None, repr=False)
    batches: tuple[BatchRow, ...] = ()
    batch_proof: BatchProof | None = None
    interrupted: bool = False
    left_open: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()
    baselines: tuple[Option, ...] = ()
    near_misses: tuple[Option, ...] = ()
    nearest: tuple[Option, ...] = ()
    verdict: tuple[str, ...] = ()
    notes: tuple[Warn, ...] = ()
    warnings: tuple[Warn, ...] = ()
    verification: Verification | None = None
    price_risk: PriceRisk | None = None
    confidence: ConfidentPlan | None = None
    spread: Option | None = None
    bold: Option | None = None
    own_machines: OwnOrRented | None = None

    def __repr__(self) -> str:
        return f"<Result {self.headline}>"

    def __getstate__(self) -> dict[str, Any]:
        """Leave what heard of the search out of the pickle: it stays where it is."""
        deaf = self.limits and replace(self.limits.deaf, cancel=None)
        return {**self.__dict__, "limits": deaf}

    @property
    def found(self) -> tuple[Placement, Estimate]:
        """Return placement and estimate of an answer that has them."""
        assert self.placement is not None
        assert self.estimate is not None
        return self.placement, self.estimate

    @property
    def headline(self) -> str:
        """Return the answer in one line: status, placement, speed, price and gap."""
        if self.placement is None or self.estimate is None:
            near = f"; {len(self.nearest)} placements fit after a change" if self.nearest else ""
            return f"{self.status}: no placement{near}"
        gap = "" if self.gap is None else f", gap {100 * self.gap:.2g} %"
        return f"{self.status}: {self.placement.headline}: {self.estimate.headline}{gap}"

    @property
    def objective(self) -> Objective:
        """Return the objective of the problem."""
        return objective_of(self.problem.requirements)

    @property
    def value(self) -> float | None:
        """Return the value of the objective; None without a placement."""
        return None if self.estimate is None else self.objective.value(self.estimate)

    @property
    def proof_wish(self) -> ProofWish:
        """Return how much was to be proved."""
        return "full" if self.limits is None else self.limits.proof

    @property
    def older(self) -> Option | None:
        """Return the proved best at any price, where the answer has newer prices instead."""
        return next((option for option in self.near_misses if option.label == OLDER), None)

    @property
    def proved(self) -> bool:
        """Whether the best is proved: of all placements, or of those at newer prices."""
        newer = self.status is Status.FEASIBLE and self.older is not None
        return newer or self.status is Status.OPTIMAL

    @property
    def gap(self) -> float | None:
        """Return the relative distance of the value from its bound; 0 is proved optimal."""
        value, bound = self.value, self.bound
        return None if value is None or bound is None else gap_between(value, bound)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.result/v1`` document; within v1 keys are only added."""
        problem, placement, estimate = self.problem, self.placement, self.estimate
        document: dict[str, Any] = {
            "schema": RESULT_SCHEMA,
            "request": request_document(problem),
            "data": data_document(problem),
            "speed_interval_level": SPEED_LEVEL,
            "status": str(self.status),
            "objective": objective_document(self),
            "solver": {
                "name": self.solver,
                "seconds": round(self.seconds, 6),
                "candidates": self.candidates,
                "nodes": self.nodes,
                **({} if self.proof_wish == "full" else {"proof": self.proof_wish}),
            },
            "proof": [to_builtins(proof) for proof in self.proof],
            "placement": None if placement is None else placement_document(placement, problem),
            "estimate": None if estimate is None else estimate_document(estimate),
            "totals": None if estimate is None else totals_document(estimate, problem),
            "outlook": None
            if placement is None or estimate is None
            else outlook_document(placement, estimate, problem),
            "batches": [to_builtins(row) for row in self.batches],
            "batch_proof": to_builtins(self.batch_proof),
            "alternatives": [option_document(o, "considered", problem) for o in self.options],
            "baselines": [option_document(o, o.label, problem) for o in self.baselines],
            "confidence": confident_document(self.confidence, problem),
            "near_misses": [option_document(o, o.label, problem) for o in self.near_misses],
            "nearest": [option_document(o, o.label, problem) for o in self.nearest],
            "price_risk": written(self.price_risk, problem),
            "verdict": list(self.verdict),
            "notes": [to_builtins(note) for note in self.notes],
            "warnings": [to_builtins(warning) for warning in self.warnings],
        }
        if problem.profile.architecture is not None:
            document["never_tried"] = never_tried(problem.profile.architecture)
        if self.own_machines is not None:
            rows = self.own_machines.rows
            document["own_machines"] = {
                "rows": [option_document(o, o.label, problem) for o in rows],
                "break_even": to_builtins(self.own_machines.break_even),
                "idle": self.own_machines.idle,
            }
        if self.verification is not None:
            document["verification"] = to_builtins(self.verification)
            document["verification"]["left_open"] = list(self.verification.left_open)
        return document

    def to_saved(self, *, whole: bool = False) -> dict[str, Any]:
        """Build the document that ``placer recommend -o`` writes: with the problem, so that it can
        be priced again; with the whole market, so that the bounds can be worked out again as well.
        """
        from placer.documents.saved_result import saved_document

        options = self.limits or SolveOptions()
        names = ("gap", "time_limit_s", "node_limit", "seed")
        limits = {name: getattr(options, name) for name in names}
        return saved_document(self.to_dict(), self.problem, self.placement, limits, whole=whole)

    def to_manifest(self) -> dict[str, Any]:
        """Build the ``placer.manifest/v1`` document; `InfeasibleError` without a placement."""
        from placer.documents.manifest.manifest_document import build_manifest

        if self.placement is None or self.estimate is None:
            raise InfeasibleError(
                "nothing fits the request, so there is no manifest", "relax a limit first"
            )
        return build_manifest(
            self.problem, self.placement, self.estimate, str(self.status), self.gap
        )

    def fallback_manifests(self) -> tuple[dict[str, Any], ...]:
        """Build a manifest for each fallback, in order: the first that gets machines is run."""
        from placer.documents.manifest.manifest_document import build_manifest

        ranks = () if self.confidence is None else self.confidence.ranks[1:]
        return tuple(
            build_manifest(self.problem, rank.placement, rank.estimate, "feasible", None)
            for rank in ranks
        )

    def to_frame(self) -> pd.DataFrame:
        """Build one row for each considered placement, the chosen one first (pandas)."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "chosen": option.placement == self.placement,
                    "workers": " + ".join(group.spec for group in option.placement.groups),
                    "exchange": option.placement.exchange.strategy,
                    "local_steps": option.placement.exchange.local_steps,
                    "samples_per_second": option.estimate.samples_per_second.value,
                    "effective_samples_per_second": (
                        option.estimate.effective_samples_per_second.value
                    ),
                    "step_seconds": option.estimate.step.total,
                    "usd_per_hour": option.estimate.usd_per_hour.total,
                    "egress_usd_per_hour": option.estimate.usd_per_hour.egress,
                    "usd_per_million_samples": option.estimate.usd_per_million_samples,
                }
                for option in self.options
            ]
        )

    def to_shown(self) -> dict[str, Any]:
        """Build the document that a report is drawn from: with the rows of the price book."""
        return self.to_saved()


def objective_document(result: Result) -> dict[str, Any]:
    """Build the part ``objective`` of documents with a result: name, value, bound and gap."""
    return {
        "name": result.objective.name,
        "value": result.value,
        "bound": result.bound,
        "gap": result.gap,
    }


def answer_document(result: Result) -> dict[str, Any]:
    """Build what other documents say of a result: status, objective, placement and estimate."""
    placement, estimate = result.placement, result.estimate
    return {
        "status": str(result.status),
        "objective": objective_document(result),
        "placement": None if placement is None else placement_document(placement, result.problem),
        "estimate": None if estimate is None else estimate_document(estimate),
    }


def option_document(option: Option, label: str, problem: Problem) -> dict[str, Any]:
    """Build one row of ``alternatives``, ``baselines``, ``near_misses`` or ``nearest``."""
    return {
        "label": label,
        "note": option.note,
        "placement": placement_document(option.placement, problem),
        "estimate": estimate_document(option.estimate),
    }

"""The document of ``placer recommend``, with the problem and the certificate of saved ones."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, field

from placer.cost_model.outlook.totals import Totals
from placer.documents.schemas.parts import (
    BookData,
    Closed,
    Digest,
    Estimate,
    Maybe,
    Message,
    Objective,
    Option,
    Outlook,
    Part,
    Placement,
    Request,
    every_key,
)
from placer.documents.schemas.proofs import (
    BatchProof,
    BatchRow,
    LadderOutcome,
    ModeProof,
    OwnMachines,
    PriceRisk,
    Status,
    Verification,
)
from placer.problem.problem import SCHEMA as PROBLEM_SCHEMA
from placer.problem.problem import Problem
from placer.problem.question import PARTS
from placer.records import Amount, Count, Natural, Positive, Share
from placer.workload.inner_plan import InnerPlan


class DeviceSpeed(Part, frozen=True):
    """Speeds of a device: alone, and in a group."""

    gpu: str
    gpu_count: Natural
    alone: Positive
    in_group: Positive
    basis: str
    machines: Maybe[Natural] = UNSET
    inner: Maybe[InnerPlan | None] = UNSET


class MachineSpeed(DeviceSpeed, frozen=True, kw_only=True):
    """Speeds of a machine of the answer: alone, and in a group.

    free_share: Share of the time behind which an exchange may hide that those inside the worker
        leave to one between workers; 1 where it is left out.
    """

    place: str
    offer: str
    market: str
    free_share: Maybe[Share] = UNSET


class LinkSpeed(Part, frozen=True):
    """A directed link as the model has it."""

    from_: str = field(name="from")
    to: str
    bytes_per_second: Positive
    cap: Positive
    rtt_s: Amount
    basis: str


class Figures(Part, frozen=True):
    """Speeds of the machines and links of the answer."""

    machines: list[MachineSpeed]
    links: list[LinkSpeed]


class IslandKind(Closed, frozen=True):
    """A kind of machine of which islands were searched, and of how many."""

    gpu: str
    gpu_count: Natural
    network_gbps: Amount
    fabric: str
    machines: list[Natural]


class Searched(Part, frozen=True):
    """Which workers with a plan the proof is about: how many, and of how many machines of each
    kind; of each the fastest of all plans and microbatches but those that are never tried.
    """

    workers: list[Natural]
    islands: list[IslandKind]
    never_tried: Maybe[str] = UNSET


class AdmittedSpeed(DeviceSpeed, frozen=True):
    """Speeds of an admitted device: alone, and in a group."""

    network_gbps: Maybe[float | None] = UNSET
    fabric: Maybe[str] = UNSET


class Mode(Part, frozen=True):
    """The bound of one strategy."""

    strategy: str
    local_steps: Count
    samples_to_target: float
    bound: float | None


class Relaxation(Part, frozen=True):
    """What the bounds of whole strategies are checked with."""

    speeds: list[AdmittedSpeed]
    multipliers: list[Amount]
    modes: list[Mode]


class Certificate(Part, frozen=True, tag_field="schema", tag="placer.certificate/v1"):
    """The part certificate of a file of placer recommend -o: digests (SHA-256 of canonical JSON) of
    what the answer rests on, and what placer validate works its bounds out with.

    whole: Whether the file has the whole market; missing in files of early versions.
    """

    placer: str
    solver: str
    gap: float
    time_limit_s: float
    node_limit: int | None
    seed: int
    book: str
    inputs: Annotated[dict[str, Digest], Meta(extra_json_schema={"required": list(PARTS)})]
    figures: Figures | None
    relaxation: Relaxation | None
    whole: Maybe[bool] = UNSET
    searched: Maybe[Searched] = UNSET


class ProblemFile(
    Problem, frozen=True, kw_only=True, dict=True, tag_field="schema", tag=PROBLEM_SCHEMA
):
    """A question with everything that its answer depends on: what saved results keep as problem."""


SavedProblem = Annotated[ProblemFile, every_key(ProblemFile)]


class Search(Part, frozen=True):
    """Which solver answered, in what time; nodes of the search tree.

    proof: Of a draft: whether a quick bound was asked for, or none.
    """

    name: str
    seconds: Amount
    candidates: Count
    nodes: Maybe[Count] = UNSET
    proof: Maybe[Literal["quick", "none"]] = UNSET


class PriceRow(Part, frozen=True):
    """A row of the price book."""

    place: str
    offer: str
    gpu: str
    gpu_count: Natural
    market: str
    price_basis: str
    source: str
    as_of: str


class WholeRun(Totals, frozen=True, kw_only=True):
    """Time and money for all samples of the request; null where it gives none."""

    tokens: Maybe[Natural] = UNSET


class Confidence(LadderOutcome[Placement, Estimate], frozen=True, kw_only=True):
    """The plan with fallbacks that holds in the share of scenarios that was asked for; null where
    nobody asked.

    status: Of the plan; the status of the result is that of the best placement where every machine
        is there. holds: `assured` is at least `asked`. not-assured: `reached` is, which may be
        chance. over-budget: `tail_usd` is above the budget in total. not-reached: `reached` is
        below `asked`, in the best of the plans that were tried before the time was up; it is not
        proved that no plan reaches it. Without a stopped search the last two are errors with exit
        code 3.
    assured: Share of the scenarios that is reached in the long run: the lower end of a 95 % score
        interval around `reached`.
    usd_per_finished_run: Mean cost of a run over the share of runs that finish: plans are compared
        by it. Null without a deadline, or where none finishes.
    gap: Relative distance of `usd_per_finished_run` from `least_usd`: what a plan that nobody tried
        may save at most.
    """

    holds: bool
    ladders_tried: Maybe[Count] = UNSET  # type: ignore[assignment]  # older files lack it
    status: Maybe[Literal["holds", "not-assured", "over-budget", "not-reached"]] = UNSET
    assured: Maybe[Annotated[float, Meta(le=1)]] = UNSET
    usd_per_finished_run: Maybe[float | None] = UNSET
    gap: Maybe[float | None] = UNSET


class Result(Part, frozen=True, tag_field="schema", tag="placer.result/v1"):
    """Units stand in the names; prices are USD.

    speed_interval_level: Share of runs within low and high of a speed, at least.
    batches: One row for each target batch size of a range that was solved by itself; empty where
        one was given.
    proof: What was proved about each strategy; empty where the solver proves nothing that way.
    never_tried: Plans inside a worker that no search tries, so that no proof is about them; missing
        for models without dimensions.
    certificate: Only in saved files.
    problem: Only in saved files with a placement.
    question: Only in saved files without a placement.
    """

    request: Request
    data: BookData
    status: Status
    objective: Objective
    solver: Search
    placement: Placement | None
    estimate: Estimate | None
    alternatives: list[Option]
    baselines: list[Option]
    near_misses: list[Option]
    nearest: list[Option]
    verdict: list[str]
    warnings: list[Message]
    outlook: Outlook | None
    notes: list[Message]
    speed_interval_level: Maybe[Annotated[Positive, Meta(le=1)]] = UNSET
    verification: Maybe[Verification] = UNSET
    own_machines: Maybe[OwnMachines[Option]] = UNSET
    price_risk: Maybe[PriceRisk[PriceRow, Placement, Estimate] | None] = UNSET
    totals: Maybe[WholeRun | None] = UNSET
    batch_proof: Maybe[BatchProof | None] = UNSET
    batches: Maybe[list[BatchRow]] = UNSET
    proof: Maybe[list[ModeProof]] = UNSET
    never_tried: Maybe[str] = UNSET
    certificate: Maybe[Certificate] = UNSET
    confidence: Maybe[Confidence | None] = UNSET
    problem: Maybe[SavedProblem] = UNSET
    question: Maybe[SavedProblem] = UNSET

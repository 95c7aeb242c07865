"""Documents about many or changed questions: robust, sweep, whatif, replan, replay."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, field

from placer.documents.schemas.parts import (
    BookData,
    Digest,
    Estimate,
    Maybe,
    Named,
    Objective,
    Part,
    Placement,
    Request,
    Some,
    every_key,
)
from placer.documents.schemas.proofs import Status
from placer.problem.words.changes import Change
from placer.records import Amount, Count, Natural, Positive, Share

Figure = Literal["price", "bandwidth", "rate", "phi"]
Changed = Annotated[Change, every_key(Change)]


class Answered(Part, frozen=True):
    """What is best in a world."""

    status: Status
    objective: Objective
    placement: Placement | None
    estimate: Estimate | None


class Factor(Part, frozen=True):
    """One uncertain figure and the factors at the ends of its range.

    basis: How the figure is known today.
    """

    kind: Figure
    figure: str
    low: float
    high: float
    basis: str


class RegretLimits(Part, frozen=True):
    """From where on an answer is called fragile."""

    regret: float
    share: float
    worst: float


class Regret(Part, frozen=True):
    """What the answer loses against the best placement of drawn worlds."""

    kind: Literal["exact", "lower bound"]
    candidates: Count
    worlds: Count
    corners: Count
    mean: float
    worst: float | None
    expected_loss: float
    share_best: Share
    share_bad: Share
    share_broken: Share
    fragile: bool
    limits: RegretLimits


class WorstWorld(Part, frozen=True):
    """The world in which the answer loses most."""

    set: list[str]
    value: float
    best_value: float
    relative_regret: float
    best_placement: Placement | None


class Steadiest(Part, frozen=True):
    """The placement that loses least on average."""

    placement: Placement | None
    expected_loss: float


class MeasuringWorth(Factor, frozen=True):
    """What it is worth to measure a figure."""

    expected_loss_saved: float
    measure: str


class Robust(Answered, frozen=True, kw_only=True, tag_field="schema", tag="placer.robust/v1"):
    """What a recommendation loses against the best placement if figures are not what the book says.

    spot_price_correlation: Correlation of the spot prices of one device of a provider in the drawn
        worlds; null where no two of them vary.
    """

    request: Request
    data: BookData
    factors: list[Factor]
    regret: Regret | None
    worst: WorstWorld | None
    steadiest: Steadiest | None
    worth: list[MeasuringWorth]
    spot_price_correlation: Maybe[float | None] = UNSET


class Axis(Part, frozen=True):
    """A wish or figure and its values."""

    what: str
    values: list[str]


class SweepQuestion(Part, frozen=True):
    """What was asked.

    question: SHA-256 of the question, its points, the solver and the version of placer.
    """

    question: Digest
    placer_version: str
    request: Request
    data: BookData
    over: list[Axis]
    points: Count
    solver: str
    gap: float
    time_limit_s: float
    seed: int


class Breakpoint(Part, frozen=True):
    """Neighbouring points with different answers."""

    from_: list[str] = field(name="from")
    to: list[str]


class SweepRow(Part, frozen=True):
    """One point, also a line of the file of -o. A refused point has a message, one where nothing
    fits no workers. samples_per_second counts towards the target.
    """

    point: Count
    key: str
    set: list[str]
    status: Literal[
        "optimal", "feasible", "infeasible", "time_limit", "memory_limit", "unknown", "refused"
    ]
    message: Maybe[str] = UNSET
    objective: Maybe[str] = UNSET
    value: Maybe[float | None] = UNSET
    bound: Maybe[float | None] = UNSET
    workers: Maybe[list[str]] = UNSET
    offers: Maybe[list[str]] = UNSET
    exchange: Maybe[str] = UNSET
    local_steps: Maybe[Count] = UNSET
    regions: Maybe[Count] = UNSET
    samples_per_second: Maybe[float] = UNSET
    usd_per_hour: Maybe[float] = UNSET
    egress_usd_per_hour: Maybe[float] = UNSET
    usd_per_million_samples: Maybe[float] = UNSET
    effective_tokens_per_second: Maybe[float] = UNSET
    usd_per_billion_tokens: Maybe[float] = UNSET


class Sweep(SweepQuestion, frozen=True, tag_field="schema", tag="placer.sweep/v1"):
    """A question solved for every combination of some ranges. The file of -o has the same keys in
    its header line (schema placer.sweep-points/v1), then one row a line.
    """

    complete: bool
    breakpoints: list[Breakpoint]
    rows: list[SweepRow]


class SweepHeader(SweepQuestion, frozen=True, tag_field="schema", tag="placer.sweep-points/v1"):
    """Each line of the file of placer whatif --over -o is one: the header first, then one row a
    point in the order in which they were solved.
    """


SweepLine = (SweepHeader, SweepRow)


class WhatIfSide(Answered, frozen=True):
    """The question and its answer, before or after the change."""

    request: Request


class WhatIfDifference(Part, frozen=True):
    """What the change does to the main figures."""

    samples_per_second: float
    usd_per_hour: float
    egress_usd_per_hour: float
    usd_per_million_samples: float


class KeptValue(Part, frozen=True):
    """The objective of the old placement."""

    name: str
    value: float | None


class KeptPlacement(Part, frozen=True):
    """The old placement in the changed world."""

    estimate: Estimate | None
    objective: KeptValue
    violations: list[str]
    relative_regret: float | None


class WhatIf(Part, frozen=True, tag_field="schema", tag="placer.whatif/v1"):
    """A question as it is and in a changed world."""

    request: Request
    data: BookData
    changes: list[Changed]
    before: WhatIfSide
    after: WhatIfSide
    difference: WhatIfDifference | None
    same_placement: bool
    kept: KeptPlacement | None


class ObservedSpeed(Part, frozen=True):
    """Samples/s that one machine of a kind calculated, beside the plan's figure.

    device: Name as on the command line.
    factor: Measured over planned.
    """

    device: str
    workers: int
    planned: float
    measured: float
    factor: float


class LostWorker(Part, frozen=True):
    """A rank that ended of its own.

    place: Null for a server or function.
    """

    rank: int
    place: str | None
    step: int
    reason: str


class Observed(Part, frozen=True):
    """What a run measured. Where it was not at the plan's places, or was too short, there are no
    speeds and the other figures are null: then it only says who was lost.

    rounds: Those that count.
    exchange_s: Of one round, with the wait for others.
    """

    links: Literal["real", "loopback", "shaped"]
    rounds: Count
    speeds: list[ObservedSpeed]
    samples_per_second: float | None
    exchange_s: float | None
    lost: list[LostWorker]


class Running(Part, frozen=True):
    """The plan without lost workers in the observed world; null if all are lost."""

    placement: Placement | None
    estimate: Estimate | None
    value: float | None
    violations: list[str]


class Replan(Part, frozen=True, tag_field="schema", tag="placer.replan/v1"):
    """The question of a plan, solved again with what its run measured.

    gain: Share of improvement over what runs: of the new samples/s, else of the old figure.
    break_even_seconds: Seconds from the beginning of a move until it has paid off: move_seconds /
        gain.
    """

    manifest: Named
    request: Request
    data: BookData
    observed: Observed
    changes: list[Changed]
    running: Running | None
    answer: Answered
    verdict: Literal["keep", "restore", "move", "nothing"]
    gain: float | None
    move_seconds: float
    break_even_seconds: float | None
    kept_machines: Count
    notes: list[str]


class Trace(Part, frozen=True):
    """A trace of capacity.

    asked: Machines that each zone was asked for.
    carried: Share of cells in which nobody looked: they have what the zone had last.
    """

    zones: Some[str]
    first: str
    ticks: Natural
    tick_hours: Positive
    asked: Natural
    carried: Share


class ReplayJob(Part, frozen=True):
    """The work that policies must finish."""

    machines: Natural
    work_hours: Positive
    deadline_hours: Positive
    restart_hours: Amount
    reform_hours: Amount
    efficiency: Annotated[Positive, Meta(le=1)]
    quorum: Annotated[Positive, Meta(le=1)]
    checkpoint_gib: Amount
    exchange_gib_per_hour: Amount


class ReplayMarket(Part, frozen=True):
    """Where on-demand machines come from."""

    on_demand_place: str
    on_demand_usd_per_hour: Amount
    source: str


class Policy(Part, frozen=True):
    """What a policy costs, as means over the starts.

    moves: Times that the checkpoint went to another place.
    on_demand_hours: Machine-hours on-demand over the machines of the job.
    on_demand_for_good: Runs that ended on on-demand machines because the slack was used up.
    """

    policy: str
    usd: Amount
    worst_usd: Amount
    worst_start: str
    missed: Count
    moves: Amount
    machines_lost: Amount
    checkpoint_usd: Amount
    exchange_usd: Amount
    on_demand_hours: Amount
    idle_hours: Amount
    several_places_hours: Amount
    on_demand_for_good: Count


class Offline(Part, frozen=True):
    """What could have been done with all known beforehand.

    optimum_usd: Least dollars in one place at a time, knowing everything; null where it was not
        asked for.
    bound_usd: Dollars that no policy undercuts in any number of places.
    """

    optimum_usd: Amount | None
    bound_usd: Amount | None


class Sensitivity(Part, frozen=True):
    """How far dollars move with an assumption."""

    change: str
    span_usd: Amount


class Replay(Part, frozen=True, tag_field="schema", tag="placer.replay/v1"):
    """Policies over a trace of spot capacity. Figures of policies are means over the starts."""

    trace: Trace
    job: ReplayJob
    market: ReplayMarket
    starts: Some[str]
    policies: Some[Policy]
    offline: Offline
    sensitivity: list[Sensitivity]
    assumptions: list[str]


class Action(Part, frozen=True):
    """What to do at a tick.

    usd: What the change itself costs: the hours that machines of its place are paid without work,
        and the checkpoint that goes to a new place.
    from: The place that a move leaves.
    """

    action: Literal["lose", "add", "drop", "move"]
    place: str
    machines: Natural
    usd: Amount
    from_: str | None = field(name="from")


class Watch(Part, frozen=True, tag_field="schema", tag="placer.watch/v1"):
    """One line of placer capacity watch --json: a tick that changes something.

    held: Machines by place from now on.
    usd: Dollars since the feed began.
    latest_on_demand: When on-demand machines must start if nothing works until then; null once the
        work is done.
    """

    utc: str
    actions: list[Action]
    held: dict[str, Natural]
    usd_per_hour: Amount
    usd: Amount
    done_hours: Amount
    slack_hours: float
    latest_on_demand: str | None
    on_demand_for_good: bool
    finished: bool

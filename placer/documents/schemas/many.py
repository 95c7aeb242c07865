"""The documents of ``placer pareto`` and ``placer portfolio``."""

from __future__ import annotations

from typing import Generic, Literal

from msgspec import UNSET

from placer.documents.schemas.parts import (
    BookData,
    Closed,
    Estimate,
    Maybe,
    Message,
    Option,
    Part,
    Placement,
    Wishes,
)
from placer.documents.schemas.proofs import E, P
from placer.documents.schemas.result import Result, SavedProblem
from placer.problem.requirements import Quota
from placer.records import Amount, Count


class Axes(Part, frozen=True):
    """Keys of a point that are plotted against each other."""

    cost: Literal["usd_per_hour"]
    gain: Literal["samples_per_second"]


class Solves(Part, frozen=True):
    """Which solver answered, in what time and how many questions."""

    name: str
    seconds: Amount
    solves: Count


class FrontierPoint(Part, Generic[P, E], frozen=True, kw_only=True):
    """One placement that no other one found beats in both cost and throughput.

    samples_per_second: Samples/s that count towards the target.
    marginal_usd_per_million_samples: Price of a million samples more than the point before gives;
        null for the first.
    least_usd_per_hour: No placement that is as fast costs less; null: not proved.
    most_samples_per_second: No placement that costs as much or less is faster; null: not proved.
    gap: Larger relative distance of the two figures from their bounds.
    """

    usd_per_hour: Amount
    samples_per_second: Amount
    usd_per_million_samples: Amount
    marginal_usd_per_million_samples: Amount | None
    least_usd_per_hour: Amount | None
    most_samples_per_second: Amount | None
    gap: Amount | None
    status: Literal["optimal", "time_limit", "memory_limit", "feasible"]
    placement: P
    estimate: E


class Frontier(Part, frozen=True, tag_field="schema", tag="placer.pareto/v1"):
    """The frontier of cost against throughput; units stand in the names; prices are USD.

    status: Why there are no more points; complete: it is proved that there are none.
    knee: Position in points.
    best_value: Position in points of the lowest price of a sample.
    points: From the cheapest to the fastest.
    problem: Only in saved files.
    """

    request: Wishes
    data: BookData
    axes: Axes
    status: Literal[
        "complete",
        "points",
        "open",
        "time_limit",
        "memory_limit",
        "interrupted",
        "nothing",
        "infeasible",
        "unknown",
    ]
    proved: bool
    gap: Amount
    solver: Solves
    knee: Count | None
    best_value: Count | None
    points: list[FrontierPoint[Placement, Estimate]]
    nearest: list[Option]
    warnings: list[Message]
    problem: Maybe[SavedProblem] = UNSET


class PortfolioObjective(Part, frozen=True):
    """What all jobs together are best by.

    per_dollar: What one more USD/h of the budget adds to the objective, by the relaxation.
    """

    name: Literal["cost", "throughput", "time"]
    unit: Literal["USD/h", "USD", "weighted samples/s", "weighted h"]
    value: float
    bound: float | None
    gap: float | None
    per_dollar: Maybe[float | None] = UNSET


class Fairness(Part, frozen=True):
    """Shares of the speed that each job would have alone: the least one, what no choice gives all
    jobs, and the jobs that have the least.
    """

    least_share: float
    bound: float | None
    held_back: list[str]


class OneByOne(Part, frozen=True):
    """What jobs cost that are placed one after the other."""

    usd: float
    left_out: int
    saving: float | None
    value: Maybe[float] = UNSET


class Slots(Part, frozen=True):
    """How time is divided."""

    count: int
    hours: float


class Block(Part, frozen=True):
    """Machines that are reserved for a time."""

    name: str
    place: str
    offer: str
    gpu: str
    gpu_count: int
    market: str
    machines: int
    first_slot: int
    slots: int
    usd: float


class SharedMachines(Part, frozen=True):
    """How many machines of one kind there are."""

    place: str
    offer: str
    market: str
    machines: float


class TeamLimits(Part, frozen=True):
    """What the jobs of a team may take together."""

    name: str
    budget_usd: float | None
    quotas: list[Quota]


class Shared(Part, frozen=True):
    """What the jobs share."""

    quotas: list[Quota]
    quota_gpus: int | None
    budget_usd: float | None
    slots: Slots | None
    blocks: list[Block]
    machines: list[SharedMachines]
    teams: Maybe[list[TeamLimits]] = UNSET


class Displaced(Part, frozen=True):
    """Something that a job would have taken alone and that others hold.

    wanted, left: In the first slot in which it is short.
    by: Who holds it, who has most of it first.
    """

    resource: str
    unit: Literal["GPU", "machine", "USD/h", "USD"]
    place: str
    wanted: float
    left: float
    by: tuple[str, ...]
    slot: int


class PortfolioJob(Part, frozen=True):
    """One job.

    result: The saved result of the job: with -o.
    """

    name: str
    model: str
    priority: int
    weight: float
    max_share: float
    runs: bool
    reason: str
    start: int
    slots: int
    usd: float | None
    alone_usd: float | None
    alone_workers: list[str]
    displaced: list[Displaced]
    placement: Placement | None
    estimate: Estimate | None
    result: Maybe[Result] = UNSET
    alone_samples_per_second: Maybe[float | None] = UNSET
    share: Maybe[float | None] = UNSET
    team: Maybe[str] = UNSET


class ResourceWorth(Part, frozen=True):
    """What the jobs save with one more of a resource and all else as it is, among the placements
    that were looked at.

    usd: Per hour, or in total with slots; below 0 where more jobs run, and what they cost.
    runs: Jobs that run then, too.
    """

    resource: str
    unit: Literal["GPU", "machine"]
    usd: float
    slots: tuple[int, ...]
    runs: Maybe[tuple[str, ...]] = UNSET


class PortfolioSearch(Part, frozen=True):
    """How long the search took."""

    seconds: float
    rounds: int
    searches: int


class Portfolio(Closed, frozen=True, tag_field="schema", tag="placer.portfolio/v1"):
    """Who runs where and when, of jobs that share quotas, budgets and reservations; what `placer
    portfolio` writes.
    """

    objective: PortfolioObjective
    status: Literal["all_run", "some_left_out", "time_limit"]
    usd: float
    unit: Literal["USD/h", "USD"]
    one_by_one: OneByOne
    shared: Shared
    jobs: list[PortfolioJob]
    worth: list[ResourceWorth]
    giving_way: list[str]
    left_out_proved: bool
    solver: PortfolioSearch
    fair: Maybe[Fairness | None] = UNSET

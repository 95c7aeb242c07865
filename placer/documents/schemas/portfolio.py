"""The document of ``placer portfolio``."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET

from placer.documents.schemas.parts import Closed, Estimate, Maybe, Part, Placement
from placer.documents.schemas.result import Result


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


class SharedQuota(Part, frozen=True):
    """A quota of all jobs together."""

    place: str
    gpu: str
    market: str
    gpus: int
    scope: Literal["each", "together"]


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


class Shared(Part, frozen=True):
    """What the jobs share."""

    quotas: list[SharedQuota]
    quota_gpus: int | None
    budget_usd: float | None
    slots: Slots | None
    blocks: list[Block]
    machines: list[SharedMachines]


class Displaced(Part, frozen=True):
    """What a job would have wanted, and who has it."""

    resource: str
    unit: Literal["GPU", "machine", "USD/h"]
    place: str
    wanted: float
    left: float
    by: list[str]
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


class ResourceWorth(Part, frozen=True):
    """What one more unit of a resource saves."""

    resource: str
    unit: Literal["GPU", "machine"]
    usd: float
    slots: list[int]


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

"""Documents about placements given by hand, what changes between results, and the bill of one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET

from placer.documents.schemas.parts import (
    BookData,
    Day,
    Estimate,
    Maybe,
    Message,
    Outlook,
    Part,
    Placement,
    Request,
)
from placer.records import Amount, Count, Natural, Positive, one_of


class Estimated(Part, frozen=True, tag_field="schema", tag="placer.estimate/v1"):
    """Time and price of a placement given by hand; violations are the limits of the request that it
    breaks.
    """

    request: Request
    data: BookData
    placement: Placement
    estimate: Estimate
    outlook: Outlook | None
    notes: list[Message]
    violations: list[Message]


class Compared(Part, frozen=True):
    """One placement given by hand.

    violations: Limits of the request that it breaks.
    inside_seconds: What a step of the slowest worker consists of before it exchanges with others,
        in seconds that nothing else hides; missing without a plan inside.
    """

    placement: Placement
    estimate: Estimate
    violations: list[str]
    inside_seconds: Maybe[dict[str, float]] = UNSET
    outlook: Maybe[Outlook | None] = UNSET


class Comparison(Part, frozen=True, tag_field="schema", tag="placer.comparison/v1"):
    """Placements given by hand, timed and priced side by side, in the order of the command line."""

    request: Request
    data: BookData
    placements: list[Compared]


class ResultSide(Part, frozen=True):
    """A saved result that was compared.

    name: Its file.
    """

    name: str
    model: str
    status: str
    catalog: str
    digest: str
    as_of: str


class ChangedWish(Part, frozen=True):
    """A wish that differs."""

    wish: str
    before: Any
    after: Any


class ChangedMachines(Part, frozen=True):
    """A kind of machines of either side; a parameter server is one.

    sign: Changed, new, gone; empty where nothing changes.
    usd_per_hour_before, usd_per_hour_after: Of all machines of the kind.
    usd_per_month_change: Of 730 hours.
    """

    sign: Literal["", "~", "+", "-"]
    place: str
    offer: str
    gpu: str
    gpu_count: Natural
    market: str
    machines_before: Count
    machines_after: Count
    usd_per_hour_before: float
    usd_per_hour_after: float
    usd_per_month_change: float


class ChangedExchange(Part, frozen=True):
    """The exchanges of both sides, in words."""

    before: str | None
    after: str | None


class ChangedFigure(Part, frozen=True):
    """A figure of both sides.

    name: total (USD) and hours are of the whole run, and null without a number of samples or
        tokens; of a plan with a confidence, total is USD per finished run.
    relative_change: Change over the figure before; null where that is 0 or not known.
    """

    sign: Literal["", "~"]
    name: Literal[
        "cost", "total", "hours", "machines", "egress", "speed", "price", "step", "carbon"
    ]
    unit: str
    before: float | None
    after: float | None
    change: float | None
    relative_change: float | None


class ChangedCost(Part, frozen=True):
    """Cost of 730 hours."""

    before: float | None
    after: float | None
    change: float | None


class Difference(Part, frozen=True, tag_field="schema", tag="placer.diff/v1"):
    """What changes from one saved result to another.

    wishes: Wishes of the request that differ.
    failed: Conditions of --fail-on that hold.
    """

    before: ResultSide
    after: ResultSide
    same_placement: bool
    wishes: list[ChangedWish]
    machines: list[ChangedMachines]
    exchange: ChangedExchange
    figures: list[ChangedFigure]
    usd_per_month: ChangedCost
    failed: list[str]


class LinkBytes(Part, frozen=True):
    """Bytes that a directed link carries."""

    src: str
    dst: str
    bytes_per_round: float


class Waiting(Part, frozen=True):
    """Mean time that a worker of a place waits at barriers."""

    place: str
    seconds_per_round: float


class Simulation(Part, frozen=True, tag_field="schema", tag="placer.simulation/v1"):
    """A placement replayed event by event beside the closed form. Seconds are of one round.

    workers: The placement, as on the command line.
    round_seconds: From exchange to exchange, in order.
    p5, p50, p95: Percentiles of the rounds.
    difference: Mean simulated round over the predicted one, minus 1.
    tokens_per_sample: Only of language models.
    """

    workers: str
    strategy: str
    rounds: Natural
    seed: int
    jitter: float
    stragglers: float
    straggler_factor: float
    samples_per_second: float
    round_seconds: list[float]
    p5: float
    p50: float
    p95: float
    bytes_by_link: list[LinkBytes]
    waiting_by_place: list[Waiting]
    predicted_samples_per_second: float
    predicted_round_seconds: float
    difference: float
    tokens_per_sample: Maybe[Natural] = UNSET


class Validation(Part, frozen=True, tag_field="schema", tag="placer.validation/v1"):
    """A file is what it says. What is not valid is an error (placer.error/v1).

    confirmed: Figures that were worked out again.
    trusted: Figures that this check takes as given.
    """

    valid: Annotated[bool, one_of(True)]
    message: str
    confirmed: Maybe[list[str]] = UNSET
    trusted: Maybe[list[str]] = UNSET


class Found(Part, frozen=True):
    """A version, an extra or a self-test."""

    name: str
    found: str
    hint: str


class Doctor(Part, frozen=True, tag_field="schema", tag="placer.doctor/v1"):
    """Versions and extras, and whether the optional solvers pass their self-tests."""

    rows: list[Found]


class ConfigFiles(Part, frozen=True):
    """Where defaults may stand."""

    project: str | None
    user: str


class Setting(Part, frozen=True):
    """A default.

    command: The command whose table has it; null: it is for all.
    """

    option: str
    value: str | bool | float | list[Any]
    origin: str
    command: Maybe[str | None] = UNSET


class Config(Part, frozen=True, tag_field="schema", tag="placer.config/v1"):
    """The defaults of the options that hold in a folder, and where each comes from."""

    files: ConfigFiles
    settings: list[Setting]


class Mistake(Part, frozen=True):
    """What went wrong.

    message: One line that names the thing and its value.
    hint: What to do about it; empty if there is nothing to add.
    field: Word of the request that is wrong; only where one is.
    value: What that word says.
    """

    message: str
    hint: str
    exit_code: Natural
    type: Maybe[
        Literal["bad-input", "infeasible", "limit", "data", "source", "failure", "error"]
    ] = UNSET
    field: Maybe[str] = UNSET
    value: Maybe[str] = UNSET


class Failure(Part, frozen=True, tag_field="schema", tag="placer.error/v1"):
    """What every command with --json prints on stdout where it fails; the same words stand on
    stderr. exit_code is that of the process.
    """

    error: Mistake


COMPONENTS = ("compute", "egress", "storage", "functions", "data", "other")
"""What a bill tells apart. Data that is read from a store is egress of its place; ``data`` is what
has no place.
"""
Component = Annotated[str, one_of(*COMPONENTS)]


class BilledLine(Part, frozen=True, kw_only=True):
    """Something of the plan, and what was charged for it.

    place: Null where the plan does not say where it is paid.
    charges: Number of charges.
    machine_hours: Hours of machines on the bill; null where it names none.
    charged_usd: Null without charges, and so are the differences.
    relative_difference: Null too where nothing was predicted.
    """

    component: Component
    what: str
    place: str | None
    charges: Count
    machine_hours: float | None
    predicted_usd: Amount
    charged_usd: float | None
    difference_usd: float | None
    relative_difference: float | None


class UnplannedCharges(Part, frozen=True, kw_only=True):
    """Charges of a use that the plan does not have."""

    component: Component
    place: str
    service: str
    what: str
    charges: Count
    usd: float


class SortedCharges(Part, frozen=True, kw_only=True):
    """Charges that were not compared.

    kind: Tax, Credit, Purchase and so on, or why they were left out.
    """

    kind: str
    charges: Count
    usd: float


class Bill(Part, frozen=True, kw_only=True, tag_field="schema", tag="placer.bill/v1"):
    """What was predicted for some hours of a placement, beside what a bill charges for them.

    plan, bill: Names of the files.
    cost: Column of the bill.
    hours: For which is predicted: as given, or the hours of machines on the bill over the machines
        of the plan.
    planned_hours: The whole run as the plan expects it; null where it does not say how much there
        is to do.
    first, last: From when to when charges of the plan are, in UTC; null without any.
    rates: What other currencies were exchanged at.
    predicted_usd, charged_usd: Of the lines that have charges, so that both are of the same.
    uncharged_usd: Predicted for lines without a charge.
    unmatched: Charges of a use that the plan does not have.
    apart: Charges that are no use: taxes, credits, purchases, corrections.
    left_out: Charges of another time or without a tag, in no sum.
    """

    plan: str
    bill: str
    model: str
    catalog: str
    as_of: Day
    cost: str
    hours: Positive
    hours_given: bool
    planned_hours: float | None
    first: str | None
    last: str | None
    rates: list[str]
    lines: list[BilledLine]
    predicted_usd: Amount
    charged_usd: float
    difference_usd: float
    relative_difference: float | None
    uncharged_usd: Amount
    unmatched: list[UnplannedCharges]
    unmatched_usd: float
    apart: list[SortedCharges]
    apart_usd: float
    left_out: list[SortedCharges]
    warnings: list[str]

"""Documents about placements by hand, saved files and the installation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET

from placer.documents.schemas.parts import (
    BookData,
    Estimate,
    Maybe,
    Message,
    Outlook,
    Part,
    Placement,
    Request,
)
from placer.records import Count, Natural, one_of


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

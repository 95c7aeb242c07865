"""The document of ``placer explain``."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta

from placer.documents.schemas.parts import BookData, Maybe, Objective, Part, Placement, Request
from placer.documents.schemas.proofs import Status


class Candidate(Part, frozen=True):
    """A placement with its main figures.

    effective_tokens_per_second, usd_per_billion_tokens: Of a language model.
    """

    placement: Placement
    samples_per_second: float
    usd_per_hour: float
    compute_usd_per_hour: float
    egress_usd_per_hour: float
    usd_per_million_samples: float
    step_seconds: float
    communication_seconds: float
    waiting_seconds: float
    proved: bool
    effective_tokens_per_second: Maybe[float] = UNSET
    usd_per_billion_tokens: Maybe[float] = UNSET


class Limit(Part, frozen=True):
    """A limit of the request, and what it costs.

    binds: Whether something better exists without it; null if that is not proved.
    gain: Improvement of the objective without the limit, as a share.
    """

    code: str
    words: str
    unit: Literal[
        "usd_per_hour",
        "samples_per_second",
        "gpus",
        "vcpus",
        "workers",
        "regions",
        "seconds",
        "usd",
        "g_per_hour",
        "usd_per_million_samples",
        "",
    ]
    used: float | None
    limit: float | None
    binds: bool | None
    gain: float | None
    without: Candidate | None
    nearest: Candidate | None


class JointLimits(Part, frozen=True):
    """Limits that bind together."""

    codes: Annotated[list[str], Meta(min_length=2)]
    words: Annotated[list[str], Meta(min_length=2)]
    gain: float
    without: Candidate


class Binding(Part, frozen=True):
    """Which limits bind.

    joint: Limits that bind together: each alone is without effect, without all of them something
        better exists. Null if that was not proved either way.
    """

    limits: list[Limit]
    one_more: Candidate | None
    joint: Maybe[list[JointLimits] | None] = UNSET


class Remedy(Part, frozen=True):
    """A change after which something fits."""

    code: str
    change: str
    best: Candidate | None
    proved: bool


class BreakEven(Part, frozen=True):
    """From which figure on it would be chosen.

    factor: Multiple of today's; null and proved: at none.
    """

    what: Literal["price", "egress", "bandwidth"]
    factor: float | None
    at_any_price: bool
    proved: bool
    placement: Candidate | None


class WhyNot(Part, frozen=True):
    """Why something is not chosen.

    difference: Objective with it less the best objective.
    regret: Loss as a share of the best objective; at most so much where proved is false.
    never_by_network: True: proved that no bandwidth and no egress price would help.
    """

    subject: str
    kind: Literal["place", "gpu", "offer", "exchange", "market", "regions", "stages"]
    status: Literal["chosen", "found", "impossible", "unknown"]
    best_with_it: Candidate | None
    difference: float | None
    regret: float | None
    proved: bool
    excluded: list[str]
    remedies: list[Remedy]
    break_evens: list[BreakEven]
    never_by_network: bool | None


class Worth(Part, frozen=True):
    """What a larger limit is worth.

    least: Least increase that changes anything, up to twice the limit; null if none was found.
    """

    code: str
    unit: Literal["usd_per_hour", "gpus", "workers", "megabits_per_second"]
    limit: float
    step: float
    difference: float | None
    gain: float | None
    best: Candidate | None
    least: float | None
    least_gain: float | None
    least_best: Candidate | None


class Staying(Part, frozen=True):
    """What staying in one region costs.

    leave: First placement over several regions that beats all of one region at its price.
    """

    regions: int
    best_in_one_region: Candidate | None
    loss: float | None
    proved: bool
    leave: Candidate | None
    last_in_one_region: Candidate | None
    never: bool
    unlimited: bool
    most_usd_per_hour: float


class ConflictingWish(Part, frozen=True):
    """A wish of a conflict.

    given: False for limits that hold by default.
    """

    code: str
    words: str
    given: bool


class Conflict(Part, frozen=True):
    """Wishes that contradict each other.

    further: What contradicts itself even without these wishes.
    """

    wishes: list[ConflictingWish]
    others: list[ConflictingWish]
    minimal: bool
    remedies: list[Remedy]
    together: Candidate | None
    further: Conflict | None


class Explanation(Part, frozen=True, tag_field="schema", tag="placer.explanation/v1"):
    """Units stand in the names; prices are USD; shares are fractions of the objective.

    complete: False if the time was up before every question was asked.
    """

    request: Request
    data: BookData
    status: Status
    objective: Objective
    best: Candidate | None
    binding: Binding | None
    why_not: list[WhyNot]
    worth: list[Worth]
    staying: Staying | None
    conflict: Conflict | None
    complete: bool
    seconds: float

"""The document of ``placer explain``; its parts are filled by `placer.advice.explanation`."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from msgspec import UNSET, Meta

from placer.documents.schemas.parts import BookData, Maybe, Objective, Part, Placement, Request
from placer.documents.schemas.proofs import Status

C = TypeVar("C")
"""A placement with its figures: `Candidate` in the document, an option in the answer."""
W = TypeVar("W")
"""A wish: `ConflictingWish` in the document; the answer knows how to give it up too."""
LimitUnit = Literal[
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
Several = Annotated[tuple[str, ...], Meta(min_length=2)]


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


class Limit(Part, Generic[C], frozen=True, kw_only=True):
    """A limit of the request, how it meets the best placement, and what it costs.

    used, limit: In its unit; null for limits without an amount.
    binds: Whether something better exists without it; null if that is not proved.
    without: The best that was found without it.
    gain: Improvement of the objective without the limit, as a share.
    nearest: The least step beyond the limit that is better: the cheapest placement that is faster,
        or the fastest that is cheaper.
    """

    code: str
    words: str
    unit: LimitUnit
    used: float | None
    limit: float | None
    binds: bool | None
    without: C | None
    gain: float | None
    nearest: C | None


class JointLimits(Part, Generic[C], frozen=True, kw_only=True):
    """Limits that bind together: none does alone, but without all of them something is better."""

    codes: Several
    words: Several
    without: C
    gain: float


class Binding(Part, Generic[C], frozen=True, kw_only=True):
    """Which limits bind, these first.

    one_more: The same machines with one more of them: whether the exchange scales further.
    joint: Limits that bind together; null if that was not proved either way.
    """

    limits: tuple[Limit[C], ...]
    one_more: C | None
    joint: Maybe[tuple[JointLimits[C], ...] | None] = UNSET


class Remedy(Part, Generic[C], frozen=True, kw_only=True):
    """What a wish would have to become for the request to have an answer, all others kept.

    change: In words of the command line.
    best: What then fits; null: giving up the wish alone is not enough, or (not proved) nothing was
        found.
    """

    code: str
    change: str
    best: C | None
    proved: bool


class BreakEven(Part, Generic[C], frozen=True, kw_only=True):
    """From which figure on it would be chosen.

    factor: Multiple of today's; null and proved: at none, unless at_any_price.
    proved: At a factor that is better by half a percent it enters, at one that is worse by half a
        percent nothing does.
    placement: That of the break-even, priced there.
    """

    what: Literal["price", "egress", "bandwidth"]
    factor: float | None
    at_any_price: bool
    proved: bool
    placement: C | None


class WhyNot(Part, Generic[C], frozen=True, kw_only=True):
    """Why something is not chosen, and what it loses.

    status: chosen: it is part of the answer. impossible: no placement with it meets the wishes;
        remedies say at which budget or floor one would. unknown: none was found within the limits
        of the search.
    difference: Objective with it less the best objective.
    regret: Loss as a share of the best objective, null if that is 0; at most so much where proved
        is false.
    excluded: Sentences about wishes that exclude it; they were given up to answer.
    never_by_network: True: proved that no bandwidth and no egress price would help.
    """

    subject: str
    kind: Literal["place", "gpu", "offer", "exchange", "market", "regions", "stages"]
    status: Literal["chosen", "found", "impossible", "unknown"]
    best_with_it: C | None
    difference: float | None
    regret: float | None
    proved: bool
    excluded: tuple[str, ...]
    remedies: tuple[Remedy[C], ...]
    break_evens: tuple[BreakEven[C], ...]
    never_by_network: bool | None


class Worth(Part, Generic[C], frozen=True, kw_only=True):
    """What a larger limit is worth.

    difference: What step more changes of the objective, a share of gain; 0 if nothing changes, null
        if that is not proved.
    least: Least increase that changes anything, up to twice the limit; null if none was found.
    """

    code: str
    unit: Literal["usd_per_hour", "gpus", "workers", "megabits_per_second"]
    limit: float
    step: float
    best: C | None
    difference: float | None
    gain: float | None
    least: float | None
    least_best: C | None
    least_gain: float | None


class Staying(Part, Generic[C], frozen=True, kw_only=True):
    """What staying in one region costs. Steps are at least 1 % of speed: what leaves a region to
    gain less is not looked for.

    regions: Of the best placement.
    loss: Of the best in one region, as a share of the objective; null if the best is 0.
    leave: First placement over several regions that beats all of one region at its price.
    last_in_one_region: Last placement of one region on the way there.
    never: Proved that leaving pays at no budget up to most_usd_per_hour, or at all if unlimited.
    """

    regions: int
    best_in_one_region: C | None
    loss: float | None
    proved: bool
    leave: C | None
    last_in_one_region: C | None
    never: bool
    unlimited: bool
    most_usd_per_hour: float


class ConflictingWish(Part, frozen=True, kw_only=True):
    """A wish of a conflict.

    given: False for limits that hold by default.
    """

    code: str
    words: str
    given: bool


class Conflict(Part, Generic[W, C], frozen=True, kw_only=True):
    """Wishes that contradict each other. Without any one of them there is an answer to the others,
    if minimal; none: even a request without wishes has no answer.

    others: They have no part in it.
    remedies: In the order of the wishes.
    together: Where no remedy has an answer, the best without all of the set.
    further: What contradicts itself even without these wishes.
    """

    wishes: tuple[W, ...]
    others: tuple[W, ...]
    minimal: bool
    remedies: tuple[Remedy[C], ...]
    together: C | None
    further: Conflict[W, C] | None


class Explanation(Part, frozen=True, tag_field="schema", tag="placer.explanation/v1"):
    """Units stand in the names; prices are USD; shares are fractions of the objective.

    complete: False if the time was up before every question was asked.
    """

    request: Request
    data: BookData
    status: Status
    objective: Objective
    best: Candidate | None
    binding: Binding[Candidate] | None
    why_not: list[WhyNot[Candidate]]
    worth: list[Worth[Candidate]]
    staying: Staying[Candidate] | None
    conflict: Conflict[ConflictingWish, Candidate] | None
    complete: bool
    seconds: float

"""What was proved of an answer: filled by solvers, kept in documents."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeVar

from msgspec import Meta, Struct

from placer.market.books.defended_figures import Outlier
from placer.market.price_interval import PriceInterval
from placer.records import Amount, Count, Natural, Share

R = TypeVar("R")
"""A row of the price book."""
P = TypeVar("P")
"""A placement."""
E = TypeVar("E")
"""An estimate."""
S = TypeVar("S")
"""A placement with its figures."""

Method = Literal["alone", "root", "search", "stopped"]
ProofWish = Literal["full", "quick", "none"]
"""How much is proved: all; a draft, with the bound of one pass over the machines; a draft alone."""


class Status(StrEnum):
    """How a solve ended. feasible and unknown are no proof: the placement keeps every limit, but a
    better one may exist, as far as a bound allows; no placement is known, but one may exist.
    time_limit says that time, nodes or the user ended a search before its proof, memory_limit that
    memory did.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    UNKNOWN = "unknown"

    @property
    def stopped(self) -> bool:
        """Whether a limit or the user ended the search before its proof."""
        return self in (Status.TIME_LIMIT, Status.MEMORY_LIMIT)

    @property
    def settled(self) -> bool:
        """Whether it is proved what is best, or that nothing fits."""
        return self in (Status.OPTIMAL, Status.INFEASIBLE)


class ModeProof(Struct, frozen=True, kw_only=True):
    """What was proved about one strategy with its local steps.

    method: alone: every single machine was looked at. root: the relaxation alone rules the mode
        out, no node was searched. search: branch and bound, finished. stopped: not finished, only
        the relaxation holds.
    bound: No placement of this mode is better, on the objective. Null: no placement of a closed
        mode keeps the limits; of a stopped one nothing is known.
    root_bound: What the relaxation alone proves.
    nodes: That were searched.
    priced: Placements that were priced in full.
    """

    strategy: str
    local_steps: Natural
    method: Method
    bound: float | None
    root_bound: float | None
    nodes: Count
    priced: Count


class BatchRow(Struct, frozen=True, kw_only=True):
    """One target batch size of a range that was solved by itself; no value: nothing that is better
    than with the others.
    """

    target_batch_size: Natural
    value: float | None
    bound: float | None
    status: Status


class BatchProof(Struct, frozen=True, kw_only=True):
    """What is proved of every whole number of a range of target batch sizes: none has a better
    value than the bound, which is null where nothing is known.

    searches: That bounded several batches at once.
    finished: None was left open, so that the gap is the one that was asked for.
    """

    low: Natural
    high: Natural
    bound: float | None
    searches: Count
    finished: bool


class BreakEven(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices at which a sample costs as much on own machines as on those of the row ``rented``, all
    other figures as they are: of one own machine, and of all rented ones. 0: at no price.
    """

    own_usd_per_machine_hour: float
    most_own_usd_per_machine_hour: float
    rented_usd_per_hour: float
    least_rented_usd_per_hour: float
    rented: str


Case = Literal["high", "usual", "without"]
PRICE_CASES: tuple[Case, Case, Case] = ("high", "usual", "without")
"""Questions about a price: at the high end of its interval, at the usual share of on-demand, and
without the row.
"""


class RegionPrice(Struct, frozen=True, kw_only=True):
    """The price of the same machine elsewhere."""

    place: str
    usd_per_hour: Amount


class PriceCase(Struct, Generic[P, E], frozen=True, kw_only=True):
    """What is best if a price is another one.

    usd_per_hour: Null where the row is left out.
    proved: Best, or only the best that a short search found.
    on_outlier: It rests on a spot price far below the usual as well.
    placement, estimate: Null where nothing fits.
    """

    case: Case
    usd_per_hour: float | None
    same: bool
    proved: bool
    on_outlier: bool
    placement: P | None
    estimate: E | None


class PriceRisk(Struct, Generic[R, P, E], frozen=True, kw_only=True):
    """The price row whose rise inside its interval changes the answer the soonest, and what is best
    then; null where none does.

    usd_per_hour: Price of one machine, where it is expected for 30 days (4 times in 5), and what
        the ends come from.
    changes_at_usd_per_hour: Price of one machine from which the answer is another one, at the
        latest where no limit of dollars breaks.
    usual_usd_per_hour: On-demand times the median share over the provider's regions.
    next_region: The cheapest other region of the provider.
    """

    row: R
    usd_per_hour: PriceInterval
    changes_at_usd_per_hour: float
    on_demand_usd_per_hour: float | None
    usual_usd_per_hour: float | None
    next_region: RegionPrice | None
    outlier: Outlier | None
    cases: tuple[PriceCase[P, E], ...]

    def case(self, name: str) -> PriceCase[P, E] | None:
        """Return the answer to one of the questions; None if it was not asked."""
        return next((case for case in self.cases if case.case == name), None)


USUAL_TAIL = 0.05
"""Share of the dearest runs that are looked at where no confidence is asked for."""


def tail_share(asked: float) -> float:
    """Return the share of the dearest runs whose mean cost counts: those beyond a confidence.

    >>> tail_share(0.75), tail_share(0)
    (0.25, 0.05)
    """
    return 1 - asked if asked else USUAL_TAIL


class Rank(Struct, Generic[P, E], frozen=True, kw_only=True):
    """A placement of a plan with fallbacks: the first, or one where those before it are not there.

    chance_alone: That this placement alone would do.
    mean_hours: What the plan spends on it.
    certain: All of it is on demand, which is assumed to be there.
    """

    placement: P
    estimate: E
    chance_alone: Share
    mean_hours: Amount
    certain: bool


class LadderOutcome(Struct, Generic[P, E], frozen=True, kw_only=True):
    """What a plan with fallbacks reaches in the scenarios that it was chosen in, and in fresh ones.

    asked: 0 where the mean is the objective.
    reached: Share of the scenarios in which the run is done by the deadline, or reaches the floor
        where there is none.
    reached_in_fresh_scenarios: That of as many others.
    mean_hours, mean_starts: Over the scenarios that are done.
    usd: Mean cost of a run, finished or not; null without a number of samples.
    tail_usd: That of the most expensive 1 - `asked` of them, or 5 % (CVaR).
    least_usd: Proved: no run that finishes costs less, whatever the capacity; null where nothing is
        proved.
    carbon_g: Mean emissions of a run, grams of CO2e; null without a deadline, or where nobody
        knows.
    mean_samples_per_second: Over all scenarios, 0 where nothing is there; null with a deadline.
    """

    asked: Share
    reached: Share
    reached_in_fresh_scenarios: Share
    scenarios: Natural
    seed: int
    ranks: Annotated[tuple[Rank[P, E], ...], Meta(min_length=1)]
    ladders_tried: Count
    deadline_hours: float | None = None
    mean_hours: float | None = None
    mean_starts: float | None = None
    usd: float | None = None
    tail_usd: float | None = None
    least_usd: float | None = None
    carbon_g: float | None = None
    mean_samples_per_second: float | None = None


class OwnMachines(Struct, Generic[S], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Own machines alone, with rented ones of the same devices, and rented ones alone, as far as
    they keep the limits; only where the question names own machines.

    break_even: Prices at which own ones alone and the first row with rented ones cost the same per
        sample; null where there are not both.
    idle: Why own machines stay idle; empty where all of them work.
    """

    rows: tuple[S, ...]
    break_even: BreakEven | None
    idle: str


class Verification(Struct, frozen=True, kw_only=True):
    """What a second solver (--verify) says of the same question.

    verdict: agree: both proved, neither beats the other's bound. disagree: one has what the other
        proved impossible. open: no contradiction, but one of them proved nothing.
    left_open: Strategies that the second solver did not finish.
    """

    solver: str
    verdict: Literal["agree", "disagree", "open"]
    status: Status
    value: float | None
    bound: float | None
    seconds: float
    left_open: tuple[str, ...] = ()

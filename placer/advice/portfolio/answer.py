"""The answer to a portfolio: each job with its placement, what displaced it, and what is proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import to_builtins

from placer.advice.portfolio.columns import Column
from placer.advice.portfolio.generation import Found
from placer.advice.portfolio.jobs import Job, Portfolio
from placer.advice.portfolio.pricing import Ledger, displacements
from placer.cost_model.estimate import estimate
from placer.cost_model.objective import gap_between
from placer.documents.many_check import PORTFOLIO_SCHEMA, wrong_sums
from placer.documents.schemas.many import Displaced, ResourceWorth
from placer.records import replace
from placer.report.shown import Shown
from placer.solving.answer import Status
from placer.solving.result import Result, answer_document
from placer.units import format_usd

UNITS = {"throughput": "weighted samples/s", "time": "weighted h"}
"""Units of objectives that are not dollars."""
SAME_SHARE = 1e-9
"""Relative slack of equal shares."""
OFFER = ("place", "offer", "gpu", "gpu_count", "market")
"""Keys of what tells an offer from others."""
PLACED = (
    "reason",
    "start",
    "slots",
    "usd",
    "alone_usd",
    "alone_workers",
    "alone_samples_per_second",
    "share",
    "displaced",
)
"""Fields of a placed job that its document has too."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """One job in the answer.

    ``result`` is None where the job is left out, for ``reason``. ``usd`` and ``alone_usd`` are what
    it costs here and with the market to itself; per hour, or in total with slots. ``share`` is its
    speed over the one that it would have alone, where speed counts.
    """

    job: Job = field(repr=False)
    result: Result | None = field(repr=False)
    usd: float | None
    alone_usd: float | None
    alone_workers: tuple[str, ...]
    start: int = 0
    slots: int = 1
    displaced: tuple[Displaced, ...] = ()
    reason: str = ""
    alone_samples_per_second: float | None = None
    share: float | None = None

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.job.name

    @property
    def workers(self) -> tuple[str, ...]:
        """Groups of workers as they are written on the command line."""
        if self.result is None or self.result.placement is None:
            return ()
        return tuple(group.spec for group in self.result.placement.groups)


@dataclass(frozen=True, kw_only=True)
class PortfolioAnswer(Shown):
    """Who runs where, and when.

    ``usd`` is what all jobs cost, ``value`` the objective: the same dollars, weighted samples/s or
    weighted hours; ``bound`` is on the value of the same jobs. ``greedy_usd``, ``greedy_value`` and
    ``greedy_left_out`` are those of jobs placed one by one. ``left_out_proved``: no choice of jobs
    leaves out less. ``least_share`` is that of the job that is held back most, and
    ``least_share_bound`` what no choice gives all of them; None unless shares are to be fair.
    """

    portfolio: Portfolio = field(repr=False)
    jobs: tuple[Placed, ...]
    usd: float
    bound: float | None
    greedy_usd: float
    greedy_left_out: int
    worths: tuple[ResourceWorth, ...]
    giving_way: tuple[str, ...]
    left_out_proved: bool
    stopped: bool
    seconds: float
    rounds: int
    searches: int
    machines: tuple[dict[str, Any], ...] = ()
    value: float = 0.0
    greedy_value: float = 0.0
    per_dollar: float | None = None
    least_share: float | None = None
    least_share_bound: float | None = None

    def __repr__(self) -> str:
        runs = len(self.jobs) - len(self.left_out)
        usd = format_usd(self.usd)
        return f"<PortfolioAnswer: {runs} of {len(self.jobs)} jobs run for {usd}>"

    @property
    def left_out(self) -> tuple[Placed, ...]:
        """Jobs that do not run."""
        return tuple(job for job in self.jobs if job.result is None)

    @property
    def gap(self) -> float | None:
        """Relative distance of the value from its bound."""
        return None if self.bound is None else gap_between(self.value, self.bound)

    @property
    def saving(self) -> float | None:
        """Share saved, or done more, against jobs placed one by one; None if others run."""
        if self.greedy_left_out != len(self.left_out) or not self.greedy_value:
            return None
        sign = -1 if self.portfolio.maximised else 1
        return sign * (self.greedy_value - self.value) / self.greedy_value

    @property
    def held_back(self) -> tuple[str, ...]:
        """Names of the jobs that have the least share."""
        if self.least_share is None:
            return ()
        most = self.least_share * (1 + SAME_SHARE)
        return tuple(job.name for job in self.jobs if job.share is not None and job.share <= most)

    @property
    def unit(self) -> str:
        """Unit of the objective."""
        return UNITS.get(self.portfolio.objective, self.portfolio.unit)

    def __getitem__(self, name: str) -> Placed:
        """Return the job of a name."""
        return next(job for job in self.jobs if job.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.portfolio/v1`` document."""
        fair = None
        if self.least_share is not None:
            bound, held_back = self.least_share_bound, list(self.held_back)
            fair = {"least_share": self.least_share, "bound": bound, "held_back": held_back}
        return {
            "schema": PORTFOLIO_SCHEMA,
            "objective": {
                "name": self.portfolio.objective,
                "unit": self.unit,
                "value": self.value,
                "bound": self.bound,
                "gap": self.gap,
                "per_dollar": self.per_dollar,
            },
            "fair": fair,
            "status": self.status,
            "usd": self.usd,
            "unit": self.portfolio.unit,
            "one_by_one": {
                "usd": self.greedy_usd,
                "value": self.greedy_value,
                "left_out": self.greedy_left_out,
                "saving": self.saving,
            },
            "shared": {**shared_document(self.portfolio), "machines": list(self.machines)},
            "jobs": [job_document(placed) for placed in self.jobs],
            "worth": to_builtins(list(self.worths)),
            "giving_way": list(self.giving_way),
            "left_out_proved": self.left_out_proved,
            "solver": {
                "seconds": round(self.seconds, 6),
                "rounds": self.rounds,
                "searches": self.searches,
            },
        }

    @property
    def status(self) -> str:
        """``all_run``, ``some_left_out``, or ``time_limit`` where a limit ended the search."""
        if self.stopped:
            return str(Status.TIME_LIMIT)
        return "some_left_out" if self.left_out else "all_run"

    def to_saved(self) -> dict[str, Any]:
        """Build the document of ``placer portfolio -o``: each result can be priced again."""
        document = self.to_dict()
        for row, placed in zip(document["jobs"], self.jobs, strict=True):
            if placed.result is not None:
                row["result"] = placed.result.to_saved()
        return document


def shared_document(portfolio: Portfolio) -> dict[str, Any]:
    """Build the part of a document about what jobs share."""
    return {
        "quotas": to_builtins(list(portfolio.quotas)),
        "quota_gpus": portfolio.quota_gpus,
        "budget_usd": portfolio.budget_usd,
        "teams": [
            {"name": t.name, "budget_usd": t.budget_usd, "quotas": to_builtins(list(t.quotas))}
            for t in portfolio.teams
        ],
        "slots": to_builtins(portfolio.slots),
        "blocks": [
            {
                "name": block.name,
                **dict(zip(OFFER, block.offer, strict=True)),
                "machines": block.machines,
                "first_slot": block.slots.start,
                "slots": len(block.slots),
                "usd": block.usd,
            }
            for block in portfolio.blocks
        ],
    }


def job_document(placed: Placed) -> dict[str, Any]:
    """Build the part of a document about one job."""
    answer = {} if placed.result is None else answer_document(placed.result)
    return {
        "name": placed.name,
        "model": placed.job.problem.profile.name,
        **{name: getattr(placed.job, name) for name in ("team", "priority", "weight", "max_share")},
        "runs": placed.result is not None,
        **{name: to_builtins(getattr(placed, name)) for name in PLACED},
        "placement": answer.get("placement"),
        "estimate": answer.get("estimate"),
    }


def answered(found: Found) -> PortfolioAnswer:
    """Build the answer of what a search ended with; AssertionError if jobs break a shared limit."""
    columns, portfolio = found.columns, found.columns.portfolio
    ledger, greedy = Ledger(columns, found.counts), Ledger(columns, found.greedy)
    jobs, assigned = portfolio.jobs, dict[int, Column]()
    waiting = {group.number: list(group.members) for group in columns.groups}
    for column, count in sorted(found.counts.items(), key=lambda item: item[0].start):
        # The jobs of a group run in the order of the list.
        assigned |= {waiting[column.group].pop(0): column for _ in range(count)}
    group_of = {number: group.number for group in columns.groups for number in group.members}
    sign = -1.0 if portfolio.maximised else 1.0
    by_dollar = portfolio.objective != "cost" and found.duals.budget
    least, most = found.shares or (None, None)
    held = sorted({key for key, _ in ledger.held if key.kind == "machines"})
    answer = PortfolioAnswer(
        portfolio=portfolio,
        jobs=tuple(
            _placed(found, assigned, ledger, number, found.alone.get(group_of[number]))
            for number in range(len(jobs))
        ),
        usd=ledger.usd,
        value=sign * ledger.total,
        bound=None if found.bound is None else sign * found.bound,
        greedy_usd=greedy.usd,
        greedy_value=sign * greedy.total,
        per_dollar=found.duals.budget if by_dollar else None,
        least_share=least,
        least_share_bound=most,
        greedy_left_out=len(jobs) - sum(found.greedy.values()),
        worths=tuple(sorted(found.worths, key=lambda row: -row.usd)),
        giving_way=tuple(
            jobs[n].name
            for n in sorted(assigned, key=lambda n: (jobs[n].priority, jobs[n].weight, -n))
        ),
        left_out_proved=found.proved_out,
        stopped=found.stopped,
        seconds=found.seconds,
        rounds=found.rounds,
        searches=found.searches,
        machines=tuple(
            {
                "place": resource.place,
                "offer": resource.instance_type,
                "market": resource.market,
                "machines": columns.capacity((resource, 0)),
            }
            for resource in held
            if resource not in columns.blocks
        ),
    )
    wrong = wrong_sums(answer.to_dict())
    if wrong:
        raise AssertionError(f"the portfolio breaks a shared limit: {wrong}")
    return answer


def _placed(
    found: Found, assigned: Mapping[int, Column], ledger: Ledger, number: int, alone: Column | None
) -> Placed:
    portfolio, column = found.columns.portfolio, assigned.get(number)
    job, by_speed = portfolio.jobs[number], portfolio.by_speed
    displaced: tuple[Displaced, ...] = ()
    if alone is not None and (column is None or _worse(column, alone, by_speed=by_speed)):
        displaced = tuple(displacements(ledger, assigned, number, alone))
    speed = alone.samples_per_second if alone is not None and by_speed else None
    placed = Placed(
        job=job,
        result=None,
        usd=None,
        alone_usd=None if alone is None else alone.usd,
        alone_workers=() if alone is None else tuple(g.spec for g in alone.placement.groups),
        slots=0,
        displaced=displaced,
        alone_samples_per_second=speed,
    )
    if column is None:
        return replace(placed, reason=_reason(found, job, alone, displaced))
    return replace(
        placed,
        result=Result(
            problem=job.problem,
            status=Status.FEASIBLE,
            placement=column.placement.canonical(),
            estimate=estimate(column.placement, job.problem),
            solver="portfolio",
        ),
        usd=column.usd,
        start=column.start,
        slots=column.slots,
        share=min(1.0, column.samples_per_second / speed) if speed else None,
    )


def _worse(column: Column, alone: Column, *, by_speed: bool) -> bool:
    """Tell whether a column is dearer than the one that its job would have alone, or slower."""
    if by_speed:
        return column.samples_per_second < alone.samples_per_second * (1 - SAME_SHARE)
    return column.usd > alone.usd


def _reason(found: Found, job: Job, alone: Column | None, displaced: tuple[Displaced, ...]) -> str:
    if alone is None:
        if found.stopped:
            return "the time limit was reached before a placement was found"
        return "no placement keeps its own limits, even with the market to itself"
    if job.team and any(not row.by for row in displaced):
        return f"team {job.team} may not have what it needs"
    if displaced:
        return "what it needs is held by jobs that come first"
    return "the budget is spent by jobs that come first"

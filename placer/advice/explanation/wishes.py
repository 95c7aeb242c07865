"""The wishes of a request, one by one, and a smallest set of them that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from placer.advice.explanation.subject import Asker, aimed
from placer.advice.recommendation.bottlenecks import is_usual
from placer.advice.recommendation.other_answers import LIMITS, limit_words, wanting
from placer.documents.schemas.explanation import Conflict, Remedy
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, Requirements
from placer.problem.words.wishes import INSIDE, WISHES
from placer.records import replace
from placer.solving.result import Option
from placer.units import counted, format_duration, format_number, format_usd

PLAIN = Requirements()
"""A request without wishes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """One wish of a request.

    ``code`` names it for programs; ``words`` say what it asks for; ``change`` says how to give it
    up on the command line; ``free`` is what holds without it, by field of `Requirements`; ``given``
    whether the user asked for it or it holds by default.
    """

    code: str
    words: str
    change: str
    free: Mapping[str, object]
    given: bool = True


def without(problem: Problem, wishes: Iterable[Wish]) -> Problem:
    """Return the same question without some wishes."""
    changed = {name: value for wish in wishes for name, value in wish.free.items()}
    return wanting(problem, **changed)


def wishes_of(problem: Problem) -> Iterator[Wish]:
    """List the wishes of a request, those that are easiest to do without first."""
    wish = problem.requirements
    if wish.has_quotas:
        each = f"a quota of {wish.quota_gpus} GPUs of a type in a region and market"
        yield Wish(
            code="quota",
            words="the quotas of the quota file" if wish.quotas else each,
            change="no --quota",
            # Where a quota goes a supply would count instead, and that narrows.
            free={"quotas": (), "quota_gpus": None, "supply": None},
        )
    if wish.used:
        rules = ", ".join(f"{rule.count} x {rule.device} in {rule.place}" for rule in wish.used)
        yield _given("use", f"the use of {rules}", change="no machines that must be used")
    if wish.objective == "carbon":
        # Machines without known emissions are left out, so it asks for more than an order.
        words = "the objective carbon (only machines and grids of known emissions)"
        yield _default("objective", words, "another --objective", "objective", "throughput")
    yield from _defaults(problem)
    for each_of in (_training, _data, _counts, _machines, _islands, _limits):
        yield from each_of(wish)


def _defaults(problem: Problem) -> Iterator[Wish]:
    """List the limits that hold though nobody asked for them."""
    wish = problem.requirements
    if wish.other_supply is not None:
        words = f"at most {counted(wish.other_supply, 'spot machine')} of one type in a place"
        yield _default("supply", words, "--supply any", "supply", None)
    if problem.uniform:
        yield _default("kinds", "machines of one kind", "--mixed", "uniform", False)
    if is_usual(wish) and problem.batch > wish.max_workers:
        most, words = 4 * wish.max_workers, f"at most {counted(wish.max_workers, 'worker')}"
        yield _default("most-workers", words, f"--workers 1..{most}", "max_workers", most)


def _default(code: str, words: str, change: str, field: str, value: object) -> Wish:
    """Build a limit that nobody asked for."""
    return Wish(code=code, words=words, change=change, free={field: value}, given=False)


def _training(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about the batch, and about how and where the exchange is done."""
    if wish.target_batch_size is not None:
        words = f"{wish.target_batch_size:,} samples a step"
        yield _given("tbs", words, fields=("target_batch_size",))
    if wish.max_local_steps is not None:
        yield _given("local_steps", f"{wish.min_local_steps} to {wish.max_local_steps} local steps")
    if wish.overlap:
        yield _given("overlap", "an exchange that overlaps the next step")
    if wish.quorum is not None:
        words = f"exchanges that go on with {wish.quorum} workers"
        # A quorum asks for as many workers; more were asked for by a word of their own.
        workers = ("min_workers",) if wish.min_workers == wish.quorum else ()
        yield _given("quorum", words, fields=("quorum", "grace_s", *workers))
    if wish.storage is not None:
        yield _given("storage", f"a store in {wish.storage}")
    if wish.aggregator is not None:
        yield _given("aggregator", f"an aggregator in {wish.aggregator_words}")
    if wish.exchange != "auto":
        words, fields = f"the exchange {wish.exchange}", ("exchange", "aggregator", "function")
        yield _given("exchange", words, change="--exchange auto", fields=(*fields, "storage"))


def _data(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about where data lies and what must not leave where."""
    if wish.kept:
        rules = ", ".join(f"{rule.kind} that must not leave {rule.area}" for rule in wish.kept)
        yield _given("keep", rules)
    if wish.datasets:
        sets = ", ".join(
            f"data that {'may move from' if data.may_move else 'stays in'} {data.place} "
            f"({data.samples:,} samples)"
            for data in wish.datasets
        )
        yield _given("data", sets, fields=("datasets", "passes"))
    if wish.data_store is not None:
        fields = ("data_store", "data_bytes", "data_cache", "data_source", "copy_s", "passes")
        yield _given("data", f"data read from {wish.data_store}", fields=fields)


def _counts(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about workers and regions; each end of a range is a wish of its own."""
    any_number = "any number of regions"
    if wish.max_regions < ALL_REGIONS:
        words = f"at most {counted(wish.max_regions, 'region')}"
        yield _given("regions", words, "most-regions", any_number, ("max_regions",))
    if wish.min_regions > 1:
        words = f"at least {wish.min_regions} regions"
        yield _given("regions", words, "fewest-regions", any_number, ("min_regions",))
    if wish.max_workers < PLAIN.max_workers:
        words = f"at most {counted(wish.max_workers, 'worker')}"
        change = f"--workers {wish.min_workers}..{PLAIN.max_workers}"
        yield _given("workers", words, "most-workers", change, ("max_workers",))
    if wish.min_workers > 1:
        words = f"at least {wish.min_workers} workers"
        change = f"--workers 1..{wish.max_workers}"
        yield _given("workers", words, "fewest-workers", change, ("min_workers",))


def _machines(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about which offers are admitted."""
    if wish.oldest_price is not None:
        yield _given("max_price_age", f"prices of {wish.oldest_price} or newer", "price-age")
    if wish.require_measured:
        yield _given("require_measured", "only measured devices", "measured")
    if wish.places_not_in:
        yield _given("not_places", f"no machines in {', '.join(wish.places_not_in)}")
    if wish.market != "any":
        words = f"only {wish.market.replace('_', '-')} machines"
        yield _given("market", words, change="--market any")
    if wish.places_in:
        words = f"only machines in {', '.join(wish.places_in)}"
        yield replace(_given("places", words), free={"places_in": ("*", *wish.places_in)})
    if wish.gpus:
        yield _given("gpu", f"only {', '.join(wish.gpus)}")


def _islands(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about the machines of a worker and the plan inside it."""
    if wish.max_machines is not None:
        yield _given("machines", f"at most {counted(wish.max_machines, 'machine')}")
    if wish.max_island_machines is not None:
        low, high = wish.min_island_machines or 1, wish.max_island_machines
        words = f"islands of {low} to {high} machines"
        fields = ("min_island_machines", "max_island_machines")
        yield _given("machines_per_island", words, fields=fields)
    for name, field in INSIDE.items():
        value = getattr(wish, field)
        if value is not None:
            yield _given(name, f"{name} {value} inside a worker", fields=(field,))


def _limits(wish: Requirements) -> Iterator[Wish]:
    """List the wishes about money, speed, time and emissions."""
    if wish.max_carbon_g_per_hour is not None:
        words = f"at most {format_number(wish.max_carbon_g_per_hour)} g CO2e/h"
        yield _given("max_carbon", words, "carbon")
    if wish.most_usd_per_million_samples is not None:
        # No word asks for it; the search for the break-even of a region does.
        fields = ("most_usd_per_million_samples",)
        words = f"at most {format_usd(wish.most_usd_per_million_samples)} per million samples"
        yield _given("budget", words, "per-sample", "no limit per sample", fields)
    if wish.deadline_s is not None and wish.samples is not None:
        words = f"{wish.samples:,} samples within {format_duration(wish.deadline_s)}"
        yield _given("deadline", words)
    if wish.budget_usd is not None and wish.samples is not None:
        words = f"{format_usd(wish.budget_usd)} in total for {wish.samples:,} samples"
        yield _given("budget", words, "total-budget", "no --budget in total", ("budget_usd",))
    if wish.min_samples_per_second is not None:
        words = f"at least {format_number(wish.min_samples_per_second)} samples/s"
        yield _given("min_throughput", words, "throughput")
    if wish.budget_usd_per_hour is not None:
        words = f"a budget of {format_usd(wish.budget_usd_per_hour)}/h"
        yield _given("budget", words, fields=("budget_usd_per_hour",))


def _given(
    name: str,
    words: str,
    code: str | None = None,
    change: str | None = None,
    fields: tuple[str, ...] | None = None,
) -> Wish:
    """Build a wish that falls back to what holds without its word; its row gives the rest."""
    row = WISHES[name]
    return Wish(
        code=code or row.word,
        words=words,
        change=change or f"no {row.flag}",
        free={field: getattr(PLAIN, field) for field in fields or row.fields},
    )


def find_conflict(problem: Problem, asker: Asker) -> Conflict[Wish, Option]:
    """Find a smallest set of wishes that contradict each other in a question without an answer.

    A deletion filter: leave out one wish after the other; what can be left out without an answer
    appearing is not a part of the contradiction. Each test asks for any placement.
    """
    dropped: list[Wish] = []
    kept: list[Wish] = []
    minimal = True
    for wish in wishes_of(problem):
        asked = without(problem, [*dropped, wish])
        floor = asked.requirements.floor_samples_per_second
        objective = "cost" if floor is None else "throughput"
        trial = asker.best(aimed(asked, objective), first=True)
        if trial.infeasible:
            dropped.append(wish)
        else:
            kept.append(wish)
            minimal = minimal and trial.placement is not None
    made = Conflict[Wish, Option](
        wishes=tuple(kept),
        others=tuple(w for w in dropped if w.given),
        minimal=minimal,
        remedies=tuple(remedy(problem, wish, asker) for wish in kept),
        together=None,
        further=None,
    )
    if not kept or any(found.best is not None for found in made.remedies):
        return made
    rest = without(problem, kept)
    trial = asker.best(rest)
    further = find_conflict(rest, asker) if trial.infeasible else None
    return replace(made, together=trial.option("together"), further=further)


def remedy(problem: Problem, wish: Wish, asker: Asker) -> Remedy[Option]:
    """Find the least change of one wish with which the request has an answer: the least budget, the
    highest floor; for data that stays the best that moves it; else the best without the wish.
    """
    datasets = problem.requirements.datasets
    if wish.code == "data" and not all(data.may_move for data in datasets):
        moving = tuple(replace(data, may_move=True) for data in datasets)
        moved = asker.wanting(problem, datasets=moving).option("data")
        if moved is not None:
            change = "--data :move instead of :stay"
            return Remedy(code=wish.code, change=change, best=moved, proved=moved.proved)
    free = without(problem, [wish])
    _, objective = LIMITS.get(wish.code, ("", free.requirements.objective))
    asked = aimed(free, objective)
    if wish.code == "carbon" and not asked.pools:
        asked = free  # no machine has known emissions, so no limit on them would do
    trial = asker.best(asked)
    option, change = trial.option(wish.code), wish.change
    if option is None:
        change = ""
    elif asked is not free and wish.code in LIMITS:
        change = limit_words(option, problem.requirements)
    elif asked is not free and wish.code == "gpu":
        change = f"--gpu {','.join(sorted({g.gpu for g in option.placement.groups}))}"
    return Remedy(code=wish.code, change=change, best=option, proved=trial.proved)

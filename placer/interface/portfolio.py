"""The Python interface to portfolios: many jobs that share quotas, budgets and reservations."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import msgspec

from placer.advice.portfolio.answer import PortfolioAnswer, answered
from placer.advice.portfolio.columns import kind_of
from placer.advice.portfolio.generation import chosen
from placer.advice.portfolio.jobs import HOUR_S, Block, Job, Portfolio, Slots, Team
from placer.errors import PlacerError, unknown
from placer.interface.advisor import Advisor
from placer.interface.options import solve_options
from placer.interface.verb import verb
from placer.interface.words import Books, Limits, Time
from placer.market.catalog import Catalog, VmOffer
from placer.market.scaled_market import with_offers
from placer.market.sources.capacity.answers import OfferedBlock, read_blocks
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Requirements
from placer.problem.words.machines import quotas_of
from placer.problem.words.meanings import unknown_word
from placer.problem.words.readers import read_budget, read_wish
from placer.problem.words.values import check_words
from placer.problem.words.wishes import WISHES, Quotas
from placer.records import replace
from placer.units import parse_fraction, parse_moment, parse_seconds

OWN_WORDS = ("name", "model", "team", "priority", "weight", "max_share", "earliest", "duration")
"""Words of a job beside those of a request."""
SHARED = {
    "quota": "quotas are shared: give them for all jobs",
    "objective": "it is of all jobs together: give it once, for all of them",
}
"""Words of a request that a job does not take, and why."""
COMMAND_WORDS = {
    word: wish.name for wish in WISHES.values() for word in (wish.word, wish.word.replace("-", "_"))
}
"""Words of a request as the command line and files write them, by their name in Python."""
MACHINE_WORDS = ("name", "place", "device", "machines", "usd", "start", "duration")
OBJECTIVES = ("cost", "throughput", "time")
"""What all jobs together may be for."""
MOST_SLOTS = 400
"""More slots than that are too many to search."""
Where = Callable[[int, str | None], str]
"""Says where a job stands, or one of its words."""
Ask = Callable[..., Problem]
"""Builds the question of a job of its model and words."""
TEAM_WORDS = ("name", "budget", "quota")
QUOTA_WORDS = {"place", "gpu", "market", "gpus", "scope"}


@verb("portfolio", gap="1%", time_limit="60s")
def portfolio(
    jobs: Sequence[Mapping[str, Any]],
    *,
    catalog: Books = None,
    quota: Quotas | Sequence[Mapping[str, Any]] | None = None,
    budget: str | None = None,
    slot: Time | None = None,
    horizon: Time | None = None,
    blocks: Sequence[Mapping[str, Any]] = (),
    blocks_file: str | Path | None = None,
    begins: str | None = None,
    reservations: Sequence[Mapping[str, Any]] = (),
    teams: Sequence[Mapping[str, Any]] = (),
    objective: str = "cost",
    fair: bool = False,
    where: Where | None = None,
    advisor: Advisor | None = None,
    **words: Unpack[Limits],
) -> PortfolioAnswer:
    """Choose where many jobs run, and when, under what they share.

    Return jobs with their placements, what displaced them, a bound, and what one more of each
    scarce resource is worth. Raise `PlacerError`, which names the job and the word that is wrong.

    jobs: A mapping for each job: ``model`` and the words of `placer.recommend` without ``quota``
        and ``objective``, and ``name``, ``team``, ``priority`` (a whole number; higher runs first),
        ``weight`` (above 0), ``max_share`` (of each quota, such as ``50%``) and, with slots,
        ``earliest`` and ``duration``.
    quota: GPUs of the account, as in `placer.recommend`, or rows with the columns of a quota file.
    budget (USD[/h]): Budget of all jobs: 60/h where they run side by side, in total (2000usd) with
        slots.
    slot: Length of a slot, such as 6h: each job then runs once, from some slot on, and its deadline
        counts from now. None: all jobs run side by side.
    horizon: Length of all slots, such as 7d.
    blocks: Machines that may be had for some time at one price: ``name``, ``place``, ``device``,
        ``machines``, ``start``, ``duration`` and ``usd`` (0: paid for anyway).
    blocks_file: More blocks: capacity blocks and training plans, a CSV file as 'placer capacity
        import aws-blocks -o FILE' writes it. Each is bought whole or not at all.
    begins: When the first slot begins, such as 2026-11-24T12:00Z, for the times of that file. None:
        now.
    reservations: Machines that are paid for anyway: ``name``, ``place``, ``device``, ``machines``.
    teams: What the jobs of a team may take together: ``name``, and ``quota`` and ``budget`` as for
        all jobs.
    objective (cost|throughput|time): cost: the least dollars; throughput: the most samples/s; time:
        the least hours of all jobs. Each job's samples or hours count times its weight.

        The last two need a budget and jobs that run side by side.
    fair: First make the smallest share of any job as large as possible: its speed over the speed
        that it would have with the budget and the quotas to itself.

        Then follow the objective. Needs a budget too.
    where (Python): Says where a job or a word of it stands, for messages.
    advisor (Python): An advisor that has read books already; None: they are read.
    gap (SHARE): Relative gap to reach.
    time_limit (TIME): Stop after this long with the best so far and its bound.

    Two jobs want the one A10 that the account has; the other one takes four T4.

    >>> import placer
    >>> job = {"model": "roberta-xlm", "min_throughput": "300/s", "market": "on-demand"}
    >>> job["places"] = "lambda,gcp/us-central1"
    >>> quota = {"A10": 1, "T4": 8}
    >>> answer = placer.portfolio([job, job], catalog="erben-2023", quota=quota)
    >>> sorted(placed.workers[0] for placed in answer.jobs)
    ['gcp/us-central1=4xT4:on-demand', 'lambda/us-west-1=1xA10:on-demand']
    >>> round(answer.worths[0].usd, 2)  # of one more A10, in USD per hour
    1.44
    """
    slots = _slots(slot, horizon)
    _check_objective(objective, fair, budget, slots)
    options = solve_options(**words)
    at = where or (lambda number, word: f"job '{_name(jobs[number], number)}'")
    if not jobs:
        raise PlacerError("a portfolio without a job", "give at least one job")
    for what in filter(None, ("blocks" if blocks else None, blocks_file)):
        if slots is None:
            raise PlacerError(f"{what} without slots", "say how long a slot is: slot and horizon")
    advisor = advisor or Advisor()
    book = advisor.book(catalog)
    book = with_offers(book, (*book.offers, *(_reserved(row, book) for row in reservations)))
    made: list[tuple[VmOffer, Block]] = []
    if slots is not None:
        made += [_block(row, book, slots) for row in blocks]
        made += [] if blocks_file is None else _offered(blocks_file, book, slots, begins)
    book = with_offers(book, (*book.offers, *(offer for offer, _ in made)))
    quotas, quota_gpus = _quotas(quota, book)
    question = Portfolio(
        jobs=(),
        quotas=quotas,
        quota_gpus=quota_gpus,
        slots=slots,
        blocks=tuple(block for _, block in made),
        teams=_teams(teams, book, slots),
        objective=objective,
        fair=fair,
    )
    ask = partial(advisor.problem, catalog=book, objective="cost")
    asked = tuple(_job(question, row, number, at, ask) for number, row in enumerate(jobs))
    for number, job in enumerate(asked):
        if job.name in {other.name for other in asked[:number]}:
            raise PlacerError(f"{at(number, 'name')} appears twice", "give each job its own name")
    question = replace(question, jobs=asked, budget_usd=_budget(budget, slots))
    return answered(chosen(question, options))


def _check_objective(objective: str, fair: bool, budget: str | None, slots: Slots | None) -> None:
    """Refuse an objective that does not exist, or that has nothing to limit it."""
    if objective not in OBJECTIVES:
        raise unknown("objective", str(objective), OBJECTIVES)
    if not isinstance(fair, bool):
        raise PlacerError(f"fair {fair!r} is neither true nor false", "write fair = true")
    if objective == "cost" and not fair:
        return
    what = "fair shares" if objective == "cost" else f"objective '{objective}'"
    if slots is not None:
        raise PlacerError(f"{what} with slots", "leave out slot and horizon, or minimise the cost")
    if budget is None:
        raise PlacerError(f"{what} without a budget", "say what all jobs may cost: budget 60/h")


def _name(row: Mapping[str, Any], number: int) -> str:
    name = row.get("name") if isinstance(row, Mapping) else None
    return name if isinstance(name, str) and name else f"job-{number + 1}"


def _job(shared: Portfolio, row: Mapping[str, Any], number: int, at: Where, ask: Ask) -> Job:
    """Read one job of those that share something; a `PlacerError` says where the word stands that
    is wrong.
    """
    if not isinstance(row, Mapping):
        raise PlacerError(f"job {number + 1} is {row!r}", "give a mapping of its words")
    row = {COMMAND_WORDS.get(word, word): value for word, value in row.items()}
    known = [*OWN_WORDS, *(word for word in WISHES if word not in SHARED)]
    for word in row:
        if word in SHARED:
            raise PlacerError(f"{at(number, word)}: word '{word}'", SHARED[word])
        if word not in known:
            error = unknown_word("word", str(word), known)
            raise PlacerError(f"{at(number, str(word))}: {error.message}", error.hint)
    if "model" not in row:
        raise PlacerError(f"{at(number, None)} has no model", "name one of 'placer models'")
    try:
        return _read(shared, row, number, ask)
    except PlacerError as error:
        message = f"{at(number, None)}: {error.message}"
        raise PlacerError(message, error.hint, error.exit_code) from None


def _read(shared: Portfolio, row: Mapping[str, Any], number: int, ask: Ask) -> Job:
    words = {word: value for word, value in row.items() if word not in OWN_WORDS}
    weight = _number(row.get("weight", 1.0), "weight")
    if weight <= 0:
        raise PlacerError(f"weight {weight:g}", "give a number above 0")
    priority = row.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise PlacerError(f"priority {priority!r} is not a whole number", "give 0, 1, 2, ...")
    share = parse_fraction(str(row.get("max_share", "1")), "max_share", 1.0)
    team = row.get("team", "")
    if team and team not in (names := [each.name for each in shared.teams]):
        raise unknown("team", str(team), names)
    problem = ask(row["model"], **words)
    wish = replace(
        problem.requirements,
        objective="cost",  # a slot is paid by the hour, from its first minute
        startup_s=0.0,
        quotas=tuple(replace(each, gpus=math.floor(share * each.most)) for each in shared.quotas),
        quota_gpus=None if shared.quota_gpus is None else math.floor(share * shared.quota_gpus),
    )
    duration = _seconds(row.get("duration"), "duration")
    _check_amount(wish, duration, shared)
    return Job(
        name=_name(row, number),
        problem=replace(problem, requirements=wish),
        priority=priority,
        weight=weight,
        max_share=share,
        earliest_s=_seconds(row.get("earliest"), "earliest") or 0.0,
        deadline_s=wish.deadline_s if shared.slots is not None else None,
        duration_s=duration,
        team=team,
    )


def _teams(
    rows: Sequence[Mapping[str, Any]], book: Catalog, slots: Slots | None
) -> tuple[Team, ...]:
    """Read the limits of teams; a `PlacerError` names the team."""
    teams: dict[str, Team] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping) or set(row) - set(TEAM_WORDS):
            raise PlacerError(f"team {number}: {row!r}", f"give {', '.join(TEAM_WORDS)}")
        name = row.get("name")
        if not isinstance(name, str) or not name:
            raise PlacerError(f"team {number} has no name", "jobs name their team")
        if name in teams:
            raise PlacerError(f"team '{name}' appears twice", "give each team once")
        try:
            quotas, gpus = _quotas(row.get("quota"), book)
            budget = _budget(row.get("budget"), slots)
        except PlacerError as error:
            raise PlacerError(f"team '{name}': {error.message}", error.hint) from None
        if gpus is not None:
            quotas = (Quota(place="*", gpu="*", market="*", gpus=gpus),)
        teams[name] = Team(name=name, quotas=quotas, budget_usd=budget)
    return tuple(teams.values())


def _check_amount(wish: Requirements, duration: float | None, shared: Portfolio) -> None:
    """Refuse a job that does not say what it must of itself, beside the others."""
    if shared.slots is None:
        if duration is not None:
            raise PlacerError("duration without slots", "say how long a slot is: slot and horizon")
        if shared.objective == "time" and wish.samples is None:
            raise PlacerError(
                "nothing says how much it has to do", "give tokens or samples: hours count"
            )
        if not shared.by_speed and not wish.floor_samples_per_second:
            raise PlacerError(
                "nothing says how fast it must be",
                "give min_throughput, or tokens or samples with a deadline",
            )
    elif (wish.samples is None) == (duration is None):
        raise PlacerError(
            "with slots a job has an amount or a duration",
            "give tokens, samples or duration, and one of them",
        )


def _quotas(
    quota: Quotas | Sequence[Mapping[str, Any]] | None, book: Catalog
) -> tuple[tuple[Quota, ...], int | None]:
    """Read quotas: a number, a file, a mapping, or rows of a table."""
    if quota is None:
        return (), None
    if isinstance(quota, list | tuple):
        rows: list[Quota] = []
        for number, row in enumerate(quota, 1):
            if not isinstance(row, Mapping) or set(row) - QUOTA_WORDS:
                raise PlacerError(
                    f"quota {number}: {row!r}", "give place, gpu, market, gpus and perhaps scope"
                )
            key = (row.get("place", "*"), row.get("gpu", "*"), row.get("market", "*"))
            (read,) = quotas_of({key: row.get("gpus", "")}, book)
            scope = row.get("scope", "each")
            if scope not in {"each", "together"}:
                raise unknown("scope", str(scope), ("each", "together"))
            rows.append(replace(read, scope=scope))
        return tuple(rows), None
    value = check_words({"quota": quota})["quota"]
    fields = read_wish(WISHES["quota"], value, book, {})
    for row in fields["quotas"]:
        if row.of_machines:  # nothing prices what jobs take of it from each other
            raise PlacerError(
                f"quota of {row.most} {row.words}: jobs share quotas of GPUs of any machine type",
                "state it in gpus, without machine",
            )
    return tuple(fields["quotas"]), fields["quota_gpus"]


def _slots(slot: str | float | None, horizon: str | float | None) -> Slots | None:
    if slot is None and horizon is None:
        return None
    each, whole = _seconds(slot, "slot"), _seconds(horizon, "horizon")
    if each is None or whole is None:
        raise PlacerError("slot and horizon go together", "give both, such as 6h and 7d")
    count = int(whole / each * (1 + 1e-12))
    if not 1 <= count <= MOST_SLOTS:
        raise PlacerError(
            f"{count} slots of {each / HOUR_S:g} h in {whole / HOUR_S:g} h",
            f"1 to {MOST_SLOTS} slots can be searched",
        )
    return Slots(count=count, hours=each / HOUR_S)


def _budget(budget: str | None, slots: Slots | None) -> float | None:
    if budget is None:
        return None
    if not isinstance(budget, str):
        raise PlacerError(f"budget {budget!r} is not text", "write 60/h, or 2000usd with slots")
    per_hour, total, _ = read_budget(budget, 1)
    if slots is None and per_hour is None:
        hint = "write it as 60/h, or give slot and horizon"
        raise PlacerError(f"budget '{budget}' in total without slots", hint)
    if slots is not None and total is None:
        raise PlacerError(f"budget '{budget}' per hour with slots", "give it in total: 2000usd")
    return per_hour if slots is None else total


def _seconds(value: str | float | None, what: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise PlacerError(f"{what} {value!r} is not a time", "write it as 6h or 2d")
    text = value if isinstance(value, str) else f"{value}s"
    return 0.0 if text in {"0", "0s", "0h"} else parse_seconds(text)


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PlacerError(f"{what} {value!r} is not a number", "give a number")
    return float(value)


def _reserved(row: Mapping[str, Any], book: Catalog) -> VmOffer:
    words = _machine_words(row, "reservation", MACHINE_WORDS[:4])
    return _paid(words, book, f"reservation {words['name']}")


def _block(row: Mapping[str, Any], book: Catalog, slots: Slots) -> tuple[VmOffer, Block]:
    """Build the offer of a block of machines, and when it is there."""
    words = _machine_words(row, "block", MACHINE_WORDS)
    name = words["name"]
    start, long = _seconds(row.get("start", 0), "start"), _seconds(row.get("duration"), "duration")
    if long is None:
        raise PlacerError(f"block '{name}' has no duration", "say how long it is there: 24h")
    usd = _number(row.get("usd", 0.0), f"block '{name}': usd")
    if usd < 0:
        raise PlacerError(f"block '{name}': usd {usd:g}", "give what it costs, or 0")
    first, end = slots.after(start or 0.0), slots.until((start or 0.0) + long)
    there = range(first, max(first, end))
    return _made(_paid(words, book, f"block {name}"), name, words["machines"], there, usd)


def _made(
    offer: VmOffer, name: str, machines: int, there: range, usd: float
) -> tuple[VmOffer, Block]:
    """Return an offer with the block of its machines, which are there in some slots."""
    block = Block(name=name, offer=kind_of(offer), machines=machines, slots=there, usd=usd)
    return offer, block


def _offered(
    path: str | Path, book: Catalog, slots: Slots, begins: str | None
) -> list[tuple[VmOffer, Block]]:
    """Build the offers of a file of blocks that cover a slot, from the first slot on."""
    first = datetime.now(UTC) if begins is None else parse_moment(begins, "begins")
    made: list[tuple[VmOffer, Block]] = []
    for number, row in enumerate(read_blocks(path), start=1):
        opens = (parse_moment(row.start, str(path)) - first).total_seconds()
        after = slots.after(max(0.0, opens))
        until = slots.until(max(0.0, opens + row.hours * HOUR_S))
        if after >= until:
            continue
        name = f"{row.name or 'block'}-{number}"
        offer = _paid_like(_like_offered(row, book, str(path)), name, row.machines, row.source)
        made.append(_made(offer, name, row.machines, range(after, until), row.usd))
    return made


def _like_offered(row: OfferedBlock, book: Catalog, path: str) -> VmOffer:
    """Return an offer of the machine of a block, of its place where the book has one."""
    region = book.region(row.place)
    every = [o for o in book.offers if o.instance_type == row.instance_type]
    every = [o for o in every if o.provider == region.provider and o.gpu == row.gpu]
    if not every:
        raise PlacerError(
            f"{path}: no book knows the machine {row.instance_type} of {region.provider}",
            "leave the row out, or give a book that has it: catalog",
        )
    order = sorted(every, key=lambda o: (o.place != row.place, o.market != "on_demand"))
    return msgspec.structs.replace(order[0], region=region.region)


def _machine_words(row: Mapping[str, Any], kind: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise PlacerError(f"a {kind} is {row!r:.60}", f"give {', '.join(known[:4])}")
    words = dict(row)
    for word in words:
        if word not in known:
            error = unknown("word", word, known)
            raise PlacerError(f"{kind} '{row.get('name', '')}': {error.message}", error.hint)
    for word in known[:4]:
        if word not in words:
            raise PlacerError(f"a {kind} has no {word}", f"give {', '.join(known[:4])}")
    for word in known[:3]:
        if not isinstance(words[word], str):
            raise PlacerError(f"a {kind}: {word} {words[word]!r:.60} is not text", "give a name")
    machines = words["machines"]
    if isinstance(machines, bool) or not isinstance(machines, int) or machines < 1:
        raise PlacerError(
            f"{kind} '{words['name']}': machines {machines!r}", "give a whole number from 1"
        )
    return words


def _paid(words: Mapping[str, Any], book: Catalog, what: str) -> VmOffer:
    """Build an offer for nothing like the on-demand one of a place and device."""
    book.region(words["place"])
    like = [o for o in book.offers_at(words["place"]) if o.device == words["device"]]
    if not like:
        there = dict.fromkeys(o.device for o in book.offers_at(words["place"]))
        raise unknown("device", f"{words['device']}' in '{what}", there)
    offer = next((o for o in like if o.market == "on_demand"), like[0])
    return _paid_like(offer, words["name"], words["machines"], f"{what}: paid for anyway")


def _paid_like(offer: VmOffer, name: str, machines: int, source: str) -> VmOffer:
    """Build an offer for nothing of a number of machines."""
    return msgspec.structs.replace(
        offer,
        instance_type=f"{offer.instance_type}@{name}",
        market="on_demand",
        usd_per_hour=0.0,
        usd_per_hour_low=None,
        usd_per_hour_high=None,
        price_basis="reserved",
        available=machines,
        source=source,
    )

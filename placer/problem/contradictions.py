"""Wishes that contradict each other, or would change nothing: refused before any search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from placer.errors import BadInputError, PlacerError
from placer.market.catalog import VmOffer
from placer.problem.admitted_exchanges import server_at
from placer.problem.datasets import needs_place, passes_of
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.problem.question import MOST_KNOWN_LOCAL_STEPS
from placer.problem.requirements import LOCAL, OUTER, Quota, Used, matches, uses
from placer.problem.words.wishes import INSIDE
from placer.problem.workers.pool import Pool
from placer.problem.workers.resources import NO_QUOTA_GPUS
from placer.units import format_bytes
from placer.workload.profile import FEEDBACK_COMPRESSIONS

SAME_PASSES = 0.05
"""By so much passes may differ from those that samples and size of the data make: both are
rounded.
"""


class ContradictionError(BadInputError):
    """Wishes that no placement can meet together, with the question that holds them."""

    def __init__(self, error: PlacerError, problem: Problem) -> None:
        super().__init__(error.message, error.hint, error.exit_code)
        self.problem = problem


def without_contradictions(problem: Problem) -> Problem:
    """Refuse wishes that contradict each other before anything is searched."""
    conflict = contradiction(problem)
    if conflict is not None:
        raise ContradictionError(conflict, problem)
    _check_idle(problem)
    return problem


def contradiction(problem: Problem) -> PlacerError | None:
    """Return the first contradiction that is seen without a search; None if there is none."""
    return _no_mode(problem) if not problem.modes else next(_contradictions(problem), None)


def _no_mode(problem: Problem) -> PlacerError:
    wish = problem.requirements
    if wish.exchange in ("auto", *LOCAL) and (wish.min_local_steps or 1) > MOST_KNOWN_LOCAL_STEPS:
        return PlacerError(
            f"nothing is known about how {wish.min_local_steps} local steps converge",
            f"take at most {MOST_KNOWN_LOCAL_STEPS}, or say it with --samples-to-target "
            f"STRATEGY=FACTOR",
        )
    if problem.compression in FEEDBACK_COMPRESSIONS and wish.exchange not in OUTER:
        what = "exchanges in every step" if wish.exchange == "auto" else f"{wish.exchange}"
        return PlacerError(
            f"{problem.compression} loses too much of each gradient for {what}: it is for the "
            f"changes of many steps, whose losses are added to the next",
            f"use --exchange {' or '.join(OUTER)}, or --compression int8",
        )
    outer = wish.exchange in OUTER
    if wish.quorum is not None:
        return _no_quorum(problem)
    if wish.overlap:
        return PlacerError(
            f"the exchange {wish.exchange} cannot overlap the next step",
            f"leave out --overlap, or use {'streaming-diloco' if outer else 'all-reduce'}",
        )
    return PlacerError(
        f"{wish.exchange} exchanges in every step",
        f"leave out --local-steps, or use {', '.join(LOCAL)}",
    )


def _no_quorum(problem: Problem) -> PlacerError:
    wish = problem.requirements
    able = [name for name in LOCAL if traits(name).quorum]
    if wish.exchange != "auto" and wish.exchange not in able:
        return PlacerError(
            f"the exchange {wish.exchange} waits for all workers, so quorum {wish.quorum} means "
            f"nothing to it",
            f"use --exchange {', '.join(able)}, or leave out --quorum",
        )
    if wish.overlap:
        return PlacerError(
            f"{wish.exchange} with --overlap waits for all workers",
            "leave out --overlap or --quorum, or use --exchange streaming-diloco",
        )
    return PlacerError(
        f"an exchange in every step waits for all workers, so quorum {wish.quorum} has no effect",
        "give --local-steps 100 or --exchange diloco, or leave out --quorum",
    )


def _contradictions(problem: Problem) -> Iterator[PlacerError]:
    """Yield unusable data, unusable machines and places that cannot be had together."""
    for sentence in homeless(problem):
        yield PlacerError(sentence, "change --data, --keep, or the option that excludes its place")
    for sentence in unusable(problem):
        yield PlacerError(sentence, "change --use, or the option that contradicts it")
    yield from _places(problem)


def _check_idle(problem: Problem) -> None:
    """Refuse wishes that would change nothing."""
    wish, names = problem.requirements, {name for name, _ in problem.modes}
    for name, _ in wish.samples_to_target:
        if name not in names:
            raise PlacerError(
                f"samples to target of {name}, which the request does not allow",
                "allow it with --exchange or --local-steps",
            )
    if (
        wish.critical_batch is not None
        and wish.batch_range is None
        and problem.batch == problem.profile.target_batch_size
    ):
        raise PlacerError(
            f"critical batch {wish.critical_batch:,} at the profile's own batch of "
            f"{problem.batch:,} changes nothing",
            "give another --tbs or a range of them, or leave it out",
        )
    if wish.confidence is not None and wish.floor_samples_per_second is None:
        raise PlacerError(
            f"confidence {100 * wish.confidence:g} % without a deadline or a floor",
            "give --deadline or --min-throughput, or leave --confidence out",
        )
    if wish.passes != 1 and not wish.data_moves and wish.data_store is None:
        raise PlacerError(
            f"--passes {wish.passes:g} only applies with --data PLACE=N:move or --data STORE",
            "add one of them, or leave --passes out",
        )
    about = {"size": wish.data_bytes, "cache": wish.data_cache, "source": wish.data_source}
    for word, value in ((f"data-{part}", value) for part, value in about.items()):
        if value is not None and wish.data_store is None:
            raise PlacerError(
                f"{word} without a store that the data comes from",
                f"give --data STORE, or leave --{word} out",
            )
    _check_passes(problem)
    _check_inside(problem)


def _check_inside(problem: Problem) -> None:
    """Refuse a plan inside a worker where none is made: for a model of known speeds alone."""
    wish, name = problem.requirements, problem.profile.name
    if problem.profile.architecture is not None:
        return
    asked = {word: getattr(wish, field) for word, field in INSIDE.items()}
    if (wish.min_island_machines or 1) > 1:
        asked["machines-per-island"] = wish.min_island_machines
    for word, value in asked.items():
        if value is not None:
            raise PlacerError(
                f"{word} '{value}' does not apply to {name}: its speeds are those of its "
                f"profile, on one machine a worker",
                f"leave out --{word}, or name a language model (placer models)",
            )


def _check_passes(problem: Problem) -> None:
    """Refuse passes that do not follow from the samples and the size of the data."""
    wish, size = problem.requirements, problem.profile.bytes_per_sample
    if None in (wish.data_store, wish.samples, wish.data_bytes, size) or wish.passes == 1:
        return
    follow = passes_of(1.0, wish.samples, wish.data_bytes, size or 0.0)
    if abs(follow - wish.passes) > SAME_PASSES * follow:
        raise PlacerError(
            f"passes {wish.passes:g}, but {wish.samples:,} samples are {follow:,.3g} passes over "
            f"{format_bytes(wish.data_bytes or 0.0)}",
            "leave one of --passes, --samples and --data-size out",
        )


def _places(problem: Problem) -> Iterator[PlacerError]:
    """Yield the wishes about places that no placement can meet."""
    wish, stay = problem.requirements, needs_place(problem.requirements.datasets)
    fixed = bool(stay) and not wish.data_moves
    for what, most in (
        ("regions", wish.max_regions),
        ("workers", wish.max_workers),
        ("samples a step", problem.batch),
    ):
        if len(stay) > most:
            yield PlacerError(
                f"data stays in {len(stay)} places, but at most {most} {what} are allowed",
                "allow more, or let data move",
            )
    if fixed and wish.min_regions > len(stay):
        yield PlacerError(
            f"data stays in {len(stay)} places, but {wish.min_regions} regions are wanted",
            "lower --regions, or let data move",
        )
    for sentence in (*parted(problem), *_server_outside(problem)):
        yield PlacerError(sentence, "change --keep, --data, --aggregator or the places")


def _server_outside(problem: Problem) -> Iterator[str]:
    """Yield a sentence if a parameter server is wanted where no machine may be."""
    wish = problem.requirements
    if wish.exchange == "parameter-server" and wish.aggregator is not None:
        outside = problem.place_problem(wish.aggregator)
        if outside:
            yield f"the parameter server is wanted in {wish.aggregator}, but {outside}"
        elif server_at(wish.aggregator, 2, problem) is None:
            yield (
                f"{wish.aggregator} rents no machine that could serve: enough memory, "
                f"{wish.market} market, quota"
            )


def homeless(problem: Problem) -> Iterator[str]:
    """Yield a sentence for each dataset that must stay where no worker may be."""
    for data in problem.requirements.datasets:
        rules = [
            rule
            for rule in problem.requirements.kept
            if rule.kind == "raw-data" and data.place in rule.places
        ]
        if data.may_move and not rules:
            continue
        allowed = {data.place} if not data.may_move else set(problem.catalog.regions)
        for rule in rules:
            allowed &= set(rule.places)
        if not any(pool.offer.place in allowed for pool in problem.pools):
            why = (
                "must stay there"
                if not data.may_move
                else f"must not leave {', '.join(rule.area for rule in rules)}"
            )
            yield (
                f"the {data.samples:,} samples in {data.place} can be used nowhere: they {why}, "
                f"and {_why_excluded(data.place, problem)}"
            )


def _why_excluded(place: str, problem: Problem) -> str:
    excluded = problem.place_problem(place)
    if excluded:
        return excluded
    offers = problem.catalog.offers_at(place)
    if not offers:
        return f"catalog {problem.catalog.name} rents no machine there"
    reasons = [message for offer in offers for _, message in problem.offer_problems(offer)[:1]]
    if reasons:
        return max(sorted(set(reasons)), key=reasons.count)
    return "the quota allows no machine there"


def parted(problem: Problem) -> Iterator[str]:
    """Yield one sentence if data that stays in several places can use no exchange: a rule parts two
    places if one is in its area and the other is not.
    """
    stay, wish = needs_place(problem.requirements.datasets), problem.requirements
    store = problem.data_store
    for rule in wish.kept:
        kept = rule.kind == "raw-data" and store is not None and store.place in rule.places
        if kept and not any(pool.offer.place in rule.places for pool in problem.pools):
            yield (
                f"raw-data must not leave {rule.area}, where the store of the data is, and no "
                f"worker may be there"
            )
    blocked = {
        rule.kind
        for rule in wish.kept
        if 0 < sum(place in rule.places for place in stay) < len(stay)
    }
    payloads = {traits(name).payload for name, _ in problem.modes}
    if payloads and payloads <= blocked:
        areas = ", ".join(f"{rule.kind}={rule.area}" for rule in wish.kept if rule.kind in payloads)
        yield (
            f"data stays in {', '.join(stay)}, and --keep {areas} lets no exchange pass between "
            f"them"
        )


def unusable(problem: Problem) -> Iterator[str]:
    """Yield one sentence for each rule of ``--use`` that no placement can keep."""
    wish = problem.requirements
    batch = max(wish.open_batches, default=problem.batch)
    for rule in wish.used:
        pools = pools_of(rule, problem.pools)
        most = _most_machines(pools, wish.joint_quotas)
        if not pools:
            yield f"--use {rule.spec}: {_why_none(rule, problem)}"
        elif most < rule.count:
            limited = all(pool.offer.available is not None for pool in pools)
            yield (
                f"--use {rule.spec}: {'only' if limited else 'the quota allows only'} {most} "
                f"{'exist' if limited else 'of them'}"
            )
        elif rule.count > min(wish.max_workers, batch):
            limit = (
                f"{wish.max_workers} workers"
                if wish.max_workers <= batch
                else f"{batch} samples a step"
            )
            yield f"--use {rule.spec}: at most {limit} are allowed"
        elif (
            wish.datasets
            and not wish.data_moves
            and not any(p.offer.place == data.place for p in pools for data in wish.datasets)
        ):
            yield (
                f"--use {rule.spec}: workers are only where the data stays, in "
                f"{', '.join(sorted(d.place for d in wish.datasets))}"
            )
    apart = disjoint(wish.used, problem.pools)
    if sum(rule.count for rule in apart) > wish.max_workers:
        named = " ".join(f"--use {rule.spec}" for rule in apart)
        yield (
            f"{named}: {sum(rule.count for rule in apart)} machines must be used, but at most "
            f"{wish.max_workers} workers are allowed"
        )
    if wish.used and len(wish.required_places) > wish.max_regions:
        places = ", ".join(wish.required_places)
        yield f"workers are needed in {places}, but at most {wish.max_regions} regions are allowed"


def pools_of(rule: Used, pools: Sequence[Pool]) -> list[Pool]:
    """Return the admitted offers that a rule is about."""
    return [
        pool for pool in pools if uses(rule, pool.offer.place, pool.offer.device, pool.offer.market)
    ]


def disjoint(rules: Sequence[Used], pools: Sequence[Pool]) -> tuple[Used, ...]:
    """Return rules of which no two ask for machines of one quota: their counts add up."""
    taken: set[tuple[str, ...]] = set()
    unmet = []
    for rule in rules:
        buckets = {pool.bucket for pool in pools_of(rule, pools)}
        if not buckets & taken:
            unmet.append(rule)
            taken |= buckets
    return tuple(unmet)


def _most_machines(pools: Sequence[Pool], joint: Sequence[Quota]) -> int:
    """Return the most machines that quotas and numbers allow: the smallest ones first."""
    return min(_within(pools, row) for row in (None, *joint))


def _within(pools: Sequence[Pool], joint: Quota | None) -> int:
    """Return the most machines under the quotas of the pools and one that several of them share."""
    most, shared = 0, 0 if joint is None else joint.most
    # One that counts vCPUs is looked at alone, which errs high: the smallest first is best by one
    # measure, not by two.
    alone = joint is not None and joint.of_machines
    left = {pool.bucket: NO_QUOTA_GPUS if alone else pool.gpu_quota for pool in pools}
    sizes = [
        (0 if joint is None else joint.taken(pool.offer), pool.offer.gpu_count, pool)
        for pool in pools
    ]
    for taken, devices, pool in sorted(sizes, key=lambda size: size[:2] if alone else size[1:2]):
        count = min(pool.max_count, left[pool.bucket] // devices)
        if taken:
            count = min(count, shared // taken)
            shared -= count * taken
        left[pool.bucket] -= count * devices
        most += count
    return most


def _why_none(rule: Used, problem: Problem) -> str:
    """Say why no admitted machine is what a rule asks for."""
    there = [offer for offer in problem.catalog.offers if matches(offer.place, rule.place)]
    offers = [offer for offer in there if uses(rule, offer.place, offer.device, offer.market)]
    if not offers:
        sold = sorted({f"{offer.device}:{offer.market.replace('_', '-')}" for offer in there})
        return (
            f"catalog '{problem.catalog.name}' rents none there; it has "
            f"{', '.join(sold[:12]) or 'no machines there'}"
        )
    reasons = [_reason(offer, problem) for offer in offers]
    return max(sorted(set(reasons)), key=reasons.count)


def _reason(offer: VmOffer, problem: Problem) -> str:
    where, broken = problem.place_problem(offer.place), problem.offer_problems(offer)
    if where or broken:
        return where or broken[0][1]
    if offer.price_basis == "owned" and problem.pool(offer) is not None:
        return (
            f"{offer.place} has machines of your own, which are used only where their site is "
            f"named, not by a pattern"
        )
    if problem.pool(offer) is None:
        return f"nobody knows how fast {problem.profile.name} runs on {offer.device}"
    short = problem.quota_problem(offer)
    return short or f"the quota allows too few {offer.device} in {offer.place}"

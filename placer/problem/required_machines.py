"""Machines that must be used against the rest of the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from placer.market.catalog import VmOffer
from placer.problem.problem import Problem
from placer.problem.requirements import Quota, Used, uses
from placer.problem.workers.pool import Pool
from placer.problem.workers.quotas import NO_QUOTA_GPUS


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
    there = [offer for offer in problem.catalog.offers if fnmatchcase(offer.place, rule.place)]
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
    """Return the first thing that keeps an offer out of a request."""
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

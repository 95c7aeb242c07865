"""Limits that bind: how much of each is used, and what would be better without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from placer.advice.explanation.subject import Asker, Trial
from placer.advice.explanation.wishes import Wish, wishes_of, without
from placer.advice.recommendation.other_answers import wanting
from placer.cost_model.estimate import replanned
from placer.cost_model.limits import joint_use, quota_use, violations
from placer.cost_model.outlook.totals import totals_of
from placer.documents.schemas.explanation import Binding, JointLimits, Limit, LimitUnit
from placer.problem.admitted_exchanges import exchanges
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.problem.workers.resources import NO_QUOTA_GPUS
from placer.records import replace
from placer.solving.result import Option, Result

BETTER = 1e-6
"""A relative improvement above the proved gap by less counts as none."""
MOST_PAIRS = 6
"""Pairs of limits that are looked at one by one."""
MEMORY = "memory"
"""Code of the limit that machines are too small for the model."""
MOST_BUCKETS = 3
"""Quotas of a place, GPU and market that are looked at one by one."""
Amounts = tuple[LimitUnit, float | None, float | None]
"""Unit of a limit, how much of it is used, and the limit."""
UNCOUNTED: Amounts = ("", None, None)
"""Of a limit without an amount."""


def find_binding(result: Result, asker: Asker) -> Binding[Option]:
    """Find out which limits keep a better placement than the result away.

    ``ample`` is the best answer without quotas, ``plain`` that without the limits that nobody asked
    for, where there are several.
    """
    problem, defaults, ample, plain = result.problem, _defaults(result), None, None
    if problem.requirements.has_quotas:
        ample = asker.wanting(problem, result.placement, quotas=(), quota_gpus=None, supply=None)
    if len(defaults) > 1:
        plain = asker.best(without(problem, defaults), beat=result.value)
    limits: list[Limit[Option]] = []
    # Where nothing is better without all limits that nobody asked for, nothing is without one.
    none = plain is not None and improves(plain, result, asker.options.gap) is False
    for wish in _tried(result):
        known = plain if none and not wish.given else None
        trial = known or asker.best(without(problem, [wish]), start=result.placement)
        amounts = _amounts(wish, result)
        limits.append(_limit(wish.code, wish.words, amounts, trial, result, asker))
    if ample is not None:
        limits += _quota_limits(ample, result, asker)
    memory = _memory_wish(problem)
    if memory is not None:  # machines that are too small for the model
        trial = asker.best(_light(problem), start=result.placement)
        limits.append(_limit(MEMORY, memory.words, UNCOUNTED, trial, result, asker))
    idle = {limit.code for limit in limits if limit.binds is False}
    idle -= {limit.code for limit in limits if limit.binds is not False}
    if ample is not None and improves(ample, result, asker.options.gap) is False:
        idle.add("quota")
    order = {True: 0, None: 1, False: 2}
    return Binding(
        limits=tuple(sorted(limits, key=lambda limit: (order[limit.binds], -(limit.gain or 0.0)))),
        one_more=one_more(result),
        joint=_joint(idle, result, plain, asker),
    )


def _joint(
    idle: set[str], result: Result, plain: Trial | None, asker: Asker
) -> tuple[JointLimits[Option], ...] | None:
    """Return the limits that bind together, of those without effect alone.

    One question without all of them finds whether any bind together; what its answer breaks names
    them. If these are more than two, and for other pairs, at most `MOST_PAIRS` more questions.
    """
    problem = result.problem
    memory = _memory_wish(problem)
    named = (*wishes_of(problem), *(() if memory is None else (memory,)))
    wishes = [wish for wish in named if wish.code in idle]
    if len(wishes) < 2:
        return ()
    known = plain if wishes == _defaults(result) else None
    trial = known or asker.best(_given_up(problem, wishes), start=result.placement)
    better = improves(trial, result, asker.options.gap)
    if not better:
        return None if better is None else ()
    assert trial.placement is not None
    broken = [
        wish
        for wish in wishes
        if violations(trial.placement, _given_up(problem, [w for w in wishes if w is not wish]))
    ]
    if len(broken) == 2:
        return (_joint_of(broken, trial, result),)
    pairs = sorted(combinations(wishes, 2), key=lambda pair: -sum(wish in broken for wish in pair))
    found = []
    for pair in pairs[:MOST_PAIRS]:
        one = asker.best(_given_up(problem, pair), start=result.placement)
        if improves(one, result, asker.options.gap):
            found.append(_joint_of(pair, one, result))
    found.sort(key=lambda joint: -joint.gain)
    return tuple(found) or (_joint_of(broken or wishes, trial, result),)


def _given_up(problem: Problem, wishes: Sequence[Wish]) -> Problem:
    """Return the question without some limits, the memory of its machines among them."""
    lighter = _light(problem) if any(wish.code == MEMORY for wish in wishes) else problem
    return without(lighter, wishes)


def _joint_of(wishes: Sequence[Wish], trial: Trial, result: Result) -> JointLimits[Option]:
    option, gain = trial.option(), gain_of(trial, result)
    assert option is not None
    codes, words = zip(*((wish.code, wish.words) for wish in wishes), strict=True)
    return JointLimits(codes=codes, words=words, without=option, gain=gain or 0.0)


def gain_of(trial: Trial | Option, result: Result) -> float | None:
    """Return the improvement of the request's objective as a share; None without a placement."""
    if trial.estimate is None or result.value is None:
        return None
    return -result.objective.loss(result.objective.value(trial.estimate), result.value)


def _defaults(result: Result) -> list[Wish]:
    return [wish for wish in _tried(result) if not wish.given]


def _tried(result: Result) -> list[Wish]:
    """List the limits that are left out one by one; without its objective nothing is better."""
    return [wish for wish in wishes_of(result.problem) if wish.code not in ("quota", "objective")]


def improves(trial: Trial, result: Result, gap: float) -> bool | None:
    """Return whether an answer beats the best by more than the gap; None if neither is proved."""
    assert result.value is not None
    if trial.estimate is not None and result.objective.better(
        result.objective.value(trial.estimate), result.value, gap + BETTER
    ):
        return True
    return False if trial.proved else None


def _amounts(wish: Wish, result: Result) -> Amounts:
    """Return the unit of a limit, how much of it is used, and the limit."""
    (placement, got), asked = result.found, result.problem.requirements
    speed, per_sample = got.effective_samples_per_second.value, got.usd_per_million_samples
    regions = len(placement.places)
    amounts: dict[str, Amounts] = {
        "budget": ("usd_per_hour", got.usd_per_hour.total, asked.budget_usd_per_hour),
        "throughput": ("samples_per_second", speed, asked.min_samples_per_second),
        "most-workers": ("workers", placement.workers, asked.max_workers),
        "fewest-workers": ("workers", placement.workers, asked.min_workers),
        "most-regions": ("regions", regions, asked.max_regions),
        "fewest-regions": ("regions", regions, asked.min_regions),
        "per-sample": ("usd_per_million_samples", per_sample, asked.most_usd_per_million_samples),
        "carbon": ("g_per_hour", None, None),
    }
    if got.carbon_g_per_hour is not None:
        emitted = got.carbon_g_per_hour.value
        amounts["carbon"] = "g_per_hour", emitted, asked.max_carbon_g_per_hour
    if asked.samples is not None:
        totals = totals_of(got, asked)
        amounts["deadline"] = "seconds", totals.seconds.value, asked.deadline_s
        amounts["total-budget"] = "usd", totals.usd.value, asked.budget_usd
    return amounts.get(wish.code, UNCOUNTED)


def _limit(
    code: str, words: str, amounts: Amounts, trial: Trial, result: Result, asker: Asker
) -> Limit[Option]:
    binds, (unit, used, limit) = improves(trial, result, asker.options.gap), amounts
    return Limit(
        code=code,
        words=words,
        unit=unit,
        used=used,
        limit=limit,
        binds=binds,
        without=trial.option() if binds else None,
        gain=gain_of(trial, result) if binds else None,
        nearest=_nearest(code, result, asker) if binds else None,
    )


def _nearest(code: str, result: Result, asker: Asker) -> Option | None:
    """Return the least step beyond a budget that is faster, or below a floor that is cheaper."""
    (_, got), problem, gap = result.found, result.problem, asker.options.gap + BETTER
    speed, usd = got.effective_samples_per_second.value, got.usd_per_hour.total
    if code == "budget" and result.objective.by_speed:
        return cheapest_from(speed * (1 + gap), problem, asker).option()
    if code == "throughput" and problem.requirements.objective == "cost" and usd > 0:
        cheaper = wanting(problem, objective="throughput", min_samples_per_second=None)
        return asker.wanting(cheaper, budget_usd_per_hour=usd * (1 - gap)).option()
    return None


def cheapest_from(
    samples_per_second: float, problem: Problem, asker: Asker, usd_per_hour: float | None = None
) -> Trial:
    """Find the cheapest placement of at least some speed, within a budget in place of the own."""
    floor = max(samples_per_second, problem.requirements.floor_samples_per_second or 0.0)
    return asker.wanting(
        problem, objective="cost", budget_usd_per_hour=usd_per_hour, min_samples_per_second=floor
    )


def _quota_limits(ample: Trial, result: Result, asker: Asker) -> Iterator[Limit[Option]]:
    """Yield the quotas of the machines that are used, or would be by the answer without quotas."""
    (placement, _), problem, quota = result.found, result.problem, result.problem.quota
    use = quota_use(placement, problem).items()
    used = {key: gpus for key, gpus in use if quota(*key) < NO_QUOTA_GPUS}
    if not improves(ample, result, asker.options.gap):
        if used:
            bucket = max(used, key=lambda key: used[key] / max(1, quota(*key)))
            amounts: Amounts = ("gpus", used[bucket], quota(*bucket))
            yield _limit("quota", bucket_words(bucket), amounts, ample, result, asker)
        return
    more = {} if ample.placement is None else quota_use(ample.placement, problem)
    wanted = [key for key, gpus in more.items() if gpus > quota(*key)]
    full = [key for key in used if used[key] >= quota(*key)]
    buckets = list(dict.fromkeys([*wanted, *full]))
    joint = list(_joint_quota_limits(ample, result, asker))
    each = joint[:]
    for bucket in buckets[:MOST_BUCKETS]:
        trial = asker.best(with_bucket(problem, bucket, NO_QUOTA_GPUS), start=placement)
        amounts = ("gpus", used.get(bucket, 0), quota(*bucket))
        each.append(_limit("quota", bucket_words(bucket), amounts, trial, result, asker))
    binding = [limit for limit in each if limit.binds]
    yield from binding
    if not binding:
        names = ", ".join((*(limit.words for limit in joint), *map(bucket_words, buckets)))
        words = f"quotas of {names} together"
        yield _limit("quota", words, ("gpus", None, None), ample, result, asker)


def _joint_quota_limits(ample: Trial, result: Result, asker: Asker) -> Iterator[Limit[Option]]:
    """Yield the joint quotas that the answer without quotas would break."""
    (placement, _), problem, wish = result.found, result.problem, result.problem.requirements
    if ample.placement is None:
        return
    use = [(row, joint_use(row, ample.placement, problem)) for row in wish.joint_quotas]
    for row in [row for row, used in use if used > row.most][:MOST_BUCKETS]:
        free = tuple(other for other in wish.quotas if other != row)
        trial = asker.wanting(problem, placement, quotas=free)
        unit: LimitUnit = "gpus" if row.vcpus is None else "vcpus"
        amounts = (unit, joint_use(row, placement, problem), row.most)
        yield _limit("quota", row.words, amounts, trial, result, asker)


def bucket_words(bucket: tuple[str, str, str]) -> str:
    """Return a quota's place, GPU and market in words."""
    place, gpu, market = bucket
    return f"{gpu} {market.replace('_', '-')} in {place}"


def with_bucket(problem: Problem, bucket: tuple[str, str, str], gpus: int) -> Problem:
    """Return the same question with another quota for one place, GPU and market."""
    place, gpu, market = bucket
    quota = Quota(place=place, gpu=gpu, market=market, gpus=gpus)
    return wanting(problem, quotas=(*problem.requirements.quotas, quota))


def _memory_wish(problem: Problem) -> Wish | None:
    """Return the memory of too small machines as a limit; it changes the model (`_given_up`)."""
    small = {
        offer.device
        for offer in problem.catalog.offers
        if {code for code, _ in problem.offer_problems(offer)} & {"device-memory", "host-memory"}
    }
    if not small:
        return None
    words = f"memory of {', '.join(sorted(small))}"
    return Wish(code=MEMORY, words=words, change="more memory", free={}, given=False)


def _light(problem: Problem) -> Problem:
    """Return the question for a model that fits any machine."""
    profile = replace(problem.profile, device_memory_bytes=1, host_memory_bytes=1, out_of_memory=())
    return replace(problem, profile=profile)


def one_more(result: Result) -> Option | None:
    """Return the placement with one more machine of its largest group and the best exchange for it,
    whatever the limits.
    """
    (placement, _), problem = result.found, result.problem
    largest = max(placement.groups, key=lambda group: (group.count, group.spec))
    groups = tuple(
        replace(group, count=group.count + 1) if group is largest else group
        for group in placement.groups
    )
    more = replanned(replace(placement, groups=groups), problem)
    if any(violation.code == "batch" for violation in violations(more, problem)):
        return None
    priced = [
        Option.of(replace(more, exchange=exchange), problem, label="one-more")
        for exchange in exchanges(problem, more.workers_by_place)
    ]
    value, sign = result.objective.value, result.objective.sign
    return max(priced, key=lambda option: sign * value(option.estimate), default=None)

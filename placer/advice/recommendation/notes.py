"""What a careful colleague would add: why to stay, what is estimated, what may surprise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from placer.advice.recommendation.bottlenecks import loading_warnings, network_warnings
from placer.advice.recommendation.default_limits import default_limits
from placer.advice.recommendation.one_pass import one_pass_notes
from placer.advice.recommendation.plan_notes import (
    plan_notes,
    stages_between,
    uneven_batch,
    unlike_workers,
)
from placer.cost_model.diloco_losses import REPLICAS, times_samples_of
from placer.cost_model.estimate import (
    Estimate,
    estimate,
    evaluate,
    offer_of,
    offers_of,
    plan_of,
    replanned,
)
from placer.cost_model.estimate import pool_of as find_pool
from placer.cost_model.limits import quota_use, violations
from placer.cost_model.outlook.totals import speed_between
from placer.cost_model.timing.site_groups import gain_bound, samples_per_round, worker_rate
from placer.market.carbon import NO_GRID
from placer.market.catalog import FREE, OLD_TRANSPORT, Catalog, VmOffer
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS
from placer.problem.workers.resources import NO_QUOTA_GPUS
from placer.records import replace
from placer.solving.answer import Warn
from placer.solving.result import Option, Result
from placer.units import (
    GIB,
    format_duration,
    format_plain,
    format_seconds,
    format_speed,
    format_usd,
    parse_date,
    speed_unit,
)
from placer.workload.constants import PUBLISHED, peer_of
from placer.workload.island import Island
from placer.workload.island.chain import Chain

SHORTEST_STEP_S = 5.5
"""Below it hivemind's group forming (5 s at least) makes steps erratic: Erben et al. (2024)."""
BETWEEN = ("between regions", "up", "down", "push", "pull", "upload", "download")
"""Parts of a step in which bytes travel between regions."""
LONG_RING = 0.05
"""Share of a step that a ring may take beyond a butterfly without a word."""
WORTH_A_WORD = 1.1
"""Local steps that gain less than this are not mentioned."""
TIGHT = 0.8
"""Memory that is fuller than this is worth a word."""
LEAST_CHANCE = 0.8
"""A deadline that is kept less often is worth a word."""
SMALL_QUOTA_GPUS = 8
"""What new accounts often may rent of one type in a region: a note says if an answer needs more."""
LARGE_SUM = 0.1
"""Share of a step from which the assumed time of a server's sum may decide an answer."""
PUBLISHED_SUM = PUBLISHED.services.server_sum_bytes_per_s
STALE_DAYS = 120
"""Prices older than this are announced."""
ODD = 10.0
"""Prices so far below the median are announced: no shipped one is at 5, a slipped point at 10."""


def local_verdict(result: Result, local: Placement | None) -> tuple[str, ...]:
    """Say what exchanging less often would gain, at equal samples to target, if it is much."""
    if local is None or result.estimate is None:
        return ()
    other, objective = estimate(local, result.problem), result.objective
    speed, usd = other.effective_samples_per_second.value, other.usd_per_hour.total
    ours, theirs = objective.value(result.estimate), objective.value(other)
    if objective.improvement(theirs, ours) < 1 - 1 / WORTH_A_WORD:
        return ()
    text = " + ".join(group.spec for group in local.groups)
    steps, times = local.exchange.local_steps, other.samples_to_target
    return (
        f"If an exchange only every {steps} steps is acceptable (--local-steps {steps}): "
        f"{text} with {local.exchange.strategy} "
        f"reaches an effective {format_speed(speed, other.tokens_per_sample)} for "
        f"{format_usd(usd)}/h; "
        f"{'assumes' if times.basis == 'assumed' else 'needs'} {times.words} "
        f"({times.low:.2f} to {times.high:.2f} x, {times.basis}).",
    )


def leave_verdict(result: Result, staying: Option | None) -> tuple[str, ...]:
    """Say so if leaving the data where it is beats a plan that moves it."""
    if staying is None or result.value is None:
        return ()
    estimate = staying.estimate
    speed, usd = estimate.effective_samples_per_second.value, estimate.usd_per_hour.total
    if not result.objective.better(result.objective.value(estimate), result.value):
        return ()
    text = " + ".join(group.spec for group in staying.placement.groups)
    return (
        f"Better still, leave the data where it is (:stay): {text} reaches "
        f"{format_speed(speed, estimate.tokens_per_sample)} for {format_usd(usd)}/h.",
    )


def stay_verdict(result: Result, spread: Option | None) -> tuple[str, ...]:
    """Say why one place is best and what would have to change, or what spreading gains."""
    placement, estimate = result.placement, result.estimate
    assert placement is not None
    assert estimate is not None
    if len(placement.places) > 1:
        egress, total = (
            format_usd(estimate.usd_per_hour.egress),
            format_usd(estimate.usd_per_hour.total),
        )
        return (
            f"Spread over {len(placement.places)} regions; egress is {egress}/h of {total}/h; "
            f"{_proof(result)}",
        )
    one = "one machine, nothing to exchange" if placement.workers == 1 else "one region"
    sentences = [f"Stay in {placement.places[0]}: {one}; {_proof(result)}"]
    if spread is not None:
        sentences += _spread_sentences(result, spread)
    elif result.proved and result.problem.requirements.max_regions > 1:
        sentences.append("No placement over two regions that was tried fits the limits.")
    return tuple(sentences)


def _proof(result: Result) -> str:
    if result.status == "feasible" and not result.proved:
        return (
            f"not proved: the solver {result.solver} looks for a good placement, and a better "
            f"one may exist."
        )
    if not result.proved or result.gap is None:
        return "the search was stopped before the proof was complete."
    margin = f" by more than {format_plain(100 * result.gap, 2)} %" if result.gap > 0 else ""
    wish = result.problem.requirements
    within = (
        ", over however many regions,"
        if wish.max_regions == ALL_REGIONS and not wish.used
        else " that meets the wishes"
    )
    return f"at the expected speeds no placement of this catalog{within} is better{margin}."


def _spread_sentences(result: Result, spread: Option) -> Iterator[str]:
    """Compare with a spread placement and work out the exchange time at which it would win."""
    problem, got = result.problem, result.estimate
    assert got is not None
    other = spread.estimate
    speed, other_speed = (
        got.effective_samples_per_second.value,
        other.effective_samples_per_second.value,
    )
    text = " + ".join(group.spec for group in spread.placement.groups)
    best = "Best" if spread.proved else "Best found"
    yield (
        f"{best} over two or more regions: {text} reaches "
        f"{format_speed(other_speed, other.tokens_per_sample)} "
        f"({100 * (other_speed / speed - 1):+.0f} %) for {format_usd(other.usd_per_hour.total)}/h, "
        f"{format_usd(other.usd_per_hour.egress)}/h of it egress."
    )
    if not result.objective.by_speed or other_speed >= speed:
        return
    samples = samples_per_round(spread.placement.exchange, problem) / other.samples_to_target.value
    needed = samples / speed - other.step.calculation
    if other.step.hidden:
        return
    if needed > 0:
        yield (
            f"To win, its exchange would have to take {format_seconds(needed)} instead of "
            f"{format_seconds(other.step.communication)} a step: a faster link, stronger "
            f"compression or a larger batch."
        )
    else:
        alone = format_speed(samples / other.step.calculation, other.tokens_per_sample)
        yield f"Even with a free and instant exchange that placement would reach only {alone}."


def notes_of(problem: Problem, placement: Placement, got: Estimate) -> tuple[Warn, ...]:
    """List what the shape of a placement implies: growth, continents, memory, plans, quotas."""
    return (
        *one_pass_notes(problem, got),
        *_growth(problem, placement, got),
        *_replicas(problem, placement, got),
        *_quorum(problem, placement),
        *_continents(problem, placement, got),
        *_memory(problem, placement),
        *plan_notes(problem, placement),
        *_quota(problem, placement),
        *stages_between(problem, placement, got),
        *_calibrated(problem),
    )


def _calibrated(problem: Problem) -> Iterator[Warn]:
    """Yield the runs or measurements whose figures are used in place of published ones."""
    name = problem.calibration.name
    if name != PUBLISHED.name:
        yield Warn(
            "calibrated", f"speeds and exchange times are those of {name}, where it has them"
        )


def needed_quotas(problem: Problem, placement: Placement) -> dict[tuple[str, str, str], int]:
    """Return the GPUs by place, GPU and market that an account must be allowed to rent, where
    nobody said what it is and new ones often are not.
    """
    rows = [row for row in problem.requirements.quotas if row.of_machines]
    offers = (offer_of(part, problem) for part in placement.parts)
    counted = {(o.place, o.gpu, o.market) for o in offers if any(row.counts(o) for row in rows)}
    return {
        (place, gpu, market): gpus
        for (place, gpu, market), gpus in sorted(quota_use(placement, problem).items())
        if gpus > SMALL_QUOTA_GPUS
        and problem.quota(place, gpu, market) == NO_QUOTA_GPUS
        and (place, gpu, market) not in counted
    }


def _quota(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield the quotas that are needed."""
    needed = [
        f"{gpus} {gpu} in {place} ({market.replace('_', '-')})"
        for (place, gpu, market), gpus in needed_quotas(problem, placement).items()
    ]
    if needed:
        what = "a quota" if len(needed) == 1 else "quotas"
        yield Warn(
            "quota",
            f"needs {what} of {', '.join(needed)}; new accounts often start with "
            f"{SMALL_QUOTA_GPUS} or fewer: --quota {SMALL_QUOTA_GPUS} plans within that",
        )


def _growth(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what twice the workers would gain: the rule, and placer's own figure for them."""
    if got.granularity is None or got.step.hidden:
        return
    twice = replace(
        placement, groups=tuple(replace(group, count=2 * group.count) for group in placement.groups)
    )
    twice = replanned(twice, problem)
    if any(violation.code == "batch" for violation in violations(twice, problem)):
        return
    gain = evaluate(twice, problem).processed_per_second / got.samples_per_second.value
    most = f"at most {gain_bound(got.granularity):.2f} x if communication takes no longer"
    yield Warn(
        "doubling",
        f"granularity {got.granularity:.2f}: twice the workers would reach {gain:.2f} x "
        f"the speed; {most}",
    )


def _replicas(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what published losses say of these workers, where the multiplier is that of four."""
    workers, steps = placement.workers, placement.exchange.local_steps
    _, middle, most = REPLICAS
    if (
        not traits(placement.exchange.strategy).outer
        or got.samples_to_target.basis == "given"
        or workers == middle
    ):
        return
    times = times_samples_of(problem.profile.parameters, workers, steps)
    text = f"with {workers} workers the same losses give {times:.2f} x"
    if workers > most:
        text = f"with {most}, the most that were trained, the same losses give {times:.2f} x"
    yield Warn(
        "replicas",
        f"samples to target are those of {middle} workers that take {steps} steps alone; {text}",
    )


def _in_time(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield that a deadline is likely missed, where no plan with fallbacks sees to it."""
    wish = problem.requirements
    if wish.deadline_s is None or wish.confidence is not None or wish.expected:
        return
    from placer.advice.confidence.choice import chance_in_time  # few questions need it

    chance = chance_in_time(placement, got, problem)
    if chance is not None and chance < LEAST_CHANCE:
        yield Warn(
            "deadline",
            f"done within {format_duration(wish.deadline_s)} with a chance of "
            f"{format_plain(100 * chance, 2)} %: --confidence {100 * LEAST_CHANCE:.0f}% plans "
            "fallbacks, --market on-demand launches at once",
        )


def _quorum(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield what a quorum is for: it is no part of the figures."""
    quorum = problem.requirements.quorum
    if quorum is not None and placement.workers > 1:
        yield Warn(
            "quorum",
            f"exchanges go on when {quorum} of {placement.workers} workers have answered: "
            f"this saves restarts when one is lost, which speed and price do not count",
        )


def _continents(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what the way between continents takes of each step."""
    continents = {problem.catalog.region(place).continent for place in placement.places}
    between = sum(seconds for name, seconds in got.step.parts if name in BETWEEN)
    if len(continents) > 1 and between > got.step.hidden:
        hidden = min(got.step.hidden, got.step.communication - between)
        left = max(
            got.step.calculation, got.step.calculation + got.step.communication - between - hidden
        )
        share, without = (
            100 * (1 - left / got.step.total),
            got.samples_per_second.value * got.step.total / left,
        )
        text = (
            f"{len(continents)} continents: the way between regions takes "
            f"{format_seconds(between)}, {share:.0f} % of each step; "
        )
        yield Warn(
            "continents",
            f"{text}without it these workers would do "
            f"{format_speed(without, got.tokens_per_sample)}",
        )


def _memory(problem: Problem, placement: Placement) -> tuple[Warn, ...]:
    """Return what plans take of each GPU, and machines whose memory is nearly full, each once."""
    machines: dict[str, None] = {}
    for group in placement.groups:
        offer = find_pool(group, problem).offer
        if group.inner is not None:
            built = plan_of(group, problem, placement.workers)
            memories = built.memory if isinstance(built, Chain) else ()
            if isinstance(built, Island):
                memories = (built.memory,)
            for part, memory in zip(group.parts, memories, strict=False):
                taken = memory.of_room(problem.catalog.gpu(part.gpu).memory_gib)
                machines[f"{part.worker_name}: {problem.profile.name} takes {taken}"] = None
            continue
        for what, needed, there in (
            (
                "each GPU",
                problem.profile.device_memory_bytes,
                problem.catalog.gpu(offer.gpu).memory_gib,
            ),
            ("the host", problem.profile.host_memory_bytes, offer.memory_gib),
        ):
            if needed > TIGHT * there * GIB:
                machines[
                    f"{group.device} in {group.place}: {problem.profile.name} takes "
                    f"{needed / GIB:.1f} of the {there:g} GiB of {what}"
                ] = None
    return tuple(Warn("memory", text) for text in machines)


def warnings_of(
    problem: Problem, placement: Placement | None, got: Estimate | None
) -> tuple[Warn, ...]:
    """List what the user should know about the data and the placement."""
    warnings = [*_data_warnings(problem), *_batch_warnings(problem), *_carbon_warnings(problem)]
    if placement is not None and got is not None:
        warnings += _placement_warnings(problem, placement, got)
    return tuple(warnings)


def _batch_warnings(problem: Problem) -> Iterator[Warn]:
    """Yield what is taken for granted where batches of different size are compared."""
    wish = problem.requirements
    if wish.batch_range is not None and wish.critical_batch is None:
        text = (
            f"a sample is taken to be worth as much in every batch from {wish.batch_range[0]:,} "
            f"to {wish.batch_range[1]:,} (assumed)"
        )
        yield Warn(
            "batch",
            f"{text}; beyond the critical batch more samples are needed: say --critical-batch N",
        )


def _carbon_warnings(problem: Problem) -> Iterator[Warn]:
    """Yield the places that are left out because nobody knows what their machines emit."""
    if problem.requirements.counts_carbon:
        rented = {offer.place for offer in problem.catalog.offers}
        unknown = [
            place
            for place in sorted(rented)
            if problem.catalog.region(place).grid_carbon_g_per_kwh is None
        ]
        if unknown:
            text = f"{len(unknown)} of {len(rented)} places are left out: {NO_GRID}"
            yield Warn(
                "carbon", f"{text}: {', '.join(unknown[:3])}{' ...' if len(unknown) > 3 else ''}"
            )


def _data_warnings(problem: Problem, today: date | None = None) -> Iterator[Warn]:
    oldest, newest = problem.catalog.as_of
    age = ((today or date.today()) - parse_date(newest, "as_of")).days
    if age > STALE_DAYS:
        yield Warn(
            "stale-prices",
            f"the newest price of catalog '{problem.catalog.name}' is {age:,} days old "
            f"({oldest} to {newest})",
        )
    if age < -1:
        text = f"catalog '{problem.catalog.name}' has prices of {newest}, in the future"
        yield Warn("future-prices", f"{text}: 'placer catalog validate' lists them")


def _placement_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    yield from _in_time(problem, placement, got)
    pools = [find_pool(group, problem) for group in placement.groups]
    chosen = traits(placement.exchange.strategy)
    guessed = sorted(
        {
            p.offer.device
            for p in pools
            if worker_rate(p, chosen.framework).basis in ("estimated", "assumed")
        }
    )
    if guessed:
        unit = speed_unit(got.tokens_per_sample)
        message = (
            f"the speed on {', '.join(guessed)} is not measured: expect {speed_between(got)} "
            f"{unit}, or add --require-measured"
        )
        yield Warn("estimated-rate", message)
    offers = [offer for offer, _ in offers_of([(pool, 1) for pool in pools], placement, problem)]
    if any(offer.price_basis == "estimated" for offer in offers):
        yield Warn(
            "estimated-price",
            "a spot price of this placement is an estimate (placer offers --json has its "
            "source); check it before you start",
        )
    yield from _odd_prices(problem.catalog, offers)
    if placement.exchange.server is not None and placement.exchange.server.market != "on_demand":
        yield Warn(
            "spot-server",
            "the parameter server can be reclaimed: when it goes, everything stops; "
            "allow on-demand",
        )
    if any(offer.market == "spot" for offer in offers):
        yield Warn(
            "spot", "spot machines can be reclaimed at any time; a rejoin costs about two steps"
        )
    if any(offer.market == "community" for offer in offers):
        yield Warn(
            "community",
            "third parties run community machines and may see the data; --market spot "
            "leaves them out",
        )
    yield from default_limits(problem, placement)
    yield from network_warnings(problem, placement, got)
    yield from loading_warnings(problem, placement, got)
    yield from unlike_workers(problem, placement, got)
    yield from uneven_batch(problem, placement, got)
    yield from _engine_warnings(placement, got)
    yield from _exchange_warnings(problem, placement, got)


def _engine_warnings(placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what no engine executes, and how long a ring may take that is timed as a butterfly.

    Each pair of a butterfly carries 2 S / N, side by side. A ring carries 2 (N - 1) / N S over one
    connection from each worker to the next: N - 1 times as long where that is the slowest, less
    where the slowest pair is no neighbour or the software opens several connections.
    """
    lacks = placement.unexecuted
    if lacks:
        yield Warn("engine", f"no packaged engine runs this plan: {lacks}")
    engine, pair_s = placement.engine, dict(got.step.parts).get("between regions", 0.0)
    ring_s = (placement.workers - 1) * pair_s
    if engine is not None and engine.rings and ring_s - pair_s > LONG_RING * got.step.total:
        yield Warn(
            "ring",
            f"the ring of {engine.title} is timed as a butterfly: of a step of "
            f"{format_seconds(got.step.total)} it may take {format_seconds(ring_s)} between "
            f"regions in place of {format_seconds(pair_s)}; --exchange hierarchical-all-reduce "
            "sends less",
        )


def _out_of_range(problem: Problem, placement: Placement) -> str:
    """Say how an average lies outside of what its software was measured with; empty if inside."""
    peers = (peer_of(find_pool(group, problem).host) for group in placement.groups)
    gpus = sum(group.gpus for group in placement.groups)
    sentences = (
        peer.via.outside(problem.gradient_bytes, placement.machines, gpus)
        for peer in peers
        if peer is not None and peer.name not in problem.calibration.hosts
    )
    return "; ".join(dict.fromkeys(filter(None, sentences)))


def _odd_prices(catalog: Catalog, offers: Sequence[VmOffer]) -> Iterator[Warn]:
    """Yield machines whose price looks wrong: a search finds every slip of a price book."""
    for offer in dict.fromkeys(offer for offer in offers if offer.price_basis not in FREE):
        usual, price = (
            catalog.usual_usd_per_gpu_hour[offer.gpu, offer.market],
            offer.usd_per_gpu_hour,
        )
        if price * ODD < usual:
            text = (
                f"{offer.instance_type} in {offer.place} costs {format_plain(price)} USD/h for "
                f"each {offer.gpu}; the median is {format_plain(usual)}"
            )
            yield Warn("odd-price", f"{text}: check the book with 'placer catalog validate'")


def _sum_warnings(problem: Problem, got: Estimate) -> Iterator[Warn]:
    """Yield that a server's sum, whose speed nobody measured there, is a large part of a step."""
    sum_s = dict(got.step.parts).get("sum", 0.0)
    rate = problem.calibration.services.server_sum_bytes_per_s
    if sum_s > LARGE_SUM * got.step.total and rate in (None, PUBLISHED_SUM):
        yield Warn(
            "server-sum",
            f"the server's sum takes {format_seconds(sum_s)} of a step of "
            f"{format_seconds(got.step.total)}; nobody measured its speed on such a machine: do so "
            "there with 'placer profile exchange'",
        )


def _exchange_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what may surprise about the exchange of a placement."""
    chosen = traits(placement.exchange.strategy)
    averages = chosen.transport in ("butterfly", "leaders", "region-hub", "region-gossip")
    by_hivemind = placement.exchange.transport == OLD_TRANSPORT
    if averages and by_hivemind and got.step.calculation / got.local_steps < SHORTEST_STEP_S:
        seconds = format_seconds(got.step.calculation / got.local_steps)
        yield Warn(
            "matchmaking",
            f"a step calculates only {seconds}; below 5.5 s hivemind's group forming makes "
            f"steps erratic: raise --tbs",
        )
    most = problem.calibration.most_workers
    if averages and by_hivemind and placement.workers > most:
        yield Warn(
            "extrapolated",
            f"{placement.workers} workers: the averaging time was measured up to {most}",
        )
    elif averages and not by_hivemind and (range_ := _out_of_range(problem, placement)):
        yield Warn("extrapolated", f"the averaging time is extrapolated: {range_}")
    kinds = {rule.kind for rule in problem.requirements.kept}
    if (
        chosen.payload == "checkpoints"
        and "gradients" in kinds
        and "checkpoints" not in kinds
        and len(placement.places) > 1
    ):
        text = (
            f"gradients are kept, but {placement.exchange.strategy} sends the model itself "
            f"between regions"
        )
        yield Warn("residency", f"{text}: add --keep checkpoints=AREA if that must not be")
    for rule in problem.requirements.kept:
        if rule.kind != "raw-data" and not any(place in rule.places for place in placement.places):
            text = (
                f"no worker is in {rule.area}, so --keep {rule.kind}={rule.area} keeps nothing "
                f"there"
            )
            yield Warn("residency", f"{text}; to train there, add --in {rule.area}")
    if got.samples_to_target.basis == "assumed" and got.samples_to_target.high > 1.1:
        times = got.samples_to_target
        text = (
            f"how {placement.exchange.strategy} converges is assumed: {times.low:.2f} to "
            f"{times.high:.2f} x the samples"
        )
        yield Warn(
            "convergence",
            f"{text}; measure it and say --samples-to-target {placement.exchange.strategy}=X",
        )
    if problem.requirements.exchange not in ("auto", "all-reduce") and chosen.transport == "none":
        text = (
            "one machine exchanges nothing, so the exchange is not used; ask for --workers 2.. "
            "to have one"
        )
        yield Warn("no-exchange", text)
    yield from _sum_warnings(problem, got)
    if chosen.transport in ("store", "regional-stores"):
        yield Warn("assumed-store", "store and function times are assumed, not measured")

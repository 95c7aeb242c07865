"""What a careful colleague would add: why to stay, what is estimated, what may surprise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

from placer.advice.recommendation.bottlenecks import (
    default_limits,
    loading_warnings,
    network_warnings,
)
from placer.advice.recommendation.plan_notes import (
    plan_notes,
    stages_between,
    uneven_batch,
    unlike_workers,
)
from placer.cost_model.convergence import REPLICAS, times_samples_of
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
from placer.market.words.own_places import SITES
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
    SECONDS_PER_HOUR,
    format_bytes,
    format_duration,
    format_number,
    format_plain,
    format_seconds,
    format_speed,
    format_tokens,
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
RISKS = {
    "spot": "spot machines can be reclaimed at any time; a rejoin costs about two steps",
    "community": "third parties run community machines and may see the data; --market spot leaves "
    "them out",
}
"""What machines of a market risk."""
SPOT_SERVER = (
    "the parameter server can be reclaimed: when it goes, everything stops; allow on-demand"
)
NO_EXCHANGE = (
    "one machine exchanges nothing, so the exchange is not used; ask for --workers 2.. to have one"
)


def one_pass_notes(problem: Problem, got: Estimate) -> Iterator[Warn]:
    """Yield time and price of reading the data of the store once, at the speed of the answer."""
    wish, each = problem.requirements, problem.profile.bytes_per_sample
    if wish.data_store is None or wish.data_bytes is None or each is None:
        return
    if wish.samples is not None:
        return  # the totals say it
    samples, length = wish.data_bytes / each, got.tokens_per_sample
    seconds = samples / got.samples_per_second.value
    unit, amount = "samples", f"{format_number(samples / 1e6)} M samples of {format_bytes(each)}"
    if length is not None:
        unit, amount = "tokens", format_tokens(samples * length)
    usd = seconds / SECONDS_PER_HOUR * got.usd_per_hour.total
    yield Warn(
        "one-pass",
        f"one pass over {format_bytes(wish.data_bytes)} in {wish.data_store} "
        f"({amount}) takes {format_duration(seconds)} and {format_usd(usd)}; --{unit} gives totals",
    )


def local_verdict(result: Result, local: Placement | None) -> tuple[str, ...]:
    """Say what exchanging less often would gain, at equal samples to target, if it is much."""
    if local is None or result.estimate is None:
        return ()
    other, objective = estimate(local, result.problem), result.objective
    ours, theirs = objective.value(result.estimate), objective.value(other)
    if objective.improvement(theirs, ours) < 1 - 1 / WORTH_A_WORD:
        return ()
    steps, times = local.exchange.local_steps, other.samples_to_target
    speed, usd = _figures(other)
    return (
        f"If an exchange only every {steps} steps is acceptable (--local-steps {steps}): "
        f"{_specs(local)} with {local.exchange.strategy} reaches an effective {speed} for {usd}/h; "
        f"{'assumes' if times.basis == 'assumed' else 'needs'} {times.words} "
        f"({times.low:.2f} to {times.high:.2f} x, {times.basis}).",
    )


def _specs(placement: Placement) -> str:
    return " + ".join(group.spec for group in placement.groups)


def _figures(got: Estimate) -> tuple[str, str]:
    """Return speed that counts and USD/h in words."""
    speed = format_speed(got.effective_samples_per_second.value, got.tokens_per_sample)
    return speed, format_usd(got.usd_per_hour.total)


def leave_verdict(result: Result, staying: Option | None) -> tuple[str, ...]:
    """Say so if leaving the data where it is beats a plan that moves it."""
    if staying is None or result.value is None:
        return ()
    if not result.objective.better(result.objective.value(staying.estimate), result.value):
        return ()
    text, (speed, usd) = _specs(staying.placement), _figures(staying.estimate)
    return (
        f"Better still, leave the data where it is (:stay): {text} reaches {speed} for {usd}/h.",
    )


def stay_verdict(result: Result, spread: Option | None) -> tuple[str, ...]:
    """Say why one place is best and what would have to change, or what spreading gains."""
    (placement, got), proof = result.found, _proof(result)
    if len(placement.places) > 1:
        egress, total = format_usd(got.usd_per_hour.egress), format_usd(got.usd_per_hour.total)
        spent = f"egress is {egress}/h of {total}/h"
        return (f"Spread over {len(placement.places)} regions; {spent}; {proof}",)
    one = "one machine, nothing to exchange" if placement.workers == 1 else "one region"
    sentences = [f"Stay in {placement.places[0]}: {one}; {proof}"]
    if spread is not None:
        sentences += _spread_sentences(result, spread)
    elif result.proved and result.problem.requirements.max_regions > 1:
        sentences.append("No placement over two regions that was tried fits the limits.")
    return tuple(sentences)


def _proof(result: Result) -> str:
    if result.status == "feasible" and not result.proved:
        if result.proof_wish == "full" and result.gap is not None:
            most = format_plain(100 * result.gap, 2)
            return f"not proved: one that is up to {most} % better may exist."
        draft = f"the solver {result.solver}"
        if result.proof_wish != "full":
            draft = f"--proof {result.proof_wish}"
        return f"not proved: {draft} looks for a good placement, and a better one may exist."
    if not result.proved or result.gap is None:
        return "the search was stopped before the proof was complete."
    margin = f" by more than {format_plain(100 * result.gap, 2)} %" if result.gap > 0 else ""
    wish = result.problem.requirements
    anywhere = wish.max_regions == ALL_REGIONS and not wish.used
    within = ", over however many regions," if anywhere else " that meets the wishes"
    return f"at the expected speeds no placement of this catalog{within} is better{margin}."


def _spread_sentences(result: Result, spread: Option) -> Iterator[str]:
    """Compare with a spread placement and work out the exchange time at which it would win."""
    (_, got), other = result.found, spread.estimate
    speed = got.effective_samples_per_second.value
    other_speed = other.effective_samples_per_second.value
    best = "Best" if spread.proved else "Best found"
    reached, usd = _figures(other)
    yield (
        f"{best} over two or more regions: {_specs(spread.placement)} reaches {reached} "
        f"({100 * (other_speed / speed - 1):+.0f} %) for {usd}/h, "
        f"{format_usd(other.usd_per_hour.egress)}/h of it egress."
    )
    if not result.objective.by_speed or other_speed >= speed or other.step.hidden:
        return
    passed = samples_per_round(spread.placement.exchange, result.problem)
    samples = passed / other.samples_to_target.value
    needed = samples / speed - other.step.calculation
    if needed > 0:
        yield (
            f"To win, its exchange would have to take {format_seconds(needed)} instead of "
            f"{format_seconds(other.step.communication)} a step: a faster link, stronger "
            "compression or a larger batch."
        )
    else:
        alone = format_speed(samples / other.step.calculation, other.tokens_per_sample)
        yield f"Even with a free and instant exchange that placement would reach only {alone}."


def notes_of(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what the shape of a placement implies: growth, continents, memory, plans, quotas."""
    yield from one_pass_notes(problem, got)
    yield from _growth(problem, placement, got)
    yield from _replicas(problem, placement, got)
    quorum, calibration = problem.requirements.quorum, problem.calibration.name
    if quorum is not None and placement.workers > 1:  # it is no part of the figures
        yield Warn(
            "quorum",
            f"exchanges go on when {quorum} of {placement.workers} workers have answered: "
            f"this saves restarts when one is lost, which speed and price do not count",
        )
    yield from _continents(problem, placement, got)
    yield from _memory(problem, placement)
    yield from plan_notes(problem, placement)
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
    yield from stages_between(problem, placement, got)
    if calibration != PUBLISHED.name:
        words = f"speeds and exchange times are those of {calibration}, where it has them"
        yield Warn("calibrated", words)


def needed_quotas(problem: Problem, placement: Placement) -> dict[tuple[str, str, str], int]:
    """Return the GPUs by place, GPU and market that an account must be allowed to rent, where
    nobody said what it is and new ones often are not. Machines of one's own need no quota.
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
        and not place.startswith(SITES)
    }


def _growth(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what twice the workers would gain: the rule, and placer's own figure for them."""
    if got.granularity is None or got.step.hidden:
        return
    groups = tuple(replace(group, count=2 * group.count) for group in placement.groups)
    twice = replanned(replace(placement, groups=groups), problem)
    if any(violation.code == "batch" for violation in violations(twice, problem)):
        return
    gain = evaluate(twice, problem).processed_per_second / got.samples_per_second.value
    yield Warn(
        "doubling",
        f"granularity {got.granularity:.2f}: twice the workers would reach {gain:.2f} x the speed; "
        f"at most {gain_bound(got.granularity):.2f} x if communication takes no longer",
    )


def _replicas(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what published losses say of these workers, where the multiplier is that of four."""
    workers, steps = placement.workers, placement.exchange.local_steps
    _, middle, most = REPLICAS
    outer = traits(placement.exchange.strategy).outer
    if not outer or got.samples_to_target.basis == "given" or workers == middle:
        return
    times = times_samples_of(problem.profile.parameters, workers, steps)
    shown = f"{workers} workers" if workers <= most else f"{most}, the most that were trained,"
    yield Warn(
        "replicas",
        f"samples to target are those of {middle} workers that take {steps} steps alone; "
        f"with {shown} the same losses give {times:.2f} x",
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


def _continents(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield what the way between continents takes of each step."""
    continents = {problem.catalog.region(place).continent for place in placement.places}
    step = got.step
    between = sum(seconds for name, seconds in step.parts if name in BETWEEN)
    if len(continents) < 2 or between <= step.hidden:
        return
    hidden = min(step.hidden, step.communication - between)
    left = max(step.calculation, step.calculation + step.communication - between - hidden)
    without = got.samples_per_second.value * step.total / left
    yield Warn(
        "continents",
        f"{len(continents)} continents: the way between regions takes {format_seconds(between)}, "
        f"{100 * (1 - left / step.total):.0f} % of each step; without it these workers would do "
        f"{format_speed(without, got.tokens_per_sample)}",
    )


def _memory(problem: Problem, placement: Placement) -> Iterator[Warn]:
    """Yield what plans take of each GPU, and machines whose memory is nearly full, each once."""
    told: dict[str, None] = {}
    profile = problem.profile
    for group in placement.groups:
        offer = find_pool(group, problem).offer
        if group.inner is not None:
            built = plan_of(group, problem, placement.workers)
            memories = built.memory if isinstance(built, Chain) else ()
            if isinstance(built, Island):
                memories = (built.memory,)
            for part, memory in zip(group.parts, memories, strict=False):
                taken = memory.of_room(problem.catalog.gpu(part.gpu).memory_gib)
                told[f"{part.worker_name}: {profile.name} takes {taken}"] = None
            continue
        gpu_gib = problem.catalog.gpu(offer.gpu).memory_gib
        for what, needed, there in (
            ("each GPU", profile.device_memory_bytes, gpu_gib),
            ("the host", profile.host_memory_bytes, offer.memory_gib),
        ):
            if needed > TIGHT * there * GIB:
                taken = f"{needed / GIB:.1f} of the {there:g} GiB of {what}"
                told[f"{group.device} in {group.place}: {profile.name} takes {taken}"] = None
    yield from (Warn("memory", text) for text in told)


def warnings_of(
    problem: Problem, placement: Placement | None, got: Estimate | None
) -> tuple[Warn, ...]:
    """List what the user should know about the data and the placement."""
    warnings = [*_data_warnings(problem)]
    if placement is not None and got is not None:
        warnings += _placement_warnings(problem, placement, got)
    return tuple(warnings)


def _data_warnings(problem: Problem) -> Iterator[Warn]:
    """Yield what is old, unknown or taken for granted in the data, whatever the placement."""
    catalog, wish = problem.catalog, problem.requirements
    oldest, newest = catalog.as_of
    age = (date.today() - parse_date(newest, "as_of")).days
    if age > STALE_DAYS:
        yield Warn(
            "stale-prices",
            f"the newest price of catalog '{catalog.name}' is {age:,} days old "
            f"({oldest} to {newest})",
        )
    if age < -1:
        text = f"catalog '{catalog.name}' has prices of {newest}, in the future"
        yield Warn("future-prices", f"{text}: 'placer catalog validate' lists them")
    if wish.batch_range is not None and wish.critical_batch is None:
        low, high = wish.batch_range
        yield Warn(
            "batch",
            f"a sample is taken to be worth as much in every batch from {low:,} to {high:,} "
            "(assumed); beyond the critical batch more samples are needed: say --critical-batch N",
        )
    if wish.counts_carbon:
        rented = catalog.rows_by_place
        regions = ((place, catalog.region(place)) for place in sorted(rented))
        unknown = [place for place, region in regions if region.grid_carbon_g_per_kwh is None]
        if unknown:
            some = f"{', '.join(unknown[:3])}{' ...' if len(unknown) > 3 else ''}"
            count = f"{len(unknown)} of {len(rented)} places"
            yield Warn("carbon", f"{count} are left out: {NO_GRID}: {some}")


def _placement_warnings(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    yield from _in_time(problem, placement, got)
    pools = [find_pool(group, problem) for group in placement.groups]
    framework, server = traits(placement.exchange.strategy).framework, placement.exchange.server
    guesses = (p for p in pools if worker_rate(p, framework).basis in ("estimated", "assumed"))
    guessed = sorted({pool.offer.device for pool in guesses})
    if guessed:
        unit = speed_unit(got.tokens_per_sample)
        yield Warn(
            "estimated-rate",
            f"the speed on {', '.join(guessed)} is not measured: expect {speed_between(got)} "
            f"{unit}, or add --require-measured",
        )
    offers = [offer for offer, _ in offers_of([(pool, 1) for pool in pools], placement, problem)]
    if any(offer.price_basis == "estimated" for offer in offers):
        yield Warn(
            "estimated-price",
            "a spot price of this placement is an estimate (placer offers --json has its source); "
            "check it before you start",
        )
    yield from _odd_prices(problem.catalog, offers)
    if server is not None and server.market != "on_demand":
        yield Warn("spot-server", SPOT_SERVER)
    markets = {offer.market for offer in offers}
    yield from (Warn(market, words) for market, words in RISKS.items() if market in markets)
    yield from default_limits(problem, placement)
    for of in (network_warnings, loading_warnings, unlike_workers, uneven_batch):
        yield from of(problem, placement, got)
    lacks = placement.unexecuted
    if lacks:
        yield Warn("engine", f"no packaged engine runs this plan: {lacks}")
    yield from _exchange_warnings(problem, placement, got)


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
            yield Warn(
                "odd-price",
                f"{offer.instance_type} in {offer.place} costs {format_plain(price)} USD/h for "
                f"each {offer.gpu}; the median is {format_plain(usual)}: check the book with "
                "'placer catalog validate'",
            )


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
    wish, strategy = problem.requirements, placement.exchange.strategy
    chosen, workers = traits(strategy), placement.workers
    averages = chosen.transport in ("butterfly", "leaders", "region-hub", "region-gossip")
    by_hivemind = placement.exchange.transport == OLD_TRANSPORT
    if averages and by_hivemind and got.step.calculation / got.local_steps < SHORTEST_STEP_S:
        seconds = format_seconds(got.step.calculation / got.local_steps)
        yield Warn(
            "matchmaking",
            f"a step calculates only {seconds}; below 5.5 s hivemind's group forming makes steps "
            "erratic: raise --tbs",
        )
    most = problem.calibration.most_workers
    if averages and by_hivemind and workers > most:
        text = f"{workers} workers: the averaging time was measured up to {most}"
        yield Warn("extrapolated", text)
    elif averages and not by_hivemind and (range_ := _out_of_range(problem, placement)):
        yield Warn("extrapolated", f"the averaging time is extrapolated: {range_}")
    kinds = {rule.kind for rule in wish.kept}
    leaks = chosen.payload == "checkpoints" and len(placement.places) > 1
    if leaks and "gradients" in kinds and "checkpoints" not in kinds:
        yield Warn(
            "residency",
            f"gradients are kept, but {strategy} sends the model itself between regions: add "
            "--keep checkpoints=AREA if that must not be",
        )
    for rule in wish.kept:
        if rule.kind != "raw-data" and not any(place in rule.places for place in placement.places):
            yield Warn(
                "residency",
                f"no worker is in {rule.area}, so --keep {rule.kind}={rule.area} keeps nothing "
                f"there; to train there, add --in {rule.area}",
            )
    times = got.samples_to_target
    if times.basis == "assumed" and times.high > 1.1:
        yield Warn(
            "convergence",
            f"how {strategy} converges is assumed: {times.low:.2f} to {times.high:.2f} x the "
            f"samples; measure it and say --samples-to-target {strategy}=X",
        )
    if wish.exchange not in ("auto", "all-reduce") and chosen.transport == "none":
        yield Warn("no-exchange", NO_EXCHANGE)
    yield from _sum_warnings(problem, got)
    if chosen.transport in ("store", "regional-stores"):
        yield Warn("assumed-store", "store and function times are assumed, not measured")

"""Parts of the bounds of `exact` against plain enumeration: none is on the wrong side."""

import importlib
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import placer
from instances import island_problem, question, random_problem, two_places, wide_problem, wishing
from placer.cost_model.timing.transfers import lanes, wan_seconds
from placer.market.books.book_reader import load_catalog
from placer.problem.exchange import butterfly, pair_bytes
from placer.problem.shares import UNITS_PER_SAMPLE
from placer.problem.workers.pool import groups_of
from placer.records import replace
from proofs import proved

relaxation, exchange_pattern, region_rounds, ring = (
    importlib.import_module(f"placer.solvers.exact.bounds.{name}")
    for name in ("relaxation", "exchange_pattern", "region_rounds", "ring")
)
increments, best_sums = (
    importlib.import_module(f"placer.solvers._market.{name}")
    for name in ("increments", "best_sums")
)
market, target, modes = (
    importlib.import_module(f"placer.solvers.{name}")
    for name in ("_market.market", "_target", "_mode")
)
Array = np.ndarray[Any, Any]
DRAWS = 150


def splits(workers: int, rooms: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every split of some workers over regions that hold so many machines."""
    for split in product(*(range(room + 1) for room in rooms)):
        if sum(split) == workers:
            yield split


@pytest.mark.parametrize("software", ["hivemind", "nccl"])
def test_line_factors_are_those_of_the_cost_model(software: str) -> None:
    """Of each pair of places with own sites among them, some near others and some far."""
    problem = question(
        "convnext-large",
        load_catalog("erben-2023"),
        transport=software,
        places_in=("onprem/*", "gcp/*"),
    )
    stock, found = market.Market.of(problem), set()
    factors = stock.line_factors(3)
    for (i, src), (j, dst) in product(enumerate(stock.places), repeat=2):
        rtt_s = problem.network.link(src, dst).rtt_s
        known = problem.calibration.line_factor(software, src, dst, rtt_s=rtt_s, peers=3)
        assert factors[i, j] == known
        found.add(known)
    assert len(found) == (3 if software == "hivemind" else 1)


def test_a_bound_is_evaluated_at_prices_of_its_own() -> None:
    """A price of a dollar of a question's own has a row beside those of the market, once."""
    kept = market.Market.of(random_problem(1))
    aimed = kept.with_multipliers([123.0])
    prices = [m.weights[m.weights[:, 0] > 0, 1].tolist().count(123.0) for m in (kept, aimed)]
    assert prices == [0, 1]
    assert aimed.with_multipliers([123.0]) is aimed


def test_fewest_crossing_pairs_are_those_of_the_best_split() -> None:
    """Over all splits that use enough regions none has fewer pairs of workers in two regions, and
    one has as few: n squared less the sum of squares.
    """
    draw, judged = random.Random(1), 0
    for _ in range(DRAWS):
        rooms = [draw.randint(1, 5) for _ in range(draw.randint(1, 4))]
        workers, used = draw.randint(1, sum(rooms)), draw.randint(1, len(rooms))
        crossing = [
            workers**2 - sum(count**2 for count in split)
            for split in splits(workers, rooms)
            if sum(count > 0 for count in split) >= used
        ]
        if crossing:
            judged += 1
            (least,) = relaxation.fewest_crossing_pairs(
                np.array([workers]), np.array(rooms), used
            ).tolist()
            assert least == min(crossing), (rooms, workers, used)
    assert judged >= DRAWS / 2


def test_no_placement_sends_faster_than_its_busiest_worker() -> None:
    """Of drawn all-reduce placements over several regions, each takes at least the seconds between
    regions that the bound gives to its number of workers, and to each of its regions.
    """
    judged, decided = 0, 0
    for seed in range(12):
        problem = random_problem(seed)
        kept = market.Market.of(problem)
        if len(kept.places) < 2:
            continue
        asked = target.Target.of(problem, gap=0.0, deadline=math.inf)
        flat = modes.Mode(problem, "all-reduce", 1)
        bounds = relaxation.Relaxation(kept, asked, flat, 2, 8)
        pools, draw = range(len(kept.pools)), random.Random(seed)
        for _ in range(10):
            counts = [0] * len(kept.pools)
            for pool in draw.sample(pools, min(3, len(pools))):
                counts[pool] = draw.randint(1, 3)
            groups = groups_of(kept.pools, counts)
            used = sorted({kept.places.index(group.place) for group in groups})
            if len(used) < 2:
                continue
            workers = sum(counts)
            by_place = Counter({group.place: 0 for group in groups})
            for group in groups:
                by_place[group.place] += group.count
            between = wan_seconds(
                butterfly(sorted(by_place.items()), problem.gradient_bytes),
                problem.network,
                problem.calibration,
                problem.requirements.streams,
                software=problem.transport,
            )
            shard = pair_bytes(problem.gradient_bytes, workers)
            at = np.array(used)
            least = float(bounds.load_wan(at, np.array([workers]), len(used))[0]) * shard
            exact = max(
                (workers - by_place[kept.places[place]]) * float(bounds.machine_wan[place]) * shard
                for place in used
            )
            assert least <= exact * (1 + 1e-9) <= between * (1 + 1e-6)
            judged += 1
            decided += exact > 0.99 * between
    assert judged >= 40
    assert decided >= 1, "in none of the drawn placements does the busiest worker decide"


def test_no_pair_of_islands_is_faster_than_the_bound_of_its_places() -> None:
    """Two workers of drawn islands in two places take at least the seconds between regions that the
    bound gives to these places, and some take longer than with the lanes of the largest worker.
    """
    judged = slower = 0
    for seed in range(40):
        problem = island_problem(seed)
        kept, mode = market.Market.of(problem), modes.Mode(problem, "all-reduce", 1)
        if problem.lanes == 1:
            continue
        asked = target.Target.of(problem, gap=0.0, deadline=math.inf)
        bound = relaxation.Relaxation(kept, asked, mode, 2, 4).wan_matrix
        shard = pair_bytes(problem.gradient_bytes, 2)
        for (i, one), (j, other) in combinations(enumerate(kept.pools), 2):
            if one.place == other.place:
                continue
            own = {one.place: one.machines, other.place: other.machines}
            most = dict.fromkeys(own, problem.lanes)
            seconds, least = (
                wan_seconds(
                    butterfly(sorted(dict.fromkeys(own, 1).items()), problem.gradient_bytes),
                    lanes(problem.network, machines),
                    problem.calibration,
                    problem.requirements.streams,
                    software=problem.transport,
                )
                for machines in (own, most)
            )
            bounded = float(bound[kept.place_of[i], kept.place_of[j]]) * shard
            assert bounded <= seconds * (1 + 1e-6)
            judged += 1
            slower += bounded > least * 1.01
    assert judged
    assert slower


def test_no_ring_is_faster_or_cheaper_than_the_bounds_of_its_regions() -> None:
    """Every ring over two to five of the places of drawn markets, in both directions: its slowest
    edge is no faster than the bound of any two of its places, its edges together no cheaper than
    the sum of those of all pairs. Both are met by some rings of three and more.
    """
    met = Counter({"slowest": 0, "price": 0})
    for seed in range(60):
        problem = wide_problem(seed, most=10**9)
        problem = wishing(problem, transport=("nccl", "gloo")[seed % 2])
        kept = market.Market.of(problem)
        asked = target.Target.of(problem, gap=0.0, deadline=math.inf)
        mode = modes.Mode(problem, "all-reduce", 1)
        any_number = ring.RingRelaxation(kept, asked, mode, 2, 6)
        for regions in range(2, min(5, len(kept.places)) + 1):
            bounds = ring.RingRelaxation(kept, asked, mode, 2, 6, regions)
            for used in combinations(range(len(kept.places)), regions):
                there, back = bounds.edges(used)
                slowest = float(bounds.one_way[there, back].max())
                price = float(kept.prices[there, back].sum())
                pairs = [*combinations(used, 2)]
                least = max(float(bounds.wan_matrix[pair]) for pair in pairs)
                least_usd = sum(float(bounds.pair_usd[pair]) for pair in pairs)
                assert least <= slowest * (1 + 1e-12), (seed, used)
                assert max(float(any_number.wan_matrix[pair]) for pair in pairs) <= slowest
                assert least_usd <= price * (1 + 1e-12), (seed, used)
                met["slowest"] += regions > 2 and least == slowest
                met["price"] += regions > 2 and least_usd >= price * (1 - 1e-12)
                if regions == 2:
                    assert (least, least_usd) == pytest.approx((slowest, price))
    assert min(met.values()) >= 5, met


def test_partners_are_the_cheapest_that_a_head_can_have() -> None:
    """One head meets others elsewhere, at most so many in one region: no choice is cheaper."""
    draw, judged = random.Random(2), 0
    for _ in range(DRAWS):
        regions, together = draw.randint(2, 4), draw.randint(1, 3)
        leaders = draw.randint(0, together * regions)
        prices = np.array([[draw.uniform(0, 2) for _ in range(regions)] for _ in range(regions)])
        bounds = exchange_pattern.Partners(prices).usd(leaders, together)
        for region in range(regions):
            rooms = [0 if other == region else together for other in range(regions)]
            costs = [float(prices[region] @ np.array(split)) for split in splits(leaders, rooms)]
            judged += bool(costs)
            assert bounds[region] == pytest.approx(min(costs, default=np.inf)) or not leaders
    assert judged >= DRAWS


def through_a_hub(
    usd: Array, seconds: Array, chosen: tuple[int, ...], hubs: Array
) -> tuple[float, float]:
    """Return egress and seconds of a round through the best hub for each."""
    at, able = list(chosen), [hub for hub in chosen if hubs[hub]]
    paid = [float(usd[at, hub].sum()) for hub in able]
    lasts = [float(seconds[:, at, hub].max(axis=1).sum()) for hub in able]
    return min(paid, default=math.inf), min(lasts, default=math.inf)


def test_ways_to_a_hub_are_those_of_the_best_one() -> None:
    """Of drawn regions with some placed, one that joins and others to come, no set costs less or
    takes less than the bound of the one that joins; with none to come they are equal.
    """
    draw, judged = np.random.default_rng(3), Counter({False: 0, True: 0})
    for _ in range(DRAWS):
        places, regions = int(draw.integers(3, 6)), int(draw.integers(2, 4))
        usd, *ways = draw.choice([0.0, *draw.random(5)], size=(3, places, places))
        for each in (usd, *ways):
            np.fill_diagonal(each, 0.0)
        hubs, seconds = draw.random(places) < 0.7, np.stack(ways)
        bounds = exchange_pattern.HubWays(usd, seconds, np.arange(places), hubs)
        exact = {
            chosen: through_a_hub(usd, seconds, chosen, hubs)
            for chosen in combinations(range(places), regions)
        }
        placed = draw.permutation(places)[: int(draw.integers(0, regions))]
        joining = np.setdiff1d(np.arange(places), placed)
        left = regions - len(placed) - 1
        known = usd[placed].sum(axis=0), seconds[:, placed].max(axis=1, initial=0.0)
        least = bounds.least(joining, placed, *known, left)
        for at, place in enumerate(joining.tolist()):
            rows = [row for chosen, row in exact.items() if {*placed, place} <= {*chosen}]
            for own, best in zip(least, np.array(rows).min(axis=0), strict=True):
                assert own[at] <= best * (1 + 1e-12)
                assert left or own[at] == pytest.approx(best)
                judged[left > 0] += bool(np.isfinite(best))
    assert min(judged.values()) >= DRAWS, judged


def best_of_mixes(
    worth: np.ndarray, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int
) -> dict[int, float]:
    """The largest worth of m machines over every mix that caps and quota allow, by m."""
    best: dict[int, float] = {}
    for mix in product(*(range(cap + 1) for cap in caps)):
        if sum(n * size for n, size in zip(mix, sizes, strict=True)) <= quota:
            reached = float(worth @ np.array(mix))
            best[sum(mix)] = max(reached, best.get(sum(mix), -np.inf))
    return best


def increments_of(
    worth: Any, sizes: tuple[int, ...], caps: tuple[int, ...], quota: int, most: int
) -> Any:
    """What each further machine of one bucket adds; shape (machines,)."""
    each = increments.increments(worth[None, None], sizes, caps, quota, most)[0, 0]
    return np.repeat(each, increments.step_machines(sizes, caps, quota, most))


def test_increments_are_a_concave_majorant_of_every_mix() -> None:
    """Machines of several sizes share a quota: the m first increments sum to at least the best mix
    of m machines, never rise, and are as many as machines fit.
    """
    draw, judged = random.Random(4), 0
    for _ in range(20 * DRAWS):
        kinds = draw.randint(1, 3)
        sizes = tuple(draw.choice((1, 2, 3, 4, 8, 16)) for _ in range(kinds))
        quota = draw.choice((2, 4, 7, 8, 16, 17, 24, 63, 64, 10**9))
        caps = tuple(min(quota // size, draw.randint(1, 6)) for size in sizes)
        worth = np.array([draw.uniform(-2, 10) * size ** draw.choice((0, 1)) for size in sizes])
        if not all(caps):
            continue
        most = draw.choice((3, 64))
        each = increments_of(worth, sizes, caps, quota, most)
        best = best_of_mixes(worth, sizes, caps, quota)
        assert len(each) == increments.machines_of(sizes, caps, quota, most) == min(most, max(best))
        assert all(high >= low - 1e-9 for high, low in pairwise(each))
        reached = np.concatenate([[0.0], np.cumsum(each)])
        for m in range(len(each) + 1):
            judged += 1
            assert reached[m] >= best[m] - 1e-9
    assert judged >= 20 * DRAWS


def test_buckets_of_a_place_have_the_increments_that_each_has_alone() -> None:
    """Buckets alike in size and quota are worked out together: all steps, each as often as it has
    machines, are those of one bucket after another.
    """
    draw, several = random.Random(7), 0
    for _ in range(DRAWS):
        shapes = [((1, 4, 8), 16), ((1, 8), 24), ((2, 4), 8), ((1,), 5)]
        drawn = [draw.choice(shapes) for _ in range(draw.randint(2, 6))]
        several += len(set(drawn)) < len(drawn)
        pools = [SimpleNamespace(gpus=size, gpu_quota=q) for sizes, q in drawn for size in sizes]
        cap = np.array([pool.gpu_quota // pool.gpus for pool in pools])
        numbers = iter(range(len(pools)))
        buckets = [[next(numbers) for _ in sizes] for sizes, _ in drawn]
        units = increments.PlaceUnits(buckets, pools, cap, 64)
        worth = np.array([[draw.uniform(-2, 10) for _ in pools] for _ in range(2)])
        steps, machines = units.increments(worth[:, units.pools], 64)
        for row in range(2):
            alone = [
                increments_of(worth[row, bucket], sizes, tuple(cap[bucket].tolist()), quota, 64)
                for bucket, (sizes, quota) in zip(buckets, drawn, strict=True)
            ]
            together = np.sort(np.repeat(steps[row], machines))
            assert together.tolist() == pytest.approx(np.sort(np.concatenate(alone)).tolist())
    assert several >= DRAWS // 2


def test_machines_that_share_a_large_quota_are_bounded_by_their_linear_program() -> None:
    """A quota of 20 and machines of 1 and 8 devices, worth 1 and 4 each: three machines are at most
    (20 - 3) / 7 = 2.43 large ones and 0.57 small ones, worth 4 * 2.43 + 0.57 = 10.29, against 9 of
    the best mix, two large and one small. A cap of two large ones makes the bound exact.
    """
    worth = np.array([1.0, 4.0])
    loose = increments_of(worth, (1, 8), (20, 3), 20, 64)
    exact = increments_of(worth, (1, 8), (20, 2), 20, 64)
    assert loose[:3].sum() == pytest.approx(72 / 7)
    assert exact[:3].sum() == pytest.approx(9.0)


def test_rows_of_required_machines_bound_enumeration_and_reach_it() -> None:
    """Of n machines with c or more of some pools none is worth more than the rows allow; where
    every pool has n machines, the row in which these are worth as much as others allows no more.
    """
    draw, judged = np.random.default_rng(5), 0
    for _ in range(DRAWS):
        pools, n = int(draw.integers(2, 6)), int(draw.integers(1, 6))
        least, mine = int(draw.integers(1, n + 1)), int(draw.integers(1, pools))
        speed, usd = draw.uniform(1.0, 9.0, pools), draw.uniform(0.1, 3.0, pools)
        taken = np.where(np.arange(pools) < mine, -1.0, 0.0)[None]
        rows = best_sums.bound_rows(speed, usd, taken)
        worth = rows[:, :1] * speed - rows[:, 1:2] * usd - rows[:, 2:] * taken
        allowed = n * worth.max(axis=1) - least * rows[:, 2]
        for price in np.unique(rows[rows[:, 0] > 0, 1]).tolist():
            each = speed - price * usd
            best = least * each[:mine].max() + (n - least) * each.max()
            own = allowed[(rows[:, 0] > 0) & (rows[:, 1] == price)]
            assert own.min() >= best - 1e-9
            if each[mine:].max() >= max(0.0, each[:mine].max()):
                assert own.min() == pytest.approx(best)
                judged += 1
    assert judged >= DRAWS


def test_least_rounds_are_worked_out_once_for_all_local_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What leaders exchange at least depends neither on the local steps nor on the incumbent: seven
    numbers of steps, each bounded again and again, ask once for each number of regions.
    """
    asked: list[tuple[object, ...]] = []
    work_out = region_rounds.LeaderPairs._least

    def counted(self: Any, places: Any, regions: int) -> tuple[float, float]:
        asked.append((self.transport, places, regions))
        least: tuple[float, float] = work_out(self, places, regions)
        return least

    monkeypatch.setattr(region_rounds.LeaderPairs, "_least", counted)
    result = placer.Advisor().recommend(
        "resnet50",
        budget="5/h",
        catalog="erben-2023",
        regions="2..",
        local_steps="1..64",
        exchange="model-averaging",
        time_limit=2,
        alternatives=False,
    )
    assert {mode.local_steps for mode in result.proof} >= {2, 4, 8, 16, 32, 64}
    assert asked
    assert len(asked) == len(set(asked))


def test_a_speed_that_workers_must_have_by_themselves_is_a_threshold() -> None:
    """Of the sum of their speeds, where no placement is known and no floor is asked for. Without a
    budget a price of samples bounds machines as well, however little their dollars weigh.
    """
    problem = random_problem(5)
    free = {"min_samples_per_second": None, "budget_usd_per_hour": None}
    problem = wishing(problem, **free, least_speed=7 * UNITS_PER_SAMPLE)
    asked = target.Target.of(problem, gap=0.0, deadline=math.inf)
    mode, nothing = modes.Mode(problem, "all-reduce", 1), np.zeros(1)
    (needed,) = asked.thresholds(mode, np.array([[1.0, 0.0]]), nothing, nothing, 0.0, nothing)
    assert needed == pytest.approx([7.0])
    priced = replace(asked, limit_usd_per_sample=1e-6)
    second, weights = np.ones(1), np.array([[1.0, 0.5]])
    assert np.isfinite(priced.thresholds(mode, weights, second, nothing, 0.0, nothing)).all()
    assert not np.isfinite(asked.thresholds(mode, weights, second, nothing, 0.0, nothing)).any()


@pytest.mark.parametrize(
    ("objective", "at", "unit"),
    [
        ("throughput", 0, 1.0),
        ("cost", 1, 1.0),
        ("cost-per-sample", 2, 1e-6),
        ("total", 2, 5e-7),
        ("carbon", 3, 1.0),
    ],
)
def test_what_is_demanded_is_a_limit(objective: str, at: int, unit: float) -> None:
    """Unless one that is as tight is there, and of nothing else: samples/s, USD/h, USD of a sample
    where a million costs so much, or two millions do, and g/h. Without wishes there are no limits.
    """
    problem = two_places(objective=objective, samples=2_000_000)
    asked = target.Target.of(problem, gap=0.0, deadline=math.inf)
    expected = [0.0, math.inf, math.inf, math.inf]
    assert list(asked.limits) == expected
    tighter = 7.0 if at == 0 else 3.0
    for value, limit in ((5.0, 5.0), (tighter, tighter), (5.0, tighter)):
        asked.demand(value)
        expected[at] = limit * unit
        assert list(asked.limits) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("limits", "nodes"),
    [({"node_limit": 3}, 3), ({"pause_nodes": 2, "node_limit": 3}, 2), ({"deadline": 0.0}, 63)],
)
def test_a_search_stops_after_its_nodes(limits: dict[str, Any], nodes: int) -> None:
    """At the next one; the clock is looked at with every 64th."""
    asked = target.Target.of(two_places(), gap=0.0, deadline=math.inf)
    asked = replace(asked, **limits)
    for _ in range(nodes):
        asked.tick()
    with pytest.raises(target.OutOfTimeError):
        asked.tick()


def test_what_is_faster_or_as_fast_and_cheaper_may_beat_the_best() -> None:
    """Of speed a thousandth more, or dollars a tenth less at the same speed; neither slower nor, as
    fast, dearer machines.
    """
    problem = random_problem(5)
    exact = importlib.import_module("placer.solvers.exact.branch_and_bound")
    target = exact.Target.of(problem, gap=0.0, deadline=time.monotonic() + 1e6)
    best = proved("random", 5)
    assert best.placement is not None
    assert best.estimate is not None
    target.offer(best.placement)
    speed, usd = best.estimate.samples_per_second.value, best.estimate.usd_per_hour.total
    assert problem.requirements.objective == "throughput"
    assert target.may_beat_best(speed * 1.001, usd)
    assert target.may_beat_best(speed, usd * 0.9)
    assert not target.may_beat_best(speed * 0.999, usd)
    assert not target.may_beat_best(speed * 0.999, usd * 0.9)


def test_pairs_of_prices_bound_where_budget_and_sum_bind_together() -> None:
    """Continuous machines within a budget and a sum: the bound of the rows, beta x budget + gamma x
    sum where no machine is worth more than it costs, comes within 5 % of the linear program's
    value. Prices of a dollar alone leave 20 % and more in the worst case.
    """
    from scipy.optimize import linprog

    draw, worst_alone, worst = random.Random(5), 0.0, 0.0
    for _ in range(40):
        size = draw.randint(3, 8)
        usd = np.array([draw.uniform(1, 20) for _ in range(size)])
        speed = np.array([draw.uniform(1, 20) for _ in range(size)])
        taken = np.array([float(draw.randint(1, 4)) for _ in range(size)])
        budget, most = draw.uniform(50, 100), draw.uniform(5, 20)
        best = -linprog(-speed, A_ub=[usd, taken], b_ub=[budget, most]).fun
        rows = best_sums.bound_rows(speed, usd, taken[None])
        rows = rows[rows[:, 0] > 0]
        worth = rows[:, :1] * speed - rows[:, 1:2] * usd - rows[:, 2:] * taken
        # Machines that are worth more than they cost could be taken without end.
        tight = (worth <= 1e-9).all(axis=1)
        bounds = rows[tight, 1] * budget + rows[tight, 2] * most
        alone = rows[tight & (rows[:, 2] == 0), 1] * budget
        assert bounds.min(initial=math.inf) >= best * (1 - 1e-9)
        worst = max(worst, bounds.min(initial=math.inf) / best)
        worst_alone = max(worst_alone, alone.min(initial=math.inf) / best)
    assert worst < 1.05
    assert worst_alone > 1.2

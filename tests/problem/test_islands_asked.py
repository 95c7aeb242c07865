"""Islands as they are asked for: specs by hand, wishes, and the workers that they admit."""

import math
from itertools import compress, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from instances import offer, question, wishing
from placer.cost_model.estimate import estimate, pool_of, workers_of
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.placement import WorkerGroup, parse_workers
from placer.problem.problem import Problem
from placer.problem.requirements import Narrowed
from placer.problem.workers.pool import Pool
from placer.problem.workers.worker_sizes import Kind, Limits, Twins, sizes
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import require_pools, solve
from placer.workload.inner_plan import CHECKPOINTING, PRECISIONS, SHARDINGS, InnerPlan
from placer.workload.island import Island

advisor = Advisor()
EAST = "aws/us-east-1"
plans = st.builds(
    InnerPlan,
    sharding=st.sampled_from(SHARDINGS),
    tensor_parallel=st.sampled_from([1, 2, 4, 8]),
    checkpointing=st.sampled_from(CHECKPOINTING),
    microbatch=st.integers(1, 4096),
    precision=st.sampled_from(PRECISIONS),
)


def asked(model: str = "llama-3.1-8b", **words: Any) -> Problem:
    """A question on the default book."""
    return advisor.problem(model, "default", **words)


def kinds(problem: Problem, device: str = "H100:8", place: str = EAST) -> set[int]:
    """Machines of the islands that are offered of a device in a place."""
    return {
        pool.machines
        for pool in problem.every_pool
        if (pool.offer.device, pool.place) == (device, place)
    }


@pytest.mark.parametrize(
    "spec",
    [
        f"{EAST}=2x4xH100:8:spot",
        f"{EAST}=2x(4xH100:8:spot)",
        f"{EAST}=2x(4xH100:8):spot",
        f"  {EAST}=2x4xH100:8:spot ,",
    ],
)
def test_islands_are_written_with_and_without_brackets(spec: str) -> None:
    """Two islands of four machines of eight GPUs."""
    (group,) = parse_workers(spec)
    assert (group.count, group.machines, group.gpu, group.gpu_count) == (2, 4, "H100", 8)
    assert (group.market, group.inner) == ("spot", None)


@given(
    plans,
    st.integers(1, 99),
    st.integers(1, 64),
    st.sampled_from([1, 4, 8]),
    st.sampled_from(["spot", "on_demand"]),
)
def test_specs_read_back(
    inner: InnerPlan, count: int, machines: int, gpus: int, market: str
) -> None:
    """What an answer prints can be given to `estimate`."""
    group = WorkerGroup(
        place=EAST,
        instance_type="x",
        gpu="A100-80",
        gpu_count=gpus,
        market=market,
        count=count,
        machines=machines,
        inner=inner,
    )
    (spec,) = parse_workers(group.spec)
    assert (spec.place, spec.count, spec.gpu, spec.gpu_count) == (EAST, count, "A100-80", gpus)
    assert (spec.market, spec.machines, spec.inner) == (market, machines, inner)


def test_equal_decisions_are_written_alike() -> None:
    """Groups of one kind are one, in the order of places, devices and machines."""
    words = (f"{EAST}=1x2xH100:8:spot", f"{EAST}=2xH100:8:spot", "aws/us-east-2=1xH100:8:spot")
    once = place_by_hand(",".join(words), asked(quota=256))
    again = replace(once, groups=(*once.groups[::-1], *once.groups)).canonical()
    assert again.in_words == (
        f"4 x H100:8 spot in {EAST} + 2 x 2xH100:8 spot in {EAST} + 2 x H100:8 spot in "
        "aws/us-east-2"
    )
    assert again.canonical() == again
    assert (again.workers, again.machines, again.workers_by_place[EAST]) == (8, 10, 6)


def test_a_model_without_dimensions_has_no_islands() -> None:
    """RoBERTa XLM has rates of machines: several of them are several workers. No bound of plans
    holds for them, and there is no nearest island.
    """
    problem = asked("roberta-xlm")
    offer = next(o for o in problem.catalog.offers_at("gcp/us-central1") if o.device == "T4")
    alone = problem.pool(offer)
    assert alone is not None
    assert (problem.pool(offer, 2), problem.nearest_island(offer)) == (None, None)
    assert problem.pool(offer, inner=InnerPlan()) is None
    assert problem.may_reach(offer, 1, 1, 1e-9)


def test_islands_begin_with_the_fewest_machines_that_fit() -> None:
    """70 B parameters in mixed precision are 1.05 TiB of states: more than 8 x 79.5 GiB, less than
    16 x 79.5 GiB. The fewest are named with their plan for the whole step, as one worker does it.
    """
    for model, fewest in (("llama-3.1-70b", 2), ("llama-3.1-8b", 1)):
        problem = asked(model, gpu="H100", quota=128)
        assert min(kinds(problem)) == fewest
        offer = next(o for o in problem.catalog.offers_at(EAST) if o.device == "H100:8")
        whole = problem.island(offer, fewest, workers=1)
        assert problem.nearest_island(offer) == (fewest, whole)


@pytest.mark.parametrize("machines", [2, 3, 5])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_workers_of_several_machines_do_their_part(model: str, machines: int) -> None:
    """Quotas of 128 H100 hold 16 machines. Of one to three workers each does its part of 96
    sequences in the time of its plan, below the speed that none exceeds and above half of it; the
    bound on its seconds is lower by at most 15 %.
    """
    problem = asked(model, gpu="H100", quota=128, tbs=96)
    offer = next(o for o in problem.catalog.offers_at(EAST) if o.device == "H100:8")
    fastest = problem.pool(offer, machines)
    assert fastest is not None
    assert (fastest.inner, fastest.max_count) == (None, 16 // machines)
    assert (fastest.name, fastest.host) == (f"{machines}xH100:8", f"nccl {machines * 3200} Gb/s")
    assert (fastest.gpus, fastest.usd_per_hour / offer.usd_per_hour) == (machines * 8, machines)
    assert fastest.group(2).machine_count == 2 * machines
    for workers in (1, 2, 3):
        built = problem.island(offer, machines, workers=workers)
        pool = problem.pool(offer, machines, workers=workers)
        assert isinstance(built, Island)
        assert pool is not None
        assert (pool.inner, pool.kind) == (built.plan, ("H100", 8, machines, built.plan))
        assert pool.alone.value == pytest.approx(96 / workers / built.step.seconds)
        assert pool.shared.value == pool.alone.value
        assert 0.5 < pool.alone.value / fastest.alone.value < 1
        assert fastest.alone.high >= fastest.alone.value
        assert problem.may_reach(offer, machines, workers, built.step.seconds)
        assert not problem.may_reach(offer, machines, workers, 0.85 * built.step.seconds)


def test_an_unknown_network_joins_no_machines(default: Catalog) -> None:
    """Neither bandwidth nor fabric: one machine, or none where one is too small."""
    offers = tuple(
        replace(o, network_gbps=None, fabric="")
        for o in default.offers_at(EAST)
        if o.device == "H100:8"
    )
    book = replace(default, offers=offers)
    for model, counts in (("llama-3.1-8b", {1}), ("llama-3.1-70b", set())):
        wishes = {"quota_gpus": 128, "min_island_machines": 1, "max_island_machines": 16}
        assert kinds(question(model, book, **wishes)) == counts


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ("1", {1}),
        ("2", {2}),
        ("3", {3}),
        ("1..4", {1, 2, 3, 4}),
        ("3..6", {3, 4, 5, 6}),
        ("5..7", {5, 6, 7}),
    ],
)
def test_ranges_of_machines(words: str, counts: set[int]) -> None:
    """Every number of machines of the range."""
    problem = asked("llama-3.1-8b", gpu="H100", quota=128, machines_per_island=words)
    assert kinds(problem) == counts


def test_a_degree_that_divides_no_width_is_refused() -> None:
    """Keys 100 wide are not divided among 8 GPUs."""
    problem = asked("llama-3.1-8b")
    shape = problem.profile.architecture
    assert shape is not None
    profile = replace(problem.profile, architecture=replace(shape, kv_width=100))
    odd = replace(
        problem, profile=profile, requirements=replace(problem.requirements, tensor_parallel=8)
    )
    assert odd.pools == ()
    with pytest.raises(PlacerError, match="does not divide the width of keys, 100"):
        require_pools(odd)


def test_machines_and_workers_count_different_things() -> None:
    """Two islands of four machines: two workers, eight machines, 64 GPUs."""
    spec = f"{EAST}=2x4xH100:8:spot"
    for words, codes in (
        ({"machines": 8, "workers": "1..2"}, set()),
        ({"machines": 7}, {"machines"}),
        ({"workers": "1"}, {"workers"}),
        ({"workers": "3..4"}, {"workers"}),
        ({"quota": 64}, set()),
        ({"quota": 63}, {"quota"}),
        ({"use": [f"{EAST}=8xH100:8"]}, set()),
        ({"use": [f"{EAST}=9xH100:8"]}, {"use"}),
    ):
        problem = asked("llama-3.1-8b", **{"quota": 128, "gpu": "H100", "places": EAST, **words})
        placement = place_by_hand(spec, problem)
        assert (placement.workers, placement.machines) == (2, 8)
        assert {v.code for v in violations(placement, problem)} == codes, words


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"sharding": "zero-2"}, "plan"),
        ({"sharding": "zero-3", "tp": 1, "checkpointing": "full", "microbatch": 2}, ""),
        ({"tp": 8}, "plan"),
        ({"checkpointing": "none"}, "plan"),
        ({"microbatch": 1}, "plan"),
        ({"microbatch": 4}, ""),
        ({"precision": "fp16"}, "plan"),
        ({"machines_per_island": 1}, "island"),
        ({"machines_per_island": "3..8"}, "island"),
        ({"machines_per_island": "2..8"}, ""),
        ({"zones": "spread"}, "island"),
    ],
)
def test_a_plan_by_hand_is_held_to_the_wishes(words: dict[str, Any], code: str) -> None:
    """Also what a changed world keeps. A microbatch may be smaller than asked, as in a small
    share of a batch.
    """
    problem = asked("llama-3.1-8b", quota=64, **words)
    spec = f"{EAST}=1x2xH100:8:spot+zero-3+ckpt=full+mb=2"
    broken = violations(place_by_hand(spec, problem), problem)
    assert {v.code for v in broken} == ({code} if code else set())


def test_a_plan_by_hand_may_have_a_fused_loss(run: Run) -> None:
    """Llama 3.1 8B with 32,768 tokens on eight H100 needs 86 GiB with the cross-entropy of PyTorch,
    as torchtitan did (83.9 published), and 47 where the loss is fused. It is offered with
    divided sequences alone.
    """
    words = ("--model", "llama-3.1-8b", "--seq-len", "32768", "--tbs", "512")
    spec = f"{EAST}=1xH100:8:spot+zero-3+ckpt=full+mb=1"
    text = " ".join(run("estimate", *words, "--workers", spec).stdout.split())
    assert "takes 47 of 79.5 GiB on each GPU with a fused loss (86 with a plain one)" in text
    wishes: dict[str, Any] = {
        "sharding": "zero-3",
        "tp": 1,
        "checkpointing": "full",
        "microbatch": 1,
    }
    problem = asked(seq_len=32_768, tbs=512, machines_per_island=1, **wishes)
    pools = [pool for pool in problem.every_pool if pool.offer.device == "H100:8"]
    assert pools
    for pool in pools:
        built = problem.island(pool.offer)
        assert isinstance(built, Island)
        assert built.plan.context_parallel > 1


def test_machines_behind_others_are_of_one_worker() -> None:
    """Two H100:8 with the first layers and two A100-80:8 with the others: 32 GPUs, as a group and
    as the worker that it is made of.
    """
    problem = asked(quota=256)
    (group,) = place_by_hand(f"{EAST}=1x2xH100:8:spot~2xA100-80:8:spot", problem).groups
    pool = pool_of(group, problem)
    assert pool.group(1) == group
    assert pool.gpus == group.gpus == 32
    prices = [2 * part.offer.usd_per_hour for part in pool.parts]
    assert pool.usd_per_hour == pytest.approx(sum(prices))


def test_use_takes_machines_of_an_island() -> None:
    """At least four machines must be used: one island of four will do."""
    problem = asked(
        "llama-3.1-8b",
        gpu="H100",
        quota=64,
        use=[f"{EAST}=4xH100:8"],
        machines_per_island=4,
        budget="150/h",
    )
    result = solve(problem, "exact")
    assert result.placement is not None
    assert result.placement.machines >= 4
    assert all(group.machines == 4 for group in result.placement.groups)


@pytest.mark.parametrize("model", ["gpt2", "llama-3.1-8b", "mpt-7b"])
@pytest.mark.parametrize("device", ["H100:8", "A100-80:8", "H200:8"])
def test_two_spellings_of_the_same_machines_agree(model: str, device: str) -> None:
    """Twelve machines as 1 to 12 workers, by the same plan: samples/s within 1 %, for batches that
    divide and others; and no step is shorter than the slowest worker's part alone.
    """
    compared = 0
    for batch in (96, 500, 1_000):
        problem = asked(model, tbs=batch, seq_len=512)
        for sharding in ("none", "hybrid"):
            speeds = []
            for workers in (1, 2, 3, 4, 6, 12):
                # Of one machine the shards of a plan that copies over machines are all of it.
                own = "zero-3" if (workers, sharding) == (12, "hybrid") else sharding
                spec = f"{EAST}={workers}x{12 // workers}x{device}:spot+{own}+ckpt=full+mb=1"
                try:
                    placement = place_by_hand(spec, problem)
                except PlacerError:
                    continue
                got = estimate(placement, problem)
                parts = [problem.part_s(p, workers) for p, _ in workers_of(placement, problem)]
                assert got.step.total >= max(parts) * (1 - 1e-9)
                speeds.append(got.samples_per_second.value)
            if len(speeds) > 1:
                assert max(speeds) <= 1.01 * min(speeds), (batch, sharding, speeds)
                compared += len(speeds)
    assert compared >= 6


def test_the_seconds_and_prices_of_sizes_by_hand() -> None:
    """Machines of four devices: 9 sequences on 8 ranks are 2 of 2 s; 4 go in pairs of devices, in
    1.5 s; 3 are too few. 36 in 3 s take six machines. Three workers of two machines cost 2 + 2 + 4.
    """
    made = offer("gcp", "a", "T4", 4.0, gpus=4)
    kind = Kind(
        offers=(made,),
        rank_s=((1, 2.0), (2, 1.5)),
        least=2,
        most=8,
        usd_per_hour=1.0,
        twins=Twins([(1.0, 4, 8), (2.0, 8, 8)]),
    )
    assert [kind.calculation_s(2, count) for count in (9, 4, 3)] == [4.0, 1.5, math.inf]
    assert [kind.is_step(count, 9) for count in (2, 3, 4)] == [True, True, False]
    assert kind.is_step(2, 4) is True  # there is none with fewer
    assert [kind.fewest(36, seconds) for seconds in (3.0, 100.0)] == [6, 2]
    assert replace(kind, rank_s=()).fewest(36, 3.0) == 9
    assert [kind.least_usd(2, others) for others in (0, 2)] == [2.0, 8.0]
    assert replace(kind, usd_per_hour=3.0).least_usd(2, 2) == 10.0


def test_no_kind_is_left_out_that_a_price_of_work_admits() -> None:
    """Of all sizes those whose price times seconds is within a limit, and no others."""
    every, left_out = asked(budget="2000/h", figures="book").worker_kinds, 0
    for workers, alike in product((1, 4, 16), (True, False)):
        limits = Limits(
            workers=workers,
            sequences=32,
            longest_s=math.inf,
            usd_per_hour=2000.0,
            machines=math.inf,
            usd_s=math.inf,
            alike=alike,
        )
        found, paid = sizes(every, limits), workers if alike else 1
        work = [paid * size.usd_per_hour * size.calculation_s for size in found]
        for most in sorted(work)[:: len(work) // 4]:
            capped = sizes(every, replace(limits, usd_s=most))
            within = [own <= most * (1 + 1e-9) for own in work]
            assert [id(size.kind) for size in capped] == [
                id(size.kind) for size in compress(found, within)
            ]
            left_out += len({id(s.kind) for s in found} - {id(s.kind) for s in capped})
    assert left_out > 100


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_within_a_limit_are_just_those(workers: int) -> None:
    """Of all workers with a plan those whose part of a step takes no longer than some seconds, the
    slowest of them at the limit itself; and one worker's price times its seconds.
    """
    words: dict[str, Any] = {"gpu": "H100,A100-80", "places": EAST, "market": "spot"}
    problem = asked(quota=64, tbs=96, workers=workers, **words)
    part_s = [problem.part_s(pool, workers) for pool in problem.pools]

    def within(longest_s: float) -> tuple[Pool, ...]:
        return problem.sized(workers, lambda _: longest_s)

    for longest_s in sorted(part_s)[::10]:
        as_fast = compress(problem.pools, [part <= longest_s for part in part_s])
        assert within(longest_s) == (*as_fast,)
    paid = [p.usd_per_hour * part for p, part in zip(problem.pools, part_s, strict=True)]
    for most in sorted(paid)[::10] if workers == 1 else ():
        narrowed = wishing(problem, narrowed=Narrowed(most_usd_s=most))
        cheap = compress(problem.pools, [usd_s <= most * (1 + 1e-12) for usd_s in paid])
        assert [(p.name, p.inner) for p in cheap] == [(p.name, p.inner) for p in narrowed.pools]

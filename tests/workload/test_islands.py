"""Islands: the plan of some machines for a model, its time, and why there is none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import MPT, device, island, mpt

from placer.records import replace
from placer.workload.inner_plan import CHECKPOINTING, SHARDINGS, InnerPlan
from placer.workload.island import Island, PlanWishes, Refusal
from placer.workload.island.transports import HIDDEN_SHARE

ROCE = (1600.0, "roce")
"""Network of MosaicML's A100 machines."""

models = st.sampled_from(sorted(MPT))
devices = st.sampled_from(["T4", "A10G", "V100-32", "A100-40", "A100-80", "H100", "L40S"])
counts = st.sampled_from([1, 2, 4, 8])
machines_of = st.sampled_from([1, 2, 3, 4, 8, 16])
wishes_of = st.builds(
    PlanWishes,
    sharding=st.sampled_from([None, *SHARDINGS]),
    tensor_parallel=st.sampled_from([None, 1, 2, 4, 8]),
    checkpointing=st.sampled_from([None, *CHECKPOINTING]),
    microbatch=st.sampled_from([None, 1, 3, 8]),
)


def chosen(answer: Island | Refusal) -> Island:
    """Return an island, or fail with the reason why there is none."""
    assert isinstance(answer, Island), answer
    return answer


def refused(answer: Island | Refusal) -> Refusal:
    """Return a refusal, or fail."""
    assert isinstance(answer, Refusal), answer
    return answer


def test_70b_does_not_fit_16_small_devices() -> None:
    """States alone are 65 B x 16 bytes / 16 = 60 GiB; the sentence names plan, need and memory."""
    answer = refused(island(mpt("mpt-70b"), device("A100-40"), 8, *ROCE, 2, PlanWishes(), 512))
    assert (answer.code, answer.plan is not None) == ("memory", True)
    assert "of 16 x A100-40, which have 39.5 GiB" in answer.reason


def test_a_degree_that_does_not_divide_the_model_is_refused() -> None:
    """Keys of 3 heads of 4: a width of 12 is not divided by 8."""
    model = replace(mpt("mpt-1b"), kv_width=12)
    wishes = PlanWishes(tensor_parallel=8)
    answer = refused(island(model, device("H100"), 8, *ROCE, 1, wishes, 512))
    assert answer.reason == "tensor parallel degree 8 does not divide the width of keys, 12"


def test_a_batch_below_one_sequence_a_rank_is_refused() -> None:
    """Four sequences for eight ranks, where tensor parallelism is ruled out."""
    wishes = PlanWishes(tensor_parallel=1)
    answer = refused(island(mpt("mpt-1b"), device("H100"), 8, *ROCE, 1, wishes, 4))
    assert answer.code == "batch"


def test_a_small_share_shrinks_the_microbatch() -> None:
    """Two sequences a rank cannot be taken four at a time."""
    wishes = PlanWishes(microbatch=4)
    answer = chosen(island(mpt("mpt-1b"), device("H100"), 8, *ROCE, 1, wishes, 16))
    assert answer.plan.microbatch == 2


@pytest.mark.parametrize(("gpu", "precision"), [("T4", "bf16"), ("A100-40", "fp8")])
def test_a_format_that_a_device_lacks_is_refused(gpu: str, precision: str) -> None:
    """Turing has no BF16, Ampere no FP8; both have something else."""
    wishes = PlanWishes(precision=precision)
    answer = refused(island(mpt("mpt-125m"), device(gpu), 1, None, "", 1, wishes, 8))
    assert answer.reason.startswith(f"{gpu} has no matrix products in {precision}")


@pytest.mark.parametrize(
    ("gpu", "precision"), [("T4", "fp16"), ("H100", "bf16"), ("CPU-8", "fp32")]
)
def test_each_device_trains_in_its_usual_format(gpu: str, precision: str) -> None:
    """FP16 before Ampere, BF16 from there on, FP32 on CPUs."""
    answer = chosen(island(mpt("mpt-125m"), device(gpu), 1, None, "", 1, PlanWishes(), 8))
    assert answer.plan.precision == precision


@given(models, devices, counts, machines_of, wishes_of, st.integers(1, 2000))
def test_a_chosen_plan_fits_and_keeps_the_wishes(
    model: str, gpu: str, gpu_count: int, machines: int, wishes: PlanWishes, batch: int
) -> None:
    """A plan fits its devices, holds its groups inside machines and its microbatch inside the
    share of a rank, and is what was asked for.
    """
    answer = island(mpt(model), device(gpu), gpu_count, *ROCE, machines, wishes, batch)
    if isinstance(answer, Refusal):
        assert answer.reason
        return
    plan = answer.plan
    assert answer.memory.total <= device(gpu).memory_gib * 2**30
    assert gpu_count % plan.tensor_parallel == 0
    ranks = gpu_count * machines // plan.tensor_parallel
    assert ranks <= batch
    assert plan.microbatch <= -(-batch // ranks)
    assert wishes.sharding in (None, plan.sharding)
    assert wishes.checkpointing in (None, plan.checkpointing)
    assert wishes.tensor_parallel in (None, plan.tensor_parallel)
    assert 0 < answer.low <= answer.samples_per_second <= answer.high


@given(models, devices, counts, machines_of, st.floats(1, 3200), st.floats(1, 4))
def test_a_faster_network_is_never_slower(
    model: str, gpu: str, gpu_count: int, machines: int, gbps: float, more: float
) -> None:
    """Every plan takes no longer, hence the best one."""
    rates = [
        answer.samples_per_second if isinstance(answer, Island) else 0.0
        for g in (gbps, gbps * more)
        for answer in [
            island(mpt(model), device(gpu), gpu_count, g, "efa", machines, sequences=512)
        ]
    ]
    assert rates[0] <= rates[1] * (1 + 1e-9)


@given(models, devices, counts, machines_of, wishes_of)
def test_what_is_chosen_is_the_fastest(
    model: str, gpu: str, gpu_count: int, machines: int, wishes: PlanWishes
) -> None:
    """No plan that a further wish would fix is faster than the free choice."""
    free = island(mpt(model), device(gpu), gpu_count, *ROCE, machines, wishes, 256)
    for sharding in SHARDINGS:
        if wishes.sharding is not None:
            break
        fixed = island(
            mpt(model),
            device(gpu),
            gpu_count,
            *ROCE,
            machines,
            replace(wishes, sharding=sharding),
            256,
        )
        if isinstance(fixed, Island):
            assert chosen(free).samples_per_second >= fixed.samples_per_second * (1 - 1e-9)


@given(models, devices, counts, machines_of, st.integers(1, 2_048))
def test_a_rank_takes_whole_microbatches_of_its_own_share(
    model: str, gpu: str, gpu_count: int, machines: int, sequences: int
) -> None:
    """The fullest rank has ceil(sequences / ranks): no microbatch is larger, and as many as there
    are hold all of them, with less than one idle sequence in each.
    """
    answer = island(mpt(model), device(gpu), gpu_count, *ROCE, machines, PlanWishes(), sequences)
    if isinstance(answer, Island):
        ranks = machines * gpu_count // answer.plan.tensor_parallel
        share, taken = -(-sequences // ranks), answer.plan.microbatch * answer.step.microbatches
        assert answer.plan.microbatch <= share <= taken < share + answer.step.microbatches


@given(models, devices, counts, machines_of, st.integers(1, 600), st.integers(1, 64))
def test_no_wished_microbatch_is_faster(
    model: str, gpu: str, gpu_count: int, machines: int, sequences: int, microbatch: int
) -> None:
    """Microbatches of every size are looked at, not only powers of two."""
    at = mpt(model), device(gpu), gpu_count, *ROCE, machines
    wished = island(*at, PlanWishes(microbatch=microbatch), sequences)
    if isinstance(wished, Island):
        free = chosen(island(*at, PlanWishes(), sequences))
        assert free.step.seconds <= wished.step.seconds * (1 + 1e-9)


@given(models, devices, counts, machines_of, wishes_of, st.integers(2, 600), st.floats(0, 60))
def test_no_wished_plan_is_faster_with_an_exchange(
    model: str,
    gpu: str,
    gpu_count: int,
    machines: int,
    wishes: PlanWishes,
    sequences: int,
    exchange_s: float,
) -> None:
    """What is fastest alone need not hide an exchange between islands well: for its every length
    some plan of those that are kept is no slower than the one that is asked for.
    """
    at = mpt(model), device(gpu), gpu_count, *ROCE, machines

    def seconds(wish: PlanWishes) -> float:
        step = chosen(island(*at, wish, sequences, joined=True)).step
        return step.seconds + exchange_s - HIDDEN_SHARE * min(exchange_s, step.free_s)

    if isinstance(island(*at, wishes, sequences, joined=True), Island):
        free = chosen(island(*at, PlanWishes(), sequences, joined=True))
        kept = [
            PlanWishes(**plan_words(plan))
            for plan in (free.plan, *(rival.plan for rival in free.rivals))
        ]
        assert min(map(seconds, kept)) <= seconds(wishes) * (1 + 1e-9)


def plan_words(plan: InnerPlan) -> dict[str, Any]:
    """Return the parts of a plan that may be wished."""
    names = ("sharding", "tensor_parallel", "checkpointing", "microbatch")
    return {name: getattr(plan, name) for name in names}


def test_a_mixture_of_experts_is_assumed() -> None:
    """Two of eight experts at work: the rate follows the active parameters, the memory all of
    them; the interval is at least x 1.6 each way.
    """
    dense = mpt("mpt-7b")
    sparse = replace(
        dense, parameters=4 * dense.parameters, trainable_parameters=4 * dense.parameters
    )
    answer = chosen(island(sparse, device("H100"), 8, *ROCE, 4, PlanWishes(), 512))
    assert answer.basis == "assumed"
    assert answer.low <= answer.samples_per_second / 1.6
    assert answer.memory.states > 4 * 3.9 * dense.parameters / 32


def test_adapters_need_less_memory_and_fewer_flops() -> None:
    """QLoRA of a 70 B model fits one machine of 8 x A100-40; 4 of 6 FLOPs a weight are left, so
    that LoRA is 1.3 to 1.6 times as fast as training all of a 7 B model.
    """
    big = replace(mpt("mpt-70b"), trainable_parameters=2 * 10**8, frozen_bytes_per_parameter=0.5)
    chosen(island(big, device("A100-40"), 8, None, "", 1, PlanWishes(), 64))
    full = mpt("mpt-7b")
    lora = replace(full, trainable_parameters=4 * 10**7)
    rates = [
        chosen(island(m, device("A100-80"), 8, None, "", 1, PlanWishes(), 512)).samples_per_second
        for m in (full, lora)
    ]
    assert 1.3 < rates[1] / rates[0] < 1.6

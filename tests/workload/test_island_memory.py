"""Memory of an inner plan: named parts, each of which a plan divides or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import ADAPTED, MPT, PLAIN, SPARSE, device, island, mpt
from msgspec import to_builtins

from placer.documents.checker.limits import least_device_bytes
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan, written_parts
from placer.workload.island import Island, PlanWishes, Refusal
from placer.workload.island.memory import host_bytes, memory
from placer.workload.models.decoder import FOUR_BIT_BYTES, with_adapters, with_sequence_length
from placer.workload.models.model_words import read_model

LADDER = ("none", "zero-1", "zero-2", "zero-3")


STAGES = replace(PLAIN, width=100, kv_width=100, mlp_width=100, vocabulary=10**6)


@pytest.mark.parametrize(
    ("shape", "spec", "expected"),
    [
        # Two moments of 4 bytes, weights and gradients in FP32; BF16 copies beside. A layer keeps
        # 34 bytes a token and unit of width (Korthikanti et al., 2022, with fused attention).
        (PLAIN, "+none", (16000, 2000, 0, 340, 140, 1500)),
        (PLAIN, "+none+fp32", (16000, 0, 0, 680, 140, 1500)),
        (PLAIN, "+none+torchtune", (8000, 0, 0, 340, 140, 1500)),
        # 2 bytes with full checkpointing, beside one layer of 34; 2 x 4 of hidden values and as
        # many of norms less with selective.
        (PLAIN, "+zero-1+ckpt=full", (8500, 2000, 0, 54, 140, 1500)),
        (PLAIN, "+zero-2+ckpt=selective", (4750, 2000, 0, 9 * 20 + 34, 140, 1500)),
        # Two layers of 99 million parameters are whole at once, and the table of 10 million; of
        # four matrices in a group a quarter.
        (PLAIN, "+zero-3", (1000, 396, 20, 340, 140, 1500)),
        (PLAIN, "+zero-3+tp=4", (1000, 99, 5, 85, 35, 1500)),
        (PLAIN, "+hybrid+cp=2+mb=6", (2000, 396, 20, 1020, 420, 1500)),
        # Megatron's zero-1 divides weights too, and gradients have 2 bytes; FP8 keeps 0.65.
        (PLAIN, "+zero-1+nvidia-te+fp8", (2750, 2000, 0, 221, 140, 1500)),
        # Half of the layers and a table: 505 million, over the 8 devices of a stage. The first
        # stage keeps a microbatch for each stage, a tenth more in five pieces; the last one alone.
        (PLAIN, "+zero-1+pp=2", (505 * 9, 1010, 0, 340, 0, 2500)),
        (PLAIN, "+zero-1+pp=2+vp=5", (505 * 9, 1010, 0, 374, 0, 2500)),
        # Layers 3, 3, 3 and 1, as the head takes as long as 1.1; a table of 100 of 1,000 million.
        (STAGES, "+zero-1+pp=4", (370 * 10, 740, 0, 22, 14000 - 22 * 3 / 4, 2500)),
        # 320 million in experts, which 8 devices divide: 2 x 8 hold an eighth each, and two the
        # same. Tokens have 4 bytes a unit in two experts more, and 3 x 4 of hidden values fewer.
        (SPARSE, "+zero-1+ep=8", (680 * 8.5 + 40 * 12, 1440, 0, 300, 140, 2500)),
        (SPARSE, "+zero-3+ep=8", (680 + 320, 284, 20, 300, 140, 2500)),
        (SPARSE, "+hybrid+ep=16", (85 * 16 + 20 * 16, 276, 20, 300, 140, 2500)),
        (SPARSE, "+zero-1+tp=2+ep=8", (340 * 9 + 40 * 12, 760, 0, 150, 70, 2500)),
        # Half a byte of what is frozen; weights that are whole while they are used.
        (ADAPTED, "+none", (1600 + 450, 396, 0, 340, 140, 1500)),
        (ADAPTED, "+zero-3", (2050 / 16, 396, 20, 340, 140, 1500)),
        (replace(ADAPTED, frozen_bytes_per_parameter=2.0), "+none", (3400, 0, 0, 340, 140, 1500)),
    ],
    ids=lambda part: part if isinstance(part, str) else None,
)
def test_parts_of_memory_by_hand(
    shape: Architecture, spec: str, expected: tuple[float, ...]
) -> None:
    """MB of states, of weights and tables that are whole while they are used, of activations and
    logits of a microbatch, and what is fixed, on each of two machines of eight devices.
    """
    need = memory(shape, InnerPlan(**written_parts(spec)), 8, 2)
    parts = (need.states, need.gathered, need.embedding, need.activations, need.logits, need.fixed)
    assert parts == pytest.approx([1e6 * part for part in expected])
    assert need.total == pytest.approx(1e6 * sum(expected))
    more = 1e6 * sum(expected[3:5])
    assert need.of_microbatch(2).total - need.total == pytest.approx(more)


@pytest.mark.parametrize(
    ("name", "bytes_"),
    [
        ("torch-compiled", 16),
        ("torch-compiled-8bit", 8 + 2 * (1 + 4 / 256)),  # a scale of 4 bytes for 256 moments
        ("torchtune", 8),  # weights, gradients and two moments in BF16
        ("torchtune-8bit", 4 + 2 * (1 + 4 / 256)),
        ("nvidia-te", 14),  # gradients in BF16
    ],
)
def test_software_says_what_the_optimizer_keeps(name: str, bytes_: float) -> None:
    """Bytes of states for each parameter; the independent checker asks for no more."""
    shape = mpt("mpt-7b")
    plan = InnerPlan(sharding="zero-2", software=name)
    for gpus in (1, 8):
        need = memory(shape, plan, gpus, 1)
        row = {"inner": to_builtins(plan), "gpu_count": gpus}
        least = least_device_bytes(row, {"architecture": to_builtins(shape)})
        assert least == pytest.approx(need.states, rel=0.01)
    assert memory(shape, plan, 1, 1).states == pytest.approx(bytes_ * shape.parameters)


def test_qlora_of_70b_does_not_fit_two_cards_of_24_gb() -> None:
    """It ran out of memory (axolotl, issue 1522): 36 GB of weights, and no software divides weights
    of 4 bits by columns; one card of 80 GB holds it.
    """
    profile = with_adapters(read_model("meta-llama/Llama-2-70b-hf"), 32, FOUR_BIT_BYTES)
    shape = with_sequence_length(profile, 512).architecture
    assert shape is not None
    small = island(shape, device("RTX3090"), 2, None, "", 1, PlanWishes(), 16)
    assert isinstance(small, Refusal)
    assert "zero-3" in small.reason
    large = island(shape, device("A100-80"), 1, None, "", 1, PlanWishes(), 16)
    assert isinstance(large, Island)
    split = island(shape, device("A100-80"), 2, None, "", 1, PlanWishes(tensor_parallel=2), 16)
    assert isinstance(split, Refusal)
    assert "does not divide weights of 4 bits" in split.reason


@given(
    st.sampled_from(sorted(MPT)),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 16]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from(["bf16", "fp32"]),
    st.booleans(),
)
def test_more_sharding_never_needs_more(
    name: str, gpu_count: int, machines: int, degree: int, precision: str, adapters: bool
) -> None:
    """zero-(i+1) divides what zero-i divides and more; what it gathers is what it gave away."""
    model = mpt(name)
    if adapters:
        model = replace(model, trainable_parameters=model.parameters // 100)
    degree = min(degree, gpu_count)
    needs = [
        memory(
            model,
            InnerPlan(sharding=sharding, tensor_parallel=degree, precision=precision),
            gpu_count,
            machines,
        ).total
        for sharding in LADDER
    ]
    assert needs == sorted(needs, reverse=True)


def test_a_host_holds_half_as_much_again_as_its_share() -> None:
    """Four machines share 112 GB of states: 1.5 x 28 GB each, and the loader; plain replicas hold
    all on each.
    """
    model = mpt("mpt-7b")
    states = 16 * model.parameters
    loader = 4 * 2**30
    assert host_bytes(model, InnerPlan(sharding="zero-3"), 8, 4) == 1.5 * states / 4 + loader
    assert host_bytes(model, InnerPlan(), 8, 4) == 1.5 * states + loader

"""Memory of an inner plan: named parts, each of which a plan divides or not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import MPT, device, island, mpt
from msgspec import to_builtins

from placer.documents.checker.limits import least_device_bytes
from placer.records import replace
from placer.workload.inner_plan import InnerPlan
from placer.workload.island import Island, PlanWishes, Refusal
from placer.workload.island.memory import activation_bytes, host_bytes, memory
from placer.workload.models.decoder import FOUR_BIT_BYTES, with_adapters, with_sequence_length
from placer.workload.models.model_words import read_model

LADDER = ("none", "zero-1", "zero-2", "zero-3")


def test_16_bytes_a_parameter() -> None:
    """Two moments of 4 bytes, weights and gradients in FP32; BF16 copies beside."""
    model = mpt("mpt-7b")
    need = memory(model, InnerPlan(), 1, 1)
    assert need.states == 16 * model.parameters
    assert need.gathered == 2 * model.parameters


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


def test_34_bytes_of_activations_a_token_and_unit_of_width() -> None:
    """Korthikanti et al. (2022) with fused attention; 2 with full checkpointing, beside one layer
    of 34.
    """
    model = mpt("mpt-7b")
    assert activation_bytes(model, InnerPlan()) == 34 * model.width * model.layers
    full = activation_bytes(model, InnerPlan(checkpointing="full"))
    assert full == 2 * model.width * model.layers + 34 * model.width


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


@pytest.mark.parametrize("part", ["states", "gathered", "activations", "logits"])
def test_tensor_parallelism_divides(part: str) -> None:
    """Four GPUs hold a quarter each of weights, states, activations and logits."""
    model = mpt("mpt-7b")
    for kept in ("none", "selective", "full"):
        one, four = (
            getattr(memory(model, InnerPlan(tensor_parallel=d, checkpointing=kept), 8, 1), part)
            for d in (1, 4)
        )
        assert four == pytest.approx(one / 4)


def test_checkpointing_keeps_ever_less() -> None:
    """Nothing, products alone, inputs alone."""
    kept = [
        activation_bytes(mpt("mpt-7b"), InnerPlan(checkpointing=c))
        for c in ("none", "selective", "full")
    ]
    assert kept == sorted(kept, reverse=True)


def test_a_host_holds_half_as_much_again_as_its_share() -> None:
    """Four machines share 112 GB of states: 1.5 x 28 GB each, and the loader; plain replicas hold
    all on each.
    """
    model = mpt("mpt-7b")
    states = 16 * model.parameters
    loader = 4 * 2**30
    assert host_bytes(model, InnerPlan(sharding="zero-3"), 8, 4) == 1.5 * states / 4 + loader
    assert host_bytes(model, InnerPlan(), 8, 4) == 1.5 * states + loader

"""Stages of several devices: against stages of one device, a simulation, and all divisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from island_models import device, island, plain_gpt

from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.island import Island
from placer.workload.island.chain import Chain, Line, Way, chain, part_of
from placer.workload.island.divisions import HOP_LATENCY_S, stage_layers
from placer.workload.island.hardware import Hardware
from placer.workload.island.transports import TRANSPORTS, attained_bytes_per_s
from placer.workload.island.wishes import PlanWishes
from placer.workload.models.decoder import Decoder
from placer.workload.models.model_words import public_model

NETWORK_GBPS = 800.0
WAY = Way(attained_bytes_per_s(NETWORK_GBPS, TRANSPORTS["nccl"]), HOP_LATENCY_S)
FREE = PlanWishes(sharding="zero-1")


def machines(gpu: str, count: int) -> Hardware:
    """Some machines of eight devices."""
    return Hardware(
        gpu=device(gpu), gpu_count=8, network_gbps=NETWORK_GBPS, fabric="efa", machines=count
    )


def line(
    model: Architecture,
    *parts: Hardware,
    wishes: PlanWishes = FREE,
    layers: tuple[int, ...] | None = None,
    way: Way = WAY,
    batch: int = 64,
) -> Line:
    """A question about some parts with the same wishes."""
    return Line(
        architecture=model,
        hardware=parts,
        machines=tuple(part.machines for part in parts),
        wishes=(wishes,) * len(parts),
        layers=layers,
        ways=(way,) * (len(parts) - 1),
        sequences=batch,
    )


def made(question: Line) -> Chain:
    """A chain that fits."""
    built = chain(question)
    assert isinstance(built, Chain), built
    return built


def fixed(tensor: int, checkpointing: str, stages: int) -> PlanWishes:
    """A plan of which nothing is free."""
    return PlanWishes(
        sharding="zero-1",
        tensor_parallel=tensor,
        checkpointing=checkpointing,
        microbatch=1,
        precision="bf16",
        pipeline=stages,
        virtual_stages=1,
        expert_parallel=1,
        context_parallel=1,
        headroom=0.0,
    )


def step_of_one_device(model: Architecture, wishes: PlanWishes, count: int, batch: int) -> float:
    """Seconds of a step of two stages on machines of one device."""
    built = island(model, device("A100-80"), 8, NETWORK_GBPS, "efa", count, wishes, batch)
    assert isinstance(built, Island), built
    return built.step.seconds


def test_two_parts_of_one_device_take_as_long_as_its_two_stages() -> None:
    """20 layers each, of a model whose output layer is small: bit for bit the same step."""
    model, part = plain_gpt(40, 5120, 2048), machines("A100-80", 4)
    whole = step_of_one_device(model, fixed(1, "none", 2), 8, 256)
    parts = line(model, part, part, wishes=fixed(1, "none", 1), layers=(20, 20), batch=256)
    assert made(parts).step.seconds == whole


def test_an_output_layer_of_more_than_a_layer_costs_the_same_within_one_percent() -> None:
    """41 and 39 layers of Llama 3.1 70B: stages of one device count the layers of the mean stage
    for exchanges, parts their own, and the output layer is not repeated.
    """
    profile = public_model("Llama-3.1-70B")
    assert profile is not None
    assert profile.architecture is not None
    model, part = profile.architecture.with_sequence_length(4096), machines("A100-80", 8)
    whole = step_of_one_device(model, fixed(8, "full", 2), 16, 512)
    layers = stage_layers(model, 2)
    parts = line(model, part, part, wishes=fixed(8, "full", 1), layers=layers, batch=512)
    assert layers == (41, 39)
    assert made(parts).step.seconds == pytest.approx(whole, rel=0.01)


MADE = {
    "two experts": Decoder(
        layers=12,
        width=512,
        query_width=512,
        kv_width=512,
        mlp_width=2048,
        mlp_matrices=2,
        vocabulary=32_000,
        tied=False,
        experts=2,
    )
}
MADE["experts that no layer has"] = replace(
    MADE["two experts"], dense_layers=12, dense_width=2048, experts_per_token=1
)


@pytest.mark.parametrize("name", ["Llama-3.1-70B", "DeepSeek-V3", "gpt-oss-120b", *MADE])
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_have_all_of_a_model(name: str, parts: int) -> None:
    """Layers, parameters and experts of the parts are those of the model but for rounding."""
    profile = public_model(name)
    model = profile.architecture if profile else MADE[name].architecture(2048)
    assert model is not None
    each = model.layers // parts
    layers = (*([each] * (parts - 1)), model.layers - each * (parts - 1))
    built = [part_of(model, i, n, sum(layers[:i]), parts) for i, n in enumerate(layers)]
    assert sum(p.parameters for p in built) == pytest.approx(model.parameters, rel=1e-9)
    assert sum(p.expert_parameters for p in built) == model.expert_parameters
    assert sum(p.computed_parameters for p in built) == pytest.approx(
        model.computed_parameters, rel=1e-4
    )


def test_layers_are_divided_as_well_as_any_division() -> None:
    """Twelve layers over an A100 and a V100 machine: all divisions, stages and microbatches."""
    model = plain_gpt(12, 2048, 2048)
    parts = machines("A100-80", 1), machines("V100-32", 1)
    all_divisions = (line(model, *parts, layers=(n, 12 - n), batch=32) for n in range(1, 12))
    seconds = [made(each).step.seconds for each in all_divisions]
    best = made(line(model, *parts, batch=32))
    assert best.step.seconds == min(seconds)
    faster, slower = (plan.layers for plan in best.plans)
    assert faster > slower > 0


def test_a_device_that_is_twice_as_fast_has_more_layers() -> None:
    """H100 beside A100: the step is shorter than with A100 alone, and the H100 has more layers."""
    model, slow, fast = plain_gpt(40, 5120, 2048), machines("A100-80", 2), machines("H100", 2)
    mixed, plain = (made(line(model, first, slow)) for first in (fast, slow))
    assert mixed.step.seconds < plain.step.seconds
    assert mixed.plans[0].layers > mixed.plans[1].layers


def test_no_more_states_with_more_parts() -> None:
    """Each device of three parts holds no more states than of two with the same plan."""
    model, part = plain_gpt(42, 5120, 2048), machines("A100-80", 2)
    wishes = fixed(2, "full", 1)
    two = made(line(model, part, part, wishes=wishes, layers=(21, 21)))
    three = made(line(model, part, part, part, wishes=wishes, layers=(14, 14, 14)))
    assert max(m.states for m in three.memory) < max(m.states for m in two.memory)


def test_a_slow_way_takes_longer() -> None:
    """One Gbit/s and 35 ms between the parts instead of the network of a zone; the interval
    reaches to hops that a schedule hides.
    """
    model, part = plain_gpt(40, 5120, 2048), machines("A100-80", 2)
    near = made(line(model, part, part))
    far = made(line(model, part, part, way=Way(1e9 / 8, 0.035)))
    assert far.samples_per_second < near.samples_per_second / 2
    assert far.high / far.samples_per_second > near.high / near.samples_per_second


def test_what_does_not_fit_is_refused() -> None:
    """70 billion parameters on one machine of V100 and one of A100, and 40 layers on hosts of which
    one holds less than its share of the states.
    """
    model = plain_gpt(80, 8192, 2048)
    assert not isinstance(chain(line(model, machines("V100", 1), machines("A100-80", 1))), Chain)
    model, part = plain_gpt(40, 5120, 2048), machines("A100-80", 2)
    for host_gib, fits in ((1e3, True), (10.0, False)):
        built = chain(line(model, part, replace(part, host_gib=host_gib), layers=(20, 20)))
        assert isinstance(built, Chain) == fits


def test_pairs_of_machines_share_a_line() -> None:
    """4 GB in 2 s over two pairs of 1 GB/s each, in 4 s over a line of 1 GB/s; 0.5 s before."""
    assert Way(1e9, 0.5).hop_seconds(4e9, 2.0) == 2.5
    assert Way(1e9, 0.5, 1e9).hop_seconds(4e9, 2.0) == 4.5


@given(
    st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 2)), min_size=2, max_size=6),
    st.integers(1, 24),
    st.floats(0, 0.3),
)
def test_stages_as_slow_as_the_slowest_are_never_too_fast(
    stages: list[tuple[float, float]], microbatches: int, hop_s: float
) -> None:
    """The formula, (M + P - 1) times the slowest stage with both hops, against 1F1B event by
    event.
    """
    slowest = max(forward + backward for forward, backward in stages) + 2 * hop_s
    longest = (microbatches + len(stages) - 1) * slowest
    # A forward and a backward that are slowest in different stages do not overlap as one stage's.
    forward, backward = (max(each) for each in zip(*stages, strict=True))
    if forward + backward + 2 * hop_s <= slowest * (1 + 1e-9):
        assert simulated(stages, microbatches, hop_s) <= longest * (1 + 1e-9)


def simulated(stages: list[tuple[float, float]], microbatches: int, hop_s: float) -> float:
    """Seconds of 1F1B: stage s runs P - s forwards first, then one backward and one forward."""
    count = len(stages)
    done: dict[tuple[str, int, int], float] = {}
    orders = []
    for s in range(count):
        first = min(microbatches, count - s)
        order = [("f", m) for m in range(first)]
        for m in range(microbatches):
            order.append(("b", m))
            if first + m < microbatches:
                order.append(("f", first + m))
        orders.append(order)
    free, at = [0.0] * count, [0] * count
    while any(at[s] < len(orders[s]) for s in range(count)):
        for s in range(count):
            while at[s] < len(orders[s]):
                what, m = orders[s][at[s]]
                needed = ("f", s - 1, m) if what == "f" else ("b", s + 1, m)
                if what == "b" and s == count - 1:
                    needed = ("f", s, m)
                if (what == "f" and s == 0) or needed in done:
                    hop = 0.0 if needed[1] == s else hop_s
                    ready = 0.0 if what == "f" and s == 0 else done[needed] + hop
                    free[s] = max(free[s], ready) + stages[s][what == "b"]
                    done[what, s, m] = free[s]
                    at[s] += 1
                else:
                    break
    return max(free)

"""Published runs of language models, each a fact of its own: inside the interval of its plan.

All figures are of MosaicML, llm-foundry, scripts/train/benchmarking/README.md (MPT models,
sequences of 2,048 tokens if not said otherwise). The fit used those on A100; nothing was fitted to
those on H100.
"""

import math
from typing import Any

import pytest
from island_models import device, mpt

from placer.units import GIB
from placer.workload.inner_plan import InnerPlan
from placer.workload.island.hardware import Hardware
from placer.workload.island.memory import memory
from placer.workload.island.plans import rate_interval
from placer.workload.island.step import step
from placer.workload.island.transformer_speed import calculation_seconds
from placer.workload.island.transports import TRANSPORTS
from placer.workload.profile import load_profile

PUBLISHED = {
    # model, tokens, device, machines, checkpointing, microbatch, accumulation: tokens/s a device
    ("mpt-7b", 2048, "A100-40", 1, "full", 12, 4): 3679,
    ("mpt-7b", 2048, "A100-40", 4, "full", 18, 1): 3725,
    ("mpt-7b", 2048, "A100-40", 16, "full", 18, 1): 3623,
    ("mpt-7b", 2048, "A100-80", 1, "none", 6, 2): 4641,
    ("mpt-70b", 2048, "A100-80", 8, "full", 8, 4): 410,
    ("mpt-70b", 2048, "A100-40", 16, "full", 4, 1): 376,
    ("mpt-1b", 2048, "H100", 1, "none", 14, 1): 45455,
    ("mpt-1b", 2048, "H100", 8, "none", 20, 1): 44402,
    ("mpt-7b", 2048, "H100", 1, "none", 6, 1): 10643,
    ("mpt-7b", 65536, "H100", 1, "full", 1, 2): 1956,
    ("mpt-70b", 2048, "H100", 8, "full", 8, 4): 1039,
}
NETWORK = {"A100-40": 1600.0, "A100-80": 1600.0, "H100": 3200.0}
"""Gb/s of a machine; 1,600 over RoCE are published, 3,200 assumed."""


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: "-".join(map(str, run)))
def test_a_published_run_is_inside_the_interval(
    run: tuple[str, int, str, int, str, int, int],
) -> None:
    """Time the plan that was used, not the one that placer would choose."""
    name, tokens, gpu, machines, checkpointing, microbatch, accumulation = run
    model, via = mpt(name, tokens), TRANSPORTS["nccl"]
    hardware = Hardware(
        gpu=device(gpu), gpu_count=8, network_gbps=NETWORK[gpu], fabric="roce", machines=machines
    )
    plan = InnerPlan(sharding="zero-3", checkpointing=checkpointing, microbatch=microbatch)
    sequences = microbatch * accumulation
    calculation_s = calculation_seconds(model, hardware.gpu, plan, sequences)
    timed = step(model, hardware, plan, accumulation, calculation_s, via, 2.0)
    rate = sequences * tokens / timed.seconds
    doubt, basis = rate_interval(model, hardware, plan, timed, via)
    assert doubt.low * rate <= PUBLISHED[run] <= doubt.high * rate
    assert max(1 / doubt.low, doubt.high) <= (1.4 if tokens == 2048 else 1.85)
    assert basis == "estimated"
    assert memory(model, plan, 8, machines, "fused").total <= hardware.gpu.memory_gib * 2**30


PUBLISHED_GIB = (
    # model, tokens, checkpointing, tensor parallel degree, microbatch, precision, machines, loss
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "bf16", 1, "plain", 82.4, 77.0),
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "fp8", 1, "plain", 76.8),
    ("llama-3.1-8b", 32_768, "full", 1, 1, "fp8", 1, "plain", 83.9),
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "bf16", 16, "plain", 67.0, 62.0),
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "fp8", 16, "plain", 61.8),
    ("llama-3.1-70b", 8_192, "full", 8, 16, "fp8", 32, "plain", 71.9, 67.6),
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "fp8", 4, "fused", 47.96),
    ("llama-3.1-8b", 8_192, "selective", 1, 2, "fp8", 8, "fused", 46.97),
)
"""GiB of a GPU in torchtitan, FSDP over machines of eight: benchmarks/
llama3_h100_202412_torchtitan.md (December 2024; tables 1 to 4, without context parallelism) and
llama3-8b_h200_202506_trainy-whitefiber.md (June 2025, which compiles the loss).
"""


@pytest.mark.parametrize("run", PUBLISHED_GIB, ids=lambda run: "-".join(map(str, run)))
def test_memory_is_within_1_3_of_published_figures(run: tuple[Any, ...]) -> None:
    """Context parallelism and pipelines are left out: placer has none."""
    name, tokens, kept, degree, microbatch, precision, machines, loss, *published = run
    model = load_profile(name).architecture
    assert model is not None
    plan = InnerPlan(
        sharding="zero-3",
        tensor_parallel=degree,
        checkpointing=kept,
        microbatch=microbatch,
        precision=precision,
    )
    need = memory(model.with_sequence_length(tokens), plan, 8, machines, loss).total / GIB
    assert all(1 / 1.3 <= gib / need <= 1.3 for gib in published)


def test_8_times_the_devices_keep_nine_tenths_each() -> None:
    """GPT-1.3B on 8 and on 64 H100: 45,455 and 44,402 tokens/s a device were published, 0.98."""
    shares = []
    for machines in (1, 8):
        hardware = Hardware(
            gpu=device("H100"), gpu_count=8, network_gbps=3200.0, fabric="efa", machines=machines
        )
        plan = InnerPlan(sharding="zero-3", microbatch=16)
        seconds = calculation_seconds(mpt("mpt-1b"), hardware.gpu, plan, 16)
        timed = step(mpt("mpt-1b"), hardware, plan, 1, seconds, TRANSPORTS["nccl"], 2.0)
        shares.append(timed.seconds)
    assert math.isclose(shares[0] / shares[1], 0.98, abs_tol=0.03)

"""Compare plans with experts, stages, adapters and named software with published runs.

python tests/benchmarks/llm_software.py fresh_2026_dev.csv
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from island_models import device, plain_gpt  # noqa: E402

from placer.workload.architecture import Architecture  # noqa: E402
from placer.workload.inner_plan import InnerPlan  # noqa: E402
from placer.workload.island.hardware import Hardware  # noqa: E402
from placer.workload.island.interval import rate_interval  # noqa: E402
from placer.workload.island.step import step  # noqa: E402
from placer.workload.island.transformer_speed import calculation_seconds  # noqa: E402
from placer.workload.island.transports import TRANSPORTS  # noqa: E402
from placer.workload.models.decoder import BF16_BYTES, FOUR_BIT_BYTES, with_adapters  # noqa: E402
from placer.workload.models.model_words import public_model  # noqa: E402

NAMES = {
    "LLAMA3_8B": "Llama-3.1-8B",
    "LLAMA3_70B": "Llama-3.1-70B",
    "LLAMA3.1_405B": "Llama-3.1-405B",
    "Llama2_7B": "Llama-2-7b",
    "Llama2_13B": "Llama-2-13b",
    "Llama2_70B": "Llama-2-70b",
    "Llama3.2_3B": "Llama-3.2-3B",
    "Qwen3_1.7B": "Qwen3-1.7B",
    "Qwen3_4B": "Qwen3-4B",
    "Qwen_7B": "deepseek-llm-7b-base",
    "DeepSeekV3": "DeepSeek-V3",
    "GPT OSS 120B": "gpt-oss-120b",
    "Qwen3_30B_a3B": "Qwen3-30B-A3B",
    "Qwen3_235B_a22B": "Qwen3-235B-A22B",
}
"""Public models of the same dimensions, or nearly: Qwen-7B is two layers above DeepSeek's 7B."""
PLAIN = {"GPT3_5B": (24, 4096), "GPT3_20B": (44, 6144), "GPT3_175B": (96, 12288)}
PRECISIONS = {"BF16": "bf16", "FP8": "fp8", "MXFP8": "fp8"}


def degree(words: str, key: str) -> int:
    """Read ``TP=2``; 1 where it does not stand."""
    found = re.search(rf"{key}=(\d+)", words)
    return max(1, int(found[1])) if found else 1


def architecture(row: dict[str, str]) -> Architecture | None:
    """Build the model of a row, with adapters where it has them; None if it is not known."""
    name, tokens = row["model"].split(" (")[0], int(row["seq_len"])
    if name in PLAIN:
        return plain_gpt(*PLAIN[name], tokens)
    profile = public_model(NAMES[name]) if name in NAMES else None
    if profile is not None and "LoRA" in row["method"]:
        frozen = FOUR_BIT_BYTES if row["method"] == "QLoRA" else BF16_BYTES
        profile = with_adapters(profile, 64 if name == "Qwen_7B" else 16, frozen)
    if profile is None or profile.architecture is None:
        return None
    return profile.architecture.with_sequence_length(tokens)


def plan_of(row: dict[str, str]) -> InnerPlan:
    """Read the plan of a row, and which software it is."""
    words, source = row["parallelism"], row["source"].lower()
    sharding = "zero-3" if "FSDP" in words and "FSDP=0" not in words else "zero-1"
    kept = "selective" if "selective" in words or "Surogate" in words else "none"
    if "gradient checkpointing" in words or "Unsloth" in words or words.endswith("compile AC"):
        kept = "full"
    software = "torch-compiled" if "compile" in words + row["note"] else "hf-eager"
    software = "torch-compiled" if "Surogate" in words else software
    software = "torchtune" if "torchtune" in source else software
    return InnerPlan(
        sharding="hybrid" if "HSDP" in words else sharding,
        tensor_parallel=degree(words, "TP"),
        checkpointing=kept,
        microbatch=degree(words, "MBS"),
        precision=PRECISIONS[row["precision"]],
        software="nvidia-te" if "nvidia" in source else software,
        pipeline=degree(words, "PP"),
        virtual_stages=degree(words, "VP"),
        expert_parallel=degree(words, "EP"),
        context_parallel=degree(words, "CP"),
    )


def hardware_of(row: dict[str, str]) -> Hardware:
    """Return machines of eight devices with 3,200 Gb/s, or domains of 64 with NVLink."""
    gpus, is_domain = int(row["n_gpus"]), row["gpu"].startswith("GB")
    each = min(gpus, 64 if is_domain else 8)
    said = re.search(r"(\d+) Gb/s", row["parallelism"])
    gbps = float(said[1]) if said else 400.0 * each
    return Hardware(
        gpu=device(row["gpu"]),
        gpu_count=each,
        network_gbps=gbps,
        fabric="efa",
        machines=gpus // each,
    )


def main() -> None:
    """Print factor and coverage by class, and the worst rows."""
    groups = defaultdict(list)
    with Path(sys.argv[1]).open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = architecture(row) if row["precision"] in PRECISIONS else None
            plan = plan_of(row) if shape is not None else InnerPlan()
            gpus, batch = int(row["n_gpus"]), int(row["batch"])
            if shape is None or batch < gpus // plan.rank_gpus:
                continue
            hardware, sequences = hardware_of(row), batch // (gpus // plan.rank_gpus)
            calculated = calculation_seconds(shape, hardware.gpu, plan, sequences)
            count = max(1, sequences // plan.microbatch)
            got = step(shape, hardware, plan, count, calculated, TRANSPORTS["nccl"], 2.0)
            doubt, _ = rate_interval(shape, hardware, plan, got, TRANSPORTS["nccl"])
            times = float(row["value"]) * gpus * got.seconds / batch / shape.sequence_length
            kind = "experts" if shape.experts > 1 else "dense"
            kind = "long" if shape.sequence_length >= 16_384 else kind
            kind = "adapters" if shape.has_adapters else kind
            inside = doubt.low <= times <= doubt.high
            groups[kind].append(
                (abs(math.log(times)), inside, times, f"{row['model']} {plan.spec}")
            )
    for kind, rows in groups.items():
        errors = sorted(math.exp(error) for error, *_ in rows)
        share = sum(inside for _, inside, *_ in rows) / len(rows)
        figures = median(errors), errors[int(0.9 * (len(errors) - 1))], errors[-1]
        words = "median {:.2f}  p90 {:.2f}  worst {:.2f}".format(*figures)
        print(f"{kind:9s} n {len(rows):3d}  {words}  inside {share:.2f}")
        _, _, times, words = max(rows)
        print(f"          measured over estimated {times:.2f}: {words}")


if __name__ == "__main__":
    main()

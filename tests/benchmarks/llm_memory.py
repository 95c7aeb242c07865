"""Count public runs that memory admits: rows of runs that took place, so each must fit.

python tests/benchmarks/llm_memory.py fresh_2026_dev.csv llm_foundry_a100.csv

A count that admits everything would pass, so the share of the same plans that still fit with twice
the microbatch is printed beside. llm-foundry took the largest microbatch that fits.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from island_models import device, mpt
from llm_software import PRECISIONS, architecture, hardware_of, plan_of

from placer.records import replace
from placer.units import GIB
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import CHECKPOINTING, InnerPlan
from placer.workload.island.memory import memory
from placer.workload.software import software

DEVICES = {"a100_40gb": "A100-40", "a100_80gb": "A100-80"}
Run = tuple[str, Architecture, InnerPlan, str, int, int]
"""Class, model, plan, device, devices of a machine and machines."""


def run_of(row: dict[str, str]) -> Run | None:
    """Read a row of either file; None where the model or the plan is not known."""
    words = row["parallelism"]
    if row["model"].startswith("mpt-"):
        kept = "full" if "act.ckpt=True" in words else "none"
        count, found = int(row["n_gpus"]), re.search(r"microbatch=(\d+)", words)
        assert found is not None
        plan = InnerPlan(
            sharding="zero-3",
            checkpointing=kept,
            microbatch=int(found[1]),
            software="torch-compiled",  # its loss keeps one copy of the logits
        )
        shape = mpt(row["model"], int(row["seq_len"]))
        return "llm-foundry", shape, plan, DEVICES[row["gpu"]], min(8, count), max(1, count // 8)
    shape_or_none = architecture(row) if row["precision"] in PRECISIONS else None
    if shape_or_none is None or "best without CP" in words:  # its plan is not said
        return None
    shape, hardware, plan = shape_or_none, hardware_of(row), plan_of(row)
    kind = "experts" if shape.experts > 1 else "dense"
    kind = "adapters" if shape.has_adapters else kind
    return kind, shape, plan, hardware.gpu.gpu, hardware.gpu_count, hardware.machines


def need_gib(row: dict[str, str], run: Run, times: int = 1) -> float:
    """Return what a run needs on each device, with a multiple of its microbatch: with the least
    memory where nobody says what is checkpointed, or in which part of the layers (fms-fsdp).
    """
    _, shape, plan, _, gpus, machines = run
    words = row["parallelism"]
    is_said = "ckpt" in words or "no AC" in words or "none AC" in words or "checkpointing" in words
    plan = replace(plan, microbatch=times * plan.microbatch)
    loss = software(plan.software, has_adapters=shape.has_adapters).loss
    kept = (plan.checkpointing,) if is_said or words.endswith("AC") else CHECKPOINTING
    plans = [replace(plan, checkpointing=k) for k in kept]
    return min(memory(shape, p, gpus, machines, loss).total for p in plans) / GIB


def main() -> None:
    """Print the share of runs that are admitted by class, and those that are not."""
    runs = defaultdict(list)
    for name in sys.argv[1:]:
        with Path(name).open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if (run := run_of(row)) is not None:
                    runs[run[0]].append((row, run))
    for kind, rows in runs.items():
        rooms = [device(run[3]).memory_gib for _, run in rows]
        fit = [need_gib(row, run) <= room for (row, run), room in zip(rows, rooms, strict=True)]
        twice = [
            need_gib(row, run, 2) <= room for (row, run), room in zip(rows, rooms, strict=True)
        ]
        print(
            f"{kind:12s} n {len(rows):3d}  admitted {sum(fit) / len(fit):.3f}  "
            f"with twice the microbatch {sum(twice) / len(twice):.2f}"
        )
        for (row, run), room, fits in zip(rows, rooms, fit, strict=True):
            if not fits:
                words = f"{row['model']} {row['seq_len']} {row['gpu']} x{row['n_gpus']}"
                print(f"    {need_gib(row, run):.0f} of {room:.0f} GiB  {words}  {run[2].spec}")


if __name__ == "__main__":
    main()

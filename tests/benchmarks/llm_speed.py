"""Compare islands with published runs: speed, coverage, scaling, memory, decisions, collectives.

python tests/benchmarks/llm_speed.py DIR    DIR holds llm_foundry_a100.csv, nccl_busbw.csv and
                                            allreduce_shaped.csv
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from island_models import MPT, device, mpt  # noqa: E402

from placer.market.catalog import Gpu  # noqa: E402
from placer.units import GIB  # noqa: E402
from placer.workload.architecture import Architecture  # noqa: E402
from placer.workload.inner_plan import InnerPlan  # noqa: E402
from placer.workload.island.hardware import Hardware  # noqa: E402
from placer.workload.island.memory import Memory, memory  # noqa: E402
from placer.workload.island.plans import FIT, Doubt, rate_interval  # noqa: E402
from placer.workload.island.step import Step, step  # noqa: E402
from placer.workload.island.transformer_speed import FITTED, Utilisation, calculation_seconds  # noqa: E402
from placer.workload.island.transports import TRANSPORTS, network_seconds, node_seconds  # noqa: E402

NCCL = TRANSPORTS["nccl"]
DEVICES = {"a100_40gb": "A100-40", "a100_80gb": "A100-80"}
ROCE_GBPS = 1600.0
HALF_WIDTHS = tuple(range(250, 501, 25))
B200_NODE = Hardware(
    gpu=Gpu(
        gpu="B200 of the table",
        kind="gpu",
        memory_gib=180,
        fp16_tflops=2250,
        memory_gb_per_s=8000,
        host="a10",
        source="NVIDIA B200 data sheet",
        as_of="2024-03-18",
        nvlink_gb_per_s=900,
    ),
    gpu_count=8,
    network_gbps=3200.0,
    fabric="efa",
    machines=1,
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One published run and its plan."""

    model: str
    architecture: Architecture
    hardware: Hardware
    plan: InnerPlan
    sequences: int
    tokens_per_s: float

    @property
    def memory(self) -> Memory:
        """Bytes on each device; llm-foundry calculates the loss in place."""
        gpu_count, machines = self.hardware.gpu_count, self.hardware.machines
        return memory(self.architecture, self.plan, gpu_count, machines, "fused")

    def step(self, fit: Utilisation) -> Step:
        """Time a step."""
        return step(
            self.architecture,
            self.hardware,
            self.plan,
            -(-self.sequences // self.plan.microbatch),
            calculation_seconds(
                self.architecture, self.hardware.gpu, self.plan, self.sequences, fit
            ),
            NCCL,
            2.0,
            memory=self.memory,
        )

    def predicted(self, fit: Utilisation) -> float:
        """Return tokens/s of one device."""
        tokens = self.sequences * self.architecture.sequence_length
        return tokens / self.step(fit).seconds

    def error(self, fit: Utilisation) -> float:
        """Return the logarithm of predicted over measured."""
        return math.log(self.predicted(fit) / self.tokens_per_s)

    @property
    def text(self) -> str:
        """Name the run."""
        a, h, p = self.architecture, self.hardware, self.plan
        return f"{self.model} T={a.sequence_length} {h.title} {p.spec}"


def read_runs(folder: Path) -> list[Run]:
    """Read the runs of llm_foundry_a100.csv; all are FSDP with full sharding."""
    runs = []
    with (folder / "llm_foundry_a100.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            words = row["parallelism"]
            micro = int(re.search(r"microbatch=(\d+)", words)[1])  # type: ignore[index]
            accumulated = int(re.search(r"accum=(\d+)", words)[1])  # type: ignore[index]
            runs.append(
                Run(
                    model=row["model"],
                    architecture=mpt(row["model"], int(row["seq_len"])),
                    hardware=Hardware(
                        gpu=device(DEVICES[row["gpu"]]),
                        gpu_count=8,
                        network_gbps=ROCE_GBPS,
                        fabric="roce",
                        machines=int(row["n_gpus"]) // 8,
                    ),
                    plan=InnerPlan(
                        sharding="zero-3",
                        checkpointing="full" if "act.ckpt=True" in words else "none",
                        microbatch=micro,
                    ),
                    sequences=micro * accumulated,
                    tokens_per_s=float(row["value"]),
                )
            )
    return runs


def fitted(runs: Sequence[Run]) -> Utilisation:
    """Fit both constants: for each half width the share without bias, then the least p90."""
    fits = [_without_bias(runs, width) for width in HALF_WIDTHS]
    return min(fits, key=lambda fit: _score([run.error(fit) for run in runs]))


def _without_bias(runs: Sequence[Run], half_width: float) -> Utilisation:
    low, high = 0.4, 1.2
    for _ in range(14):
        share = (low + high) / 2
        fit = Utilisation(share=share, half_width=half_width)
        if median(run.error(fit) for run in runs) > 0:
            high = share
        else:
            low = share
    return Utilisation(share=(low + high) / 2, half_width=half_width)


def _score(errors: Sequence[float]) -> float:
    sizes = [abs(e) for e in errors]
    return median(sizes) + quantile(sizes, 0.9)


def quantile(values: Iterable[float], share: float) -> float:
    """Return a quantile: the value at that share of the sorted list."""
    row = sorted(values)
    return row[min(len(row) - 1, int(share * len(row)))]


def factors(label: str, errors: Sequence[float]) -> str:
    """Print median, p90 and largest factor of some logarithms."""
    sizes = [math.exp(abs(e)) for e in errors]
    return (
        f"{label:58s} n {len(sizes):4d}  median {median(sizes):.3f}  p90 "
        f"{quantile(sizes, 0.9):.3f}  worst {max(sizes):.3f}"
    )


def left_out(runs: Sequence[Run]) -> dict[str, tuple[Utilisation, list[float]]]:
    """Fit without each model, and return its errors."""
    answers = {}
    for model in MPT:
        fit = fitted([run for run in runs if run.model != model])
        answers[model] = fit, [run.error(fit) for run in runs if run.model == model]
    return answers


def show_speed(runs: Sequence[Run]) -> None:
    """Print errors with each model left out, by model and over all, and the coverage."""
    print("Speed, each model left out")
    answers = left_out(runs)
    for model, (fit, errors) in answers.items():
        note = f"u0 {fit.share:.3f}, half width {fit.half_width:g}"
        bias = math.exp(median(errors))
        print("  " + factors(f"{model} ({note})", errors), f" bias {bias:.3f}")
    everything = [e for _, errors in answers.values() for e in errors]
    print("  " + factors("all", everything))
    print(f"  fit to all: {fitted(runs)}; shipped: {FITTED}")
    print("  " + factors("shipped constants, nothing left out", [r.error(FITTED) for r in runs]))
    show_coverage(runs, answers)


def show_coverage(runs: Sequence[Run], answers: dict[str, tuple[Utilisation, list[float]]]) -> None:
    """Print the share of left-out runs inside the interval, and its width."""
    inside, widths = 0, []
    for model, (fit, errors) in answers.items():
        mine = [run for run in runs if run.model == model]
        for run, error in zip(mine, errors, strict=True):
            doubt, _ = rate_interval(run.architecture, run.hardware, run.plan, run.step(fit), NCCL)
            inside += doubt.low <= math.exp(-error) <= doubt.high
            widths.append(max(1 / doubt.low, doubt.high))
    print(f"Coverage of the shipped interval: {inside / len(runs):.3f} of left-out runs,")
    print(f"  half width x {median(widths):.2f} in the median, x {max(widths):.2f} at most")
    nested, ends = 0, []
    for model in MPT:
        others = [e for m, (_, errors) in answers.items() if m != model for e in errors]
        low, high = quantile([-e for e in others], 0.05), quantile([-e for e in others], 0.95)
        nested += sum(low <= -e <= high for e in answers[model][1])
        ends.append(Doubt(low=math.exp(low), high=math.exp(high)))
    print(f"Coverage of the 5 % and 95 % quantiles of the other models: {nested / len(runs):.3f},")
    print(
        f"  from {min(d.low for d in ends):.3f} to {max(d.high for d in ends):.3f}; "
        f"shipped {FIT.low} to {FIT.high}"
    )
    worst = sorted(runs, key=lambda run: -abs(run.error(FITTED)))[:8]
    for run in worst:
        pressed = run.step(FITTED).is_pressed
        print(f"  worst: {math.exp(run.error(FITTED)):.2f} {run.text} {pressed=}")


def show_pairs(runs: Sequence[Run]) -> None:
    """Print how well ratios between device counts are met."""
    groups = defaultdict(list)
    for run in runs:
        groups[run.model, run.hardware.gpu.gpu, run.architecture.sequence_length].append(run)
    pairs = [
        (a, b)
        for group in groups.values()
        for i, a in enumerate(sorted(group, key=lambda r: r.hardware.gpus))
        for b in sorted(group, key=lambda r: r.hardware.gpus)[i + 1 :]
        if a.hardware.gpus < b.hardware.gpus
    ]
    errors = [b.error(FITTED) - a.error(FITTED) for a, b in pairs]
    print("Scaling between device counts (tokens/s per device, larger over smaller)")
    print("  " + factors("pairs", errors))
    wide = [(e, a, b) for e, (a, b) in zip(errors, pairs, strict=True) if abs(e) > math.log(1.15)]
    print(f"  within 15 %: {len(pairs) - len(wide)} of {len(pairs)}")
    for error, a, b in wide:
        print(f"  beyond: {math.exp(error):.2f} {a.text} -> {b.text}")


def show_admission(runs: Sequence[Run]) -> None:
    """Print how many runs fit their devices."""
    shares = [run.memory.total / (run.hardware.gpu.memory_gib * GIB) for run in runs]
    print(f"Admission: {sum(s <= 1 for s in shares)} of {len(runs)}; fullest {max(shares):.2f}")


def show_decisions(runs: Sequence[Run]) -> None:
    """Print what the choice of a device count costs against the best measured one."""
    groups = defaultdict(list)
    for run in runs:
        if run.architecture.sequence_length == 2048:
            groups[run.model, run.hardware.gpu.gpu].append(run)
    print("Decisions (T = 2048): tokens per device of the pick over the best")
    for (model, gpu), group in groups.items():
        if len({run.hardware.gpus for run in group}) == 1:
            continue
        pick = max(group, key=lambda run: run.predicted(FITTED))
        best = max(group, key=lambda run: run.tokens_per_s)
        share = pick.tokens_per_s / best.tokens_per_s
        mark = "" if share >= 0.95 else "  MORE THAN 5 % BELOW"
        counts = ",".join(str(run.hardware.gpus) for run in group)
        print(
            f"  {model:9s} {gpu:8s} of {counts:18s} picks {pick.hardware.gpus:4d}, best "
            f"{best.hardware.gpus:4d}: {share:.3f}{mark}"
        )


def show_collectives(folder: Path) -> None:
    """Print the errors of NCCL on B200 from 1 MB, and of NCCL and Gloo on shaped links."""
    print("Collectives")
    by_nodes = defaultdict(list)
    with (folder / "nccl_busbw.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            payload = float(row["payload_bytes"])
            if not row["n_gpus"] or payload < 1e6:
                continue
            nodes, gpus = int(row["n_nodes"]), int(row["n_gpus"])
            seconds = 2 * (gpus - 1) / gpus * payload / (float(row["busbw_gb_per_s"]) * 1e9)
            many = Hardware(
                gpu=B200_NODE.gpu, gpu_count=8, network_gbps=3200.0, fabric="efa", machines=nodes
            )
            inside = node_seconds(payload, 8, many.node_bytes_per_s, NCCL)
            # One collective over all devices does both side by side on parts of the payload.
            over = network_seconds(payload, nodes, 3200.0, NCCL)
            by_nodes[nodes].append(math.log(max(inside, over) / seconds))
    for nodes, errors in by_nodes.items():
        print("  " + factors(f"NCCL, B200, {nodes} nodes, from 1 MB", errors), band(errors, "nccl"))
    print("  " + factors("NCCL, B200, all", [e for es in by_nodes.values() for e in es]))
    by_library = defaultdict(list)
    with (folder / "allreduce_shaped.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            speed = re.search(r"bandwidth ([\d.]+)Gbps", row["setting"])
            gbps = float(speed[1]) if speed else 10.0
            payload = float(row["megabytes"]) * 2**20
            via = TRANSPORTS[row["library"]]
            time = network_seconds(payload, int(row["n_nodes"]), gbps, via)
            by_library[via.name].append(math.log(time / (float(row["milliseconds"]) / 1e3)))
    for name, errors in by_library.items():
        print("  " + factors(f"{name}, shaped links", errors), band(errors, name))


def band(errors: Sequence[float], name: str) -> str:
    """Say how many measured times lie in the band of a transport."""
    via = TRANSPORTS[name]
    inside = sum(via.fast <= math.exp(-e) <= via.slow for e in errors)
    return f" in its band {inside}"


def main() -> None:
    """Read the words and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of the published tables")
    folder = parser.parse_args().folder
    runs = read_runs(folder)
    show_speed(runs)
    show_pairs(runs)
    show_admission(runs)
    show_decisions(runs)
    show_collectives(folder)


if __name__ == "__main__":
    main()

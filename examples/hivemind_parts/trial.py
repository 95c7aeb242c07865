"""Plan, export, train and compare: the trial that `hivemind_roberta_tiny.py` runs by hand.

1. One peer alone measures the samples/s of this computer. The machines of the plans calculate at a
   part of that (``PART``), so that all of them fit on the cores of this computer; a peer that is
   early waits.
2. Two peers in one region: what they measure goes through ``placer profile runs``, as a user's own
   runs do.
3. ``placer recommend`` with that calibration and the links asked for, ``placer export --to
   hivemind``, and the exported scripts as they are.
4. The step that the plan expects beside the step that was measured.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hivemind_roberta_tiny import Text, build_model
from msgspec import to_builtins

from hivemind_parts.swarm import train
from placer.documents.manifest import Manifest, read_manifest
from placer.errors import PlacerError
from placer.launch.shaped_network import open_network

PLACES = ("aws/us-west-2", "aws/eu-west-1", "gcp/us-central1")
MODEL, DEVICE, MICROBATCH, PART = "roberta-tiny", "CPU-2", 8, 0.25
REFERENCE_STEPS = 5


def main() -> int:
    """Run the example; 0 if the loss fell and every peer did all steps."""
    options = read_options()
    folder = Path(options.dir or tempfile.mkdtemp(prefix="placer-hivemind-")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    shaped = options.shaped and can_shape()
    alone = speed_alone()
    pace = PART * alone * min(1.0, (os.cpu_count() or 1) / options.peers)
    write_profile(folder, pace, alone)
    print(
        f"one peer alone: {alone:.1f} samples/s; the machines of the plan do {pace:.1f}; files "
        f"in {folder}"
    )
    print("reference: two peers in one region")
    reference = trial(
        folder / "reference",
        [f"{PLACES[0]}=2x{DEVICE}:on-demand"],
        options,
        2,
        min(REFERENCE_STEPS, options.steps),
        shaped=shaped,
    )
    calibrate(folder, reference)
    groups = [f"{place}=1x{DEVICE}:on-demand" for place in PLACES[: options.peers]]
    print(
        f"trial: {options.peers} peers, {'links of the plan' if shaped else 'loopback, one region'}"
    )
    found = trial(
        folder / "trial",
        groups if shaped else [f"{PLACES[0]}={options.peers}x{DEVICE}:on-demand"],
        options,
        options.peers,
        options.steps,
        shaped=shaped,
        calibration=folder / "calibration.json",
    )
    (folder / "trial.json").write_text(
        json.dumps({"reference": reference, "trial": found}, indent=2) + "\n"
    )
    show(found)
    return 0 if found["loss"][1] < found["loss"][0] else 1


def read_options() -> argparse.Namespace:
    """Options of the whole example."""
    parser = argparse.ArgumentParser(
        description="train a tiny RoBERTa with hivemind from an exported plan, and compare run "
        "and plan"
    )
    parser.add_argument(
        "--peers",
        type=int,
        choices=(2, 3),
        default=2,
        help="machines of the plan, each a process (default: 2)",
    )
    parser.add_argument(
        "--steps", type=int, default=8, help="optimizer steps, at least 3 (default: 8)"
    )
    parser.add_argument(
        "--calculation",
        type=float,
        default=10.0,
        help="seconds that a step calculates (default: 10)",
    )
    parser.add_argument(
        "--shaped",
        action="store_true",
        help="one region a peer, links as the plan has them; needs root",
    )
    parser.add_argument(
        "--link", default="25Mb/s", help="bandwidth of one stream between regions (default: 25Mb/s)"
    )
    parser.add_argument("--dir", help="folder for plans, scripts and logs (default: a new one)")
    options = parser.parse_args()
    if options.steps < 3 or not 5 <= options.calculation <= 600:
        parser.error(
            "--steps is at least 3, --calculation 5 to 600: hivemind needs 5 s to form a group"
        )
    return options


def can_shape() -> bool:
    """Whether links can be shaped here; says why not."""
    try:
        with open_network(["here"], []):
            return True
    except PlacerError as error:
        print(f"note: {error.message} ({error.hint}); this run is on loopback")
        return False


def speed_alone(seconds: float = 6.0) -> float:
    """Samples/s of one peer without the others, one thread: the median of its micro-batches."""
    import torch

    torch.set_num_threads(1)
    model, text, times = build_model(), Text(0), []
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        start = time.monotonic()
        model(text.batch(MICROBATCH)).backward()
        times.append(time.monotonic() - start)
    return MICROBATCH / statistics.median(times[len(times) // 4 :])


def write_profile(folder: Path, pace: float, alone: float) -> None:
    """Write the profile of the model with the speed of the plan's machines."""
    parameters = list(build_model().parameters())
    count = sum(p.numel() for p in parameters)
    said = {
        "basis": "measured",
        "source": f"examples/hivemind_roberta_tiny.py: paced; alone {alone:.1f} samples/s",
    }
    rate = {"gpu": DEVICE, "gpu_count": 1, "value": pace, "low": pace, "high": pace, **said}
    profile = {
        "schema": "placer.profile/v1",
        "name": MODEL,
        "title": "Tiny RoBERTa of examples/hivemind_roberta_tiny.py",
        "family": "transformer",
        "parameters": count,
        "tensors": len(parameters),
        "gradient_bytes_fp32": 4 * count,
        "gradient_source": "counted",
        "device_memory_bytes": 500_000_000,
        "host_memory_bytes": 1_000_000_000,
        "memory_source": "assumed",
        "bytes_per_sample": None,  # made in memory
        "bytes_per_sample_source": None,
        "target_batch_size": 1024,
        "microbatch": MICROBATCH,
        "compression": "fp16",
        "efficiency": [{"framework": "hivemind", "value": 1.0, "low": 1.0, "high": 1.0, **said}],
        "rates": [{**rate, "framework": framework} for framework in ("none", "hivemind")],
    }
    (folder / f"{MODEL}.json").write_text(json.dumps(profile, indent=2) + "\n")


def placer(*words: str, **options: Any) -> None:
    """Run the command line with options, of which a list is one for each entry, shown as one would
    type it; its own output goes to a file, since it is long.
    """
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            words += (f"--{name}", str(each))
    shown = " ".join(f"'{word}'" if set(word) & set("*&; ()") else word for word in words)
    print(f"$ placer {shown}", flush=True)
    done = subprocess.run(  # noqa: S603 - its own words
        [sys.executable, "-m", "placer", *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr.strip() or done.stdout.strip(), file=sys.stderr)
        sys.exit(done.returncode)


def trial(
    folder: Path,
    groups: list[str],
    options: argparse.Namespace,
    peers: int,
    steps: int,
    *,
    shaped: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Plan, with ``more`` options, export and train one swarm; returns what was expected and what
    was measured.
    """
    folder.mkdir(exist_ok=True)
    profile = folder.parent / f"{MODEL}.json"
    pace = json.loads(profile.read_text())["rates"][0]["value"]
    batch = max(1, round(peers * pace * options.calculation / MICROBATCH)) * MICROBATCH
    places = [group.partition("=")[0] for group in groups]
    plan, script = folder / "plan.json", Path(__file__).parents[1] / "hivemind_roberta_tiny.py"
    placer(
        "recommend",
        model=profile,
        tbs=batch,
        exchange="all-reduce",
        market="on-demand",
        gpu=DEVICE,
        use=",".join(groups),
        workers=f"{peers}..{peers}",
        regions=len(groups),
        **more,
        link=[f"{a}:{b}={options.link}" for a, b in itertools.permutations(places, 2)],
        manifest=plan,
    )
    placer("export", str(plan), to="hivemind", dir=folder / "launch", train=script)
    manifest = read_manifest(json.loads(plan.read_text()), str(plan))
    return summary(
        folder / "launch",
        manifest,
        train(folder / "launch", manifest, steps=steps, pace=pace, shaped=shaped),
        steps,
    )


def summary(launch: Path, manifest: Manifest, run: dict[str, Any], steps: int) -> dict[str, Any]:
    """Medians over all peers of the steps after the first one, which includes that the peers find
    each other.
    """
    rows = [row for peer in run["rows"] for row in peer]
    warm = [row for row in rows if row["step"] > 1]
    last = [peer[-1] for peer in run["rows"]]
    expected, exchange = manifest.expected, manifest.exchange
    return {
        "peers": len(run["rows"]),
        "target_batch_size": exchange.target_batch_size,
        "timeouts": to_builtins(exchange.timeouts),
        "predicted": {
            **{
                name: expected.step_seconds[name]
                for name in ("calculation", "communication", "total")
            },
            "low": exchange.target_batch_size / expected.samples_per_second.high,
            "high": exchange.target_batch_size / expected.samples_per_second.low,
            "pair_bytes": 2 * manifest.model.gradient_bytes / manifest.world_size,
        },
        "measured": {
            "calculation": statistics.median(
                row["seconds"] - row["communication_s"] for row in warm
            ),
            "communication": statistics.median(row["communication_s"] for row in warm),
            "total": statistics.median(row["seconds"] for row in warm),
            **sent_bytes(
                run["sent"],
                min(row["ended"] for row in warm),
                max(row["ended"] for row in warm),
                steps - 2,
            ),
            "first_step": statistics.median(row["seconds"] for row in rows if row["step"] == 1),
        },
        "loss": [
            statistics.fmean(row["loss"] for row in rows if row["step"] == step)
            for step in (1, steps)
        ],
        "steps": sorted({row["step"] for row in last}),
        "rounds": {
            name: [row[name] for row in last]
            for name in ("averaged", "failed", "retried", "out_of_sync")
        },
        "apart": weights_apart(launch, len(last)),
    }


def sent_bytes(
    sent: list[tuple[float, float]], began: float, ended: float, rounds: int
) -> dict[str, float | None]:
    """Bytes of a round from one machine to another, and what passes all the time beside (progress
    of each peer, DHT), bytes/s.

    Notes
    -----
    Most of the time nothing is averaged: the median rate is that of the rest.
    """
    counted = [(at, count) for at, count in sent if began <= at <= ended + 1]
    if len(counted) < 3:
        return {"pair_bytes": None, "other_bytes_per_s": None}
    pairs = list(itertools.pairwise(counted))
    other = statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs)
    total, seconds = counted[-1][1] - counted[0][1], counted[-1][0] - counted[0][0]
    return {"pair_bytes": (total - other * seconds) / rounds, "other_bytes_per_s": other}


def weights_apart(launch: Path, peers: int) -> float:
    """Largest difference between the weights of two peers at the end, as a share of the largest
    weight.
    """
    import torch

    weights = [
        torch.load(launch / f"weights-{rank}.pt", weights_only=True) for rank in range(peers)
    ]
    flat = [torch.cat([tensor.flatten() for tensor in state.values()]) for state in weights]
    return max(float((other - flat[0]).abs().max()) for other in flat[1:]) / float(
        flat[0].abs().max()
    )


def calibrate(folder: Path, reference: dict[str, Any]) -> None:
    """Hand the reference run to ``placer profile runs``."""
    measured = reference["measured"]
    with (folder / "runs.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            ["model", "workers", "step_s", "calculation_s", "communication_s", "target_batch_size"]
        )
        workers, batch = f"{PLACES[0]}=2x{DEVICE}:on-demand", reference["target_batch_size"]
        seconds = [f"{measured[name]:.4f}" for name in ("total", "calculation", "communication")]
        table.writerow([str(folder / f"{MODEL}.json"), workers, *seconds, batch])
    placer("profile", "runs", str(folder / "runs.csv"), "-o", str(folder / "calibration.json"))


def show(found: dict[str, Any]) -> None:
    """Print what was expected beside what was measured."""
    predicted, measured, waits = found["predicted"], found["measured"], found["timeouts"]
    print(f"\n{'':30}{'predicted':>12}{'measured':>12}{'difference':>12}")
    titles = {
        "calculation": "calculation, s",
        "communication": "communication, s",
        "total": "step, s",
        "pair_bytes": "2 S / N, MB a pair",
    }
    for name, title in titles.items():
        if measured[name] is not None:
            unit = 1e6 if name == "pair_bytes" else 1.0
            share = measured[name] / predicted[name] - 1
            plan, run = predicted[name] / unit, measured[name] / unit
            print(f"{title:30}{plan:>12.2f}{run:>12.2f}{share:>+12.1%}")
    print(
        "medians of the steps after the first one, in which the peers find each other: it took "
        f"{measured['first_step']:.1f} s"
    )
    print(f"the plan's interval of a step: {predicted['low']:.1f} to {predicted['high']:.1f} s")
    if measured["other_bytes_per_s"] is not None:
        print(
            f"beside the rounds: {measured['other_bytes_per_s'] / 1e3:.1f} kB/s a pair (progress "
            f"of the peers, DHT)"
        )
    print(
        f"time-outs of the plan: matchmaking {waits['matchmaking_s']:g} s, averaging "
        f"{waits['averaging_s']:g} s"
    )
    rounds = (
        f"{name.replace('_', ' ')} {', '.join(map(str, counts))}"
        for name, counts in found["rounds"].items()
    )
    print(f"rounds of each peer: {'; '.join(rounds)}")
    print(
        f"loss {found['loss'][0]:.3f} -> {found['loss'][1]:.3f}; weights of the peers apart by "
        f"{found['apart']:.1e} of the largest"
    )

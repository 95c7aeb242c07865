"""Target ``hivemind``: a bootstrap peer, one script per group, and the arguments of
hivemind.Optimizer (1.1).
"""

from __future__ import annotations

import json
import math
from typing import Any

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import group_environment, run_environment
from placer.launch.export.texts.files import filled, heading, script
from placer.launch.export.texts.readme import readme
from placer.launch.export.texts.start import ASK_NODE, ONLY_NODE
from placer.workload.engines import ENGINES

COMPRESSIONS = {
    "none": "NoCompression",
    "fp16": "Float16Compression",
    "int8": "Uniform8BitQuantization",
}
"""Classes of hivemind.compression for each compression of placer."""
FILE = "optimizer.json"
AVERAGE_STATE_EVERY = 50
"""Gradients that peers average in FP16 leave their parameters a rounding apart; averaging these
every 50 steps costs 2 % more bytes.
"""
NEXT_CHUNK_S = 15.0
"""Least wait for a peer's next gradients: it may come late by a whole micro-batch."""
KEYS = {"PLACER_KEYS": "keys"}


def files(plan: ExportPlan) -> dict[str, str]:
    """Return the scripts and the arguments of the optimizer."""
    lack = ENGINES["hivemind"].lack(plan.manifest.exchange, plan.manifest.groups)
    if lack is not None:
        raise PlacerError(
            f"hivemind does not do {lack.part}", f"{lack.remedy}, or use --to torchrun"
        )
    mesh = plan.mesh
    lines, alike = heading(plan, "hivemind"), {**run_environment(plan, mesh), **KEYS}
    built = {"bootstrap.sh": script(lines, alike, filled("hivemind-bootstrap.sh", {}))}
    for group in plan.manifest.groups:
        steps = {
            "PLACER_EPOCH_SAMPLES": str(_epoch_samples(plan)),
            "PLACER_BATCH_SIZE_PER_STEP": str(batch_size_per_step(plan, group.offer.gpu_count)),
        }
        node = ONLY_NODE if group.count == 1 else ASK_NODE
        environment = {**alike, **group_environment(group, plan.manifest, mesh), **steps}
        built[f"{group.name}.sh"] = script(
            lines, environment, filled("hivemind-peer.sh", {"node": node})
        )
    note = {"note": lines[0], "manifest": plan.manifest.digest}
    built[FILE] = (
        json.dumps({**note, **optimizer_arguments(plan)}, indent=2, allow_nan=False) + "\n"
    )
    workers = plan.manifest.workers
    last = plan.manifest.rendezvous.port + workers
    return {**built, "README.md": readme(plan, "hivemind", last_port=last, lonely=workers == 1)}


def optimizer_arguments(plan: ExportPlan) -> dict[str, Any]:
    """Return keyword arguments of hivemind.Optimizer, apart from dht, optimizer, params and the
    size of a step.

    With local updates an epoch of hivemind is what passes between two averagings: H target batches.
    With the size of a full group known, averaging begins when all peers are there; without it,
    peers wait out the matchmaking time (measured with local updates: 5.4 s a round instead of 0.4
    s).
    """
    manifest, exchange = plan.manifest, plan.manifest.exchange
    local = exchange.strategy == "local-sgd"
    late = exchange.overlap and not local
    size = {"averager_opts": {"target_group_size": manifest.workers}}
    return {
        "optimizer": {
            "run_id": manifest.name,
            "target_batch_size": _epoch_samples(plan),
            "matchmaking_time": exchange.timeouts.matchmaking_s,
            "averaging_timeout": exchange.timeouts.averaging_s,
            "next_chunk_timeout": max(NEXT_CHUNK_S, exchange.timeouts.matchmaking_s),
            "average_state_every": 1 if local else AVERAGE_STATE_EVERY,
            **(size if manifest.workers > 1 else {}),
            "use_local_updates": local,
            "delay_grad_averaging": late,
            "delay_optimizer_step": late,
            "offload_optimizer": late,
            "delay_state_averaging": exchange.overlap,
        },
        "grad_compression": COMPRESSIONS[exchange.compression],
        "state_averaging_compression": COMPRESSIONS[exchange.compression],
    }


def _epoch_samples(plan: ExportPlan) -> int:
    return plan.manifest.exchange.target_batch_size * plan.manifest.exchange.local_steps


def batch_size_per_step(plan: ExportPlan, devices: int) -> int:
    """Return what a peer hands over at once: micro-batches of its devices, or its share."""
    exchange = plan.manifest.exchange
    if exchange.strategy == "local-sgd":
        return math.ceil(exchange.target_batch_size / plan.manifest.workers)
    return exchange.microbatch * devices

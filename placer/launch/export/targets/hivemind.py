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
from placer.launch.export.texts.files import heading, require, script
from placer.launch.export.texts.readme import meeting_words, readme, start_commands
from placer.launch.export.texts.start import ASK_NODE, CHECK_NODE, ONLY_NODE
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
KIND = 'kind() { case "$1" in *:*) echo ip6 ;; *[!0-9.]*) echo dns4 ;; *) echo ip4 ;; esac; }'
LISTEN = [
    KIND,
    'PLACER_LISTEN_ADDRESS="${PLACER_LISTEN_ADDRESS:-0.0.0.0}"',
    'listen="/$(kind "$PLACER_LISTEN_ADDRESS")/$PLACER_LISTEN_ADDRESS/tcp"',
    'if (exec 3<> "/dev/tcp/$PLACER_LISTEN_ADDRESS/$port") 2> /dev/null; then',
    '  echo "port $port of this machine is taken: another run?" >&2',
    "  exit 2",
    "fi",
    'mkdir -p "$PLACER_KEYS" && chmod 700 "$PLACER_KEYS"',
]
"""hivemind's daemon shares a port that is taken, and then nobody reaches it."""
BOOTSTRAP = [
    require(
        "PLACER_RENDEZVOUS_ADDRESS",
        "set it to an address of this machine that every machine reaches",
    ),
    'port="$PLACER_RENDEZVOUS_PORT"',
    *LISTEN,
    'exec hivemind-dht --no_relay --identity_path "$PLACER_KEYS/bootstrap.key" '
    '--host_maddrs "$listen/$port" \\',
    '  --announce_maddrs "/$(kind '
    '"$PLACER_RENDEZVOUS_ADDRESS")/$PLACER_RENDEZVOUS_ADDRESS/tcp/$port" "$@"',
]
"""Without relaying: gradients that it passed on would be bytes that no plan has."""
TRAINER = [
    require(
        "PLACER_INITIAL_PEERS", "set it to the address that bootstrap.sh prints: /ip4/.../p2p/..."
    ),
    'read -r -a peers <<< "$PLACER_INITIAL_PEERS"',
    "port=$((PLACER_RENDEZVOUS_PORT + 1 + PLACER_RANK))",
    *LISTEN,
    'PLACER_OPTIMIZER="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)/optimizer.json"',
    "export PLACER_OPTIMIZER",
    'if [ -n "${PLACER_PEER_ADDRESS:-}" ]; then',
    '  set -- --announce_maddrs "/$(kind '
    '"$PLACER_PEER_ADDRESS")/$PLACER_PEER_ADDRESS/tcp/$port" "$@"',
    "fi",
    'exec python3 "$PLACER_TRAIN" --run_id "$PLACER_RUN" --initial_peers "${peers[@]}" \\',
    '  --identity_path "$PLACER_KEYS/rank-$PLACER_RANK.key" --host_maddrs "$listen/$port" \\',
    '  --target_batch_size "$PLACER_EPOCH_SAMPLES" --batch_size_per_step '
    '"$PLACER_BATCH_SIZE_PER_STEP" \\',
    '  --matchmaking_time "$PLACER_MATCHMAKING_S" --averaging_timeout '
    '"$PLACER_AVERAGING_TIMEOUT_S" "$@"',
]
"""Options as in hivemind's own examples; a peer's identity is a key that stays on its machine."""
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
    built = {"bootstrap.sh": script(lines, alike, BOOTSTRAP)}
    for group in plan.manifest.groups:
        steps = {
            "PLACER_EPOCH_SAMPLES": str(_epoch_samples(plan)),
            "PLACER_BATCH_SIZE_PER_STEP": str(batch_size_per_step(plan, group.offer.gpu_count)),
        }
        node = ONLY_NODE if group.count == 1 else ASK_NODE
        environment = {**alike, **group_environment(group, plan.manifest, mesh), **steps}
        built[f"{group.name}.sh"] = script(lines, environment, [node, *CHECK_NODE, *TRAINER])
    note = {"note": lines[0], "manifest": plan.manifest.digest}
    built[FILE] = (
        json.dumps({**note, **optimizer_arguments(plan)}, indent=2, allow_nan=False) + "\n"
    )
    return {**built, "README.md": _readme(plan)}


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


def _readme(plan: ExportPlan) -> str:
    manifest = plan.manifest
    last = manifest.rendezvous.port + manifest.workers
    words = [
        "Needs hivemind 1.1 and a training script, which gets `--run_id`, `--initial_peers`, "
        "`--identity_path`, `--host_maddrs`,",
        "`--target_batch_size`, `--batch_size_per_step`, `--matchmaking_time` and "
        "`--averaging_timeout`; all arguments of",
        f"hivemind.Optimizer, with compression and everything else in the plan, are in `{FILE}`, "
        "whose path is in `PLACER_OPTIMIZER`.",
        "`examples/hivemind_roberta_tiny.py` of placer is such a script. Let all peers start "
        "from the same weights, and start",
        "hivemind.DHT with `use_relay=False`: the plan does not count gradients that another "
        "peer relays. Keys are made at the first",
        "start, in `keys/`, and stay there: a peer that comes back has its old identity. Keep "
        "them private.",
        f"Ports {manifest.rendezvous.port} to {last} must be reachable between the machines; "
        "where a machine's public address is not on an",
        "interface of its own, as in clouds, set `PLACER_PEER_ADDRESS` to it. "
        "`PLACER_LISTEN_ADDRESS` limits a peer to one interface.",
    ]
    address = manifest.rendezvous.address_variable
    start = [
        f"{address}=ADDRESS bash bootstrap.sh    # on one machine; prints "
        "/ip4/ADDRESS/tcp/.../p2p/ID",
        "export PLACER_INITIAL_PEERS=/ip4/ADDRESS/tcp/PORT/p2p/ID    # as bootstrap.sh printed "
        "it; on every machine",
        *start_commands(plan, [group.name for group in manifest.groups]),
    ]
    sections = [
        ("Launch", words if manifest.workers > 1 else [*words, *meeting_words(plan)], start),
        ("Watch", ["bootstrap.sh reports the number of peers every 30 s."], []),
        ("Tear down", ["End the trainers, then the bootstrap peer, with Ctrl-C."], []),
    ]
    return readme(plan, "hivemind", sections)

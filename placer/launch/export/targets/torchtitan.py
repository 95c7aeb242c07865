"""Target ``torchtitan``: one script per group that trains an entry of torchtitan's registry (0.3);
between islands torchft (0.2) does the exchange.
"""

from __future__ import annotations

from placer.documents.manifest.types import ExchangeSettings, Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.environment import machines
from placer.launch.export.texts.heading import heading
from placer.launch.export.texts.readme import Section, meeting_words, readme, start_commands
from placer.launch.export.texts.shell import script
from placer.launch.export.texts.start import (
    ASK_ADDRESS,
    ASK_NODE,
    CHECK_NODE,
    ISLAND_MEETS,
    ONLY_NODE,
)

METHODS = {"none": "", "all-reduce": "", "local-sgd": "local_sgd", "diloco": "diloco"}
"""What torchft calls an exchange; empty: it averages gradients after each step."""
PRECISIONS = {"bf16": "bfloat16", "tf32": "float32", "fp32": "float32"}
LIGHTHOUSE = "lighthouse.sh"
LIGHTHOUSE_PORT = 29510
JOIN_S = 60.0
"""The lighthouse's own time for more islands to join (torchft 0.2)."""
TITAN = [
    'exec torchrun --nnodes="$PLACER_ISLAND_MACHINES" --node-rank="$PLACER_ISLAND_RANK" \\',
    '  --nproc-per-node="$PLACER_PROCESSES" --master-addr="$PLACER_ISLAND_ADDRESS" \\',
    '  --master-port="$PLACER_ISLAND_PORT" -m torchtitan.train \\',
    '  --module "$PLACER_TITAN_MODULE" --config "$PLACER_TITAN_CONFIG" \\',
    '  --parallelism.data-parallel-replicate-degree "$PLACER_TITAN_REPLICATE" \\',
    '  --parallelism.data-parallel-shard-degree "$PLACER_TITAN_SHARD" \\',
    '  --parallelism.fsdp-reshard-after-forward "$PLACER_TITAN_RESHARD" \\',
    '  --parallelism.tensor-parallel-degree "$PLACER_TENSOR_PARALLEL" \\',
    '  --training.local-batch-size "$PLACER_MICROBATCH" \\',
    '  --training.global-batch-size "$PLACER_TITAN_BATCH" \\',
    '  --training.mixed-precision-param "$PLACER_TITAN_PRECISION" \\',
]
TORCHFT = [
    '  --fault-tolerance.enable --fault-tolerance.replica-id "$PLACER_ISLAND" \\',
    '  --fault-tolerance.group-size "$PLACER_ISLANDS" \\',
    '  --fault-tolerance.min-replica-size "$PLACER_TITAN_QUORUM" \\',
]
SYNCHRONIZES = [
    '  --fault-tolerance.semi-sync-method "$PLACER_TITAN_METHOD" \\',
    '  --fault-tolerance.sync-steps "$PLACER_LOCAL_STEPS" \\',
]
END = ['  "$@" "activation-checkpoint:$PLACER_CHECKPOINTING"']
FIND_LIGHTHOUSE = [
    f'TORCHFT_LIGHTHOUSE="http://$PLACER_RENDEZVOUS_ADDRESS:{LIGHTHOUSE_PORT}"',
    "export TORCHFT_LIGHTHOUSE",
]
SERVE_LIGHTHOUSE = [
    'exec torchft_lighthouse --min_replicas "$PLACER_TITAN_QUORUM" '
    f'--join_timeout_ms "$PLACER_TITAN_GRACE_MS" --bind "[::]:{LIGHTHOUSE_PORT}" "$@"'
]


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group and, of several islands, the script of the lighthouse.

    Raises
    ------
    PlacerError
        If torchtitan or torchft has no such exchange, sharding or precision.
    """
    _check(plan)
    lines, built = heading(plan, "torchtitan"), {}
    several = plan.manifest.workers > 1
    asks = [ASK_ADDRESS] if plan.manifest.rendezvous.method == "address" else []
    method = METHODS[plan.manifest.exchange.strategy]
    between = [*TORCHFT, *(SYNCHRONIZES if method else [])] if several else []
    for group in plan.manifest.groups:
        environment = {**machines(plan)[group.name], **_titan(plan, group), **_quorum(plan)}
        node = ONLY_NODE if group.machine_count == 1 else ASK_NODE
        find = FIND_LIGHTHOUSE if several else []
        tail = [node, *CHECK_NODE, *asks, *ISLAND_MEETS, *find, *TITAN, *between, *END]
        built[f"{group.name}.sh"] = script(lines, environment, tail)
    if several:
        first = {**next(iter(machines(plan).values())), **_quorum(plan)}
        built[LIGHTHOUSE] = script(lines, first, SERVE_LIGHTHOUSE)
    return {**built, "README.md": _readme(plan)}


def _check(plan: ExportPlan) -> None:
    manifest, exchange = plan.manifest, plan.manifest.exchange
    if not plan.uses_runtime:
        raise PlacerError(
            "torchtitan trains an entry of its registry, not a script",
            "give --train MODULE:CONFIG, such as --train llama3:llama3_8b",
        )
    if not manifest.has_islands:
        raise PlacerError(
            "the plan has no inner plan, which torchtitan needs",
            "plan a model with an architecture, or use --to torchrun",
        )
    if manifest.workers > 1:
        _check_exchange(exchange)
    for group in manifest.groups:
        _check_group(group, _batch(plan))


def _check_exchange(exchange: ExchangeSettings) -> None:
    if exchange.strategy not in METHODS:
        raise PlacerError(
            f"torchft does not do the exchange {exchange.strategy}",
            f"it does {', '.join(name for name in METHODS if name != 'none')}; try --to torchrun",
        )
    if exchange.compression != "none" or exchange.overlap:
        what = "--overlap" if exchange.overlap else f"compression {exchange.compression}"
        raise PlacerError(
            f"torchft has nothing that is {what} as placer counts it",
            "plan with --compression none and without --overlap, or use --to torchrun",
        )


def _check_group(group: Group, batch: int) -> None:
    inner = group.inner
    if inner is None or group.on_cpu:
        raise PlacerError(
            f"torchtitan needs an inner plan on GPUs, {group.name} has none", "use --to torchrun"
        )
    if inner.sharding == "zero-1" or inner.precision not in PRECISIONS:
        what = inner.sharding if inner.sharding == "zero-1" else inner.precision
        raise PlacerError(
            f"torchtitan's options have no {what}",
            "plan with zero-2, zero-3, hybrid or none, and bf16, tf32 or fp32",
        )
    once = inner.microbatch * _data_parallel(group)
    if batch % once:
        raise PlacerError(
            f"an island of {group.name} takes {once} sequences at once, its batch is {batch}",
            f"plan with a --tbs that gives each island a multiple of {once}",
        )


def _batch(plan: ExportPlan) -> int:
    """Return the sequences of one island in a step: torchft weighs all islands alike."""
    return plan.manifest.exchange.target_batch_size // plan.manifest.workers


def _data_parallel(group: Group) -> int:
    degree = 1 if group.inner is None else group.inner.tensor_parallel
    return group.machines * group.offer.gpu_count // degree


def _titan(plan: ExportPlan, group: Group) -> dict[str, str]:
    """Return the variables that become options of torchtitan."""
    inner, ranks = group.inner, _data_parallel(group)
    assert inner is not None
    module, _, config = plan.train.partition(":")
    replicas = {"none": ranks, "hybrid": group.machines}.get(inner.sharding, 1)
    return {
        "PLACER_TITAN_MODULE": module,
        "PLACER_TITAN_CONFIG": config,
        "PLACER_TITAN_REPLICATE": str(replicas),
        "PLACER_TITAN_SHARD": str(ranks // replicas),
        "PLACER_TITAN_RESHARD": "never" if inner.sharding == "zero-2" else "always",
        "PLACER_TITAN_BATCH": str(_batch(plan)),
        "PLACER_TITAN_PRECISION": PRECISIONS[inner.precision],
        "PLACER_TITAN_METHOD": METHODS.get(plan.manifest.exchange.strategy, ""),
    }


def _quorum(plan: ExportPlan) -> dict[str, str]:
    """Return how many islands torchft waits for, and how long its lighthouse for the others; empty
    of one island.
    """
    exchange, islands = plan.manifest.exchange, plan.manifest.workers
    if islands == 1:
        return {}
    grace_s = JOIN_S if exchange.grace_s is None else exchange.grace_s
    return {
        "PLACER_TITAN_QUORUM": str(exchange.quorum or islands),
        "PLACER_TITAN_GRACE_MS": str(round(grace_s * 1000)),
    }


def _readme(plan: ExportPlan) -> str:
    several = plan.manifest.workers > 1
    words = [
        "Needs torchtitan 0.3 on every machine: `pip install torchtitan`"
        + (" and torchft 0.2: `pip install torchft`." if several else "."),
        f"`{plan.train}` is the module and the entry of its registry that is trained; tokenizer, "
        "data and sequence length are those of the entry.",
        "Options of torchtitan may follow the script's name.",
    ]
    if several:
        words += [
            "Between islands only entries for torchft can be trained, such as "
            "`torchft.llama3:llama3_torchft_debugmodel` or one of your own.",
            f"Start `{LIGHTHOUSE}` on rank 0's machine first (port {LIGHTHOUSE_PORT}). torchft "
            "gives every island an equal batch.",
        ]
    address = plan.manifest.rendezvous.address_variable
    asks = [f"export {address}=ADDRESS"] if plan.manifest.rendezvous.method == "address" else []
    start = [
        *asks,
        *([f"bash {LIGHTHOUSE}    # on rank 0's machine"] if several else []),
        *start_commands(plan, [group.name for group in plan.manifest.groups]),
    ]
    end = "End torchrun with Ctrl-C on one machine of each island. Then give the machines back."
    sections: list[Section] = [
        ("Launch", [*words, "", *meeting_words(plan)], start),
        ("Watch", ["torchtitan prints loss, tokens/s and memory of each step."], []),
        ("Tear down", [end], []),
    ]
    return readme(plan, "torchtitan", sections)

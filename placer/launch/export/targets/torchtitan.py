"""Target ``torchtitan``: one script per group that trains an entry of torchtitan's registry (0.3);
between worlds torchft (0.2) does the exchange.
"""

from __future__ import annotations

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.reference_runtime import Site
from placer.launch.export.texts.environment import job_steps, machines
from placer.launch.export.texts.heading import heading
from placer.launch.export.texts.meeting import BESIDE, meeting_files
from placer.launch.export.texts.readme import Section, meeting_words, readme, start_commands
from placer.launch.export.texts.shell import script
from placer.launch.export.texts.start import (
    ASK_NODE,
    ONLY_NODE,
    node_lines,
    torchrun_lines,
    world_lines,
)
from placer.launch.mesh import mesh_of
from placer.problem.exchange.streaming_diloco import fragments
from placer.workload.engines import ENGINES

METHODS = {"local-sgd": "local_sgd", "diloco": "diloco", "streaming-diloco": "diloco"}
"""What torchft calls an exchange between worlds."""
PRECISIONS = {"bf16": "bfloat16", "tf32": "float32", "fp32": "float32"}
TITAN = [
    "set -- -m torchtitan.train \\",
    '  --module "$PLACER_TITAN_MODULE" --config "$PLACER_TITAN_CONFIG" \\',
    '  --parallelism.data-parallel-replicate-degree "$PLACER_DP_REPLICATE" \\',
    '  --parallelism.data-parallel-shard-degree "$PLACER_DP_SHARD" \\',
    '  --parallelism.fsdp-reshard-after-forward "$PLACER_TITAN_RESHARD" \\',
    '  --parallelism.tensor-parallel-degree "$PLACER_TENSOR_PARALLEL" \\',
    '  --training.local-batch-size "$PLACER_MICROBATCH" \\',
    '  --training.global-batch-size "$PLACER_TARGET_BATCH_SIZE" \\',
    '  --training.mixed-precision-param "$PLACER_TITAN_PRECISION" \\',
]
STEPS = ['  --training.steps "$PLACER_STEPS" \\']
TORCHFT = [
    '  --fault-tolerance.enable --fault-tolerance.replica-id "$PLACER_WORLD" \\',
    '  --fault-tolerance.group-size "$PLACER_WORLDS" \\',
    '  --fault-tolerance.min-replica-size "$PLACER_QUORUM" \\',
    '  --fault-tolerance.process-group "$PLACER_BACKEND" \\',
    '  --fault-tolerance.process-group-timeout-ms "$PLACER_TITAN_TIMEOUT_MS" \\',
    '  --fault-tolerance.semi-sync-method "$PLACER_TITAN_METHOD" \\',
    '  --fault-tolerance.sync-steps "$PLACER_LOCAL_STEPS" \\',
    '  --fault-tolerance.num-fragments "$PLACER_TITAN_FRAGMENTS" \\',
    '  --fault-tolerance.fragment-sync-delay "$PLACER_TITAN_DELAY" \\',
]
CHECKPOINTS = [
    'if [ -n "${PLACER_CHECKPOINTS:-}" ]; then',
    '  set -- --checkpoint.enable --checkpoint.folder "$PLACER_CHECKPOINTS" "$@"',
    "fi",
]
END = ['  "$@" "activation-checkpoint:$PLACER_CHECKPOINTING"']


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group.

    Raises
    ------
    PlacerError
        If torchtitan or torchft has no such exchange, sharding, precision or division of the batch.
    """
    _check(plan)
    lines, built = heading(plan, "torchtitan"), {}
    more = [
        *([] if job_steps(plan.manifest) is None else STEPS),
        *(TORCHFT if mesh_of(plan.manifest).between else []),
    ]
    site = Site(meet=BESIDE)
    start = torchrun_lines(plan, [*CHECKPOINTS, *TITAN, *more, *END])
    for group in plan.manifest.groups:
        environment = {**machines(plan)[group.name], **_titan(plan, group)}
        node = ONLY_NODE if group.machine_count == 1 else ASK_NODE
        tail = [*node_lines(plan, node), *world_lines(plan, site), *start]
        built[f"{group.name}.sh"] = script(lines, environment, tail)
    return {**built, **meeting_files(plan, "torchtitan"), "README.md": _readme(plan)}


def _check(plan: ExportPlan) -> None:
    manifest, mesh = plan.manifest, mesh_of(plan.manifest)
    if not plan.uses_runtime:
        raise PlacerError(
            "torchtitan trains an entry of its registry, not a script",
            "give --train MODULE:CONFIG, such as --train llama3:llama3_8b",
        )
    for group in manifest.groups:
        if group.inner is None or group.on_cpu:
            raise PlacerError(
                f"torchtitan needs an inner plan on GPUs, {group.name} has none",
                "plan a model with an architecture, or use --to torchrun",
            )
    lack = ENGINES["torchtitan"].lack(manifest.exchange, manifest.groups)
    if lack is not None:
        raise PlacerError(
            f"torchtitan does not do {lack.part}", f"{lack.remedy}, or use --to torchrun"
        )
    if mesh.between not in ("", "torchft"):
        raise PlacerError(
            f"torchtitan has one device mesh, or torchft between several: {mesh.why}",
            "plan with --exchange all-reduce, local-sgd or diloco, or use --to torchrun",
        )
    _check_batch(plan)


def _check_batch(plan: ExportPlan) -> None:
    """Refuse a batch of which torchtitan would train another part: all ranks get equally many whole
    micro-batches.
    """
    worlds, batch = mesh_of(plan.manifest).worlds, plan.manifest.exchange.target_batch_size
    ranks = sum(len(world.samples) for world in worlds)
    once = max(group.inner.microbatch for group in plan.manifest.groups if group.inner) * ranks
    equal = len({samples for world in worlds for samples in world.samples}) == 1
    if batch % once:
        near = sorted({max(1, batch // once) * once, (batch // once + 1) * once})
        raise PlacerError(
            f"torchtitan's {ranks} ranks take {once} sequences at once, which do not divide the "
            f"batch of {batch}",
            f"plan with --tbs {' or '.join(map(str, near))}",
        )
    if not equal:
        raise PlacerError(
            "torchtitan gives all ranks equal parts of the batch, the plan gives fast ones more",
            "plan with machines of one kind, or use --to torchrun",
        )


def _titan(plan: ExportPlan, group: Group) -> dict[str, str]:
    """Return the variables that become options of torchtitan."""
    inner, exchange = group.inner, plan.manifest.exchange
    assert inner is not None
    module, _, config = plan.train.partition(":")
    streams = exchange.strategy == "streaming-diloco"
    parts = fragments(exchange.local_steps) if streams else 1
    between = {
        "PLACER_TITAN_METHOD": METHODS.get(exchange.strategy, ""),
        "PLACER_TITAN_TIMEOUT_MS": str(round(exchange.timeouts.averaging_s * 1000)),
        "PLACER_TITAN_FRAGMENTS": str(parts),
        "PLACER_TITAN_DELAY": str(exchange.local_steps // parts - 1 if streams else 0),
    }
    return {
        "PLACER_TITAN_MODULE": module,
        "PLACER_TITAN_CONFIG": config,
        "PLACER_TITAN_RESHARD": "never" if inner.sharding == "zero-2" else "always",
        "PLACER_TITAN_PRECISION": PRECISIONS[inner.precision],
        **(between if mesh_of(plan.manifest).between else {}),
    }


def _readme(plan: ExportPlan) -> str:
    several = len(mesh_of(plan.manifest).worlds) > 1
    words = [
        "Needs torchtitan 0.3 on every machine: `pip install torchtitan`"
        + (" and torchft 0.2: `pip install torchft`." if several else "."),
        f"`{plan.train}` is the module and the entry of its registry that is trained; tokenizer, "
        "data and sequence length are those of the entry.",
        "Options of torchtitan may follow the script's name.",
    ]
    if several:
        words.append(
            "Between worlds only entries for torchft can be trained, such as "
            "`torchft.llama3:llama3_torchft_debugmodel` or one of your own."
        )
    address = plan.manifest.rendezvous.address_variable
    asks = [f"export {address}=ADDRESS"] if plan.manifest.rendezvous.method == "address" else []
    start = [*asks, *start_commands(plan, [group.name for group in plan.manifest.groups])]
    end = "End torchrun with Ctrl-C on one machine of each world. Then give the machines back."
    sections: list[Section] = [
        ("Launch", [*words, "", *meeting_words(plan)], start),
        ("Watch", ["torchtitan prints loss, tokens/s and memory of each step."], []),
        ("Tear down", [end], []),
    ]
    return readme(plan, "torchtitan", sections)

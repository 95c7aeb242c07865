"""Target ``torchtitan``: one script per group that trains an entry of torchtitan's registry (0.3);
between worlds torchft (0.2) does the exchange.
"""

from __future__ import annotations

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.torchrun import Trainer, check_trainable, inner_of, trainer_files
from placer.launch.export.texts.environment import architecture_of, job_steps
from placer.problem.exchange import fragments
from placer.workload.island.divisions import piece_layers

METHODS = {"local-sgd": "local_sgd", "diloco": "diloco", "streaming-diloco": "diloco"}
"""What torchft calls an exchange between worlds."""
TRAINER = Trainer(
    target="torchtitan",
    example="llama3:llama3_8b",
    between=("", "torchft"),
    precisions={"bf16": "bfloat16", "tf32": "float32", "fp32": "float32"},
    fewest_microbatches=True,
)
TITAN = [
    "set -- -m torchtitan.train \\",
    '  --module "$PLACER_TITAN_MODULE" --config "$PLACER_TITAN_CONFIG" \\',
    '  --parallelism.data-parallel-replicate-degree "$PLACER_DP_REPLICATE" \\',
    '  --parallelism.data-parallel-shard-degree "$PLACER_DP_SHARD" \\',
    '  --parallelism.fsdp-reshard-after-forward "$PLACER_TITAN_RESHARD" \\',
    '  --parallelism.tensor-parallel-degree "$PLACER_TENSOR_PARALLEL" \\',
    '  --training.local-batch-size "$PLACER_TITAN_LOCAL_BATCH" \\',
    '  --training.global-batch-size "$PLACER_TARGET_BATCH_SIZE" \\',
    '  --training.seq-len "$PLACER_TITAN_TOKENS" \\',
    '  --training.mixed-precision-param "$PLACER_TITAN_PRECISION" \\',
]
STEPS = ['  --training.steps "$PLACER_STEPS" \\']
DIVIDED = [
    "  --training.disable-cuda-graphs \\",  # it has none of stages and of most exchanges of experts
    '  --parallelism.context-parallel-degree "$PLACER_CONTEXT_PARALLEL" \\',
    '  --parallelism.expert-parallel-degree "$PLACER_EXPERT_PARALLEL" \\',
]
PARTS = ['read -r -a parts <<< "$PLACER_TITAN_PARTS"']
STAGES = [
    '  --parallelism.pipeline-parallel-degree "$PLACER_PIPELINE_PARALLEL" \\',
    '  --parallelism.pipeline-parallel-schedule "$PLACER_TITAN_SCHEDULE" \\',
    '  --parallelism.pipeline-parallel-microbatch-size "$PLACER_MICROBATCH" \\',
    '  --parallelism.module-fqns-per-model-part "${parts[@]}" \\',
]
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
    """Return ``GROUP.sh`` for each group."""
    check_trainable(plan, TRAINER)
    mesh, inner = plan.mesh, inner_of(plan.manifest.groups[0])
    stages = inner.pipeline > 1
    for group in plan.manifest.groups:
        _check_divided(plan, group)
    start = [
        *CHECKPOINTS,
        *(PARTS if stages else []),
        *TITAN,
        *(DIVIDED if inner.divides_more else []),
        *(STAGES if stages else []),
        *([] if job_steps(plan.manifest) is None else STEPS),
        *(TORCHFT if mesh.between else []),
        *END,
    ]
    variables = {group.name: _titan(plan, group) for group in plan.manifest.groups}
    return trainer_files(plan, "torchtitan", start, _words(plan), variables)


def _check_divided(plan: ExportPlan, group: Group) -> None:
    inner, mesh = inner_of(group), plan.mesh
    if inner.pipeline > 1 and mesh.between:
        raise PlacerError(
            "torchft's exchange takes a model whole, and the plan has stages",
            "plan with --pp 1, or with --exchange all-reduce",
        )
    shard = int(_shards(plan, group)["PLACER_DP_SHARD"])
    if shard * inner.context_parallel * inner.tensor_parallel % inner.expert_parallel:
        raise PlacerError(
            f"torchtitan divides experts among the ranks that share a copy, and "
            f"{inner.expert_parallel} do not divide {shard * inner.rank_gpus // inner.pipeline}",
            "plan with --sharding zero-3",
        )


def _shards(plan: ExportPlan, group: Group) -> dict[str, str]:
    """Return copies and shards as torchtitan counts them: zero-1 of stages is its FSDP."""
    world = plan.mesh.world_of(group.rank_offset)
    assert world is not None
    copies, shard = world.dp_replicate, world.dp_shard
    if inner_of(group).sharding == "zero-1":
        copies, shard = len(world.workers), copies // len(world.workers)
    return {"PLACER_DP_REPLICATE": str(copies), "PLACER_DP_SHARD": str(shard)}


def _titan(plan: ExportPlan, group: Group) -> dict[str, str]:
    inner, exchange = inner_of(group), plan.manifest.exchange
    module, _, config = plan.train.partition(":")
    streams = exchange.strategy == "streaming-diloco"
    parts = fragments(exchange.local_steps) if streams else 1
    between = {
        "PLACER_TITAN_METHOD": METHODS.get(exchange.strategy, ""),
        "PLACER_TITAN_TIMEOUT_MS": str(round(exchange.timeouts.averaging_s * 1000)),
        "PLACER_TITAN_FRAGMENTS": str(parts),
        "PLACER_TITAN_DELAY": str(exchange.local_steps // parts - 1 if streams else 0),
    }
    never = inner.sharding in ("zero-1", "zero-2")
    mesh = plan.mesh
    stages = {
        "PLACER_TITAN_SCHEDULE": "1F1B" if inner.virtual_stages == 1 else "Interleaved1F1B",
        "PLACER_TITAN_PARTS": " ".join(_modules(plan, group)) if inner.pipeline > 1 else "",
    }
    # Of stages all microbatches of a step are one local batch; else each is one by itself.
    local = mesh.worlds[0].samples[0] if inner.pipeline > 1 else inner.microbatch
    return {
        **_shards(plan, group),
        "PLACER_TITAN_MODULE": module,
        "PLACER_TITAN_CONFIG": config,
        "PLACER_TITAN_LOCAL_BATCH": str(local),
        "PLACER_TITAN_TOKENS": str(architecture_of(plan.manifest).sequence_length),
        "PLACER_TITAN_RESHARD": "never" if never else "always",
        "PLACER_TITAN_PRECISION": TRAINER.precisions[inner.precision],
        **(stages if inner.pipeline > 1 else {}),
        **(between if mesh.between else {}),
    }


def _modules(plan: ExportPlan, group: Group) -> list[str]:
    """List the modules of each piece of the stages, by the names of torchtitan's decoders."""
    built, first = [], 0
    for layers in piece_layers(architecture_of(plan.manifest), inner_of(group)):
        built.append([f"layers.{number}" for number in range(first, first + layers)])
        first += layers
    built[0].insert(0, "tok_embeddings")
    built[-1] += ["norm", "lm_head"]
    return [",".join(modules) for modules in built]


def _words(plan: ExportPlan) -> list[str]:
    several = len(plan.mesh.worlds) > 1
    words = [
        "Needs torchtitan 0.3 on every machine: `pip install torchtitan`"
        + (" and torchft 0.2: `pip install torchft`." if several else "."),
        f"`{plan.train}` is the module and the entry of its registry that is trained; tokenizer "
        "and data are those of the entry.",
        "Options of torchtitan may follow the script's name.",
    ]
    if several:
        words.append(
            "Between worlds only entries for torchft can be trained, such as "
            "`torchft.llama3:llama3_torchft_debugmodel` or one of your own."
        )
    return words

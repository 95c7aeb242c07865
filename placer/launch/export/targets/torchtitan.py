"""Target ``torchtitan``: one script per group that trains an entry of torchtitan's registry (0.3);
between worlds torchft (0.2) does the exchange.
"""

from __future__ import annotations

from placer.documents.manifest.types import Group
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.torchrun import Trainer, check_trainable, inner_of, trainer_files
from placer.launch.export.texts.environment import architecture_of
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


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group."""
    check_trainable(plan, TRAINER)
    for group in plan.manifest.groups:
        _check_divided(plan, group)
    variables = {group.name: _titan(plan, group) for group in plan.manifest.groups}
    return trainer_files(plan, "torchtitan", variables)


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

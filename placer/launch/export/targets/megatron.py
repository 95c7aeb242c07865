"""Target ``megatron``: one script per group that trains a recipe of Megatron-Bridge (0.3) with the
settings of the plan, which are a YAML file.
"""

from __future__ import annotations

from typing import Any

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.torchrun import Trainer, check_trainable, inner_of, trainer_files
from placer.launch.export.texts.environment import architecture_of
from placer.launch.export.texts.files import comments, filled, heading, yaml_text
from placer.workload.island.divisions import piece_layers
from placer.workload.island.transports import MIB, bucket_mib
from placer.workload.profile import fp32_bytes

SETTINGS, PROGRAM = "megatron.yaml", "recipe.py"
TRAINER = Trainer(
    target="megatron",
    example="megatron.bridge.recipes:llama31_70b_pretrain_config",
    between=("",),
    precisions={
        "bf16": "bf16_mixed",
        "fp16": "fp16_mixed",
        "fp8": "bf16_with_fp8_current_scaling_mixed",
    },
)
RECOMPUTED = {
    "none": (None, None, None),
    "selective": ("selective", None, None),
    "full": ("full", "uniform", 1),
}
"""Granularity, method and layers of a unit, as Megatron takes them."""


def files(plan: ExportPlan) -> dict[str, str]:
    """Return ``GROUP.sh`` for each group, the settings, and the program that reads them."""
    check_trainable(plan, TRAINER)
    if len({group.inner for group in plan.manifest.groups}) > 1:
        raise PlacerError(
            "Megatron's ranks all work by one plan, and the groups have several",
            "plan with machines of one kind, or use --to torchrun",
        )
    lines = comments(heading(plan, "megatron"))
    return {
        **trainer_files(plan, "megatron"),
        SETTINGS: yaml_text([settings(plan)], lines),
        PROGRAM: lines + "\n".join(filled("recipe.txt", {})) + "\n",
    }


def settings(plan: ExportPlan) -> dict[str, dict[str, Any] | str]:
    """Return the parts of Megatron-Bridge's ConfigContainer that the plan decides, also where they
    are Megatron's defaults: a recipe has others. Ranks are those of `World`: Megatron's order is
    tp-cp-ep-dp-pp.
    """
    inner = inner_of(plan.manifest.groups[0])
    tokens = architecture_of(plan.manifest).sequence_length
    granularity, method, unit = RECOMPUTED[inner.checkpointing]
    sharded, experts = inner.sharding == "zero-1", inner.expert_parallel > 1
    apart = len({group.place for group in plan.manifest.groups}) > 1
    whole = fp32_bytes(plan.manifest.model.gradient_bytes, plan.manifest.exchange.compression)
    here = whole / inner.tensor_parallel / inner.pipeline
    return {
        "train": {
            "micro_batch_size": inner.microbatch,
            "global_batch_size": plan.manifest.exchange.target_batch_size,
        },
        "dataset": {"seq_length": tokens},
        "model": {
            "seq_length": tokens,
            "tensor_model_parallel_size": inner.tensor_parallel,
            "sequence_parallel": inner.tensor_parallel > 1,
            "pipeline_model_parallel_size": inner.pipeline,
            "virtual_pipeline_model_parallel_size": (
                inner.virtual_stages if inner.virtual_stages > 1 else None
            ),
            "pipeline_model_parallel_layout": _layout(plan) if inner.pipeline > 1 else None,
            "context_parallel_size": inner.context_parallel,
            "expert_model_parallel_size": inner.expert_parallel,
            **(
                {"expert_tensor_parallel_size": 1, "moe_token_dispatcher_type": "alltoall"}
                if experts
                else {}
            ),
            "mtp_num_layers": None,  # heads that predict further tokens are not priced
            "recompute_granularity": granularity,
            "recompute_method": method,
            "recompute_num_layers": unit,
        },
        "ddp": {
            "use_distributed_optimizer": sharded,
            "overlap_grad_reduce": True,
            "overlap_param_gather": sharded,
            # Parameters of FP32; each bucket waits for round trips between regions.
            **({"bucket_size": bucket_mib(here) * MIB // 4} if apart else {}),
        },
        "optimizer": {"use_distributed_optimizer": sharded},
        "mixed_precision": TRAINER.precisions[inner.precision],
    }


def _layout(plan: ExportPlan) -> str:
    """Return the layers of each piece: E the embedding, t a layer, L the loss."""
    inner = inner_of(plan.manifest.groups[0])
    pieces = piece_layers(architecture_of(plan.manifest), inner)
    return f"E{'|'.join('t' * layers for layers in pieces)}L"

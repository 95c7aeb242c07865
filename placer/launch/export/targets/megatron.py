"""Target ``megatron``: one script per group that trains a recipe of Megatron-Bridge (0.3) with the
settings of the plan, which are a YAML file.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.torchrun import Trainer, check_trainable, inner_of, trainer_files
from placer.launch.export.texts.environment import architecture_of
from placer.launch.export.texts.files import comments, filled, filled_tree, heading, yaml_text
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
    manifest, inner = plan.manifest, inner_of(plan.manifest.groups[0])
    architecture = architecture_of(manifest)
    granularity, method, unit = RECOMPUTED[inner.checkpointing]
    whole = fp32_bytes(manifest.model.gradient_bytes, manifest.exchange.compression)
    here = whole / inner.tensor_parallel / inner.pipeline
    # Layers of each piece: E the embedding, t a layer, L the loss.
    pieces = "|".join("t" * layers for layers in piece_layers(architecture, inner))
    values = {
        **structs.asdict(inner),
        "batch": manifest.exchange.target_batch_size,
        "tokens": architecture.sequence_length,
        "divides_sequences": inner.tensor_parallel > 1,
        "virtual": inner.virtual_stages if inner.virtual_stages > 1 else None,
        "layout": f"E{pieces}L" if inner.pipeline > 1 else None,
        "divides_experts": inner.expert_parallel > 1,
        "granularity": granularity,
        "method": method,
        "unit": unit,
        "sharded": inner.sharding == "zero-1",
        "apart": len({group.place for group in manifest.groups}) > 1,
        "bucket": bucket_mib(here) * MIB // 4,
        "precision": TRAINER.precisions[inner.precision],
    }
    decided: dict[str, dict[str, Any] | str] = filled_tree("megatron.yaml", values)
    return decided

"""The export to Megatron-Bridge: settings that megatron-core takes, and what is refused."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports import done, trained
from other_pythons import other_python

from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.targets.megatron import SETTINGS, TRAINER

US, EU = "aws/us-east-1", "aws/eu-west-2"


def plan(
    *groups: tuple[str, int, int], inner: dict[str, Any] | None = None, **words: Any
) -> ExportPlan:
    """Two stages in two pieces."""
    stages = {"sharding": "zero-1", "pipeline": 2, "virtual_stages": 2, "tensor_parallel": 4}
    return trained(
        *groups, inner={**stages, **(inner or {})}, **{"train": TRAINER.example, **words}
    )


def settings(some: ExportPlan) -> dict[str, Any]:
    """What the export tells Megatron-Bridge."""
    told: dict[str, Any] = yaml.safe_load(export(some, "megatron")[SETTINGS])
    return told


def test_settings_are_those_that_were_priced() -> None:
    """Two stages of 17 and 15 of the 32 layers of Llama 3.1 8B, in two pieces each."""
    told = settings(plan((US, 1, 2), inner={"checkpointing": "full"}))
    model = told["model"]
    assert model["pipeline_model_parallel_layout"] == "|".join(
        ("E" + 9 * "t", 8 * "t", 8 * "t", 7 * "t" + "L")
    )
    assert told["train"] == {"micro_batch_size": 4, "global_batch_size": 256}
    assert (model["tensor_model_parallel_size"], model["sequence_parallel"]) == (4, True)
    assert (model["pipeline_model_parallel_size"], model["context_parallel_size"]) == (2, 1)
    assert model["virtual_pipeline_model_parallel_size"] == 2
    assert (model["recompute_granularity"], model["recompute_num_layers"]) == ("full", 1)
    assert told["ddp"]["use_distributed_optimizer"] is True


CHECK = """
import json, sys, torch
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig
from megatron.core.transformer import TransformerConfig
for told in json.loads(sys.argv[1]):
    del told["model"]["seq_length"]
    c = TransformerConfig(
        num_layers=32, hidden_size=4096, num_attention_heads=32, num_query_groups=8,
        num_moe_experts=8, add_bias_linear=False,
        bf16=True, pipeline_dtype=torch.bfloat16, **told["model"]
    )
    DistributedDataParallelConfig(**told["ddp"]), OptimizerConfig(**told["optimizer"])
    at = c.pipeline_model_parallel_layout
    print("found", json.dumps([at and [[len(piece) for piece in stage] for stage in at.layout]]))
"""


@pytest.mark.other_python
def test_megatron_takes_the_settings() -> None:
    """Megatron-core 0.16 builds its configurations of them, which checks layers and degrees; the
    format of what stages send is that of the mixed precision, as Megatron-Bridge sets it. The
    other names are those of Megatron-Bridge 0.3, which cannot be imported without a GPU's
    libraries, and is read.
    """
    executable = Path(other_python("megatron", "PLACER_MEGATRON_PYTHON"))
    (site,) = executable.parent.parent.glob("lib/python*/site-packages")
    inner = {"checkpointing": "full", "expert_parallel": 8, "context_parallel": 2}
    asked = [
        settings(plan((US, 1, 2), inner=inner)),
        settings(plan((US, 1, 2), inner={"checkpointing": "selective", "virtual_stages": 1})),
        settings(plan((US, 1, 1), inner={"pipeline": 1, "virtual_stages": 1})),
    ]
    config = _classes(site / "megatron/bridge/training/config.py")
    assert set(asked[0]) <= config["ConfigContainer"]
    assert set(asked[0]["train"]) <= config["TrainingConfig"]
    precisions = (site / "megatron/bridge/training/mixed_precision.py").read_text()
    assert all(f"def {name}()" in precisions for name in TRAINER.precisions.values())
    given = {"PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
    ended = done([str(executable), "-c", CHECK, json.dumps(asked)], given, None)
    assert ended.returncode == 0, ended.stderr[-2000:]
    rows = [json.loads(s.split(" ", 1)[1]) for s in ended.stdout.splitlines() if "found" in s]
    assert rows == [[[[10, 8], [8, 8]]], [[[18], [16]]], [None]]


def _classes(path: Path) -> dict[str, set[str]]:
    """The annotated names of each class of a module."""
    return {
        node.name: {
            part.target.id
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        }
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }

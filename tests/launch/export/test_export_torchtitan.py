"""The export to torchtitan and torchft: options that their loaders take, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from other_pythons import other_python
from run_plans import islands, with_question

from conftest import PROCESS_TIMEOUT_S
from placer.documents.manifest import read_manifest
from placer.errors import PlacerError
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder

US, EU = "aws/us-east-1", "aws/eu-west-2"
ONE = "llama3:llama3_8b"
SEVERAL = "torchft.llama3:llama3_torchft_debugmodel"


def plan(
    *groups: tuple[str, int, int],
    strategy: str = "all-reduce",
    train: str = ONE,
    inner: dict[str, Any] | None = None,
    **exchange: Any,
) -> ExportPlan:
    """Islands of machines with 8 GPUs; 4 sequences at once on each."""
    told = islands(
        strategy,
        *groups,
        gpu_count=8,
        inner={"sharding": "zero-3", "microbatch": 4, "precision": "bf16", **(inner or {})},
        **{"target_batch_size": 256, **exchange},
    )
    told = with_question(told)
    return ExportPlan(manifest=read_manifest(told, "m.json"), text=json.dumps(told), train=train)


def options(some: ExportPlan, folder: Path, group: str, node: str) -> list[str]:
    """The arguments with which a script of the export starts torchrun."""
    write_folder(str(folder / "launch"), export(some, "torchtitan"))
    stand_in, asked = folder / "torchrun", folder / "lighthouse"
    stand_in.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$@" "$TORCHFT_LIGHTHOUSE"\n'
        '[ "$PLACER_RANK$TORCHFT_LIGHTHOUSE" = 0http://10.0.0.1:29400 ] || exit 0\n'
        f"for _ in {{1..1000}}; do [ -s {asked} ] && exit; sleep 0.01; done\n"
    )  # the script ends its lighthouse after this, so that must have been reached
    stand_in.chmod(0o755)
    lighthouse = folder / "torchft_lighthouse"
    lighthouse.write_text(f'#!/bin/bash\necho "$@" > {asked}\nexec sleep 60\n')
    lighthouse.chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PLACER_NODE": node,
        "PLACER_RENDEZVOUS_ADDRESS": "10.0.0.1",
        "PLACER_WORLD_ADDRESS": "10.0.0.2",
        "TORCHFT_LIGHTHOUSE": "",
        "GLOO_SOCKET_IFNAME": "wg0",
    }
    done = subprocess.run(
        ["bash", str(folder / "launch" / f"{group}.sh"), "--training.steps", "7"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        timeout=PROCESS_TIMEOUT_S,
    )
    return done.stdout.splitlines()


def value(words: list[str], option: str) -> str:
    """What follows an option."""
    return words[words.index(option) + 1]


def test_one_island_trains_by_its_inner_plan(tmp_path: Path) -> None:
    """Two machines of 8 GPUs with ZeRO-3: 16 shards, 4 sequences on each at once, 256 in all."""
    words = options(plan((US, 1, 2), inner={"checkpointing": "full"}), tmp_path, "workers-0", "1")
    assert words[:3] == ["--nnodes=2", "--node-rank=1", "--nproc-per-node=8"]
    assert value(words, "--parallelism.data-parallel-shard-degree") == "16"
    assert value(words, "--parallelism.data-parallel-replicate-degree") == "1"
    assert value(words, "--parallelism.fsdp-reshard-after-forward") == "always"
    assert value(words, "--training.local-batch-size") == "4"
    assert value(words, "--training.global-batch-size") == "256"
    assert words[-2:] == ["activation-checkpoint:full", ""]
    assert not any("fault-tolerance" in word for word in words)


@pytest.mark.parametrize(
    ("inner", "replicas", "shards", "reshard"),
    [
        ({"sharding": "none"}, "16", "1", "always"),
        ({"sharding": "zero-2"}, "1", "16", "never"),
        ({"sharding": "hybrid"}, "2", "8", "always"),
        ({"sharding": "hybrid", "tensor_parallel": 2}, "2", "4", "always"),
    ],
)
def test_degrees_multiply_to_the_gpus(
    tmp_path: Path, inner: dict[str, Any], replicas: str, shards: str, reshard: str
) -> None:
    """Replicas x shards x tensor parallel = 16."""
    words = options(plan((US, 1, 2), inner=inner), tmp_path, "workers-0", "0")
    assert value(words, "--parallelism.data-parallel-replicate-degree") == replicas
    assert value(words, "--parallelism.data-parallel-shard-degree") == shards
    assert value(words, "--parallelism.fsdp-reshard-after-forward") == reshard
    degree = int(value(words, "--parallelism.tensor-parallel-degree"))
    assert int(replicas) * int(shards) * degree == 16


def test_torchft_exchanges_between_islands(tmp_path: Path) -> None:
    """Machine 3 of the first group is in island 1 of 3. torchtitan divides the batch of all islands
    itself: 384 sequences are two of 4 for each of 48 ranks.
    """
    some = plan(
        (US, 2, 2), (EU, 1, 2), strategy="local-sgd", local_steps=50, train=SEVERAL,
        target_batch_size=384,
    )  # fmt: skip
    words = options(some, tmp_path, "workers-0", "3")
    assert value(words, "--fault-tolerance.replica-id") == "1"
    assert value(words, "--fault-tolerance.group-size") == "3"
    assert value(words, "--fault-tolerance.semi-sync-method") == "local_sgd"
    assert value(words, "--fault-tolerance.sync-steps") == "50"
    assert value(words, "--fault-tolerance.process-group") == "nccl"
    assert value(words, "--training.global-batch-size") == "384"
    assert words[-1] == "http://10.0.0.1:29400"


def test_torchft_waits_for_the_quorum_and_its_grace(tmp_path: Path) -> None:
    """Two of three islands, and 30 s for the third: by the managers and by their lighthouse."""
    some = plan(
        (US, 2, 2), (EU, 1, 2), strategy="diloco", local_steps=50, train=SEVERAL,
        target_batch_size=384, quorum=2, grace_s=30.0,
    )  # fmt: skip
    words = options(some, tmp_path, "workers-0", "0")
    assert value(words, "--fault-tolerance.min-replica-size") == "2"
    assert (tmp_path / "lighthouse").read_text().split() == [
        "--min_replicas", "2", "--bind", "[::]:29400", "--join_timeout_ms", "30000"
    ]  # fmt: skip


def test_stages_are_those_that_were_priced(tmp_path: Path) -> None:
    """Two machines of 8 GPUs: two stages of 8 GPUs. 256 sequences are 32 for each of 8 ranks, in 8
    microbatches of 4. The output layer of Llama 3.1 8B takes as long as 2.5 layers, so that the
    second stage has 15 of 32; the four pieces of two stages are halves of them. Zero-1 is FSDP that
    keeps the weights: 8 shards.
    """
    inner = {"sharding": "zero-1", "pipeline": 2, "virtual_stages": 2}
    words = options(plan((US, 1, 2), inner=inner), tmp_path, "workers-0", "0")
    assert value(words, "--parallelism.pipeline-parallel-degree") == "2"
    assert value(words, "--parallelism.pipeline-parallel-schedule") == "Interleaved1F1B"
    assert value(words, "--parallelism.pipeline-parallel-microbatch-size") == "4"
    assert value(words, "--training.local-batch-size") == "32"
    assert value(words, "--parallelism.data-parallel-shard-degree") == "8"
    assert value(words, "--parallelism.data-parallel-replicate-degree") == "1"
    assert value(words, "--parallelism.fsdp-reshard-after-forward") == "never"
    first = words.index("--parallelism.module-fqns-per-model-part") + 1
    parts = [part.split(",") for part in words[first : first + 4]]
    assert [len(part) for part in parts] == [1 + 9, 8, 8, 7 + 2]
    assert (parts[0][0], parts[1][0], parts[3][-2:]) == (
        "tok_embeddings", "layers.9", ["norm", "lm_head"]
    )  # fmt: skip


def test_experts_and_sequences_are_divided_as_priced(tmp_path: Path) -> None:
    """16 GPUs in pairs that divide a sequence: 8 shards, and experts among 8 of the 16."""
    inner = {"context_parallel": 2, "expert_parallel": 8}
    words = options(plan((US, 1, 2), inner=inner), tmp_path, "workers-0", "0")
    assert value(words, "--parallelism.context-parallel-degree") == "2"
    assert value(words, "--parallelism.expert-parallel-degree") == "8"
    assert value(words, "--parallelism.data-parallel-shard-degree") == "8"
    assert value(words, "--training.local-batch-size") == "4"
    assert value(words, "--training.seq-len") == "8192"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"train": "train.py"}, "torchtitan trains an entry of its registry"),
        ({"inner": {"sharding": "zero-1"}}, "torchtitan does not do the sharding zero-1"),
        ({"inner": {"precision": "fp8"}}, "torchtitan does not do the precision fp8"),
        (
            {"target_batch_size": 100},
            "which do not divide the batch of 100",
        ),
        ({"inner": {"sharding": "zero-3", "pipeline": 2}}, "the sharding zero-3 with stages"),
        (
            {"inner": {"sharding": "zero-1", "pipeline": 2}, "target_batch_size": 64},
            "2 stages as many microbatches at least",
        ),
        ({"inner": {"sharding": "none", "expert_parallel": 8}}, "8 do not divide 1"),
        ({"compression": "fp16"}, "compression fp16"),
        (
            {"strategy": "diloco", "inner": {"sharding": "zero-1", "pipeline": 2}},
            "takes a model whole, and the plan has stages",
        ),
        ({"strategy": "model-averaging"}, "does not do the exchange model-averaging"),
    ],
)
def test_what_torchtitan_cannot_do_is_refused(asked: dict[str, Any], words: str) -> None:
    """In one line, before a machine is rented."""
    with pytest.raises(PlacerError, match=words) as caught:
        export(plan((US, 2, 2), **asked), "torchtitan")
    assert "\n" not in str(caught.value)


@pytest.mark.other_python
def test_torchtitan_takes_the_options(tmp_path: Path) -> None:
    """By torchtitan's own ConfigManager and ParallelDims, with and without torchft, and in stages,
    whose modules are all that it has.
    """
    executable = other_python("torchtitan", "PLACER_TORCHTITAN_PYTHON")
    code = (
        "import json, sys\n"
        "from torchtitan.config import ConfigManager\n"
        "from torchtitan.distributed import ParallelDims\n"
        "from torchtitan.distributed.pipeline_parallel import _generate_llm_fqn_per_model_part\n"
        "for world, words in json.loads(sys.argv[1]):\n"
        "    c = ConfigManager().parse_args(words)\n"
        "    p, t, f = c.parallelism, c.training, getattr(c, 'fault_tolerance', None)\n"
        "    d, parts = ParallelDims.from_config(p, world), p.module_fqns_per_model_part or []\n"
        "    own = _generate_llm_fqn_per_model_part(len(parts) or 1, 32)\n"
        "    same = {m for part in parts for m in part} == {m for part in own for m in part}\n"
        "    print('found', json.dumps([p.data_parallel_shard_degree, t.local_batch_size,\n"
        "        t.global_batch_size, t.steps, type(c.activation_checkpoint).__qualname__, f and\n"
        "        [f.enable, f.replica_id, f.group_size, f.semi_sync_method, f.sync_steps,\n"
        "        f.min_replica_size], same, [len(part) for part in parts], [d.pp, d.cp, d.ep]]))\n"
    )
    asked = []
    stages = {"sharding": "zero-1", "pipeline": 2, "virtual_stages": 2}
    for number, (world, some) in enumerate(
        (
            (16, plan((US, 1, 2), inner={"checkpointing": "full"})),
            (
                8,
                plan(
                    (US, 2, 1),
                    strategy="local-sgd",
                    local_steps=50,
                    train=SEVERAL,
                    quorum=1,
                    grace_s=9.0,
                ),
            ),
            (16, plan((US, 1, 2), inner={**stages, "context_parallel": 2, "expert_parallel": 8})),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = options(some, folder, "workers-0", "1")
        asked.append((world, words[words.index("torchtitan.train") + 1 : -1]))
    done = subprocess.run(
        [executable, "-c", code, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [json.loads(s.split(" ", 1)[1]) for s in done.stdout.splitlines() if "found" in s]
    assert rows[0][:4] == [16, 4, 256, 7]
    assert rows[0][4].startswith("FullAC")
    assert rows[1][:4] == [8, 4, 256, 7]
    assert rows[1][5] == [True, 1, 2, "local_sgd", 50, 1]
    assert rows[2][:4] == [4, 64, 256, 7]
    assert rows[2][6:] == [True, [10, 8, 8, 9], [2, 2, 8]]

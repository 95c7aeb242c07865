"""The export to torchtitan and torchft: options that their loaders take, and what is refused."""

import json
import os
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from exports import bash, done, on_path, trained
from other_pythons import other_python

from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder

US, EU = "aws/us-east-1", "aws/eu-west-2"
ONE = "llama3:llama3_8b"
SEVERAL = "torchft.llama3:llama3_torchft_debugmodel"
plan = partial(trained, train=ONE)


def options(some: ExportPlan, folder: Path, group: str, node: str) -> list[str]:
    """The arguments with which a script of the export starts torchrun."""
    write_folder(str(folder / "launch"), export(some, "torchtitan"))
    asked = folder / "lighthouse"
    path = on_path(
        folder,
        torchrun='printf "%s\\n" "$@" "$TORCHFT_LIGHTHOUSE"\n'
        '[ "$PLACER_RANK$TORCHFT_LIGHTHOUSE" = 0http://10.0.0.1:29400 ] || exit 0\n'
        # the script ends its lighthouse after this, so that must have been reached
        f"for _ in {{1..1000}}; do [ -s {asked} ] && exit; sleep 0.01; done",
    )
    lighthouse = folder / "torchft_lighthouse"
    lighthouse.write_text(f'#!/bin/bash\necho "$@" > {asked}\nexec sleep 60\n')
    lighthouse.chmod(0o755)
    given = {
        "PATH": path,
        "PLACER_NODE": node,
        "PLACER_RENDEZVOUS_ADDRESS": "10.0.0.1",
        "PLACER_WORLD_ADDRESS": "10.0.0.2",
        "TORCHFT_LIGHTHOUSE": "",
        "GLOO_SOCKET_IFNAME": "wg0",
    }
    script = str(folder / "launch" / f"{group}.sh")
    return bash(script, "--training.steps", "7", given=given).stdout.splitlines()


def told(words: list[str]) -> dict[str, str]:
    """What follows each option, by the last part of its name."""
    return {
        word.rpartition(".")[2]: value for word, value in pairwise(words) if word.startswith("--")
    }


@pytest.mark.parametrize(
    ("inner", "copies", "shards", "reshard", "local"),
    [
        ({"checkpointing": "full"}, 1, 16, "always", 4),
        ({"sharding": "none"}, 16, 1, "always", 4),
        ({"sharding": "zero-2"}, 1, 16, "never", 4),
        ({"sharding": "hybrid"}, 2, 8, "always", 4),
        ({"sharding": "hybrid", "tensor_parallel": 2}, 2, 4, "always", 4),
        ({"context_parallel": 2, "expert_parallel": 8}, 1, 8, "always", 4),
        ({"sharding": "zero-1", "pipeline": 2, "virtual_stages": 2}, 1, 8, "never", 32),
    ],
)
def test_an_island_trains_by_its_inner_plan(
    tmp_path: Path, inner: dict[str, Any], copies: int, shards: int, reshard: str, local: int
) -> None:
    """Two machines of 8 GPUs with 4 sequences on each at once, 256 in all: copies x shards x ranks
    that share a matrix or a sequence = 16, or 8 in each of two stages. Of stages all 8 microbatches
    are one local batch, and zero-1 is FSDP that keeps the weights.
    """
    words = options(plan((US, 1, 2), inner=inner), tmp_path, "workers-0", "1")
    assert words[:3] == ["--nnodes=2", "--node-rank=1", "--nproc-per-node=8"]
    assert words[-2:] == [f"activation-checkpoint:{inner.get('checkpointing', 'none')}", ""]
    assert not any("fault-tolerance" in word for word in words)
    expected = {
        "data-parallel-replicate-degree": str(copies),
        "data-parallel-shard-degree": str(shards),
        "fsdp-reshard-after-forward": reshard,
        "tensor-parallel-degree": str(inner.get("tensor_parallel", 1)),
        "local-batch-size": str(local),
        "global-batch-size": "256",
        "seq-len": "8192",
    }
    if len(inner) == 2 and "context_parallel" in inner:
        expected |= {"context-parallel-degree": "2", "expert-parallel-degree": "8"}
    assert expected.items() <= told(words).items()


def test_stages_are_those_that_were_priced(tmp_path: Path) -> None:
    """The output layer of Llama 3.1 8B takes as long as 2.5 layers, so that the second stage has 15
    of 32; the four pieces of two stages are halves of them.
    """
    inner = {"sharding": "zero-1", "pipeline": 2, "virtual_stages": 2}
    words = options(plan((US, 1, 2), inner=inner), tmp_path, "workers-0", "0")
    expected = {
        "pipeline-parallel-degree": "2",
        "pipeline-parallel-schedule": "Interleaved1F1B",
        "pipeline-parallel-microbatch-size": "4",
    }
    assert expected.items() <= told(words).items()
    first = words.index("--parallelism.module-fqns-per-model-part") + 1
    parts = [part.split(",") for part in words[first : first + 4]]
    assert [len(part) for part in parts] == [1 + 9, 8, 8, 7 + 2]
    ends = (parts[0][0], parts[1][0], parts[3][-2:])
    assert ends == ("tok_embeddings", "layers.9", ["norm", "lm_head"])


def test_torchft_exchanges_between_islands(tmp_path: Path) -> None:
    """Machine 3 of the first group is in island 1 of 3. torchtitan divides the batch of all islands
    itself: 384 sequences are two of 4 for each of 48 ranks. Managers and their lighthouse wait for
    two of three islands, and 30 s for the third.
    """
    asked: dict[str, Any] = {"local_steps": 50, "train": SEVERAL, "target_batch_size": 384}
    asked |= {"quorum": 2, "grace_s": 30.0}
    some = plan((US, 2, 2), (EU, 1, 2), strategy="local-sgd", **asked)
    words = options(some, tmp_path, "workers-0", "3")
    expected = {
        "replica-id": "1",
        "group-size": "3",
        "semi-sync-method": "local_sgd",
        "sync-steps": "50",
        "process-group": "nccl",
        "min-replica-size": "2",
        "global-batch-size": "384",
    }
    assert expected.items() <= told(words).items()
    assert words[-1] == "http://10.0.0.1:29400"
    options(some, tmp_path, "workers-0", "0")
    waits = "--min_replicas 2 --bind [::]:29400 --join_timeout_ms 30000\n"
    assert (tmp_path / "lighthouse").read_text() == waits


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
    several: dict[str, Any] = {"local_steps": 50, "train": SEVERAL, "quorum": 1, "grace_s": 9.0}
    divided = {**stages, "context_parallel": 2, "expert_parallel": 8}
    plans = (
        (16, plan((US, 1, 2), inner={"checkpointing": "full"})),
        (8, plan((US, 2, 1), strategy="local-sgd", **several)),
        (16, plan((US, 1, 2), inner=divided)),
    )
    for number, (world, some) in enumerate(plans):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = options(some, folder, "workers-0", "1")
        asked.append((world, words[words.index("torchtitan.train") + 1 : -1]))
    words = [executable, "-c", code, json.dumps(asked)]
    ended = done(words, {**os.environ, "PYTHONPATH": ""}, None)
    assert ended.returncode == 0, ended.stderr[-2000:]
    rows = [json.loads(s.split(" ", 1)[1]) for s in ended.stdout.splitlines() if "found" in s]
    assert rows[0][:4] == [16, 4, 256, 7]
    assert rows[0][4].startswith("FullAC")
    assert rows[1][:4] == [8, 4, 256, 7]
    assert rows[1][5] == [True, 1, 2, "local_sgd", 50, 1]
    assert rows[2][:4] == [4, 64, 256, 7]
    assert rows[2][6:] == [True, [10, 8, 8, 9], [2, 2, 8]]

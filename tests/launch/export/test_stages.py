"""Plans with stages, executed: a step on four processes is the step of one."""

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conftest import ROOT, Run, completed

EXPORT = "export plan.json --to torchrun --dir launch --train t.py"
EXAMPLE = ROOT / "examples" / "train_stages.py"


TORCHRUN = f"""#!{sys.executable}
import os, runpy, socket, sys
import torch, torch.distributed.pipelining
(count,) = [int(word.split("=")[1]) for word in sys.argv if word.startswith("--nproc-per-node")]
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
os.environ |= {{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}}
sys.argv = [word for word in sys.argv[1:] if not word.startswith("--")]
ranks = []
for rank in range(count):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ |= {{"RANK": str(rank), "LOCAL_RANK": str(rank)}}
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
sys.exit(any(os.waitpid(rank, 0)[1] for rank in ranks))
"""
"""Stands in for torchrun, which test_export_worlds.py starts: it imports PyTorch once."""


def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("train_stages", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("stages", "layers"),
    [
        ("pp=4+vp=2", [3, 3, 3, 1, 2, 2, 2, 0]),
        pytest.param("pp=2", [10, 6], marks=pytest.mark.nightly),
    ],
)
def test_stages_train_what_one_process_trains(
    run: Run, tmp_path: Path, stages: str, layers: list[int]
) -> None:
    """The scripts of an export start 1F1B, or interleaved stages, on four processes: four stages,
    or two with two copies. Its loss of a step is that of one process to six digits, its gradients
    to 1e-6. The output layer of Llama 3.2 1B takes as long as four of its 16 layers, so that the
    last stage has fewer; with two pieces its second has the output layer alone. Each run has the
    interleaved ones.
    """
    torch = pytest.importorskip("torch")
    workers = f"aws/us-east-1=1x(1xA10G:4)+zero-1+{stages}+ckpt=full+mb=1"
    question = "--tbs 16 --seq-len 512 --compression none --manifest plan.json"
    words = ("estimate", "--model", "llama-3.2-1b", "--workers", workers, *question.split())
    assert run(*words, cwd=tmp_path).returncode == 0
    assert run(*EXPORT.split(), cwd=tmp_path).returncode == 0
    (tmp_path / "t.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "torchrun").write_text(TORCHRUN, encoding="utf-8")
    (tmp_path / "torchrun").chmod(0o755)
    done = completed(
        ["bash", "launch/workers-0.sh", str(tmp_path)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "CUDA_VISIBLE_DEVICES": "",
        },
    )
    assert done.returncode == 0, done.stderr[-2000:]
    model = example().pieces(layers)
    inputs, targets = example().samples(16)
    for piece in model:
        inputs = piece(inputs)
    loss = torch.nn.functional.mse_loss(inputs, targets)
    loss.backward()
    said = re.search(r"loss ([\d.]+)", done.stdout)
    assert said is not None
    assert float(said[1]) == pytest.approx(loss.item(), rel=1e-6)
    found: dict[int, list[Any]] = {}
    for stage in tmp_path.glob("stage-*.pt"):
        found |= torch.load(stage)
    assert sorted(found) == list(range(len(layers)))
    for number, gradients in found.items():
        for gradient, parameter in zip(gradients, model[number].parameters(), strict=True):
            assert torch.allclose(gradient, parameter.grad, rtol=0, atol=1e-6)

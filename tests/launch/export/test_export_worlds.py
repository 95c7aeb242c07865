"""Exports start the worlds of the mesh: ranks, world sizes and sums of an all-reduce, with torch's
own torchrun on the loopback, and by what every machine of three real plans starts.
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from exports import on_path, plan_of
from rehearsed import by_hand, manifest_of
from run_plans import islands

import placer
from conftest import PROCESS_TIMEOUT_S, free_port
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.launch.mesh import mesh_of

TRAIN = """\
import gc, os
gc.disable()
import torch, torch.distributed as d
d.init_process_group('gloo')
x = torch.tensor([float(os.environ['PLACER_RANK'])])
d.all_reduce(x)
print(os.environ['PLACER_WORLD'], d.get_rank(), d.get_world_size(), f'{x.item():g}', flush=True)
d.destroy_process_group()
os._exit(0)
"""
TORCHRUN = (
    "import atexit, gc; gc.disable(); atexit.register(gc.freeze); "
    "from torch.distributed.run import main; main()"
)
"""What ``torchrun`` runs. Neither looks for garbage, nor takes PyTorch apart when it ends: half of
the time of a process that does nothing else.
"""
SAYS = 'printf "%s " "$PLACER_WORLD" "$PLACER_DP_REPLICATE" "$PLACER_DP_SHARD" "$@"'


def started(folder: Path, some: ExportPlan, path: str, **given: str) -> list[str]:
    """What the machines of the first group say, each started by its script."""
    write_folder(str(folder / "launch"), export(some, "torchrun"))
    environment = {
        **os.environ,
        "PATH": path,
        "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
        "PLACER_WORLD_ADDRESS": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        **given,
    }
    machines = [(g.name, n) for g in some.manifest.groups for n in range(g.machine_count)]
    running = [
        subprocess.Popen(
            ["bash", f"launch/{name}.sh"],
            cwd=folder,
            env={**environment, "PLACER_NODE": str(node)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, node in machines
    ]
    said = [process.communicate(timeout=PROCESS_TIMEOUT_S)[0].strip() for process in running]
    assert [process.returncode for process in running] == [0] * len(running)
    return said


def test_torchrun_makes_the_worlds_of_the_mesh(tmp_path: Path) -> None:
    """Two islands of two machines with a server between them, by torch's torchrun and gloo: two
    worlds, whose machines add up 0 + 1 and 2 + 3.
    """
    pytest.importorskip("torch")
    some = plan_of(islands("parameter-server", ("aws/us-east-1", 2, 2)))
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    stand_in = f'exec {shlex.quote(sys.executable)} -c "{TORCHRUN}" "$@"'
    path = on_path(tmp_path / "bin", torchrun=stand_in)
    said = started(tmp_path, some, path, PLACER_PORT=str(free_port()))
    assert said == ["0 0 2 1", "0 1 2 1", "1 0 2 5", "1 1 2 5"]


def planned(name: str) -> dict[str, Any]:
    """The manifest of a plan; the last one as recommended for 100 USD/h in two regions or more."""
    if name == "averaged in each step":
        return islands("all-reduce", ("aws/us-east-1", 1, 2), ("aws/us-west-2", 1, 2))
    if name == "main job":
        return placer.recommend("roberta-xlm", budget="5/h", alternatives=False).to_manifest()
    if name == "llama":
        return placer.recommend("llama-3.1-8b", budget="100/h", alternatives=False).to_manifest()
    workers = "aws/us-east-1=1x(1xH200:8):spot,aws/us-east-2=2x(1xH200:8):spot"
    words: dict[str, Any] = {"exchange": "diloco", "local_steps": 64}
    return manifest_of(*by_hand("llama-3.1-8b", "default", workers, **words))


@pytest.mark.parametrize("name", ["averaged in each step", "main job", "llama", "two regions"])
def test_every_machine_of_a_plan_joins_its_world(tmp_path: Path, name: str) -> None:
    """What each machine gives to torchrun: as many machines, processes and the place in its world
    as the mesh says; machines of a world meet at one address and port, worlds at different ports,
    and a world of one machine meets nobody.

    Before there was a mesh, two islands of two machines that average in each step were two worlds,
    and the first trained two models.
    """
    some = plan_of(planned(name))
    mesh, path = mesh_of(some.manifest), on_path(tmp_path / "bin", torchrun=SAYS)
    found = [said.split() for said in started(tmp_path, some, path)]
    expected = [
        (number, world.dp_replicate, world.dp_shard, world.machine_count, row.processes)
        for number, world in enumerate(mesh.worlds)
        for row in world.machines
        for _ in range(row.count)
    ]
    nodes = [node for world in mesh.worlds for node in range(world.machine_count)]
    ports: dict[int, set[str]] = {}
    for words_, node, row in zip(found, nodes, expected, strict=True):
        number, replicate, shard, count, processes = row
        assert [int(word) for word in words_[:3]] == [number, replicate, shard]
        given = dict(word.lstrip("-").split("=") for word in words_[3:] if "=" in word)
        assert given.get("nproc-per-node") == str(processes)
        assert given.get("nnodes", "1") == str(count)
        assert given.get("node-rank", "0") == str(node)
        assert given.get("master-addr", "127.0.0.1") == "127.0.0.1"
        ports.setdefault(number, set()).add(given.get("master-port", ""))
    assert all(len(one) == 1 for one in ports.values())
    several = {ports[n].pop() for n, world in enumerate(mesh.worlds) if world.machine_count > 1}
    assert len(several) == sum(world.machine_count > 1 for world in mesh.worlds)

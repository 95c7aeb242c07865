"""Own machines from what sinfo, kubectl, nvidia-smi and nccl-tests print."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import Run
from placer.errors import PlacerError
from placer.market.sources.machine_files import with_files

SINFO = """NODELIST NODES PARTITION STATE CPUS MEMORY GRES
node[1-3] 3 gpu idle 96 1030000 gpu:h100:8(S:0-1)
node[4-5] 2 gpu idle 96 1030000 gpu:h100:8(S:0-1)
node6 1 gpu mixed 96 1030000 gpu:h100:8(S:0-1)
node7 1 gpu idle* 96 1030000 gpu:h100:8(S:0-1)
small[1-9] 9 cpu idle 64 250000 (null)
"""
"""Five nodes can be had: one runs something, one does not answer, nine have no GPU."""


def node(name: str, gpus: str = "8", **spec: object) -> dict[str, object]:
    """A node as ``kubectl get nodes -o json`` lists it."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        "spec": spec,
        "status": {
            "allocatable": {"nvidia.com/gpu": gpus, "cpu": "127850m", "memory": "1056264052Ki"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def topo(tmp_path: Path, *rows: str) -> str:
    """Write what ``nvidia-smi topo -m`` prints; return its path."""
    names = "".join(f"\tGPU{number}" for number in range(len(rows)))
    lines = [f"{names}\tNIC0\tCPU Affinity", *(f"GPU{n}\t{row}" for n, row in enumerate(rows))]
    path = tmp_path / "topo.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_idle_nodes_of_slurm(tmp_path: Path) -> None:
    """Nodes that are alike are one kind; those that are busy or silent are counted."""
    path = tmp_path / "sinfo.txt"
    path.write_text(SINFO, encoding="utf-8")
    words, said = with_files(f"{path}@Berlin:lan=100Gb/s")
    assert words == ["node=5xh100:8@Berlin:lan=100Gb/s:ram=1030000MiB:cpus=96"]
    assert "nodes that are not idle: node6 mixed" in said
    assert "nodes that are not idle: node7 idle*" in said


def test_other_columns_of_slurm(tmp_path: Path) -> None:
    """Bars between columns, lists of nodes without their number (2 + 1 + 1), and scontrol, whose
    memory is in MB, too. Without GRES no GPU is named, which the default columns lack.
    """
    path = tmp_path / "nodes.txt"
    path.write_text(
        "HOSTNAMES|GRES|STATE|CPUS|MEMORY\n"
        "dgx[01-02,7]|gpu:h100_pcie:8|idle|96|1030000\nrtx1|gpu:h100_pcie:8|idle|96|1030000\n"
    )
    assert with_files(f"{path}@Berlin")[0] == ["dgx=4xH100-PCIe:8@Berlin:ram=1030000MiB:cpus=96"]
    path.write_text(
        "NodeName=gpu01 Arch=x86_64\n   CPUTot=128 CPULoad=0.1\n"
        "   Gres=gpu:nvidia_a100-sxm4-80gb:4(S:0-1)\n   RealMemory=515000 State=IDLE\n\n"
        "NodeName=gpu02 CPUTot=128 Gres=gpu:a100:4 RealMemory=515000 State=MIXED\n"
    )
    words, said = with_files(f"{path}@Berlin")
    assert words == ["gpu01=1xA100-80:4@Berlin:ram=515000MiB:cpus=128"]
    assert "not idle: gpu02 MIXED" in said
    path.write_text(
        "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST\ngpu up infinite 3 idle n[1-3]\n"
    )
    with pytest.raises(PlacerError, match="without the column GRES"):
        with_files(f"{path}@Berlin")


def test_states_and_divided_devices_of_slurm(tmp_path: Path) -> None:
    """A node of a cloud that is off is idle; one that drains is not, and a part of a GPU is none.
    Of 64 and more CPUs 64 count. The time that stands above a long list is no table.
    """
    path = tmp_path / "sinfo.txt"
    path.write_text(
        "Fri Nov 27 10:00:00 2026\nNODELIST NODES STATE CPUS MEMORY GRES\n"
        "dgx-[1-2] 2 IDLE+CLOUD 64+ 512000+ gpu:l40s:4\nn3 1 IDLE+DRAIN 64 512000 gpu:l40s:4\n"
        "n4 1 idle 64 512000 gpu:a100_1g.5gb:7\nn5 1 idle 64 512000 gpu:1g.10gb:7\n"
    )
    words, said = with_files(f"{path}@Berlin")
    assert words == ["dgx=2xl40s:4@Berlin:ram=512000MiB:cpus=64"]
    assert said.count("nodes whose GPUs are divided") == 2
    assert "not idle: n3 IDLE+DRAIN" in said
    path.write_text("HOSTNAMES GRES\nn1 gpu:l40s:4\n")
    assert with_files(f"{path}@Berlin")[1].endswith("nodes are idle, without the column STATE")


def test_nodes_of_kubernetes(tmp_path: Path) -> None:
    """7 and 8 free GPUs are two kinds; a cordoned node is counted, and one of shared GPUs."""
    shared: Any = node("e", "32")
    shared["metadata"]["labels"]["nvidia.com/gpu.product"] += "-SHARED"
    nodes = [node("a"), node("b", "7"), node("c"), node("d", unschedulable=True), shared]
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"kind": "List", "items": nodes}), encoding="utf-8")
    words, said = with_files(f"{path}@Zurich")
    host = ":ram=1056264052KiB:cpus=127"
    assert words == [f"a=2xA100-80:8@Zurich{host}", f"b=1xA100-80:7@Zurich{host}"]
    assert "nodes that take no pods: d" in said
    assert "nodes whose GPUs are shared or divided: e" in said
    path.write_text(json.dumps(nodes[0]), encoding="utf-8")
    assert with_files(f"{path}@Zurich")[0] == [f"a=1xA100-80:8@Zurich{host}"]


@pytest.mark.parametrize(
    ("labels", "device", "gpu"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia.com/gpu", "H100"),
        ({"cloud.google.com/gke-accelerator": "nvidia-l4"}, "nvidia.com/gpu", "l4"),
        ({"karpenter.k8s.aws/instance-gpu-name": "a10g"}, "nvidia.com/gpu", "a10g"),
        ({"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, "amd.com/gpu", "MI300X"),
    ],
)
def test_labels_of_nodes_in_yaml(
    tmp_path: Path, labels: dict[str, str], device: str, gpu: str
) -> None:
    """Managed clusters and other vendors label the device otherwise; memory may be in bytes."""
    one: Any = node("a")
    one["metadata"]["labels"] = labels
    one["status"]["allocatable"] = {device: "8", "cpu": "127", "memory": "540000000000"}
    split: Any = node("b")
    split["metadata"]["labels"]["nvidia.com/gpu.product"] += "-MIG-1g.10gb"
    path = tmp_path / "nodes.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [one, split]}))
    words, said = with_files(f"{path}@Zurich")
    assert words == [f"a=1x{gpu}:8@Zurich:ram=540000000000B:cpus=127"]
    assert "shared or divided: b" in said


def planned(type_: str, name: str, **after: object) -> dict[str, object]:
    """A change as ``terraform show -json`` prints it."""
    change = {"actions": ["create"], "after": after}
    return {"address": f"{type_}.{name}", "type": type_, "name": name, "change": change}


def test_machines_of_a_plan_of_terraform(tmp_path: Path) -> None:
    """Types are those of the default book: g5.12xlarge has 4 A10G, 48 vCPUs and 192 GiB. What has
    no GPU, no known type or no fixed number is counted; a machine that goes is not there.
    """
    t4 = {"guest_accelerator": [{"type": "nvidia-tesla-t4", "count": 2}]}
    gone = planned("aws_instance", "old", instance_type="g5.12xlarge")
    gone["change"] = {"actions": ["delete"], "after": None}
    changes = [
        planned("aws_instance", "gpu_node", instance_type="g5.12xlarge"),
        planned("aws_instance", "gpu_node", instance_type="g5.12xlarge"),
        planned("google_compute_instance", "t4", machine_type="n1-standard-8", **t4),
        planned("azurerm_linux_virtual_machine", "az", size="Standard_NC24ads_A100_v4"),
        planned("aws_instance", "web", instance_type="m5.large"),
        planned("aws_instance", "odd", instance_type="x99.huge"),
        planned("aws_autoscaling_group", "many", desired_capacity=4),
        planned("aws_vpc", "net"),
        gone,
    ]
    path = tmp_path / "plan.json"
    plan = {"format_version": "1.2", "terraform_version": "1.9.8", "resource_changes": changes}
    path.write_text(json.dumps(plan), encoding="utf-8")
    words, said = with_files(f"{path}@Berlin")
    assert words == [
        "gpu-node=2xA10G:4@Berlin:ram=192GiB:cpus=48",
        "t4=1xT4:2@Berlin:ram=30GiB:cpus=8",
        "az=1xA100-80:1@Berlin:ram=220GiB:cpus=24",
    ]
    assert "machines without a GPU: web m5.large" in said
    assert "machine that the book does not have: x99.huge" in said
    assert "groups of machines, whose number may change: aws_autoscaling_group.many" in said


def test_machines_of_a_state_of_terraform(tmp_path: Path) -> None:
    """Machines stand in modules of modules; data sources are none. On Google the L4 of a g2 is part
    of its type, and a link to an accelerator ends in its name.
    """

    def kept(type_: str, name: str, mode: str = "managed", **values: object) -> dict[str, object]:
        return {"type": type_, "name": name, "mode": mode, "address": name, "values": values}

    t4 = "https://www.googleapis.com/compute/v1/projects/p/acceleratorTypes/nvidia-tesla-t4"
    inner = kept("azurerm_virtual_machine", "b", vm_size="Standard_NC24ads_A100_v4")
    cards = [{"type": "nvidia-l4", "count": 1}]
    module = {
        "resources": [
            kept(
                "google_compute_instance",
                "c",
                machine_type="g2-standard-8",
                guest_accelerator=cards,
            )
        ],
        "child_modules": [{"resources": [inner]}],
    }
    linked = [{"type": t4, "count": 2}]
    root = {
        "resources": [
            kept(
                "google_compute_instance",
                "a",
                machine_type="n1-standard-8",
                guest_accelerator=linked,
            ),
            kept("aws_instance", "d", "data", instance_type="g5.xlarge"),
        ],
        "child_modules": [module],
    }
    path = tmp_path / "state.json"
    path.write_text(json.dumps({"terraform_version": "1.9.8", "values": {"root_module": root}}))
    assert with_files(f"{path}@Berlin")[0] == [
        "a=1xT4:2@Berlin:ram=30GiB:cpus=8",
        "c=1xL4:1@Berlin:ram=32GiB:cpus=8",
        "b=1xA100-80:1@Berlin:ram=220GiB:cpus=24",
    ]


def test_the_header_of_nvidia_smi_is_underlined(tmp_path: Path) -> None:
    """And its last title, GPU NUMA ID, is no GPU: 18 links of 25 GB/s."""
    path = tmp_path / "topo.txt"
    path.write_text(
        "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
        "GPU0\t X \tNV18\tPXB\t0-47\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\t48-95\t1\t\tN/A\n"
        "NIC0\tPXB\tSYS\t X \n"
    )
    assert with_files(f"pc=1xH100:2@Berlin:nvlink={path}")[0] == [
        "pc=1xH100:2@Berlin:nvlink=450GB/s"
    ]


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (("X\tNV12\tSYS", "NV12\tX\tSYS"), "300GB/s"),  # 12 links of 25 GB/s
        (("X\tNV4\tPHB\tSYS", "NV4\tX\tPHB\tSYS", "PHB\tPHB\tX\tSYS"), "no"),
        (("X\tNODE\tSYS", "NODE\tX\tSYS"), "no"),
    ],
)
def test_links_inside_a_machine(tmp_path: Path, rows: tuple[str, ...], word: str) -> None:
    """One pair without NVLink sends every ring over PCIe."""
    words, _ = with_files(f"pc=1xA100-80:{len(rows)}@Berlin:nvlink={topo(tmp_path, *rows)}")
    assert words == [f"pc=1xA100-80:{len(rows)}@Berlin:nvlink={word}"]


NCCL = """#       size         count      type   redop    root     time   algbw   busbw #wrong
   536870912     134217728     float     sum      -1   2803.9  191.47  335.07      0
  4294967296    1073741824     float     sum      -1  21500.0  199.77  349.59      0
# Avg bus bandwidth    : 342.3
"""
"""Of 8 devices busbw is 14/8 of algbw."""


def test_a_log_of_nccl_tests(run: Run, tmp_path: Path) -> None:
    """The largest size counts, and where the log does not belong it is named."""
    path = tmp_path / "nccl.log"
    path.write_text(NCCL, encoding="utf-8")
    words, _ = with_files(f"pc=1xH100:8@Berlin:nvlink={path}")
    assert words == ["pc=1xH100:8@Berlin:nvlink=349.59GB/s"]
    for command in (("network", "import", "csv"), ("validate",)):
        done = run(*command, "nccl.log", cwd=tmp_path)
        assert done.returncode == 2
        assert "nccl-tests: bus bandwidth 349.59 GB/s at 4 GiB" in done.stderr


@pytest.mark.parametrize("before", ["[1,0]<stdout>:", "0: "])
def test_a_log_of_nccl_tests_that_a_launcher_wrote(tmp_path: Path, before: str) -> None:
    """Both mpirun and srun put the rank before each line."""
    path = tmp_path / "nccl.log"
    path.write_text("".join(before + line for line in NCCL.splitlines(keepends=True)))
    words, _ = with_files(f"pc=1xH100:8@Berlin:nvlink={path}")
    assert words == ["pc=1xH100:8@Berlin:nvlink=349.59GB/s"]


def test_numbers_without_end_are_no_figures(tmp_path: Path) -> None:
    """Python reads no whole number of 5,000 digits."""
    path = tmp_path / "log.txt"
    path.write_text(NCCL.replace("4294967296", "9" * 5000), encoding="utf-8")
    words, _ = with_files(f"pc=1xH100:8@Berlin:nvlink={path}")
    assert words == ["pc=1xH100:8@Berlin:nvlink=335.07GB/s"]
    path.write_text(f"NODELIST GRES STATE\na[1-{'9' * 5000}] gpu:l4:4 idle\n", encoding="utf-8")
    assert "xl4:4@Berlin" in with_files(f"{path}@Berlin")[0][0]


def test_other_words_stay_as_they_are() -> None:
    """A word that names no file is read as before."""
    assert with_files("pc=1xT4@Berlin:nvlink=no") == (["pc=1xT4@Berlin:nvlink=no"], "")

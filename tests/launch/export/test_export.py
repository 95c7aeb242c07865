"""Exports of manifests: each target by its own validator where that is installed, always by its
structure.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports import (
    bash,
    by_runtime,
    changed,
    done,
    jobs_of,
    on_path,
    parsed,
    plan,
    plan_of,
    python,
    tasks_of,
    trained,
)
from other_pythons import other_python
from run_plans import islands

import placer
from conftest import Run, completed
from placer.errors import PlacerError
from placer.launch.export import OWN_TRAINERS, TARGETS, export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import difference, left_over, write_folder
from placer.launch.export.texts.files import assignments
from placer.market.books.book_reader import load_catalog
from placer.market.sources.prices.skypilot.names import skypilot_machine, skypilot_place


@pytest.fixture(scope="module")
def three() -> ExportPlan:
    """All-reduce over T4 and A10 machines: two groups of Google Cloud in two regions, one of AWS,
    as by hand.
    """
    words: dict[str, Any] = {"catalog": "erben-2023", "budget": "5/h", "regions": "2"}
    words |= {"exchange": "all-reduce", "alternatives": False}
    document = placer.recommend("roberta-xlm", **words).to_manifest()
    groups = [dict(group) for group in document["groups"][:2]]
    aws = {**groups[1]["offer"], "instance_type": "g4dn.2xlarge", "market": "on_demand"}
    groups.append(
        {
            **groups[1],
            "place": "aws/us-west-2",
            "provider": "aws",
            "region": "us-west-2",
            "offer": aws,
        }
    )
    for number, (group, count) in enumerate(zip(groups, (2, 3, 1), strict=True)):
        group.update(name=f"workers-{number}", count=count, rank_offset=(0, 2, 5)[number])
    meeting = {**document["rendezvous"], "machines": 6}
    return plan_of(changed(document, groups=groups, world_size=6, rendezvous=meeting))


@pytest.fixture(scope="module")
def server() -> ExportPlan:
    """A parameter server with a machine of its own."""
    return plan("parameter-server")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({}, ""),
        ({"train": "train.py"}, "torchtitan trains an entry of its registry, not a script"),
        ({"strategy": "central"}, "torchtitan does not do the exchange central"),
        ({"strategy": "asgd-ga"}, "torchtitan does not do the exchange asgd-ga"),
        ({"inner": {"sharding": "zero-1"}}, "torchtitan does not do the sharding zero-1"),
        ({"target_batch_size": 128}, ""),
        (
            {"target_batch_size": 250},
            "torchtitan's 32 ranks take 128 sequences at once, which do not divide the batch of "
            "250 (plan with --tbs 128 or 256)",
        ),
        ({"target_batch_size": 100}, "the batch of 100 (plan with --tbs 128)"),
    ],
)
def test_a_trainer_gets_what_it_trains_as_planned(words: dict[str, Any], says: str) -> None:
    """Four machines of 8 GPUs, with 4 sequences on each at once: 128."""
    words = {"train": "llama3:llama3_8b", **words}
    told = trained(("aws/us-east-1", 2, 2), **words)
    with pytest.raises(PlacerError, match=re.escape(says)) if says else nullcontext():
        export(told, "torchtitan")


def test_ranks_of_all_groups_make_the_world(three: ExportPlan) -> None:
    """Offsets 0, 2 and 5 with 2, 3 and 1 machines: ranks 0 to 5, each once."""
    files = export(three, "torchrun")
    variables = [assignments(files[f"workers-{n}.sh"]) for n in range(3)]
    ranks = [
        int(v["PLACER_RANK_OFFSET"]) + node
        for v in variables
        for node in range(int(v["PLACER_GROUP_SIZE"]))
    ]
    assert ranks == list(range(6))
    assert {v["PLACER_WORLD_MACHINES"] for v in variables} == {"6"}


def inner_scripts(files: dict[str, str], folder: Path) -> list[str]:
    """Scripts within YAML as files: setup and run of tasks, arguments of containers."""
    folder.mkdir()
    found = []
    for name, body in files.items():
        for document in yaml.safe_load_all(body) if name.endswith(".yaml") else ():
            jobs = document.get("spec", {}).get("replicatedJobs", ())
            services = [
                *document.get("services", {}).values(),
                *(j["template"]["spec"]["template"]["spec"]["containers"][0] for j in jobs),
            ]
            found += [document[key] for key in ("setup", "run") if key in document]
            found += [
                service["command"][2].replace("$$", "$")
                for service in services
                if "command" in service
            ]
    for number, text in enumerate(found):
        (folder / f"{number}.sh").write_text(
            f"#!/bin/bash\n# shellcheck disable=SC1091,SC2154\n{text}", encoding="utf-8"
        )
    return [str(folder / f"{number}.sh") for number in range(len(found))]


def test_scripts_pass_bash_and_shellcheck(
    three: ExportPlan, server: ExportPlan, some_islands: ExportPlan, tmp_path: Path
) -> None:
    """All scripts of two targets parse; shellcheck, where it is installed, has nothing to say."""
    names: list[str] = []
    scripts = [
        ("torchrun", three),
        ("hivemind", three),
        ("torchrun", server),
        ("torchrun", plan("central")),
        ("torchrun", some_islands),
    ]
    for target, some in (*scripts, ("torchrun", by_runtime(three))):
        folder = tmp_path / str(len(names))
        write_folder(str(folder), export(some, target))
        names += [str(file) for file in folder.glob("*.sh")]
    for target, some in (
        ("skypilot", by_runtime(three)),
        ("jobset", by_runtime(server)),
        ("compose", by_runtime(plan("hierarchical"))),
        ("skypilot", some_islands),
        ("trainjob", some_islands),
        ("compose", some_islands),
    ):
        names += inner_scripts(export(some, target), tmp_path / f"inner-{target}-{len(names)}")
    for name in names:
        subprocess.run(["bash", "-n", name], check=True)
    shellcheck = os.environ.get("PLACER_SHELLCHECK") or shutil.which(
        "shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    )
    if shellcheck:
        done = completed([shellcheck, "--shell=bash", *names])
        assert done.returncode == 0, done.stdout


def test_a_script_starts_torchrun_with_its_rank(three: ExportPlan, tmp_path: Path) -> None:
    """Machine 2 of the second group has rank 4; machine 3 does not exist, and without an address
    nothing starts.
    """
    write_folder(str(tmp_path / "launch"), export(three, "torchrun"))
    for file in (tmp_path / "launch").iterdir():
        assert bool(file.stat().st_mode & 0o100) == (file.suffix == ".sh"), file.name
        assert file.stat().st_mode & 0o600 == 0o600, file.name
    given = {"PATH": on_path(tmp_path, torchrun='echo "$@"'), "GLOO_SOCKET_IFNAME": "wg0"}
    script, address = str(tmp_path / "launch/workers-1.sh"), "PLACER_RENDEZVOUS_ADDRESS"

    def start(**variables: str) -> subprocess.CompletedProcess[str]:
        return bash(script, "--epochs", "2", given={**given, address: "10.0.0.1", **variables})

    assert (
        "--nnodes=6 --node-rank=4 --nproc-per-node=1 --master-addr=10.0.0.1 "
        "--master-port=29400 train.py --epochs 2"
    ) in start(PLACER_NODE="2").stdout
    assert "has only 3, counted from 0" in start(PLACER_NODE="3").stderr
    # 010 would be 8 in arithmetic of the shell, the last a negative rank
    for wrong in ("x", "-1", "01", "010", "9223372036854775808"):
        assert f"is not a number from 0: {wrong}" in start(PLACER_NODE=wrong).stderr
    for missing, words in (
        ({}, "PLACER_NODE: set it to the number of this machine"),
        ({"PLACER_NODE": "0", address: ""}, f"{address}: set it to an address of rank 0"),
        ({"PLACER_NODE": "0", "GLOO_SOCKET_IFNAME": ""}, "GLOO_SOCKET_IFNAME: the machines are"),
    ):
        done = start(**missing)
        assert (done.returncode, done.stderr[: len(words)]) == (2, words)


def test_skypilot_runs_the_server_beside_the_workers(server: ExportPlan) -> None:
    """It is no primary task: when the workers are done it goes."""
    header, *tasks = parsed(server, "skypilot")
    assert header["primary_tasks"] == [group.name for group in server.manifest.groups]
    assert tasks[-1]["name"] == "server"
    assert "server" in [job["name"] for job in jobs_of(server)]
    assert tasks[-1]["envs"]["PLACER_RANK_OFFSET"] == str(server.manifest.world_size)


def here(path: Path, folder: Path) -> None:
    """Give tasks a folder that is there, wherever their file is loaded."""
    text = path.read_text(encoding="utf-8").replace('workdir: "."', "workdir: .")
    path.write_text(text.replace("workdir: .", f"workdir: {folder}"), encoding="utf-8")


@pytest.mark.other_python
def test_skypilot_loads_the_job_group(
    three: ExportPlan, server: ExportPlan, some_islands: ExportPlan, tmp_path: Path
) -> None:
    """By SkyPilot's own loader: parallel, and nothing has to be given at launch but the key of the
    overlay: the buckets where the tasks meet and keep checkpoints have names.
    """
    executable = other_python("sky", "PLACER_SKYPILOT_PYTHON")
    code = (
        "import json, sys\nfrom sky.utils import dag_utils\nfound = []\n"
        "for path in sys.argv[1:]:\n"
        "    dag = dag_utils.load_dag_from_yaml(path, secrets_overrides=[('TS_AUTHKEY', 'x')])\n"
        "    rows = [(t.name, t.num_nodes, str(r.cloud).lower(), r.region, r.instance_type, "
        "r.use_spot)"
        " for t in dag.tasks for r in t.resources]\n"
        "    found.append([dag.name, dag.is_job_group(), dag.execution.value, rows])\n"
        "    found[-1].append(sorted({m.name for t in dag.tasks for m in "
        "t.storage_mounts.values()}))\n"
        "print('found', json.dumps(found))\n"
    )
    paths = []
    asked = (three, server, by_runtime(three), by_runtime(server), some_islands)
    for number, some in enumerate(asked):
        write_folder(str(tmp_path / f"sky-{number}"), export(some, "skypilot"))
        paths.append(tmp_path / f"sky-{number}" / "skypilot.yaml")
        here(paths[-1], tmp_path)
    said = python(executable, code, *map(str, paths), home=tmp_path)
    first, second, *runtime, last = json.loads(said.split("found ", 1)[1])
    assert runtime == [first, second]
    assert first[:3] == [three.manifest.name, True, "parallel"]
    groups = [
        [
            g.name,
            g.count,
            *g.place.split("/"),
            g.offer.instance_type.split("+")[0],
            g.offer.market == "spot",
        ]
        for g in three.manifest.groups
    ]
    assert first[3] == groups
    digest = three.manifest.digest[:16]
    assert first[4] == [f"placer-checkpoints-{digest}", f"placer-meeting-{digest}"]
    assert [row[0] for row in second[3]] == ["workers-0", "workers-1", "server"]
    islands_of = [("workers-0-0", 2), ("workers-0-1", 2), ("workers-1", 3)]
    assert [tuple(row[:2]) for row in last[3]] == islands_of


def at_runpod(three: ExportPlan) -> ExportPlan:
    """The plan with its first two groups at RunPod."""
    groups = [dict(group) for group in json.loads(three.text)["groups"]]
    there = (("EU-SE-1", "1x_A100-SXM"), ("US-KS-2", "1x_H100-PCIE"))
    for group, (region, machine) in zip(groups, there, strict=False):
        group |= {"provider": "runpod", "region": region, "place": f"runpod/{region}"}
        group["offer"] = {**group["offer"], "instance_type": machine}
    return plan_of(changed(json.loads(three.text), groups=groups))


def test_runpod_has_the_names_and_limits_of_skypilot(three: ExportPlan) -> None:
    """Data centre EU-SE-1 is a zone of SE; a task has one machine there, so two and three machines
    are five tasks with the ranks 0 to 4. They mount no bucket: the launch asks for one, which no
    launch at clouds that mount buckets does.
    """
    tasks = tasks_of(at_runpod(three))
    assert [(task["name"], task["num_nodes"]) for task in tasks] == [
        *((f"workers-0-{n}", 1) for n in range(2)),
        *((f"workers-1-{n}", 1) for n in range(3)),
        ("workers-2", 1),
    ]
    assert [task["envs"]["PLACER_RANK_OFFSET"] for task in tasks] == list("012345")
    assert {task["envs"]["PLACER_GROUP_SIZE"] for task in tasks} == {"1"}
    assert tasks[0]["resources"]["infra"] == "runpod/SE/EU-SE-1"
    assert tasks[0]["resources"]["instance_type"] == "1x_A100-80GB-SXM_SECURE"
    assert tasks[4]["resources"]["infra"] == "runpod/US/US-KS-2"
    assert tasks[4]["resources"]["instance_type"] == "1x_H100_SECURE"
    assert all(task["envs"]["PLACER_MEETING"] is None for task in tasks)
    assert not any("file_mounts" in task for task in tasks[:5])
    assert "/placer-meeting" not in tasks[5]["file_mounts"]
    asked = "--env PLACER_MEETING=s3://BUCKET --secret TS_AUTHKEY"
    readme = export(at_runpod(three), "skypilot")["README.md"]
    assert f"sky jobs launch {asked} skypilot.yaml" in readme
    mounted = tasks_of(three)
    assert {task["envs"]["PLACER_MEETING"] for task in mounted} == {"/placer-meeting"}
    assert "PLACER_MEETING=" not in export(three, "skypilot")["README.md"]


def test_islands_of_machines_at_runpod_are_refused_by_skypilot(some_islands: ExportPlan) -> None:
    """SkyPilot joins no machines there; islands of one machine are tasks of their own."""
    document = json.loads(some_islands.text)
    first, *others = document["groups"]
    first |= {"provider": "runpod", "region": "EU-SE-1", "place": "runpod/EU-SE-1"}
    first["offer"]["instance_type"] = "8x_H100-SXM"
    with pytest.raises(PlacerError, match="machines of runpod cannot be joined to islands"):
        export(plan_of(changed(document, groups=[first, *others])), "skypilot")


@pytest.mark.other_python
def test_every_place_of_runpod_is_one_of_skypilot(three: ExportPlan, tmp_path: Path) -> None:
    """By its own validation, with a catalog of all data centres and devices that its fetcher names
    (which no network is needed for), and its provisioner knows each device.
    """
    executable = other_python("sky", "PLACER_SKYPILOT_PYTHON")
    code = (
        "import ast, json, os, pathlib, sys, sky\n"
        "from sky.provision.runpod.utils import GPU_NAME_MAP\n"
        "fetcher = pathlib.Path(sky.__file__).parent / 'catalog/data_fetchers/fetch_runpod.py'\n"
        "named = {(node.targets[0] if hasattr(node, 'targets') else node.target).id: node.value"
        " for node in ast.parse(fetcher.read_text()).body"
        " if isinstance(node, (ast.Assign, ast.AnnAssign))}\n"
        "zones = ast.literal_eval(named['REGION_ZONES'])\n"
        "gpus = ast.literal_eval(named['DEFAULT_GPU_INFO'])\n"
        "file = pathlib.Path.home() / '.sky/catalogs/v8/runpod/vms.csv'\n"
        "file.parent.mkdir(parents=True)\n"
        "rows = [f'{n}x_{gpu}_SECURE,{gpu},{n},8,64,{region},1,2,{zone},' for gpu in gpus"
        " for n in (1, 8) for region in zones for zone in zones[region]]\n"
        "file.write_text('InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,"
        "SpotPrice,Price,AvailabilityZone,GpuInfo\\n' + '\\n'.join(rows) + '\\n')\n"
        "for row in json.loads(sys.argv[1]):\n"
        "    task = sky.Task.from_yaml_config({'run': 'true', 'resources': row})\n"
        "    (one,) = task.resources\n"
        "    one.validate()\n"
        "    assert one.instance_type.split('_')[1] in GPU_NAME_MAP, one\n"
        "    assert one.zone in zones[one.region], one\n"
        "print('all', len(json.loads(sys.argv[1])))\n"
    )
    book = load_catalog("default")
    machines = {
        (offer.region, offer.instance_type)
        for offer in book.offers
        if offer.provider == "runpod" and not offer.gpu.startswith("B300")
    }  # of 11/2026: the provisioner of SkyPilot 0.14 has no B300
    regions, types = ({row[n] for row in machines} for n in (0, 1))
    each = {(region, "1x_A100-SXM") for region in regions} | {("US-KS-2", one) for one in types}
    rows = [
        {
            "infra": skypilot_place("runpod", region),
            "instance_type": skypilot_machine("runpod", machine),
            "use_spot": False,
        }
        for region, machine in sorted(each)
    ]
    assert len(rows) >= 30  # all data centres, and all machines in one of them
    assert f"all {len(rows)}" in python(executable, code, json.dumps(rows), home=tmp_path)
    for place in {offer.place for offer in book.offers if offer.provider == "runpod"}:
        region = book.region(place)
        assert skypilot_place("runpod", region.region).split("/")[1] == region.country


@pytest.mark.parametrize("target", sorted({*TARGETS} - {"cloudformation", *OWN_TRAINERS, "slurm"}))
def test_no_parenthesis_is_escaped(three: ExportPlan, target: str) -> None:
    """In names, tables or commands of any file: a machine of Erben et al. is called DGX-2
    (8 x V100), which only labels and SkyPilot cannot hold.
    """
    groups, named = json.loads(three.text)["groups"], target in ("torchrun", "compose")
    if named:
        groups[0]["offer"]["instance_type"] = "DGX-2 (8 x V100)"
    files = export(plan_of(changed(json.loads(three.text), groups=groups)), target)
    assert ("DGX-2 (8 x V100)" in files["README.md"]) == named
    assert not any("\\(" in body or "\\)" in body for body in files.values())


def test_one_group_of_skypilot_needs_no_address() -> None:
    """Within a task SkyPilot's own addresses serve; one worker asks for nothing at all."""
    several = plan("all-reduce", regions="1", workers="3..3")
    (task,) = tasks_of(several)
    assert "PLACER_RENDEZVOUS_ADDRESS" not in task["envs"]
    assert "SKYPILOT_NODE_IPS" in task["run"]
    one = plan("auto", regions="1", workers="1..1")
    for target in sorted(set(TARGETS) - {"cloudformation", *OWN_TRAINERS}):
        assert "README.md" in export(one, target)
    assert "--standalone" in export(one, "torchrun")["workers-0.sh"]


def test_hivemind_gets_its_own_arguments() -> None:
    """With local steps an epoch of hivemind is 4 target batches, and updates are local."""
    local = plan("local-sgd", local_steps="4")
    optimizer = json.loads(export(local, "hivemind")["optimizer.json"])["optimizer"]
    assert optimizer["target_batch_size"] == local.manifest.exchange.target_batch_size * 4
    assert optimizer["use_local_updates"]
    with pytest.raises(PlacerError, match="hivemind does not do the exchange central"):
        export(plan("central"), "hivemind")


@pytest.mark.other_python
def test_hivemind_knows_every_argument(three: ExportPlan, tmp_path: Path) -> None:
    """By the signature of hivemind.Optimizer and the names of its compressions."""
    executable = other_python("hivemind", "PLACER_HIVEMIND_PYTHON")
    code = (
        "import inspect, json, sys, hivemind, hivemind.compression as c\n"
        "p = json.loads(sys.argv[1])\n"
        "assert set(p['optimizer']) <= "
        "set(inspect.signature(hivemind.Optimizer.__init__).parameters)\n"
        "assert isinstance(getattr(c, p['grad_compression'])(), c.CompressionBase)\nprint('ok')\n"
    )
    assert "ok" in python(
        executable, code, export(three, "hivemind")["optimizer.json"], home=tmp_path
    )


def test_long_names_leave_room_for_pods(three: ExportPlan) -> None:
    """Pods are named SET-JOB-0-INDEX and are hosts: 63 letters at most, the first a letter. Numbers
    of job and pod have twelve of them.
    """
    long = plan_of(changed(json.loads(three.text), name="7" + "x" * 62))
    first = parsed(long, "jobset")[0]
    name = first["metadata"]["name"]
    assert name.startswith("run-7")
    assert len(name + first["spec"]["replicatedJobs"][0]["name"]) == 63 - 12
    names = {job["metadata"]["name"] for job in parsed(long, "trainjob")}
    assert len(names) == 3
    assert {len(f"{name}-node") for name in names} == {63 - 12}


@pytest.mark.other_python
def test_kubeflow_types_hold_the_objects(
    three: ExportPlan, some_islands: ExportPlan, tmp_path: Path
) -> None:
    """TrainJobs and JobSets go through the types of kubeflow-trainer-api and come back the same."""
    executable = other_python("kubeflow_trainer_api", "PLACER_KUBEFLOW_PYTHON")
    code = (
        "import json, sys\nfrom kubeflow_trainer_api import models\n"
        "kinds = {'TrainJob': models.TrainerV1alpha1TrainJob, 'JobSet': "
        "models.JobsetV1alpha2JobSet}\n"
        "for item in json.load(open(sys.argv[1])):\n"
        "    again = json.loads(kinds[item['kind']].from_dict(item).to_json())\n"
        "    assert again == item, (again, item)\n"
        "print('ok')\n"
    )
    asked = [
        (some, t)
        for t in ("trainjob", "jobset")
        for some in (three, by_runtime(three), some_islands)
    ]
    items = [item for some, target in asked for item in parsed(some, target)]
    assert len(items) == 12 + 3 + 2  # three islands, in two clusters
    (tmp_path / "items.json").write_text(json.dumps(items), encoding="utf-8")
    assert "ok" in python(executable, code, str(tmp_path / "items.json"), home=tmp_path)


@pytest.mark.other_python
def test_kubernetes_takes_the_jobs(
    three: ExportPlan, some_islands: ExportPlan, tmp_path: Path
) -> None:
    """Every job of a JobSet, with its pods, has the schema of Kubernetes, and no key more."""
    executable = other_python("kubernetes_validate", "PLACER_KUBEFLOW_PYTHON")
    head = {"apiVersion": "batch/v1", "kind": "Job"}
    jobs = [
        {**head, "metadata": {"name": job["name"]}, **job["template"]}
        for some in (three, by_runtime(three), some_islands)
        for job in jobs_of(some)
    ]
    path = tmp_path / "jobs.yaml"
    path.write_text(yaml.safe_dump_all(jobs), encoding="utf-8")
    program = str(Path(executable).with_name("kubernetes-validate"))
    ended = done([program, "--strict", str(path)], dict(os.environ), tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len(jobs) == 3 + 3 + 3


@pytest.mark.other_python
def test_compose_files_follow_the_specification(
    three: ExportPlan, server: ExportPlan, some_islands: ExportPlan, tmp_path: Path
) -> None:
    """By the JSON Schema of the Compose Specification, as check-jsonschema ships it; a misspelt key
    is refused by it.
    """
    executable = other_python("check_jsonschema", "PLACER_CHECK_JSONSCHEMA_PYTHON")
    code = (
        "import sys\nfrom check_jsonschema import main\n"
        "try:\n    main(['--builtin-schema', 'vendor.compose-spec', *sys.argv[1:]])\n"
        "except SystemExit as end:\n    print('refused' if end.code else 'fine')\n"
    )
    paths = []
    stores = (plan("central"), plan("hierarchical"), by_runtime(plan("central")))
    for number, one in enumerate((three, server, *stores, by_runtime(three), some_islands)):
        paths.append(tmp_path / f"compose-{number}.yaml")
        paths[-1].write_text(export(one, "compose")["compose.yaml"], encoding="utf-8")
    assert "fine" in python(executable, code, *map(str, paths), home=tmp_path)
    wrong = yaml.safe_load(paths[0].read_text())
    wrong["services"]["workers-0-0"]["enviroment"] = {}
    paths[0].write_text(yaml.safe_dump(wrong))
    assert "refused" in python(executable, code, str(paths[0]), home=tmp_path)


@pytest.mark.parametrize(
    ("places", "market", "spot"),
    [
        ("azure/*", "spot", {"kubernetes.azure.com/scalesetpriority": "spot"}),
        ("azure/*", "on-demand", {}),
        ("aws/*", "spot", {"eks.amazonaws.com/capacityType": "SPOT"}),
    ],
)
def test_pods_ask_for_nodes_of_their_market(places: str, market: str, spot: dict[str, str]) -> None:
    """Azure alone keeps other pods off its spot nodes; pods on demand want none of these."""
    words: dict[str, Any] = {"places": places, "market": market, "exchange": "all-reduce"}
    answer = placer.recommend(
        "roberta-xlm", budget="30/h", workers="2", alternatives=False, **words
    )
    for job in jobs_of(by_runtime(plan_of(answer.to_manifest()))):
        pod = job["template"]["spec"]["template"]["spec"]
        chosen = {
            k: v for k, v in pod["nodeSelector"].items() if not k.startswith(("node.", "topo"))
        }
        assert chosen == spot
        keys = [each["key"] for each in pod["tolerations"]]
        assert keys == [key for key in spot if places == "azure/*"]


def test_words_of_the_caller_are_checked(three: ExportPlan) -> None:
    """Paths and images with anything that a shell or Docker would read otherwise are refused."""
    images: tuple[str, ...] = (
        "a b",
        "$(x)",
        "a//b",
        "a:",
        "a:b:c",
        "a@sha256:12",
        "A/b c",
        "café:1",
    )
    images += ("a-" * 40 + "!", "a." * 40 + "!")
    wrong = [{"train": train} for train in ("a b.py", "-m evil", "")]
    for words in (*wrong, *({"image": image} for image in images)):
        with pytest.raises(PlacerError, match=r"is not a valid (path|name of a container)"):
            plan_of(json.loads(three.text), **words)
    for image in (
        "ubuntu",
        "ghcr.io/me/train:1",
        "localhost:5000/a/b",
        "123.dkr.ecr.us-east-1.amazonaws.com/x_y:v1.0",
        f"pytorch/pytorch:2.8.0-cuda12.8@sha256:{'0a' * 32}",
    ):
        assert plan_of(json.loads(three.text), image=image).image == image
    with pytest.raises(PlacerError, match="a similar target exists: 'skypilot'"):
        export(three, "skypilto")


def test_a_folder_is_whole_or_as_it_was(tmp_path: Path) -> None:
    """A file that cannot be written (a name of 300 letters) leaves neither the new folder nor a
    change of the old one.
    """
    folder = tmp_path / "launch"
    with pytest.raises(PlacerError, match="cannot write"):
        write_folder(str(folder), {"manifest.json": "{}", "x" * 300: "long"})
    assert list(tmp_path.iterdir()) == []
    write_folder(str(folder), {"manifest.json": "{}", "a.sh": "one"})
    with pytest.raises(PlacerError, match="cannot write"):
        write_folder(str(folder), {"manifest.json": "{}", "a.sh": "two", "x" * 300: "long"})
    assert (folder / "a.sh").read_text(encoding="utf-8") == "one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["launch"]


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    """A folder that is no export, a file, no parent, no name; links are replaced, not followed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x", encoding="utf-8")
    for wrong, words in (
        ("mine", "holds files, but no export"),
        ("mine/thesis.txt", "not the name of a folder"),
        ("no/such", "parent folder"),
    ):
        with pytest.raises(PlacerError, match=words):
            write_folder(str(tmp_path / wrong), {"manifest.json": "{}"})
    for wrong in ("", "a\0b", "/"):
        with pytest.raises(PlacerError, match="not the name of a folder"):
            write_folder(wrong, {"manifest.json": "{}"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text("{}", encoding="utf-8")
    (tmp_path / "out" / "a.sh").symlink_to(tmp_path / "mine" / "thesis.txt")
    write_folder(str(tmp_path / "out"), {"manifest.json": "{}", "a.sh": "new"})
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "x"


def test_what_an_earlier_export_left_goes_and_other_files_stay(
    three: ExportPlan, tmp_path: Path
) -> None:
    """The script of a group that is gone would start a wrong rank; the training script beside it is
    the user's.
    """
    folder = str(tmp_path / "launch")
    write_folder(folder, export(three, "torchrun"))
    (tmp_path / "launch" / "train.py").write_text("pass", encoding="utf-8")
    one = export(plan("auto", regions="1", workers="1..1"), "torchrun")
    assert left_over(folder, one) == ["meet.py", "workers-1.sh", "workers-2.sh"]
    assert f"--- {folder}/workers-1.sh" in difference(folder, one)
    write_folder(folder, one)
    left = {"README.md", "manifest.json", "train.py", "workers-0.sh"}
    assert {path.name for path in (tmp_path / "launch").iterdir()} == left
    assert difference(folder, one) == ""


def test_the_command_writes_lists_and_compares(run: Run, tmp_path: Path, three: ExportPlan) -> None:
    """Files on stdout, next step on stderr; --diff writes nothing; --json lists the files."""
    (tmp_path / "plan.json").write_text(three.text, encoding="utf-8")
    words = ("export", "plan.json", "--to", "skypilot", "--dir", "launch")
    first = run(*words, "--diff", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert "+execution: parallel" in first.stdout
    assert not (tmp_path / "launch").exists()
    files = json.loads(run(*words, "--json", cwd=tmp_path).stdout)["files"]
    assert [file["name"] for file in files] == [
        "README.md",
        "manifest.json",
        "meet.py",
        "skypilot.yaml",
    ]
    assert "no difference" in run(*words, "--diff", cwd=tmp_path).stdout


def test_the_command_takes_a_result_and_edits_on_demand(
    run: Run, tmp_path: Path, three: ExportPlan
) -> None:
    """A saved result is priced again first; an edited manifest needs --edited, and its files say
    so.
    """
    words: dict[str, Any] = {"catalog": "phalak-2023", "budget": "3/h", "places": "aws/*"}
    saved = placer.recommend(
        "niser", exchange="central", workers="2..4", regions="2", **words
    ).to_saved()
    (tmp_path / "result.json").write_text(json.dumps(saved), encoding="utf-8")
    edited = json.dumps({**json.loads(three.text), "name": "mine"})
    (tmp_path / "edited.json").write_text(edited, encoding="utf-8")

    def exported(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        return run("export", name, "--to", "torchrun", "--dir", name[:6], *more, cwd=tmp_path)

    assert exported("result.json").returncode == 0
    refused = exported("edited.json")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 2)
    assert "--edited" in refused.stderr
    assert exported("edited.json", "--edited").returncode == 0
    assert "edited by hand" in (tmp_path / "edited/workers-0.sh").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def some_islands() -> ExportPlan:
    """All-reduce between two islands of two machines with 8 GPUs in one region of AWS, and one of
    three machines in another.
    """
    inner = {"sharding": "hybrid", "checkpointing": "full", "microbatch": 4, "precision": "bf16"}
    told = islands(
        "local-sgd", ("aws/us-east-1", 2, 2), ("aws/us-west-2", 1, 3), gpu_count=8, inner=inner
    )
    return plan_of(told)


def test_ranks_partition_islands_machines_and_groups(some_islands: ExportPlan) -> None:
    """Machines 0 and 1 are island 0, 2 and 3 island 1, 4 to 6 island 2; targets that start each
    island by itself say the same.
    """
    scripts = export(some_islands, "torchrun")
    by_group = [assignments(scripts[f"workers-{n}.sh"]) for n in range(2)]
    by_island = [task["envs"] for task in tasks_of(some_islands)]
    for rows in (by_group, by_island):
        machines = [
            (
                int(row["PLACER_RANK_OFFSET"]) + node,
                int(row["PLACER_WORLD_OFFSET"]) + node // int(row["PLACER_WORLD_STEP"]),
            )
            for row in rows
            for node in range(int(row["PLACER_GROUP_SIZE"]))
        ]
        assert machines == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]
    assert {row["PLACER_WORKERS"] for row in by_group} == {"3"}
    assert (by_group[0]["PLACER_WORLDS"], by_group[0]["PLACER_SHARDING"]) == ("3", "hybrid")
    assert (by_group[0]["PLACER_PROCESSES"], by_group[0]["PLACER_MICROBATCH"]) == ("8", "4")


def test_each_island_is_a_task_a_replicated_job_and_a_train_job(some_islands: ExportPlan) -> None:
    """Of 2, 2 and 3 machines, each with the address of its own first machine."""
    names = ["workers-0-0", "workers-0-1", "workers-1"]
    tasks = tasks_of(some_islands)
    assert [(task["name"], task["num_nodes"]) for task in tasks] == list(
        zip(names, (2, 2, 3), strict=True)
    )
    assert all("SKYPILOT_NODE_IPS" in task["run"] for task in tasks)
    sets = parsed(some_islands, "jobset")
    jobs = [(one["metadata"]["name"], j) for one in sets for j in one["spec"]["replicatedJobs"]]
    assert [job["name"] for _, job in jobs] == names
    for set_name, job in jobs:
        assert job["template"]["spec"]["parallelism"] in (2, 3)
        environment = job["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
        address = f"{set_name}-{job['name']}-0-0.{set_name}"
        name = "RENDEZVOUS" if job["name"] == names[0] else "WORLD"
        assert {"name": f"PLACER_{name}_ADDRESS", "value": address} in environment
    train = parsed(some_islands, "trainjob")
    assert [job["spec"]["trainer"]["numNodes"] for job in train] == [2, 2, 3]
    services = parsed(some_islands, "compose")[0]["services"]
    first = {name: s["environment"]["PLACER_WORLD_ADDRESS"] for name, s in services.items()}
    assert first == {
        "workers-0-0": "workers-0-0",
        "workers-0-1": "workers-0-0",
        "workers-0-2": "workers-0-2",
        "workers-0-3": "workers-0-2",
        **{f"workers-1-{n}": "workers-1-0" for n in range(3)},
    }


def test_an_island_is_not_called_as_another_group(some_islands: ExportPlan) -> None:
    """Else one task would replace another."""
    document = json.loads(some_islands.text)
    groups = [document["groups"][0], {**document["groups"][1], "name": "workers-0-1"}]
    with pytest.raises(PlacerError, match="would be called as group workers-0-1"):
        export(plan_of(changed(document, groups=groups)), "skypilot")

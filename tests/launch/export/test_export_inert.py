"""No text of a manifest takes effect in an export: what a parser or a shell reads back is what was
written into the manifest.
"""

import copy
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from exports import bash, changed, done, on_path, plan, plan_of, python
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from other_pythons import other_python
from run_plans import ARCHITECTURE

from placer.errors import PlacerError
from placer.launch.export import TARGETS, export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.files import LOADER, assignments

PROBE = "PWN"
"""File that a hostile name tries to make; it must never appear."""
HOSTILE = [
    f"$(touch {PROBE})",
    f"`touch {PROBE}`",
    f"a'; touch {PROBE}; echo 'b",
    f'a"; touch {PROBE}; echo "b',
    f"line one\ntouch {PROBE}\n# line three",
    f"\n---\nevil: true\n!!python/object/apply:os.system ['touch {PROBE}']",
    "${HOME} $HOME $$ $(JOB_COMPLETION_INDEX) {{resolve:ssm:/a}} ${AWS::AccountId}",
    "us-east-1'; touch PWN #",
    "yes",
    "12e3",
    "0x1F",
    "~",
    "- a: [b, {c: *d}]",
    " leading and trailing \t ",
    "\u2028\u0085\ufeff😀",
    "-rf --flag",
    "a\\'b\\\nc",
    "| a | `b` <script>x</script> [c](javascript:d)",
    "",
    "{{ name }}",
    "{% include start.sh %}",
]
FREE = {
    "model": ("name",),
    "offer": ("instance_type", "gpu", "as_of"),
    "group": ("place", "provider", "region"),
    "exchange": ("compression",),
    "aggregator": ("place", "function"),
    "storage": ("place", "store"),
    "bucket": ("place", "store"),
    "inputs": ("catalog", "digest", "profile_digest", "as_of"),
}
"""Strings of a manifest that are not from a closed set of names."""
PLANS = {
    "none": {"workers": "1..1", "regions": "1", "exchange": "auto"},
    **{
        name: {"exchange": name, "workers": "2..3", "regions": "1..2"}
        for name in ("all-reduce", "parameter-server", "hierarchical")
    },
}
CHECKED_WORDS = {
    "hivemind": ("compression",),
    "cloudformation": ("compression", "place", "provider", "region"),
    "torchtitan": ("compression", "place", "provider", "region"),
    "megatron": ("compression", "place", "provider", "region"),
    "skypilot": ("place", "provider", "region", "instance_type"),
    "jobset": ("place", "region", "instance_type"),
    "trainjob": ("region", "instance_type"),
}
"""Fields that a target checks and refuses: they keep their values there."""
ONLY_SCRIPTS = ("hivemind", "cloudformation", "torchtitan", "megatron")
"""Targets that placer's own runtime does not start from."""
RUNS = {
    "hivemind": ["none", "all-reduce"],
    "cloudformation": ["hierarchical"],
    "trainjob": ["none", "all-reduce", "hierarchical"],
    "slurm": ["none", "parameter-server", "hierarchical"],
    "torchtitan": ["islands"],
    "megatron": ["islands"],
}
"""Kinds of plans that a target takes; the others take all."""
ENTRIES = {"torchtitan": "llama3:llama3_8b", "megatron": "megatron.bridge.recipes:some_config"}
"""Entries of registries, which are all that these targets train."""
TRAINS = ("train.py", "mymodel:workload")
"""A script of the user's, and a function for placer's own runtime."""
RUNTIME = {
    "compose": sorted(PLANS),
    "trainjob": ["none", "all-reduce"],
    "slurm": ["none", "parameter-server"],
}
"""Kinds of plans that the runtime takes in a target; in the others it takes those that need no
function.
"""
text = st.text(
    alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30
) | st.sampled_from(HOSTILE)


@pytest.fixture(scope="module")
def plans() -> dict[str, dict[str, Any]]:
    """A manifest of each kind."""
    made = {name: json.loads(plan(**words).text) for name, words in PLANS.items()}
    return {**made, "islands": with_islands(made["all-reduce"])}


def with_islands(document: dict[str, Any]) -> dict[str, Any]:
    """The plan with an inner plan in each worker, of a model with an architecture."""
    inner = {"sharding": "none", "tensor_parallel": 1, "checkpointing": "full", "microbatch": 1}
    inner["precision"] = "bf16"
    told = copy.deepcopy(document)
    for group in told["groups"]:
        group |= {"machines": 1, "inner": inner}
        group["offer"]["gpu"] = "T4"
    told["exchange"]["compression"] = "none"
    told["question"]["profile"]["architecture"] = ARCHITECTURE
    return changed(told, schema="placer.manifest/v2")


def parts(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Objects of a manifest by the keys of FREE."""
    yield from (
        (name, document[name])
        for name in ("model", "exchange", "aggregator", "storage", "inputs")
        if document[name]
    )
    for group in document["groups"]:
        yield "group", group
        yield "offer", group["offer"]
    yield from (("bucket", bucket) for bucket in document["buckets"])


def poisoned(
    document: dict[str, Any], value: str, target: str, train: str = TRAINS[0]
) -> ExportPlan:
    """The plan with a value in every free string, its digest right again; placer's runtime checks
    the compression.
    """
    kept = (*CHECKED_WORDS.get(target, ()), *(["compression"] if ":" in train else []))
    told = copy.deepcopy(document)
    for name, part in parts(told):
        for key in FREE[name]:
            if key in part and key not in kept:
                part[key] = value
    if told["data"]["assumption"]:
        told["data"]["assumption"] = value
    for group in told["groups"]:
        group["data"]["store"] = value
    told["expected"]["samples_to_target"]["source"] = value
    return plan_of(changed(told), train=train)


def scripts_of(files: dict[str, str]) -> list[str]:
    """Shell scripts of an export: files of their own, and arguments of containers with the doubled
    dollars undone.
    """
    found = [
        body
        for name, body in files.items()
        if name.endswith((".sh", ".sbatch")) and name != "bootstrap.sh"
    ]
    for name, body in files.items():
        if name.endswith(".yaml"):
            for document in yaml.load_all(body, Loader=LOADER):
                found += [command[2].replace("$$", "$") for command in commands(document)]
    return found


def commands(part: Any) -> Iterator[list[str]]:
    """Commands of containers, however deep."""
    if isinstance(part, dict):
        if isinstance(part.get("command"), list):
            yield part["command"]
        for value in part.values():
            yield from commands(value)
    elif isinstance(part, list):
        for value in part:
            yield from commands(value)


def strings(part: Any) -> Iterator[str]:
    """Strings of a parsed document, keys apart."""
    if isinstance(part, dict):
        for value in part.values():
            yield from strings(value)
    elif isinstance(part, list):
        for value in part:
            yield from strings(value)
    elif isinstance(part, str):
        yield part


def blocks(readme: str) -> str:
    """Commands of a README without their comments."""
    inside = re.findall(r"```bash\n(.*?)```", readme, flags=re.DOTALL)
    return "\n".join(line.split("    #")[0] for block in inside for line in block.splitlines())


@pytest.mark.parametrize("target", sorted(TARGETS))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), value=text)
def test_whatever_a_name_holds_every_export_reads_it_back(
    plans: dict[str, dict[str, Any]], target: str, data: Any, value: str
) -> None:
    """Variables, values of YAML and copies of the manifest equal the name; commands to type hold
    nothing of it.
    """
    train = data.draw(st.sampled_from(TRAINS[: 1 if target in ONLY_SCRIPTS else 2]))
    runs = (
        RUNS.get(target, sorted(PLANS))
        if train == TRAINS[0]
        else RUNTIME.get(target, ["none", "all-reduce", "parameter-server"])
    )
    train = ENTRIES.get(target, train)
    files = export(poisoned(plans[data.draw(st.sampled_from(runs))], value, target, train), target)
    for script in scripts_of(files):
        assert assignments(script)["PLACER_MODEL"] == value
        # A parameter server reads no data.
        assert assignments(script).get("PLACER_DATA_STORE", value) == value
    if target == "skypilot":
        header, *tasks = yaml.safe_load_all(files["skypilot.yaml"])
        assert header["execution"] == "parallel"
        assert [task["envs"]["PLACER_MODEL"] for task in tasks] == [value] * len(tasks)
        assert tasks[0]["resources"]["infra"].startswith("aws/")
    if target == "jobset":
        found = [yaml.safe_load(body) for name, body in files.items() if name.endswith(".yaml")]
        assert {one["metadata"]["annotations"]["placer/model"] for one in found} == {value}
    if target == "compose":
        services = yaml.safe_load(files["compose.yaml"])["services"].values()
        labels = [service["labels"] for service in services if "labels" in service]
        assert all(one["placer.place"].replace("$$", "$") == value for one in labels)
    assert json.loads(files["manifest.json"])["model"]["name"] == value
    assert re.fullmatch(
        r"[A-Za-z0-9_./:=<>, \n-]*", blocks(files["README.md"]).replace('"$PLACER_RANK"', "")
    )
    assert "<script" not in files["README.md"]


@pytest.mark.parametrize("target", ["skypilot", "jobset", "trainjob"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=text, key=st.sampled_from(("provider", "region", "instance_type")))
def test_names_that_a_target_cannot_hold_are_refused(
    plans: dict[str, dict[str, Any]], target: str, value: str, key: str
) -> None:
    """A place that SkyPilot rents nothing in and a label that no node can have: one line. What is
    taken is what the target's rules allow.
    """
    document = copy.deepcopy(plans["all-reduce"])
    for group in document["groups"]:
        (group["offer"] if key == "instance_type" else group)[key] = value
        group["place"] = f"{group['provider']}/{group['region']}"
    some = plan_of(changed(document))
    try:
        files = export(some, target)
    except PlacerError as error:
        refused = str(error)
        files = {}
    if not files:
        assert len(refused.splitlines()) == 1
        return
    if target == "skypilot":
        assert re.fullmatch(r"[A-Za-z0-9_.+-]+", value)
        _, task, *_ = yaml.safe_load_all(files["skypilot.yaml"])
        assert value in task["resources"]["infra"] + task["resources"]["instance_type"]
    elif key != "provider":
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", value)


SKYPILOT = """
import json, sys
from sky.utils import dag_utils
for name in sys.argv[2:]:
    value = json.load(open(f"{name}.json"))
    for task in dag_utils.load_dag_from_yaml(f"{name}.yaml").tasks:
        assert task.envs["PLACER_MODEL"] == value, (name, task.envs["PLACER_MODEL"], value)
        assert task.envs["PLACER_DATA_STORE"] == value
"""
KUBEFLOW = """
import json, sys
from kubeflow_trainer_api import models
kinds = {"TrainJob": models.TrainerV1alpha1TrainJob, "JobSet": models.JobsetV1alpha2JobSet}
for name in sys.argv[2:]:
    item, value = json.load(open(f"{name}.item.json")), json.load(open(f"{name}.json"))
    again = json.loads(kinds[item["kind"]].from_dict(item).to_json())
    assert again == item, name
    assert again["metadata"]["annotations"]["placer/model"] == value, name
"""
COMPOSE = """
import sys
from check_jsonschema import main
files = [f"{name}.yaml" for name in sys.argv[2:]]
try:
    main(["--builtin-schema", "vendor.compose-spec", *files])
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.other_python
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "module", "variable", "code"),
    [
        ("skypilot", "sky", "PLACER_SKYPILOT_PYTHON", SKYPILOT),
        ("jobset", "kubeflow_trainer_api", "PLACER_KUBEFLOW_PYTHON", KUBEFLOW),
        ("trainjob", "kubeflow_trainer_api", "PLACER_KUBEFLOW_PYTHON", KUBEFLOW),
        ("compose", "check_jsonschema", "PLACER_CHECK_JSONSCHEMA_PYTHON", COMPOSE),
    ],
)
def test_the_parser_of_the_target_reads_hostile_names_back(
    plans: dict[str, dict[str, Any]],
    tmp_path: Path,
    target: str,
    module: str,
    variable: str,
    code: str,
) -> None:
    """Every hostile name and a hundred random ones, by what reads the files in the end."""
    executable = other_python(module, variable)
    drawn = random.Random(16)
    letters = "aZ09 '\"`$(){}[]<>&|;:,.*?!#%@~^=+-/_\\\n\t\r\u0085\u2028é字😀\x07\x1b"
    values = [*HOSTILE, *("".join(drawn.choices(letters, k=12)) for _ in range(100))]
    names = []
    for number, value in enumerate(values):
        train = TRAINS[number % 2]
        files = export(poisoned(plans["all-reduce"], value, target, train), target)
        for name, body in files.items():
            if name.endswith(".yaml"):
                names.append(f"{number}-{name.removesuffix('.yaml')}")
                (tmp_path / f"{names[-1]}.yaml").write_text(body, encoding="utf-8", newline="")
                (tmp_path / f"{names[-1]}.json").write_text(json.dumps(value), encoding="utf-8")
                items = list(yaml.safe_load_all(body))
                (tmp_path / f"{names[-1]}.item.json").write_text(json.dumps(items[0]))
    python(executable, code, "-", *names, home=tmp_path)


@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_kubectl_reads_hostile_names_back(
    plans: dict[str, dict[str, Any]], tmp_path: Path, target: str
) -> None:
    """By kubectl's own parser (its kustomize needs no cluster), for names that are hostile in YAML;
    without U+0085, which kubectl reads and writes as it is and PyYAML reads as the end of a line.
    """
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    for number, value in enumerate((HOSTILE[5], HOSTILE[6], HOSTILE[9], HOSTILE[16])):
        folder = tmp_path / str(number)
        folder.mkdir()
        files = export(poisoned(plans["all-reduce"], value, target), target)
        name = next(name for name in sorted(files) if name.endswith(".yaml"))
        (folder / name).write_text(files[name], encoding="utf-8", newline="")
        (folder / "kustomization.yaml").write_text(f"resources: [{name}]\n", encoding="utf-8")
        ended = done([kubectl, "kustomize", str(folder)], dict(os.environ), folder)
        assert ended.returncode == 0, ended.stderr
        assert yaml.safe_load(ended.stdout) == yaml.safe_load(files[name])


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=text)
@example(value=f"$(touch {PROBE})")
@example(value=f"a'; touch {PROBE}; echo 'b")
@example(value=f"line one\ntouch {PROBE}\n# line three")
def test_scripts_that_run_make_no_file(plans: dict[str, dict[str, Any]], value: str) -> None:
    """All scripts of a plan, run with stand-ins for what they start: the variable arrives whole,
    the probe does not appear.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        says = 'printf %s "$PLACER_MODEL" > seen'
        environment = {
            "PATH": on_path(home, torchrun=says, python3=says, placer=says),
            "PLACER_NODE": "0",
            "JOB_COMPLETION_INDEX": "0",
            "LC_ALL": "C.UTF-8",
            "PLACER_RENDEZVOUS_ADDRESS": "127.0.0.1",
            "PLACER_INITIAL_PEERS": "/ip4/127.0.0.1/tcp/1/p2p/x",
        }
        places = [(target, TRAINS[0]) for target in ("torchrun", "hivemind", "jobset")]
        for target, train in (
            *places,
            *((target, TRAINS[1]) for target in ("torchrun", "jobset", "compose")),
        ):
            files = export(poisoned(plans["all-reduce"], value, target, train), target)
            for script in scripts_of(files)[:1]:
                (home / "script.sh").write_bytes(script.encode())
                assert bash("script.sh", cwd=home, given=environment).returncode == 0
                assert (home / "seen").read_bytes().decode() == value
                (home / "seen").unlink()
                assert not (home / PROBE).exists()


@pytest.mark.parametrize("value", ["a\0b", "\ud83d"])
def test_text_that_no_shell_can_hold_is_refused(
    plans: dict[str, dict[str, Any]], value: str
) -> None:
    """NUL and half a surrogate pair: one line that names the field."""
    with pytest.raises(PlacerError, match=r"model\.name holds"):
        poisoned(
            {**plans["none"], "model": {**plans["none"]["model"], "name": value}}, value, "torchrun"
        )

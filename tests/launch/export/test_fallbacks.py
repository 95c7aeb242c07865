"""Fallbacks of a plan in exports: tried by SkyPilot itself, or in folders of their own."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from exports import bash, by_runtime, changed, plan, plan_of, python, tasks_of
from other_pythons import other_python
from test_export import here

import placer
from placer.cli.launch.manifests import export_command
from placer.errors import PlacerError
from placer.launch.export import export, tried_together
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.records import replace


def moved(some: ExportPlan, region: str, *, provider: str = "aws", **group: Any) -> ExportPlan:
    """The plan of one group in another region."""
    document = json.loads(some.text)
    (one,) = document["groups"]
    place = {"provider": provider, "region": region, "place": f"{provider}/{region}"}
    return plan_of(changed(document, groups=[{**one, **place, **group}]))


@pytest.fixture(scope="module")
def one() -> ExportPlan:
    """Three workers of one region of AWS."""
    return plan("all-reduce", regions="1", workers="3..3")


@pytest.fixture(scope="module")
def ordered(one: ExportPlan) -> ExportPlan:
    """The same with another region, one machine less, and a third region behind it."""
    (group,) = json.loads(one.text)["groups"]
    spot = {**group["offer"], "market": "spot", "usd_per_hour": 0.5}
    document = json.loads(moved(one, "eu-west-1").text)
    smaller = plan_of(
        changed(
            document,
            groups=[{**document["groups"][0], "count": 2}],
            world_size=2,
            rendezvous={**document["rendezvous"], "machines": 2},
        )
    )
    others = (moved(one, "eu-west-2", offer=spot), smaller, moved(one, "eu-west-3"))
    return replace(one, fallbacks=others)


def start_of(
    some: ExportPlan, says: str, region: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run the first lines of the one task in bash, as SkyPilot would where it found machines."""
    (task,) = tasks_of(some)
    told = json.dumps({"cluster_name": "c", "cloud": "AWS", "region": region, "zone": None})
    code = task["run"].split('eval "$taken"')[0] + f'eval "$taken"\n{says}'
    given = {"PATH": os.environ["PATH"], **task["envs"], "SKYPILOT_CLUSTER_INFO": told}
    return bash("-c", code, cwd=folder, given=given)


def test_skypilot_tries_regions_in_order(one: ExportPlan, ordered: ExportPlan) -> None:
    """Fallbacks with as many nodes are resources of the same task; one with fewer has its own
    folder.
    """
    assert tried_together(ordered, "skypilot") == (1, 3)
    files = export(ordered, "skypilot")
    (task,) = tasks_of(ordered)
    assert [(found["infra"], found["use_spot"]) for found in task["resources"]["ordered"]] == [
        (one.manifest.groups[0].place, False),
        ("aws/eu-west-2", True),
        ("aws/eu-west-3", False),
    ]
    assert {"manifest-fallback-1.json", "manifest-fallback-3.json"} <= set(files)
    assert "manifest-fallback-2.json" not in files
    assert "`-fallback-2`" in files["README.md"]
    assert "ordered" not in tasks_of(one)[0]["resources"]
    assert "fallback" not in export(one, "skypilot")["README.md"]


def test_two_placements_in_one_region_cannot_be_told_apart(one: ExportPlan) -> None:
    """SkyPilot tells a task cloud and region alone."""
    (group,) = json.loads(one.text)["groups"]
    spot = {**group["offer"], "market": "spot"}
    again = moved(one, group["region"], offer=spot)
    assert tried_together(replace(one, fallbacks=(again,)), "skypilot") == ()


def test_a_task_takes_the_variables_of_the_region_that_it_got(
    ordered: ExportPlan, tmp_path: Path
) -> None:
    """The start of the task in bash, as SkyPilot would run it: place, market and manifest are those
    of the region; a region that the plan does not have ends it.
    """
    says = 'echo "$PLACER_PLACE $PLACER_MARKET $PLACER_MANIFEST_FILE $PLACER_WORLD_MACHINES"'
    here = ordered.manifest.groups[0]
    for region, expected in (
        ("eu-west-2", "aws/eu-west-2 spot manifest-fallback-1.json 3\n"),
        (here.region, f"{here.place} on_demand manifest.json 3\n"),
    ):
        assert start_of(ordered, says, region, tmp_path).stdout == expected
    lost = start_of(ordered, says, "us-gov-east-1", tmp_path)
    assert (lost.returncode, lost.stdout) == (2, "")
    assert "no placement in aws/us-gov-east-1" in lost.stderr


def test_a_hostile_name_in_a_fallback_takes_no_effect(one: ExportPlan, tmp_path: Path) -> None:
    """What a shell reads back of a place's variables is what the manifest says."""
    name = "a'; touch PWN; echo 'b $(touch PWN)\n`touch PWN`"
    other = moved(one, "eu-west-2")
    document = json.loads(other.text)
    document["model"] = {**document["model"], "name": name}
    hostile = plan_of(changed(document))
    some = replace(one, fallbacks=(hostile,))
    done = start_of(some, 'printf %s "$PLACER_MODEL"', "eu-west-2", tmp_path)
    assert done.stdout == name
    assert not (tmp_path / "PWN").exists()


def test_the_runtime_reads_the_manifest_of_the_placement_that_was_taken(
    ordered: ExportPlan,
) -> None:
    """`placer run` checks the manifest, so it must be that of the region."""
    others = tuple(by_runtime(other) for other in ordered.fallbacks)
    (task,) = tasks_of(replace(by_runtime(ordered), fallbacks=others))
    assert 'placer run "$PLACER_MANIFEST_FILE"' in task["run"]


@pytest.mark.other_python
def test_skypilot_loads_the_ordered_resources(ordered: ExportPlan, tmp_path: Path) -> None:
    """By SkyPilot's own loader: a list of resources, in the order of the plan."""
    executable = other_python("sky", "PLACER_SKYPILOT_PYTHON")
    write_folder(str(tmp_path / "sky"), export(ordered, "skypilot"))
    path = tmp_path / "sky" / "skypilot.yaml"
    here(path, tmp_path)
    code = (
        "import json, sys\nfrom sky.utils import dag_utils\n"
        "(task,) = dag_utils.load_dag_from_yaml(sys.argv[1]).tasks\n"
        "assert isinstance(task.resources, list)\n"
        "print('found', json.dumps([[r.region, r.use_spot, r.instance_type] "
        "for r in task.resources]), task.num_nodes)\n"
    )
    said = python(executable, code, str(path), home=tmp_path).split("found ", 1)[1]
    rows, nodes = said.rsplit(" ", 1)
    group = ordered.manifest.groups[0]
    assert int(nodes) == 3
    assert json.loads(rows) == [
        [group.region, False, group.offer.instance_type],
        ["eu-west-2", True, group.offer.instance_type],
        ["eu-west-3", False, group.offer.instance_type],
    ]


@pytest.mark.parametrize(("target", "apart"), [("skypilot", [2]), ("torchrun", [1, 2, 3])])
def test_the_command_writes_a_folder_for_what_is_not_tried_by_itself(
    ordered: ExportPlan, tmp_path: Path, target: str, apart: list[int]
) -> None:
    """Each folder is an export of its own; the README of the first says the order."""
    files = [tmp_path / f"plan-{n}.json" for n in range(4)]
    for file, some in zip(files, (ordered, *ordered.fallbacks), strict=True):
        file.write_text(some.text, encoding="utf-8")
    words = [word for file in files[1:] for word in ("--fallback", str(file))]
    folder = tmp_path / "out"
    asked = [str(files[0]), "--to", target, "--dir", str(folder), *words]
    done = CliRunner().invoke(export_command, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["fallbacks"]
    assert [row["tried_by_itself"] for row in told] == [n not in apart for n in (1, 2, 3)]
    for number, row in enumerate(told, start=1):
        at = f"{folder}-fallback-{number}" if number in apart else str(folder)
        assert row["dir"] == at
        assert (Path(at) / "README.md").is_file()
    words_of = (folder / "README.md").read_text(encoding="utf-8")
    assert "## If machines are not available" in words_of
    assert words_of.count("folder whose name ends") == len(apart)
    again = CliRunner().invoke(export_command, [*asked, "--diff"])
    assert "no difference" in again.stdout
    alone = CliRunner().invoke(export_command, [*asked[: -len(words)], "--json"])
    gone = [f"manifest-fallback-{n}.json" for n in (1, 2, 3) if n not in apart]
    assert json.loads(alone.stdout)["removed"] == gone


def test_a_fallback_that_is_no_manifest_is_refused(one: ExportPlan, tmp_path: Path) -> None:
    """One line that names the file, and nothing is written."""
    (tmp_path / "plan.json").write_text(one.text, encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    folder = tmp_path / "out"
    words = ["--to", "skypilot", "--dir", str(folder), "--fallback", str(tmp_path / "other.json")]
    done = CliRunner().invoke(export_command, [str(tmp_path / "plan.json"), *words])
    assert isinstance(done.exception, PlacerError)
    assert "other.json" in str(done.exception)
    assert not folder.exists()


def test_python_names_each_fallback(one: ExportPlan) -> None:
    """Two behind the plan, in their order; one that is wrong is named by its number."""
    others = [json.loads(moved(one, region).text) for region in ("us-west-2", "eu-west-1")]
    found = placer.export(json.loads(one.text), "skypilot", fallbacks=others)
    regions = [
        group["region"]
        for told in found.plan.fallbacks
        for group in json.loads(told.text)["groups"]
    ]
    assert regions == ["us-west-2", "eu-west-1"]
    with pytest.raises(PlacerError, match="fallback 2"):
        placer.export(json.loads(one.text), "skypilot", fallbacks=(others[0], {"schema": "none"}))

"""The image, the compose file and the Kubernetes manifests: by their own tools where these are
installed (the extra ``validators``), and by what placer knows of itself.
"""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from other_pythons import other_python

from conftest import ROOT, completed
from placer.cli import cli

FOLDER = ROOT / "examples" / "service"
IMAGE = (FOLDER / "Containerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS = FOLDER / "kubernetes" / "placer.yaml"
OBJECTS: dict[tuple[str, str], Any] = {
    (one["kind"], one["metadata"]["name"]): one
    for one in yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8"))
}
BESIDE = str(Path(sys.executable).parent)
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=BESIDE)
DEPLOYMENT = OBJECTS["Deployment", "placer"]["spec"]["template"]["spec"]
CRON = OBJECTS["CronJob", "placer-refresh"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def check_options(words: list[str]) -> None:
    """A command of placer that exists, with options that it has."""
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_commands_are_those_of_placer() -> None:
    """Of the image, of compose and of the cluster, with the names of their options."""
    check_options(yaml.safe_load(IMAGE.rpartition("CMD ")[2]))
    check_options(list(COMPOSE["services"]["serve"]["command"]))
    check_options(list(DEPLOYMENT["containers"][0]["args"]))
    scripts = [*COMPOSE["services"]["refresh"]["entrypoint"], *CRON["containers"][0]["args"]]
    calls = re.findall(r"python -m placer ([^&\n]+)", "\n".join(scripts))
    assert len(calls) == 4
    for call in calls:
        check_options(shlex.split(call))


def test_nothing_runs_as_root() -> None:
    """In the image, in compose and in the cluster; no privileges, no writable image."""
    users = re.findall(r"^USER (\S+)", IMAGE, flags=re.M)
    assert users == ["10001:10001"]
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
    for pod in (DEPLOYMENT, CRON):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }


def test_policies_and_services_choose_the_pods() -> None:
    """By labels that the pods have; nothing goes out of the service."""
    for kind, name, component in (
        ("Service", "placer", "serve"),
        ("NetworkPolicy", "placer-serve", "serve"),
        ("NetworkPolicy", "placer-refresh", "refresh"),
    ):
        spec = OBJECTS[kind, name]["spec"]
        chosen = spec["selector"] if kind == "Service" else spec["podSelector"]["matchLabels"]
        assert chosen["app.kubernetes.io/component"] == component
    assert OBJECTS["NetworkPolicy", "placer-serve"]["spec"]["egress"] == []
    labels = OBJECTS["Deployment", "placer"]["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= OBJECTS["Service", "placer"]["spec"]["selector"].items()


def validated(module: str, *words: str) -> None:
    """Run a validator; its exit code says what it thinks."""
    program = Path(other_python(module, "PLACER_KUBEFLOW_PYTHON")).with_name(words[0])
    done = completed([str(program), *words[1:]], timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.other_python
def test_validators_find_nothing() -> None:
    """The schema of the Compose Specification, the schemas of Kubernetes."""
    compose, manifests = str(FOLDER / "compose.yaml"), str(MANIFESTS)
    validated("kubernetes_validate", "kubernetes-validate", "--strict", manifests)
    words = ("--builtin-schema", "vendor.compose-spec", compose)
    validated("check_jsonschema", "check-jsonschema", *words)


@pytest.mark.skipif(HADOLINT is None, reason="needs hadolint")
def test_hadolint_finds_nothing() -> None:
    """The image of the service."""
    done = completed([str(HADOLINT), str(FOLDER / "Containerfile")])
    assert done.returncode == 0, done.stdout + done.stderr

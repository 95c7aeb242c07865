"""The GitHub Action and the hook of pre-commit: valid, and run as their runners do."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from other_pythons import other_python

from conftest import ROOT, Run, completed

ASKED = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023")
ACTION = ROOT / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"


@pytest.fixture
def results(tmp_path: Path, run: Run) -> Path:
    """A repository whose result.json costs 1.88 USD/h in its last commit and 4.80 now."""
    result = tmp_path / "result.json"
    run(*ASKED, "--budget", "2/h", "-o", str(result))
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(tmp_path)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Ask"]):
        subprocess.run([*git, *words], check=True)
    result.rename(tmp_path / "before.json")
    run(*ASKED, "--budget", "5/h", "-o", str(result))
    return tmp_path


def running(words: list[str], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that finds placer as it does where it is installed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return completed(words, cwd=cwd, env={**os.environ, "PATH": path, **variables})


@pytest.mark.parametrize(
    ("fail_on", "code"), [("", 0), ("cost>200%\nspeed<-5%\n", 0), ("cost>200%\ncost>10%", 6)]
)
def test_the_action_writes_a_summary(results: Path, fail_on: str, code: int) -> None:
    """As GitHub runs its last step: ``bash -eo pipefail``, inputs as variables."""
    step: dict[str, Any] = yaml.safe_load(ACTION.read_text())["runs"]["steps"][-1]
    given = {"BEFORE": "before.json", "AFTER": "result.json", "FAIL_ON": fail_on}
    assert {*given} == {*step["env"]}
    summary = results / "summary.md"
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = running(words, results, **given, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == code, done.stderr
    assert "| cost" in summary.read_text()


def test_an_input_of_the_action_is_no_command(results: Path) -> None:
    """A name that a shell would run is the name of a file that is not there."""
    step = yaml.safe_load(ACTION.read_text())["runs"]["steps"][-1]
    assert "${{" not in step["run"]
    given = {"BEFORE": "$(touch planted)", "AFTER": "result.json", "FAIL_ON": "$(touch planted)"}
    summary = str(results / "summary.md")
    words = ["bash", "-eo", "pipefail", "-c", step["run"]]
    assert running(words, results, **given, GITHUB_STEP_SUMMARY=summary).returncode == 2
    assert not (results / "planted").exists()


@pytest.mark.parametrize(
    ("options", "code"), [((), 0), (("--fail-on", "cost>200%"), 0), (("--fail-on", "cost>10%"), 6)]
)
def test_the_hook_compares_with_the_last_commit(
    results: Path, options: tuple[str, ...], code: int
) -> None:
    """As pre-commit runs it: the words of ``entry``, the ``args``, then the files. A file that is
    new is compared with nothing.
    """
    (hook,) = yaml.safe_load(HOOKS.read_text())
    (results / "result-new.json").write_bytes((results / "result.json").read_bytes())
    words = [*shlex.split(hook["entry"]), *options, "result-new.json", "result.json"]
    done = running(words, results)
    assert done.returncode == code, done.stderr
    assert done.stdout.count("cost a month") == 1


@pytest.mark.other_python
def test_the_action_and_the_hook_follow_their_schemas() -> None:
    """That of GitHub for the metadata of actions, and what pre-commit itself checks."""
    python = other_python("check_jsonschema", "PLACER_CHECK_JSONSCHEMA_PYTHON")
    checks = (
        ["check_jsonschema", "--builtin-schema", "vendor.github-actions", str(ACTION)],
        ["pre_commit", "validate-manifest", str(HOOKS)],
    )
    for words in checks:
        done = running([python, "-m", *words], ROOT)
        assert done.returncode == 0, done.stdout + done.stderr

"""Shell completion of values: what a shell gets when it asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, completed
from placer.cli import COMMANDS, FORMS, cli
from placer.cli.group import loaded
from placer.cli.screen.completed_values import ARGUMENTS, VALUES

ASKED = [
    ("recommend --model rob", ["roberta-base", "roberta-large", "roberta-xlm"]),
    ("recommend --catalog erben-2023 --in l", ["lambda/*", "lambda/us-west-1"]),
    ("recommend --catalog erben-2023 --in gcp/us-west1,la", ["gcp/us-west1,lambda/*"]),
    ("recommend --catalog erben-2023 --gpu T4,A", ["T4,A10"]),
    ("recommend --market s", ["spot"]),
    ("recommend --solver ex", ["exact", "exhaustive"]),
    ("recommend --objective cost", ["cost", "cost-per-sample"]),
    ("recommend --exchange dil", ["diloco"]),
    ("offers --format c", ["csv"]),
    ("export plan.json --to sky", ["skypilot"]),
    ("offers --catalog er", ["erben-2023"]),
    ("catalog show int", ["intellect-1"]),
    ("models llama-3.1-7", ["llama-3.1-70b"]),
    ("reproduce ph", ["phalak"]),
    ("--completion z", ["zsh"]),
]


def answer(run: Run, shell: str, words: str) -> list[str]:
    """Ask for completions as a shell does, and return them without their kind."""
    position = str(len(words.split()))
    asked = {"COMP_WORDS": f"placer {words}", "COMP_CWORD": position}
    if shell == "fish":
        asked["COMP_CWORD"] = words.rsplit(maxsplit=1)[-1]
    done = run(_PLACER_COMPLETE=f"{shell}_complete", PYTHONPATH=str(ROOT), **asked)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    if shell == "zsh":
        assert set(lines[::3]) <= {"plain", "file"}
        return lines[1::3]
    return [line.split(",", 1)[1] for line in lines]


@pytest.mark.parametrize(("words", "expected"), ASKED, ids=[words for words, _ in ASKED])
def test_bash_completes_values(
    words: str, expected: list[str], monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Models, places, GPUs, markets, targets, catalogs and others; after a comma the next one."""
    assert answer(run, "bash", words)[: len(expected)] == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same(run: Run, shell: str) -> None:
    """Each in its own protocol."""
    for words, expected in ASKED[:2]:
        assert answer(run, shell, words) == expected


@pytest.mark.parametrize("words", ["recommend --model ./pro", "recommend --catalog nope --in l"])
def test_where_no_name_begins_so_nothing_fails(run: Run, words: str) -> None:
    """Files are looked for, and no error is printed."""
    assert len(answer(run, "bash", words)) <= 1


def test_the_script_of_bash_completes(tmp_path: Path) -> None:
    """In a real bash: the script is read, its function called, and the reply is what is there."""
    shim = tmp_path / "placer"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m placer "$@"\n')
    shim.chmod(0o755)
    script = (
        'eval "$(placer --completion bash)"; COMP_WORDS=(placer recommend --market s); '
        'COMP_CWORD=3; _placer_completion placer; echo "${COMPREPLY[@]}"'
    )
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    done = completed(["bash", "-c", script], check=True, env=environment)
    assert done.stdout.split() == ["spot"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells_are_read_by_them(run: Run, shell: str, tmp_path: Path) -> None:
    """Their own parser finds no error, where they are installed."""
    script = tmp_path / f"placer.{shell}"
    script.write_text(run("--completion", shell).stdout)
    assert "_PLACER_COMPLETE" in script.read_text()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", str(script)], check=True, timeout=PROCESS_TIMEOUT_S)


def test_completed_options_exist() -> None:
    """Each name of the tables is that of an option or argument of some command."""
    context = click.Context(cli)
    options: set[str | None] = set()
    arguments: set[tuple[str | None, str | None]] = set()

    def walk(command: click.Command | None) -> None:
        assert command is not None
        for param in command.params:
            if isinstance(param, click.Argument):
                arguments.add((command.name, param.name))
            else:
                options.add(param.name)
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                walk(command.get_command(context, name))

    for name in COMMANDS:
        walk(cli.get_command(context, name))
    for form in {path for forms in FORMS.values() for path in forms.values()}:
        walk(loaded(form))
    assert set(VALUES) <= options
    assert set(ARGUMENTS) <= arguments

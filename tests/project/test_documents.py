"""README commands and snippets run as they are written; examples: test_examples.py."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run

README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line.replace("\\\n", " "))[1:]
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.S)
    for line in re.findall(r"^\$ (placer (?:.*\\\n)*.*)$", block, flags=re.M)
]
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda a: " ".join(a)[:60])
def test_readme_commands_run(run: Run, arguments: list[str], tmp_path: Path) -> None:
    """In a folder that holds nothing but the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_readme_has_commands_and_snippets() -> None:
    """The parser above finds them."""
    assert len(COMMANDS) >= 5
    assert SNIPPETS


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_readme_snippets_run(snippet: str) -> None:
    """As they stand."""
    subprocess.run(
        [sys.executable, "-c", snippet],
        check=True,
        capture_output=True,
        cwd=ROOT,
        timeout=PROCESS_TIMEOUT_S,
    )

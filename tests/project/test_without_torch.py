"""placer where PyTorch is not installed: everything but the profiler works, and that names what to
install.
"""

import os
import subprocess
import sys

from conftest import ROOT, completed
from placer.cli import COMMANDS

BLOCK = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "transformers", "hivemind"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""
"""Makes every import of PyTorch fail as it does where it is not installed."""
EVERY_HELP = """
import click, contextlib, io
from placer.cli import cli

def walk(command, words):
    yield words
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from walk(command.get_command(click.Context(command), name), [*words, name])

count = 0
for words in walk(cli, []):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = cli.main([*words, "--help"], prog_name="placer", standalone_mode=False)
    assert not code, (words, code)
    assert "Usage: placer" in said.getvalue(), words
    count += 1
print(count, "torch" in sys.modules)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own that finds no PyTorch."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    return completed([sys.executable, "-c", BLOCK + code], env=environment)


def test_every_help_and_module_needs_no_torch() -> None:
    """``placer --help`` and that of each command and of each command of a group, profile too; and
    all modules of profiler and commands: PyTorch is imported inside functions alone. That the main
    job loads none says test_layers.py.
    """
    files = [
        path for room in ("profiler", "cli") for path in (ROOT / "placer" / room).rglob("*.py")
    ]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    ]
    modules = f"import importlib\nfor name in {names!r}: importlib.import_module(name)"
    done = python(f"{EVERY_HELP}\n{modules}")
    assert done.returncode == 0, done.stderr
    count, loaded = done.stdout.split()
    assert int(count) > len(COMMANDS)
    assert loaded == "False"


def test_the_profiler_names_what_to_install() -> None:
    """Exit 2 and the pip line, for a built-in model and for the measurement of a host; nothing is
    written.
    """
    code = """
from placer.errors import PlacerError
from placer.profiler.host.averaging import measure_host
from placer.profiler.target import load_target
for call in (lambda: measure_host(), lambda: load_target(None, "lstm")):
    try:
        call()
    except PlacerError as error:
        assert error.exit_code == 2
        assert "pip install 'placer-advisor[profile]'" in error.hint
        print("named")
"""
    done = python(code)
    assert done.stdout.split() == ["named", "named"], done.stderr
    said = python("from placer.cli import run\nrun(['profile', '--builtin', 'lstm'])")
    assert said.returncode == 2, said.stderr
    assert "pip install 'placer-advisor[profile]'" in said.stderr
    assert "Traceback" not in said.stderr

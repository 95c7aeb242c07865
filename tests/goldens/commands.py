"""Commands of placer as goldens run them: each in a fork of a warm process, in a new folder, on a
day that does not pass.
"""

import hashlib
import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from command_server import CommandServer

from conftest import ROOT, home_with_book

CLOCK = Path(__file__).parent / "clock"
FIXTURES = ROOT / "tests" / "fixtures"
LINKS = {
    "examples": ROOT / "examples",
    "fixtures": FIXTURES,
    "saved": FIXTURES / "saved",
    "whole_book": ROOT / "tests" / "benchmarks" / "whole_book",
}
"""What commands find in their folder, so that no message has the path of this checkout."""
TIMEOUT_S = 300.0
ENVIRONMENT = {"NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
LEFT_OUT = re.compile(r"PLACER_|COLUMNS|LINES|FORCE_COLOR|TERM|TZ|PYTHONPATH")
"""Variables of the caller that would change what is printed."""


@cache
def server() -> CommandServer:
    """The warm process of this process."""
    return CommandServer(environment())


def environment(**more: str) -> dict[str, str]:
    """The environment of commands: nothing of the caller's that placer reads."""
    kept = {name: text for name, text in os.environ.items() if not LEFT_OUT.match(name)}
    return {**kept, **ENVIRONMENT, "PYTHONPATH": f"{CLOCK}{os.pathsep}{ROOT}", **more}


class Folder:
    """A new folder with a home in it, in which commands run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.home = home_with_book(path / "home")
        for name, target in LINKS.items():
            (path / name).symlink_to(target)

    def run(self, line: str, columns: int = 100) -> subprocess.CompletedProcess[str]:
        """Run commands separated by `` ; `` and return the last one; the others must end well."""
        variables = environment(PLACER_HOME=str(self.home), COLUMNS=str(columns))
        for words in line.split(" ; "):
            done = server().run(shlex.split(words), self.path, variables, TIMEOUT_S)
            assert line.endswith(words) or done.returncode == 0, f"placer {words}: {done.stderr}"
        return done

    def plain(self, text: str) -> str:
        """Replace what differs from run to run and from checkout to checkout."""
        for path, name in ((self.path, "FOLDER"), (ROOT, "CHECKOUT")):
            text = text.replace(str(path), name)
        return text


@contextmanager
def folder() -> Iterator[Folder]:
    """Make a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as made:
        yield Folder(Path(made).resolve())


def screen(line: str, *widths: int) -> str:
    """Show what a command prints on both streams, its exit code, and the files that it leaves where
    it fails, at each width.
    """
    shown = []
    for columns in widths:
        with folder() as here:
            before = {*here.path.iterdir()}
            done = here.run(line, columns)
            parts = [f"$ placer {line}    # {columns} columns, exit code {done.returncode}\n"]
            parts += [done.stdout, *(["--- stderr\n", done.stderr] if done.stderr else [])]
            if done.returncode:
                parts += [f"--- left {path}\n" for path in {*here.path.iterdir()} - before]
            shown.append(here.plain("".join(parts)))
    return "\n".join(shown)


def laid_out(document: Any, width: int = 140) -> str:
    """Write JSON with sorted keys and nine digits, in lines of about a width."""

    def lines(value: Any, indent: int) -> str:
        flat = json.dumps(value, ensure_ascii=False)
        if not isinstance(value, dict | list) or len(flat) + indent <= width:
            return flat
        pad = "\n" + " " * (indent + 1)
        if isinstance(value, dict):
            rows = [f"{json.dumps(key)}: {lines(item, indent + 1)}" for key, item in value.items()]
            return "{" + pad + f",{pad}".join(rows) + "}"
        return "[" + pad + f",{pad}".join(lines(item, indent + 1) for item in value) + "]"

    return lines(settled(document), 0) + "\n"


def settled(value: Any) -> Any:
    """Return JSON values with sorted keys and figures of nine digits."""
    if isinstance(value, Mapping):
        return {key: settled(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [settled(item) for item in value]
    return float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value


def short_digest(content: bytes) -> str:
    """Say 16 digits of a digest."""
    return hashlib.sha256(content).hexdigest()[:16]

"""Install the packages of tests into the environment of the Python that runs this.

uv takes a quarter of pip's CPU time and uses every core. It gets the indexes, folders of wheels and
constraints that pip is told to use. Where uv cannot install, pip does.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip"]
PIP_INSTALL = [*PIP, "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
WHAT = ["-c", "constraints/test.txt", "-e", ".[test]"]
SHARED = ("index-url", "extra-index-url", "find-links", "constraint")
"""Settings of pip that uv has as options of the same name; each may hold several words."""


def uv_options(settings: Iterable[str]) -> Iterator[str]:
    """Translate lines of ``pip config list`` into options of uv; a later line replaces an earlier.

    Where packages lie on several indexes, pip compares all of them, and so must uv.
    """
    pairs = [line.partition("=") for line in settings if "=" in line]
    values = {name.rpartition(".")[2]: str(ast.literal_eval(value)) for name, _, value in pairs}
    for name in SHARED:
        for word in values.get(name, "").split():
            yield from (f"--{name}", word)
    if values.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        yield "--no-index"
    yield from ("--index-strategy", "unsafe-best-match")


def with_uv() -> None:
    """Install with the uv of this environment, or with the one of the system."""
    listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True)
    options = [*uv_options(listed.stdout.splitlines())]
    uv = shutil.which("uv")
    if uv is None:
        subprocess.run([*PIP_INSTALL, "uv"], check=True)
        uv = str(Path(sys.executable).with_name("uv"))
    into = ["--quiet", "--python", sys.executable]
    subprocess.run([uv, "pip", "install", *into, *options, *WHAT], check=True, cwd=ROOT)


def main() -> None:
    """Install with uv, else with pip."""
    try:
        with_uv()
    except (subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"uv did not install the packages ({error}): pip does\n")
        subprocess.run([*PIP_INSTALL, *WHAT], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()

"""Make environments for programs that cannot share that of the tests: one folder each, with a file
``ready`` (or ``failed``) at the end. Tests find them by ``PLACER_OTHERS``: tests/other_pythons.py.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from install import PIP, ROOT, uv_options

OTHERS = {
    "sky": ["skypilot==0.14.1"],
    "kubeflow": [
        *("kubeflow-trainer-api==2.2.1", "check-jsonschema", "kubernetes-validate", "pre-commit")
    ],
    "torchtitan": ["torchtitan==0.3.0", "torchft==0.2.0", "torch==2.13.0", "triton"],
    "megatron": ["megatron-core==0.16.1", "torch==2.13.0", "triton"],
    "hivemind": [
        "hivemind==1.1.12",
        "torch==2.13.0",
        "setuptools<80",
        *("-r", str(ROOT / "pyproject.toml")),  # its example runs placer too
    ],
}
"""Requirements by the name of a folder, the cheapest first."""
ALONE = {"megatron": ["megatron-bridge==0.3.1"]}
"""Installed without what they require, which needs a GPU's libraries: tests read them."""


def main(folder: Path) -> None:
    """Make all environments, one after the other."""
    listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True)
    options = [*uv_options(listed.stdout.splitlines())]
    uv = str(Path(sys.executable).with_name("uv"))
    for name, wanted in OTHERS.items():
        into = folder / name
        python = str(into / "bin" / "python")
        install = [uv, "pip", "install", "--quiet", "--python", python, *options]
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(into)],
            [*install, *wanted],
            *([[*install, "--no-deps", *ALONE[name]]] if name in ALONE else []),
        ]
        done = any(subprocess.run(step, check=False).returncode for step in steps)
        into.mkdir(parents=True, exist_ok=True)
        (into / ("failed" if done else "ready")).touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

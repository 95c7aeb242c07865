"""Make environments for programs that cannot share that of the tests: one folder each, with a file
``ready`` (or ``failed``) at the end. Tests find them by ``PLACER_OTHERS``: tests/other_pythons.py.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

from install import PIP, uv_options

OTHERS = {
    "sky": ["skypilot==0.14.1"],
    "kubeflow": [
        *("kubeflow-trainer-api==2.2.1", "check-jsonschema", "kubernetes-validate", "pre-commit")
    ],
    "torchtitan": ["torchtitan==0.3.0", "torchft==0.2.0", "triton"],
    "megatron": ["megatron-core==0.16.1", "triton"],
    "hivemind": ["hivemind==1.1.12", "setuptools<80"],
}
"""Requirements by the name of a folder, the cheapest first. After its own packages each environment
finds those of the tests, so that PyTorch is installed and compiled once for all.
"""
SHARED = "torch; sys_platform == 'never'\n"
"""Requirements that are left to the environment of the tests."""
ALONE = {"megatron": ["megatron-bridge==0.3.1"]}
"""Installed without what they require, which needs a GPU's libraries: tests read them."""


def main(folder: Path) -> None:
    """Make all environments, one after the other."""
    listed = subprocess.run([*PIP, "config", "list"], check=True, capture_output=True, text=True)
    options = [*uv_options(listed.stdout.splitlines())]
    uv = str(Path(sys.executable).with_name("uv"))
    shared = folder / "shared.txt"
    shared.write_text(SHARED, encoding="utf-8")
    tests = sysconfig.get_path("purelib")
    for name, wanted in OTHERS.items():
        into = folder / name
        python = str(into / "bin" / "python")
        how = [*options, "--override", str(shared)]
        install = [uv, "pip", "install", "--quiet", "--python", python, *how]
        steps = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(into)],
            [*install, *wanted],
            *([[*install, "--no-deps", *ALONE[name]]] if name in ALONE else []),
        ]
        done = any(subprocess.run(step, check=False).returncode for step in steps)
        into.mkdir(parents=True, exist_ok=True)
        for packages in into.glob("lib/python*/site-packages"):
            (packages / "tests.pth").write_text(f"{tests}\n", encoding="utf-8")
        (into / ("failed" if done else "ready")).touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

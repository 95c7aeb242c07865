"""Other installations of Python, for tests of programs that cannot share ours: ``.ci/others.py``
makes them beside the tests, and ``PLACER_OTHERS`` names their folder.
"""

import importlib.util
import os
import sys
import time
from pathlib import Path

import pytest

FOLDERS = dict.fromkeys(
    ("kubeflow_trainer_api", "check_jsonschema", "kubernetes_validate"), "kubeflow"
)
"""Folders that are not called as the module."""
LONGEST_S = 160.0
"""Less than a test may take; these tests come last."""


def other_python(module: str, variable: str) -> str:
    """A Python that has a module: this one, the one that a variable names, or the one that is being
    made for the tests, which is waited for; else the test is skipped.
    """
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    found, others = os.environ.get(variable), os.environ.get("PLACER_OTHERS")
    if found:
        return found
    if not others:
        pytest.skip(f"{module} is not installed; {variable} may name a Python that has it")
    folder = Path(others) / FOLDERS.get(module, module)
    until = time.monotonic() + LONGEST_S
    while not (folder / "ready").exists():
        assert not (folder / "failed").exists(), f"{folder.name} was not installed"
        assert time.monotonic() < until, f"{folder.name} is not ready after {LONGEST_S:g} s"
        time.sleep(0.5)
    return str(folder / "bin" / "python")

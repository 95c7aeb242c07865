"""Other installations of Python, for tests of programs that cannot share ours."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest


def other_python(module: str, variable: str) -> str:
    """A Python that has a module: this one, or the one that a variable names; else the test is
    skipped.
    """
    if importlib.util.find_spec(module) is not None:
        return sys.executable
    found = os.environ.get(variable)
    if not found:
        pytest.skip(f"{module} is not installed; {variable} may name a Python that has it")
    return found

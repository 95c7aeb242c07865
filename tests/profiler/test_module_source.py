"""Functions that a module cannot have, seen in its source alone."""

import importlib.util
from pathlib import Path

import pytest

from placer.errors import PlacerError
from placer.profiler.target import check_source


def checked(folder: Path, source: str, function: str) -> None:
    """Check a function in a module of this source."""
    path = folder / "mine.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mine", path)
    assert spec is not None
    check_source(spec, function)


def test_a_function_that_is_nowhere_is_refused_with_those_that_are(tmp_path: Path) -> None:
    """Sorted, those of the module alone."""
    source = "import os\ndef zeta():\n    def inner(): ...\nasync def alpha(): ...\n"
    with pytest.raises(PlacerError, match="mine has no function 'f'") as refused:
        checked(tmp_path, source, "f")
    assert refused.value.hint == "it has: alpha, zeta"
    with pytest.raises(PlacerError) as refused:
        checked(tmp_path, "x = 1", "f")
    assert refused.value.hint == "it has: none"


def test_a_source_that_is_no_python_is_refused(tmp_path: Path) -> None:
    """With the word of Python, and nothing that a traceback would add."""
    with pytest.raises(PlacerError, match="cannot import mine: SyntaxError: "):
        checked(tmp_path, "def f(:", "f")

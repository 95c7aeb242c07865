"""Some of the inputs of ``tests/benchmarks/fuzz.py``: wrong arguments, files and special files."""

import re
import sys

import pytest

from conftest import ROOT, completed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, devices and pipes of Linux")


@pytest.mark.slow
def test_no_wrong_input_is_an_internal_failure() -> None:
    """80 inputs that are drawn from their numbers: each is refused in words or answered, in time
    and within 1 GiB; the benchmark runs 10,000.
    """
    words = [sys.executable, str(ROOT / "tests" / "benchmarks" / "fuzz.py"), "80"]
    done = completed(words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^80 inputs: \d+ refused, \d+ answered$", done.stdout, re.MULTILINE)

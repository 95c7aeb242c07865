"""Whether this machine lets a test make shaped networks."""

import importlib.util

import pytest

from placer.errors import PlacerError
from placer.launch.shaped_network import Shape, open_network


def _why_not() -> str:
    for package in ("torch", "waitress"):
        if importlib.util.find_spec(package) is None:
            return f"needs {package}"
    way = {"stream_bytes_per_s": 1e8, "pair_bytes_per_s": 1e8, "rtt_s": 0.0}
    try:
        ways = [Shape(src="A", dst="B", **way), Shape(src="B", dst="A", **way)]
        with open_network(["A", "B"], ways):
            return ""
    except PlacerError as error:
        return error.message


WHY_NOT = _why_not()
shaped = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "shaped networks work here")

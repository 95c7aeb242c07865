"""Frozen outputs of placer: what a change of structure must leave as it is.

    make goldens                                   compare all
    make goldens NAMES='screens help/pareto'       compare those whose names begin so
    make goldens-accept NAMES='screens/models'     freeze them as they are now

Everything is made anew and compared with the files of `frozen/`. A difference is either a mistake
or meant: then it is accepted, and stands in the same commit as its cause.
"""

import sys
from pathlib import Path

ROOMS = (
    "advice benchmarks cli cost_model documents launch/export market market/sources problem "
    "profiler solving validation workload"
)
PATHS = ("", "tests", *(f"tests/{name}" for name in ROOMS.split()))
"""Folders of the checkout from which modules are imported."""
sys.path[:0] = [str(Path(__file__).parents[2] / name) for name in PATHS]

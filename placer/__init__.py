"""placer decides where a model is trained: regions, machines, markets and gradient exchange, proved and explained."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placer.advisor import Advisor, estimate, pareto, recommend, simulate
    from placer.book import load_catalog
    from placer.calibration import Calibration
    from placer.catalog import Catalog
    from placer.errors import PlacerError
    from placer.estimator import Estimate
    from placer.explainer import explain
    from placer.explanation import Explanation
    from placer.fitting import calibrate
    from placer.frontier import Frontier, FrontierPoint
    from placer.interval import Interval
    from placer.layers import catalog_names
    from placer.placement import Exchange, Placement, WorkerGroup
    from placer.problem import Problem
    from placer.profile import ModelProfile, load_profile, profile_names
    from placer.reaction import WhatIf
    from placer.requirements import Quota, Requirements
    from placer.result import Option, Result, SolveOptions, Status
    from placer.robustness import Robustness
    from placer.simulation.replay import Simulation
    from placer.sweeping import Sweep
    from placer.worlds import robust, sweep, whatif

__version__ = "0.1.0"

_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 - pathlib would cost 5 ms of every start
if not os.path.isdir(os.path.join(__path__[0], "solvers")) and os.path.isdir(os.path.join(_CHECKOUT, "solvers")):  # noqa: PTH112, PTH118
    __path__.append(_CHECKOUT)  # in a bare checkout solvers/, catalogs/ and profiles/ lie beside placer/

_HOMES = {
    "Advisor": "placer.advisor",
    "Calibration": "placer.calibration",
    "Catalog": "placer.catalog",
    "Estimate": "placer.estimator",
    "Exchange": "placer.placement",
    "Explanation": "placer.explanation",
    "Frontier": "placer.frontier",
    "FrontierPoint": "placer.frontier",
    "Interval": "placer.interval",
    "ModelProfile": "placer.profile",
    "Option": "placer.result",
    "Placement": "placer.placement",
    "PlacerError": "placer.errors",
    "Problem": "placer.problem",
    "Quota": "placer.requirements",
    "Requirements": "placer.requirements",
    "Result": "placer.result",
    "Robustness": "placer.robustness",
    "Simulation": "placer.simulation.replay",
    "SolveOptions": "placer.result",
    "Status": "placer.result",
    "Sweep": "placer.sweeping",
    "WhatIf": "placer.reaction",
    "WorkerGroup": "placer.placement",
    "calibrate": "placer.fitting",
    "catalog_names": "placer.layers",
    "estimate": "placer.advisor",
    "explain": "placer.explainer",
    "load_catalog": "placer.book",
    "load_profile": "placer.profile",
    "pareto": "placer.advisor",
    "profile_names": "placer.profile",
    "recommend": "placer.advisor",
    "replan": "placer.worlds",
    "robust": "placer.worlds",
    "simulate": "placer.advisor",
    "sweep": "placer.worlds",
    "whatif": "placer.worlds",
}

__all__ = [
    "Advisor",
    "Calibration",
    "Catalog",
    "Estimate",
    "Exchange",
    "Explanation",
    "Frontier",
    "FrontierPoint",
    "Interval",
    "ModelProfile",
    "Option",
    "Placement",
    "PlacerError",
    "Problem",
    "Quota",
    "Requirements",
    "Result",
    "Robustness",
    "Simulation",
    "SolveOptions",
    "Status",
    "Sweep",
    "WhatIf",
    "WorkerGroup",
    "__version__",
    "calibrate",
    "catalog_names",
    "estimate",
    "explain",
    "load_catalog",
    "load_profile",
    "pareto",
    "profile_names",
    "recommend",
    "replan",
    "robust",
    "simulate",
    "sweep",
    "whatif",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: importing placer loads nothing heavy."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'placer' has no attribute '{name}'")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)

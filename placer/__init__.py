"""placer decides where a model is trained: regions, machines, markets and gradient exchange, proved
and explained.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placer.advice.explanation.explain import Explanation
    from placer.advice.frontier.points import Frontier, FrontierPoint
    from placer.advice.portfolio.answer import PortfolioAnswer
    from placer.advice.robustness.regret import Robustness
    from placer.advice.sweep.run import Sweep
    from placer.advice.worlds.whatif import WhatIf
    from placer.cost_model.estimate import Estimate
    from placer.errors import (
        BadInputError,
        DataError,
        FailureError,
        InfeasibleError,
        LimitError,
        PlacerError,
        SourceError,
    )
    from placer.interface.advisor import Advisor, estimate, explain, pareto, recommend, simulate
    from placer.interface.portfolio import portfolio
    from placer.interface.replay import forecast_capacity, replay
    from placer.interface.worlds import replan, robust, sweep, whatif
    from placer.market.books.book_reader import load_catalog
    from placer.market.books.layers import catalog_names
    from placer.market.catalog import Catalog
    from placer.problem.placement import Exchange, Placement, WorkerGroup
    from placer.problem.problem import Problem
    from placer.problem.requirements import Quota, Requirements
    from placer.solving.answer import SolveOptions, Status
    from placer.solving.result import Option, Result
    from placer.units import Interval
    from placer.validation.calibration.calibrate import calibrate
    from placer.validation.simulation.replay import Simulation
    from placer.workload.constants import Calibration
    from placer.workload.profile import ModelProfile, load_profile, profile_names

from placer.version import __version__

# os.path, as importing pathlib would cost 5 ms of every start.
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_SOLVERS = os.path.join(_CHECKOUT, "solvers")  # noqa: PTH118
if not os.path.isdir(os.path.join(__path__[0], "solvers")) and os.path.isdir(_SOLVERS):  # noqa: PTH112, PTH118
    # In a bare checkout solvers/, catalogs/ and profiles/ lie beside placer/.
    __path__.append(_CHECKOUT)

_HOMES = {
    "Advisor": "placer.interface.advisor",
    "BadInputError": "placer.errors",
    "Calibration": "placer.workload.constants",
    "Catalog": "placer.market.catalog",
    "DataError": "placer.errors",
    "Estimate": "placer.cost_model.estimate",
    "Exchange": "placer.problem.placement",
    "Explanation": "placer.advice.explanation.explain",
    "FailureError": "placer.errors",
    "Frontier": "placer.advice.frontier.points",
    "FrontierPoint": "placer.advice.frontier.points",
    "InfeasibleError": "placer.errors",
    "Interval": "placer.units",
    "LimitError": "placer.errors",
    "ModelProfile": "placer.workload.profile",
    "Option": "placer.solving.result",
    "Placement": "placer.problem.placement",
    "PlacerError": "placer.errors",
    "PortfolioAnswer": "placer.advice.portfolio.answer",
    "Problem": "placer.problem.problem",
    "Quota": "placer.problem.requirements",
    "Requirements": "placer.problem.requirements",
    "Result": "placer.solving.result",
    "Robustness": "placer.advice.robustness.regret",
    "Simulation": "placer.validation.simulation.replay",
    "SolveOptions": "placer.solving.answer",
    "SourceError": "placer.errors",
    "Status": "placer.solving.answer",
    "Sweep": "placer.advice.sweep.run",
    "WhatIf": "placer.advice.worlds.whatif",
    "WorkerGroup": "placer.problem.placement",
    "calibrate": "placer.validation.calibration.calibrate",
    "catalog_names": "placer.market.books.layers",
    "estimate": "placer.interface.advisor",
    "explain": "placer.interface.advisor",
    "forecast_capacity": "placer.interface.replay",
    "load_catalog": "placer.market.books.book_reader",
    "load_profile": "placer.workload.profile",
    "pareto": "placer.interface.advisor",
    "portfolio": "placer.interface.portfolio",
    "profile_names": "placer.workload.profile",
    "recommend": "placer.interface.advisor",
    "replan": "placer.interface.worlds",
    "replay": "placer.interface.replay",
    "robust": "placer.interface.worlds",
    "simulate": "placer.interface.advisor",
    "sweep": "placer.interface.worlds",
    "whatif": "placer.interface.worlds",
}

__all__ = [
    "Advisor",
    "BadInputError",
    "Calibration",
    "Catalog",
    "DataError",
    "Estimate",
    "Exchange",
    "Explanation",
    "FailureError",
    "Frontier",
    "FrontierPoint",
    "InfeasibleError",
    "Interval",
    "LimitError",
    "ModelProfile",
    "Option",
    "Placement",
    "PlacerError",
    "PortfolioAnswer",
    "Problem",
    "Quota",
    "Requirements",
    "Result",
    "Robustness",
    "Simulation",
    "SolveOptions",
    "SourceError",
    "Status",
    "Sweep",
    "WhatIf",
    "WorkerGroup",
    "__version__",
    "calibrate",
    "catalog_names",
    "estimate",
    "explain",
    "forecast_capacity",
    "load_catalog",
    "load_profile",
    "pareto",
    "portfolio",
    "profile_names",
    "recommend",
    "replan",
    "replay",
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
    found = getattr(importlib.import_module(home), name)
    if hasattr(found, "declared"):
        from placer.interface.verb import described

        return described(found)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)

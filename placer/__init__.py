"""placer decides where a model is trained: regions, machines, markets and gradient exchange, proved
and explained.
"""

from __future__ import annotations

import importlib
import os

from placer.version import __version__

TYPE_CHECKING = False
"""As type checkers know it: to import typing takes longer than all else here."""
if TYPE_CHECKING:  # each as itself, so that type checkers know that it is public
    from typing import Any

    from placer.advice.explanation.explain import Explanation as Explanation
    from placer.advice.frontier import Frontier as Frontier
    from placer.advice.frontier import FrontierPoint as FrontierPoint
    from placer.advice.portfolio.answer import PortfolioAnswer as PortfolioAnswer
    from placer.advice.robustness.regret import Robustness as Robustness
    from placer.advice.sweep import Sweep as Sweep
    from placer.advice.worlds.whatif import WhatIf as WhatIf
    from placer.cost_model.estimate import Estimate as Estimate
    from placer.errors import BadInputError as BadInputError
    from placer.errors import DataError as DataError
    from placer.errors import FailureError as FailureError
    from placer.errors import InfeasibleError as InfeasibleError
    from placer.errors import LimitError as LimitError
    from placer.errors import PlacerError as PlacerError
    from placer.errors import SourceError as SourceError
    from placer.interface.advisor import Advisor as Advisor
    from placer.interface.advisor import estimate as estimate
    from placer.interface.advisor import explain as explain
    from placer.interface.advisor import pareto as pareto
    from placer.interface.advisor import recommend as recommend
    from placer.interface.advisor import simulate as simulate
    from placer.interface.portfolio import portfolio as portfolio
    from placer.interface.replay import forecast_capacity as forecast_capacity
    from placer.interface.replay import replay as replay
    from placer.interface.saved import bill as bill
    from placer.interface.saved import diff as diff
    from placer.interface.saved import export as export
    from placer.interface.worlds import replan as replan
    from placer.interface.worlds import robust as robust
    from placer.interface.worlds import sweep as sweep
    from placer.interface.worlds import whatif as whatif
    from placer.market.books.book_reader import load_catalog as load_catalog
    from placer.market.books.layers import catalog_names as catalog_names
    from placer.market.catalog import Catalog as Catalog
    from placer.problem.placement import Exchange as Exchange
    from placer.problem.placement import Placement as Placement
    from placer.problem.placement import WorkerGroup as WorkerGroup
    from placer.problem.problem import Problem as Problem
    from placer.problem.requirements import Quota as Quota
    from placer.problem.requirements import Requirements as Requirements
    from placer.solving.answer import SolveOptions as SolveOptions
    from placer.solving.answer import Status as Status
    from placer.solving.result import Option as Option
    from placer.solving.result import Result as Result
    from placer.units import Interval as Interval
    from placer.validation.calibration.calibrate import calibrate as calibrate
    from placer.validation.simulation.replay import Simulation as Simulation
    from placer.workload.constants import Calibration as Calibration
    from placer.workload.profile import ModelProfile as ModelProfile
    from placer.workload.profile import load_profile as load_profile
    from placer.workload.profile import profile_names as profile_names


# os.path, as importing pathlib would cost 5 ms of every start.
_CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
_SOLVERS = os.path.join(_CHECKOUT, "solvers")  # noqa: PTH118
if not os.path.isdir(os.path.join(__path__[0], "solvers")) and os.path.isdir(_SOLVERS):  # noqa: PTH112, PTH118
    # In a bare checkout solvers/, catalogs/ and profiles/ lie beside placer/.
    __path__.append(_CHECKOUT)

_NAMES = {
    "placer.advice.explanation.explain": "Explanation",
    "placer.advice.frontier": "Frontier FrontierPoint",
    "placer.advice.portfolio.answer": "PortfolioAnswer",
    "placer.advice.robustness.regret": "Robustness",
    "placer.advice.sweep": "Sweep",
    "placer.advice.worlds.whatif": "WhatIf",
    "placer.cost_model.estimate": "Estimate",
    "placer.errors": "BadInputError DataError FailureError "
    "InfeasibleError LimitError PlacerError SourceError",
    "placer.interface.advisor": "Advisor estimate explain pareto recommend simulate",
    "placer.interface.portfolio": "portfolio",
    "placer.interface.replay": "forecast_capacity replay",
    "placer.interface.saved": "bill diff export",
    "placer.interface.worlds": "replan robust sweep whatif",
    "placer.market.books.book_reader": "load_catalog",
    "placer.market.books.layers": "catalog_names",
    "placer.market.catalog": "Catalog",
    "placer.problem.placement": "Exchange Placement WorkerGroup",
    "placer.problem.problem": "Problem",
    "placer.problem.requirements": "Quota Requirements",
    "placer.solving.answer": "SolveOptions Status",
    "placer.solving.result": "Option Result",
    "placer.units": "Interval",
    "placer.validation.calibration.calibrate": "calibrate",
    "placer.validation.simulation.replay": "Simulation",
    "placer.workload.constants": "Calibration",
    "placer.workload.profile": "ModelProfile load_profile profile_names",
}
"""Public names by the modules that hold them."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = list(_HOMES)
__all__ += ["__version__"]


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

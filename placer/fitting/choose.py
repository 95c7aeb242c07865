"""Which figures some runs can tell: everything else stays as published, and the report says so."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from placer.fitting.equations import Equations, Mask
from placer.fitting.parameters import CONSTANTS, Parameter, constant, kappa, links_of, rates_of, scale
from placer.fitting.runs import MeasuredRun

INFORMATION = 0.02
"""A figure is fitted if its doubling moves the residuals by this much in a way that no other figure does.

Samples/s repeat within about 1 %: with less the fitted figure would be uncertain by more than half of itself.
"""
Pair = tuple[str, str]


def choose(equations: Equations, asked: Collection[Pair] = ()) -> dict[Parameter, float]:
    """Pick the parameters that the runs identify, with their published values.

    Parameters
    ----------
    asked
        Links that are to be fitted although they are measured or published.

    Notes
    -----
    In this order, each only if it changes the expected steps in a way that those before it cannot: speeds whose
    calculation time was logged, links, kappa, one factor on the averaging time of each host class (from runs in
    one region), speeds that are only estimates, single constants of the host classes, the other speeds. One run
    therefore fits the link or kappa if it spans regions, and else the averaging time as a whole.
    """
    chosen: dict[Parameter, float] = {}
    direct, estimated, other = _rates(equations.runs)
    one_region = equations.rows([run.one_region and not run.alone for run in equations.runs])
    between = equations.rows([not run.one_region for run in equations.runs])
    for parameter in direct:
        _take(equations, chosen, parameter)
    for parameter in (*_links(equations.runs, asked), kappa()):
        _take(equations, chosen, parameter, between)
    hosts = sorted({host for run in equations.runs for host in run.hosts()})
    for host in hosts:
        _take(equations, chosen, scale(host), one_region)
    for parameter in estimated:
        _take(equations, chosen, parameter)
    for host in hosts:
        for name in CONSTANTS:
            if scale(host) in chosen or any(constant(host, n) in chosen for n in CONSTANTS):
                _set_free(equations, chosen, host, name, one_region)
    for parameter in other:
        _take(equations, chosen, parameter)
    return chosen


def candidates(equations: Equations, asked: Collection[Pair] = ()) -> Iterator[Parameter]:
    """Yield every figure that plays a part in the runs, fitted or not."""
    yield from dict.fromkeys(p for run in equations.runs for p in rates_of(run))
    yield from _links(equations.runs, asked)
    if any(not run.one_region for run in equations.runs):
        yield kappa()
    for host in sorted({host for run in equations.runs if not run.alone for host in run.hosts()}):
        yield from (constant(host, name) for name in CONSTANTS)


def _rates(runs: Sequence[MeasuredRun]) -> tuple[list[Parameter], list[Parameter], list[Parameter]]:
    """Speeds that are read off directly, that are only estimates, and the others."""
    logged = dict.fromkeys(p for run in runs if run.calculation_s is not None or run.alone for p in rates_of(run))
    left = [p for p in dict.fromkeys(p for run in runs for p in rates_of(run)) if p not in logged]
    return sorted(logged, key=lambda p: p.known), [p for p in left if not p.known], [p for p in left if p.known]


def _links(runs: Sequence[MeasuredRun], asked: Collection[Pair]) -> list[Parameter]:
    """Links that are asked for, then those that are only estimates."""
    found = dict.fromkeys(p for run in runs for p in links_of(run))
    named = {(min(pair), max(pair)) for pair in asked}
    return [p for p in found if p.key in named] + [p for p in found if p.key not in named and not p.known]


def _take(equations: Equations, chosen: dict[Parameter, float], parameter: Parameter, mask: Mask | None = None) -> None:
    """Add a parameter if the runs tell it from those that are chosen."""
    if _information(equations, chosen, parameter, list(chosen), mask) >= INFORMATION:
        chosen[parameter] = parameter.published


def _set_free(equations: Equations, chosen: dict[Parameter, float], host: str, name: str, mask: Mask) -> None:
    """Take a constant out of the common factor if the runs tell it from that factor and the rest."""
    free, factor = constant(host, name), scale(host)
    trial = {**chosen, free: free.published}
    others = [p for p in chosen if p != factor]
    scaled = factor in chosen and _information(equations, trial, factor, [], mask) >= INFORMATION
    told = _information(equations, trial, free, [*others, factor] if scaled else others, mask) >= INFORMATION
    if told and (not scaled or _information(equations, trial, factor, [*others, free], mask) >= INFORMATION):
        chosen[free] = free.published
        if not scaled:
            chosen.pop(factor, None)


def _information(
    equations: Equations, values: dict[Parameter, float], parameter: Parameter, others: Sequence[Parameter], mask: Mask | None
) -> float:
    """Length of what a parameter does to the residuals of some runs and no other parameter does."""
    at = {**values, parameter: values.get(parameter, parameter.published)}
    columns = equations.jacobian(at, [*others, parameter])
    own, rest = columns[:, -1], columns[:, :-1]
    if mask is not None:
        own = np.where(mask, own, 0.0)
    if rest.size:
        own = own - rest @ np.linalg.lstsq(rest, own, rcond=1e-6)[0]
    return float(np.linalg.norm(own))

"""What measured runs can change, and how far expected steps are from measured ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.cost_model.estimate import workers_of
from placer.documents.schemas.measured import Fit
from placer.market.catalog import device_name
from placer.records import replace
from placer.validation.calibration.runs import MeasuredRun
from placer.workload.constants import HIVEMIND, PUBLISHED, HostConstants, host_constants, peer_of
from placer.workload.overlay import CalibratedRate, LinkSpeed, Overlay

RATE: Fit = "rate"
LINK: Fit = "link"
KAPPA: Fit = "kappa"
SCALE: Fit = "scale"
CONSTANT: Fit = "constant"
CONSTANTS = {"s_per_gb_sent": 1.0, "s_per_peer": 0.1, "base_s": 1.0, "s_per_tensor": 0.0025}
"""Constants of a host class in the order in which they are set free, and the least step in which
they are counted.
"""
UNITS = {
    "base_s": "s",
    "s_per_gb_sent": "s/GB",
    "s_per_peer": "s/worker",
    "s_per_tensor": "s/tensor",
}
RANGE = {RATE: 20.0, LINK: 100.0, KAPPA: 10.0, SCALE: 1000.0}
"""Most that a figure may be above or below the published one; more is a slip in the runs file. A
ring takes hundreds of times as long as its bandwidth says where messages are small.
"""
GBPS = 8 / 1e9


@dataclass(frozen=True, slots=True)
class Parameter:
    """One figure that runs can replace. ``key`` is (model, GPU, GPUs, framework) of a rate, the two
    places of a link, (host,) of a scale or (host, constant). ``known`` says that the published
    figure is measured or published, not estimated.
    """

    kind: Fit
    key: tuple[str, ...]
    published: float
    unit: str = ""
    known: bool = True

    @property
    def label(self) -> str:
        """What the figure is, in words."""
        if self.kind == RATE:
            model, gpu, count, framework = self.key
            how = "alone" if framework == "none" else "in a group"
            return f"speed of {model} on {device_name(gpu, int(count))} {how}"
        if self.kind == LINK:
            return f"link {self.key[0]}:{self.key[1]}"
        if self.kind == KAPPA:
            return "kappa of links between regions"
        what = "averaging time" if self.kind == SCALE else self.key[1]
        ring = peer_of(self.key[0])
        if ring is not None:
            return f"{what} of {ring.via.title} over {ring.gbps:g} Gb/s"
        return f"{what} of {self.key[0]} hosts"

    @property
    def said(self) -> dict[str, Any]:
        """What documents say of the figure."""
        names = ("kind", "key", "unit", "published")
        return {"figure": self.label, **{name: getattr(self, name) for name in names}}

    @property
    def step(self) -> float:
        """Size of the figure: what it is counted in while fitting."""
        least = CONSTANTS[self.key[1]] if self.kind == CONSTANT else 0.0
        return max(self.published, least)

    @property
    def limits(self) -> tuple[float, float]:
        """Least and most value."""
        if self.kind == CONSTANT:
            return 0.0, float("inf")
        low = 0.0 if self.kind == SCALE else self.published / RANGE[self.kind]
        return low, self.published * RANGE[self.kind]


Values = Mapping[Parameter, float]


def rates_of(run: MeasuredRun) -> list[Parameter]:
    """List the speeds of the machines of a run, each once."""
    parameters, framework = {}, "none" if run.alone else run.problem.transport
    for pool, _ in workers_of(run.placement, run.problem):
        rate = pool.alone if run.alone else pool.shared
        key = (run.model, rate.gpu, str(rate.gpu_count), framework)
        known = rate.basis in ("measured", "published")
        parameters[key] = Parameter(RATE, key, rate.value, "samples/s", known)
    return list(parameters.values())


def links_of(run: MeasuredRun) -> list[Parameter]:
    """List the links between the places of a run; the slower direction names the bandwidth."""
    parameters = []
    for a, b in run.pairs:
        there, back = run.problem.network.link(a, b), run.problem.network.link(b, a)
        slow = min(there, back, key=lambda link: link.bytes_per_second)
        known = "estimated" not in (there.basis, back.basis)
        gbps = slow.bytes_per_second * GBPS
        parameters.append(Parameter(LINK, (a, b), gbps, "Gb/s", known))
    return parameters


def kappa(software: str) -> Parameter:
    """Build the factor on links between regions, which is hivemind's or that of all others."""
    published = getattr(PUBLISHED, kappa_field(software))[0]
    return Parameter(KAPPA, (), published)


def kappa_field(software: str) -> str:
    """Name the field of a calibration that holds the factor of a software."""
    return "kappa" if software == HIVEMIND else "ring_kappa"


def scale(host: str) -> Parameter:
    """Build the common factor on those constants of a host class that no run tells apart."""
    return Parameter(SCALE, (host,), 1.0)


def constant(host: str, name: str) -> Parameter:
    """Build one constant of a host class."""
    return Parameter(CONSTANT, (host, name), getattr(PUBLISHED.hosts[host], name), UNITS[name])


def overlay_of(
    values: Values, runs: Sequence[MeasuredRun], source: str = "measured runs", as_of: str = ""
) -> Overlay:
    """Put some values over the published figures.

    values: Figures that were fitted; what is not among them stays as published.
    """
    rates, links = [], []
    for p, value in values.items():
        if p.kind == RATE:
            rates.append(_rate(p, value, source))
        elif p.kind == LINK:
            links += _links(p, value, runs, source, as_of)
    factor = next((value for p, value in values.items() if p.kind == KAPPA), None)
    rings = {p.key[0] for p in values if p.kind == SCALE} - PUBLISHED.hosts.keys()
    hosts = {host: _host(host, values) for host in (*PUBLISHED.hosts, *sorted(rings))}
    fitted = replace(PUBLISHED, hosts=hosts)
    if factor is not None:
        fields: dict[str, Any] = {kappa_field(runs[0].problem.transport): (factor, factor, factor)}
        fitted = replace(fitted, **fields)
    return Overlay(calibration=fitted, rates=tuple(rates), links=tuple(links))


def _rate(p: Parameter, value: float, source: str) -> CalibratedRate:
    model, gpu, count, framework = p.key
    return CalibratedRate(
        model=model,
        gpu=gpu,
        gpu_count=int(count),
        framework=framework,
        **dict.fromkeys(("value", "low", "high"), value),
        basis="measured",
        source=source,
    )


def _links(
    p: Parameter, value: float, runs: Iterable[MeasuredRun], source: str, as_of: str
) -> list[LinkSpeed]:
    """Change both directions by one factor."""
    run = next(run for run in runs if p.key in run.pairs)
    parameters = []
    for src, dst in (p.key, p.key[::-1]):
        speed = run.problem.network.link(src, dst).bytes_per_second * GBPS * value / p.published
        ends = dict.fromkeys(("gbps_one_stream", "gbps_low", "gbps_high"), speed)
        parameters.append(LinkSpeed(src=src, dst=dst, **ends, source=source, as_of=as_of))
    return parameters


def _host(host: str, values: Values) -> HostConstants:
    """Free constants as fitted, the others scaled together."""
    published, factor = host_constants(host), values.get(scale(host), 1.0)
    free = {
        p.key[1]: value for p, value in values.items() if p.kind == CONSTANT and p.key[0] == host
    }
    return replace(
        published,
        s_per_gb=factor * published.s_per_gb,
        **{name: free.get(name, factor * getattr(published, name)) for name in CONSTANTS},
    )


COMMUNICATION_WEIGHT = 0.2
"""Exchange times scatter about five times as much as samples/s: 8 % against 1.5 % in the logs of
Erben et al. (2024).
"""
NUDGE = 1e-4
"""Share of a figure by which it is changed to see what it does."""
MOST_KEPT = 200_000
"""Residuals that are kept for reuse."""
Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class Equations:
    """Residuals of some runs: relative errors of samples/s, of the calculation and, weighted, of
    the exchange.

    runs: Measured runs; each gives one row, and one more for each part of its step that was logged.
    known: Equations of more runs, whose work is reused.
    """

    def __init__(self, runs: Sequence[MeasuredRun], known: Equations | None = None) -> None:
        self.runs = tuple(runs)
        self._known: Callable[[MeasuredRun, tuple[tuple[Parameter, float], ...]], Array] = (
            known._known if known else lru_cache(MOST_KEPT)(_residuals_of)
        )
        self._touches: Callable[[Parameter, MeasuredRun], bool] = (
            known._touches if known else cache(touches)
        )
        parts = ((run.calculation_s, run.communication_s) for run in self.runs)
        ends = np.cumsum([0, *(1 + sum(part is not None for part in each) for each in parts)])
        self._of_run = [slice(int(start), int(stop)) for start, stop in pairwise(ends)]
        self.size = int(ends[-1])

    def residuals(self, values: Values) -> Array:
        """Compute the relative errors, run after run."""
        return np.concatenate([self._residuals(run, values) for run in self.runs])

    def jacobian(self, values: Values, parameters: Sequence[Parameter]) -> Array:
        """Change of the residuals by a change of each parameter, in steps of `Parameter.step`."""
        result = np.zeros((self.size, len(parameters)))
        for column, parameter in enumerate(parameters):
            at = values.get(parameter, parameter.published)
            changed = {**values, parameter: at + NUDGE * parameter.step}
            for run, rows in zip(self.runs, self._of_run, strict=True):
                if self._touches(parameter, run):
                    moved = self._residuals(run, changed) - self._residuals(run, values)
                    result[rows, column] = moved / NUDGE
        return result

    def rows(self, chosen: Sequence[bool]) -> Mask:
        """Return the mask of the residuals of some runs."""
        return np.repeat(chosen, [rows.stop - rows.start for rows in self._of_run])

    def by_run(self, figures: Array) -> list[float]:
        """Return the smallest figure of each run, its exchange apart."""
        pairs = zip(self.runs, self._of_run, strict=True)
        return [
            float(np.min(figures[rows.start : rows.stop - (run.communication_s is not None)]))
            for run, rows in pairs
        ]

    def _residuals(self, run: MeasuredRun, values: Values) -> Array:
        """Compute the residuals of a run, once for each value that it depends on."""
        return self._known(run, tuple((p, v) for p, v in values.items() if self._touches(p, run)))


def touches(parameter: Parameter, run: MeasuredRun) -> bool:
    """Tell whether a parameter can change the expected step of a run."""
    if parameter.kind == RATE:
        return parameter.key[0] == run.model and any(
            (g.gpu, str(g.gpu_count)) == parameter.key[1:3] for g in run.placement.groups
        )
    if parameter.kind == LINK:
        return parameter.key in run.pairs
    if parameter.kind == KAPPA:
        return not run.one_region
    return parameter.kind in (SCALE, CONSTANT) and not run.alone and parameter.key[0] in run.hosts()


def _residuals_of(run: MeasuredRun, values: Iterable[tuple[Parameter, float]]) -> Array:
    step = run.step(overlay_of(dict(values), (run,)))
    residuals = [run.step_s / step.total - 1]
    if run.calculation_s is not None:
        residuals.append(run.calculation_s / step.calculation - 1)
    if run.communication_s is not None:
        error = (run.communication_s - step.communication) / run.communication_s
        residuals.append(COMMUNICATION_WEIGHT * error)
    return np.array(residuals)

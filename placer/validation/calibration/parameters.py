"""What measured runs can change: one parameter each for a speed, a link, kappa and the constants of
a host class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from placer.market.catalog import device_name
from placer.records import replace
from placer.validation.calibration.runs import MeasuredRun
from placer.workload.constants import HIVEMIND, PUBLISHED, HostConstants, host_constants
from placer.workload.overlay import LinkSpeed, ModelRate, Overlay
from placer.workload.peer import peer_of
from placer.workload.profile import Rate

RATE, LINK, KAPPA, SCALE, CONSTANT = "rate", "link", "kappa", "scale", "constant"
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

    kind: str
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
    parameters = {}
    for pool, _ in run.machines(run.problem):
        rate = pool.alone if run.alone else pool.shared
        key = (run.model, rate.gpu, str(rate.gpu_count), run.framework)
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
    runs: Know both directions of the links.
    """
    rates, links = [], []
    for p, value in values.items():
        if p.kind == RATE:
            rates.append(ModelRate(model=p.key[0], rate=_rate(p, value, source)))
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


def _rate(p: Parameter, value: float, source: str) -> Rate:
    _, gpu, count, framework = p.key
    return Rate(
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

"""From the arithmetic of this machine to host constants: a calibration that ``--calibration``
reads.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray

from placer.cost_model.timing.transfers import GB
from placer.documents.schemas.measured import Fitted, NotFitted
from placer.errors import PlacerError, unknown
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.profiler.host.averaging import HostMeasurement
from placer.records import replace
from placer.units import Interval
from placer.workload.constants import NINETY_PERCENT, PUBLISHED, Calibration, HostConstants
from placer.workload.overlay import Overlay, overlay_document

LEAST_RELATIVE = 0.02
"""Least relative half-width of an interval: what a processor's clock varies from day to day."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HostFit:
    """``seconds = s_per_gb x GB + s_per_tensor x tensors``, with 90 % intervals."""

    s_per_gb: Interval
    s_per_tensor: Interval
    relative_residual: float
    points: int


def fit(points: Sequence[tuple[float, float, float]]) -> HostFit:
    """Fit the two costs. Least squares of the relative errors, no cost below 0; standard errors
    from the residuals, times Student's quantile. Raises `PlacerError` if there are fewer than three
    points, a time is not positive, or the points do not tell the costs apart.

    points: (bytes, tensors, seconds) each, seconds above 0; at least three, of different sizes and
        counts.

    >>> # 3 s/GB and 1 ms a tensor
    >>> costs = fit([(1e9, 10, 3.01), (2e9, 10, 6.01), (1e9, 1000, 4.0)])
    >>> round(costs.s_per_gb.value, 6), round(costs.s_per_tensor.value, 6)
    (3.0, 0.001)
    """
    if len(points) < 3:
        raise PlacerError(
            f"{len(points)} points are too few for two costs",
            "measure at least three sizes or tensor counts",
        )
    data = np.array(points, dtype=float)
    if not (np.isfinite(data).all() and (data > 0).all()):
        raise PlacerError("a measured point is not above 0", "measure larger gradients, or longer")
    seconds = data[:, 2]
    rows = np.stack([data[:, 0] / GB / seconds, data[:, 1] / seconds], axis=1)
    scale = np.linalg.norm(rows, axis=0)
    if np.linalg.matrix_rank(rows / scale, tol=1e-6) < 2:
        raise PlacerError(
            "the points cannot separate the cost of a GB from the cost of a tensor",
            "vary sizes and tensor counts",
        )
    values = _nonnegative(rows)
    residuals = rows @ values - 1.0
    freedom = len(points) - 2
    sigma = math.sqrt(float(residuals @ residuals) / freedom) * student(freedom)
    scaled = rows / scale
    errors = sigma * np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled))) / scale
    return HostFit(
        s_per_gb=_interval(float(values[0]), float(errors[0])),
        s_per_tensor=_interval(float(values[1]), float(errors[1])),
        relative_residual=float(np.mean(np.abs(residuals))),
        points=len(points),
    )


def student(freedom: int) -> float:
    """Return the 95 % quantile of Student's distribution, by the expansion around the normal one.

    >>> # tables: 2.13, 1.81, 1.70; below 4 it is too narrow
    >>> [round(student(n), 2) for n in (4, 10, 30)]
    [2.13, 1.81, 1.7]
    """
    z, n = NINETY_PERCENT, freedom
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def _nonnegative(rows: NDArray[Any]) -> NDArray[Any]:
    """Solve ``rows @ x = 1`` for x of 0 or more: if one cost would be negative it is 0, and the
    other is fitted alone.
    """
    ones = np.ones(len(rows))
    scale = np.linalg.norm(rows, axis=0)
    values: NDArray[Any] = np.linalg.lstsq(rows / scale, ones, rcond=None)[0] / scale
    for i in (0, 1):
        if values[i] < 0:
            alone = np.zeros(2)
            column = rows[:, 1 - i]
            alone[1 - i] = float(column @ ones / (column @ column))
            return alone
    return values


def _interval(value: float, error: float) -> Interval:
    half = max(error, LEAST_RELATIVE * value)
    return Interval(value=value, low=max(0.0, value - half), high=value + half)


BASE = "a10"
"""The class whose published constants are scaled: only its runs separate the cost of
gigabytes from that of tensors.
"""
REFERENCE_S_PER_GB = 2.6
REFERENCE_S_PER_TENSOR = 2.7e-5
"""Arithmetic of FP16 messages on a host that is taken to average as fast as the published A10
hosts.

Measured by `measure_host` on one core of an AMD EPYC virtual machine (2 cores, PyTorch 2.13, NumPy
2.4, November 2026). That the published hosts, of the same make, are alike is assumed: nobody can
measure them any more.
"""
MACHINE = ("partial", "processor", "logical_cpus")
ALIKE = 1.5
"""How far, as a factor, that may be off either way: assumed. Published T4 hosts take 1.45 times as
long per GB as A10 ones.
"""


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """What a machine measured, its fits, and the constants of a host class made of them."""

    measured: HostMeasurement
    fits: Mapping[str, HostFit]
    host: str
    devices: tuple[str, ...]
    scaled: tuple[Fitted, ...]
    kept: tuple[NotFitted, ...]
    overlay: Overlay
    created: str

    def to_dict(self) -> dict[str, Any]:
        """Build the ``placer.calibration/v1`` document; ``report`` holds the fits, assumptions and
        points.
        """
        measured = self.measured
        points = [to_builtins(point) for point in measured.points]
        runs = {
            "file": "placer profile exchange",
            "sha256": hashlib.sha256(json.dumps(points, sort_keys=True).encode()).hexdigest(),
            "rows": len(points),
        }
        exchange = {
            "host": self.host,
            "devices": list(self.devices),
            **{name: getattr(measured, name) for name in MACHINE},
            "torch": measured.torch_version,
            "arithmetic": {name: to_builtins(fit) for name, fit in self.fits.items()},
            "reference": {
                "s_per_gb": REFERENCE_S_PER_GB,
                "s_per_tensor": REFERENCE_S_PER_TENSOR,
                "alike_within_factor": ALIKE,
            },
            "points": points,
            "sums": [to_builtins(point) for point in measured.sums],
        }
        told = {
            "fitted": to_builtins([*self.scaled, *_summed(measured)]),
            "not_fitted": to_builtins(self.kept),
            "runs": [],
            "errors": {"before": None, "after": None, "left_out": None},
            "warnings": warnings_of(self),
            "exchange": exchange,
        }
        return overlay_document(self.overlay, self.created, load_catalog("default"), runs, told)


def host_class(name: str, catalog: Catalog) -> str:
    """Return the class of averaging constants of a host class or device; else `PlacerError`."""
    if name.lower() in PUBLISHED.hosts:
        return name.lower()
    for device in catalog.gpus.values():
        if device.gpu.lower() == name.lower():
            return device.host
    raise unknown(
        "host class",
        name,
        (*PUBLISHED.hosts, *catalog.gpus),
        "give t4, a10, or a device such as A100-80",
    )


def host_report(measured: HostMeasurement, host: str, today: str | None = None) -> HostReport:
    """Fit a measurement and scale the published constants by it. hivemind spends a host's processor
    mostly on what one machine alone cannot show: its event loop, its daemon, encryption and copies
    between processes. The published s/GB and s/tensor are therefore scaled by the speed of this
    machine's arithmetic. l0 and l2 (matchmaking, round trips) stay as published.
    """
    catalog = load_catalog("default")
    kind = host_class(host, catalog)
    created = date.today().isoformat() if today is None else today
    fits = {
        name: fit([(p.bytes, p.tensors, p.total_s) for p in measured.of(name)])
        for name in ("fp16", "none")
        if measured.of(name)
    }
    if "fp16" not in fits:
        raise PlacerError(
            "no FP16 messages were measured",
            "the published constants are of FP16: measure it as well",
        )
    runs = len(measured.of("fp16"))
    scaled, kept = _scaled(fits["fp16"], kind, runs), _kept(kind)
    devices = sorted(device.gpu for device in catalog.gpus.values() if device.host == kind)
    values = {one.key[1]: one.value for one in scaled}
    values |= {one.key[1]: getattr(PUBLISHED.hosts[BASE], one.key[1]) for one in kept}
    constants = HostConstants(s_per_gb=0.0, **values)
    partial, services = " (partial)" if measured.partial else "", PUBLISHED.services
    if (summed := measured.server_sum) is not None:
        each = summed.bytes_per_s() / summed.threads
        services = replace(services, server_sum_bytes_per_s=each)
    calibration = replace(
        PUBLISHED,
        name=f"placer profile exchange on {measured.processor}, {created}{partial}",
        hosts={**PUBLISHED.hosts, kind: constants},
        spreads={kind: _spread(PUBLISHED, fits["fp16"])},
        services=services,
    )
    return HostReport(
        measured=measured,
        fits=fits,
        host=kind,
        devices=tuple(devices),
        scaled=scaled,
        kept=kept,
        overlay=Overlay(calibration=calibration),
        created=created,
    )


def warnings_of(report: HostReport) -> list[str]:
    """Say what a reader of the constants should know."""
    warnings = [
        f"only the arithmetic is measured; that hivemind's other work scales with it is "
        f"assumed, within a factor of {ALIKE:g}: "
        "'placer profile runs' on one measured run is better"
    ]
    if report.measured.partial:
        warnings.append("stopped by Ctrl-C: fewer rounds than asked for")
    if report.fits["fp16"].relative_residual > 0.25:
        warnings.append(
            f"points lie {report.fits['fp16'].relative_residual:.0%} around the fit: something "
            f"else used this machine; measure again"
        )
    return warnings


def _scaled(fit: HostFit, kind: str, points: int) -> tuple[Fitted, ...]:
    """Scale the constants of `BASE` by the arithmetic here over the reference."""
    found = []
    for name, unit, here, reference in (
        ("s_per_gb_sent", "s/GB", fit.s_per_gb, REFERENCE_S_PER_GB),
        ("s_per_tensor", "s/tensor", fit.s_per_tensor, REFERENCE_S_PER_TENSOR),
    ):
        factor = getattr(PUBLISHED.hosts[BASE], name) / reference
        ends = {end: factor * getattr(here, end) for end in ("value", "low", "high")}
        figure = _figure(kind, name, unit)
        found.append(Fitted(**figure, **ends, runs=points, at_limit=ends["value"] == 0.0))
    return tuple(found)


def _kept(kind: str) -> tuple[NotFitted, ...]:
    return tuple(
        NotFitted(**_figure(kind, name, unit), because=f"assumed: as {BASE}, {why}")
        for name, unit, why in (
            ("base_s", "s", "as matchmaking needs peers"),
            ("s_per_peer", "s/worker", "as it needs peers"),
        )
    )


def _spread(published: Calibration, fit: HostFit) -> tuple[float, float, float]:
    """Combine published spread, interval of the fit and `ALIKE`, in logarithms."""
    _, slow, fast = published.averaging_spread
    per_gb = fit.s_per_gb
    of_fit = (per_gb.high - per_gb.low) / 2 / per_gb.value if per_gb.value > 0 else 1.0
    half = math.sqrt((math.log(slow / fast) / 2) ** 2 + of_fit**2 + math.log(ALIKE) ** 2)
    return 1.0, math.exp(half), math.exp(-half)


def _summed(measured: HostMeasurement) -> list[Fitted]:
    """List the row of the measured sum of a parameter server, if there is one."""
    point = measured.server_sum
    if point is None:
        return []
    ends = {"value": point.seconds, "low": point.most_s, "high": point.least_s}
    return [
        Fitted(
            figure="sum of a parameter server, each vCPU",
            kind="constant",
            key=("server_sum_bytes_per_s",),
            unit="bytes/s",
            published=PUBLISHED.services.server_sum_bytes_per_s or 0.0,
            **{end: point.bytes_per_s(s) / point.threads for end, s in ends.items()},
            runs=point.rounds,
            at_limit=False,
        )
    ]


def _figure(kind: str, name: str, unit: str) -> dict[str, Any]:
    return {
        "figure": f"{name} of {kind} hosts",
        "kind": "constant",
        "key": (kind, name),
        "unit": unit,
        "published": getattr(PUBLISHED.hosts[kind], name),
    }

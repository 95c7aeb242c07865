"""Seconds that a device takes for counted work: the formula of the throughput estimate."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from placer.documents.schemas.measured import EstimateCheck
from placer.errors import unknown
from placer.market.catalog import Catalog
from placer.profiler.devices import Device, device_of
from placer.records import replace
from placer.workload.measurement import PRECISIONS
from placer.workload.profile import LARGEST, Rate

CONSTANTS = Path(__file__).with_name("constants.json")
HALF = ("fp16", "bf16")
HALF_OF_FP32 = 0.5
"""What kernels move in half precision over what they move in FP32, where bytes were counted in one
and are wanted in the other. Autocast keeps some in FP32: counting under it is better.
"""
COUNTED = (
    "flops",
    "grouped_flops",
    "blocked_flops",
    "moved_bytes",
    "product_bytes",
    "relaid_bytes",
    "kernels",
)
"""Figures from which seconds follow."""
OTHER = "other"
"""Family of models like none that was published: constants of all published models together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one microbatch takes, forward and backward.

    flops, grouped_flops, blocked_flops: Floating point operations, a multiply-add counts as two.
        Convolutions in groups are part of ``flops`` and stand apart as well: depthwise ones and
        others that run without tensor cores, and those in blocks of channels that run with them.
    moved_bytes, product_bytes: Bytes that the kernels read and write, and the part of matrix
        products and dense convolutions, which calculate meanwhile; 0 if unknown: then nothing
        overlaps.
    relaid_bytes: Activations that dense convolutions read and write, if they are not channels last:
        tensor cores want them so, and each is laid out anew.
    activation_bytes, largest_bytes: Bytes that forward keeps for backward, and the largest result
        of one kernel.
    half: Whether bytes were counted in half precision: under autocast, or as the model is; else in
        FP32.
    """

    samples: float
    flops: float
    moved_bytes: float
    kernels: float = 0.0
    grouped_flops: float = 0.0
    blocked_flops: float = 0.0
    product_bytes: float = 0.0
    relaid_bytes: float = 0.0
    activation_bytes: float = 0.0
    largest_bytes: float = 0.0
    half: bool = False


def between(few: Work, many: Work, samples: float) -> Work:
    """Return the work of a microbatch from a smaller and a larger one, on a straight line."""
    if few.samples == many.samples:
        return few
    place = (samples - few.samples) / (many.samples - few.samples)
    figures = {
        name: (1 - place) * getattr(few, name) + place * getattr(many, name) for name in COUNTED
    }
    return replace(few, samples=samples, **figures)


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Shares of the data sheet that models of a family reach, and how far estimates were off:
    factors above 1. ``spread`` holds for a model that was never measured, on the generations of the
    published devices.
    """

    flop_efficiency: float
    byte_efficiency: float
    spread: float = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """Fitted figures of the estimator: by family, and for all.

    grouped_flops_per_byte, blocked_flops_per_byte: FLOPs that convolutions in groups do in the time
        in which the device moves a byte, without and with tensor cores.
    relaying: Bytes that laying out anew moves, over those that are laid out anew.
    full_precision: FLOP efficiency of products in FP32 and TF32, over that in half precision.
    generations: Share of its data sheet that a generation of devices holds, over Ampere.
    other_device_spread: How far a rate was off that was scaled from another device of the same
        model: a factor above 1.
    """

    families: Mapping[str, Family]
    launch_seconds: float
    grouped_flops_per_byte: float
    generations: Mapping[str, float]
    blocked_flops_per_byte: float = 50.0
    relaying: float = 0.0
    full_precision: float = 1.0
    other_device_spread: float = 1.5

    def family(self, name: str) -> Family:
        """Return the constants of a family, or of all published models if the family has no
        figures.
        """
        return self.families[name if name in self.families else OTHER]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """Seconds of one microbatch, and their parts: kernels launch beside what the device calculates
    and moves.
    """

    matrix: float
    memory: float
    launch: float

    @property
    def total(self) -> float:
        """The longer of what the device and what the host needs."""
        return max(self.matrix + self.memory, self.launch)

    @property
    def limit(self) -> str:
        """What takes longest: ``FLOPs``, ``memory`` or ``kernel launches``."""
        if self.launch > self.matrix + self.memory:
            return "kernel launches"
        return "FLOPs" if self.matrix >= self.memory else "memory"


def step_time(
    work: Work, device: Device, family: str, precision: str, constants: Constants
) -> StepTime | None:
    """Estimate the seconds of one microbatch on one device; None without units for the precision or
    a known peak. A roofline with a floor: t = max(k l, max(F_d / (g e P), M_d / (g b W)) + (M_o +
    F_g / d_g + F_b / d_b + r R) / (g b W)) with k kernels at l seconds each; FLOPs F_d and bytes
    M_d of dense products, which overlap inside a kernel; bytes M_o of all other kernels; FLOPs F_g
    and F_b of convolutions in groups, without and with tensor cores, at d FLOPs in the time of a
    byte; bytes R laid out anew in half precision; peak P and bandwidth W of the data sheet,
    efficiencies e and b, and the generation's share g. The sum over kernels, since eager PyTorch
    runs one after the other. Where M_d is unknown, F_d / (g e P) is added to all bytes. After
    Williams, Waterman and Patterson (Roofline, CACM 52(4), 2009). Raises `PlacerError` if there is
    no such precision.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    peak = device.peak(precision)
    if peak is None:
        return None
    its, half = constants.family(family), precision in HALF
    share = constants.generations.get(device.generation or "", 1.0)
    efficiency = its.flop_efficiency * (1.0 if half else constants.full_precision)
    bytes_each_second = share * its.byte_efficiency * device.memory_bytes_per_second
    scale = 1.0 if half == work.half else HALF_OF_FP32 if half else 1 / HALF_OF_FP32
    relaid = constants.relaying * work.relaid_bytes if half else 0.0
    other = (
        (work.moved_bytes - work.product_bytes + relaid) * scale
        + work.grouped_flops / constants.grouped_flops_per_byte
        + work.blocked_flops / constants.blocked_flops_per_byte
    ) / bytes_each_second
    dense = work.flops - work.grouped_flops - work.blocked_flops
    matrix = dense / (share * efficiency * peak)
    waiting = max(0.0, work.product_bytes * scale / bytes_each_second - matrix)
    return StepTime(
        matrix=matrix, memory=other + waiting, launch=work.kernels * constants.launch_seconds
    )


@lru_cache(maxsize=1)
def constants() -> Constants:
    """Read the shipped constants, fitted to published rates."""
    return msgspec.convert(constants_document(), Constants)


@lru_cache(maxsize=1)
def constants_document() -> dict[str, Any]:
    """Return the shipped constants with their source, date and the command that made them."""
    document: dict[str, Any] = json.loads(CONSTANTS.read_text(encoding="utf-8"))
    return document


OTHER_PRECISION = 1.2
"""Intervals are so much wider at other precisions than the published rates': assumed."""
OTHER_GPU = 1.3
"""And on GPUs of which no rate was published: assumed; software gets less out of the fastest."""


def spread(family: str, gpu: str, precision: str, *, scaled: bool = False) -> float:
    """Return the factor between an estimate and the ends of its interval."""
    its = constants()
    wide = its.other_device_spread if scaled else its.family(family).spread
    wide *= 1.0 if precision == "fp16" else OTHER_PRECISION
    return wide * (1.0 if gpu in constants_document()["published_gpus"] else OTHER_GPU)


@dataclass(frozen=True)
class Speeds:
    """How fast the GPUs of a catalog do a microbatch of a model of some family at a precision."""

    work: Work
    family: str
    catalog: Catalog
    precision: str

    @cached_property
    def times(self) -> dict[str, StepTime]:
        """Seconds of a microbatch on each GPU that has the precision, with what limits it."""
        gpus = [gpu for gpu in self.catalog.gpus.values() if gpu.kind == "gpu"]
        each = (
            step_time(self.work, device_of(gpu), self.family, self.precision, constants())
            for gpu in gpus
        )
        return {gpu.gpu: t for gpu, t in zip(gpus, each, strict=True) if t is not None}

    def rates(self, known: Sequence[Rate] = ()) -> tuple[Rate, ...]:
        """Estimate the rate of each GPU of the catalog, in its order; without GPUs that lack the
        precision, and those that are known.
        """
        measured = self._of_one_gpu(known)
        without = {r.gpu for r in measured}
        wanted = (gpu for gpu, time in self.times.items() if gpu not in without and time.total > 0)
        return tuple(self._rate(gpu, measured) for gpu in wanted)

    def checks(self, known: Sequence[Rate]) -> tuple[EstimateCheck, ...]:
        """Compare each known rate of one GPU with what would have been estimated without it."""
        measured, checks = self._of_one_gpu(known), []
        for rate in measured:
            if rate.gpu not in self.times or self.times[rate.gpu].total <= 0:
                continue
            others = [r for r in measured if r.gpu != rate.gpu]
            alone, beside = (self._rate(rate.gpu, of).value for of in ((), others))
            checks.append(
                EstimateCheck(
                    gpu=rate.gpu,
                    samples_per_second=rate.value,
                    never_measured=alone / rate.value - 1,
                    other_device=beside / rate.value - 1 if others else None,
                )
            )
        return tuple(checks)

    def _of_one_gpu(self, known: Sequence[Rate]) -> list[Rate]:
        """List the rates of one GPU of the catalog without a framework."""
        gpus = {name for name, gpu in self.catalog.gpus.items() if gpu.kind == "gpu"}
        return [r for r in known if (r.gpu_count, r.framework) == (1, "none") and r.gpu in gpus]

    def _rate(self, gpu: str, known: Sequence[Rate]) -> Rate:
        """Estimate a rate from the known one of the device whose step takes most alike, else from
        the formula alone.
        """
        time, its, family = self.times[gpu], constants(), self.family
        name = family if family in its.families and family != OTHER else "all published models"
        words = f"FLOPs, bytes and kernels of a step over data-sheet figures, efficiency of {name}"
        alike = [
            (abs(math.log(there.total / time.total)), rate.gpu, rate)
            for rate in known
            if (there := self.times.get(rate.gpu)) is not None and there.total > 0
        ]
        wide = spread(family, gpu, self.precision, scaled=bool(alike))
        if alike:
            rate = min(alike, key=lambda row: row[:2])[2]
            ratio = self.times[rate.gpu].total / time.total
            value, low, high = rate.value * ratio, rate.low * ratio / wide, rate.high * ratio * wide
            source = f"{ratio:.2f} x the {rate.basis} rate of {rate.gpu}, by {words}"
        else:
            value, samples = self.work.samples / time.total, self.work.samples
            low, high = value / wide, value * wide
            source = f"{words} ({self.precision}, {samples:g} samples at once, {time.limit})"
        return Rate(
            gpu=gpu,
            gpu_count=1,
            framework="none",
            value=min(value, LARGEST),
            low=min(low, LARGEST),
            high=min(high, LARGEST),
            basis="estimated",
            source=source,
        )

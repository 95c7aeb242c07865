"""Seconds that a device takes for counted work: the formula of the throughput estimate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from placer.errors import unknown
from placer.profiler.devices.peak_speeds import PRECISIONS, Device

CONSTANTS = Path(__file__).with_name("constants.json")
BYTES_OF_FP32 = {"fp32": 1.0, "tf32": 1.0, "fp16": 0.5, "bf16": 0.5}
"""What kernels move at a precision over what they move in FP32. Autocast keeps some in FP32; the
fitted efficiency absorbs that.
"""
OTHER = "other"
"""Family of models like none that was published: constants of all published models together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What one microbatch takes, forward and backward.

    Parameters
    ----------
    samples
        Samples of the microbatch.
    flops, grouped_flops
        Floating point operations, a multiply-add counts as two; those of grouped and depthwise
        convolutions, which run without tensor cores, are part of ``flops`` and stand apart as well.
    moved_bytes
        Bytes that the kernels read and write, in FP32.
    kernels
        Kernels that are launched.
    """

    samples: float
    flops: float
    moved_bytes: float
    kernels: float = 0.0
    grouped_flops: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Shares of the data sheet that models of a family reach, and how far estimates were off:
    factors above 1.

    ``spread`` holds for a model that was never measured, on the generations of the published
    devices.
    """

    flop_efficiency: float
    byte_efficiency: float
    spread: float = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """Fitted figures of the estimator: by family, and for all.

    Parameters
    ----------
    families
        Efficiencies by family.
    launch_seconds
        Time of the host for one kernel.
    grouped_flops_per_byte
        FLOPs that grouped convolutions do in the time in which the device moves a byte.
    generations
        Share of its data sheet that a generation of devices holds, over Ampere.
    other_device_spread
        How far a rate was off that was scaled from another device of the same model: a factor above
        1.
    """

    families: Mapping[str, Family]
    launch_seconds: float
    grouped_flops_per_byte: float
    generations: Mapping[str, float]
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
    a known peak.

    Notes
    -----
    A roofline with a floor: t = max(k l, (F - F_g) / (g e P) + (M + F_g / d) / (g b W)) with k
    kernels at l seconds each, FLOPs F of which F_g grouped, bytes M, peak P and bandwidth W of the
    data sheet, efficiencies e and b, the generation's share g, and d FLOPs of grouped convolutions
    for each byte. The sum, not the larger of both, since eager PyTorch runs one kernel after the
    other: products, then what moves memory. After Williams, Waterman and Patterson (Roofline, CACM
    52(4), 2009).

    Raises
    ------
    PlacerError
        If there is no such precision.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    peak = device.peak(precision)
    if peak is None:
        return None
    its = constants.family(family)
    share = constants.generations.get(device.generation or "", 1.0)
    moved = (
        work.moved_bytes * BYTES_OF_FP32[precision]
        + work.grouped_flops / constants.grouped_flops_per_byte
    )
    return StepTime(
        matrix=(work.flops - work.grouped_flops) / (share * its.flop_efficiency * peak),
        memory=moved / (share * its.byte_efficiency * device.memory_bytes_per_second),
        launch=work.kernels * constants.launch_seconds,
    )


@lru_cache(maxsize=1)
def constants() -> Constants:
    """Read the shipped constants, fitted to published rates."""
    raw = constants_document()
    return Constants(
        families={name: Family(**row) for name, row in raw["families"].items()},
        launch_seconds=raw["launch_seconds"],
        grouped_flops_per_byte=raw["grouped_flops_per_byte"],
        generations=raw["generations"],
        other_device_spread=raw["other_device_spread"],
    )


def constants_document() -> dict[str, Any]:
    """Return the shipped constants with their source, date and the command that made them."""
    document: dict[str, Any] = json.loads(CONSTANTS.read_text(encoding="utf-8"))
    return document

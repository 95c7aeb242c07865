"""Models and devices of published runs, for the tests of islands."""

import math
from functools import cache
from typing import Any

import placer.workload.island
from instances import decoder_of
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Gpu
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.island import Island, PlanWishes, Question, Refusal
from placer.workload.island.hardware import Hardware
from placer.workload.island.wishes import FREE

MPT_VOCABULARY = 50_368
MPT = {
    "mpt-125m": (12, 768),
    "mpt-350m": (24, 1024),
    "mpt-760m": (24, 1536),
    "mpt-1b": (24, 2048),
    "mpt-3b": (32, 2560),
    "mpt-7b": (32, 4096),
    "mpt-13b": (40, 5120),
    "mpt-30b": (48, 7168),
    "mpt-70b": (80, 8192),
}
"""Layers and width of MosaicML's models; plain GPTs with a tied head and learnt positions."""


def mpt(name: str, sequence_length: int = 2048) -> Architecture:
    """Build the architecture of an MPT model."""
    return plain_gpt(*MPT[name], sequence_length)


def plain_gpt(layers: int, width: int, sequence_length: int) -> Architecture:
    """Build a GPT with a tied head and learnt positions."""
    computed = 12 * layers * width**2 + MPT_VOCABULARY * width
    parameters = computed + sequence_length * width
    return decoder_of(
        layers,
        width,
        parameters,
        vocabulary=MPT_VOCABULARY,
        sequence_length=sequence_length,
        computed_parameters=computed,
    )


PLAIN = decoder_of(10, 1000, 10**9, vocabulary=10_000, sequence_length=1000)
SPARSE = replace(PLAIN, experts=16, experts_per_token=2, mlp_width=1000)
ADAPTED = replace(PLAIN, trainable_parameters=10**8, frozen_bytes_per_parameter=0.5)
"""Models of round figures: a billion parameters, 320 million of them in experts, or 100 million
that are trained.
"""


def island(
    architecture: Architecture,
    gpu: Gpu,
    gpu_count: int,
    network_gbps: float | None,
    fabric: str,
    machines: int,
    wishes: PlanWishes = FREE,
    sequences: int = 1,
    **more: Any,
) -> Island | Refusal:
    """Ask for the plan of machines in the order in which tests name them."""
    hardware = Hardware(
        gpu=gpu,
        gpu_count=gpu_count,
        network_gbps=network_gbps,
        fabric=fabric,
        machines=machines,
        host_gib=more.pop("host_gib", math.inf),
    )
    asked = Question(
        architecture=architecture,
        hardware=hardware.joined,
        wishes=wishes,
        sequences=sequences,
        **more,
    )
    return placer.workload.island.island(asked)


@cache
def device(name: str) -> Gpu:
    """Find a device of the shipped book."""
    return load_catalog().gpu(name)

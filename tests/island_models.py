"""Models and devices of published runs, for the tests of islands."""

from functools import cache

from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Gpu
from placer.workload.architecture import Architecture

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
    return Architecture(
        layers=layers,
        width=width,
        kv_width=width,
        mlp_width=4 * width,
        mlp_matrices=2,
        vocabulary=MPT_VOCABULARY,
        tied=True,
        sequence_length=sequence_length,
        parameters=parameters,
        active_parameters=parameters,
        computed_parameters=computed,
        trainable_parameters=parameters,
    )


@cache
def device(name: str) -> Gpu:
    """Find a device of the shipped book."""
    return load_catalog().gpu(name)

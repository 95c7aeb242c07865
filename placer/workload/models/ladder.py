"""A model by its parameter count alone: ``7B`` is a decoder of assumed dimensions."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError
from placer.records import replace
from placer.workload.models.decoder import Decoder, language_model
from placer.workload.profile import ModelProfile

FEWEST, MOST = 100_000_000, 2_000_000_000_000
"""Parameters of models that the ladder spans; it ends at 405 B and is drawn on to 2 T."""
ROUND_WIDTH = 128
"""Widths are multiples of this, as kernels like them."""
PREFIX = {"M": 10**6, "B": 10**9, "T": 10**12}


class Rung(Struct, frozen=True):
    """A published model: its dimensions, and sequence and batch in tokens."""

    decoder: Decoder
    sequence_length: int
    batch_tokens: int


_GPT: dict[str, Any] = {"mlp_matrices": 2, "vocabulary": 50_257, "tied": True}
_LLAMA: dict[str, Any] = {"mlp_matrices": 3, "vocabulary": 128_256, "tied": False}


def _rung(layers: int, width: int, kv_width: int, mlp_width: int, batch_tokens: int) -> Rung:
    """Build a Llama, or a GPT where heads share no keys: with biases, and two vectors a norm."""
    is_gpt = kv_width == width
    decoder = Decoder(
        layers=layers,
        width=width,
        query_width=width,
        kv_width=kv_width,
        mlp_width=mlp_width,
        layer_rest=(13 if is_gpt else 2) * width,
        rest=(2 if is_gpt else 1) * width,
        **(_GPT if is_gpt else _LLAMA),
    )
    return Rung(decoder, 2048 if is_gpt else 8192, batch_tokens)


RUNGS = (
    _rung(12, 768, 768, 3072, 2**19),
    _rung(24, 1024, 1024, 4096, 2**19),
    _rung(24, 1536, 1536, 6144, 2**19),
    _rung(24, 2048, 2048, 8192, 2**20),
    _rung(32, 2560, 2560, 10240, 2**20),
    _rung(32, 4096, 1024, 14_336, 2**22),
    _rung(80, 8192, 1024, 28_672, 2**22),
    _rung(126, 16_384, 1024, 53_248, 2**24),
)
"""GPT-3 125M to 2.7B (arXiv 2005.14165, table 2.1; without a table of positions) and Llama 3 8B to
405B (arXiv 2407.21783, table 3), smallest first. Batches are the published ones; 8B and 70B take
that of the start of 405B.
"""
SOURCE = (
    "assumed: interpolated between published decoders (GPT-3, arXiv 2005.14165, table 2.1; "
    "Llama 3, arXiv 2407.21783, table 3)"
)


def is_size(words: str) -> bool:
    """Tell whether the words are a parameter count: ``7B``, ``350M``, ``1.3B``.

    >>> is_size("7B"), is_size("1.3b"), is_size("resnet50")
    (True, True, False)
    """
    return re.fullmatch(r"[0-9][0-9.,]{0,15}[mMbBtT]", words.strip()) is not None


def sized_model(words: str) -> ModelProfile:
    """Build the profile of a decoder with so many parameters; every dimension is assumed. Raises
    `PlacerError` if the number is none, or outside the ladder.

    >>> profile = sized_model("7B")
    >>> profile.name, round(profile.parameters / 1e9, 2)
    ('7b-assumed', 7.0)
    """
    number = words.strip()
    try:
        wanted = float(number[:-1]) * PREFIX[number[-1].upper()]
    except ValueError:
        raise PlacerError(f"model '{words}' is not a number of parameters", "write 7B") from None
    if not FEWEST <= wanted <= MOST:
        raise PlacerError(
            f"model '{words}' is outside {FEWEST // 10**6}M to {MOST // 10**12}T parameters",
            "give a size between, a profile (placer models) or hf:config.json",
        )
    nearest = nearest_rung(round(wanted))
    return language_model(
        f"{number.lower()}-assumed",
        f"decoder of {number.upper()} parameters, dimensions assumed",
        decoder_of(round(wanted)).architecture(nearest.sequence_length),
        source=SOURCE,
        batch_tokens=nearest.batch_tokens,
        batch_source="assumed: that of the nearest published decoder",
    )


def nearest_rung(parameters: int) -> Rung:
    """Return the published model whose size is nearest."""
    return min(RUNGS, key=lambda rung: abs(math.log(rung.decoder.parameters / parameters)))


def decoder_of(parameters: int) -> Decoder:
    """Interpolate the dimensions of a decoder in the logarithm of its parameters. Layers and width
    lie between those of the rungs around; the kind of layer is that of the nearest rung; the width
    of the feed-forward part then meets the count.
    """
    counts = [math.log(rung.decoder.parameters) for rung in RUNGS]
    wanted = math.log(parameters)
    index = next(
        (i for i, (_, high) in enumerate(pairwise(counts)) if wanted <= high), len(RUNGS) - 2
    )
    low, high = RUNGS[index].decoder, RUNGS[index + 1].decoder
    share = (wanted - counts[index]) / (counts[index + 1] - counts[index])
    exact_layers = low.layers * (high.layers / low.layers) ** share
    exact_width = low.width * (high.width / low.width) ** share
    width = max(ROUND_WIDTH, ROUND_WIDTH * round(exact_width / ROUND_WIDTH))
    # A layer's parameters grow with the square of the width: what rounding adds, layers give back.
    layers = max(1, round(exact_layers * (exact_width / width) ** 2))
    near = low if share < 0.5 else high
    drawn = replace(
        near,
        layers=layers,
        width=width,
        query_width=width,
        kv_width=width if near.kv_width == near.width else min(near.kv_width, width),
        mlp_width=1,
        layer_rest=near.layer_rest // near.width * width,
        rest=near.rest // near.width * width,
    )
    left = (parameters - drawn.parameters) / (layers * near.mlp_matrices * width)
    return replace(drawn, mlp_width=max(1, round(left)))

"""Parameter counts of decoders, profiles of language models, these trained otherwise, and a model
by its parameter count alone: ``7B`` is a decoder of assumed dimensions.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.profile import ModelProfile

STATE_BYTES_PER_PARAMETER = 16
"""Mixed precision with AdamW: optimizer 8, master weights 4, gradients 4."""
FIXED_DEVICE_BYTES = 1_500_000_000
"""CUDA context, NCCL buffers and fragments of a device: assumed."""
LOADER_BYTES = 16_000_000_000
"""Host memory of the processes that read data: eight of 2 GB, assumed."""
SMALL_VOCABULARY = 2**16
"""Token ids below fit 2 bytes, as the usual packed datasets store them; others take 4."""
COMPRESSION = "fp16"
"""Two bytes for each gradient on the wire: BF16."""


class Decoder(Struct, frozen=True, kw_only=True):
    """Dimensions of a decoder, enough to count every parameter.

    layers, width, kv_width, mlp_width, mlp_matrices, vocabulary, tied, positions: As `Architecture`
        takes them.
    query_width: Width of all query heads together: ``width`` in most models.
    layer_rest: Parameters of one layer beside its matrices: norms, biases.
    outputs: Outputs of a head that classifies; None: it writes the next token.
    rest, head_biases: Parameters outside layers and embeddings: the last norm and, counted in it,
        the biases of the output layer.
    experts, experts_per_token: Feed-forward parts of a layer, and how many a token passes through.
    router: Weights of the router for each expert and unit of width: 1 where there is one.
    shared_width: Hidden width of the experts that every token passes through.
    dense_layers, dense_width: Layers without experts, and the hidden width of their feed-forward
        part.
    attention: Parameters of the matrices of attention where they are not those of its widths.
    value_width, window, window_share: As `Architecture` takes them.
    """

    layers: int
    width: int
    query_width: int
    kv_width: int
    mlp_width: int
    mlp_matrices: int
    vocabulary: int
    tied: bool
    positions: int | None = None
    outputs: int | None = None
    layer_rest: int = 0
    rest: int = 0
    head_biases: int = 0
    experts: int = 1
    experts_per_token: int = 1
    router: int = 0
    shared_width: int = 0
    dense_layers: int = 0
    dense_width: int = 0
    attention: int | None = None
    value_width: int | None = None
    window: int | None = None
    window_share: float = 1.0

    @property
    def layers_parameters(self) -> int:
        """Count the parameters of all layers, experts included; the router is theirs."""
        attention = self.attention or 2 * self.width * (self.query_width + self.kv_width)
        routed = self.experts * (self._expert + self.router * self.width)
        shared = self.mlp_matrices * self.width * self.shared_width
        dense = self.mlp_matrices * self.width * self.dense_width
        parts = (self.layers - self.dense_layers) * (routed + shared) + self.dense_layers * dense
        return self.layers * (attention + self.layer_rest) + parts

    @property
    def parameters(self) -> int:
        """Count all parameters; weights that are shared count once."""
        head = 0 if self.tied else self.vocabulary
        embeddings = (
            self.vocabulary + (head if self.outputs is None else self.outputs)
        ) * self.width
        table = (self.positions or 0) * self.width
        return self.layers_parameters + embeddings + table + self.rest

    @property
    def active_parameters(self) -> int:
        """Count the parameters that one token passes through."""
        idle = self.experts - self.experts_per_token
        return self.parameters - (self.layers - self.dense_layers) * idle * self._expert

    @property
    def computed_parameters(self) -> int:
        """Count the active parameters without look-ups: a tied embedding counts as output layer."""
        is_head = self.tied and self.outputs is None
        looked_up = (self.positions or 0) + (0 if is_head else self.vocabulary)
        return self.active_parameters - looked_up * self.width

    @property
    def _expert(self) -> int:
        return self.mlp_matrices * self.width * self.mlp_width

    def architecture(self, sequence_length: int) -> Architecture:
        """Build what speed and memory follow from; all parameters are trained."""
        names = (name for name in Architecture.__struct_fields__ if hasattr(self, name))
        alike = {name: getattr(self, name) for name in names}
        alike["query_width"] = None if self.query_width == self.width else self.query_width
        return Architecture(
            **alike, sequence_length=sequence_length, trainable_parameters=self.parameters
        )


def language_model(
    name: str,
    title: str,
    architecture: Architecture,
    *,
    source: str,
    batch_tokens: int | None = None,
    batch_source: str = "assumed: the batch of the nearest published decoder",
) -> ModelProfile:
    """Build the profile of a language model; it has no rates, as they follow from its dimensions.

    batch_tokens, batch_source: Tokens of one optimizer step over all workers, and who used as many;
        None: those of the nearest published decoder.
    """
    if batch_tokens is None:
        batch_tokens = nearest_rung(architecture.parameters).batch_tokens
    token_bytes = 2 if architecture.vocabulary <= SMALL_VOCABULARY else 4
    batch = max(1, round(batch_tokens / architecture.sequence_length))
    states = STATE_BYTES_PER_PARAMETER * architecture.trainable_parameters
    return ModelProfile(
        name=name,
        title=title,
        family="transformer",
        parameters=architecture.parameters,
        tensors=None,
        gradient_bytes_fp32=4 * architecture.trainable_parameters,
        gradient_source=f"4 x trainable parameters; dimensions: {source}",
        device_memory_bytes=states + FIXED_DEVICE_BYTES,
        host_memory_bytes=LOADER_BYTES,
        memory_source="estimated: 16 bytes per parameter (mixed precision, AdamW) and 1.5 GB on "
        "one device without sharding; host: 16 GB for the data loader, assumed",
        bytes_per_sample=token_bytes * architecture.sequence_length,
        bytes_per_sample_source=f"{token_bytes} bytes for each of {architecture.sequence_length:,} "
        f"token ids; TBS: {batch:,} sequences of them, {batch_source}",
        target_batch_size=batch,
        microbatch=1,
        compression=COMPRESSION,
        efficiency=(),
        rates=(),
        architecture=architecture,
    )


BF16_BYTES, FOUR_BIT_BYTES = 2.0, 0.516
"""Bytes of a frozen parameter of a matrix under LoRA, and under QLoRA: 4 bits, and 0.127 bits for
scales of 64 weights that are quantized again (Dettmers et al., arXiv 2305.14314, section 3). QLoRA
leaves the embedding and the output layer in BF16.
"""
ADAPTER_BATCH = 128
"""Sequences of a step where adapters are trained and nobody says otherwise, assumed: the batch of
Hu et al. (arXiv 2106.09685, table 12) and of Alpaca. Batches of pretraining are far larger.
"""
ASKED = "; here "
"""Begins what is added to a source where another length was asked for."""


def with_sequence_length(profile: ModelProfile, tokens: int) -> ModelProfile:
    """Return a language model fed with sequences of another length. Bytes of a sample grow with its
    tokens, and the default batch keeps its tokens: half as many sequences of twice the length; with
    adapters it keeps its sequences. Rates were measured at the old length and fall away. Raises
    `PlacerError` if the model has no tokens, or no positions for so many.
    """
    architecture = architecture_of(profile, "--seq-len")
    known = architecture.sequence_length
    if tokens == known:
        return profile
    size, source = profile.bytes_per_sample, profile.bytes_per_sample_source
    times = 1.0 if architecture.has_adapters else known / tokens
    return replace(
        profile,
        architecture=architecture.with_sequence_length(tokens),
        bytes_per_sample=None if size is None else max(1, round(size * tokens / known)),
        bytes_per_sample_source=None
        if source is None
        else f"{source.partition(ASKED)[0]}{ASKED}{tokens:,} tokens",
        target_batch_size=max(1, round(profile.target_batch_size * times)),
        rates=(),
    )


def with_adapters(profile: ModelProfile, rank: int, frozen_bytes: float) -> ModelProfile:
    """Return a language model of which low-rank adapters alone are trained, `ADAPTER_BATCH`
    sequences a step; rates of the whole model fall away. Raises `PlacerError` if the model has no
    known dimensions, or the rank is above its width.

    frozen_bytes: Of each parameter in the matrices of the layers: `BF16_BYTES` or `FOUR_BIT_BYTES`.
    """
    architecture = architecture_of(profile, "--lora")
    if not 1 <= rank <= architecture.width:
        raise PlacerError(
            f"rank {rank:,} of adapters for a model of width {architecture.width:,}",
            "give 1 to the width, usually 8 to 64",
        )
    before = architecture.trainable_parameters if architecture.has_adapters else 0
    frozen = architecture.parameters - before
    trained = adapter_parameters(architecture, rank)
    tables = architecture.vocabulary * architecture.width * (1 if architecture.tied else 2)
    whole = min(1.0, tables / frozen)
    frozen_bytes += whole * (BF16_BYTES - frozen_bytes)
    adapted = replace(
        architecture,
        parameters=frozen + trained,
        active_parameters=architecture.active_parameters - before + trained,
        computed_parameters=architecture.computed_parameters - before + trained,
        trainable_parameters=trained,
        frozen_bytes_per_parameter=frozen_bytes,
    )
    if adapted == architecture:
        return profile
    states = STATE_BYTES_PER_PARAMETER * trained + round(frozen_bytes * frozen)
    return replace(
        profile,
        architecture=adapted,
        parameters=frozen + trained,
        gradient_bytes_fp32=4 * trained,
        gradient_source=f"4 x parameters of adapters of rank {rank} at every matrix",
        device_memory_bytes=states + FIXED_DEVICE_BYTES,
        target_batch_size=ADAPTER_BATCH,
        memory_source=f"estimated: frozen weights of {frozen_bytes:.3g} bytes, adapters of 16 "
        "bytes per parameter and 1.5 GB on one device without sharding",
        rates=(),
    )


def adapter_parameters(architecture: Architecture, rank: int) -> int:
    """Count the parameters of adapters: rank x (inputs + outputs) of every matrix. Hu et al. (arXiv
    2106.09685). A mixture of experts has adapters at its attention alone, as is usual: its experts
    are many.
    """
    width, kv = architecture.width, architecture.kv_width
    sides = 2 * (width + width) + 2 * (width + kv)
    if not architecture.is_sparse:
        sides += architecture.mlp_matrices * (width + architecture.mlp_width)
    return architecture.layers * rank * sides


def architecture_of(profile: ModelProfile, word: str) -> Architecture:
    """Return the dimensions of a model; `PlacerError` if its samples are no tokens."""
    if profile.architecture is None:
        raise PlacerError(
            f"{profile.name} has no tokens: its profile gives no dimensions of a language model",
            f"leave out {word}, or name a language model (placer models)",
        )
    return profile.architecture


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
    index = min(bisect_left(counts[1:], wanted), len(RUNGS) - 2)
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

"""A language model trained otherwise: with sequences of another length, or through adapters."""

from __future__ import annotations

from placer.errors import PlacerError
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.models.decoder import FIXED_DEVICE_BYTES, STATE_BYTES_PER_PARAMETER
from placer.workload.profile import ModelProfile

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

    rank: Of the adapters of every matrix of attention and feed-forward part.
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

"""Parameter counts of decoders, profiles of language models, and these trained otherwise."""

from __future__ import annotations

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


ALIKE = (
    *(
        "layers",
        "width",
        "kv_width",
        "mlp_width",
        "mlp_matrices",
        "vocabulary",
        "tied",
        "parameters",
    ),
    *("active_parameters", "computed_parameters", "positions", "experts", "experts_per_token"),
    *("dense_layers", "value_width", "window", "window_share"),
)
"""Fields of a decoder that its architecture has too."""


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
        return Architecture(
            **{name: getattr(self, name) for name in ALIKE},
            sequence_length=sequence_length,
            trainable_parameters=self.parameters,
            query_width=None if self.query_width == self.width else self.query_width,
        )


def language_model(
    name: str,
    title: str,
    architecture: Architecture,
    *,
    source: str,
    batch_tokens: int,
    batch_source: str,
) -> ModelProfile:
    """Build the profile of a language model; it has no rates, as they follow from its dimensions.

    batch_tokens, batch_source: Tokens of one optimizer step over all workers, and who used as many.
    """
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

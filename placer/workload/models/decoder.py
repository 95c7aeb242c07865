"""Parameter counts of decoders from their dimensions, and the profile of a language model."""

from __future__ import annotations

from msgspec import Struct

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
        return Architecture(
            layers=self.layers,
            width=self.width,
            kv_width=self.kv_width,
            mlp_width=self.mlp_width,
            mlp_matrices=self.mlp_matrices,
            vocabulary=self.vocabulary,
            tied=self.tied,
            sequence_length=sequence_length,
            parameters=self.parameters,
            active_parameters=self.active_parameters,
            computed_parameters=self.computed_parameters,
            trainable_parameters=self.parameters,
            positions=self.positions,
            experts=self.experts,
            experts_per_token=self.experts_per_token,
            dense_layers=self.dense_layers,
            query_width=None if self.query_width == self.width else self.query_width,
            value_width=self.value_width,
            window=self.window,
            window_share=self.window_share,
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

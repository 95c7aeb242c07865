"""The shape of a language model: what its FLOPs, memory and tokens follow from."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from placer.errors import PlacerError
from placer.records import Count, Natural, Share, replace

LARGEST = 10**15
"""Figures above are slips of the keyboard."""
SIZES = (
    *("layers", "width", "kv_width", "mlp_width", "mlp_matrices", "vocabulary", "parameters"),
    *("active_parameters", "computed_parameters", "trainable_parameters"),
)
LONGEST_SEQUENCE = 2**24
"""More tokens in one sequence are a slip of the keyboard."""


class Architecture(Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """Dimensions and parameter counts of a transformer.

    layers, width: Blocks, and the width of the residual stream (L and d in the formulas).
    kv_width: Width of keys and values together of one of them: heads of keys times their size;
        below ``width`` with grouped queries.
    mlp_width: Hidden width of the feed-forward part, of one expert where there are several.
    mlp_matrices: Matrices of the feed-forward part: 2, or 3 where it is gated.
    vocabulary: Rows of the embedding (V).
    tied: Whether the output layer shares the embedding's weights.
    sequence_length: Tokens of one sample (T).
    parameters: All parameters, as they are stored and exchanged.
    active_parameters: Parameters that one token passes through; fewer than all in a mixture of
        experts.
    computed_parameters: Active parameters that are multiplied with (N' in the formulas): all but
        look-ups; a tied embedding counts once, as output layer.
    trainable_parameters: Parameters that the optimizer changes: fewer with adapters.
    frozen_bytes_per_parameter: Bytes of each parameter that is not trained: 2 in BF16, 0.5 in 4
        bits.
    positions: Rows of a learned table of positions: no longer sequence has an embedding. None where
        positions are computed (rotary, ALiBi), which any length may be.
    experts, experts_per_token: Feed-forward parts of a layer from which each token gets some; 1
        where there is one.
    dense_layers: Layers of a mixture of experts that have one feed-forward part instead.
    query_width, value_width: Width of all query heads, and of all value heads, where it is not
        ``width``.
    window, window_share: Tokens that attention looks back in some layers, and the share of those
        layers.
    """

    layers: Natural
    width: Natural
    kv_width: Natural
    mlp_width: Natural
    mlp_matrices: Natural
    vocabulary: Natural
    tied: bool
    sequence_length: Natural
    parameters: Natural
    active_parameters: Natural
    computed_parameters: Natural
    trainable_parameters: Natural
    # Both are written even where they are the default, as files of the first version are.
    frozen_bytes_per_parameter: Annotated[float, Meta(gt=0, le=4)] = field(
        default_factory=lambda: 2.0
    )
    positions: Natural | None = field(default_factory=lambda: None)
    experts: Natural = 1
    experts_per_token: Natural = 1
    dense_layers: Count = 0
    query_width: Natural | None = None
    value_width: Natural | None = None
    window: Natural | None = None
    window_share: Share = 1.0

    def __post_init__(self) -> None:
        """Refuse dimensions that are not positive and counts that contradict each other."""
        for name in SIZES:
            value = getattr(self, name)
            if not 0 < value <= LARGEST:
                raise PlacerError(
                    f"architecture: {name} is {str(value)[:24]}", "give a whole number above 0"
                )
        if not 0 < self.sequence_length <= LONGEST_SEQUENCE:
            raise PlacerError(
                f"sequence length {str(self.sequence_length)[:24]}",
                f"give 1 to {LONGEST_SEQUENCE:,} tokens",
            )
        if self.positions is not None and not self.sequence_length <= self.positions:
            raise PlacerError(
                f"sequence length {self.sequence_length:,} is above the model's "
                f"{str(self.positions)[:24]} positions",
                "give no more tokens: its table of positions has no further rows",
            )
        if not 1 <= self.experts_per_token <= self.experts or self.dense_layers > self.layers:
            raise PlacerError(
                f"architecture: {self.experts_per_token} of {self.experts} experts in "
                f"{self.layers - self.dense_layers} layers",
                "correct the file",
            )
        for name in SIZES[-3:]:
            value = getattr(self, name)
            if value > self.parameters:
                raise PlacerError(
                    f"architecture: {name} {value:,} above {self.parameters:,} in all",
                    "correct the file",
                )
        if not 0 < self.frozen_bytes_per_parameter <= 4:
            raise PlacerError(
                f"architecture: {self.frozen_bytes_per_parameter:g} bytes for a frozen parameter",
                "give a number above 0 and at most 4",
            )

    @property
    def is_sparse(self) -> bool:
        """Tell whether a token passes through part of the parameters only: a mixture of experts."""
        return self.active_parameters < self.parameters

    @property
    def has_adapters(self) -> bool:
        """Tell whether most parameters are frozen: LoRA and QLoRA."""
        return self.trainable_parameters < self.parameters

    @property
    def expert_parameters(self) -> int:
        """Count the parameters of all routed experts; 0 where there is one feed-forward part."""
        if self.experts == 1:
            return 0
        each = self.mlp_matrices * self.width * self.mlp_width
        return (self.layers - self.dense_layers) * self.experts * each

    @property
    def attended_tokens(self) -> float:
        """Tokens that attention reads for each on average, twice: T where all see all before."""
        tokens = self.sequence_length
        if self.window is None or self.window >= tokens:
            return float(tokens)
        seen = self.window / tokens
        return tokens * (1 - self.window_share * (1 - seen * (2 - seen)))

    @property
    def attention_width(self) -> float:
        """Mean width of queries and values."""
        query = self.query_width or self.width
        return (query + (self.value_width or query)) / 2

    def with_sequence_length(self, tokens: int) -> Architecture:
        """Return the same model fed with sequences of another length."""
        return replace(self, sequence_length=tokens)

"""Models of text: encoders with a masked language model on top (Devlin et al., BERT, NAACL 2019;
Liu et al., RoBERTa, 2019), and an LSTM (Zaremba et al., Recurrent Neural Network Regularization,
2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.profiler.builtin.batches import IGNORED, masked_text, running_text
from placer.profiler.builtin.resnet import residual
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch

INITIAL_DEVIATION = 0.02
"""Standard deviation of the first embeddings (BERT)."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """Shape of an encoder.

    layers, width, heads: Blocks, numbers of a token, and heads of the attention; the feed-forward
        part is 4 widths wide.
    vocabulary, positions, kinds: Rows of the embeddings of words, places and segments.
    """

    layers: int
    width: int
    heads: int
    vocabulary: int
    positions: int
    kinds: int
    dropout: float = 0.1


BERT_BASE = Encoder(layers=12, width=768, heads=12, vocabulary=30522, positions=512, kinds=2)
BERT_MINI = Encoder(layers=4, width=256, heads=4, vocabulary=30522, positions=512, kinds=2)
"""Turc et al., Well-Read Students Learn Better, 2019."""
XLM_R_LARGE = Encoder(layers=24, width=1024, heads=16, vocabulary=250002, positions=514, kinds=1)
"""Conneau et al., Unsupervised Cross-lingual Representation Learning at Scale, ACL 2020."""


def bert_base_like() -> Workload:
    """Build BERT base: 109,514,298 parameters in 202 tensors, word embeddings tied to the
    output.
    """
    title = "BERT base, masked language model, 128 tokens"
    return _workload("bert-base-like", title, BERT_BASE, 128)


def transformer_560m() -> Workload:
    """Build XLM-R large: 560,142,482 parameters in 394 tensors, of which 256 M are the
    embeddings of 250,002 words.
    """
    title = "encoder as XLM-R large, masked language model, 128 tokens"
    return _workload("transformer-560m", title, XLM_R_LARGE, 128)


def transformer_small() -> Workload:
    """Build BERT mini: 11,201,594 parameters in 74 tensors, texts of 64 tokens."""
    title = "BERT mini, masked language model, 64 tokens"
    return _workload("transformer-small", title, BERT_MINI, 64)


def masked_language_model(shape: Encoder) -> torch.nn.Module:
    """Build a module from tokens ``[samples, tokens]`` to logits ``[samples, tokens, vocabulary]``.
    The output layer multiplies by the embedding of words (tied: one tensor) and adds a bias. Logits
    are made for every token, as Hugging Face transformers does, not for the hidden ones alone, as
    the first BERT did.
    """
    torch = load_torch()
    nn: Any = torch.nn

    class MaskedLanguageModel(nn.Module):  # type: ignore[misc]
        """Embeddings, layers, and the head of a masked language model."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places, self.kinds = (
                nn.Embedding(n, shape.width)
                for n in (shape.vocabulary, shape.positions, shape.kinds)
            )
            for table in (self.words, self.places, self.kinds):
                nn.init.normal_(table.weight, std=INITIAL_DEVIATION)
            self.start = nn.Sequential(nn.LayerNorm(shape.width), nn.Dropout(shape.dropout))
            self.layers = nn.Sequential(
                *(block for _ in range(shape.layers) for block in _layer(shape))
            )
            self.head = nn.Sequential(
                nn.Linear(shape.width, shape.width), nn.GELU(), nn.LayerNorm(shape.width)
            )
            self.bias = nn.Parameter(torch.zeros(shape.vocabulary))

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
            return nn.functional.linear(
                self.head(self.layers(self.start(x))), self.words.weight, self.bias
            )

    return MaskedLanguageModel()


def _layer(shape: Encoder) -> list[Any]:
    """Build attention and the feed-forward part, each with a shortcut and a layer norm after
    it: 16 tensors.
    """
    nn: Any = load_torch().nn
    wide = [
        nn.Linear(shape.width, 4 * shape.width),
        nn.GELU(),
        nn.Linear(4 * shape.width, shape.width),
        nn.Dropout(shape.dropout),
    ]
    mixing = nn.Sequential(_attention(shape), nn.Dropout(shape.dropout))
    return [
        residual(body, nn.Identity(), nn.LayerNorm(shape.width))
        for body in (mixing, nn.Sequential(*wide))
    ]


def _attention(shape: Encoder) -> Any:
    nn: Any = load_torch().nn

    class Attention(nn.Module):  # type: ignore[misc]
        """Attention of every token to all tokens of its text."""

        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value, self.out = (
                nn.Linear(shape.width, shape.width) for _ in range(4)
            )

        def forward(self, x: Any) -> Any:
            samples, tokens, width = x.shape
            split = (samples, tokens, shape.heads, width // shape.heads)
            query, key, value = (
                part(x).view(split).transpose(1, 2) for part in (self.query, self.key, self.value)
            )
            dropout = shape.dropout if self.training else 0.0
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
            return self.out(mixed.transpose(1, 2).reshape(samples, tokens, width))

    return Attention()


def _workload(name: str, title: str, shape: Encoder, tokens: int) -> Workload:
    torch = load_torch()

    def loss(module: Any, batch: Any) -> Any:
        logits = module(batch[0]).flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, batch[1].flatten(), ignore_index=IGNORED)

    return Workload(
        name=name,
        title=title,
        family="transformer",
        module=masked_language_model(shape),
        batch=lambda samples, device: masked_text(samples, tokens, shape.vocabulary, device),
        loss=loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-4),
        source=f"builtin {name}",
    )


WORDS, WIDTH, LAYERS, TOKENS, DROPOUT = 10_000, 650, 2, 35, 0.5
"""Words of the Penn Treebank, width and number of layers, words of a sample, share that is dropped.
"""


def word_language_model() -> Workload:
    """Build an LSTM of two layers of 650: 19,780,400 parameters in 11 tensors, 35 words a
    sample.
    """
    torch = load_torch()
    nn: Any = torch.nn

    class LanguageModel(nn.Module):  # type: ignore[misc]
        """Words ``[samples, tokens]`` to logits ``[samples, tokens, words]`` of the next word."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.dropout = nn.Embedding(WORDS, WIDTH), nn.Dropout(DROPOUT)
            self.lstm = nn.LSTM(WIDTH, WIDTH, LAYERS, batch_first=True, dropout=DROPOUT)
            self.out = nn.Linear(WIDTH, WORDS)

        def forward(self, tokens: Any) -> Any:
            states, _ = self.lstm(self.dropout(self.words(tokens)))
            return self.out(self.dropout(states))

    def loss(module: Any, batch: Any) -> Any:
        return nn.functional.cross_entropy(module(batch[0]).flatten(0, 1), batch[1].flatten())

    return Workload(
        name="lstm",
        title="LSTM language model, 2 layers of 650, 35 words",
        family="rnn",
        module=LanguageModel(),
        batch=lambda samples, device: running_text(samples, TOKENS, WORDS, device),
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        source="builtin lstm",
    )

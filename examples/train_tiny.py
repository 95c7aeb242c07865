"""Two small language models to try placer with, as module:function of `placer profile` and `run`.

Shows: how your own model is handed to placer: a function without arguments that returns a
`Workload` (or a module and a maker of batches).

Prints: nothing by itself. run_plan.sh trains `workload`, profile_to_skypilot.sh profiles
`ten_million`, own_loop.py trains either.

Needs: PyTorch.

The task is made up, so nothing is downloaded: each sequence counts upwards modulo 32 in steps of
its own, and the model predicts the next number. Guessing gives a loss of ln 32 = 3.47; a model that
has learned the rule comes close to 0 for all but the first number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from placer.profiler.workload import Workload

NUMBERS = 32
"""Numbers 0 to 31, and one token each."""


class Gpt(nn.Module):
    """A decoder in the manner of GPT-2: token and position embeddings, causal attention, a linear
    head.
    """

    def __init__(self, *, layers: int, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.token = nn.Embedding(NUMBERS, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, NUMBERS)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next number; (samples, length) to (samples, length, 32)."""
        causal = nn.Transformer.generate_square_subsequent_mask(self.length, device=tokens.device)
        return self.head(
            self.layers(self.token(tokens) + self.position, mask=causal, is_causal=True)
        )

    def batch(self, samples: int, device: torch.device | str = "cpu") -> Tensor:
        """Sequences that count upwards; (samples, length + 1)."""
        start, step = torch.randint(NUMBERS, (samples, 1)), torch.randint(1, 8, (samples, 1))
        return ((start + step * torch.arange(self.length + 1)) % NUMBERS).to(device)


def loss(model: nn.Module, batch: Tensor) -> Tensor:
    """Cross-entropy of the next number, nats."""
    return nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def gpt(name: str) -> Gpt:
    """Make a model: tiny-gpt has 0.1 M parameters, small-gpt 10.8 M, as nanoGPT's first example;
    any other name is the tiny one.
    """
    small = {"layers": 6, "width": 384, "heads": 6, "length": 256}
    return Gpt(
        **(small if name == "small-gpt" else {"layers": 2, "width": 64, "heads": 4, "length": 16})
    )


def workload() -> Workload:
    """0.1 M parameters: trains on any laptop, in several processes at once."""
    return _described("tiny-gpt", 3e-3)


def ten_million() -> Workload:
    """10.8 M parameters: worth a GPU."""
    return _described("small-gpt", 3e-4)


def _described(name: str, rate: float) -> Workload:
    from placer.profiler.workload import Workload  # here: machines that only train need no placer

    model = gpt(name)
    return Workload(
        name=name,
        title=f"decoder for sequences of {model.length}",
        family="transformer",
        module=model,
        batch=model.batch,
        loss=loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=rate),
    )

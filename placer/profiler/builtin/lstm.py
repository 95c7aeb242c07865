"""A word-level language model (Zaremba et al., Recurrent Neural Network Regularization, 2014: the
medium LSTM).
"""

from __future__ import annotations

from typing import Any

from placer.profiler.builtin.batches import running_text
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

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

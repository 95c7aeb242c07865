"""Models that need no download: plain PyTorch, random weights, synthetic batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from placer.errors import unknown
from placer.profiler.builtin.gnn import molecule_network
from placer.profiler.builtin.resnet import cnn_small, resnet50_like
from placer.profiler.builtin.transformer import (
    bert_base_like,
    transformer_560m,
    transformer_small,
    word_language_model,
)
from placer.profiler.workload import Workload

BUILTINS: Mapping[str, Callable[[], Workload]] = MappingProxyType(
    {
        "resnet50-like": resnet50_like,
        "bert-base-like": bert_base_like,
        "transformer-560m": transformer_560m,
        "lstm": word_language_model,
        "gnn": molecule_network,
        "cnn-small": cnn_small,
        "transformer-small": transformer_small,
    }
)
"""Makers of workloads by name, the last two small enough for tests and slow machines."""


def builtin(name: str) -> Workload:
    """Make a built-in workload. Its module is on the CPU, or where ``with torch.device("meta"):``
    around the call says. Raises `PlacerError` if there is no such name, or PyTorch is not
    installed.
    """
    if name not in BUILTINS:
        raise unknown("built-in model", name, BUILTINS)
    return BUILTINS[name]()

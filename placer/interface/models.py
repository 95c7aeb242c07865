"""Models as users name them, also those that PyTorch has to count."""

from __future__ import annotations

from placer.workload.models.configuration import Configuration
from placer.workload.models.model_words import read_model
from placer.workload.profile import ModelProfile


def model_of(words: str) -> ModelProfile:
    """Read what ``--model`` names; PyTorch is needed only for configurations of models that are no
    standard decoder.

    Raise `PlacerError` if the words name nothing, or a file is wrong.
    """
    return read_model(words, _counted)


def _counted(asked: Configuration) -> ModelProfile:
    from placer.profiler.huggingface.counted import counted_profile

    return counted_profile(asked)

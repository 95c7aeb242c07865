"""Models as users name them: a shipped profile, a file, a configuration, a parameter count."""

from __future__ import annotations

from collections.abc import Callable

from placer.errors import PlacerError
from placer.workload.models.configuration import (
    Configuration,
    configuration_file,
    read_configuration,
)
from placer.workload.models.configured_decoder import (
    configured_decoder,
    configured_model,
    sequence_length,
)
from placer.workload.models.ladder import is_size, sized_model
from placer.workload.profile import ModelProfile, load_profile, profile_names

PREFIX = "hf:"


def read_model(
    words: str, counted: Callable[[Configuration], ModelProfile] | None = None
) -> ModelProfile:
    """Read what ``--model`` names.

    Parameters
    ----------
    words
        A name of ``placer models``, a profile's file, ``hf:`` with a local configuration, its
        folder or the name of a shipped model, or a number of parameters such as ``7B``.
    counted
        Counts models whose configuration is not one of a standard decoder; None: they are refused.

    Raises
    ------
    PlacerError
        If the words name nothing, or a file is wrong.
    """
    if not isinstance(words, str):
        raise PlacerError(f"model {words!r} is not a name", "give text")
    if words.startswith(PREFIX):
        return _hugging_face(words.removeprefix(PREFIX), counted)
    if is_size(words) and words not in profile_names():
        return sized_model(words)
    return load_profile(words)


def _hugging_face(
    path: str, counted: Callable[[Configuration], ModelProfile] | None
) -> ModelProfile:
    shipped = path.rstrip("/").rpartition("/")[2].lower()
    if configuration_file(path) is None and shipped in profile_names():
        return load_profile(shipped)
    asked = read_configuration(path)
    decoder = configured_decoder(asked)
    if decoder is not None:
        return configured_model(asked, decoder.architecture(sequence_length(asked)))
    if counted is None:
        raise PlacerError(
            f"'{asked.file}': dimensions of model type '{asked.model_type[:40]}' are not known",
            "count it with placer profile hf:FILE --estimate -o FILE",
        )
    return counted(asked)

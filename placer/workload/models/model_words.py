"""Models as users name them: a shipped profile, a file, a configuration, a parameter count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from placer.errors import PlacerError, unknown
from placer.workload.models.configuration import (
    Configuration,
    MissingKeyError,
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
    """Read what ``--model`` names. Raises `PlacerError` if the words name nothing, or a file is
    wrong.

    words: A name of ``placer models``, the name of a public model on Hugging Face such as
        ``Qwen/Qwen2.5-7B``, a profile's file, ``hf:`` with a local configuration, its folder or
        such a name, or a number of parameters such as ``7B``.
    counted: Counts models whose configuration is not one of a standard decoder; None: they are
        refused.
    """
    if not isinstance(words, str):
        raise PlacerError(f"model {words!r} is not a name", "give text")
    if words.startswith(PREFIX):
        return _hugging_face(words.removeprefix(PREFIX), counted)
    names = profile_names()
    if is_size(words) and words not in names:
        return sized_model(words)
    if words in names or words.endswith(".json") or _is_path(words):
        return load_profile(words)
    return _by_name(words) or _missing(words)


def _by_name(words: str) -> ModelProfile | None:
    """Find a shipped profile or a public model by its name in any case; the shipped one wins."""
    from placer.workload.models.public_models import public_model

    name = words.strip().rpartition("/")[2].lower()
    if name in profile_names():
        return load_profile(name)
    found = public_model(words)
    return load_profile(found.name) if found and found.name in profile_names() else found


def _missing(words: str) -> ModelProfile:
    """Refuse a name that nobody knows, with the nearest one."""
    from placer.workload.models.public_models import public_model_names

    public = public_model_names()
    known = [*profile_names(), *public, *(name.rpartition("/")[2] for name in public)]
    hint = "see placer models --public; or give its configuration (hf:config.json) or a size: 7B"
    raise unknown("model", words, known, hint)


def _is_path(words: str) -> bool:
    """Tell whether words name a file: with more than one slash, or where something lies."""
    if "/" not in words:
        return False
    try:
        return words.count("/") > 1 or words.startswith((".", "~")) or Path(words).exists()
    except (OSError, ValueError):
        return True


def _hugging_face(
    path: str, counted: Callable[[Configuration], ModelProfile] | None
) -> ModelProfile:
    if configuration_file(path) is None:
        found = _by_name(path.rstrip("/"))
        if found is not None:
            return found
    asked = read_configuration(path)
    try:
        decoder = configured_decoder(asked)
    except MissingKeyError:  # transformers knows the defaults of its model types
        if counted is None:
            raise
        decoder = None
    if decoder is not None:
        return configured_model(asked, decoder.architecture(sequence_length(asked)))
    if counted is None:
        raise PlacerError(
            f"'{asked.file}': dimensions of model type '{asked.model_type[:40]}' are not known",
            "count it with placer profile hf:FILE --estimate -o FILE",
        )
    return counted(asked)

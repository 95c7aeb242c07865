"""Models as users name them: a shipped profile, a public model, a file, a parameter count."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from placer.errors import PlacerError, unknown
from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.records import replace
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
from placer.workload.models.decoder import is_size, language_model, sized_model
from placer.workload.profile import ModelProfile, load_profile, profile_names

FILE = "public_models.csv"
_TUNED = re.compile(r"-(instruct|chat|it|base|pt|hf|text|original|v0\.[0-9]+|[0-9]{4})$")
"""What stands behind the name of a model of the same dimensions; the first version of a table is
that of a name without one.
"""
_OWN_KEYS = (
    *("model", "experts", "experts_per_token"),
    *("other_parameters", "parameters", "source", "as_of"),
)
"""Columns that are no keys of a configuration."""


def public_model_names() -> list[str]:
    """Return the names of the models of the table, as Hugging Face writes them."""
    return [row["model"] for row in _rows()]


def public_model(words: str) -> ModelProfile | None:
    """Return the profile of a public model; None if the table has no such model. Speed and memory
    follow from the dimensions. Batch and length of sequences are assumed, as for any configuration.

    words: A name with or without its organisation, in any case, also with ``-Instruct``, ``-Chat``
        or ``-Base`` behind it: such models have the dimensions of the one that they were made from.
    """
    organisation, _, name = words.strip().lower().rpartition("/")
    named = [(*row["model"].lower().split("/", 1), row) for row in _rows()]
    own = [(known, row) for owner, known, row in named if organisation in ("", owner)]
    for root in (str, _root):
        for known, row in own:
            if root(name) == root(known):
                return _profile(row)
    return None


def _root(name: str) -> str:
    """Return a name without what stands behind it, and without ``Meta-`` before it."""
    plain = name.removeprefix("meta-")
    while _TUNED.search(plain):
        plain = _TUNED.sub("", plain)
    return plain


@lru_cache(maxsize=1)
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(read_rows(shipped_catalogs() / FILE, FILE))


def _profile(row: dict[str, Any]) -> ModelProfile:
    asked = configuration_of(row)
    decoder = configured_decoder(asked)
    assert decoder is not None
    decoder = replace(decoder, rest=decoder.rest + (row["other_parameters"] or 0))
    name = row["model"].rpartition("/")[2]
    architecture = decoder.architecture(sequence_length(asked))
    experts = f", {row['experts_per_token']} of {row['experts']} experts" if row["experts"] else ""
    return language_model(
        name.lower(),
        f"{name}, language model{experts}, {architecture.sequence_length:,} tokens",
        architecture,
        source=f"{row['source']}, {row['as_of'][:7]}",
    )


def configuration_of(row: dict[str, Any]) -> Configuration:
    """Write a row of the table as the configuration that it was read from."""
    values = {key: v for key, v in row.items() if key not in _OWN_KEYS and v not in (None, "")}
    values["tie_word_embeddings"] = row["tie_word_embeddings"] == "yes"
    if row["experts"]:
        values["num_experts"] = row["experts"]
        values["num_experts_per_tok"] = row["experts_per_token"]
    return Configuration(file=Path(FILE), values=values)


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
    name = words.strip().rpartition("/")[2].lower()
    if name in profile_names():
        return load_profile(name)
    found = public_model(words)
    return load_profile(found.name) if found and found.name in profile_names() else found


def _missing(words: str) -> ModelProfile:
    """Refuse a name that nobody knows, with the nearest one."""
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

"""Public models by their names on Hugging Face: dimensions that were published, in a table."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.records import replace
from placer.workload.models.configuration import Configuration
from placer.workload.models.configured_decoder import configured_decoder, sequence_length
from placer.workload.models.decoder import language_model
from placer.workload.models.ladder import nearest_rung
from placer.workload.profile import ModelProfile

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
    organisation, _, name = words.strip().rpartition("/")
    for row in _rows():
        owner, _, known = row["model"].partition("/")
        if organisation and organisation.lower() != owner.lower():
            continue
        if name.lower() == known.lower():
            return _profile(row)
    for row in _rows():
        owner, _, known = row["model"].partition("/")
        if organisation and organisation.lower() != owner.lower():
            continue
        if _root(name) == _root(known):
            return _profile(row)
    return None


def _root(name: str) -> str:
    """Return a name without what stands behind it, and without ``Meta-`` before it."""
    plain = name.lower().removeprefix("meta-")
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
        batch_tokens=nearest_rung(architecture.parameters).batch_tokens,
        batch_source="assumed: the batch of the nearest published decoder",
    )


def configuration_of(row: dict[str, Any]) -> Configuration:
    """Write a row of the table as the configuration that it was read from."""
    values = {key: v for key, v in row.items() if key not in _OWN_KEYS and v not in (None, "")}
    values["tie_word_embeddings"] = row["tie_word_embeddings"] == "yes"
    if row["experts"]:
        values["num_experts"] = row["experts"]
        values["num_experts_per_tok"] = row["experts_per_token"]
    return Configuration(file=Path(FILE), values=values)

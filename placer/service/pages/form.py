"""The form of a question: its fields, what was typed, and the words that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placer.errors import PlacerError
from placer.problem.words.wishes import WISHES
from placer.service.questions.body import WordError
from placer.service.questions.words import words_of as schemas_of
from placer.workload.profile import profile_names

VERBS = {
    "recommend": "the best placement",
    "pareto": "what each budget buys",
    "explain": "why this placement",
}
"""Questions that the page asks."""
SHOWN = (
    "budget",
    "min_throughput",
    "deadline",
    "tokens",
    "samples",
    "lora",
    "gpu",
    "places",
    "market",
    "regions",
    "workers",
    "exchange",
    "max_carbon",
    "quota",
)
"""Wishes with a field of their own; others are written below them as name=value."""
TYPED = ("model", *SHOWN, "catalog", "time_limit")
"""Words that have a field."""
LABELS = {
    "catalog": "price book",
    "places": "in",
    "lora": "LoRA rank",
    "gpu": "GPU",
    "max_carbon": "most emissions",
}
MORE = "more"
FLAGS = {"yes": True, "true": True, "no": False, "false": False}


def fields_of(typed: Mapping[str, str], wrong: str = "") -> list[dict[str, Any]]:
    """List the fields of the form with what was typed into them, for the template."""
    about = "A model that placer knows, a public model, or a size such as 7B."
    rows = {
        "model": (about, "roberta-xlm"),
        **{name: (WISHES[name].help, WISHES[name].example) for name in SHOWN},
        "catalog": ("Price book; default: the books of the service.", "default"),
        "time_limit": ("How long the search may take.", "30s"),
    }
    return [
        {
            "name": name,
            "label": LABELS.get(name, name.replace("_", " ")),
            "help": words.partition(".")[0] + ".",
            "example": example,
            "value": typed.get(name, ""),
            "wrong": wrong == name,
            "known": profile_names() if name == "model" else (),
        }
        for name, (words, example) in rows.items()
    ]


def words_of(typed: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the verb and the words of a form.

    Raise `PlacerError` if a line of the other words is no ``name=value``.
    """
    verb = typed.get("verb", "recommend")
    if verb not in VERBS:
        raise WordError("verb", PlacerError(f"question '{verb[:30]}'", "choose one of the list"))
    kept = ((name, typed.get(name, "").strip()) for name in TYPED)
    words: dict[str, Any] = {name: text for name, text in kept if text}
    for line in typed.get(MORE, "").splitlines():
        if not line.strip():
            continue
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign:
            raise WordError(
                MORE, PlacerError(f"'{line[:60]}' is no word", "write name=value, as overlap=yes")
            )
        words[name] = _plain(verb, name, value)
    return verb, words


def _plain(verb: str, name: str, value: str) -> Any:
    """Return a typed value as JSON has it: flags and whole numbers are no text there."""
    wish, schema = WISHES.get(name), schemas_of(verb).get(name, {})
    if (wish is not None and wish.is_flag) or schema.get("type") == "boolean":
        return FLAGS.get(value.lower(), value)
    if schema.get("type") == "integer" and value.isascii() and value.isdigit():
        return int(value[:10])
    return value


def typed_again(verb: str, words: Mapping[str, Any]) -> dict[str, str]:
    """Return what would be typed for some words, so that one can be changed.

    >>> typed_again("recommend", {"model": "roberta-xlm", "overlap": True})
    {'verb': 'recommend', 'model': 'roberta-xlm', 'more': 'overlap=yes'}
    """
    plain = {name: _text(value) for name, value in words.items()}
    kept = {name: value for name, value in plain.items() if name in TYPED}
    more = "\n".join(f"{name}={value}" for name, value in plain.items() if name not in TYPED)
    return {"verb": verb, **kept, **({MORE: more} if more else {})}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value.get("name", "a document") if isinstance(value, dict) else str(value)

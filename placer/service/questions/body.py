"""Read the words of a request: known, of the right kind, and naming no file of this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_origin

from placer.errors import PlacerError, unknown
from placer.interface.advisor import MOST_ROWS
from placer.interface.options import solve_options
from placer.interface.portfolio import COMMAND_WORDS
from placer.interface.verb import Verb
from placer.market.books.folders import own_book_names
from placer.market.books.layers import catalog_names
from placer.problem.words.meanings import unknown_word
from placer.problem.words.values import HINTS, check_words
from placer.problem.words.wishes import WISHES
from placer.records import Json
from placer.service.questions.words import LISTS, MOST_TEXTS, VERBS, words_of
from placer.service.working.messages import Question
from placer.workload.profile import SCHEMA as PROFILE_SCHEMA
from placer.workload.profile import profile_names

MOST_BOOKS = 4
DEFAULT_SECONDS = 30.0
"""Time limit of a search where none is given, as on the command line."""
LIST_SECONDS = 10.0
"""Longest time for a list."""
HUGGING_FACE = "hf:"
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,99}/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._+-]{0,99})")
"""A model's name, perhaps after its organisation on Hugging Face; the name alone is looked up."""
WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


class WordError(PlacerError):
    """A word of a request that is wrong, with the name of the word."""

    def __init__(self, field: str, error: PlacerError) -> None:
        super().__init__(error.message, error.hint, error.exit_code)
        self.field = field


def check_body(verb: Verb, body: object) -> dict[str, Any]:
    """Check the body of a request, and return its words as Python takes them; null stands for a
    word that was not given. What needs a price book is checked where the question is built.

    Raise `WordError`, which names the word that is unknown, missing or of the wrong kind, or that
    names a file.
    """
    if not isinstance(body, dict):
        raise PlacerError("the body is not a JSON object", 'send {"model": "roberta-xlm"}')
    given = {name: value for name, value in body.items() if value is not None}
    for name in given:
        if name not in words_of(verb.name):
            raise WordError(name, unknown_word("word", name, [*words_of(verb.name)]))
    for name in verb.needed:
        if name not in given:
            raise WordError(name, PlacerError(f"{name} is missing", f"{verb.name} needs {name}"))
    return {name: _value(verb, name, value) for name, value in given.items()}


def question_of(verb: Verb, body: object, most_s: float) -> Question:
    """Return the question of a body, with the longest search that the service allows."""
    words = check_body(verb, body)
    seconds = search_seconds(verb, words, most_s)
    return Question(name=verb.name, words=words, seconds=seconds, searches=verb.searches)


def question_of_list(name: str, query: Mapping[str, Sequence[str]]) -> Question:
    """Return the question of a list, with the values of each parameter; the last one holds where a
    list takes one.
    """
    words: dict[str, Any] = {}
    for key, values in query.items():
        if key not in LISTS[name]:
            raise WordError(key, unknown("parameter", key, LISTS[name]))
        try:
            if key == "catalog":
                words["catalog"] = check_books(values)
            elif key == "limit":
                words["limit"] = _limit(values[-1])
            else:
                words["places" if key == "in" else key] = values[-1]
        except PlacerError as error:
            raise WordError(key, error) from None
    return Question(name=name, words=words, seconds=LIST_SECONDS)


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_ROWS):
        raise PlacerError(f"limit '{text[:20]}'", f"give a whole number from 1 to {MOST_ROWS:,}")
    return int(text[:9])


def search_seconds(verb: Verb, words: Json, most_s: float) -> float:
    """Return the time limit of each search of a question; `WordError` if it is none, or above the
    longest that the service allows, which also holds where none is given.
    """
    if "time_limit" not in words:
        return min(most_s, DEFAULT_SECONDS)
    try:
        seconds = solve_options(time_limit=words["time_limit"]).time_limit_s
        if seconds > most_s:
            raise PlacerError(
                f"time_limit {words['time_limit']} is above the {most_s:g} s of this request",
                "give less, or ask for it as a job: POST /v1/jobs",
            )
    except PlacerError as error:
        raise WordError("time_limit", error) from None
    return seconds


def check_verb(name: object) -> Verb:
    """Return the verb of a job; `WordError` if there is none of that name."""
    if not isinstance(name, str) or name not in VERBS:
        raise WordError("verb", unknown("verb", str(name)[:60], VERBS))
    return VERBS[name]


def check_books(names: object) -> tuple[str, ...]:
    """Return names of price books of this machine; paths, and too many, are refused."""
    words = [names] if isinstance(names, str) else names
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        raise PlacerError("catalog is not a name", "give text, or a list of it")
    if not 1 <= len(words) <= MOST_BOOKS:
        raise PlacerError(f"{len(words)} catalogs", f"give 1 to {MOST_BOOKS}")
    known = [*catalog_names(), *own_book_names()]
    for word in words:
        if word not in known:
            raise unknown("catalog", word[:64], known)
    return tuple(words)


def _value(verb: Verb, name: str, value: Any) -> Any:
    try:
        if name in verb.rows:
            return _own(verb, name, value)
        value = _with_tuples(name, value)
        if name == "calibration" and isinstance(value, dict):
            return value  # read with the question: `placer.service.working.session`
        check_words({name: value})
        _refuse_files(name, value)
    except WordError:
        raise
    except PlacerError as error:
        raise WordError(name, error) from None
    return value


def _with_tuples(name: str, value: Any) -> Any:
    """Return a list of JSON as the tuple of a range, and ``PLACE:GPU:MARKET`` as a key of three."""
    hint = HINTS[name]
    kinds = [get_origin(part) or part for part in get_args(hint)]
    if isinstance(value, list) and tuple in kinds:
        return tuple(value)
    if name == "quota" and isinstance(value, dict):
        keys = [tuple(key.split(":")) if key.count(":") == 2 else key for key in value]
        return dict(zip(keys, value.values(), strict=True))
    return value


def _refuse_files(name: str, value: Any) -> None:
    """Refuse text where the command line reads a file of that name."""
    if not isinstance(value, str) or "FILE" not in WISHES[name].metavar:
        return
    if name == "quota" and WHOLE_NUMBER.fullmatch(value):
        return
    raise PlacerError(
        f"{name} '{value[:60]}' is no {'number' if name == 'quota' else 'document'}",
        'files of the service are not read: give a number, or a mapping such as {"T4": 8}'
        if name == "quota"
        else "files of the service are not read: send the whole document as JSON",
    )


def _model(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("schema") != PROFILE_SCHEMA:
            raise PlacerError(
                f"model is not a {PROFILE_SCHEMA} document",
                f'its "schema" must be {PROFILE_SCHEMA}',
            )
        return value
    if not isinstance(value, str):
        raise PlacerError("model is not a name", "give text, or a whole profile")
    found = NAME.fullmatch(value.removeprefix(HUGGING_FACE))
    if found is None or found["name"].endswith(".json"):
        raise unknown(
            "model",
            value[:60],
            profile_names(),
            "give a name of GET /v1/models, a size such as 7B, or a whole profile",
        )
    return found["name"]


def _own(verb: Verb, name: str, value: Any) -> Any:
    if name == "model":
        return _model(value)
    if name == "catalog":
        return check_books(value)
    if name in WISHES:  # that all jobs share
        value = _with_tuples(name, value)
        _refuse_files(name, value)
    schema = words_of(verb.name)[name]
    each = {kind["type"]: kind for kind in schema.get("anyOf", [schema])}
    kinds, listed = [*each], each.get("array", {}).get("items", {}).get("type")
    if listed == "string":
        return _texts(verb, name, value, schema)
    if listed == "object" and isinstance(value, list):
        _check_count(verb, name, value, each["array"] | schema)
        return [_READ[name](row) for row in value] if name in _READ else value
    if isinstance(value, bool) != ("boolean" in kinds) or not any(
        isinstance(value, _KINDS[kind]) for kind in kinds
    ):
        raise PlacerError(f"{name} is of type {type(value).__name__}", f"give {' or '.join(kinds)}")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None and not low <= value <= high:
        raise PlacerError(f"{name} {value}", f"give a whole number from {low:,} to {high:,}")
    return value


def _texts(verb: Verb, name: str, value: Any, schema: Json) -> list[str]:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise PlacerError(f"{name} is not text", "give text, or a list of it")
    _check_count(verb, name, words, schema)
    return words


def _check_count(verb: Verb, name: str, values: list[Any], schema: Json) -> None:
    most = schema.get("maxItems", MOST_TEXTS)
    if len(values) > most:
        raise PlacerError(f"{name} has {len(values):,} entries", f"give at most {most:,}")
    if not values and schema.get("minItems"):
        raise PlacerError(f"{name} is empty", f"{verb.name} needs {name}")


def _job(row: Any) -> Json:
    """Check what a job of a portfolio asks as the words of a question are; the portfolio checks
    its other words.
    """
    if not isinstance(row, dict):
        raise PlacerError("a job is not a JSON object", 'give {"model": "roberta-xlm"}')
    words: dict[str, Any] = {COMMAND_WORDS.get(str(w), str(w)): v for w, v in row.items()}
    asked = {word: words.pop(word) for word in ("model", *WISHES) if word in words}
    return {**words, **{word: _value(VERBS["recommend"], word, v) for word, v in asked.items()}}


def _team(row: Any) -> Any:
    """Check the quota of a team, which is one of all jobs but for whose it is."""
    if not isinstance(row, dict) or "quota" not in row:
        return row
    quota = _with_tuples("quota", row["quota"])
    _refuse_files("quota", quota)
    return {**row, "quota": quota}


_READ = {"jobs": _job, "teams": _team}
_KINDS: Json = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
}

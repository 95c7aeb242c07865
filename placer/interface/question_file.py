"""Questions from files of training software: its configuration as words of ``recommend``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.files.bounded_file import read_file, read_toml
from placer.files.json_text import parse_json
from placer.market.sources.harvest import Tally
from placer.market.sources.reading.expressions import evaluate
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping, shipped_mappings
from placer.market.sources.reading.records import parsed_records

MOST_BYTES = 2**20  # Configurations have some kB
ENDINGS = (".yaml", ".yml", ".toml", ".json")


def read_question(path: str) -> tuple[str, dict[str, str]]:
    """Read a configuration of training software: return what it is, and the words of ``recommend``
    that it has. PlacerError if it is of no software that is known.

    The batch is that of one GPU where the software counts by GPU: how many there are is the answer.
    """
    document = _parsed(path)
    known = [shipped_mapping(name) for name in shipped_mappings()]
    known = [mapping for mapping in known if mapping.kind == "question"]
    for mapping in known:
        if not _holds(mapping.known_by, document):
            continue
        tally = Tally(skip_bad=False)
        rows = mapped_rows(parsed_records(document, mapping, path), mapping, tally, {}, None)
        row = next(iter(rows)).row
        return mapping.about, {
            name: str(cell) for name, cell in row.items() if cell not in ("", "false")
        }
    tip = f"give {', '.join(mapping.about for mapping in known)}, or the words themselves"
    raise PlacerError(f"'{path}' is of no training software that is known", tip)


def _holds(expression: str, document: Mapping[str, Any]) -> bool:
    try:
        return bool(evaluate(expression, document))
    except ValueError:  # a key of the same name that holds something else
        return False


def _parsed(path: str) -> Mapping[str, Any]:
    hint = "give a configuration in YAML, TOML or JSON"
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise PlacerError(f"'{path}' does not end in {', '.join(ENDINGS)}", hint)
    if ending == ".toml":
        return read_toml(path, hint)
    data = read_file(path, hint, MOST_BYTES)
    try:
        document = parse_json(data) if ending == ".json" else _yaml(data)
    except (ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:120]
        raise PlacerError(f"'{path}' cannot be read: {words}", hint) from None
    if not isinstance(document, dict):
        raise PlacerError(f"'{path}' has no keys with values", hint)
    return document


def _yaml(data: bytes) -> Any:
    """Read the first document of YAML; ValueError says where it is none."""
    import yaml

    try:
        return next(iter(yaml.safe_load_all(data)), None)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None

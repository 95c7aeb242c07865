"""Files that hold a question: jobs of a portfolio, and the configuration of a training."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Unpack

from placer.advice.portfolio.answer import PortfolioAnswer
from placer.errors import PlacerError, unknown
from placer.files.bounded_file import line_of, read_file, read_toml
from placer.files.json_text import parse_json
from placer.files.yaml_text import parse_yaml
from placer.interface.portfolio import portfolio
from placer.interface.words import Limits
from placer.market.sources.harvest import Tally
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping, shipped_mappings
from placer.market.sources.reading.records import is_of, parsed_records

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
        if not is_of(document, mapping):
            continue
        tally = Tally(skip_bad=False, may_skip=False)
        rows = mapped_rows(parsed_records(document, mapping, path), mapping, tally, {}, None)
        row = next(iter(rows)).row
        return mapping.about, {
            name: str(cell) for name, cell in row.items() if cell not in ("", "false")
        }
    tip = f"give {', '.join(mapping.about for mapping in known)}, or the words themselves"
    raise PlacerError(f"'{path}' is of no training software that is known", tip)


def _parsed(path: str) -> Mapping[str, Any]:
    hint = "give a configuration in YAML, TOML or JSON"
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise PlacerError(f"'{path}' does not end in {', '.join(ENDINGS)}", hint)
    if ending == ".toml":
        return read_toml(path, hint)
    data = read_file(path, hint, MOST_BYTES)
    try:
        document = parse_json(data) if ending == ".json" else parse_yaml(data)
    except (ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:120]
        raise PlacerError(f"'{path}' cannot be read: {words}", hint) from None
    if not isinstance(document, dict):
        raise PlacerError(f"'{path}' has no keys with values", hint)
    return document


GIVE = "give a TOML file with a [[job]] for each job; see docs/manual/portfolio.md"
SHARED_WORDS = (
    "catalog",
    "quota",
    "budget",
    "objective",
    "fair",
    "slot",
    "horizon",
    "defaults",
    "block",
    "blocks-file",
    "begins",
    "reservation",
    "team",
    "job",
)
"""Words at the top of a file."""
TABLES = ("job", "block", "reservation", "team")
"""Those that are lists of tables, whose names in Python are in the plural."""


@dataclass(frozen=True, kw_only=True)
class JobFile:
    """What a file says, and on which lines.

    ``lines`` are those of each ``[[job]]``; ``shared`` are the words at the top.
    """

    path: str
    shared: Mapping[str, Any]
    jobs: tuple[Mapping[str, Any], ...]
    text: tuple[str, ...]

    def where(self, number: int, word: str | None = None) -> str:
        """Say where a job stands, or one of its words."""
        heads = [i for i, line in enumerate(self.text) if re.match(r"\s*\[\[\s*job\s*\]\]", line)]
        name = self.jobs[number].get("name", number + 1)
        if number >= len(heads):
            return f"{self.path}: job '{name}'"
        end = heads[number + 1] if number + 1 < len(heads) else len(self.text)
        line = heads[number]
        if word is not None:
            line = line_of(word, self.text, range(line, end))
        return f"{self.path}:{line + 1}: job '{name}'"


def read_jobs(path: str) -> JobFile:
    """Read a file of jobs.

    Raise a `PlacerError` that names file, line and word that are wrong.
    """
    parsed = read_toml(path, GIVE)
    text = tuple(read_file(path, GIVE).decode("utf-8-sig").splitlines())
    for word in parsed:
        if word not in SHARED_WORDS:
            line = line_of(word, text, range(len(text)))
            error = unknown("word", word, SHARED_WORDS)
            raise PlacerError(f"{path}:{line + 1}: {error.message}", error.hint)
    jobs = parsed.get("job", [])
    for kind in TABLES:
        rows = parsed.get(kind, [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise PlacerError(f"{path}: '{kind}' is not a list of tables", f"write [[{kind}]]")
    if not jobs:
        raise PlacerError(f"{path}: no job in it", GIVE)
    shared = _shared(path, parsed)
    return JobFile(path=path, shared=shared, jobs=tuple(jobs), text=text)


def _shared(path: str, parsed: Mapping[str, Any]) -> dict[str, Any]:
    """Read the words of all jobs; a path in a file is meant beside the file."""
    shared = {word: value for word, value in parsed.items() if word != "job"}
    if isinstance(shared.get("begins"), date):  # TOML has times of its own
        shared["begins"] = shared["begins"].isoformat()
    for word in ("blocks-file", "begins"):
        if word in shared and not isinstance(shared[word], str):
            raise PlacerError(f"{path}: {word} {shared[word]!r} is not text", "write it in quotes")
    shared["team"] = [dict(row) for row in shared.get("team", ())]
    for row in (shared, *shared["team"]):
        for word in ("quota", "blocks-file"):
            if isinstance(row.get(word), str):
                row[word] = str(Path(path).parent / row[word])
    return shared


def portfolio_from_file(
    path: str,
    *,
    catalog: tuple[str, ...] = (),
    budget: str | None = None,
    objective: str | None = None,
    fair: bool | None = None,
    **words: Unpack[Limits],
) -> PortfolioAnswer:
    """Read a file of jobs and choose where they run; see `placer.portfolio`.

    ``path``: TOML with ``[[job]]``, the shared words, and ``[defaults]`` for words of every job.
    ``catalog``, ``budget``, ``objective``, ``fair``: in place of those of the file. Raise a
    `PlacerError` that names file, line, job and word that are wrong.
    """
    file = read_jobs(path)
    shared = {
        f"{word}s" if word in TABLES else word.replace("-", "_"): value
        for word, value in file.shared.items()
    }
    defaults = shared.pop("defaults", {})
    if not isinstance(defaults, dict):
        raise PlacerError(f"{path}: 'defaults' is not a table", "write [defaults]")
    for name, value in (("catalog", catalog), ("budget", budget), ("objective", objective)):
        shared |= {name: value} if value else {}
    shared |= {} if fair is None else {"fair": fair}
    jobs = [{**defaults, **job} for job in file.jobs]
    return portfolio(jobs, where=file.where, **shared, **words)

"""The question of a document: its wishes in words, and the command that asks it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import asdict

from placer.problem.requirements import MOST_LAUNCHED, Requirements
from placer.problem.words.wishes import WISHES
from placer.report.figures import Document
from placer.units import (
    counted,
    format_bytes,
    format_duration,
    format_number,
    format_parameters,
    format_usd,
    parse_seconds,
)
from placer.workload.constants import PUBLISHED

USUAL: Mapping[str, Any] = {
    **{name: value for name, value in asdict(Requirements()).items() if value},
    "calibration": PUBLISHED.name,
    "uniform": True,
    "supply": MOST_LAUNCHED,
}
"""Values of a request in which nothing was asked for; of the other keys none, empty or False."""
STARTUP_S = parse_seconds(WISHES["startup"].default or "")
BY_HAND = ("placer.estimate/v1", "placer.comparison/v1", "placer.simulation/v1")
"""Documents of placements given by hand, whose machines may be unlike."""
BY_SPEED = (None, "hivemind")
"""Transports under which machines may be unlike."""
FROM_PROFILE = ("target_batch_size", "compression", "transport")
"""Shown as they hold, whether they were asked for or not."""
NO_WISH = (
    "model", "sample", "gradient_bytes", "batch_assumed", "trainable_parameters", "copy_seconds",
)  # fmt: skip
OBJECTIVES = {
    "throughput": "the highest speed",
    "cost": "the lowest cost",
    "cost-per-sample": "the lowest price of a sample",
    "time": "the shortest time",
    "carbon": "the lowest emissions",
    "total": "the fewest dollars in all",
}


def command_of(document: Document, verb: str = "recommend") -> tuple[str, tuple[str, ...]]:
    """Write the command that asks the question of a document again.

    Return tuple of str and of wishes: the command; and the keys of wishes that came from files or
    Python, which it cannot show.
    """
    request, words, left = document["request"], ["placer", verb], list[str]()
    words += ["--model", str(request["model"])]
    for name in str(document["data"]["catalog"]).split("+"):
        words += ["--catalog", name]
    asked = _asked(document)
    done: set[str] = set()
    for key, value in asked.items():
        if key in done:
            continue
        written = _written(key, value, request, done)
        if written is None:
            left.append(key)
        else:
            words += written
    return " ".join(shlex.quote(word) for word in words), tuple(left)


def wish_words(document: Document) -> list[tuple[str, str]]:
    """List the wishes that were asked for: name and words, the objective first."""
    request = document["request"]
    objective = str(request.get("objective", ""))
    wanted = OBJECTIVES.get(objective, objective)
    if request.get("expected"):
        wanted += ", on average over scenarios of spot capacity"
    rows = [("wanted", wanted)] if objective else []
    done = {"objective", "expected"}
    for key, value in _asked(document).items():
        if key in done:
            continue
        if key in READABLE:
            rows.append(READABLE[key](value))
        else:
            written = _written(key, value, request, done)
            name = written[0].removeprefix("--") if written else key
            words = " ".join(word for word in written or [str(value)] if word != f"--{name}")
            rows.append((name.replace("-", " ").replace("_", " "), words))
    rows += _adapter_rows(request)
    return [(name, words or "yes") for name, words in rows]


def _adapter_rows(request: Document) -> list[tuple[str, str]]:
    """Say how few parameters adapters train, and which batch was assumed."""
    if not (request.get("lora") or request.get("qlora")):
        return []
    trained, rows = request.get("trainable_parameters"), []
    if trained:
        rows.append(("parameters trained", format_parameters(trained)))
    if request.get("batch_assumed"):
        rows.append(("batch", f"{request['target_batch_size']:,} samples a step (assumed)"))
    return rows


READABLE: Mapping[str, Callable[[Any], tuple[str, str]]] = {
    "budget_usd_per_hour": lambda v: ("budget", f"{format_usd(v)}/h"),
    "budget_usd": lambda v: ("budget", f"{format_usd(v)} in total"),
    "min_samples_per_second": lambda v: ("at least", f"{format_number(v)} samples/s"),
    "deadline_seconds": lambda v: ("deadline", format_duration(v)),
    "max_carbon_g_per_hour": lambda v: ("emissions at most", f"{format_number(v)} g CO2e/h"),
    "samples": lambda v: ("samples", f"{v:,}"),
    "tokens": lambda v: ("tokens", f"{v:,}"),
    "target_batch_size": lambda v: ("batch", f"{v:,} samples a step"),
    "confidence": lambda v: ("confidence", f"{100 * v:g} %"),
    "data_bytes": lambda v: ("data size", format_bytes(v)),
    "quotas": lambda v: ("quotas", counted(len(v), "row")),
}
"""Wishes that read better than as options."""


def _asked(document: Document) -> dict[str, Any]:
    """List the wishes of a request that differ from one in which nothing is asked for."""
    request = document["request"]
    done = ("samples",) if request.get("tokens") is not None else ()  # both say how much
    question = document.get("problem", document.get("question"))
    question = question if isinstance(question, Mapping) else {}  # of sweeps, a digest
    wishes = question.get("requirements", {})
    asked = {}
    alike = document.get("schema") not in BY_HAND and request.get("transport") not in BY_SPEED
    by_hand = document.get("schema") in BY_HAND
    older = {
        **({"uniform": False} if alike else {}),
        **({} if by_hand else {"supply": None}),
        "startup_seconds": 0.0,
    }
    ends = request.get("samples") is not None
    for key, value in {**older, **request}.items():
        if (key == "uniform" and not alike) or (key == "supply" and by_hand):  # says nothing there
            continue
        usual = value == USUAL.get(key) if key in USUAL else value in (None, False, [], {})
        if key == "startup_seconds":  # what holds where a job with an end says nothing
            usual = value == (STARTUP_S if ends else 0.0)
        default = key in FROM_PROFILE and question and wishes.get(key) is None
        batch = key == "target_batch_size" and request.get("batch_range") is not None
        if not (usual or default or batch or key in (*NO_WISH, *done)):
            asked[key] = value
    return asked


def _written(key: str, value: Any, request: Document, done: set[str]) -> list[str] | None:
    """Write a wish as options; None where it cannot be."""
    if key in PAIRS:
        done |= set(PAIRS[key])
        low, high = (request[end] for end in PAIRS[key])
        open_end = key.endswith("regions") and high >= USUAL["max_regions"]
        ends = str(low) if low == high else f"{low}..{'' if open_end else high}"
        return [f"--{PAIRS[key][0].removeprefix('min_')}", ends]
    if key in ("objective", "expected"):
        done |= {"objective", "expected"}
        if value == "cost" and request.get("samples") is not None:  # by the hour: no word for it
            return None
        word = "expected" if request.get("expected") else str(value)
        return ["--objective", "cost" if word == "total" else word]
    flag = next((wish.flag for wish in WISHES.values() if key in wish.keys), None)
    if flag is None or key in FROM_FILES:
        return None
    if value is True or key == "uniform":
        return [flag]
    if key == "supply" and value is None:
        return [flag, "any"]
    if key == "same_zone":
        return [flag, "spread"]
    return _with_flag(flag, key, value)


def _with_flag(flag: str, key: str, value: Any) -> list[str] | None:
    if key in REPEATED:
        rows = value.items() if isinstance(value, dict) else value
        return [word for row in rows for word in (flag, REPEATED[key](row))]
    if key in RANGES:
        return [flag, f"{value[0]}..{value[1]}"]
    if isinstance(value, list):
        return [flag, ",".join(map(str, value))]
    if isinstance(value, int | float):
        number = str(value) if isinstance(value, int) else f"{value:.10g}"
        return [flag, number + UNITS.get(key, "")]
    return [flag, str(value)] if isinstance(value, str) else None


FROM_FILES = ("quotas", "calibration", "datasets", "aggregator", "storage")
"""Wishes whose words a request does not keep."""
PAIRS: Mapping[str, tuple[str, str]] = {
    key: pair
    for pair in (("min_workers", "max_workers"), ("min_regions", "max_regions"))
    for key in pair
}
RANGES = ("local_steps", "batch_range", "machines_per_island")
REPEATED: Mapping[str, Callable[[Any], str]] = {
    "samples_to_target": lambda row: f"{row[0]}={row[1]:g}",
    "keep": lambda row: f"{row['kind']}={row['area']}",
    "use": str,
    "max_share": str,
}
UNITS = {
    "budget_usd_per_hour": "/h",
    "budget_usd": "usd",
    "min_samples_per_second": "/s",
    "deadline_seconds": "s",
    "max_carbon_g_per_hour": "g/h",
    "grace_seconds": "s",
    "startup_seconds": "s",
    "data_bytes": "B",
}

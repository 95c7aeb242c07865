"""Runs logged by ``placer run``: their records, what a round took, and the row that they are."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert

from placer.errors import PlacerError, printable
from placer.files.bounded_file import bounded
from placer.files.json_text import unique_keys
from placer.market.accelerators import processor_vcpus
from placer.market.books.defended_figures import FAR, z_score
from placer.market.catalog import device_name
from placer.market.words.own_places import PROVIDER
from placer.workload.profile import COMPRESSION_BYTES

LARGEST = 10**15
"""No count, byte or second of a log is so large."""
Record = Mapping[str, Any]
Number = Annotated[float, Meta(ge=0, lt=LARGEST)]
AboveZero = Annotated[float, Meta(gt=0, lt=LARGEST)]
Whole = Annotated[int, Meta(ge=0, lt=LARGEST)]


class _Manifest(Struct):
    name: str
    digest: str


class _Group(Struct):
    place: str
    count: Whole
    gpu: str
    gpu_count: Whole
    market: str


class _Beside(Struct):
    exchange_s: Number
    waited_s: Number
    flushed_s: Number


OPTIONAL: Mapping[str, Mapping[str, Any]] = {
    "run": {"overlap": bool, "threads": Whole, "question": dict[str, Any] | None},
    "step": {"beside": _Beside},
}
"""Keys by kind of record that only some logs have."""
FIELDS: Mapping[str, Mapping[str, Any]] = {
    "run": {
        "manifest": _Manifest,
        "model": str,
        "gradient_bytes": Number,
        "groups": list[_Group],
        "strategy": str,
        "compression": Annotated[str, Meta(pattern=f"^({'|'.join(COMPRESSION_BYTES)})$")],
        "streams": Whole,
        "links": str,
        "target_batch_size": Whole,
    },
    "ready": {"rank": Whole, "elements": Whole},
    "step": {
        "rank": Whole,
        "step": Whole,
        "samples": Number,
        "step_s": AboveZero,
        "calculation_s": Number,
    },
    "lost": {"rank": Whole, "step": Whole, "reason": str},
    "fault": {"lost": Whole, "step": Whole, "reason": str},
    "notice": {"gone": Whole, "message": str},
    "back": {"rank": Whole, "message": str},
}
"""Keys by kind of record that are read, and their types; other kinds and keys are left alone."""


def wrong_field(record: Record) -> str | None:
    """Name the first field of a record that is missing or no figure that a run can have; None if
    there is none.

    >>> wrong_field({"kind": "notice", "gone": -1, "message": "away"})
    'gone of a notice record is -1'
    >>> wrong_field({"kind": "notice", "gone": 1})
    'a notice record without message'
    """
    kind = record["kind"]
    for name, right in ({**FIELDS.get(kind, {}), **OPTIONAL.get(kind, {})}).items():
        if name not in record:
            if name in FIELDS[kind]:
                return f"a {kind} record without {name}"
            continue
        try:
            convert(record[name], right)
        except ValidationError:
            return f"{name} of a {kind} record is {str(record[name])[:40]}"
    return None


SCHEMA = "placer.run/v1"
LEAST_ROUNDS = 3
"""Fewer rounds after the first are no measurement."""
OTHER_MODEL = 0.05
"""Gradients that differ by more than this share belong to another model than the plan's."""
MOST_BYTES = 1 << 30
"""Bytes of the largest log that is read."""


@dataclass(frozen=True, kw_only=True)
class RoundSeconds:
    """Medians over rounds, from exchange to exchange.

    calculation, whole: Of the slowest worker in each round; seconds. Where the exchange runs beside
        the calculation, ``whole`` is the mean over workers.
    between: What is between them: exchange and waiting; seconds. Where the exchange runs beside the
        calculation, what it takes there, of the worker that waits least for others.
    hidden: How much of it ran beside the calculation; None where it does not.
    samples_per_second: Samples of all workers over the whole round.
    """

    calculation: float
    between: float
    hidden: float | None
    whole: float
    samples_per_second: float


def whole_rounds(steps: Iterable[Record], workers: int, local_steps: int) -> list[list[Record]]:
    """Group step records by round; those that some rank did not end are left out, and the first
    where there are more: it is warm-up.
    """
    grouped: dict[int, list[Record]] = defaultdict(list)
    for record in steps:
        grouped[record["step"] // local_steps].append(record)
    whole = []
    for number in sorted(grouped):
        per_rank = Counter(record["rank"] for record in grouped[number])
        if any(rank < workers for rank in per_rank) and set(per_rank.values()) == {local_steps}:
            whole.append(grouped[number])
    return whole


def counted_rounds(
    steps: Iterable[Record], workers: int, local_steps: int, *, overlap: bool
) -> list[list[Record]]:
    """Choose the rounds that say how long one takes: all but the first, which is warm-up. Where the
    exchange runs beside the next round, those in which one did: the first has none, nor has one
    after a checkpoint, and before a checkpoint and at the end it is waited for at once. Of those,
    the first has the exchange of the first round and is left out too, if there are more.
    """
    rounds = whole_rounds(steps, workers, local_steps)
    beside = [records for records in rounds if _is_beside(records, workers)] if overlap else []
    return beside[1:] or beside or rounds[1:]


def _is_beside(records: Sequence[Record], workers: int) -> bool:
    """Tell whether each worker overlapped one exchange with the calculation and awaited none."""
    parts = _beside(records, workers)
    return bool(parts) and all(part["exchange_s"] > 0 and part["flushed_s"] == 0 for part in parts)


def _beside(records: Iterable[Record], workers: int) -> list[dict[str, float]]:
    """Read what each worker logged of overlapped exchanges in one round."""
    names = ("exchange_s", "waited_s", "flushed_s")
    totals: dict[int, dict[str, float]] = defaultdict(lambda: dict.fromkeys(names, 0.0))
    for record in records:
        if record["rank"] < workers:
            for name in names:
                totals[record["rank"]][name] += record.get("beside", {}).get(name, 0.0)
    return list(totals.values())


def round_seconds(rounds: Sequence[Sequence[Record]], workers: int) -> RoundSeconds | None:
    """Return the medians of some rounds; None without any. Beside the calculation, workers that
    came first wait for the last: the one whose exchange was shortest tells how long it takes. Nor
    do they end a round together, so one that is early in a round is as much longer in the next: the
    slowest of each would be too slow.
    """
    if not rounds:
        return None
    beside = [
        min(_beside(records, workers), key=lambda part: part["exchange_s"])
        for records in rounds
        if _is_beside(records, workers)
    ]
    late = len(beside) == len(rounds)
    calculation = [max(by_rank(records, "calculation_s", workers).values()) for records in rounds]
    each = [by_rank(records, "step_s", workers).values() for records in rounds]
    whole = [fmean(seconds) if late else max(seconds) for seconds in each]
    samples = [sum(by_rank(records, "samples", workers).values()) for records in rounds]
    return RoundSeconds(
        calculation=median(calculation),
        between=median(
            [part["exchange_s"] for part in beside]
            if late
            else [w - c for w, c in zip(whole, calculation, strict=True)]
        ),
        hidden=median(max(0.0, part["exchange_s"] - part["waited_s"]) for part in beside)
        if late
        else None,
        whole=median(whole),
        samples_per_second=median(s / w for s, w in zip(samples, whole, strict=True)),
    )


def by_rank(records: Iterable[Record], key: str, workers: int) -> dict[int, float]:
    """Return the sum of a figure of some steps, by worker."""
    totals: dict[int, float] = defaultdict(float)
    for record in records:
        if record["rank"] < workers:
            totals[record["rank"]] += record[key]
    return totals


def run_log_row(path: Path) -> tuple[int, dict[str, Any]]:
    """Read a log of ``placer run`` as one row of a runs file, with the line of its header. Raises
    `PlacerError` if it is no such log, or says nothing about the plan's machines and links: run on
    one machine, with another model, of another strategy than all-reduce, with the exchange beside
    the next step, or too short.
    """
    records = read_run(path)
    head = records[0]
    workers = sum(group["count"] for group in head["groups"])
    _check(path, head, records)
    ranks = {record["rank"] for record in records if record["kind"] == "step"}
    if ranks and (missing := set(range(workers)) - ranks):
        words = (
            "give the log of rank 0; of a run that stopped, those of all machines one after "
            "the other in a file"
        )
        raise PlacerError(f"{path}: no steps of rank {min(missing)}", words)
    steps = (r for r in records if r["kind"] == "step")
    rounds = [r for r in whole_rounds(steps, workers, 1) if len(r) == workers][1:]
    if len(rounds) < LEAST_ROUNDS:
        raise PlacerError(
            f"{path}: {len(rounds)} rounds of all workers after the first",
            f"run at least {LEAST_ROUNDS + 1} steps",
        )
    each = {part: _each_round(rounds, workers, part) for part in ("calculation", "between")}
    steady = _steady(rounds, each.values())
    seconds = round_seconds(steady, workers)
    assert seconds is not None
    return 1, {
        "model": head["model"],
        "workers": ",".join(_spec(group) for group in head["groups"]),
        "step_s": seconds.whole,
        "calculation_s": seconds.calculation,
        "communication_s": seconds.between if workers > 1 else None,
        "target_batch_size": head["target_batch_size"],
        "compression": head["compression"],
        "streams": head["streams"],
        "question": head.get("question"),
        "slow_steps": len(rounds) - len(steady),
        "calculation_spread": _spread(each["calculation"].values()),
        "exchange_spread": _spread(each["between"].values()),
    }


def _each_round(rounds: Sequence[Sequence[Record]], workers: int, part: str) -> dict[int, float]:
    """Return the seconds of a part in each round in which it took any."""
    each = ((n, round_seconds([records], workers)) for n, records in enumerate(rounds))
    return {n: seconds for n, one in each if (seconds := getattr(one, part)) > 0}


def _steady(
    rounds: Sequence[Sequence[Record]], parts: Iterable[Mapping[int, float]]
) -> Sequence[Sequence[Record]]:
    """Leave out rounds in which calculation or exchange took far longer than usual: medians of the
    parts may be of other rounds than that of the whole, so that two such rounds of few would make
    parts that do not sum to it. All rounds, where fewer than half are left.
    """
    slow: set[int] = set()
    for seconds in filter(None, parts):
        logs = {number: log(value) for number, value in seconds.items()}
        middle = median(logs.values())
        deviation = median(abs(value - middle) for value in logs.values())
        slow |= {n for n, value in logs.items() if z_score(value, middle, deviation) > FAR}
    if 2 * len(slow) > len(rounds):
        return rounds
    return [records for number, records in enumerate(rounds) if number not in slow]


def _spread(seconds: Collection[float]) -> float:
    """Return half of the logarithm between the slowest and fastest twentieth of rounds."""
    ends = quantiles(seconds, n=20, method="inclusive") if len(seconds) > 1 else [1.0]
    return log(ends[-1] / ends[0]) / 2


def is_own_site(head: Record) -> bool:
    """Tell whether a run on one machine had the plan's processors: those of one site of one's own,
    with as many threads each, or all that PyTorch chose. Its network inside the site is then this
    machine's.
    """
    places = {group["place"] for group in head["groups"]}
    vcpus = {processor_vcpus(group["gpu"]) for group in head["groups"]}
    own = len(places) == 1 and places.pop().startswith(f"{PROVIDER}/")
    threads = head.get("threads")
    return own and head.get("device") == "cpu" and (threads == 0 or vcpus == {threads})


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the records of a log; a killed run may leave its last line cut off."""
    try:
        lines = bounded(path, "give the log of a shorter run", MOST_BYTES).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PlacerError(
            f"cannot read '{path}': {getattr(error, 'strerror', None) or error}",
            "give a log of placer run",
        ) from None
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line, object_pairs_hook=unique_keys)
            if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
                raise ValueError("no record")
        except (ValueError, RecursionError) as error:
            if number == len(lines) and records:
                break
            raise PlacerError(
                f"{path}:{number}: not a record of placer run: {error}",
                "give run.jsonl as placer run wrote it",
            ) from None
        records.append(record)
    if not records or records[0].get("schema") != SCHEMA:
        schema = records[0].get("schema") if records else None
        raise PlacerError(
            f"{path}: schema {schema!r} is no {SCHEMA}", "give run.jsonl of placer run"
        )
    return records


def read_run(path: Path) -> list[dict[str, Any]]:
    """Read a log and check its fields; a `PlacerError` names line and field."""
    records = read_log(path)
    for number, record in enumerate(records, 1):
        if (wrong := wrong_field(record)) is not None:
            words = f"{path}:{number}: {printable(wrong)}"
            raise PlacerError(words, "give run.jsonl as placer run wrote it")
    return records


def _check(path: Path, head: Record, records: Sequence[Record]) -> None:
    """Refuse runs that say nothing about the plan's machines and links."""
    if head["strategy"] not in ("all-reduce", "none"):
        raise PlacerError(
            f"{path}: a run of {head['strategy']}", "placer profile runs fits runs of an all-reduce"
        )
    if head.get("overlap"):
        words = f"{path}: the exchange ran beside the next step, which slows both"
        raise PlacerError(words, "calibrate on a run of the plan without --overlap")
    if head["links"] != "real" and not is_own_site(head):
        raise PlacerError(
            f"{path}: all workers ran on one machine",
            "its links are not the plan's: run it where the plan says",
        )
    check_model(path, head, records)


def is_other_model(size: float, planned: float) -> bool:
    """Tell whether gradients of some bytes belong to another model than the plan's."""
    return abs(size - planned) > OTHER_MODEL * planned


def gradients_of(head: Record, records: Sequence[Record]) -> int:
    """Return the bytes of a gradient of the model that was run; 0 if no rank was ready."""
    elements = next((r["elements"] for r in records if r["kind"] == "ready"), 0)
    return int(elements * COMPRESSION_BYTES[head["compression"]])


def check_model(path: Path, head: Record, records: Sequence[Record]) -> None:
    """Refuse runs of another model than the plan's."""
    size = gradients_of(head, records)
    if is_other_model(size, head["gradient_bytes"]):
        words = (
            f"{path}: the run exchanged {size:,} bytes, gradients of {head['model']} are "
            f"{head['gradient_bytes']:,.0f}"
        )
        raise PlacerError(words, "train the plan's model")


def _spec(group: Record) -> str:
    """Write a group as on the command line."""
    device = device_name(group["gpu"], group["gpu_count"])
    return f"{group['place']}={group['count']}x{device}:{group['market'].replace('_', '-')}"

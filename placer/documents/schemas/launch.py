"""Launch manifests of both versions (see `placer.documents.manifest`), the documents of ``placer
export`` and ``placer run --rehearse``, and the log of ``placer run``.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta

from placer.documents.manifest.manifest_reader import SCHEMA
from placer.documents.manifest.types import ISLANDS_SCHEMA, AnyManifest, Group, MachineGroup
from placer.documents.schemas.parts import Anything, Closed, Maybe, Named, Part, Some
from placer.documents.schemas.result import SavedProblem
from placer.records import Amount, Count, Natural, Positive


class Manifest(AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """All that an executor needs; no secrets. digest is the SHA-256 of the document without it
    (keys sorted, no spaces).

    question: The problem that the plan answers, cut down to what it uses: links, prices, speeds.
        placer rehearse times the plan again with it.
    """

    groups: Some[MachineGroup]
    question: SavedProblem | None


class IslandManifest(
    AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=ISLANDS_SCHEMA
):
    """As placer.manifest/v1, of workers that are islands: machines of one offer in one zone that
    hold one copy of the model by an inner plan. world_size, rank_offset and rendezvous.machines
    count machines; the machines of one island have ranks in a row.
    """

    groups: Some[Group]
    question: SavedProblem | None


class LaunchFile(Part, frozen=True):
    """A launch file.

    text: What it holds; only where nothing is written.
    """

    name: str
    bytes: Count
    text: Maybe[str] = UNSET


class Fallback(Part, frozen=True):
    """A fallback of the plan.

    manifest: Digest of the manifest.
    dir: Where its files are.
    tried_by_itself: The plan's own files try it; else it has a folder of its own.
    """

    manifest: str
    dir: str
    tried_by_itself: bool


class Export(Part, frozen=True, tag_field="schema", tag="placer.export/v1"):
    """Launch files that were written, or with --diff would be; or their texts alone, where dir is
    empty.

    manifest: Digest of the manifest.
    removed: Files of an earlier export.
    fallbacks: Fallbacks of the plan, in order; only with --fallback.
    diff: Unified diff; only with --diff.
    """

    target: str
    dir: str
    written: bool
    manifest: str
    files: list[LaunchFile]
    removed: list[str]
    changed: bool
    fallbacks: Maybe[list[Fallback]] = UNSET
    diff: Maybe[str] = UNSET


class RunGroup(Part, frozen=True):
    """Equal workers in one place.

    machines: Of one worker, where it is an island; absent: 1.
    inner: The inner plan of an island, as placer.manifest/v2 has it.
    """

    place: str
    count: Natural
    gpu: str
    gpu_count: Natural
    market: str
    machines: Maybe[Natural] = UNSET
    inner: Maybe[Anything | None] = UNSET


class Line(Closed, frozen=True, tag_field="kind"):
    """A line of the log."""


class RunStart(Line, frozen=True, tag="run"):
    """The first line: what is run.

    overlap: Whether the exchange runs beside the next round; early logs do not say: it does not.
    threads: Of PyTorch in each process; 0: its own choice. Early logs do not say.
    question: Profile, book and wishes behind the plan, as in placer.manifest; early logs have none.
    """

    schema: Literal["placer.run/v1"]
    manifest: Named
    model: str
    gradient_bytes: Amount
    groups: list[RunGroup]
    strategy: str
    compression: str
    local_steps: Count
    streams: Count
    aggregator: str | None
    storage: str | None
    train: str
    steps: Count
    seed: int
    target_batch_size: Count
    microbatch: Count
    device: str
    elastic: bool
    links: Literal["loopback", "real", "shaped"]
    overlap: Maybe[bool] = UNSET
    threads: Maybe[Count] = UNSET
    question: Maybe[Anything | None] = UNSET


class Ready(Line, frozen=True, tag="ready"):
    """A rank has its model."""

    rank: Count
    pid: Count
    start: Count
    elements: Natural


class Sent(Closed, frozen=True):
    """Payload bytes that a rank handed over for a directed pair of places."""

    src: str
    dst: str
    bytes: Count


class Beside(Closed, frozen=True):
    """Seconds of an exchange that ran beside the calculation.

    exchange_s: That an exchange took which ran beside the calculation and ended in this step.
    waited_s: Of that: for which it was still waited for after the calculation.
    flushed_s: For which an exchange was waited for at once, before a checkpoint or at the end.
    """

    exchange_s: Amount
    waited_s: Amount
    flushed_s: Amount


class Traffic(Line, frozen=True):
    """What a rank exchanged.

    exchange_s: Seconds by phase; the wait for others is in them.
    sent: Payload bytes that this rank handed over, by directed pair of places.
    requests: To all object stores: write, read, poll (a read that found nothing), list, delete,
        retry.
    requests_by_bucket: The same by bucket.
    wire_s: Of the exchange: while messages were under way.
    beside: Of plans with overlap, in steps in which an exchange ended.
    """

    calculation_s: Amount
    exchange_s: dict[str, Amount]
    sent: list[Sent]
    control_bytes: Count
    requests: dict[str, Count]
    requests_by_bucket: Maybe[dict[str, dict[str, Count]]] = UNSET
    wire_s: Maybe[Amount] = UNSET
    beside: Maybe[Beside] = UNSET


class Step(Traffic, frozen=True, kw_only=True, tag="step"):
    """A step of a rank."""

    step: Count
    rank: Count
    place: str
    samples: Count
    loss: float | None
    step_s: Amount
    exchanged: bool


class Notice(Line, frozen=True, tag="notice"):
    """A rank gives up another one.

    gone: The rank that is given up.
    """

    rank: Count
    message: str
    gone: Count


class Back(Line, frozen=True, tag="back"):
    """A rank takes part again.

    rank: The rank that takes part again.
    """

    rank: Count
    message: str


class RankError(Line, frozen=True, tag="error"):
    """A rank failed."""

    rank: Count
    message: str
    hint: str
    exit_code: Count


class Fault(Line, frozen=True, tag="fault"):
    """A rank lost another one."""

    rank: Count
    step: Count
    lost: Count
    reason: str
    checkpoint: Count | None


class Lost(Line, frozen=True, tag="lost"):
    """A rank is lost."""

    rank: Count
    place: str
    step: Count
    reason: str


class End(Traffic, frozen=True, kw_only=True, tag="end"):
    """A rank is done."""

    rank: Count
    steps: Count
    parameters_sha256: str
    parameters: Maybe[list[float]] = UNSET


class ComparedSeconds(Closed, frozen=True):
    """Seconds, or requests, predicted and measured."""

    what: str
    unit: str
    predicted: Amount | None
    measured: float | None


class ComparedBytes(Closed, frozen=True):
    """Bytes of a directed link, predicted and measured."""

    src: str
    dst: str
    predicted: Amount | None
    measured: float | None


class ComparedRequests(Closed, frozen=True):
    """Requests to stores, predicted and measured."""

    what: str
    predicted: Amount | None
    measured: float | None


class MeanLoss(Part, frozen=True):
    """The mean loss of a step."""

    step: Count
    loss: float | None


class Summary(Line, frozen=True, tag="summary"):
    """The last line: the run beside its prediction.

    schema: As placer run --json prints it.
    seconds_compare: Whether the seconds are of the plan's model, batch and links.
    """

    rounds: Count
    seconds: list[ComparedSeconds]
    bytes: list[ComparedBytes]
    requests: list[ComparedRequests]
    losses: list[MeanLoss]
    remarks: list[str]
    schema: Maybe[Literal["placer.run/v1"]] = UNSET
    seconds_compare: Maybe[bool] = UNSET


RunLine = Annotated[
    RunStart | Ready | Step | Notice | Back | RankError | Fault | Lost | End | Summary,
    Meta(
        description="Each line of run.jsonl is one: the first of kind run, then records in the "
        "order of arrival. Ranks from the number of workers on are the server or function."
    ),
]


class RehearsedNetwork(Part, frozen=True):
    """How links were shaped.

    why_not: Why no better method; empty where there is none.
    slower: Pairs of places whose link is faster in the plan than this machine carries.
    """

    method: str
    why_not: str
    slower: list[tuple[str, str]]


class RehearsedLine(Part, frozen=True):
    """A figure, predicted and measured.

    difference: Measured over predicted less 1.
    within: Whether the line is within its tolerance; null: not judged.
    """

    kind: Literal["seconds", "bytes", "requests", "usd", "rate"]
    what: str
    unit: str
    predicted: float | None
    measured: float | None
    difference: float | None
    within: bool | None


class MachineLoad(Part, frozen=True):
    """CPU time of this machine during the rehearsal; absent where the system does not say.

    in_use: Share that its processes used.
    stolen: Share that its host gave to others.
    busy: Whether a slow round says nothing about the plan.
    """

    in_use: float
    stolen: float
    busy: bool


class Rehearsal(Part, frozen=True, tag_field="schema", tag="placer.rehearsal/v1"):
    """A plan run in small on one machine with shaped links, line by line beside its prediction.

    plan: Name of the manifest that was rehearsed.
    scale: Bytes over those of the plan; in earlier documents calculation as well.
    gradient_bytes: Of the rehearsal, as they travel.
    confirmed: Whether the exchange was measured, and all lines that are judged are within their
        tolerances.
    """

    plan: str
    strategy: str
    workers: Annotated[int, Meta(ge=2)]
    scale: Positive
    gradient_bytes: Positive
    network: RehearsedNetwork
    lines: list[RehearsedLine]
    deaths: list[str]
    confirmed: bool
    machine: Maybe[MachineLoad] = UNSET

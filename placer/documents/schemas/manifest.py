"""Launch manifests, and what ``placer export`` says; see `placer.documents.manifest`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta

from placer.cost_model.convergence import Multiplier
from placer.documents.manifest.types import Server
from placer.documents.manifest.versions import ISLANDS_SCHEMA, SCHEMA
from placer.documents.schemas.parts import (
    Closed,
    Digest,
    LinkUse,
    Market,
    Maybe,
    Move,
    Part,
    Plan,
    Range,
    Some,
    StepSeconds,
    Strategy,
)
from placer.documents.schemas.result import SavedProblem
from placer.records import Amount, Count, Natural, Positive, Share

Name = Annotated[str, Meta(pattern="^[a-z0-9-]{1,63}$")]


class ManifestModel(Part, frozen=True):
    """What is trained; gradients in bytes after compression."""

    name: str
    parameters: Natural
    gradient_bytes: Amount


class GroupOffer(Part, frozen=True):
    """The machine that each worker of a group rents."""

    instance_type: str
    gpu: str
    gpu_count: Natural
    market: Market
    usd_per_hour: Amount
    as_of: str


class GroupData(Part, frozen=True):
    """Where a group reads its samples.

    Parameters
    ----------
    place_share
        Share of all samples that the group's place computes, where data have places.
    """

    store: str | None
    place_share: Share | None


class Group(Part, frozen=True):
    """Equal workers in one place.

    Parameters
    ----------
    count
        Workers; islands count once.
    samples_per_second
        What one worker calculates as the plan expects.
    """

    name: str
    place: str
    provider: str
    region: str
    offer: GroupOffer
    count: Natural
    rank_offset: Count
    data: Maybe[GroupData] = UNSET
    samples_per_second: Maybe[Positive | None] = UNSET


class IslandPlan(Plan, Closed, frozen=True):
    """The plan inside a worker."""


class IslandGroup(Group, frozen=True, kw_only=True):
    """Equal workers in one place.

    Parameters
    ----------
    machines
        Of one worker.
    """

    machines: Annotated[int, Meta(ge=1, le=1024)]
    inner: IslandPlan | None


class Timeouts(Part, frozen=True):
    """Seconds after which something is wrong, and the interval of polls of a store."""

    matchmaking_s: Amount
    averaging_s: Amount
    step_s: Amount
    round_s: Amount
    poll_s: Maybe[Amount | None] = UNSET


class IslandExchange(Part, frozen=True):
    """How the workers keep their models alike."""

    strategy: str
    target_batch_size: Natural
    microbatch: Natural
    compression: str
    streams: Natural
    overlap: bool
    local_steps: Natural
    timeouts: Timeouts
    quorum: Maybe[Natural | None] = UNSET
    grace_s: Maybe[Positive | None] = UNSET


class ExchangeSettings(IslandExchange, frozen=True, kw_only=True):
    """How the workers keep their models alike."""

    strategy: Strategy


class FunctionAggregator(Part, frozen=True, tag_field="kind", tag="function"):
    """A cloud function that sums gradients."""

    place: str
    function: str
    memory_gib: float
    max_seconds: float


class ServerAggregator(Part, frozen=True, tag_field="kind", tag="server"):
    """A machine that sums gradients."""

    place: str
    server: Server | None


class RegionAggregator(ServerAggregator, frozen=True, tag_field="kind", tag="region"):
    """The region whose first worker sums gradients."""


class Storage(Part, frozen=True):
    """The store that a serverless exchange was priced with."""

    place: str
    store: str
    bucket: Name


class DataPlan(Part, frozen=True):
    """Where the samples are."""

    store: str | None
    assumption: str | None
    copied_from: Maybe[str] = UNSET
    shares: Maybe[dict[str, Share]] = UNSET
    moves: Maybe[list[Move]] = UNSET


class Expected(Part, frozen=True):
    """What the estimate says; see `Estimate`."""

    samples_per_second: Range
    effective_samples_per_second: Range
    samples_to_target: Multiplier
    step_seconds: StepSeconds
    usd_per_hour: dict[str, Amount]
    usd_per_hour_interval: Range
    usd_per_million_samples: Amount
    links: list[LinkUse]
    status: str
    gap: float | None


class Drift(Part, frozen=True):
    """Thresholds that should raise an alarm."""

    min_samples_per_second: Amount
    max_usd_per_hour: Amount
    max_round_seconds: Maybe[Amount] = UNSET


class Rendezvous(Part, frozen=True):
    """How the machines find each other. machines: workers and, if it has a machine of its own, the
    parameter server. The address of rank 0 (of group) comes in the environment variable
    address_variable.
    """

    method: Literal["none", "address", "buckets"]
    machines: Natural
    group: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    address_variable: str
    join_s: Amount


class Bucket(Part, frozen=True):
    """A bucket to make before the run."""

    role: Literal["exchange", "workers"]
    place: str
    store: str
    name: Name


class PlanInputs(Part, frozen=True):
    """What the plan was made from."""

    catalog: str
    digest: str
    profile_digest: str
    as_of: Maybe[str | None] = UNSET
    oldest: Maybe[str] = UNSET
    egress_as_of: Maybe[str] = UNSET
    egress_oldest: Maybe[str] = UNSET
    changes: Maybe[list[str]] = UNSET


class AnyManifest(Part, frozen=True):
    """What manifests of all versions have.

    Parameters
    ----------
    question
        The problem that the plan answers, cut down to what it uses: links, prices, speeds. placer
        rehearse times the plan again with it.
    """

    name: Name
    model: ManifestModel
    world_size: Natural
    aggregator: FunctionAggregator | ServerAggregator | RegionAggregator | None
    storage: Storage | None
    data: DataPlan
    expected: Expected
    drift: Drift
    inputs: PlanInputs
    digest: Digest
    rendezvous: Maybe[Rendezvous] = UNSET
    buckets: Maybe[list[Bucket]] = UNSET
    question: Maybe[SavedProblem | None] = UNSET


class Manifest(AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=SCHEMA):
    """All that an executor needs; no secrets. digest is the SHA-256 of the document without it
    (keys sorted, no spaces). Early files of this version lack rendezvous, buckets, groups.data,
    timeouts.poll_s and drift.max_round_seconds; readers work them out from the rest. They also lack
    groups.samples_per_second and question.
    """

    groups: Some[Group]
    exchange: ExchangeSettings


class IslandManifest(
    AnyManifest, frozen=True, kw_only=True, tag_field="schema", tag=ISLANDS_SCHEMA
):
    """As placer.manifest/v1, of workers that are islands: machines of one offer in one zone that
    hold one copy of the model by an inner plan. world_size, rank_offset and rendezvous.machines
    count machines; the machines of one island have ranks in a row. exchange.strategy is a name of
    placer.manifest/v1.
    """

    groups: Some[IslandGroup]
    exchange: IslandExchange


class LaunchFile(Part, frozen=True):
    """A launch file."""

    name: str
    bytes: Count


class Fallback(Part, frozen=True):
    """A fallback of the plan.

    Parameters
    ----------
    manifest
        Digest of the manifest.
    dir
        Where its files are.
    tried_by_itself
        The plan's own files try it; else it has a folder of its own.
    """

    manifest: str
    dir: str
    tried_by_itself: bool


class Export(Part, frozen=True, tag_field="schema", tag="placer.export/v1"):
    """Launch files that were written, or with --diff would be.

    Parameters
    ----------
    manifest
        Digest of the manifest.
    removed
        Files of an earlier export.
    fallbacks
        Fallbacks of the plan, in order; only with --fallback.
    diff
        Unified diff; only with --diff.
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

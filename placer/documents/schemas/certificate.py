"""The part ``certificate`` of a saved result; see `placer.documents.certificate`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, field

from placer.documents.schemas.parts import Closed, Digest, Maybe, Part
from placer.problem.question import PARTS
from placer.records import Amount, Count, Natural, Positive, Share
from placer.workload.inner_plan import InnerPlan


class DeviceSpeed(Part, frozen=True):
    """Speeds of a device: alone, and in a group."""

    gpu: str
    gpu_count: Natural
    alone: Positive
    in_group: Positive
    basis: str
    machines: Maybe[Natural] = UNSET
    inner: Maybe[InnerPlan | None] = UNSET


class MachineSpeed(DeviceSpeed, frozen=True, kw_only=True):
    """Speeds of a machine of the answer: alone, and in a group.

    free_share: Share of the time behind which an exchange may hide that those inside the worker
        leave to one between workers; 1 where it is left out.
    """

    place: str
    offer: str
    market: str
    free_share: Maybe[Share] = UNSET


class LinkSpeed(Part, frozen=True):
    """A directed link as the model has it."""

    from_: str = field(name="from")
    to: str
    bytes_per_second: Positive
    cap: Positive
    rtt_s: Amount
    basis: str


class Figures(Part, frozen=True):
    """Speeds of the machines and links of the answer."""

    machines: list[MachineSpeed]
    links: list[LinkSpeed]


class IslandKind(Closed, frozen=True):
    """A kind of machine of which islands were searched, and of how many."""

    gpu: str
    gpu_count: Natural
    network_gbps: Amount
    fabric: str
    machines: list[Natural]


class Searched(Part, frozen=True):
    """Which workers with a plan the proof is about: how many, and of how many machines of each
    kind; of each the fastest of all plans and microbatches but those that are never tried.
    """

    workers: list[Natural]
    islands: list[IslandKind]
    never_tried: Maybe[str] = UNSET


class AdmittedSpeed(DeviceSpeed, frozen=True):
    """Speeds of an admitted device: alone, and in a group."""

    network_gbps: Maybe[float | None] = UNSET
    fabric: Maybe[str] = UNSET


class Mode(Part, frozen=True):
    """The bound of one strategy."""

    strategy: str
    local_steps: Count
    samples_to_target: float
    bound: float | None


class Relaxation(Part, frozen=True):
    """What the bounds of whole strategies are checked with."""

    speeds: list[AdmittedSpeed]
    multipliers: list[Amount]
    modes: list[Mode]


class Certificate(Part, frozen=True, tag_field="schema", tag="placer.certificate/v1"):
    """The part certificate of a file of placer recommend -o: digests (SHA-256 of canonical JSON) of
    what the answer rests on, and what placer validate works its bounds out with.

    whole: Whether the file has the whole market; missing in files of early versions.
    """

    placer: str
    solver: str
    gap: float
    time_limit_s: float
    node_limit: int | None
    seed: int
    book: str
    inputs: Annotated[dict[str, Digest], Meta(extra_json_schema={"required": list(PARTS)})]
    figures: Figures | None
    relaxation: Relaxation | None
    whole: Maybe[bool] = UNSET
    searched: Maybe[Searched] = UNSET

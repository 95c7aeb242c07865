"""Documents about models and measurements: profiles, calibrations, reproduced papers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import UNSET, Meta

from placer.documents.schemas.parts import (
    NOT_NULL,
    Anything,
    Closed,
    Day,
    Digest,
    Maybe,
    Part,
    Some,
)
from placer.records import Amount, Count, Natural, Positive, Share, one_of
from placer.workload.architecture import Architecture
from placer.workload.constants import HostConstants
from placer.workload.measurement import PRECISIONS
from placer.workload.overlay import FirstFigures, Triple
from placer.workload.profile import LONGEST_SAMPLE, ModelProfile
from placer.workload.profile import SCHEMA as PROFILE_SCHEMA

SHORT = Meta(extra_json_schema={"maxLength": LONGEST_SAMPLE})
SOME_TEXT = Meta(extra_json_schema={"type": "string", "minLength": 1})
NEEDS_TENSORS = Meta(extra_json_schema={"required": ["s_per_tensor"]})  # older than other defaults


class ProfileFile(ModelProfile, frozen=True, kw_only=True, tag_field="schema", tag=PROFILE_SCHEMA):
    """What one model needs and how fast each device runs it; rates are samples per second of one
    machine.
    """

    architecture: Annotated[Architecture | None, NOT_NULL] = None
    sample: Annotated[str | None, SOME_TEXT, SHORT] = None
    sample_source: Annotated[str | None, SOME_TEXT] = None


Profile = Annotated[
    ProfileFile,
    Meta(
        extra_json_schema={
            "anyOf": [{"required": ["architecture"]}, {"properties": {"rates": {"minItems": 1}}}]
        }
    ),
]


class Models(Part, frozen=True, tag_field="schema", tag="placer.models/v1"):
    """The models that have a profile. With a name the command prints that one profile
    (placer.profile/v1).
    """

    models: list[Profile]


class CalibratedBook(Closed, frozen=True):
    """The price book of the runs."""

    name: str
    digest: str


class RunsFile(Closed, frozen=True):
    """The file of runs."""

    file: str
    sha256: Digest
    rows: Natural


Fit = Literal["rate", "link", "kappa", "scale", "constant"]


class Fitted(Closed, frozen=True):
    """A figure that the runs changed, with its 90 % interval.

    runs: How many are behind it.
    at_limit: It lies at the end of its range.
    """

    figure: str
    kind: Fit
    key: tuple[str, ...]
    unit: str
    published: Amount
    value: Amount
    low: Amount
    high: Amount
    runs: Count
    at_limit: bool


class NotFitted(Closed, frozen=True):
    """A figure that the runs say nothing about."""

    figure: str
    kind: Fit
    key: tuple[str, ...]
    unit: str
    published: Amount
    because: str


class FittedRun(Closed, frozen=True):
    """A run beside its prediction; errors are expected over measured samples/s, minus 1.

    error_left_out: Of the fit to all other runs; null where there are none or they say nothing.
    weight: 1 for a run that counts in full.
    outlier: The fit counts the run less than half.
    """

    line: int
    model: str
    workers: str
    samples_per_second: Positive
    error_before: float
    error_after: float
    error_left_out: float | None
    weight: Amount
    outlier: bool


class ErrorSummary(Closed, frozen=True):
    """Mean and worst absolute error of several runs."""

    mean: Amount
    worst: Amount
    runs: Natural


class Errors(Closed, frozen=True):
    """Errors with published figures, with fitted ones, and of runs that were left out."""

    before: ErrorSummary | None
    after: ErrorSummary | None
    left_out: ErrorSummary | None


class FitReport(Part, frozen=True):
    """What was fitted, for people.

    exchange: The arithmetic of an exchange that was measured; only of placer profile --exchange.
    """

    fitted: list[Fitted]
    not_fitted: list[NotFitted]
    runs: list[FittedRun]
    errors: Errors
    warnings: list[str]
    exchange: Maybe[Anything] = UNSET


class CalibrationFile(
    FirstFigures, Closed, frozen=True, kw_only=True, tag_field="schema", tag="placer.calibration/v1"
):
    """Figures that a user's own measured runs put over the published ones: seconds, samples per
    second of one machine, Gb/s of one TCP stream. The report is for people and changes nothing; its
    errors are shares of 1, expected over measured minus 1.
    """

    created: Day
    placer_version: str
    catalog: CalibratedBook
    runs: RunsFile
    hosts: dict[str, Annotated[HostConstants, NEEDS_TENSORS]]
    report: FitReport
    site_kappa: Maybe[Triple] = UNSET
    ring_kappa: Maybe[Triple] = UNSET
    stream_power: Maybe[Share] = UNSET
    server_sum_bytes_per_s: Maybe[Positive | None] = UNSET


class EstimatedModel(Closed, frozen=True):
    """The model."""

    name: str
    title: str
    family: str
    source: str


class GradientSize(Closed, frozen=True):
    """Tensors and bytes of a gradient."""

    tensors: Natural
    bytes_fp32: Natural


Known = Literal["exact", "estimated", "assumed"]


class MemoryPart(Closed, frozen=True):
    """What takes memory of a device at the microbatch asked for.

    per_sample: What of it grows with each sample.
    """

    name: str
    bytes: Amount
    per_sample: Amount
    basis: Known
    source: str


class Memory(Closed, frozen=True):
    """Bytes of a device."""

    bytes: Natural
    components: list[MemoryPart]


class Fits(Closed, frozen=True):
    """Whether the microbatch asked for fits a device.

    largest_microbatch: Most samples that fit, 0 if not even one does.
    """

    gpu: str
    memory_bytes: Positive
    needed_bytes: Positive
    fits: bool
    largest_microbatch: Count


class EstimatedRate(Closed, frozen=True):
    """Samples per second of a device that nobody measured."""

    gpu: str
    gpu_count: Literal[1]
    framework: Literal["none"]
    value: Positive
    low: Positive
    high: Positive
    basis: Literal["estimated"]
    source: str
    limit: Literal["FLOPs", "memory", "kernel launches"] | None


class EstimateCheck(Closed, frozen=True):
    """Errors of the estimate against a known speed of the model; 0.1 is 10 % too fast.

    never_measured: Without any speed of this model.
    other_device: From its other known speeds; null without one.
    """

    gpu: str
    samples_per_second: Positive
    never_measured: float
    other_device: float | None


class ConstantsSource(Closed, frozen=True):
    """Where the constants are from."""

    as_of: Day
    source: str


class ProfileEstimate(Closed, frozen=True, tag_field="schema", tag="placer.profile-estimate/v1"):
    """What a model needs and how fast it may run on GPUs that were not measured, counted on the
    meta device: bytes, floating point operations (a multiply-add is two), samples per second.
    Errors are shares of 1, estimated over known minus 1.

    kernels_per_step: Kernels that the host launches; those inside recurrent layers are left out.
    """

    placer_version: str
    model: EstimatedModel
    precision: Annotated[str, one_of(*PRECISIONS)]
    optimizer: str
    microbatch: Natural
    parameters: Natural
    trainable: Natural
    gradient: GradientSize
    flops_per_sample: Amount
    kernels_per_step: Amount
    memory: Memory
    fits: list[Fits]
    rates: list[EstimatedRate]
    checks: list[EstimateCheck]
    constants: ConstantsSource
    notes: list[str]


class PaperRow(Part, frozen=True):
    """A published figure beside ours.

    groups: What the error is averaged over; the first is where the row stands in a table.
    family: Rows of which a short table shows only the best.
    published: Null where the paper gives no number.
    error: Ours over published, minus 1.
    calibrates: What was fitted to this run; empty of a prediction.
    parts: They add up to ours.
    best: The smallest of its group.
    """

    groups: Some[str]
    label: str
    family: str
    quantity: str
    unit: str
    published: float | None
    ours: float
    low: float | None
    high: float | None
    error: float | None
    inside_interval: bool | None
    calibrates: str
    parts: dict[str, float]
    best: bool


class PaperGroup(Part, frozen=True):
    """Errors of a group of rows.

    coverage: Share of the published figures that lie in their interval.
    """

    name: str
    quantity: str
    rows: Natural
    mean_error: Amount
    worst_error: float
    coverage: float | None


class Verdict(StrEnum):
    """What became of a claim. contradicted: the figures of the books, or an estimate by more than
    its tolerance, say otherwise. undecided: what decides it was never published as a number, and
    placer's assumptions in its place do not settle it; documents before 2026-11-23 say "not
    reproducible" for it.
    """

    REPRODUCED = "reproduced"
    UNDECIDED = "undecided: inputs unpublished"
    CONTRADICTED = "contradicted"
    FORMER = "not reproducible"


class Claim(Part, frozen=True):
    """A claim of the paper, judged.

    published: A figure in its unit, a placement, or empty where the statement says all.
    condition: Machines, prices and accounting under which the claim is judged.
    tolerance: Share of the published figure by which ours may miss it.
    """

    id: str
    statement: str
    published: str
    unit: str
    passage: str
    source: str
    as_of: str
    verdict: Verdict
    ours: str
    why: Annotated[str, Meta(min_length=1)]
    condition: Maybe[str] = UNSET
    tolerance: Maybe[Positive | None] = UNSET


class Reproduction(Part, frozen=True, tag_field="schema", tag="placer.reproduction/v1"):
    """Errors and coverage are shares of 1; error is ours over published less 1.

    verdicts: Number of claims by verdict.
    """

    paper: str
    title: str
    rows: list[PaperRow]
    groups: list[PaperGroup]
    claims: list[Claim]
    notes: list[str]
    verdicts: Maybe[dict[str, Count]] = UNSET

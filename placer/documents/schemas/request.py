"""The wishes of a request, as documents repeat them; see `placer.documents.request`."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET

from placer.documents.schemas.parts import Day, Maybe, Part, Transport
from placer.market.catalog import MARKETS
from placer.problem.datasets import Dataset
from placer.problem.requirements import OBJECTIVES, Quota
from placer.records import Amount, Natural, Positive, one_of
from placer.workload.data_loading import CACHES
from placer.workload.inner_plan import CHECKPOINTING, PRECISIONS, SHARDINGS, TENSOR_DEGREES
from placer.workload.software import SOFTWARE


class KeepRule(Part, frozen=True):
    """What of a kind is in an area must not leave it."""

    kind: str
    area: str


class Wishes(Part, frozen=True):
    """The wishes as they were read, in SI units; null: no limit.

    sample: What one sample of the model is, such as `16 tokens`; null if its profile does not state
        it. Files of November 2026 and before lack it.
    batch_assumed: Whether the batch is the default of adapters, which nobody asked for.
    trainable_parameters: Parameters that the optimizer changes, of language models: few with
        adapters.
    quota_gpus: Most GPUs of each place, type and market where no row of quotas matches; null: no
        limit; absent: 8.
    data_bytes: Size of the data in the store; null where nobody said it.
    data_cache: Where later passes over the data of a store read from; null: auto.
    """

    model: str
    budget_usd_per_hour: float | None
    min_samples_per_second: float | None
    target_batch_size: Natural
    compression: str
    gradient_bytes: Amount
    gpus: list[str]
    places_in: list[str]
    places_not_in: list[str]
    market: Annotated[str, one_of("any", *MARKETS)]
    min_workers: Natural
    max_workers: Natural
    exchange: str
    aggregator: str | None
    storage: str | None
    data_store: str | None
    quotas: list[Quota]
    same_zone: bool
    require_measured: bool
    local_steps: list[int] | None
    streams: int
    overlap: bool
    samples_to_target: dict[str, float]
    datasets: list[Dataset]
    passes: float
    keep: list[KeepRule]
    calibration: str
    interruption: float | None
    unavailable: float | None
    use: list[str]
    samples: Natural | None
    deadline_seconds: float | None
    budget_usd: float | None
    batch_range: tuple[Natural, Natural] | None
    critical_batch: Natural | None
    max_carbon_g_per_hour: float | None
    min_regions: Natural
    max_regions: Natural
    sample: Maybe[str | None] = UNSET
    batch_assumed: Maybe[bool] = UNSET
    trainable_parameters: Maybe[int | None] = UNSET
    quota_gpus: Maybe[int | None] = UNSET
    uniform: Maybe[bool] = UNSET
    supply: Maybe[int | None] = UNSET
    startup_seconds: Maybe[Amount] = UNSET
    quorum: Maybe[Natural | None] = UNSET
    grace_seconds: Maybe[Positive | None] = UNSET
    data_bytes: Maybe[float | None] = UNSET
    data_cache: Maybe[Annotated[str, one_of(*CACHES)] | None] = UNSET
    data_source: Maybe[str] = UNSET
    copy_seconds: Maybe[Amount] = UNSET
    budget_rate: Maybe[str | None] = UNSET
    oldest_price: Maybe[Day | None] = UNSET
    tokens: Maybe[Natural | None] = UNSET
    sequence_length: Maybe[Natural | None] = UNSET
    lora: Maybe[Natural | None] = UNSET
    qlora: Maybe[Natural | None] = UNSET
    transport: Maybe[Transport] = UNSET
    max_machines: Maybe[Natural | None] = UNSET
    machines_per_island: Maybe[tuple[Natural, Natural] | None] = UNSET
    sharding: Maybe[Annotated[str, one_of(*SHARDINGS)] | None] = UNSET
    tensor_parallel: Maybe[Annotated[int, one_of(*TENSOR_DEGREES)] | None] = UNSET
    checkpointing: Maybe[Annotated[str, one_of(*CHECKPOINTING)] | None] = UNSET
    microbatch: Maybe[Natural | None] = UNSET
    precision: Maybe[Annotated[str, one_of(*PRECISIONS)] | None] = UNSET
    software: Maybe[Annotated[str, one_of(*SOFTWARE)] | None] = UNSET
    confidence: Maybe[float | None] = UNSET
    on_demand_floor: Maybe[float | None] = UNSET
    max_share: Maybe[list[str]] = UNSET
    expected: Maybe[bool] = UNSET


class Request(Wishes, frozen=True, kw_only=True):
    """The wishes, and what is best by."""

    objective: Annotated[str, one_of(*OBJECTIVES)]

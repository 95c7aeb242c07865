"""The table of wishes: one row for each word of a request, read by the command line, by Python, by
the request document and by changed worlds.

``--help`` reads the table, so it imports none of the readers, which stand in
`placer.problem.words.readers`. docs/decisions/table-of-wishes.md says how to add a row.
"""

# No `from __future__ import annotations`: the rows are read from the annotations of `Wishes`.
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_args

from msgspec import Struct

from placer.problem.exchange import STRATEGIES
from placer.records import replace

if TYPE_CHECKING:
    from placer.workload.constants import Calibration
    from placer.workload.overlay import Overlay

Names = str | Sequence[str] | AbstractSet[str]
"""Names as text with commas, or one by one."""
Range = str | int | tuple[int, int]
"""One whole number, or the lower and the upper end of a range; both count."""
Quotas = (
    str
    | int
    | os.PathLike[str]
    | Mapping[str, int]
    | Mapping[tuple[str, str, str], int]
    | Mapping[str | tuple[str, str, str], int]
)
"""One number for all, a file, or most GPUs by name, or by place, name and market."""
SAME = "*"
"""Stands for the name of the wish as a field, and for its fields as keys."""
STRATEGY_NAMES = ", ".join(name for name in STRATEGIES if name != "none")


NUMBERS: Mapping[str, str] = {
    **dict.fromkeys(("batch", "confidence", "count", "floor", "island_machines", "number"), "{}"),
    **dict.fromkeys(("quotas", "regions", "share", "supply", "tokens", "workers"), "{}"),
    **dict.fromkeys(("local_steps",), "{}"),
    **dict.fromkeys(("deadline", "seconds", "startup"), "{}s"),
    "rate": "{}/s",
}
"""How a bare number is written in words, by reader; elsewhere it could be misread."""
METAVARS: Mapping[str, str] = {
    **dict.fromkeys(("count", "tokens"), "N"),
    **dict.fromkeys(("confidence", "floor", "share"), "SHARE"),
    **dict.fromkeys(("island_machines", "local_steps", "regions", "workers"), "N..M"),
    **dict.fromkeys(("seconds", "startup"), "TIME"),
    "places": "PLACE,..",
    "text": "NAME",
}
"""How words are shown in ``--help``, by reader, where a row does not say it."""
USUAL_READERS: Mapping[object, str] = {bool: "flag", str | None: "text", str | int | None: "count"}
"""Readers by the types that Python takes, where a row names none."""


class Wish(Struct, frozen=True, kw_only=True):
    """One row of the table.

    ``group`` is what it is about, which `about_training` and the like set: the documentation of
    the Python functions lists wishes by it. ``reader`` is a name of
    `placer.problem.words.readers.READERS`, by default of `USUAL_READERS`, and ``fields`` are
    those of `Requirements` that it sets, in its order; none where the wish changes catalog,
    profile or constants. ``example`` are words for messages and tests. ``help`` is one line of
    ``--help``; ``more`` stands in the documentation of Python alone. ``default`` are words that
    hold where the wish is not given. ``keys`` show it in the request document. ``changes``:
    ``--set`` of a changed world takes it, and may multiply it (``scales``) or take it away with
    ``none`` (``removable``; by default where nothing may be asked for).
    """

    group: str
    reader: str = ""
    metavar: str = ""
    example: str = "yes"
    help: str
    more: str = ""
    fields: tuple[str, ...] = (SAME,)
    flag: str = ""
    default: str | None = None
    repeatable: bool = False
    keys: tuple[str, ...] = (SAME,)
    changes: bool = True
    scales: bool = False
    removable: bool | None = None
    name: str = ""
    hint: Any = None

    @property
    def word(self) -> str:
        """The flag without its dashes, as messages and ``--set`` name the wish."""
        return self.flag.removeprefix("--")

    @property
    def is_flag(self) -> bool:
        """Whether the option takes no value."""
        return self.hint is bool

    @property
    def whole(self) -> bool:
        """Whether the wish is about whole numbers."""
        return int in get_args(self.hint)

    @property
    def number(self) -> str | None:
        """How a bare number is written in words; None where it could be misread."""
        return NUMBERS.get(self.reader)


about_training = partial(Wish, group="training")
about_exchange = partial(Wish, group="exchange")
about_plan = partial(Wish, group="inside a worker")
about_data = partial(Wish, group="data")
about_assumptions = partial(Wish, group="assumptions")
about_limits = partial(Wish, group="limits")
about_machines = partial(Wish, group="machines")
about_risk = partial(Wish, group="risk")


class TrainingWishes(TypedDict, total=False):
    """The words that say what is trained and how: all that a placement given by hand needs."""

    tbs: Annotated[
        Range | None,
        about_training(
            fields=("target_batch_size", "batch_range", "batch_tokens"),
            reader="batch",
            keys=("target_batch_size", "batch_range"),
            metavar="N|N..M|Ntok",
            example="8K..64K",
            help="Target batch size: samples per step over all workers (32768, 32K, 32Ki), a "
            "range, or tokens (4Mtok).",
            more="Of a range, its ends and the powers of two between are tried; default: the "
            "profile's.",
            scales=True,
            removable=False,
        ),
    ]
    critical_batch: Annotated[
        str | int | None,
        about_training(
            example="64K",
            help="Gradient noise scale: samples to target grow with 1 + TBS / N.",
            scales=True,
        ),
    ]
    samples: Annotated[
        str | int | None,
        about_training(
            example="10M",
            help="Samples to train on, at equal progress, such as 10M: adds time and money in "
            "total.",
            scales=True,
        ),
    ]
    tokens: Annotated[
        str | int | None,
        about_training(
            reader="tokens",
            example="10B",
            help="Tokens to train a language model on, such as 10B, in place of --samples.",
            scales=True,
            removable=False,
        ),
    ]
    startup: Annotated[
        str | float | None,
        about_training(
            fields=("startup_s",),
            reader="startup",
            example="5min",
            help="Paid time until machines work, in the totals of --samples or --tokens; assumed.",
            more="A number is seconds.",
            default="10min",
            keys=("startup_seconds",),
            scales=True,
        ),
    ]
    seq_len: Annotated[
        str | int | None,
        about_training(
            fields=("sequence_length",),
            example="4096",
            help="Tokens of one sequence of a language model; default: the profile's.",
            more="The default batch keeps its tokens.",
            scales=True,
            removable=False,
        ),
    ]
    lora: Annotated[
        str | int | None,
        about_training(
            metavar="RANK",
            example="16",
            help="Train adapters of this rank at every matrix of a frozen language model, 128 "
            "sequences a step unless --tbs says otherwise.",
            removable=False,
        ),
    ]
    qlora: Annotated[
        str | int | None,
        about_training(
            metavar="RANK",
            example="16",
            help="The same with the frozen model in 4 bits.",
            removable=False,
        ),
    ]
    exchange: Annotated[
        str,
        about_exchange(
            reader="exchange",
            metavar="NAME",
            example="all-reduce",
            help=f"auto (any synchronous one), {STRATEGY_NAMES}.",
            default="auto",
        ),
    ]
    local_steps: Annotated[
        Range | None,
        about_exchange(
            fields=("min_local_steps", "max_local_steps"),
            reader="local_steps",
            keys=("local_steps",),
            example="1..16",
            help="Optimizer steps between exchanges; above 1 auto also tries local-sgd, "
            "model-averaging and asgd-ga.",
            more="Default: 1, or for a local strategy whatever is best up to 64.",
        ),
    ]
    streams: Annotated[
        str | int,
        about_exchange(
            reader="count", example="4", help="TCP streams of each pair of machines.", default="1"
        ),
    ]
    overlap: Annotated[
        bool, about_exchange(help="Overlap the exchange with the next step: one step of staleness.")
    ]
    quorum: Annotated[
        str | int | None,
        about_exchange(
            metavar="K",
            example="2",
            help="Exchanges of local-sgd and diloco go on when K workers have answered.",
            more="At least K workers are planned.",
        ),
    ]
    grace: Annotated[
        str | float | None,
        about_exchange(
            fields=("grace_s",),
            reader="seconds",
            example="30s",
            help="How long a quorum waits for the others; default: 1min.",
            more="A number is seconds.",
            keys=("grace_seconds",),
        ),
    ]
    samples_to_target: Annotated[
        Names | Mapping[str, float] | None,
        about_exchange(
            reader="multipliers",
            metavar="NAME=X",
            example="local-sgd=1.2",
            help="Samples an exchange needs over synchronous ones, as in local-sgd=1.2.",
            repeatable=True,
        ),
    ]
    aggregator: Annotated[
        str | None,
        about_exchange(
            fields=("aggregator", "function"),
            reader="aggregator",
            keys=("aggregator",),
            metavar="PLACE",
            example="aws/us-west-2",
            help="Place of the cloud function, parameter server or hub; NAME@PLACE where it has "
            "several.",
            changes=False,
        ),
    ]
    storage: Annotated[
        str | None,
        about_exchange(
            reader="store",
            metavar="PLACE",
            example="aws/us-west-2",
            help="Place of the object store of a serverless exchange.",
            changes=False,
        ),
    ]
    compression: Annotated[
        str | None,
        about_exchange(
            example="fp16",
            help="none, fp16, int8; with DiLoCo int4, sparse. Default: the profile's.",
            removable=False,
        ),
    ]
    transport: Annotated[
        str | None,
        about_exchange(
            example="gloo",
            help="Software that averages inside a zone: nccl, gloo or hivemind; default: the "
            "catalog's.",
            removable=False,
        ),
    ]
    sharding: Annotated[
        str | None,
        about_plan(
            example="zero-3",
            help="What each GPU holds a share of: none, zero-1, zero-2, zero-3 (FSDP) or hybrid; "
            "default: the fastest that fits.",
        ),
    ]
    tp: Annotated[
        str | int | None,
        about_plan(
            fields=("tensor_parallel",),
            example="2",
            help="GPUs of one machine that share each matrix: 1, 2, 4 or 8.",
        ),
    ]
    checkpointing: Annotated[
        str | None,
        about_plan(
            example="full",
            help="Activations that are recomputed in the backward pass: none, selective or full.",
        ),
    ]
    microbatch: Annotated[
        str | int | None, about_plan(example="4", help="Sequences that each GPU takes at once.")
    ]
    precision: Annotated[
        str | None,
        about_plan(
            example="bf16", help="Number format of the products: bf16, fp16, tf32, fp32 or fp8."
        ),
    ]
    software: Annotated[
        str | None,
        about_plan(
            example="nvidia-te",
            help="What trains: torch-2023 (PyTorch), torch-compiled (torchtitan, tuned LoRA), "
            "hf-eager or torchtune, each also with -8bit behind it (states of AdamW in 8 bits), or "
            "nvidia-te (Megatron, NeMo); default: the slower, with an interval up to the fastest.",
        ),
    ]
    data: Annotated[
        Names | os.PathLike[str] | Mapping[str, str] | None,
        about_data(
            fields=("data_store", "datasets"),
            reader="data",
            metavar="[SIZE@]STORE|PLACE=N:stay",
            example="gcp/us-west1=2M:stay",
            help="Store of the dataset, such as 2TB@s3://us-east-1, gs://us-central1 or "
            "backblaze/us-west; or samples or bytes with a place: A=2M:stay,B=1TB:move; default: "
            "with the workers.",
            repeatable=True,
        ),
    ]
    passes: Annotated[
        str | float,
        about_data(
            reader="number",
            metavar="N",
            example="3",
            help="Epochs: how often the data is read; spreads the price of a move or a first read.",
            more="Default: 1, or with a store what samples and data_size say.",
            default="1",
        ),
    ]
    data_size: Annotated[
        str | None,
        about_data(
            fields=("data_bytes",),
            reader="bytes",
            metavar="SIZE",
            example="150GB",
            help="Size of the data in the store: which disks hold it and, with --samples, how many "
            "epochs there are.",
        ),
    ]
    data_cache: Annotated[
        str | None,
        about_data(
            example="disk",
            help="Where later epochs read from: auto (local disks that hold the data), disk, none; "
            "default: auto.",
        ),
    ]
    data_source: Annotated[
        str | None,
        about_data(
            reader="source",
            metavar="STORE|none",
            example="none",
            help="Store that the data of --data is copied from once, before the run; none: it is "
            "read where it lies. Default: copied to where that is better, if its size is known.",
            removable=False,
        ),
    ]
    keep: Annotated[
        Names | Mapping[str, str] | None,
        about_data(
            fields=("kept",),
            reader="kept",
            metavar="KIND=AREA",
            example="gradients=europe",
            help="raw-data, gradients or checkpoints must not leave an area: gradients=europe.",
            repeatable=True,
            keys=("keep",),
        ),
    ]
    interruption: Annotated[
        str | float | None,
        about_assumptions(
            reader="share",
            example="30%",
            help="Chance per month that a spot machine is reclaimed; default: the table of "
            "capacity, else the provider's band, else 20 % (assumed).",
        ),
    ]
    unavailable: Annotated[
        str | float | None,
        about_assumptions(
            reader="share",
            example="5%",
            help="Share of the time a zone has no spot capacity; default: placer capacity show.",
        ),
    ]
    links: Annotated[
        Names | Mapping[tuple[str, str], str] | None,
        about_assumptions(
            fields=(),
            reader="links",
            metavar="A:B=RATE",
            example="gcp/us-west1:aws/us-west-2=250Mb/s",
            help="Measured bandwidth of one stream, as in gcp/us-west1:aws/us-west-2=250Mb/s.",
            more="It holds in both directions and wins over the links of a calibration.",
            flag="--link",
            repeatable=True,
            changes=False,
        ),
    ]
    own: Annotated[
        Names | Mapping[str, str] | None,
        about_machines(
            fields=(),
            reader="own",
            metavar="NAME=NxGPU@PLACE",
            example="office=2xA100-40@Berlin",
            help="Machines of your own, for their electricity: office=2xA100-40@Berlin, and what "
            "is known of them, as in :ram=128GiB:cpus=16:nvlink=no:cost=0.50/h.",
            more="The place is a city, a country or coordinates. Without a limit or an objective "
            "the plan is for them alone, beside what renting the same speed costs.",
            repeatable=True,
            changes=False,
        ),
    ]
    figures: Annotated[
        str,
        about_assumptions(
            fields=(),
            reader="figures",
            metavar="defended|book",
            example="book",
            default="defended",
            help="Prices and networks: defended (old and estimated ones count little) or book.",
            more="Old and estimated spot prices are shrunk towards what is usual; networks that "
            "nobody promises are 1 Gb/s.",
            changes=False,
        ),
    ]
    calibration: Annotated[
        "str | os.PathLike[str] | Calibration | Overlay | None",
        about_assumptions(
            fields=(),
            reader="calibration",
            keys=("calibration",),
            metavar="FILE",
            example="calibration.json",
            help="Figures of your own runs, made by 'placer profile runs'.",
            changes=False,
        ),
    ]
    zones: Annotated[
        str,
        about_assumptions(
            fields=("same_zone",),
            reader="zones",
            metavar="one|spread",
            example="spread",
            help="Whether workers of a region share a zone.",
            more="Workers of spread zones pay for the traffic between them.",
            default="one",
        ),
    ]


class Wishes(TrainingWishes, total=False):
    """All words of a request, in the order of ``--help``."""

    budget: Annotated[
        str | None,
        about_limits(
            fields=("budget_usd_per_hour", "budget_usd", "budget_rate"),
            reader="budget",
            metavar="USD[/h]",
            example="5/h",
            help="Maximum spend: 5/h, 100/day, 3000/month, 5EUR/h; with --samples or "
            "--tokens also in total: 200usd.",
            more="Other currencies are read at a dated rate, which the answer names.",
            scales=True,
        ),
    ]
    min_throughput: Annotated[
        str | float | None,
        about_limits(
            fields=("min_samples_per_second",),
            reader="rate",
            metavar="N/s",
            example="400/s",
            help="Minimum samples per second, such as 400/s, or 20Ktok/s.",
            more="A number is samples per second.",
            scales=True,
        ),
    ]
    deadline: Annotated[
        str | float | None,
        about_limits(
            fields=("deadline_s",),
            reader="deadline",
            metavar="TIME|DAY",
            example="12h",
            help="Time for all --samples or --tokens, such as 12h or 3d, or the last day of it: "
            "friday, 2026-12-04.",
            more="A number is seconds. A day ends at midnight UTC.",
            keys=("deadline_seconds",),
            scales=True,
        ),
    ]
    max_carbon: Annotated[
        str | None,
        about_limits(
            fields=("max_carbon_g_per_hour",),
            reader="carbon",
            metavar="g/h",
            example="500g/h",
            help="Most emissions of the machines in CO2e, such as 500g/h or 12kg/day.",
            scales=True,
        ),
    ]
    objective: Annotated[
        str | None,
        about_limits(
            fields=("objective", "expected"),
            reader="objective",
            metavar="NAME",
            example="cost-per-sample",
            help="throughput, cost, cost-per-sample, time, carbon or expected; default: "
            "throughput, or cost with a floor or deadline alone.",
            more="``cost`` is USD/h, and with ``samples`` or ``tokens`` USD in all, which "
            "documents call ``total``. ``expected`` is the default objective averaged over "
            "scenarios of spot capacity, with fallbacks.",
            removable=False,
        ),
    ]
    gpu: Annotated[
        Names | None,
        about_machines(
            fields=("gpus",),
            reader="gpus",
            metavar="A,B",
            example="T4,A10",
            help="Only these GPUs, such as T4,A10,A100; A100:8: only machines with eight of them.",
        ),
    ]
    places: Annotated[
        Names | None,
        about_machines(
            fields=("places_in",),
            reader="places",
            example="gcp/us-*,aws",
            help="Only these places: 'aws/*', 'gcp/europe-*', aws; eu (the Union), europe, "
            "germany, us, frankfurt.",
            flag="--in",
        ),
    ]
    not_places: Annotated[
        Names | None,
        about_machines(
            fields=("places_not_in",),
            reader="places",
            example="gcp/us-west1",
            help="Not these places.",
            flag="--not-in",
        ),
    ]
    use: Annotated[
        Names | Mapping[str, str] | None,
        about_machines(
            fields=("used",),
            reader="used",
            metavar="PLACE[=NxDEVICE]",
            example="gcp/us-west1=2xT4:spot",
            help="Machines you own or already run: at least N are among the workers, as in "
            "onprem/site=1xRTX8000 or 'gcp/*=2xT4:spot'.",
            repeatable=True,
            keys=("use",),
        ),
    ]
    spot: Annotated[bool, about_machines(fields=(), help="Short for --market spot.", changes=False)]
    market: Annotated[
        str,
        about_machines(
            reader="market",
            metavar="NAME",
            example="spot",
            help="spot, on-demand, community (machines of third parties) or any; a parameter "
            "server is rented on demand in any case.",
            default="any",
        ),
    ]
    workers: Annotated[
        Range,
        about_machines(
            fields=("min_workers", "max_workers"),
            reader="workers",
            example="2..8",
            help="Fewest and most workers; a worker is a machine, or an island of several.",
            more="An open end is 64, which grows up to 1,024 where an answer has that many and "
            "money or time are limited.",
            default="1..",
        ),
    ]
    machines: Annotated[
        str | int | None,
        about_machines(
            fields=("max_machines",), example="32", help="Most machines of all workers together."
        ),
    ]
    machines_per_island: Annotated[
        Range | None,
        about_machines(
            fields=("min_island_machines", "max_island_machines"),
            reader="island_machines",
            keys=("machines_per_island",),
            example="1..4",
            help="Fewest and most machines that hold one copy of the model together; default: as "
            "many as it needs.",
        ),
    ]
    regions: Annotated[
        Range | None,
        about_machines(
            fields=("min_regions", "max_regions"),
            reader="regions",
            example="1..3",
            help="Fewest and most regions with workers, such as 2 or 1..3; default: any.",
        ),
    ]
    quota: Annotated[
        Quotas | None,
        about_machines(
            fields=("quotas", "quota_gpus"),
            reader="quotas",
            metavar="N|FILE",
            example="8",
            help="Most GPUs per region, type and market, or a CSV file with "
            "place,gpu,market and gpus or vcpus[,scope,machine], whose last matching row wins; "
            "'placer capacity import' makes one of what clouds state; default: no limit.",
            more="Or a mapping such as {'T4': 16} or {('aws/*', 'T4', 'spot'): 16}: most GPUs by "
            "name, or by place, name and market; of several that match, the last one holds.",
            changes=False,
        ),
    ]
    confidence: Annotated[
        str | float | None,
        about_risk(
            reader="confidence",
            example="95%",
            help="Plan with fallbacks so that the deadline or floor holds in this share of the "
            "scenarios of spot capacity, such as 95%.",
            more="With a budget in total, its most expensive runs must keep it on average.",
        ),
    ]
    max_share: Annotated[
        Names | None,
        about_risk(
            fields=("max_shares",),
            reader="shares",
            metavar="SHARE[/AREA]",
            example="50%/region",
            help="Most of the speed in any one zone, region or provider, such as 50%/region.",
            more="The speed of a placement is that of its workers, each by itself.",
            repeatable=True,
            keys=("max_share",),
        ),
    ]
    on_demand_floor: Annotated[
        str | float | None,
        about_risk(
            reader="floor",
            example="25%",
            help="Least share of the speed that is rented on demand, such as 25%.",
        ),
    ]
    mixed: Annotated[
        bool,
        about_machines(
            fields=("uniform",),
            reader="mixed",
            help="Allow unlike machines: only software that divides a step by speed gains.",
            more="Where NCCL or Gloo averages, all workers are machines of one kind otherwise.",
            default="no",
        ),
    ]
    supply: Annotated[
        str | int,
        about_machines(
            reader="supply",
            metavar="N|any",
            example="32",
            help="Most spot machines of one type in a place, where no quota and no capacity table "
            "says it; any: no limit.",
            more="Public data never show more than 16 to launch together (assumed of all clouds).",
            default="16",
        ),
    ]
    require_measured: Annotated[
        bool, about_machines(help="Leave out GPUs that nobody measured this model on.")
    ]
    max_price_age: Annotated[
        str | None,
        about_machines(
            fields=("oldest_price",),
            reader="oldest_price",
            metavar="DAYS",
            example="30d",
            help="Leave out machines whose price is older, such as 30d.",
        ),
    ]


def _rows() -> Iterator[Wish]:
    for name, row in Wishes.__annotations__.items():
        hint, wish = get_args(row)
        fields = tuple(name if field == SAME else field for field in wish.fields)
        reader = wish.reader or USUAL_READERS[hint]
        may_go = wish.default is None and NoneType in get_args(hint)
        yield replace(
            wish,
            name=name,
            hint=hint,
            reader=reader,
            fields=fields,
            flag=wish.flag or f"--{name.replace('_', '-')}",
            keys=fields if wish.keys == (SAME,) else wish.keys,
            metavar=wish.metavar or METAVARS.get(reader, ""),
            removable=may_go if wish.removable is None else wish.removable,
        )


WISHES: Mapping[str, Wish] = {wish.name: wish for wish in _rows()}
"""Every wish by its name in Python."""
TRAINING: Mapping[str, Wish] = {name: WISHES[name] for name in TrainingWishes.__annotations__}
"""The wishes that say what is trained and how."""
INSIDE: Mapping[str, str] = {
    wish.word: wish.fields[0] for wish in WISHES.values() if wish.group == "inside a worker"
}
"""Wishes that fix a part of the plan inside a worker, and their fields."""
CHANGES: Mapping[str, Wish] = {wish.word: wish for wish in WISHES.values() if wish.changes}
"""Wishes that a changed world may have, by their name on the command line."""

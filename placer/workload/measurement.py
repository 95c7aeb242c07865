"""What `placer profile` measured on one device: seconds by phase, samples/s with an interval,
memory, by batch size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from placer.errors import PlacerError, unknown
from placer.files.json_text import misfit
from placer.records import Amount, Count, Natural, Positive, Share, one_of

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
"""Precisions of a training step: plain, TensorFloat-32 products, and autocast to two halves."""

EXAMPLE = "see profiles/roberta-xlm.json"
LARGEST = 10**18
"""Figures above are slips of the keyboard."""
LARGEST_RATE = 10**15
"""Samples/s, as for rates: a measurement that is read can become a rate."""
WORDS = ("gpu", "device", "device_name", "torch", "date", "command", "driver", "failure")
MAY_BE_EMPTY = ("command", "driver", "failure")
SHARES = {"confidence", "loading_share"}
_COUNTS = ("batch_size", "accumulation", "steps", "threads", "failed_batch_size")
_FIGURES = ("device_memory_bytes", "host_memory_bytes", "fraction_of_peak", "clock_mhz")
LEAST = {
    **dict.fromkeys((*_COUNTS, "knee_batch_size", "largest_batch_size"), 1),
    **dict.fromkeys((*_FIGURES, "memory_clock_mhz", "flops_per_sample"), 0),
    "loading_seconds_per_sample": 0,
}
"""Least figure of each field that has one."""


class Seconds(Struct, frozen=True, kw_only=True):
    """Seconds of one phase of a step: median and quartiles over steps."""

    median: Amount
    low: Amount
    high: Amount

    def __post_init__(self) -> None:
        """Refuse quartiles out of order."""
        if not 0 <= self.low <= self.median <= self.high:
            raise PlacerError(
                f"seconds are {self.low} .. {self.median} .. {self.high}",
                "0 <= low <= median <= high",
            )


class Point(Struct, frozen=True, kw_only=True):
    """One batch size on one device in one precision.

    batch_size: Samples that the device takes at once.
    accumulation: Batches of that size for one optimizer step.
    step, forward, backward, optimizer: Seconds of an optimizer step and of its phases; phases are
        None where only whole steps can be timed.
    samples_per_second, low, high, confidence: From the median of blocks of steps, with an interval
        that covers it with this probability.
    steps: Steps measured, warm-up apart.
    device_memory_bytes, host_memory_bytes: Most memory during the steps: allocated on the device
        (None on a CPU), resident on the host (None where unknown).
    fraction_of_peak: FLOP/s reached over the data sheet's; None where one of them is unknown.
    partial: Interrupted before the interval was as narrow as asked for.
    """

    batch_size: Natural
    accumulation: Natural
    step: Seconds
    forward: Seconds | None
    backward: Seconds | None
    optimizer: Seconds | None
    samples_per_second: Positive
    low: Positive
    high: Positive
    confidence: Share
    steps: Natural
    device_memory_bytes: Count | None
    host_memory_bytes: Count | None
    fraction_of_peak: Positive | None
    partial: bool

    def __post_init__(self) -> None:
        """Refuse rates that are not positive and ordered."""
        if not 0 < self.low <= self.samples_per_second <= self.high <= LARGEST_RATE:
            interval = f"{self.low} .. {self.samples_per_second} .. {self.high}"
            raise PlacerError(
                f"batch size {self.batch_size}: samples/s are {interval}",
                "0 < low <= samples_per_second <= high",
            )
        _check_sizes(f"batch size {self.batch_size}", self)

    @property
    def half_width(self) -> float:
        """Half the interval of samples/s, as a share of its value."""
        return (self.high - self.low) / 2 / self.samples_per_second


class Measurement(Struct, frozen=True, kw_only=True):
    """One device in one precision: what was measured, with what, when.

    gpu: Name of the device as in rates: one of the catalog, or its own.
    device, device_name: As PyTorch calls them: ``cuda:0``, ``NVIDIA A10``.
    driver, clock_mhz, memory_clock_mhz: Where they can be read.
    threads: Threads of PyTorch on a CPU.
    precision: One of `PRECISIONS`.
    torch, date, command: Version of PyTorch, day in ISO format, and the command.
    points: Batch sizes, smallest first; steps of several batches last.
    knee_batch_size: Smallest batch size within 5 % of the most samples/s.
    largest_batch_size, failed_batch_size, failure: Largest that was seen to fit, the smallest that
        did not, and what went wrong there.
    flops_per_sample: Floating-point operations of forward and backward pass, as PyTorch counts
        them: matrix products and convolutions.
    loading_seconds_per_sample, loading_share: Time to get a sample from the dataset, and its share
        of a step that waits for it; None without a dataset.
    partial: Stopped before the end: by Ctrl-C, or because the measured code failed.
    """

    gpu: str
    device: str
    device_name: str
    driver: str | None
    clock_mhz: Positive | None
    memory_clock_mhz: Positive | None
    threads: Natural
    precision: Annotated[str, one_of(*PRECISIONS)]
    torch: str
    date: str
    command: str
    points: Annotated[tuple[Point, ...], Meta(min_length=1)]
    knee_batch_size: Natural
    largest_batch_size: Natural
    failed_batch_size: Natural | None
    failure: str | None
    flops_per_sample: Positive | None
    loading_seconds_per_sample: Amount | None
    loading_share: Share | None
    partial: bool

    def __post_init__(self) -> None:
        """Refuse measurements without a point or of an unknown precision."""
        if self.precision not in PRECISIONS:
            raise unknown("precision", self.precision, PRECISIONS)
        where = f"measurement on {self.gpu}"
        for name in WORDS:
            text = getattr(self, name) or ""
            if not text.isprintable() or not (text or name in MAY_BE_EMPTY):
                raise PlacerError(
                    f"measurement: {name} is {ascii(text)[:60]}", "give printable text"
                )
        _check_sizes(where, self)
        if not self.points:
            raise PlacerError(
                f"measurement on {self.gpu} in {self.precision} has no points", "measure it again"
            )
        if self.knee_batch_size not in {point.batch_size for point in self.points}:
            raise PlacerError(
                f"measurement on {self.gpu}: knee_batch_size {self.knee_batch_size} was not "
                f"measured",
                "measure it again",
            )

    @property
    def best(self) -> Point:
        """The point that stands for the device: the knee with most accumulation."""
        return max(
            (p for p in self.points if p.batch_size == self.knee_batch_size),
            key=lambda p: p.accumulation,
        )


def _check_sizes(where: str, row: Point | Measurement) -> None:
    """Refuse figures that nothing could have measured; None is unknown."""
    for name in SHARES & set(row.__struct_fields__):
        if not 0 <= (getattr(row, name) or 0) <= 1:
            raise PlacerError(
                f"{where}: {name} is {getattr(row, name)}", "give a share from 0 to 1"
            )
    for name, least in LEAST.items():
        value = getattr(row, name, None)
        if value is not None and not least <= value <= LARGEST:
            raise PlacerError(f"{where}: {name} is {str(value)[:24]}", "measure it again")


def check_measurements(rows: Any, where: str) -> None:
    """Check a list of measurements; a `PlacerError` names the measurement and the point."""
    if not isinstance(rows, list):
        raise PlacerError(f"{where}: measurements is not a list", "write it with placer profile")
    for i, row in enumerate(rows):
        at = f"{where}: measurements[{i}]"
        points = row.get("points") if isinstance(row, dict) else None
        for j, point in enumerate(points if isinstance(points, list) else []):
            build(Point, point, f"{at}.points[{j}]")
        build(Measurement, row, at)


def build(kind: type[msgspec.Struct], raw: Any, where: str, hint: str = EXAMPLE) -> Any:
    """Convert a JSON object to a record; ``where`` names it in each `PlacerError`."""
    fields = msgspec.structs.fields(kind)
    optional = [field.name for field in fields if not field.required]
    check_keys(raw, [field.name for field in fields if field.required], where, hint, optional)
    try:
        return msgspec.convert(msgspec.to_builtins(raw), kind)
    except PlacerError as error:
        raise PlacerError(f"{where}: {error.message}", error.hint) from None
    except (msgspec.ValidationError, OverflowError) as error:
        raise PlacerError(f"{where}: {misfit(error, raw)}", hint) from None


def check_keys(
    row: Any, required: Iterable[str], where: str, hint: str, optional: Iterable[str] = ()
) -> None:
    """Refuse what is no object, and keys that are unknown or missing."""
    if not isinstance(row, Mapping):
        raise PlacerError(f"{where}: not an object", hint)
    required = list(required)
    for key in row:
        if key not in (names := [*required, *optional]):
            error = unknown("key", str(key), names)
            raise PlacerError(f"{where}: {error.message}", error.hint)
    missing = sorted(name for name in required if name not in row)
    if missing:
        raise PlacerError(f"{where}: '{missing[0]}' is missing", hint)

"""What one model needs and how fast each device runs it, with the basis of every figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.market.books.folders import shipped_folder
from placer.market.catalog import Catalog, Gpu
from placer.records import Natural, Positive, one_of, replace
from placer.workload.architecture import Architecture
from placer.workload.measurement import EXAMPLE, Measurement, build, check_measurements

SCHEMA = "placer.profile/v1"
LARGEST = 10**15
"""Sizes above are slips of the keyboard."""
SIZES = (
    *("parameters", "gradient_bytes_fp32", "device_memory_bytes", "host_memory_bytes"),
    *("target_batch_size", "microbatch", "tensors"),
)
LONGEST_SAMPLE = 40
"""Characters of what one sample is: it has a line with other words, and a column."""
SPARSE_CHUNK, SPARSE_KEPT, SPARSE_BITS = 4_096, 64, 14
"""Of each chunk of values, sparse sends those of the largest magnitude: 12 bits of place in the
chunk and 2 of value each, as in Covenant-72B (arXiv 2603.08163), 146 times less than FP32.
"""
COMPRESSION_BYTES = {
    "none": 4.0,
    "fp16": 2.0,
    "int8": 1.0,
    "int4": 0.5,
    "sparse": SPARSE_KEPT * SPARSE_BITS / 8 / SPARSE_CHUNK,
}
"""Bytes per gradient element on the wire, without the scales of a message."""


def fp32_bytes(wire_bytes: float, compression: str) -> float:
    """Return the bytes of a gradient before it was compressed to some bytes on the wire."""
    return wire_bytes * COMPRESSION_BYTES["none"] / COMPRESSION_BYTES[compression]


FEEDBACK_COMPRESSIONS = ("int4", "sparse")
"""Compressions so coarse that what they lose must be added to the next message."""
NODE_EFFICIENCY = {"hivemind": (0.9, 0.4, 1.0), "nccl": (0.96, 0.82, 1.0), "gloo": (0.9, 0.4, 1.0)}
"""Speed-up per device of an unmeasured node with several GPUs by transport: value, low, high.

hivemind: assumed for accumulation with one exchange per optimizer step; low is assumed, below the
0.64 of Erben et al. (2024) for ConvNeXt on 4 x T4 under DDP, which exchanges every microbatch.
nccl: median, lowest of 35 public pairs of 1 and 8 GPUs (NVIDIA DeepLearningExamples, Lambda). gloo:
assumed as hivemind's.
"""
GROUP_EFFICIENCY = {"nccl": (0.99, 0.93, 1.0), "gloo": (0.97, 0.9, 1.0)}
"""Speed of a machine that exchanges with others over that of the machine alone, where no figure of
the model is known. nccl: median and tenth percentile of 62 public pairs of machine counts (MosaicML
llm-foundry, tokens/s per GPU over the smallest count); gloo: assumed.
"""
DEVICE_ESTIMATE_SPREAD = (0.5, 1.6)
"""An unmeasured GPU is expected between these multiples of its estimate."""
BASES = ("measured", "published", "estimated", "assumed")


PositiveShare = Annotated[float, Meta(gt=0, le=1)]


class Rate(Struct, frozen=True, kw_only=True):
    """Samples per second of one machine, with an interval and where it comes from."""

    gpu: str
    gpu_count: Natural
    framework: str
    value: Positive
    low: Positive
    high: Positive
    basis: Annotated[str, one_of(*BASES)]
    source: str

    def __post_init__(self) -> None:
        """Refuse rates that are not positive and ordered."""
        if not 0 < self.low <= self.value <= self.high <= LARGEST or self.gpu_count < 1:
            raise PlacerError(
                f"rate of {self.gpu} is {self.low} .. {self.value} .. {self.high}",
                "0 < low <= value <= high samples/s",
            )
        if self.basis not in BASES:
            raise unknown("basis", self.basis, BASES)


class Efficiency(Struct, frozen=True, kw_only=True):
    """Local rate under a framework over the rate of the same device alone."""

    framework: str
    value: PositiveShare
    low: PositiveShare
    high: PositiveShare
    basis: Annotated[str, one_of(*BASES)]
    source: str

    def __post_init__(self) -> None:
        """Refuse shares outside (0, 1]."""
        if not 0 < self.low <= self.value <= self.high <= 1:
            raise PlacerError(
                f"efficiency {self.low} .. {self.value} .. {self.high} of {self.framework}",
                "0 < low <= value <= high <= 1",
            )


class OutOfMemory(Struct, frozen=True, kw_only=True):
    """Machine on which somebody saw the model run out of memory, by device and number of them."""

    gpu: str
    gpu_count: Natural
    source: str


class ModelProfile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model: sizes in bytes, memory of one device and of its host, rates by device, and what
    they were measured from. A model with an ``architecture`` needs no rates: its speed and memory
    follow from its dimensions; its samples are sequences. ``out_of_memory`` names machines on which
    it failed. ``sample`` says what one sample is (``16 tokens``), ``sample_source`` on which basis.
    """

    name: str
    title: str
    family: str
    parameters: Natural
    tensors: Natural | None
    gradient_bytes_fp32: Natural
    gradient_source: str
    device_memory_bytes: Natural
    host_memory_bytes: Natural
    memory_source: str
    bytes_per_sample: Natural | None
    bytes_per_sample_source: str | None
    target_batch_size: Natural
    microbatch: Natural
    compression: Annotated[str, one_of(*COMPRESSION_BYTES)]
    efficiency: tuple[Efficiency, ...]
    rates: tuple[Rate, ...]
    measurements: tuple[Measurement, ...] = ()
    architecture: Architecture | None = None
    out_of_memory: tuple[OutOfMemory, ...] = ()
    sample: str | None = None
    sample_source: str | None = None

    def __post_init__(self) -> None:
        """Refuse sizes that are not positive, and samples that cannot be."""
        if not self.name.strip() or not f"{self.name}{self.title}{self.family}".isprintable():
            words = f"profile {self.name!r}: name, title and family must be printable"
            raise PlacerError(words, "correct the file")
        if (fault := next(self._faults(), None)) is not None:
            raise PlacerError(f"profile {self.name}: {fault[0]}", fault[1])
        if self.compression not in COMPRESSION_BYTES:
            raise unknown("compression", self.compression, COMPRESSION_BYTES)

    def _faults(self) -> Iterator[tuple[str, str]]:
        """Yield what cannot be, with what to do."""
        for name in SIZES:
            value, null = getattr(self, name), ", or null" if name == "tensors" else ""
            if not (null and value is None) and not 0 < value <= LARGEST:
                yield f"{name} is {str(value)[:24]}", f"give a whole number above 0{null}"
        yield from self._sample_faults(self.sample)
        kinds = [(rate.gpu, rate.gpu_count, rate.framework) for rate in self.rates]
        for gpu, count, under in kinds:
            if kinds.count((gpu, count, under)) > 1:
                yield f"two rates for {count} x {gpu} under {under}", "keep one"
        measured = [(m.gpu, m.device_name, m.precision) for m in self.measurements]
        if len(set(measured)) < len(measured):
            yield "two measurements of one device in one precision", "keep one"
        if not self.rates and self.architecture is None:
            yield "has no rates", "measure one device with placer profile, or add a published rate"

    def _sample_faults(self, sample: str | None) -> Iterator[tuple[str, str]]:
        if sample is None:
            return
        if not (sample.strip() and sample.isprintable() and len(sample) <= LONGEST_SAMPLE):
            hint = f"give at most {LONGEST_SAMPLE} characters, such as '16 tokens'"
            yield f"sample is {sample[:24]!r}", hint
        if not self.sample_source:
            yield "sample has no sample_source", "say where its size is from"
        if self.architecture is not None:
            yield "sample beside an architecture, whose samples are sequences", "leave it out"

    @property
    def sample_size(self) -> str | None:
        """Return what one sample is: ``16 tokens``; None if nobody stated it."""
        if self.architecture is not None:
            return f"a sequence of {self.architecture.sequence_length:,} tokens"
        return self.sample

    @property
    def sample_words(self) -> str:
        """Say what one sample is, for people."""
        size = self.sample_size
        return "size of a sample not stated" if size is None else f"1 sample = {size}"

    def ran_out_of_memory(self, gpu: str, gpu_count: int) -> OutOfMemory | None:
        """Return the known failure that rules a machine out, None if there is none: each device of
        a node keeps a full replica, so more of them do not help.
        """
        fewer = (row for row in self.out_of_memory if row.gpu_count <= gpu_count)
        return next((row for row in fewer if row.gpu == gpu), None)

    def gradient_bytes(self, compression: str) -> float:
        """Return the bytes of one gradient on the wire, S in the formulas."""
        return self.gradient_bytes_fp32 * COMPRESSION_BYTES[compression] / COMPRESSION_BYTES["none"]

    def rate(
        self,
        gpu: Gpu,
        gpu_count: int,
        framework: str,
        catalog: Catalog,
        node: tuple[float, float, float] = NODE_EFFICIENCY["hivemind"],
    ) -> Rate | None:
        """Return the speed of one machine while it computes, in samples per second. The measured or
        published rate if there is one; else baseline times framework efficiency; else an estimate
        from another device. None if no device of the same kind was measured. Erben et al. (2024):
        the efficiency is a property of framework and model, nearly constant in batch size and
        device.

        ``framework`` is ``none`` for a machine alone, else that whose accumulation slows it.
        ``catalog`` gives the data-sheet figures from which unmeasured devices are estimated.
        ``node`` is the speed-up per device of an unmeasured node with several: value, low, high.
        """
        for row in self.rates:
            if (row.gpu, row.gpu_count, row.framework) == (gpu.gpu, gpu_count, framework):
                return row
        if framework != "none":
            alone = self.rate(gpu, gpu_count, "none", catalog, node)
            return None if alone is None else self.slowed(alone, framework)
        return self._estimated(gpu, gpu_count, catalog, node)

    def slowed(self, alone: Rate, framework: str) -> Rate:
        """Return the speed beside an exchange by a framework, from that of the machine alone."""
        share = self._efficiency(framework)
        return replace(
            alone,
            framework=framework,
            value=alone.value * share.value,
            low=alone.low * share.low,
            high=alone.high * share.high,
            basis="assumed" if share.basis == "assumed" else "estimated",
            source=f"{share.value:g} ({framework}) x {alone.basis} rate: {alone.source}",
        )

    def _efficiency(self, framework: str) -> Efficiency:
        for row in self.efficiency:
            if row.framework == framework:
                return row
        value, low, high = GROUP_EFFICIENCY.get(framework, (1.0, 0.8, 1.0))
        return Efficiency(
            framework=framework,
            value=value,
            low=low,
            high=high,
            basis="assumed",
            source=f"no figure for {framework}: taken as {value:g}",
        )

    def _estimated(
        self, gpu: Gpu, gpu_count: int, catalog: Catalog, node: tuple[float, float, float]
    ) -> Rate | None:
        """Scale the most similar measured device by `device_ratio`."""
        kin = {name for name, known in catalog.gpus.items() if known.kind == gpu.kind}
        alone = [r for r in self.rates if r.gpu_count == 1 and r.framework == "none"]
        measured = [r for r in alone if r.gpu in kin]
        if not measured:
            return None
        nearest = min(
            measured, key=lambda r: (abs(math.log(device_ratio(gpu, catalog.gpus[r.gpu]))), r.gpu)
        )
        ratio = device_ratio(gpu, catalog.gpus[nearest.gpu])
        low, high = (1.0, 1.0) if nearest.gpu == gpu.gpu else DEVICE_ESTIMATE_SPREAD
        one = Rate(
            gpu=gpu.gpu,
            gpu_count=1,
            framework="none",
            value=nearest.value * ratio,
            low=nearest.low * ratio * low,
            high=nearest.high * ratio * high,
            basis="estimated",
            source=f"{ratio:.2f} x the {nearest.gpu} rate (data-sheet FLOP/s and bandwidth)",
        )
        return one if gpu_count == 1 else self._node(one, gpu_count, node)

    def _node(self, one: Rate, gpu_count: int, efficiency: tuple[float, float, float]) -> Rate:
        """Scale a known node of the same device, else one device by an efficiency."""
        nodes = [
            r for r in self.rates if r.gpu == one.gpu and r.gpu_count > 1 and r.framework == "none"
        ]
        node, node_low, node_high = efficiency
        value, low = one.value * gpu_count * node, one.low * gpu_count * node_low
        source = f"{gpu_count} x {node:g} x {one.source}"
        if nodes:
            known = min(nodes, key=lambda r: (abs(math.log(r.gpu_count / gpu_count)), r.gpu_count))
            share = gpu_count / known.gpu_count
            value = min(value, max(one.value, known.value * share))
            low = min(low, known.low * share)
            source = (
                f"in proportion to the {known.basis} node of {known.gpu_count} x {known.gpu}, "
                f"not below one device"
            )
        return replace(
            one,
            gpu_count=gpu_count,
            value=value,
            low=low,
            high=one.high * gpu_count * node_high,
            source=source,
        )


def device_ratio(device: Gpu, reference: Gpu) -> float:
    """Return the expected speed of a device over a reference: geometric mean of FP16 FLOP/s and
    memory bandwidth ratios.
    """
    return math.sqrt(
        device.fp16_tflops
        / reference.fp16_tflops
        * device.memory_gb_per_s
        / reference.memory_gb_per_s
    )


def shipped_profiles() -> Path:
    """Return the folder of the profiles that come with placer, installed or in a checkout."""
    return shipped_folder("profiles")


def profile_names() -> list[str]:
    """Return the names of the shipped models, sorted."""
    return sorted(path.stem for path in shipped_profiles().glob("*.json"))


def load_profile(name: str) -> ModelProfile:
    """Read a model profile by name or from a JSON file; `PlacerError` if it is none."""
    if not isinstance(name, str):
        raise PlacerError(f"model {name!r} is not a name", "give text")
    is_file = name.endswith((".json", *OF_SOFTWARE)) or "/" in name
    path = Path(name) if is_file else shipped_profiles() / f"{name}.json"
    try:
        data = bounded(path, "give the profile of a model, not its weights")
    except (OSError, ValueError):
        if is_file:
            raise PlacerError(
                f"no profile file '{name}' can be read",
                "check the path, or give a model name (placer models)",
            ) from None
        raise unknown("model", name, profile_names()) from None
    if name.endswith(OF_SOFTWARE):
        words = f"'{name}' is no profile but, it seems, a configuration of what trains"
        raise PlacerError(words, f"ask what it trains: placer recommend -f {name}")
    return profile_from_json(data, str(path))


OF_SOFTWARE = (".yaml", ".yml", ".toml")
"""Endings of configurations of training software."""


def profile_from_json(data: bytes, where: str) -> ModelProfile:
    """Check and convert the JSON text of a profile; ``where`` names it in errors."""
    try:
        raw = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{where}: not valid JSON: {error}", "correct the file") from None
    if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
        raise PlacerError(f"{where}: not a {SCHEMA} file", f'its "schema" must be "{SCHEMA}"')
    kinds = (("rates", Rate), ("efficiency", Efficiency), ("out_of_memory", OutOfMemory))
    for key, kind in kinds:
        rows = raw.get(key, [])
        if not isinstance(rows, list):
            raise PlacerError(f"{where}: {key} is not a list", EXAMPLE)
        for i, row in enumerate(rows):
            build(kind, row, f"{where}: {key}[{i}]")
    check_measurements(raw.get("measurements", []), where)
    built = build(ModelProfile, raw, where)
    assert isinstance(built, ModelProfile)
    return built


def profile_document(profile: ModelProfile, *, measurements: bool = True) -> dict[str, Any]:
    """Build the JSON document of a profile, without the key ``schema``.

    measurements: Keep them, if there are any. Problems and manifests leave them out: nothing is
        priced from them.
    """
    built: dict[str, Any] = to_builtins(profile)
    if not measurements:
        built.pop("measurements", None)
    if profile.sample is None:
        built.pop("sample_source", None)
    return built

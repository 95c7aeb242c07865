"""Estimated against public training speeds of CNNs and transformers: RTX 3090, V100 and H100.

python tests/benchmarks/public_speeds.py FOLDER             errors by kind and by file
python tests/benchmarks/public_speeds.py FOLDER --fit       constants that fit, families left out
python tests/benchmarks/public_speeds.py FOLDER --every 20  one model in 20, for a quick look

FOLDER holds timm_train_rtx3090.csv, nvidia_v100.csv and lambda_h100.csv. Models are counted by
placer on the meta device; timm builds those that are its own: pip install timm==0.6.13 torchvision.
Counting all takes half an hour; --works FILE keeps what was counted and reads it again.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from placer.records import replace

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from estimator_fit import EXPECTED, Point, estimated_rate, fit  # noqa: E402
from reference_models import Bert, bert  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.market.books.book_reader import load_catalog  # noqa: E402
from placer.profiler.devices import Device, device_of  # noqa: E402
from placer.profiler.estimate.counting import count_work  # noqa: E402
from placer.profiler.estimate.throughput import Constants, Work, constants, spread  # noqa: E402
from placer.profiler.workload import Workload  # noqa: E402
from placer.workload.profile import Rate  # noqa: E402

RTX_3090 = Device(
    gpu="RTX3090",
    generation="ampere",
    peak_flops={"fp32": 35.6e12, "tf32": 35.6e12, "fp16": 71e12, "bf16": 71e12},
    memory_bytes=24e9,
    memory_bytes_per_second=936e9,
    source="NVIDIA Ampere GA102 white paper: FP16 with FP32 accumulation, dense; 936 GB/s",
    as_of="2020-09-01",
)
DEVICES = {"v100_16gb": "V100", "v100_32gb": "V100-32"}
DEVICES |= {"H100_80GB_PCIe": "H100-PCIe", "H100_80GB_SXM5": "H100"}
NOT_JUDGED = {
    "gnmt": "recurrent, batch and lengths not published",
    "ssd": "detector whose loss looks at values, batch not published",
}
FOLDS = 10
TIMM_NAMES = {
    "resnet50": "resnet50",
    "resnext101-32x4d": "resnext101_32x4d",
    "se-resnext101-32x4d": "seresnext101_32x4d",
}
BATCHES = {
    ("resnet50", True): 256,
    ("resnet50", False): 128,
    ("resnext101-32x4d", True): 128,
    ("resnext101-32x4d", False): 64,
    ("se-resnext101-32x4d", True): 128,
    ("se-resnext101-32x4d", False): 64,
    ("bert_base_squad", True): 64,
    ("bert_base_squad", False): 32,
    ("bert_large_squad", True): 32,
    ("bert_large_squad", False): 16,
}
"""Images or texts a step where the source names none, in half precision and not: assumed."""
SGD_BYTES, SGD_KERNELS = 44, 4
"""Of a parameter, and of a tensor: weight decay, momentum and the step, a kernel each."""
ADAM_BYTES, ADAM_KERNELS = 32, 0.02
"""All tensors in a few kernels (apex): weight, gradient and both moments, in FP32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of the files, as far as it matters."""

    file: str
    model: str
    device: Device
    precision: str
    channels_last: bool
    batch: int
    pixels: int
    tokens: int
    optimizer: bool
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A public rate with its kind."""

    row: Row
    kind: str
    point: Point


def main() -> None:
    """Read the words and do it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true", help="fit the constants to these rows")
    parser.add_argument("--every", type=int, default=1, help="one model in so many")
    parser.add_argument("--works", type=Path, help="file that keeps what was counted")
    options = parser.parse_args()
    rows, left = read(options.folder)
    names = sorted({r.model for r in rows if r.device is RTX_3090})[:: options.every]
    rows = [r for r in rows if r.device is not RTX_3090 or r.model in names]
    judged = list(judge(rows, left, options.works))
    print("\n".join(table("with the shipped constants", judged, constants())))
    for name, reason in sorted(left.items()):
        print(f"not judged: {name}: {reason}")
    if options.fit:
        print("\n".join(fitted(judged)))


def read(folder: Path) -> tuple[list[Row], dict[str, str]]:
    """Read the rows of one device, and the reasons for those that are left out."""
    catalog, left = load_catalog("default"), dict[str, str]()
    rows = []
    for file in ("timm_train_rtx3090.csv", "nvidia_v100.csv", "lambda_h100.csv"):
        with (folder / file).open(encoding="utf-8", newline="") as handle:
            for raw in csv.DictReader(handle):
                if raw["n_gpus"] != "1":
                    continue
                if raw["model"] in NOT_JUDGED:
                    left[f"{file} {raw['model']}"] = NOT_JUDGED[raw["model"]]
                    continue
                timm = raw["gpu"] == "rtx3090"
                device = RTX_3090 if timm else device_of(catalog.gpus[DEVICES[raw["gpu"]]])
                rows.append(_row(file, raw, device))
    return rows, left


def _row(file: str, raw: dict[str, str], device: Device) -> Row:
    half = "fp16" in raw["precision"]
    full = "tf32" if device.generation == "hopper" else "fp32"  # NVIDIA's containers set it so
    model, note = raw["model"], raw["note"]
    accumulated = re.search(r"batch (\d+) and (\d+), accumulation (\d+) and (\d+)", note)
    if accumulated:
        whole, whole_half, steps, steps_half = map(int, accumulated.groups())
        batch = whole_half // steps_half if half else whole // steps
    else:
        batch = int(raw["batch"] or BATCHES[(model, half)])
    pixels = re.search(r"image (\d+)", note)
    return Row(
        file=file,
        model=model,
        device=device,
        precision="fp16" if half else full,
        channels_last="nhwc" in raw["precision"] or (half and device is not RTX_3090),
        batch=batch,
        pixels=int(pixels[1]) if pixels else 224,
        tokens=int(raw["seq_len"] or 384),
        optimizer=not accumulated,
        value=float(raw["value"]),
    )


def judge(rows: Sequence[Row], left: dict[str, str], kept: Path | None) -> Iterator[Judged]:
    """Count each row's model; those that cannot be counted are named in `left`."""
    works = json.loads(kept.read_text(encoding="utf-8")) if kept and kept.exists() else {}
    for row in rows:
        half = row.precision == "fp16"
        key = f"{row.model} {row.batch} {row.pixels} {row.tokens} {half} {row.channels_last}"
        if key not in works:
            try:
                works[key] = measured(row)
            except ImportError:
                raise SystemExit(
                    "the models of timm are needed: pip install timm==0.6.13 torchvision"
                ) from None
            except (PlacerError, RuntimeError, TypeError, ValueError, AttributeError) as error:
                works[key] = {"error": str(error).splitlines()[0][:100]}
            if kept:
                kept.write_text(json.dumps(works), encoding="utf-8")
        if "error" in works[key]:
            left[f"{row.file} {row.model}"] = works[key]["error"]
            continue
        one = judged_row(row, works[key])
        peak, work = one.point.device.peak(row.precision), one.point.work
        if peak and row.value / row.batch * work.flops > peak:
            left[f"{row.file} {row.model} {row.tokens}"] = "faster than the peak of its device"
            continue
        yield one


def measured(row: Row) -> dict[str, Any]:
    """Count the work of a step, the elements and tensors of the parameters, and the kind."""
    build = bert_of(row) if "bert" in row.model else timm_of(row)
    parameters = list(build.module.parameters())
    work = count_work(build, row.batch, row.precision)
    return {
        "work": asdict(work),
        "elements": sum(p.numel() for p in parameters),
        "tensors": len(parameters),
        "kind": kind(work, build),
    }


def kind(work: Work, build: Workload) -> str:
    """Tell attention, depthwise and other convolutions in groups, and plain CNNs apart."""
    torch = _torch()
    modules = list(build.module.modules())
    convolutions = [m for m in modules if isinstance(m, torch.nn.Conv2d)]
    depthwise = any(1 < c.groups == c.in_channels for c in convolutions)
    attention = any("attention" in type(m).__name__.lower() for m in modules)
    if "bert" in build.name or attention or len(convolutions) < 3:
        return "attention"
    if depthwise:
        return "depthwise"
    return "grouped" if any(c.groups > 1 for c in convolutions) else "plain"


def judged_row(row: Row, found: dict[str, Any]) -> Judged:
    """Add the optimizer's step, which these rates include, and make a point of the fit."""
    work = Work(**found["work"])
    if row.optimizer:
        sgd = "bert" not in row.model
        moved = (SGD_BYTES if sgd else ADAM_BYTES) * found["elements"]
        kernels = (SGD_KERNELS if sgd else ADAM_KERNELS) * found["tensors"]
        work = replace(work, moved_bytes=work.moved_bytes + moved, kernels=work.kernels + kernels)
    rate = Rate(
        gpu=row.device.gpu, gpu_count=1, framework="none", value=row.value, low=row.value,
        high=row.value, basis="published", source=row.file,
    )  # fmt: skip
    family = "transformer" if found["kind"] == "attention" else "cnn"
    point = Point(
        model=row.model, family=family, work=work, device=row.device, rate=rate,
        precision=row.precision,
    )  # fmt: skip
    return Judged(row=row, kind=found["kind"], point=point)


def timm_of(row: Row) -> Workload:
    """Build a model of timm without drawing its weights; attention as PyTorch 1.12 ran it."""
    torch = _torch()
    import timm

    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    module = timm.create_model(TIMM_NAMES.get(row.model, row.model)).train()
    layout = torch.channels_last if row.channels_last else torch.contiguous_format
    size = (3, row.pixels, row.pixels)

    def batch(samples: int, device: Any) -> Any:
        images = torch.zeros(samples, *size, device=device).to(memory_format=layout)
        return images, torch.zeros(samples, dtype=torch.long, device=device)

    def loss(module: Any, batch: Any) -> Any:
        found = module(batch[0])
        found = found[0] if isinstance(found, (tuple, list)) else found
        return torch.nn.functional.cross_entropy(found, batch[1])

    return _workload(row.model, "cnn", module.to(memory_format=layout), batch, loss)


def bert_of(row: Row) -> Workload:
    """Build BERT as NVIDIA trained it: in FP16 all of the model, attention kernel by kernel."""
    torch = _torch()
    layers, width = (24, 1024) if "large" in row.model else (12, 768)
    hidden = 0.15 if "pretraining" in row.model else None
    with torch.device("meta"):
        module = bert(Bert(layers=layers, width=width, hidden=hidden))
    if row.precision == "fp16":
        module = module.half()

    def batch(samples: int, device: Any) -> Any:
        return torch.zeros(samples, row.tokens, dtype=torch.long, device=device)

    def loss(module: Any, batch: Any) -> Any:
        logits = module(batch)
        aims = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        return torch.nn.functional.cross_entropy(logits, aims)

    return _workload(row.model, "transformer", module, batch, loss)


def _workload(
    name: str, family: str, module: Any, batch: Callable[..., Any], loss: Callable[..., Any]
) -> Workload:
    torch = _torch()
    return Workload(
        name=name,
        title=name,
        family=family,
        module=module,
        batch=batch,
        loss=loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        source="tests/benchmarks/public_speeds.py",
    )


def _torch() -> Any:
    from placer.profiler.torch_import import load_torch

    return load_torch()


def error_of(point: Point, its: Constants) -> float:
    """Logarithm of the estimate over the rate."""
    return math.log(estimated_rate(point, its) / point.rate.value)


def table(title: str, judged: Iterable[Judged], its: Constants) -> list[str]:
    """Write median and 90th percentile of the factors, and the share inside the interval."""
    errors = [(j, error_of(j.point, its)) for j in judged]
    return lines_of(title, errors)


def lines_of(title: str, errors: Sequence[tuple[Judged, float]]) -> list[str]:
    """Write a table of errors by kind and by file."""
    groups: dict[str, list[tuple[Judged, float]]] = defaultdict(list)
    for j, error in errors:
        layout = " channels last" if j.row.channels_last else ""
        groups[f"1 {j.kind}"].append((j, error))
        groups[f"2 {j.row.file} {j.row.device.gpu}"].append((j, error))
        if j.row.device is RTX_3090:
            groups[f"3 RTX3090 {j.kind}{layout}"].append((j, error))
    lines = [title, f"{'':42s} rows  median   90 %  worst  inside"]
    for name, rows in sorted(groups.items()):
        sizes = sorted(abs(error) for _, error in rows)
        inside = sum(abs(error) <= math.log(_spread(j)) for j, error in rows) / len(rows)
        figures = [math.exp(_quantile(sizes, share)) for share in (0.5, 0.9, 1.0)]
        cells = "".join(f"{figure:7.3f}" for figure in figures)
        lines.append(f"{name[2:]:42s} {len(rows):4d} {cells}  {inside:5.0%}")
    return lines


def _spread(judged: Judged) -> float:
    """Return the factor of the shipped interval."""
    return spread(judged.point.family, judged.row.device.gpu, judged.point.precision)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def family_of(model: str) -> str:
    """Name the architecture of a model: weights of other sources are the same family."""
    bare = re.sub(r"^(tf|gluon|legacy|tv|swsl|ssl|ig|dm|eca|jx|adv|ens|cs3)_", "", model)
    return re.split(r"[_\-\d]", bare)[0]


def fitted(judged: Sequence[Judged]) -> list[str]:
    """Fit to all rows, and to all but a tenth of the families at a time."""
    whole = fit([j.point for j in judged], EXPECTED, own=False)
    families = sorted({family_of(j.row.model) for j in judged})
    errors = []
    for fold in range(FOLDS):
        out = set(families[fold::FOLDS])
        its = fit(
            [j.point for j in judged if family_of(j.row.model) not in out], EXPECTED, own=False
        )
        errors += [(j, error_of(j.point, its)) for j in judged if family_of(j.row.model) in out]
    lines = table("constants fitted to these rows", judged, whole)
    lines += lines_of(f"{len(families)} families, a tenth of them left out at a time", errors)
    return [*lines, json.dumps(asdict(whole), indent=2, default=dict)]


if __name__ == "__main__":
    main()

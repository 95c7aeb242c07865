"""Fit the throughput estimate of `placer profile --estimate` to published rates, and test it.

python tests/benchmarks/estimator.py            errors with each model left out
python tests/benchmarks/estimator.py --write    write the constants and docs/estimator.md
python tests/benchmarks/estimator.py --count    count the published models first (PyTorch)
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

from placer.records import replace

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from estimator_fit import (  # noqa: E402  # noqa: E402
    PRECISION,
    PUBLISHED,
    LeftOut,
    Point,
    estimated_rate,
    fit,
    leave_one_out,
    published_points,
    summary,
    with_spreads,
)

from placer.cli.output import write_json, write_text  # noqa: E402
from placer.market.books.book_reader import load_catalog  # noqa: E402
from placer.market.catalog import Catalog  # noqa: E402
from placer.profiler.estimate.throughput import CONSTANTS, COUNTED, Constants  # noqa: E402
from placer.workload.profile import ModelProfile, Rate, load_profile  # noqa: E402

AS_OF = "2026-11-21"
PAPER = "Erben et al. (PVLDB 17(6), 2024)"
PUBLIC = (
    "828 models of timm on an RTX 3090 (benchmark-train-amp, PyTorch 1.12), NVIDIA "
    "DeepLearningExamples on V100, Lambda on H100 (docs/estimator.md)"
)
PUBLIC_GPUS = {"RTX3090", "V100", "V100-32", "H100", "H100-PCIe"}
SAMPLES = 32
"""Samples that a step counts in the paper's logs."""
SOURCES = {
    "cnn": (
        f"placer on the meta device; architecture of torchvision, images of 224 x 224; 32 "
        f"images a step as in {PAPER}"
    ),
    "transformer": "placer on the meta device; architecture of the artifact; 1 sequence of 512 "
    "tokens a step that counts as 32 samples: "
    f"the training loop of {PAPER} (experiments/code/param/bee.py) computes the first of "
    f"32 sequences",
}


def main() -> None:
    """Read the words and do it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="write constants.json and docs/estimator.md"
    )
    parser.add_argument(
        "--count",
        action="store_true",
        help="count the published models anew and write published.csv",
    )
    options = parser.parse_args()
    if options.count:
        count_models()
    catalog = load_catalog("default")
    points = published_points(catalog)
    rows = leave_one_out(points, catalog)
    constants = with_spreads(fit(points), rows)
    text = report(rows, constants, catalog)
    print(text)
    if options.write:
        write_json(str(CONSTANTS), document(constants, points))
        write_text(str(ROOT / "docs" / "estimator.md"), text)


def count_models() -> None:
    """Write published.csv."""
    from reference_models import REFERENCE, reference

    from placer.profiler.estimate.counting import count_work

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "family", "samples", *COUNTED, "source", "as_of"])
    for name, (_, family, _) in REFERENCE.items():
        work = count_work(reference(name), SAMPLES if family == "cnn" else 1, PRECISION)
        figures = [round(getattr(work, field)) for field in COUNTED]
        writer.writerow([name, family, SAMPLES, *figures, SOURCES[family], AS_OF])
    write_text(str(PUBLISHED), out.getvalue())


def document(constants: Constants, points: tuple[Point, ...]) -> dict[str, Any]:
    """Build the document of the constants; four digits, more would be noise."""
    return {
        "schema": "placer.estimator/v1",
        "as_of": AS_OF,
        "command": "python tests/benchmarks/estimator.py --write",
        "source": (
            f"fitted to {len(points)} published rates of one device: {PAPER}, as in "
            f"profiles/*.json, FP16 autocast; around constants fitted to public training speeds: "
            f"{PUBLIC}"
        ),
        "families": {
            name: {
                "flop_efficiency": digits(f.flop_efficiency),
                "byte_efficiency": digits(f.byte_efficiency),
                "spread": digits(f.spread),
            }
            for name, f in constants.families.items()
        },
        "launch_seconds": digits(constants.launch_seconds),
        "grouped_flops_per_byte": digits(constants.grouped_flops_per_byte),
        "blocked_flops_per_byte": digits(constants.blocked_flops_per_byte),
        "relaying": digits(constants.relaying),
        "full_precision": digits(constants.full_precision),
        "generations": {name: digits(share) for name, share in constants.generations.items()},
        "other_device_spread": digits(constants.other_device_spread),
        "published_gpus": sorted({p.device.gpu for p in points} | PUBLIC_GPUS),
    }


def digits(value: float) -> float:
    """Four digits that count."""
    return float(f"{value:.4g}")


def report(rows: tuple[LeftOut, ...], constants: Constants, catalog: Catalog) -> str:
    """Write the tables in Markdown."""
    lines = ["# How far estimates of throughput are off", "", INTRODUCTION, ""]
    lines += [
        "| model | GPU | published samples/s | fitted | model never measured | family never "
        "measured "
        "| other device known | data sheet alone |"
    ]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        p = r.point
        fitted = estimated_rate(p, constants) / p.rate.value - 1
        cells = [
            p.model,
            p.device.gpu,
            f"{p.rate.value:,.1f}",
            *map(
                percent,
                (fitted, r.never_measured, r.family_never_measured, r.other_device, r.data_sheet),
            ),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Errors as factors less one (too fast and too slow alike):", ""]
    lines += ["| | rates | median | 90 % | worst |", "|---|---:|---:|---:|---:|"]
    for name, errors in groups(rows):
        got = summary(errors)
        if got is not None:
            lines.append(
                f"| {name} | {got.rates} | {got.median:.0%} | {got.p90:.0%} | {got.worst:.0%} |"
            )
    lines += [
        "",
        NODES,
        "",
        "| model | node | published samples/s | estimated | low to high | error |",
        "|---|---|---:|---:|---:|---:|",
    ]
    return (
        "\n".join([*lines, *nodes(constants, catalog), "", CONSTANTS_SAY, "", *table_of(constants)])
        + "\n"
    )


def groups(rows: tuple[LeftOut, ...]) -> list[tuple[str, list[float | None]]]:
    """Errors by what was left out and family."""
    found: list[tuple[str, list[float | None]]] = [
        (
            f"model never measured, {family}",
            [r.never_measured for r in rows if r.point.family == family],
        )
        for family in ("cnn", "transformer")
    ]
    found.append(("model never measured, all", [r.never_measured for r in rows]))
    found.append(("family never measured", [r.family_never_measured for r in rows]))
    for family in ("cnn", "transformer"):
        found.append(
            (
                f"other device of the model known, {family}",
                [r.other_device for r in rows if r.point.family == family],
            )
        )
        found.append(
            (
                f"the same by the data sheet alone (profile.py), {family}",
                [r.data_sheet for r in rows if r.point.family == family],
            )
        )
    found.append(("other device of the model known, all", [r.other_device for r in rows]))
    return [
        *found,
        ("the same by the data sheet alone (profile.py), all", [r.data_sheet for r in rows]),
    ]


def nodes(constants: Constants, catalog: Catalog) -> list[str]:
    """Published nodes of several GPUs against one estimated device times what profile.py takes for
    a node.
    """
    lines = []
    for p in published_points(catalog, nodes=True):
        value = estimated_rate(p, constants)
        spread = constants.family(p.family).spread
        one = Rate(
            gpu=p.device.gpu,
            gpu_count=1,
            framework="none",
            value=value,
            low=value / spread,
            high=value * spread,
            basis="estimated",
            source="-",
        )
        alone = with_rates(load_profile(p.model), one).rate(
            catalog.gpus[p.device.gpu], p.rate.gpu_count, "none", catalog
        )
        assert alone is not None
        cells = [
            p.model,
            f"{p.rate.gpu_count} x {p.device.gpu}",
            f"{p.rate.value:,.1f}",
            f"{alone.value:,.0f}",
            f"{alone.low:,.0f} to {alone.high:,.0f}",
        ]
        lines.append(f"| {' | '.join([*cells, percent(alone.value / p.rate.value - 1)])} |")
    return lines


def with_rates(profile: ModelProfile, *rates: Rate) -> ModelProfile:
    """Build the profile as if these were its only rates."""
    return replace(profile, rates=rates)


def percent(value: float | None) -> str:
    """Signed, or a dash."""
    return "-" if value is None else f"{value:+.0%}"


def table_of(constants: Constants) -> list[str]:
    """List the constants."""
    lines = ["| family | FLOP efficiency | byte efficiency | interval |", "|---|---:|---:|---:|"]
    lines += [
        f"| {n} | {f.flop_efficiency:.2f} | {f.byte_efficiency:.2f} | x / {f.spread:.2f} |"
        for n, f in constants.families.items()
    ]
    shares = ", ".join(f"{name} {share:.2f}" for name, share in constants.generations.items())
    grouped = (
        f"grouped convolutions do {constants.grouped_flops_per_byte:.1f} FLOPs in the time "
        f"of a byte"
    )
    lines += ["", f"A kernel launch takes {constants.launch_seconds * 1e6:.0f} us; {grouped};"]
    return [*lines, f"share of the data sheet by generation: {shares}, others 1."]


PUBLIC_ERRORS = """\
| | rows | median | 90 % | worst | inside |
|---|---:|---:|---:|---:|---:|
| plain CNNs | 416 | 1.08 | 1.20 | 1.91 | 97 % |
| CNNs with depthwise convolutions | 426 | 1.10 | 1.28 | 3.86 | 95 % |
| CNNs with grouped convolutions | 280 | 1.12 | 1.40 | 2.30 | 89 % |
| of these in channels last | 136 | 1.19 | 1.59 | 2.30 | 79 % |
| attention | 559 | 1.07 | 1.19 | 1.93 | 96 % |
| timm, RTX 3090 | 1,652 | 1.09 | 1.25 | 3.86 | 95 % |
| NVIDIA, V100 | 17 | 1.08 | 1.32 | 1.43 | 88 % |
| Lambda, H100 and H100 PCIe | 12 | 1.09 | 1.24 | 1.48 | 92 % |"""
INTRODUCTION = f"""\
Written by `python tests/benchmarks/estimator.py --write`. The published rates are those of
{PAPER} for one device without a framework, as in `profiles/*.json`; +10 % is 10 % too fast.
*Fitted*: the constants have seen the rate. *Model never measured*: they have seen no rate of this
model. *Family never measured*: none of its family. *Other device known*: the rate of the model's
most alike other device is known and scaled. *Data sheet alone*: the same by the square root of
the FLOP/s and bandwidth ratios, as `profile.py` does where a profile has no rate for a device.

Samples of the RoBERTa models: the training loop of the paper's artifact
(`experiments/code/param/bee.py`) hands the model `input_ids[0]`, one sequence of 512 tokens, and
counts 32 samples. 463.6 samples/s of 512 tokens each would be 832 TFLOP/s, seven times the peak
of an A10; one sequence a step makes 26. The constants are fitted to that: 1/32 of a sequence for
each published sample. An estimate for sequences of 512 tokens is therefore about 32 times below a
published rate.

FLOPs are counted on the meta device and agree with six times the multiply-adds that torchvision
documents within 1 % (2 % for ResNet-18: the first layer passes no gradient on). Bytes are those
that each kernel reads and writes under autocast, casts included. Counted apart are kernels of
products, which calculate while they read; convolutions in groups with and without tensor cores;
and activations of convolutions that are not channels last, which tensor cores want laid out anew.
Small tensors stay in the cache for the most part. `scaled_dot_product_attention` is one fused
kernel, unless fused kernels are switched off; the models here spell it out, as in 2022.

ResNet-18 waits for its data: the logs of its run give nearly half of a step to loading and
copying, which the estimate does not know. Whisper is left out: its step includes audio processing,
and the length of its texts was not published. Rates of other families (rnn, gnn) were not
published: they get the constants of all models, and the interval of a family that was never
measured.

## Where the constants come from

The script that `git show aa24cb9a:tests/benchmarks/public_speeds.py`
prints fitted the shared constants to public training speeds:
828 of the 838 models of timm's benchmark on an RTX 3090 (PyTorch 1.12, AMP, images NCHW and
NHWC: 1,652 rows), ResNet-50, ResNeXt-101, SE-ResNeXt-101 and BERT of NVIDIA's DeepLearningExamples
on V100 (17 rows), and ResNet-50 and BERT of Lambda's benchmark on H100 (12 rows). The rates of
Erben et al. then move the efficiencies of each family and Turing's share a little. Errors as
factors, each model estimated by constants that have seen none of its architecture (108
architectures, a tenth left out at a time):

{PUBLIC_ERRORS}

*Attention* are vision transformers, hybrids and BERT. *Grouped* are convolutions in groups of more
than one channel (ResNeXt, RegNet, NFNet): in channels last their speed depends on which groups the
library has kernels for, known here by rule alone. *Inside* is the share within the interval that
is shipped: x / 1.40 for cnn, 1.33 for transformer, 1.2 times wider at other precisions than FP16.
These rows include the optimizer's step, which is added to what a step moves; placer's own rates
leave it out. Not judged: ten of timm's models that need another package or have unknown names;
GNMT and SSD, whose batch or lengths were not published; BERT's FP32 rate for 512 tokens on V100,
which is above the peak of the device; nodes of several GPUs. Kernels of all models were recorded
once for this table; counting anew gives the same within 2 % on the 26 models that were compared,
but for XCiT, Swin v2 and EdgeNeXt (8 to 18 % fewer bytes). Batches of Lambda's and NVIDIA's CNNs
were not published either and are assumed (128 and 256 for ResNet-50).

FLOP efficiency is above 1 because GeForce cards run faster clocks than their data sheet says, and
because products are the smaller part of most steps. The peak of GeForce cards is the one with FP32
accumulation (71 TFLOP/s for the RTX 3090), which PyTorch uses.

The form of the formula was chosen on these same rows after about ten variants; its priors are
assumed. Intervals for GPUs of which no rate was published are 1.3 times wider.

## Each rate of Erben et al."""
NODES = """\
Nodes of several GPUs are no part of the fit: the artifact runs them by `nn.DataParallel`, which
copies the model in every step, and hands the language models a single sequence, so that one GPU
works. Estimated: one device, times 0.9 a device (0.4 to 1) as `profile.py` takes it."""
CONSTANTS_SAY = "The constants, shares of data-sheet figures:"

if __name__ == "__main__":
    main()

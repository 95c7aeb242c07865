"""Fit the throughput estimate of `placer profile --estimate` to published rates, and test it.

python tests/benchmarks/estimator.py            errors with each model left out
python tests/benchmarks/estimator.py --write    write the constants, and the tables of the page
python tests/benchmarks/estimator.py --count    count the published models first (PyTorch)
"""

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import Any

from placer.records import replace

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from estimator_fit import (  # noqa: E402
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

PAGE, TABLES = ROOT / "docs" / "estimator.md", "## Each rate of Erben et al."
"""The page, and the heading of its tables."""
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
        write_text(str(PAGE), text)


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
    """Write the page in Markdown: its words as they stand there, then the tables."""
    lines = [PAGE.read_text(encoding="utf-8").partition(TABLES)[0] + TABLES, ""]
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


NODES = """\
Nodes of several GPUs are no part of the fit: the artifact runs them by `nn.DataParallel`, which
copies the model in every step, and hands the language models a single sequence, so that one GPU
works. Estimated: one device, times 0.9 a device (0.4 to 1) as `profile.py` takes it."""
CONSTANTS_SAY = "The constants, shares of data-sheet figures:"

if __name__ == "__main__":
    main()

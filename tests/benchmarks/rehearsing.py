"""Measure how near rehearsals come to their prices.

    make rehearse

Ten plans: the exchange, bytes by link and requests. It takes about five minutes on a machine with
nothing else to do (Linux, root or user namespaces). Exit code 1 if a plan is not confirmed.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from rehearsed import EU, FOUR, LONDON, OREGON, STORES, US, by_hand, manifest_of

from placer.documents.manifest import read_manifest
from placer.launch.rehearsal.judgement import Line, confirmed, lines_of, verdict
from placer.launch.rehearsal.rehearsal import RehearsalOptions, rehearse

REGIONS = (US, EU, "gcp/asia-east1", "gcp/australia-southeast1")
HUBS: dict[str, Any] = {
    **STORES,
    "workers": f"{OREGON}=2xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
}
LOCAL: dict[str, Any] = {"local_steps": "16", "tbs": "2048", "compression": "int8"}
PLANS: dict[str, dict[str, Any]] = {
    "two regions, all-reduce": {"model": "roberta-xlm", "workers": FOUR},
    "four regions, all-reduce": {"workers": ",".join(f"{place}=2xT4:spot" for place in REGIONS)},
    "one zone, all-reduce": {"workers": f"{US}=4xT4:spot"},
    "parameter server": {"workers": FOUR, "exchange": "parameter-server", "aggregator": US},
    "stores of regions": {**HUBS, "exchange": "hierarchical"},
    "local SGD, 16 steps": {
        "model": "roberta-xlm",
        "workers": f"{US}=1xT4:spot,{EU}=2xT4:spot",
        "exchange": "local-sgd",
        "local_steps": "16",
        "tbs": "2048",
    },
    "a step late": {"workers": FOUR, "overlap": True},
    "DiLoCo, int8": {"workers": FOUR, "exchange": "diloco", **LOCAL},
    "Streaming DiLoCo, int8": {"workers": FOUR, "exchange": "streaming-diloco", **LOCAL},
    "ASGD-GA": {"workers": FOUR, "exchange": "asgd-ga", "local_steps": "4", "tbs": "2048"},
}
"""Words of each plan; links between regions are those of Erben et al. (2024), table 3."""


def worst(lines: list[Line], kind: str) -> str:
    """The largest difference of the lines of a kind that are judged."""
    off = [
        line.difference or 0.0 for line in lines if line.kind == kind and line.within is not None
    ]
    return f"{max(off, key=abs):+.1%}" if off else "-"


def main() -> None:
    """Rehearse all, print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each plan")
    parser.add_argument("--only", default="", help="plans whose name has this word")
    given = parser.parse_args()
    good = True
    click.echo("| plan | exchange priced, s | measured, s | bytes, worst | requests | verdict |")
    click.echo("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(name for name in PLANS if given.only in name):
            manifest = read_manifest(manifest_of(*by_hand(**PLANS[name])), name)
            wishes = RehearsalOptions(rounds=given.rounds)
            lines = lines_of(rehearse(manifest, name, wishes, Path(folder) / str(number)))
            exchange = next(line for line in lines if line.what == "exchange")
            figures = f"{exchange.predicted:.3f} | {exchange.measured:.3f}"
            others = f"{worst(lines, 'bytes')} | {worst(lines, 'requests')}"
            click.echo(f"| {name} | {figures} | {others} | {verdict(lines)} |")
            good = good and confirmed(lines)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

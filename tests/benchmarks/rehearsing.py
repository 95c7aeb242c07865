"""Measure how near rehearsals come to their predictions.

    make rehearse

Five plans: step time, bytes by link and requests. It takes about six minutes on a machine with
nothing else to do (Linux; links by namespaces as root or with user namespaces, else by relays).
Exit code 1 if a round is further off than 15 %, a link's bytes than 2 %, or a request is not as
predicted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from placer.cost_model.estimate import estimate
from placer.documents.manifest import build_manifest, read_manifest
from placer.interface.advisor import Advisor
from placer.launch.rehearsal.comparison import Line, confirmed, lines_of
from placer.launch.rehearsal.options import RehearsalOptions
from placer.launch.rehearsal.rehearsal import rehearse
from placer.launch.shaped_network import METHODS
from placer.solving.by_hand import place_by_hand

GCP = ("gcp/us-central1", "gcp/europe-west1", "gcp/asia-east1", "gcp/australia-southeast1")
STORE = "aws/us-west-2"
PLANS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "two regions, all-reduce": (
        "roberta-xlm",
        "erben-2023",
        f"{GCP[0]}=2xT4:spot,{GCP[1]}=2xT4:spot",
        {"exchange": "all-reduce"},
    ),
    "four regions, all-reduce": (
        "roberta-xlm",
        "erben-2023",
        ",".join(f"{p}=2xT4:spot" for p in GCP),
        {"exchange": "all-reduce"},
    ),
    "central through S3": (
        "niser",
        "phalak-2023",
        f"{STORE}=2xCPU-2:on-demand,aws/eu-west-2=2xCPU-2:on-demand",
        {"exchange": "central", "aggregator": STORE, "storage": STORE},
    ),
    "hierarchical through S3": (
        "niser",
        "phalak-2023",
        f"{STORE}=2xCPU-2:on-demand,aws/eu-west-2=2xCPU-2:on-demand",
        {"exchange": "hierarchical", "aggregator": STORE, "storage": STORE},
    ),
    "local SGD, 16 steps": (
        "roberta-xlm",
        "erben-2023",
        f"{GCP[0]}=1xT4:spot,{GCP[1]}=2xT4:spot",
        {"exchange": "local-sgd", "local_steps": "16", "tbs": "2048"},
    ),
}
"""Model, book, workers and words of each plan; links of the first two and the last are those of
Erben et al. (2024), table 3.
"""


def rehearsed(name: str, folder: Path, rounds: int, method: str) -> list[Line]:
    """Rehearse one plan."""
    model, book, workers, words = PLANS[name]
    problem = Advisor((book,)).problem(model, **words)
    placement = place_by_hand(workers, problem)
    document = build_manifest(problem, placement, estimate(placement, problem), "feasible", None)
    wishes = RehearsalOptions(rounds=rounds, method=method)
    found = rehearse(
        read_manifest(document, name),
        name,
        wishes,
        folder,
        lambda said: click.echo(f"  {said}", err=True),
    )
    click.echo(f"  links by {found.method}", err=True)
    return lines_of(found)


def worst(lines: list[Line], kind: str) -> Line | None:
    """The line of a kind that is judged and furthest off."""
    judged = [line for line in lines if line.kind == kind and line.within is not None]
    return max(judged, key=lambda line: abs(line.difference or 0.0), default=None)


def row(name: str, lines: list[Line]) -> str:
    """A plan as a row of a table in Markdown."""
    step, moved, asked = (worst(lines, kind) for kind in ("seconds", "bytes", "requests"))
    assert step is not None
    assert moved is not None
    requests = (
        "-"
        if asked is None
        else ("exact" if asked.difference == 0 else f"{asked.what} {asked.difference:+.1%}")
    )
    figures = (
        f"{step.predicted:.2f} | {step.measured:.2f} | {step.difference:+.1%} | "
        f"{moved.difference:+.1%} | {requests}"
    )
    return f"| {name} | {figures} | {'yes' if confirmed(lines) else 'NO'} |"


def main() -> None:
    """Rehearse all, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7, help="measured rounds of each plan")
    parser.add_argument("--only", help="plans whose name has this word")
    parser.add_argument(
        "--method", default="auto", choices=["auto", *METHODS], help="how links are shaped"
    )
    given = parser.parse_args()
    rows, good = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name in PLANS:
            if given.only and given.only not in name:
                continue
            click.echo(name, err=True)
            lines = rehearsed(name, Path(folder) / name.split()[0], given.rounds, given.method)
            rows.append(row(name, lines))
            good = good and confirmed(lines)
    click.echo(
        "| plan | round predicted, s | measured, s | difference | bytes of a link, worst | "
        "requests | within |"
    )
    click.echo("|---|---|---|---|---|---|---|")
    for text in rows:
        click.echo(text)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

"""``placer run --rehearse``: run a plan's geography on this machine and compare line by line."""

from __future__ import annotations

import importlib.util
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import click

from placer.cli.command import Json, as_command
from placer.cli.output import check_targets, console, print_json, write_json
from placer.cli.screen.show import show_blocks
from placer.errors import PlacerError
from placer.units import format_plain
from placer.version import install_line

if TYPE_CHECKING:
    from placer.launch.rehearsal.comparison import Line
    from placer.launch.rehearsal.rehearsal import Rehearsal
    from placer.report.blocks import Cell

EPILOG = """\b
Examples:
  placer run --rehearse plan.json
  placer run --rehearse plan.json --scale 1/100 --rounds 8 -o rehearsal.json
  placer run --rehearse plan.json --kill 1@3
\b
Each machine of the plan is a process here. Each TCP stream between them gets the bandwidth and
round-trip time of the plan. Bytes and calculation are scaled down by one factor; links and
exchange are not. As root, or with user namespaces, each machine has a network of its own; else
relays carry the streams. Nothing outside this machine is contacted.
Exit code 6: a figure is out of tolerance (round 15 %, bytes of a link 2 %, requests exact).
"""


class Options(TypedDict):
    """Options of the command.

    Parameters
    ----------
    scale : 1/N
        Scale of bytes and calculation; default: chosen so that a round takes a few seconds.
    rounds : N, 3..1000
        Number of measured rounds.
    per_group : N, 1..
        Maximum workers per group.
    train : MODULE:FUNCTION
        Your own model, as for 'placer run'; its size gives the scale.
    kill : RANK@STEP
        Kill a worker in a step, and report what is lost.
    method : {auto, namespaces, relays}
        How links are shaped; auto: namespaces where they are available, else relays.
    limit : TIME
        Longest predicted time of all rounds.
    folder : DIR, --dir
        Folder of the logs; default: ./NAME-rehearsal.
    out : FILE, -o --out
        Write the comparison as JSON.
    """

    scale: str | None
    rounds: Annotated[int, 5]
    per_group: int | None
    train: str | None
    kill: str | None
    method: Annotated[str, "auto"]
    limit: Annotated[str, "10min"]
    folder: str | None
    out: str | None


@as_command("rehearse", EPILOG)
def command(manifest: str, *, as_json: Json, **words: Unpack[Options]) -> None:
    """Rehearse the plan of MANIFEST on this machine over links shaped like the plan's, and
    compare seconds, bytes and cost.
    """
    from placer.documents.manifest import read_manifest
    from placer.launch.rehearsal.worker_death import WorkerDeath
    from placer.launch.runtime.run_plan import read_document
    from placer.units import parse_seconds

    check_targets(words["out"])
    plan = read_manifest(read_document(manifest), manifest)
    kill = None if words["kill"] is None else WorkerDeath.of(words["kill"])
    scale, limit_s = _scale(words["scale"]), parse_seconds(words["limit"])
    if words["train"] and scale is not None:
        raise PlacerError(
            "--scale and --train: the size of your model is the scale", "leave one out"
        )
    if importlib.util.find_spec("torch") is None:
        raise PlacerError(
            "placer run --rehearse needs PyTorch, which is not installed",
            f"install it: {install_line('rehearse')}",
        )
    from placer.launch.rehearsal.comparison import confirmed, document_of, lines_of
    from placer.launch.rehearsal.options import RehearsalOptions
    from placer.launch.rehearsal.rehearsal import rehearse

    options = RehearsalOptions(
        scale=scale,
        rounds=words["rounds"],
        per_group=words["per_group"],
        method=words["method"],
        limit_s=limit_s,
        kill=kill,
        train=words["train"],
    )
    folder = Path(words["folder"] or f"{plan.name}-rehearsal")
    rehearsal = rehearse(plan, manifest, options, folder, lambda said: click.echo(said, err=True))
    lines = lines_of(rehearsal)
    document = document_of(rehearsal, lines)
    if words["out"]:
        write_json(words["out"], document)
    if as_json:
        print_json(document)
    else:
        _print(rehearsal, lines, folder, plan.workers)
    if not confirmed(lines):
        sys.exit(6)


def _scale(words: str | None) -> float | None:
    """Read ``1/50``, ``0.02`` or ``2%``."""
    if words is None:
        return None
    top, _, below = words.strip().rstrip("%").partition("/")
    try:
        value = (
            float(top)
            / (float(below) if below else 1.0)
            / (100 if words.strip().endswith("%") else 1)
        )
    except (ValueError, ZeroDivisionError):
        value = -1.0
    if not 0 < value <= 1:
        raise PlacerError(
            f"--scale '{words}' is not a share of the plan", "give 1/100, 0.01 or 1%, at most 1"
        )
    return value


def _print(rehearsal: Rehearsal, lines: list[Line], folder: Path, workers: int) -> None:
    """Print the predicted figures beside the measured ones."""
    from rich.markup import escape

    from placer.launch.runtime.log.comparison import requests_text
    from placer.report.blocks import figure, table
    from placer.units import counted, format_bytes, format_number

    out, small, plan = console(), rehearsal.small, rehearsal.plan
    regions, late = (
        counted(len(plan.regions), "region"),
        " overlapping the next step" if plan.exchange.overlap else "",
    )
    out.print(
        f"{escape(plan.name)}: {plan.exchange.strategy}{late}, "
        f"{counted(plan.workers, 'worker')} in {regions}, bytes and calculation x "
        f"{format_number(small.scale)} ({format_bytes(small.problem.gradient_bytes)} a "
        f"gradient), links by {rehearsal.method}; "
        "seconds, bytes and requests are those of one round"
    )
    figures = ("predicted", "measured", "difference")
    rows: list[list[Cell]] = [
        [
            requests_text(line.what) if line.kind == "requests" else line.what,
            figure(line.predicted, partial(_figure, line=line), "-"),
            figure(line.measured, partial(_figure, line=line), "-"),
            figure(line.difference, "{:+.1%}".format),
            {True: "ok", False: "OFF", None: ""}[line.within],
        ]
        for line in lines
    ]
    show_blocks(table("One round", ("figure", *figures, "within"), rows, numbers=figures))
    if rehearsal.slower:
        links = ", ".join(f"{src} -> {dst}" for src, dst in rehearsal.slower)
        out.print(
            f"note  faster in the plan than this machine carries, so cut, also in the prediction: "
            f"{escape(links)}"
        )
    if rehearsal.why_not:
        out.print(f"note  {escape(rehearsal.why_not)}")
    for words in rehearsal.deaths:
        out.print(escape(words))
    if rehearsal.went_on:
        out.print("note  the predictions are those of all workers: nothing is judged")
    for words in _remarks(rehearsal, lines, workers):
        out.print(f"note  {escape(words)}")
    if not rehearsal.went_on:
        out.print(escape(_verdict(rehearsal, lines)))
    click.echo(f"wrote {folder / 'run.jsonl'}", err=True)


def _remarks(rehearsal: Rehearsal, lines: list[Line], workers: int) -> list[str]:
    """List what a reader must know to judge the figures."""
    from placer.launch.rehearsal.comparison import SECONDS_TOLERANCE

    remarks = []
    here = rehearsal.plan.workers
    if here < workers:
        remarks.append(
            f"{here} of the plan's {workers} workers were rehearsed: all figures are those of "
            f"{here}"
        )
    off = next((line.difference for line in lines if line.what == "calculation"), None)
    if off is not None and off > SECONDS_TOLERANCE and not rehearsal.deaths:
        remarks.append(
            f"workers wait as long as they would calculate, so calculation {off:+.0%} means that "
            f"this machine is too busy or too small "
            f"for {here} workers: take a quiet one, or fewer with --per-group"
        )
    return remarks


def _verdict(rehearsal: Rehearsal, lines: list[Line]) -> str:
    from placer.launch.rehearsal.comparison import blames_machine

    judged = [line for line in lines if line.within is not None]
    off = [
        f"{line.what} {line.difference:+.1%}"
        for line in judged
        if not line.within and line.difference is not None
    ]
    if blames_machine(rehearsal, lines):
        return (
            f"undecided: {', '.join(off)}, but this machine was busy: {rehearsal.load}; rehearse "
            f"again on a quiet one"
        )
    if off:
        return f"not confirmed: {', '.join(off)}"
    return f"confirmed: {len(judged)} of {len(judged)} judged" if judged else "nothing is judged"


def _figure(value: float, line: Line) -> str:
    """Format a figure with its unit; bytes in MB with four digits, as 2 % count."""
    if line.kind == "bytes":
        return f"{value / 1e6:,.4g} MB"
    number = f"{value:,.0f}" if value >= 1000 or value == int(value) else format_plain(value, 4)
    return number if line.kind == "requests" else f"{number} {line.unit}"

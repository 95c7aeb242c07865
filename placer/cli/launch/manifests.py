"""``placer export`` and ``placer run --rehearse``: launch files of a plan, and a trial of it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from placer.cli.command import Json, as_command
from placer.cli.output import check_targets, print_json, say, write_json
from placer.cli.screen.show import show
from placer.documents.json_file import read_json
from placer.errors import PlacerError, not_installed
from placer.interface.saved import export
from placer.launch.export import TARGETS, target_named
from placer.units import parse_seconds

if TYPE_CHECKING:
    from placer.launch.rehearsal.judgement import Line
    from placer.launch.rehearsal.rehearsal import Rehearsal

EXPORT = """\b
Examples:
  placer recommend --model roberta-xlm --budget 5/h --manifest plan.json
  placer export plan.json --to torchrun --dir launch
  placer export plan.json --to skypilot --dir launch --diff
  placer export plan.json --to torchrun --dir launch --train mymodel:workload
  placer export result.json --to cloudformation --dir stacks --json
  placer export plan.json --to skypilot --dir sky --fallback plan-fallback-1.json
\b
Targets:
"""


EXPORT += "\n".join(f"  {name:15} {words}" for name, words in TARGETS.items())


@as_command("export", EXPORT, of=export, without=("manifest",))
def export_command(
    path: str, *, folder: str, diff: bool = False, as_json: Json, **words: Any
) -> None:
    """Write launch files from a manifest, or from a result of 'placer recommend -o'. What TARGET
    cannot try by itself of the fallbacks gets a folder of its own: DIR-fallback-1.

    path (RESULT|MANIFEST):
    folder (DIR, --dir): New or empty folder, or one of an earlier export.
    diff: Show what would change in DIR and write nothing.
    """
    from placer.launch.export.folder import difference, left_over, write_folder

    target_named(words["target"])  # an unknown one is refused before anything is read
    names = (path, *words.pop("fallbacks"))
    plan, *fallbacks = map(read_json, names)
    made = export(plan, **words, fallbacks=fallbacks, names=names)
    written = made.folders(folder)
    changes = "".join(difference(at, files) for at, files in written.items())
    gone = {at: left_over(at, files) for at, files in written.items()}
    if not diff:
        for at, files in written.items():
            write_folder(at, files)
    if as_json:
        print_json(
            {
                **made.to_dict(folder, texts=False),
                "written": not diff,
                "removed": gone[folder],
                "changed": bool(changes),
                **({"diff": changes} if diff else {}),
            }
        )
        return
    if diff:
        click.echo(
            changes or f"no difference: {folder} holds what would be written", nl=not changes
        )
        return
    _print(written, gone)
    click.echo(f"next: read {folder}/README.md", err=True)


def _print(written: Mapping[str, Mapping[str, str]], gone: dict[str, list[str]]) -> None:
    """Print what was written, and what was removed on stderr."""
    for at, files in written.items():
        for name, text in sorted(files.items()):
            click.echo(f"{at}/{name}  {len(text.encode()):,} bytes")
    for at, names in gone.items():
        for name in names:
            click.echo(f"removed {at}/{name}: it is of an earlier export", err=True)


REHEARSE = """\b
Examples:
  placer run --rehearse plan.json
  placer run --rehearse plan.json --scale 1/100 --rounds 8 -o rehearsal.json
  placer run --rehearse plan.json --kill 1@3
\b
The scripts of 'placer export --to torchrun' run here, each machine in a network of its own with the
bandwidth and round-trip time of the plan's links. Bytes are scaled down, nobody waits for
calculations: the exchange is judged. Linux, as root or with user namespaces. Nothing outside
this machine is contacted.
Exit code 6: not confirmed (exchange within 10 %, bytes of a link 2 %, requests exact), or too short
to be measured.
"""


@as_command("rehearse", REHEARSE)
def rehearse_command(
    manifest: str,
    *,
    scale: str | None = None,
    rounds: int = 5,
    per_group: int | None = None,
    train: str | None = None,
    kill: str | None = None,
    limit: str = "10min",
    folder: str | None = None,
    out: str | None = None,
    as_json: Json,
) -> None:
    """Rehearse the plan of MANIFEST on this machine over links shaped like the plan's, and
    compare the exchange with its price: seconds and bytes.

    scale (1/N): Scale of bytes; default: chosen so that an exchange takes a second or two.
    rounds (N, 3..1000): Number of measured rounds.
    per_group (N, 1..): Maximum workers per group.
    train (MODULE:FUNCTION): Your own model, as for 'placer run'; its size gives the scale.
    kill (RANK@STEP): Kill a worker in a step, and report what is lost.
    limit (TIME): Longest predicted time of all exchanges.
    folder (DIR, --dir): Folder of scripts and logs; default: ./NAME-rehearsal.
    out (FILE, -o --out): Write the comparison as JSON.
    """
    from placer.documents.manifest import read_manifest

    check_targets(out)
    plan = read_manifest(read_json(manifest), manifest)
    share, limit_s = _scale(scale), parse_seconds(limit)
    if train and share is not None:
        raise PlacerError(
            "--scale and --train: the size of your model is the scale", "leave one out"
        )
    if importlib.util.find_spec("torch") is None:
        raise not_installed("placer run --rehearse needs PyTorch", "rehearse")
    from placer.launch.rehearsal.judgement import confirmed, document_of, lines_of
    from placer.launch.rehearsal.rehearsal import RehearsalOptions, read_kill, rehearse

    options = RehearsalOptions(
        scale=share,
        rounds=rounds,
        per_group=per_group,
        limit_s=limit_s,
        kill=None if kill is None else read_kill(kill),
        train=train,
    )
    at = Path(folder or f"{plan.name}-rehearsal")
    rehearsal = rehearse(plan, manifest, options, at, lambda said: click.echo(said, err=True))
    lines = lines_of(rehearsal)
    document = document_of(rehearsal, lines)
    if out:
        write_json(out, document)
    if as_json:
        print_json(document)
    else:
        show(document)
        _say_more(rehearsal, lines, plan.workers)
        click.echo(f"wrote the logs of the machines to {at / 'run'}", err=True)
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


def _say_more(rehearsal: Rehearsal, lines: list[Line], workers: int) -> None:
    """Say who died, how much of the plan was rehearsed, and why it is not confirmed."""
    from placer.launch.rehearsal.judgement import confirmed, verdict

    for words in rehearsal.deaths:
        say(words)
    few = rehearsal.plan.workers
    if few < workers:
        say(f"note  {few} of the plan's {workers} workers were rehearsed: all figures are theirs")
    if rehearsal.went_on:
        say("note  the predictions are those of all workers: nothing is judged")
    elif not confirmed(lines):
        say(verdict(lines))

"""``placer export``: launch files from a manifest."""

from __future__ import annotations

import json
from typing import Any

import click

from placer.cli.command import Json, as_command
from placer.cli.output import print_json
from placer.documents.json_file import read_json
from placer.errors import PlacerError
from placer.records import replace

EXAMPLE = """\b
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


def _epilog() -> str:
    from placer.launch.export import TARGETS

    return EXAMPLE + "\n".join(f"  {name:15} {words}" for name, words in TARGETS.items())


@as_command("export", _epilog())
def command(
    path: str,
    *,
    target: str,
    folder: str,
    train: str = "train.py",
    image: str | None = None,
    fallbacks: tuple[str, ...] = (),
    edited: bool = False,
    diff: bool = False,
    as_json: Json,
) -> None:
    """Write launch files from a manifest, or from a result of 'placer recommend -o'.

    path (RESULT|MANIFEST):
    target (TARGET, --to): What the files are for; see below.
    folder (DIR, --dir): New or empty folder, or one of an earlier export.
    train (FILE|MODULE:FUNCTION): Training script, as the machines find it; or a function, as
        'placer run' takes it, which the machines start.
    image (IMAGE): Container image, where the target runs containers; default: PyTorch's own.
    fallbacks (MANIFEST, --fallback): Plan to use if the machines are not available; repeat it in
        order. What TARGET cannot try by itself gets a folder of its own: DIR-fallback-1.
    edited: Take a manifest that was edited by hand.
    diff: Show what would change in DIR and write nothing.
    """
    from placer.launch.export import export, target_named, tried_together
    from placer.launch.export.folder import difference, left_over, write_folder

    target_named(target)  # an unknown one is refused before anything is read
    words = {"train": train, **({} if image is None else {"image": image})}
    others = tuple(_plan(other, edited, words) for other in fallbacks)
    plan = replace(_plan(path, edited, words), fallbacks=others)
    written = {folder: export(plan, target)}
    together = tried_together(plan, target)
    for number, other in enumerate(others, start=1):
        if number not in together:
            written[f"{folder.rstrip('/')}-fallback-{number}"] = export(other, target)
    changes = "".join(difference(at, files) for at, files in written.items())
    gone = {at: left_over(at, files) for at, files in written.items()}
    if not diff:
        for at, files in written.items():
            write_folder(at, files)
    if as_json:
        document = {
            "schema": "placer.export/v1",
            "target": target,
            "dir": folder,
            "written": not diff,
            "manifest": plan.manifest.digest,
        }
        print_json(
            {
                **document,
                "files": _listed(written[folder]),
                "removed": gone[folder],
                **({"fallbacks": _fallbacks(plan, together, written)} if others else {}),
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


def _print(written: dict[str, dict[str, str]], gone: dict[str, list[str]]) -> None:
    """Print what was written, and what was removed on stderr."""
    for at, files in written.items():
        for name, text in sorted(files.items()):
            click.echo(f"{at}/{name}  {len(text.encode()):,} bytes")
    for at, names in gone.items():
        for name in names:
            click.echo(f"removed {at}/{name}: it is of an earlier export", err=True)


def _listed(files: dict[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "bytes": len(text.encode())} for name, text in sorted(files.items())]


def _fallbacks(
    plan: Any, together: tuple[int, ...], written: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """List the fallbacks in order: manifest, folder, and whether the plan's own files try it."""
    folder, *apart = written
    return [
        {
            "manifest": other.manifest.digest,
            "dir": folder if number in together else apart.pop(0),
            "tried_by_itself": number in together,
        }
        for number, other in enumerate(plan.fallbacks, start=1)
    ]


def _plan(path: str, allow_edits: bool, words: dict[str, Any]) -> Any:
    """Read a manifest, or make it from a result."""
    from placer.documents.manifest import edited, read_manifest
    from placer.documents.schemas import RESULT_SCHEMA
    from placer.launch.export.export_plan import ExportPlan

    document = read_json(path)
    if isinstance(document, dict) and document.get("schema") == RESULT_SCHEMA:
        from placer.documents.validate import manifest_of

        document = manifest_of(document, path)
    try:
        manifest = read_manifest(document, path, allow_edits=allow_edits)
    except PlacerError as error:
        if "digest differs" in error.message:
            raise PlacerError(
                error.message, "add --edited to use it as it is, or write it again with --manifest"
            ) from None
        raise
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    return ExportPlan(manifest=manifest, text=text, edited=edited(document), **words)

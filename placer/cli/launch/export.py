"""``placer export``: launch files from a manifest."""

from __future__ import annotations

import json
from typing import Any

import click

from placer.cli.options import json_option
from placer.cli.output import print_json, read_json
from placer.errors import PlacerError

EXAMPLE = """\b
Examples:
  placer recommend --model roberta-xlm --budget 5/h --manifest plan.json
  placer export plan.json --to torchrun --dir launch
  placer export plan.json --to skypilot --dir launch --diff
  placer export plan.json --to torchrun --dir launch --train mymodel:workload
  placer export result.json --to cloudformation --dir stacks --json
\b
Targets:
"""


def _epilog() -> str:
    from placer.launch.export import SHORT

    return EXAMPLE + "\n".join(f"  {name:15} {words}" for name, words in SHORT.items())


@click.command("export", epilog=_epilog())
@click.argument("path", metavar="RESULT|MANIFEST")
@click.option(
    "--to", "target", required=True, metavar="TARGET", help="What the files are for; see below."
)
@click.option(
    "--dir",
    "folder",
    required=True,
    metavar="DIR",
    help="New or empty folder, or one of an earlier export.",
)
@click.option(
    "--train",
    default="train.py",
    show_default=True,
    metavar="FILE|MODULE:FUNCTION",
    help="Training script, as the machines find it; or a function, as 'placer run' takes it, "
    "which the machines start.",
)
@click.option(
    "--image",
    metavar="IMAGE",
    help="Container image, where the target runs containers; default: PyTorch's own.",
)
@click.option("--edited", is_flag=True, help="Take a manifest that was edited by hand.")
@click.option("--diff", is_flag=True, help="Show what would change in DIR and write nothing.")
@json_option
def command(
    path: str,
    target: str,
    folder: str,
    train: str,
    image: str | None,
    edited: bool,
    diff: bool,
    as_json: bool,
) -> None:
    """Write launch files from a manifest, or from a result of 'placer recommend -o'."""
    from placer.launch.export import export, target_named
    from placer.launch.export.folder import difference, left_over, write_folder

    target_named(target)  # an unknown one is refused before anything is read
    plan = _plan(path, edited, {"train": train, **({} if image is None else {"image": image})})
    files = export(plan, target)
    changes = difference(folder, files)
    gone = left_over(folder, files)
    if not diff:
        write_folder(folder, files)
    if as_json:
        listed = [
            {"name": name, "bytes": len(text.encode())} for name, text in sorted(files.items())
        ]
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
                "files": listed,
                "removed": gone,
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
    for name, text in sorted(files.items()):
        click.echo(f"{folder}/{name}  {len(text.encode()):,} bytes")
    for name in gone:
        click.echo(f"removed {folder}/{name}: it is of an earlier export", err=True)
    click.echo(f"next: read {folder}/README.md", err=True)


def _plan(path: str, allow_edits: bool, words: dict[str, str]) -> Any:
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

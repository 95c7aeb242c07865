"""``placer export``: launch files from a manifest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from placer.cli.command import Json, as_command
from placer.cli.output import print_json
from placer.documents.json_file import read_json
from placer.interface.saved import export

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


@as_command("export", _epilog(), of=export, without=("manifest",))
def command(path: str, *, folder: str, diff: bool = False, as_json: Json, **words: Any) -> None:
    """Write launch files from a manifest, or from a result of 'placer recommend -o'. What TARGET
    cannot try by itself of the fallbacks gets a folder of its own: DIR-fallback-1.

    path (RESULT|MANIFEST):
    folder (DIR, --dir): New or empty folder, or one of an earlier export.
    diff: Show what would change in DIR and write nothing.
    """
    from placer.launch.export import target_named
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

"""``placer validate --schema``: JSON Schemas of documents."""

from __future__ import annotations

import click

from placer.cli.command import as_command
from placer.cli.output import print_json
from placer.errors import unknown


@as_command("schema", "Example: placer validate --schema result > result-v1.json")
def command(name: str = "result", *, listed: bool = False) -> None:
    """Print the JSON Schema of NAME: one for every document that a command prints or writes, such
    as result, manifest, profile, pareto, offers or error.

    Parameters
    ----------
    listed : --list
        List the names, and what each describes.
    """
    from placer.documents.schemas import KINDS, SCHEMA_NAMES, schema_document

    if listed:
        width = max(map(len, SCHEMA_NAMES))
        for each, (_, title) in KINDS.items():
            click.echo(f"{each:{width}}  {title}")
        return
    if name not in SCHEMA_NAMES:
        raise unknown("schema", name, SCHEMA_NAMES, "placer validate --schema --list names them")
    print_json(schema_document(name))

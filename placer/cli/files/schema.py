"""``placer schema``: JSON Schemas of documents."""

from __future__ import annotations

import click

from placer.cli.output import print_json
from placer.errors import unknown


@click.command("schema", epilog="Example: placer schema result > result-v1.json")
@click.argument("name", default="result")
@click.option("--list", "listed", is_flag=True, help="List the names, and what each describes.")
def command(name: str, listed: bool) -> None:
    """Print the JSON Schema of NAME: one for every document that a command prints or writes, such
    as result, manifest, profile, pareto, offers or error.
    """
    from placer.documents.schemas import KINDS, SCHEMA_NAMES, schema_document

    if listed:
        width = max(map(len, SCHEMA_NAMES))
        for each, (_, title) in KINDS.items():
            click.echo(f"{each:{width}}  {title}")
        return
    if name not in SCHEMA_NAMES:
        raise unknown("schema", name, SCHEMA_NAMES, "placer schema --list names them")
    print_json(schema_document(name))

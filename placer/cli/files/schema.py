"""``placer schema``: JSON Schemas of documents."""

from __future__ import annotations

import json

import click

from placer.cli.output import print_json
from placer.errors import unknown


@click.command("schema", epilog="Example: placer schema result > result-v1.json")
@click.argument("name", default="result")
def command(name: str) -> None:
    """Print the JSON Schema of NAME, such as result, manifest, profile, calibration, reproduction,
    pareto, portfolio, whatif, run or explanation.
    """
    from placer.documents.schemas import SCHEMA_NAMES, schema_text

    if name not in SCHEMA_NAMES:
        raise unknown("schema", name, SCHEMA_NAMES)
    print_json(json.loads(schema_text(name)))

"""``placer validate``: check what was written before, or what a user wrote."""

from __future__ import annotations

import os
from pathlib import Path

import click

from placer.cli.options import json_option
from placer.cli.output import print_json


@click.command("validate", epilog="Example: placer validate plan.json")
@click.argument("path")
@json_option
def command(path: str, as_json: bool) -> None:
    """Check a result, manifest, profile, problem, calibration or quota file, or the folder of a price book."""
    if os.path.isdir(path):  # noqa: PTH112 - a name too long for the file system is no folder
        from placer.book import load_catalog

        book = load_catalog(str(Path(path).resolve()))
        said = f"{path}: price book with {len(book.offers):,} offers in {len(book.regions)} regions"
    elif path.endswith(".csv"):
        from placer.quotas import read_quotas

        said = f"{path}: quota file with {len(read_quotas(Path(path)))} rows"
    else:
        from placer.cli.output import read_json
        from placer.saved import check_document

        said = f"{path}: {check_document(read_json(path), path)}"
    if as_json:
        print_json({"schema": "placer.validation/v1", "valid": True, "message": said})
    else:
        click.echo(f"valid: {said}")

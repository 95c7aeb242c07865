"""``placer validate``: check what was written before or by a user, and JSON Schemas of it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from placer.cli.command import Json, as_command
from placer.cli.output import print_json
from placer.errors import PlacerError, unknown


@as_command("validate", "Example: placer validate plan.json")
def command(path: str, *, again: bool = False, solver: str = "exact", as_json: Json) -> None:
    """Check a result, manifest, profile, problem, calibration or quota file, or the folder of a
    price book; with --schema NAME, print the JSON Schema of a document instead.

    again: Of a result: also solve its question again and compare.
    solver (NAME): Solver of --again.
    """
    if again and (os.path.isdir(path) or path.endswith(".csv")):  # noqa: PTH112 - as below
        raise PlacerError(
            f"{path} is not a result, so there is nothing to solve again",
            "give a file of placer recommend -o",
        )
    confirmed: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    if os.path.isdir(path):  # noqa: PTH112 - a name too long for the file system is not a folder
        from placer.market.books.book_reader import load_catalog

        book = load_catalog(str(Path(path).resolve()))
        summary = (
            f"{path}: price book with {len(book.offers):,} offers in {len(book.regions)} regions"
        )
    elif path.endswith(".csv"):
        from placer.problem.words.machines import read_quotas

        summary = f"{path}: quota file with {len(read_quotas(Path(path)))} rows"
    else:
        from placer.documents.json_file import read_json
        from placer.documents.validate import examine_document

        document = read_json(path)
        what, checked = examine_document(document, path)
        summary = f"{path}: {what}"
        if checked is not None:
            confirmed, trusted = checked.confirmed, checked.trusted
        if again:
            from placer.solving.cross_check import solved_again

            confirmed = (*confirmed, solved_again(document, path, solver))
    if as_json:
        lists = (
            {"confirmed": list(confirmed), "trusted": list(trusted)} if confirmed or trusted else {}
        )
        print_json({"schema": "placer.validation/v1", "valid": True, "message": summary, **lists})
        return
    click.echo(f"valid: {summary}")
    for name, lines in (("confirmed", confirmed), ("trusted", trusted)):
        for line in lines:
            click.echo(f"  {name:9}  {line}")


@as_command("schema", "Example: placer validate --schema result > result-v1.json")
def schema_command(name: str = "result", *, listed: bool = False) -> None:
    """Print the JSON Schema of NAME: one for every document that a command prints or writes, such
    as result, manifest, profile, pareto, offers or error.

    listed (--list): List the names, and what each describes.
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

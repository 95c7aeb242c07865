"""``placer diff``: what changes from one saved result to another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from placer.cli.output import check_targets, console, new_table, print_json, read_json, write_text

EXAMPLE = """\b
Examples:
  placer diff main.json branch.json
  placer diff main.json branch.json --format md -o comment.md
  placer diff main.json branch.json --fail-on 'cost>10%' --fail-on 'speed<-5%'
  placer diff main.json branch.json --json > diff.json && placer report diff.json
"""
REFUSED = 6
"""Exit code where a change is not accepted."""
HEADERS = ("", "what", "before", "after", "change")


@click.command("diff", epilog=EXAMPLE)
@click.argument("before")
@click.argument("after")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "md", "json"]),
    default="table",
    show_default=True,
    help="What to print: md is a table for a comment on a pull request.",
)
@click.option("-o", "--output", metavar="FILE", help="Write it to a file instead.")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="CONDITION",
    help="End with exit code 6 where a figure changes by more: cost>10%, speed<-5%, egress>0.5. "
    "Figures: cost, machines, egress, speed, price, step, carbon.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, as --format json.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    before: str,
    after: str,
    form: str,
    output: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what changes from BEFORE to AFTER, two results of placer recommend -o: machines, cost a
    month, speed, emissions, wishes.
    """
    import json

    from placer.documents.many.difference import difference_document, parse_condition

    check_targets(output)
    conditions = [parse_condition(text) for text in fail_on]
    names = (Path(before).name, Path(after).name)
    document = difference_document(read_json(before), read_json(after), names, conditions)
    form = "json" if as_json else form
    if form == "table" and output is None:
        _print(document)
    else:
        text = json.dumps(document, indent=2) if form == "json" else _markdown(document)
        if output is not None:
            write_text(output, text + "\n")
        elif form == "json":
            print_json(document)
        else:
            click.echo(text)
    for words in document["failed"]:
        console(stderr=True).print(f"not accepted: {words}", style="yellow")
    ctx.exit(REFUSED if document["failed"] else 0)


def _print(document: Any) -> None:
    """Print the sentence, the rows and the legend."""
    from placer.report.difference_rows import LEGEND, difference_rows
    from placer.report.kinds.difference import verdict

    out = console()
    out.print(verdict(document))
    out.print()
    table = new_table(HEADERS, right=HEADERS[2:], wrap=("what", "before", "after"))
    for row in difference_rows(document):
        table.add_row(*row)
    out.print(table)
    console(stderr=True).print(LEGEND, style="dim")


def _markdown(document: Any) -> str:
    """Write the same as Markdown; words of documents cannot end a cell or begin markup."""
    from placer.report.difference_rows import LEGEND, difference_rows
    from placer.report.kinds.difference import verdict

    lines = [f"**{_plain(verdict(document))}**", "", "| | what | before | after | change |"]
    lines.append("|---|---|---:|---:|---:|")
    for sign, *cells in difference_rows(document):
        mark = f"`{sign}`" if sign else ""
        lines.append(f"| {mark} | " + " | ".join(_plain(cell) for cell in cells) + " |")
    return "\n".join(
        [*lines, "", LEGEND.replace("~", "`~`").replace("+ ", "`+` ").replace("- ", "`-` ")]
    )


def _plain(text: str) -> str:
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<>|#~" else c for c in text)
    return " ".join(escaped.split())

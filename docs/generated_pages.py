"""Pages of the site that are made from the code: commands, Python names, JSON schemas, gallery.

A Sphinx extension. It writes into docs/reference/generated/, which is not kept in the repository.
"""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from gallery import gallery_files

import placer
from placer.cli import COMMANDS, FORMS, GROUPS, PATHS, cli
from placer.cli.group import loaded
from placer.documents.schemas import SCHEMA_NAMES, schema_document

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path("docs") / "reference" / "generated"
ROOM_TITLES = {
    "ask": "Questions and answers",
    "book": "Prices, models and links",
    "measure": "Measuring and calibrating",
    "launch": "Launching",
    "files": "Files and set-up",
}
"""Headings of the rooms of commands."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the writer of pages with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write all generated pages; one whose text did not change keeps its time, so that Sphinx reads
    only what is new.
    """
    folder = Path(app.srcdir) / FOLDER
    pages = {**command_pages(), **python_pages(), **schema_pages()}
    pages |= {f"gallery/{name}": text for name, text in gallery_files().items()}
    for old in folder.rglob("*") if folder.exists() else ():
        if old.is_file() and old.relative_to(folder).as_posix() not in pages:
            old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")


def command_pages() -> dict[str, str]:
    """Return a page for each command, and one that lists them by room."""
    pages = {}
    index = ["# Commands", "", "`--help all` of a command prints the same on the terminal.", ""]
    context = click.Context(cli, info_name="placer")
    lies = {name: PATHS.get(name) or GROUPS[name][0] for name in COMMANDS}
    for room, title in ROOM_TITLES.items():
        index += [f"## {title}", "", "| command | |", "|---|---|"]
        for name in (name for name, path in lies.items() if path.startswith(f"{room}.")):
            index.append(f"| [placer {name}]({name}.md) | {cli.helps[name]} |")
            command = cli.get_command(context, name)
            if command is None:
                raise LookupError(f"placer {name} is listed and has no module")
            lines = command_page(command, name, context)
            for word, path in FORMS.get(name, {}).items():
                lines += command_page(loaded(path), f"{name} {word}", context, 2)
            pages[f"commands/{name}.md"] = "\n".join(lines)
        index.append("")
    pages["commands/index.md"] = "\n".join(index)
    return pages


def command_page(
    command: click.Command, name: str, parent: click.Context, level: int = 1
) -> list[str]:
    """Return the lines of a command's page: usage, help, options; then the commands of a group."""
    context = click.Context(command, info_name=name, parent=parent)
    usage = command.get_usage(context).removeprefix("Usage: ")
    text = inspect.cleandoc(command.help or "").partition("\f")[0].replace("\b\n", "")
    lines = [f"{'#' * level} {context.command_path}", "", "```text", usage, "```", ""]
    for paragraph in text.strip().split("\n\n"):
        shown = paragraph.lstrip("\n")
        drawn = shown.startswith(" ") or "\n " in shown or "::" in shown
        lines += ["```text", shown, "```", ""] if drawn else [prose(" ".join(shown.split())), ""]
    records = [p.get_help_record(context) for p in command.get_params(context)]
    options = [record for record in records if record]
    if options:
        lines += ["| option | |", "|---|---|"]
        lines += [f"| `{cell(option)}` | {prose(words)} |" for option, words in options]
        lines.append("")
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            part = command.get_command(context, below)
            if part is not None:
                lines += command_page(part, below, context, level + 1)
    return lines


def cell(text: str) -> str:
    """Return text for a cell of a table."""
    return text.replace("|", "\\|")


def prose(text: str) -> str:
    """Return plain text for a cell of a table: what Markdown would read as marks is escaped."""
    return re.sub(r"([\\`*_<>{}\[\]$|])", r"\\\1", text)


def python_pages() -> dict[str, str]:
    """Return a page for each public name of placer, and one that lists them."""
    names = [name for name in placer.__all__ if not name.startswith("_")]
    pages = {}
    index = ["# Python", "", "Everything that `import placer` offers.", ""]
    functions = [name for name in names if not isinstance(getattr(placer, name), type)]
    for title, of in (
        ("Functions", functions),
        ("Classes", [name for name in names if name not in functions]),
    ):
        index += [f"## {title}", "", "| name | |", "|---|---|"]
        for name in of:
            thing = getattr(placer, name)
            index.append(f"| [placer.{name}]({name}.md) | {first_sentence(thing.__doc__)} |")
            kind = "autofunction" if of is functions else "autoclass"
            members = "" if of is functions else "\n   :members:"
            pages[f"python/{name}.md"] = (
                f"# placer.{name}\n\n```{{eval-rst}}\n.. currentmodule:: placer\n\n"
                f".. {kind}:: {name}{members}\n```\n"
            )
        index += [""]
    pages["python/index.md"] = "\n".join(index)
    return pages


def first_sentence(text: str | None) -> str:
    """Return the first paragraph of a docstring on one line, safe in a table."""
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    return prose(paragraph)


def schema_pages() -> dict[str, str]:
    """Return a page for each JSON Schema, and one that lists them."""
    pages = {}
    index = [
        "# JSON documents",
        "",
        "What `--json` prints and `-o` writes. `placer validate --schema NAME` prints the schema.",
        "",
        "| document | |",
        "|---|---|",
    ]
    for kind in SCHEMA_NAMES:
        schema = schema_document(kind)
        name = schema["$id"].removeprefix("placer.").replace("/", "-")
        index.append(f"| [{schema['$id']}]({name}.md) | {schema['description']} |")
        pages[f"schemas/{name}.md"] = schema_page(schema)
    index += [""]
    pages["schemas/index.md"] = "\n".join(index)
    return pages


def schema_page(schema: dict[str, Any]) -> str:
    """Return the page of a schema: a table of its keys, one of each definition, and its text."""
    lines = [f"# {schema['$id']}", "", schema["description"], ""]
    lines += key_table(schema)
    for part, definition in sorted(schema.get("$defs", {}).items()):
        rows = key_table(definition)
        if rows:
            lines += [f"## {part}", "", definition.get("description", ""), "", *rows]
    lines += ["## The schema", "", "```json", json.dumps(schema, indent=1), "```", ""]
    return "\n".join(lines)


def key_table(schema: dict[str, Any]) -> list[str]:
    """Return the rows of a table of an object's keys; nothing for what is no object."""
    properties = schema.get("properties", {})
    if not properties:
        return []
    required = set(schema.get("required", ()))
    rows = ["| key | value | always there | |", "|---|---|---|---|"]
    for key, said in properties.items():
        value = said if isinstance(said, dict) else {}  # `true` admits anything
        rows.append(
            f"| `{key}` | {type_words(value)} | {'yes' if key in required else ''} "
            f"| {value.get('description', '').replace('|', ' or ')} |"
        )
    return [*rows, ""]


def type_words(schema: dict[str, Any]) -> str:
    """Return the type of a value in words, such as "list of offer" or "number or null"."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(dict.fromkeys(type_words(part) for part in schema[word]))
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        items = schema.get("items")
        return "list of " + type_words(items if isinstance(items, dict) else {})
    return str(kind)

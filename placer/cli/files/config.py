"""``placer config``: the defaults of the options, and what is installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import click

from placer.cli.command import Json, Table, as_command
from placer.cli.output import print_json, tell
from placer.cli.screen.show import show_blocks
from placer.documents.schemas import CONFIG_SCHEMA
from placer.errors import PlacerError, writing_hint
from placer.interface.settings import FILE, PREFIX, every_setting, project_file, template, user_file
from placer.version import __version__, install_line


@as_command("init", "Example: placer config init --user")
def init_command(*, user: bool = False, force: bool = False) -> None:
    """Write placer.toml, a file of defaults.

    Every option stands in it as a comment with an example. The nearest file from the working
    directory upward is used, and flags win over it.

    user: Write the user's file instead of ./placer.toml.
    force: Replace an existing file.
    """
    path = user_file() if user else Path(FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as handle:
            handle.write(template())
    except FileExistsError:
        raise PlacerError(f"'{path}' already exists", "add --force to replace it") from None
    except OSError as error:
        words = f"cannot write '{path}': {error.strerror or error}"
        raise PlacerError(
            words, writing_hint(error, "choose another folder"), exit_code=1
        ) from None
    tell(f"wrote {path}; placer config show --origin lists what holds")


@as_command("show", "Example: placer config show --origin")
def show_command(*, origin: bool = False, as_json: Json) -> None:
    """List the defaults that hold here, in the order in which flags, environment, the project's
    placer.toml and the user's win.

    origin: Say where each default comes from.
    """
    from placer.report.blocks import table, with_columns

    found = every_setting()
    project = project_file()
    if as_json:
        rows: list[dict[str, Any]] = [
            {"option": s.option, "value": s.value, "origin": s.origin, "command": s.command or None}
            for s in found
        ]
        files = {"project": None if project is None else str(project), "user": str(user_file())}
        print_json({"schema": CONFIG_SCHEMA, "files": files, "settings": rows})
        return
    if not found:
        tell(
            f"no defaults: neither {PREFIX}... in the environment, nor a placer.toml from here "
            f"upward, nor {user_file()}; placer config init writes one"
        )
        return
    shown = [(s.option, _said(s.value), s.command or "all", s.origin) for s in found]
    listed = table("Defaults", ("option", "value", "command", "origin"), shown)
    assert listed is not None
    show_blocks(with_columns(listed, [True, True, any(s.command for s in found), origin]))


def _said(value: Any) -> str:
    """Write a value as it stands on a command line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


EXTRAS = {
    "milp": ("pulp", "highspy"),
    "cpsat": ("ortools",),
    "calibrate": ("scipy",),
    "aws": ("boto3",),
    "online": ("httpx2",),
    "profile": ("torch", "nvidia-ml-py"),
}
"""Packages of each extra."""
SECOND = ("milp", "cpsat")
"""Solvers that other packages do the work of."""


@as_command("check", "Example: placer config check")
def check_command(ctx: click.Context, *, as_json: Table) -> None:
    """Show versions and extras, and test the optional solvers on programs with known answers.

    The exit code is 1 if an answer is wrong.
    """
    rows = [("python", platform.python_version(), ""), ("placer", __version__, "")]
    rows += [(f"extra {name}", *_extra(name, packages)) for name, packages in EXTRAS.items()]
    checks = [_check(name) for name in SECOND]
    if as_json:
        names = ("name", "found", "hint")
        document = {
            "schema": "placer.doctor/v1",
            "rows": [dict(zip(names, row, strict=True)) for row in [*rows, *checks]],
        }
        print_json(document)
    else:
        for name, outcome, hint in [*rows, *checks]:
            click.echo(f"{name:18s} {outcome}{f'; {hint}' if hint else ''}")
    ctx.exit(1 if any(outcome.startswith("WRONG") for _, outcome, _ in checks) else 0)


def _extra(name: str, packages: tuple[str, ...]) -> tuple[str, str]:
    installed = []
    for package in packages:
        try:
            installed.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            return "not installed", install_line(name)
    return ", ".join(installed), ""


def _check(name: str) -> tuple[str, str, str]:
    """Test one solver in a process of its own."""
    from placer.solving.solve import load_solver

    try:
        load_solver(name)
    except PlacerError as error:
        return f"solver {name}", "not installed", error.hint
    wrong = importlib.import_module("placer.solvers._programs.selftest").check_in_child(name)
    return (f"solver {name}", f"WRONG: {wrong}" if wrong else "60 of 60 self-tests passed", "")

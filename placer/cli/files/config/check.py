"""``placer config check``: what is installed, and whether the second solvers tell the truth."""

from __future__ import annotations

import importlib
import importlib.metadata
import platform

import click

from placer.cli.command import Table, as_command
from placer.cli.output import print_json
from placer.errors import PlacerError
from placer.version import install_line

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
def command(ctx: click.Context, *, as_json: Table) -> None:
    """Show versions and extras, and test the optional solvers on programs with known answers.

    The exit code is 1 if an answer is wrong.
    """
    from placer.version import __version__

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
    return (
        f"solver {name}",
        f"WRONG: {wrong}" if wrong else "60 of 60 self-tests passed",
        "",
    )

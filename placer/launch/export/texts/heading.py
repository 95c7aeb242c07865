"""The heading of every exported file: its manifest, its prices, and what is expected."""

from __future__ import annotations

from collections.abc import Iterable

from placer.documents.schemas.parts import Range
from placer.launch.export.export_plan import ExportPlan
from placer.units import format_plain

MARK = "written by placer; do not edit"
"""What every written file of text says: an export replaces what it finds with these words."""
LONGEST = 160
"""Names longer than this are cut where people read them; files keep them whole."""


def heading(plan: ExportPlan, target: str) -> list[str]:
    """Write the lines of the heading, each printable and without a line break."""
    manifest, expected = plan.manifest, plan.manifest.expected
    speed, usd = expected.samples_per_second, expected.usd_per_hour_interval
    each = "a step" if manifest.workers == 1 else "from exchange to exchange"
    lines = [
        f"{manifest.name} for {target}, {MARK}: change the manifest and export again.",
        f"manifest {shown(manifest.digest)}",
        f"catalog {shown(manifest.inputs.catalog)}, prices as of "
        f"{shown(manifest.inputs.as_of or 'unknown')}",
        f"expected {_range(speed)} samples/s, "
        f"{format_plain(expected.step_seconds['total'])} s {each}",
        f"expected cost {_range(usd)} USD/h",
    ]
    edited = (
        ["edited by hand: the expected figures are those of the plan before the edit"]
        if plan.edited
        else []
    )
    return [*lines, *edited]


def comments(lines: Iterable[str]) -> str:
    """Write lines as comments of a shell or YAML file."""
    return "".join(f"# {line}\n" for line in lines)


def shown(text: str) -> str:
    """Return a user's text on one line of bounded length."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 4]} ..."


def _range(figure: Range) -> str:
    """Format a figure with its interval, if that has a width."""
    value, low, high = (
        f"{part:,.0f}" if abs(part) >= 1000 else format_plain(part, 4)
        for part in (figure.value, figure.low, figure.high)
    )
    return value if low == value == high else f"{value} ({low} to {high})"

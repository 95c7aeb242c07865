"""What was proved about each strategy, for the terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from placer.cli.screen.tables import Sheet
from placer.documents.schemas.proofs import ModeProof
from placer.problem.placement import NO_EXCHANGE
from placer.solving.result import Result
from placer.units import format_number

METHOD_WORDS = {
    "alone": "every single machine tried",
    "root": "ruled out by its bound",
    "search": "searched",
    "stopped": "not finished",
}


def mode_name(mode: ModeProof) -> str:
    """Name a strategy with its local steps."""
    name = "one machine" if mode.strategy == NO_EXCHANGE else mode.strategy
    return name if mode.local_steps == 1 else f"{name} H={mode.local_steps}"


def proof_table(result: Result) -> RenderableType:
    """Build the table of what each strategy reaches at best."""
    end = "most" if result.objective.maximised else "least"
    bound_name = f"{result.objective.short_unit} at {end}"
    table = Sheet(
        ("strategy", bound_name, "how", "nodes", "priced"), right=(bound_name, "nodes", "priced")
    )
    for mode in result.proof:
        bound = _bound(mode)
        table.add_row(
            mode_name(mode), bound, METHOD_WORDS[mode.method], f"{mode.nodes:,}", f"{mode.priced:,}"
        )
    return Group(
        Text("\nProof (no placement of a strategy is better than its bound)", style="bold"), table
    )


def _bound(mode: ModeProof) -> str:
    if mode.bound is not None:
        return format_number(mode.bound)
    return "not known" if mode.method == "stopped" else "none fits"

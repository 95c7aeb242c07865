"""``placer bill``: an answer beside the bill for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placer.cli.command import Table, as_command
from placer.cli.screen.show import show
from placer.documents.json_file import read_json
from placer.interface.saved import bill

EXAMPLE = """\b
Examples:
  placer bill result.json focus.csv
  placer bill result.json focus.csv --period 2026-10-03/2026-10-05 --tag run=4711
  placer bill result.json focus.csv --hours 36 --cost effective --json
"""


@as_command("bill", EXAMPLE, of=bill)
def command(result: str, charges: str, *, as_json: Table, **words: Any) -> None:
    """Compare what an answer predicted with what a bill charges, by component.

    RESULT is what 'placer recommend -o' or 'placer estimate --json' wrote, BILL an export in the
    FinOps format FOCUS, which AWS, Azure, Google Cloud and others write. Charges are matched by
    place, type and market of machines, and by what they are for; what matches nothing is listed, as
    is what of the plan has no charge. Taxes, credits and purchases stand apart.

    result (RESULT):
    charges (BILL):
    """
    billed = bill(read_json(result), charges, name=Path(result).name, **words)
    show(billed.to_dict(), as_json=as_json)

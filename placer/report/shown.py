"""What all results have in common for people: a report, and a card in notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import to_builtins

from placer.files.whole_files import write_whole


class Shown:
    """A result with a JSON document, which reports are drawn from."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Build the JSON document of the result: its fields, where it is one itself."""
        document: dict[str, Any] = to_builtins(self)
        return document

    def to_shown(self) -> dict[str, Any]:
        """Build the document that a report is drawn from: with the rows of the price book where a
        saved file has them.
        """
        return self.to_dict()

    def report(self, path: str | Path | None = None, *, interactive: bool = False) -> str:
        """Write the report: one HTML page that loads nothing.

        Return its HTML, whether it was written or not. Raise `PlacerError` if the extra ``report``
        is not installed, or no browser prints the PDF.

        ``path``: where to write it; a name that ends with ``.pdf`` is printed by Chromium or
        another such browser. None: nowhere. ``interactive``: draw the charts with tooltips: about
        1 MB of scripts in the page.
        """
        from placer.report.page import page, pdf_of

        text = page({"this session": self.to_shown()}, interactive=interactive)
        if path is not None:
            target = Path(path)
            pdf = target.suffix.lower() == ".pdf"
            write_whole(target, pdf_of(text) if pdf else text.encode())
        return text

    def _repr_html_(self) -> str | None:
        """Show a card in a notebook; its text where the extra ``report`` is not installed."""
        from placer.report.page import card

        return card(self.to_shown())

"""What a terminal shows of an answer."""

from typing import Any

from placer.report.blocks import Report, asides, in_text
from placer.report.contents import contents
from placer.report.draw.terminal import report_lines


def drawn(answer: Any, *, whole: bool = False, width: int = 10_000) -> str:
    """Draw an answer, its document or its view as text, warnings and hints at the end."""
    if not isinstance(answer, Report):
        answer = contents(answer if isinstance(answer, dict) else answer.to_dict())
    lines = report_lines(in_text(answer, whole=whole), width)
    shown = ["".join(piece for piece, _ in line) for line in lines]
    return "\n".join([*shown, *(words for _, words in asides(answer, whole=whole))])

"""The gallery of the site: questions, the first chart of each answer, and its whole report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import placer
from placer.report.blocks import Chart
from placer.report.charts.drawing import drawn
from placer.report.contents import contents

DAY = date(2026, 11, 23)
"""From when ages are counted, so that two builds give the same pages."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A question with the command that asks it."""

    name: str
    title: str
    command: str
    ask: Callable[[], Any]


PICTURES = (
    Picture(
        name="one-region",
        title="One region is best",
        command="placer recommend --model roberta-xlm --budget 5/h --catalog erben-2023 "
        "--gpu T4,A10,V100 -o answer.json",
        ask=lambda: placer.recommend(
            "roberta-xlm", budget="5/h", catalog="erben-2023", gpu=["T4", "A10", "V100"]
        ),
    ),
    Picture(
        name="three-regions",
        title="Three regions, and what the ocean costs",
        command="placer recommend --model roberta-xlm --budget 20/h --catalog erben-2023 --gpu T4 "
        "--in 'gcp/*' --regions 3.. --workers ..6 -o answer.json",
        ask=lambda: placer.recommend(
            "roberta-xlm",
            budget="20/h",
            catalog="erben-2023",
            gpu=["T4"],
            places="gcp/*",
            regions="3..",
            workers="..6",
        ),
    ),
    Picture(
        name="language-model",
        title="A language model that fits no machine",
        command="placer recommend --model llama-3.1-70b --budget 200/h --gpu H100 --market spot "
        "--tokens 1B -o answer.json",
        ask=lambda: placer.recommend(
            "llama-3.1-70b", budget="200/h", gpu=["H100"], market="spot", tokens="1B"
        ),
    ),
    Picture(
        name="frontier",
        title="What each budget buys",
        command="placer pareto --model roberta-xlm --catalog erben-2023 --budget 20/h --points 6 "
        "-o answer.json",
        ask=lambda: placer.pareto("roberta-xlm", catalog="erben-2023", budget="20/h", points=6),
    ),
    Picture(
        name="uncertain",
        title="What it may lose if figures are wrong",
        command="placer robust --model roberta-xlm --budget 5/h --catalog erben-2023 "
        "--gpu T4,A10 --worlds 32 -o answer.json",
        ask=lambda: placer.robust(
            "roberta-xlm", budget="5/h", catalog="erben-2023", gpu=["T4", "A10"], worlds=32
        ),
    ),
)


def gallery_files() -> dict[str, str]:
    """Ask the questions, and return the page, pictures and reports by the names of their files."""
    files = {}
    lines = [
        "# Gallery",
        "",
        "Each picture is the first chart of a report. The report is one file that loads nothing.",
        "",
    ]
    for picture in PICTURES:
        answer = picture.ask()
        shown = contents(answer.to_dict(), today=DAY)
        chart = next(b for part in shown.sections for b in part.blocks if isinstance(b, Chart))
        files[f"{picture.name}.svg"] = drawn(chart.draw(), "svg").decode()
        files[f"{picture.name}.html"] = answer.report()
        lines += [
            f"## {picture.title}",
            "",
            shown.verdict,
            "",
            f"![{chart.title}]({picture.name}.svg)",
            "",
            f"```sh\n{picture.command}\nplacer report answer.json -o report.html\n```",
            "",
            f"[The report]({picture.name}.html)",
            "",
        ]
    files["index.md"] = "\n".join(lines)
    return files

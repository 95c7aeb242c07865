"""From documents to a page: HTML that loads nothing, a card for notebooks, a PDF."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Any

from placer.errors import PlacerError
from placer.records import replace
from placer.report.blocks import Block, Chart, Report, Section
from placer.report.charts.drawing import (
    altair,
    as_svg,
    jinja2,
    palette_css,
    specification,
    vl_convert,
)
from placer.report.contents import contents
from placer.version import __version__


def page(
    documents: Mapping[str, Any], *, interactive: bool = False, today: date | None = None
) -> str:
    """Write the page of one or several documents.

    ``documents``: by the name of their file, in the order in which they are shown. ``interactive``:
    draw the charts in the browser, with tooltips: about 1 MB of scripts in the page. ``today``:
    from when ages are counted; None: today. Return str: hTML with everything in it. Its policy
    forbids whatever is not in it. Raise `PlacerError` if a document cannot be shown, or a package
    of the extra ``report`` is missing.
    """
    environment, day = _environment(), today or date.today()
    markup = jinja2().utils.markupsafe.Markup
    reports = [
        _numbered(contents(document, name, day), number)
        for number, (name, document) in enumerate(documents.items(), start=1)
    ]
    scripts, specs = [_file("sort.js")], ""
    shown = [_with_drawings(report, markup) for report in reports]
    if interactive:
        charts = {
            chart.name: {"spec": specification(chart.draw()), "title": chart.title}
            for report in reports
            for chart in _charts(report)
        }
        specs = json.dumps(charts).replace("<", "\\u003c")
        scripts.append(_bundle())
    text: str = environment.get_template("page.html").render(
        reports=shown,
        policy=_policy(scripts),
        style=markup(palette_css() + _file("style.css")),
        scripts=[markup(script) for script in scripts],
        specs=markup(specs),
        version=__version__,
        today=day.isoformat(),
        files=", ".join(documents),
    )
    return text


def card(document: Any) -> str | None:
    """Write a short report for a notebook: the answer, its figures and its first charts.

    Return str or None: hTML; None where the extra ``report`` is not installed, so that the text is
    shown.
    """
    try:
        environment = _environment()
        altair()
        vl_convert()
    except PlacerError:
        return None
    markup = jinja2().utils.markupsafe.Markup
    report = _numbered(contents(document), hashlib.sha256(repr(document).encode()).hexdigest()[:8])
    charts = _charts(report)
    charts = [*charts[:1], *charts[1:][-1:]]
    kept = replace(report, sections=(Section(title="", blocks=tuple(charts)),))
    text: str = environment.get_template("card.html").render(
        report=kept,
        blocks=_with_drawings(kept, markup)["sections"][0]["blocks"],
        style=markup(palette_css().replace(":root", ".placer-card") + _file("style.css")),
    )
    return text


def _numbered(report: Report, number: int | str) -> Report:
    """Give each chart a name of its own on the page."""
    at, sections = 0, list[Section]()
    for part in report.sections:
        blocks = list[Block]()
        for block in part.blocks:
            if isinstance(block, Chart):
                at += 1
                blocks.append(replace(block, name=f"{block.name}-{number}-{at}"))
            else:
                blocks.append(block)
        sections.append(Section(title=part.title, blocks=tuple(blocks)))
    return replace(report, sections=tuple(sections))


def _charts(report: Report) -> list[Chart]:
    return [block for part in report.sections for block in part.blocks if isinstance(block, Chart)]


def _with_drawings(report: Report, markup: Any) -> dict[str, Any]:
    """Turn a report into what the template takes: charts drawn as SVG."""

    def block_for(block: Block) -> Any:
        if not isinstance(block, Chart):
            return block
        return {
            "kind": "chart",
            "id": block.name,
            "title": block.title,
            "svg": markup(_labelled(as_svg(block.draw()), block)),
            "table": block.table,
            "table_open": block.table_open,
            "note": block.note,
        }

    return {
        "title": report.title,
        "subtitle": report.subtitle,
        "verdict": report.verdict,
        "tone": report.tone,
        "figures": report.figures,
        "sections": [
            {
                "title": part.title,
                "number": number,
                "blocks": [block_for(block) for block in part.blocks],
            }
            for number, part in enumerate(report.sections, start=1)
        ],
    }


def _labelled(svg: str, chart: Chart) -> str:
    """Make a drawing one image with a name for those who hear the page, and its ids its own."""
    svg = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", svg)
    # Vega counts ids over all that a process draws: equal pages need names of their own.
    for number, name in enumerate(dict.fromkeys(re.findall(r'\bid="([\w-]+)"', svg))):
        for before, after in (('id="', '"'), ("url(#", ")")):
            svg = svg.replace(f"{before}{name}{after}", f"{before}{chart.name}-{number}{after}")
    label = html.escape(chart.title, quote=True)
    return re.sub(r"<svg ", lambda _: f'<svg role="img" aria-label="{label}" ', svg, count=1)


def _environment() -> Any:
    """Make the templates ready: what a document says is escaped wherever it stands."""
    engine = jinja2()
    return engine.Environment(
        loader=engine.FunctionLoader(_file),
        autoescape=True,
        undefined=engine.StrictUndefined,
        trim_blocks=True,
    )


@cache
def _file(name: str) -> str:
    return files("placer.report").joinpath(f"templates/{name}").read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Build the scripts that draw in the browser: Vega, Vega-Lite and Vega-Embed."""
    script: str = vl_convert().javascript_bundle(_file("charts.js"))
    return script.replace("</script", "<\\/script")


def _policy(scripts: Sequence[str]) -> str:
    """Write a policy under which nothing is loaded and only these scripts run."""
    digests = (
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    )
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )

"""From documents to a page: HTML that loads nothing, a card for notebooks, a PDF by a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from placer.errors import PlacerError
from placer.records import replace
from placer.report.blocks import Block, Chart, Report
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
    if interactive:
        charts = {
            chart.name: {"spec": specification(chart.draw()), "title": chart.title}
            for report in reports
            for chart in _charts(report)
        }
        specs = json.dumps(charts).replace("<", "\\u003c")
        scripts.append(_bundle())
    text: str = environment.get_template("page.html").render(
        reports=reports,
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
    text: str = environment.get_template("card.html").render(
        report=report,
        blocks=[*charts[:1], *charts[1:][-1:]],
        style=markup(palette_css().replace(":root", ".placer-card") + _file("style.css")),
    )
    return text


def _numbered(report: Report, number: int | str) -> Report:
    """Give each chart a name of its own on the page."""
    at = count(1)

    def named(block: Block) -> Block:
        if not isinstance(block, Chart):
            return block
        return replace(block, name=f"{block.name}-{number}-{next(at)}")

    parts = [replace(part, blocks=tuple(map(named, part.blocks))) for part in report.sections]
    return replace(report, sections=tuple(parts))


def _charts(report: Report) -> list[Chart]:
    return [block for part in report.sections for block in part.blocks if isinstance(block, Chart)]


def _drawn(chart: Chart) -> str:
    """Draw a chart as one image with a name for those who hear the page, and its ids its own."""
    svg = re.sub(r' (?:aria-[a-z]+|role)="[^"]*"', "", as_svg(chart.draw()))
    # Vega counts ids over all that a process draws: equal pages need names of their own.
    for number, name in enumerate(dict.fromkeys(re.findall(r'\bid="([\w-]+)"', svg))):
        for before, after in (('id="', '"'), ("url(#", ")")):
            svg = svg.replace(f"{before}{name}{after}", f"{before}{chart.name}-{number}{after}")
    label = html.escape(chart.title, quote=True)
    return re.sub(r"<svg ", lambda _: f'<svg role="img" aria-label="{label}" ', svg, count=1)


def _environment() -> Any:
    """Make the templates ready: what a document says is escaped wherever it stands."""
    engine = jinja2()
    made = engine.Environment(
        loader=engine.FunctionLoader(_file),
        autoescape=True,
        undefined=engine.StrictUndefined,
        trim_blocks=True,
    )
    made.filters["drawn"] = _drawn
    return made


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


BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
"""Names under which browsers that print PDF are installed."""
LONGEST_S = 60.0
"""A page takes about 2 s."""


def pdf_of(page: str) -> bytes:
    """Print a page.

    Raise `PlacerError` if no such browser is installed, or it fails.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="placer-report-") as folder:
        source, target = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={target}",
            # Chromium refuses to sandbox itself for root, as in most containers. The page holds no
            # script that its policy does not name.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            source.as_uri(),
        ]
        try:
            done = subprocess.run(  # noqa: S603 - a browser by its name, and files of our own
                command, capture_output=True, timeout=LONGEST_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(browser, str(error)) from None
        if not target.exists():
            raise _failed(browser, done.stderr.decode(errors="replace").strip()[-200:])
        return target.read_bytes()


def find_browser() -> str:
    """Find a browser that prints PDF: ``$PLACER_BROWSER``, else one of `BROWSERS`.

    Raise `PlacerError` if there is none.
    """
    wanted = os.environ.get("PLACER_BROWSER")
    for name in (wanted,) if wanted else BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    missing = f"'{wanted}' of PLACER_BROWSER" if wanted else "no browser that prints PDF"
    raise PlacerError(
        f"{missing} is not installed" if wanted else f"{missing} is installed",
        "install Chromium (apt-get install chromium), or write HTML with -o report.html and print "
        "it from any browser",
    )


def _failed(browser: str, words: str) -> PlacerError:
    return PlacerError(
        f"{browser} did not print the report: {words}",
        "write HTML with -o report.html and print it from any browser",
        exit_code=1,
    )

"""From a chart to an image: one palette, one style, SVG, PNG or PDF."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from placer.errors import installed, unknown

FORMATS = ("svg", "png", "pdf")
"""What a drawing can be written as."""
WIDTH = 680
"""Of every chart in pixels."""
SCALE = 2
"""Pixels of a PNG over those of the chart."""
LAND = "land"
"""Stands for the outlines of `land` until a chart is written: Altair copies what it is given."""
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
PALETTE = {
    "ink": ("#1b2430", "#e7ecf2"),
    "soft": ("#526071", "#a5b1bf"),
    "line": ("#d3d9e0", "#37424f"),
    "land": ("#e6eaef", "#29323d"),
    "shade": ("#f4f6f8", "#1a212a"),
    "paper": ("#ffffff", "#11161c"),
    "main": ("#0b5cad", "#6db3ff"),
    "pale": ("#9cc3e8", "#2f5f91"),
    "warm": ("#b4540a", "#f2a45f"),
    "bad": ("#a3262a", "#ff8a80"),
    "free": ("#7f8c9b", "#8b98a8"),
    "cheap": ("#d6a24a", "#e6bd6a"),
    "dear": ("#c8641c", "#f08a45"),
    "dearest": ("#8e1f2f", "#ff6b7d"),
}
"""Colours on white and on a dark page: blue for the answer, grey beside it, red for money."""
LIGHT, DARK = ({name: pair[dark] for name, pair in PALETTE.items()} for dark in (0, 1))


def colour(name: str) -> str:
    """Return a colour of the palette as a page sets it, so that one drawing fits light and dark.

    >>> colour("main")
    'var(--main)'
    """
    return f"var(--{name})"


def altair() -> Any:
    """Import Altair, once a chart is drawn.

    Raise `PlacerError` if a package of the extra ``report`` is missing.
    """
    return _needed("altair")


def jinja2() -> Any:
    """Import Jinja2, once a page is made; raises as `altair` does."""
    return _needed("jinja2")


def vl_convert() -> Any:
    """Import the renderer of charts; raises as `altair` does."""
    return _needed("vl_convert")


def _needed(module: str) -> Any:
    return installed(module, f"reports need {module.replace('_', '-')}", "report")


def specification(chart: Any) -> dict[str, Any]:
    """Build the Vega-Lite specification of a chart in placer's style."""
    ink, soft, line = colour("ink"), colour("soft"), colour("line")
    words = {
        "labelColor": soft,
        "labelFontSize": 12,
        "titleColor": soft,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    written: dict[str, Any] = chart.to_dict(validate=False)
    for layer in written.get("layer", ()):
        if layer.get("data", {}).get("values") == LAND:
            layer["data"]["values"] = land()
    written["config"] = {
        "background": None,
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **words,
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelLimit": 320,
            "labelPadding": 6,
        },
        "legend": words,
        "text": {"color": ink, "fontSize": 12, "font": FONT},
        "aria": False,
    }
    return written


@cache
def land() -> Mapping[str, Any]:
    """Read the outlines of land: TopoJSON with the object ``land``."""
    text = files("placer.report").joinpath("land/land-110m.json").read_text(encoding="utf-8")
    outlines: Mapping[str, Any] = json.loads(text)
    return outlines


def as_svg(chart: Any) -> str:
    """Draw a chart as SVG whose colours are those of the page around it."""
    svg: str = vl_convert().vegalite_to_svg(specification(chart))
    return re.sub(r"(\.\d\d)\d+", r"\1", svg)


def drawn(chart: Any, ending: str) -> bytes:
    """Draw a chart as the contents of a file of one of `FORMATS`, in the light colours."""
    spec = json.loads(fixed_colours(json.dumps(specification(chart)), LIGHT))
    spec["config"]["background"] = LIGHT["paper"]
    renderer = vl_convert()
    if ending == "png":
        return bytes(renderer.vegalite_to_png(spec, scale=SCALE))
    if ending == "pdf":
        return bytes(renderer.vegalite_to_pdf(spec))
    return str(renderer.vegalite_to_svg(spec)).encode()


def fixed_colours(text: str, palette: dict[str, str]) -> str:
    """Put the colours of a palette in place of their names."""
    return re.sub(r"var\(--(\w+)\)", lambda match: palette[match[1]], text)


def check_drawing(path: str) -> str:
    """Return the format of a drawing by the ending of its name; refuse, before anything is
    computed, one that could not be made.

    Raise `PlacerError` if the ending is unknown, or a package is not installed.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in FORMATS:
        raise unknown("plot format", ending or path, FORMATS)
    altair()
    vl_convert()
    return ending


@cache
def palette_css() -> str:
    """Write both palettes as custom properties of CSS."""

    def rule(palette: dict[str, str]) -> str:
        return ";".join(f"--{name}:{value}" for name, value in palette.items())

    return (
        f":root{{color-scheme:light dark;{rule(LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{rule(DARK)}}}}}"
        f"@media print{{:root{{color-scheme:light;{rule(LIGHT)}}}}}"
    )

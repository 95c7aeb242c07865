"""A map: sites by workers, links by what they carry and cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from placer.report.charts.drawing import LAND, WIDTH, altair, colour

LOWEST, HIGHEST = -57.0, 77.0
"""Latitudes of the map: Antarctica has no region."""
NARROWEST_DEG = 110.0
"""Least longitudes that are shown, so that one can tell where on the globe it is."""
MARGIN_DEG = 9.0
ASPECT = 0.48
"""Height of the map over its width, at most."""
PRICE_CLASSES = (
    ("free", 0.0, "free"),
    ("up to $0.02/GiB", 0.02, "cheap"),
    ("up to $0.09/GiB", 0.09, "dear"),
    ("above $0.09/GiB", math.inf, "dearest"),
)
"""Prices of egress: name, highest price in USD per GiB, colour. Between regions of one provider and
continent most price lists have 0.02; to the internet 0.09 is the usual first tier.
"""
WIDEST, NARROWEST = 7.0, 1.5
"""Pixels of a link."""
LABEL_PX = (6.4, 15.0)
"""Width of a letter and height of a line, about."""
MOST_LINK_LABELS = 4
WAY_STEPS = 24
"""Parts of a link, at whose ends labels are kept off it."""


class Site(Struct, frozen=True, kw_only=True):
    """A place with coordinates; ``workers`` is 0 for one that was only considered."""

    place: str
    label: str
    latitude_deg: float
    longitude_deg: float
    workers: int


class Link(Struct, frozen=True, kw_only=True):
    """What two places send each other, both directions together."""

    ends: tuple[str, str]
    bytes_per_hour: float
    usd_per_gib: float


class Window(Struct, frozen=True, kw_only=True):
    """The part of the globe that is shown, in degrees, and its height in pixels."""

    west: float
    east: float
    south: float
    north: float
    height: float

    @property
    def px_per_degree(self) -> float:
        """Pixels of a degree, the same along both axes."""
        return WIDTH / (self.east - self.west)

    def xy(self, longitude_deg: float, latitude_deg: float) -> tuple[float, float]:
        """Return where a point lies in pixels from the upper left."""
        return (
            (longitude_deg - self.west) * self.px_per_degree,
            (self.north - latitude_deg) * self.px_per_degree,
        )


def price_class(usd_per_gib: float) -> str:
    """Return the name of the class of a price.

    >>> price_class(0.0), price_class(0.02), price_class(0.12)
    ('free', 'up to $0.02/GiB', 'above $0.09/GiB')
    """
    return next(name for name, most, _ in PRICE_CLASSES if usd_per_gib <= most + 1e-9)


def window_of(sites: Sequence[Site]) -> Window:
    """Choose what is shown: all sites with a margin, at least `NARROWEST_DEG` wide."""
    lons, lats = [s.longitude_deg for s in sites], [s.latitude_deg for s in sites]
    south, north = min(lats) - MARGIN_DEG, max(lats) + MARGIN_DEG
    wide = max(max(lons) - min(lons) + 2 * MARGIN_DEG, NARROWEST_DEG, (north - south) / ASPECT)
    if wide > 300:
        return Window(
            west=-180.0,
            east=180.0,
            south=LOWEST,
            north=HIGHEST,
            height=WIDTH * (HIGHEST - LOWEST) / 360,
        )
    west = min(max((min(lons) + max(lons) - wide) / 2, -180.0), 180.0 - wide)
    tall = min(wide * ASPECT, HIGHEST - LOWEST)
    south = min(max((south + north - tall) / 2, LOWEST), HIGHEST - tall)
    return Window(
        west=west, east=west + wide, south=south, north=south + tall, height=WIDTH * tall / wide
    )


def world_map(sites: Sequence[Site], links: Sequence[Link]) -> Any:
    """Draw land, links and sites.

    ``sites``: with workers, and those that were considered; at least one. ``links``: between
    different sites.
    """
    alt, window = altair(), window_of(sites)
    # Antarctica and all else that the window leaves out is clipped, and not written.
    data = alt.Data(values=LAND, format={"type": "topojson", "feature": "land"})
    layers = [alt.Chart(data).mark_geoshape(fill=colour("land"), stroke=None, clip=True)]
    if links:
        layers.append(_links(sites, links))
    idle = [site for site in sites if not site.workers]
    used = [site for site in sites if site.workers]
    if idle:
        layers.append(_dots(idle, window, filled=False))
    at = {site.place: site for site in sites}
    labels = _site_labels(used, at, links, window)
    layers += [_dots(used, window, filled=True), _labels(labels, "ink")]
    if 0 < len(links) <= MOST_LINK_LABELS:
        layers.append(_labels(_link_labels(at, links, window, labels), "soft"))
    across = (window.west + window.east) / 2
    return (
        alt.layer(*layers)
        .project(
            type="equirectangular",
            scale=window.px_per_degree * 180 / math.pi,
            center=[across, (window.south + window.north) / 2],
            translate=[WIDTH / 2, window.height / 2],
            clipExtent=[[0, 0], [WIDTH, window.height]],
        )
        .properties(width=WIDTH, height=window.height)
        .resolve_scale(size="independent")
    )


def _links(sites: Sequence[Site], links: Sequence[Link]) -> Any:
    alt = altair()
    at = {site.place: [site.longitude_deg, site.latitude_deg] for site in sites}
    most = max(link.bytes_per_hour for link in links)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": [at[end] for end in link.ends]},
            "price": price_class(link.usd_per_gib),
            "wide": max(NARROWEST, WIDEST * link.bytes_per_hour / most),
            "pair": " and ".join(link.ends),
            "GB an hour": round(link.bytes_per_hour / 1e9, 3),
            "USD per GiB": round(link.usd_per_gib, 4),
        }
        for link in sorted(links, key=lambda link: -link.bytes_per_hour)
    ]
    shown = {str(feature["price"]) for feature in features}
    classes = [row for row in PRICE_CLASSES if row[0] in shown]
    return (
        alt.Chart(alt.Data(values=features))
        .mark_geoshape(filled=False, strokeCap="round", clip=True)
        .encode(
            stroke=alt.Stroke(
                "price:N",
                scale=alt.Scale(
                    domain=[name for name, _, _ in classes],
                    range=[colour(shade) for _, _, shade in classes],
                ),
                legend=alt.Legend(
                    title="egress",
                    orient="top",
                    symbolType="stroke",
                    symbolStrokeWidth=4,
                    direction="horizontal",
                ),
            ),
            strokeWidth=alt.StrokeWidth("wide:Q", scale=None, legend=None),
            tooltip=["pair:N", "GB an hour:Q", "USD per GiB:Q"],
        )
    )


def _dots(sites: Sequence[Site], window: Window, *, filled: bool) -> Any:
    alt = altair()
    rows = [
        {"lon": s.longitude_deg, "lat": s.latitude_deg, "place": s.place, "workers": s.workers}
        for s in sites
        if window.west <= s.longitude_deg <= window.east
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        longitude="lon:Q", latitude="lat:Q", tooltip=["place:N", "workers:Q"]
    )
    if not filled:
        return base.mark_circle(
            size=26, fill=colour("paper"), stroke=colour("soft"), strokeWidth=1.2, opacity=1
        )
    most = max(s.workers for s in sites)
    return base.mark_circle(
        fill=colour("main"), stroke=colour("paper"), strokeWidth=1.5, opacity=1
    ).encode(
        size=alt.Size("workers:Q", scale=alt.Scale(domain=[0, most], range=[50, 330]), legend=None)
    )


class _Label(Struct, frozen=True, kw_only=True):
    text: str
    x: float
    y: float

    @property
    def half(self) -> float:
        """Half of its width in pixels."""
        return len(self.text) * LABEL_PX[0] / 2


def _site_labels(
    sites: Sequence[Site], at: Mapping[str, Site], links: Sequence[Link], window: Window
) -> list[_Label]:
    """Put each label beside, above or below its site: where it stays on the map, meets no other
    label and lies on the fewest links; of equal places the first, away from where its links go.
    """
    labels: list[_Label] = []
    ways = [
        window.xy(*_between(at[link.ends[0]], at[link.ends[1]], step / WAY_STEPS))
        for link in links
        for step in range(WAY_STEPS + 1)
    ]
    for site in sorted(sites, key=lambda site: -site.workers):
        x, y = window.xy(site.longitude_deg, site.latitude_deg)
        half = len(site.label) * LABEL_PX[0] / 2
        joined = [at[end] for link in links if site.place in link.ends for end in link.ends]
        goes_east = sum(end.longitude_deg - site.longitude_deg for end in joined) > 0
        side = -1 if goes_east else 1
        shifts = [
            (side * (half + 13), 0.0),
            (0.0, 21.0),
            (0.0, -21.0),
            (side * (half + 6), 19.0),
            (side * (half + 6), -19.0),
            (-side * (half + 6), 19.0),
            (-side * (half + 6), -19.0),
            (-side * (half + 13), 0.0),
        ]
        tried = [_Label(text=site.label, x=x + right, y=y + down) for right, down in shifts]
        free = [one for one in tried if _is_inside(one, window) and not _meets(one, labels)]
        if free:
            labels.append(min(free, key=lambda one: sum(_covers(one, at) for at in ways)))
    return labels


def _covers(label: _Label, point: tuple[float, float]) -> bool:
    """Tell whether a label lies on a point of a link."""
    across, down = label.half + 2, LABEL_PX[1] / 2 + WIDEST / 2
    return abs(label.x - point[0]) < across and abs(label.y - point[1]) < down


def _is_inside(label: _Label, window: Window) -> bool:
    return label.half <= label.x <= WIDTH - label.half and 8 <= label.y <= window.height - 8


def _meets(label: _Label, others: Sequence[_Label]) -> bool:
    return any(
        abs(label.x - other.x) < label.half + other.half + 4
        and abs(label.y - other.y) < LABEL_PX[1]
        for other in others
    )


def _link_labels(
    at: Mapping[str, Site], links: Sequence[Link], window: Window, taken: Sequence[_Label]
) -> list[_Label]:
    """Write what a link carries and costs at its middle, where there is room."""
    labels: list[_Label] = []
    for link in links:
        x, y = window.xy(*_between(at[link.ends[0]], at[link.ends[1]], 0.5))
        text = f"{link.bytes_per_hour / 1e9:,.0f} GB/h"
        for shift in (-12, 14):
            label = _Label(text=text, x=x, y=y + shift)
            if _is_inside(label, window) and not _meets(label, [*taken, *labels]):
                labels.append(label)
                break
    return labels


def _between(a: Site, b: Site, share: float) -> tuple[float, float]:
    """Return longitude and latitude of a point of the great circle from one site to another, in
    degrees: ``share`` of the straight line through the globe lies before it.
    """

    def vector(site: Site) -> tuple[float, float, float]:
        lat, lon = math.radians(site.latitude_deg), math.radians(site.longitude_deg)
        return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)

    pairs = zip(vector(a), vector(b), strict=True)
    x, y, z = ((1 - share) * p + share * q for p, q in pairs)
    return math.degrees(math.atan2(y, x)), math.degrees(math.atan2(z, math.hypot(x, y)))


def _labels(labels: Sequence[_Label], shade: str) -> Any:
    alt = altair()
    return (
        alt.Chart(alt.Data(values=[asdict(one) for one in labels]))
        .mark_text(
            color=colour(shade),
            fontSize=12,
            fontWeight=600 if shade == "ink" else 400,
            stroke=colour("paper"),
            strokeWidth=0,
        )
        .encode(
            x=alt.X("x:Q", scale=None, axis=None),
            y=alt.Y("y:Q", scale=None, axis=None),
            text="text:N",
        )
    )

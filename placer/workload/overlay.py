"""What a user's own runs put over the published figures: host constants, kappa, speeds of devices
and links.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, astuple

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.market.catalog import Catalog, MeasuredLink
from placer.market.network.graph import network_of
from placer.records import Json, Natural, Positive, Share, replace
from placer.version import __version__
from placer.workload.constants import (
    PUBLISHED,
    Calibration,
    HostConstants,
    ServiceConstants,
    drop_unused,
    peer_of,
)
from placer.workload.measurement import build, check_keys
from placer.workload.profile import Efficiency, ModelProfile, Rate

SCHEMA = "placer.calibration/v1"
FAMILY = "placer.calibration/v"
WRITE = "make it with placer profile runs RUNS.csv -o FILE"
WRITE_AGAIN = "write it again with placer profile runs"
RowType = TypeVar("RowType", Rate, Efficiency)


class LinkSpeed(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Effective bandwidth of one TCP stream from ``src`` to ``dst``; the round-trip time stays as
    the book knows it.
    """

    src: str
    dst: str
    gbps_one_stream: Positive
    gbps_low: Positive
    gbps_high: Positive
    source: str
    as_of: str

    def __post_init__(self) -> None:
        """Refuse bandwidths that are not positive and ordered."""
        if not 0 < self.gbps_low <= self.gbps_one_stream <= self.gbps_high < float("inf"):
            low, value, high = self.gbps_low, self.gbps_one_stream, self.gbps_high
            raise PlacerError(
                f"link {self.src}:{self.dst} has {low} .. {value} .. {high} Gb/s",
                "0 < low <= value <= high",
            )


class Triple(Struct, frozen=True, forbid_unknown_fields=True):
    """Multiples of a time: 0 < fast <= value <= slow."""

    value: Positive
    slow: Positive
    fast: Positive


class CalibratedRate(Rate, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measured speed of one machine with one model."""

    model: str


class CalibratedEfficiency(Efficiency, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measured local rate under a framework over the rate alone."""

    model: str


class FirstFigures(Struct, frozen=True, kw_only=True):
    """What files of all versions say of the timing model."""

    name: str
    hosts: dict[str, HostConstants]
    kappa: Triple
    averaging_spread: Triple
    spreads: dict[str, Triple]
    most_workers: Natural
    rates: list[CalibratedRate]
    efficiencies: list[CalibratedEfficiency]
    links: list[LinkSpeed]


class Figures(FirstFigures, frozen=True, kw_only=True):
    """The part of an overlay file that placer reads back."""

    site_kappa: Triple
    ring_kappa: Triple
    stream_power: Share
    server_sum_bytes_per_s: Positive | None


KEYS = (
    *("schema", "created", "placer_version", "catalog", "runs", "report"),
    *Figures.__struct_fields__,
)
"""Keys of an overlay file; ``report`` is for people and changes nothing."""
TRIPLES = ("kappa", "site_kappa", "ring_kappa", "averaging_spread")
LATER_OF_HOSTS = ("s_per_gb_sent", "least_period_s")
"""What files of earlier versions do not say of a host, and is 0 there."""


class Overlay(Struct, frozen=True, kw_only=True):
    """A calibration with the speeds of devices and links that came out of the same runs."""

    calibration: Calibration
    rates: tuple[CalibratedRate, ...] = ()
    efficiencies: tuple[CalibratedEfficiency, ...] = ()
    links: tuple[LinkSpeed, ...] = ()

    def over_profile(self, profile: ModelProfile) -> ModelProfile:
        """Put measured speeds over those of a profile of the same name."""

        def own(kind: type[RowType], rows: Iterable[Any]) -> list[RowType]:
            named = [row for row in rows if row.model == profile.name]
            return [kind(**{n: getattr(row, n) for n in kind.__struct_fields__}) for row in named]

        rates = {_rate_key(row): row for row in own(Rate, self.rates)}
        efficiencies = {row.framework: row for row in own(Efficiency, self.efficiencies)}
        if not rates and not efficiencies:
            return profile
        return replace(
            profile,
            rates=(*(r for r in profile.rates if _rate_key(r) not in rates), *rates.values()),
            efficiency=(
                *(e for e in profile.efficiency if e.framework not in efficiencies),
                *efficiencies.values(),
            ),
        )

    def over_catalog(self, catalog: Catalog) -> Catalog:
        """Put measured links over those of a book; links to places it lacks are left out."""
        known = catalog.regions.keys()
        mine = [link for link in self.links if {link.src, link.dst} <= known]
        return with_link_speeds(catalog, mine)


def with_link_speeds(catalog: Catalog, speeds: Sequence[LinkSpeed]) -> Catalog:
    """Put measured bandwidths over the links of a catalog; round-trip times stay."""
    if not speeds:
        return catalog
    network, rows = network_of(catalog), {(link.src, link.dst): link for link in catalog.links}
    for link in speeds:
        rows[link.src, link.dst] = MeasuredLink(
            **asdict(link), rtt_ms=network.link(link.src, link.dst).rtt_s * 1e3, basis="measured"
        )
    return replace(catalog, links=tuple(rows.values()))


NOTHING = Overlay(calibration=PUBLISHED)
"""The published figures as they are."""


def as_overlay(given: str | os.PathLike[str] | Calibration | Overlay | None) -> Overlay:
    """Take an overlay, bare constants, the name of an overlay file, or nothing."""
    if given is None:
        return NOTHING
    if isinstance(given, Calibration):
        return Overlay(calibration=given)
    return given if isinstance(given, Overlay) else read_overlay(str(os.fspath(given)))


def read_overlay(path: str) -> Overlay:
    """Read what ``placer profile runs -o`` wrote; a `PlacerError` names the file."""
    try:
        data = bounded(path, WRITE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise PlacerError(f"cannot read calibration '{path}': {reason}", WRITE) from None
    try:
        raw = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise PlacerError(f"{path}: not valid JSON: {error}", WRITE_AGAIN) from None
    return overlay_from(raw, path)


def overlay_from(raw: Any, where: str) -> Overlay:
    """Check and convert an overlay document; ``where`` names it in each `PlacerError`."""
    schema = raw.get("schema") if isinstance(raw, Mapping) else None
    if schema != SCHEMA:
        words, hint = f"not a {SCHEMA} file", f'its "schema" must be "{SCHEMA}"; {WRITE_AGAIN}'
        if isinstance(schema, str) and re.fullmatch(f"{FAMILY}[0-9]+", schema):
            words, hint = f"schema {schema} is newer", f"this placer reads {SCHEMA}: update placer"
        raise PlacerError(f"{where}: {words}", hint)
    check_keys(raw, KEYS, where, WRITE_AGAIN)
    for key in ("hosts", "spreads", "report", "catalog", "runs"):
        if not isinstance(raw[key], Mapping):
            raise PlacerError(f"{where}: {key} is not an object", WRITE_AGAIN)
    first = [name for name in HostConstants.__struct_fields__ if name not in LATER_OF_HOSTS]
    for key, kind in (("hosts", HostConstants), ("spreads", Triple)):
        for host, row in raw[key].items():
            if host not in PUBLISHED.hosts and peer_of(host) is None:
                error = unknown("host class", host, PUBLISHED.hosts)
                raise PlacerError(f"{where}: {error.message}", error.hint)
            if kind is HostConstants:
                check_keys(row, first, f"{where}: {key}.{host}", WRITE_AGAIN, LATER_OF_HOSTS)
            build(kind, row, f"{where}: {key}.{host}", WRITE_AGAIN)
    told = {name: raw[name] for name in Figures.__struct_fields__}
    figures: Figures = build(Figures, told, where, WRITE_AGAIN)
    try:
        return _overlay(figures)
    except PlacerError as error:
        raise PlacerError(f"{where}: {error.message}", error.hint) from None


def _overlay(figures: Figures) -> Overlay:
    """Put figures over the published ones; host classes that a file does not have stay so."""
    return Overlay(
        calibration=Calibration(
            name=figures.name,
            hosts={**PUBLISHED.hosts, **figures.hosts},
            spreads={host: astuple(row) for host, row in figures.spreads.items()},
            most_workers=figures.most_workers,
            services=ServiceConstants(server_sum_bytes_per_s=figures.server_sum_bytes_per_s),
            stream_power=figures.stream_power,
            **{name: astuple(getattr(figures, name)) for name in TRIPLES},
        ),
        rates=tuple(figures.rates),
        efficiencies=tuple(figures.efficiencies),
        links=tuple(figures.links),
    )


def overlay_document(
    overlay: Overlay, created: str, catalog: Catalog, runs: Json, report: Json
) -> dict[str, Any]:
    """Build the document of an overlay file: what placer reads back, the book and the file of the
    ``runs`` behind it, and a ``report`` for people.
    """
    fitted = overlay.calibration
    figures = Figures(
        name=fitted.name,
        hosts=dict(fitted.hosts),
        stream_power=fitted.stream_power,
        server_sum_bytes_per_s=fitted.services.server_sum_bytes_per_s,
        spreads={host: Triple(*spread) for host, spread in fitted.spreads.items()},
        most_workers=fitted.most_workers,
        rates=list(overlay.rates),
        efficiencies=list(overlay.efficiencies),
        links=list(overlay.links),
        **{name: Triple(*getattr(fitted, name)) for name in TRIPLES},
    )
    document: dict[str, Any] = to_builtins(figures)
    for host in document["hosts"].values():
        drop_unused(host)
    return {
        "schema": SCHEMA,
        "name": document.pop("name"),
        "created": created,
        "placer_version": __version__,
        "catalog": {"name": catalog.name, "digest": catalog.digest},
        "runs": runs,
        **document,
        "report": report,
    }


def _rate_key(rate: Rate) -> tuple[str, int, str]:
    return rate.gpu, rate.gpu_count, rate.framework

"""What a user's own runs put over the published figures: host constants, kappa, speeds of devices
and links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from placer.errors import PlacerError, unknown
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.market.catalog import Catalog, MeasuredLink
from placer.market.network.graph import network_of
from placer.records import Positive, replace
from placer.workload.constants import (
    PUBLISHED,
    Calibration,
    HostConstants,
    calibration_document,
    peer_of,
)
from placer.workload.measurement import build, check_keys
from placer.workload.profile import Efficiency, ModelProfile, Rate

SCHEMA = "placer.calibration/v1"
FAMILY = "placer.calibration/v"
KEYS = (
    *(
        "schema",
        "name",
        "created",
        "placer_version",
        "catalog",
        "runs",
        "hosts",
        "kappa",
        "site_kappa",
        "ring_kappa",
        "stream_power",
        "averaging_spread",
        "server_sum_bytes_per_s",
    ),
    *("spreads", "most_workers", "rates", "efficiencies", "links", "report"),
)
"""Keys of an overlay file; ``report`` is for people and changes nothing."""
WRITE = "make it with placer profile runs RUNS.csv -o FILE"
WRITE_AGAIN = "write it again with placer profile runs"


class ModelRate(Struct, frozen=True, kw_only=True):
    """Measured speed of one machine with one model."""

    model: str
    rate: Rate


class ModelEfficiency(Struct, frozen=True, kw_only=True):
    """Measured rate under a framework over the rate alone, for unmeasured devices of a model."""

    model: str
    efficiency: Efficiency


class LinkSpeed(Struct, frozen=True, kw_only=True):
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


class Overlay(Struct, frozen=True, kw_only=True):
    """A calibration with the speeds of devices and links that came out of the same runs."""

    calibration: Calibration
    rates: tuple[ModelRate, ...] = ()
    efficiencies: tuple[ModelEfficiency, ...] = ()
    links: tuple[LinkSpeed, ...] = ()

    def over_profile(self, profile: ModelProfile) -> ModelProfile:
        """Put measured speeds over those of a profile of the same name."""
        rates = {_rate_key(row.rate): row.rate for row in self.rates if row.model == profile.name}
        efficiencies = {
            row.efficiency.framework: row.efficiency
            for row in self.efficiencies
            if row.model == profile.name
        }
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
        mine = [
            link
            for link in self.links
            if link.src in catalog.regions and link.dst in catalog.regions
        ]
        return with_link_speeds(catalog, mine)


def with_link_speeds(catalog: Catalog, speeds: Sequence[LinkSpeed]) -> Catalog:
    """Put measured bandwidths over the links of a catalog; round-trip times stay."""
    if not speeds:
        return catalog
    network, rows = network_of(catalog), {(link.src, link.dst): link for link in catalog.links}
    for link in speeds:
        rows[link.src, link.dst] = MeasuredLink(
            src=link.src,
            dst=link.dst,
            gbps_one_stream=link.gbps_one_stream,
            gbps_low=link.gbps_low,
            gbps_high=link.gbps_high,
            rtt_ms=network.link(link.src, link.dst).rtt_s * 1e3,
            basis="measured",
            source=link.source,
            as_of=link.as_of,
        )
    return replace(catalog, links=tuple(rows.values()))


NOTHING = Overlay(calibration=PUBLISHED)
"""The published figures as they are."""


def as_overlay(given: str | os.PathLike[str] | Calibration | Overlay | None) -> Overlay:
    """Take an overlay, bare constants, the name of an overlay file, or nothing."""
    if given is None:
        return NOTHING
    if isinstance(given, Overlay):
        return given
    return (
        Overlay(calibration=given)
        if isinstance(given, Calibration)
        else read_overlay(str(os.fspath(given)))
    )


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
        newer = (
            isinstance(schema, str)
            and schema.startswith(FAMILY)
            and schema.removeprefix(FAMILY).isdigit()
        )
        hint = (
            f"this placer reads {SCHEMA}: update placer"
            if newer
            else f'its "schema" must be "{SCHEMA}"; {WRITE_AGAIN}'
        )
        raise PlacerError(
            f"{where}: {f'schema {schema} is newer' if newer else f'not a {SCHEMA} file'}", hint
        )
    check_keys(raw, KEYS, where, WRITE_AGAIN)
    try:
        return Overlay(
            calibration=_calibration(raw, where),
            rates=tuple(
                ModelRate(model=row.pop("model"), rate=_row(Rate, row, at))
                for row, at in _rows(raw, "rates", Rate, where)
            ),
            efficiencies=tuple(
                ModelEfficiency(model=row.pop("model"), efficiency=_row(Efficiency, row, at))
                for row, at in _rows(raw, "efficiencies", Efficiency, where)
            ),
            links=tuple(
                _row(LinkSpeed, row, at) for row, at in _rows(raw, "links", LinkSpeed, where, ())
            ),
        )
    except PlacerError as error:
        message = error.message if error.message.startswith(where) else f"{where}: {error.message}"
        raise PlacerError(message, error.hint) from None


def overlay_document(overlay: Overlay) -> dict[str, Any]:
    """Build the part of an overlay file that placer reads back."""
    import msgspec

    fitted = overlay.calibration
    return {
        "name": fitted.name,
        "hosts": calibration_document(fitted)["hosts"],
        "kappa": _triple(fitted.kappa),
        "site_kappa": _triple(fitted.site_kappa),
        "ring_kappa": _triple(fitted.ring_kappa),
        "stream_power": fitted.stream_power,
        "averaging_spread": _triple(fitted.averaging_spread),
        "server_sum_bytes_per_s": fitted.services.server_sum_bytes_per_s,
        "spreads": {host: _triple(spread) for host, spread in fitted.spreads.items()},
        "most_workers": fitted.most_workers,
        "rates": [{"model": row.model, **msgspec.to_builtins(row.rate)} for row in overlay.rates],
        "efficiencies": [
            {"model": row.model, **msgspec.to_builtins(row.efficiency)}
            for row in overlay.efficiencies
        ],
        "links": [msgspec.to_builtins(link) for link in overlay.links],
    }


def _calibration(raw: Mapping[str, Any], where: str) -> Calibration:
    """Build the constants; host classes that a file does not have stay as published."""
    for key in ("hosts", "spreads", "report", "catalog", "runs"):
        if not isinstance(raw[key], Mapping):
            raise PlacerError(f"{where}: {key} is not an object", WRITE_AGAIN)
    for host in (*raw["hosts"], *raw["spreads"]):
        if host not in PUBLISHED.hosts and peer_of(host) is None:
            error = unknown("host class", host, PUBLISHED.hosts)
            raise PlacerError(f"{where}: {error.message}", error.hint)
    made: Calibration = build(
        Calibration,
        {
            "name": raw["name"],
            "hosts": {
                **PUBLISHED.hosts,
                **{
                    host: _host(row, f"{where}: hosts.{host}") for host, row in raw["hosts"].items()
                },
            },
            "kappa": _three(raw["kappa"], f"{where}: kappa"),
            "site_kappa": _three(raw["site_kappa"], f"{where}: site_kappa"),
            "ring_kappa": _three(raw["ring_kappa"], f"{where}: ring_kappa"),
            "stream_power": raw["stream_power"],
            "averaging_spread": _three(raw["averaging_spread"], f"{where}: averaging_spread"),
            "spreads": {
                host: _three(row, f"{where}: spreads.{host}")
                for host, row in raw["spreads"].items()
            },
            "most_workers": raw["most_workers"],
            "services": {"server_sum_bytes_per_s": raw["server_sum_bytes_per_s"]},
        },
        where,
        WRITE_AGAIN,
    )
    return made


def _host(row: Any, where: str) -> HostConstants:
    """Build the constants of a host, all of which a file has but those of later versions."""
    if isinstance(row, Mapping):
        row = {"s_per_gb_sent": 0.0, "least_period_s": 0.0, **row}
    check_keys(row, HostConstants.__struct_fields__, where, WRITE_AGAIN)
    made: HostConstants = build(HostConstants, row, where, WRITE_AGAIN)
    return made


def _row(kind: type[Any], row: dict[str, Any], where: str) -> Any:
    return build(kind, row, where, WRITE_AGAIN)


def _three(row: Any, where: str) -> tuple[Any, ...]:
    check_keys(row, ("value", "slow", "fast"), where, WRITE_AGAIN)
    return row["value"], row["slow"], row["fast"]


def _triple(given: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("value", "slow", "fast"), given, strict=True))


def _rows(
    raw: Mapping[str, Any],
    key: str,
    kind: type[Any],
    where: str,
    more: tuple[str, ...] = ("model",),
) -> Iterable[tuple[dict[str, Any], str]]:
    """Return the rows of a list of the file, checked for their keys."""
    if not isinstance(raw[key], list):
        raise PlacerError(f"{where}: {key} is not a list", WRITE_AGAIN)
    for i, row in enumerate(raw[key]):
        at = f"{where}: {key}[{i}]"
        check_keys(row, [*more, *kind.__struct_fields__], at, WRITE_AGAIN)
        if more and not isinstance(row["model"], str):
            raise PlacerError(f"{at}: model is not text", WRITE_AGAIN)
        yield dict(row), at


def _rate_key(rate: Rate) -> tuple[str, int, str]:
    return rate.gpu, rate.gpu_count, rate.framework

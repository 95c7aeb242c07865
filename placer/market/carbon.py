"""Carbon: what machines emit per hour, from their power, their data centre and its grid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct, convert

from placer.errors import PlacerError
from placer.market.books.folders import shipped_records
from placer.market.catalog import Catalog, VmOffer
from placer.units import Interval

NO_GRID = "nobody publishes the carbon intensity of its grid"
NO_POWER = "nobody publishes the power of its device"
_UNITS = {"g": 1.0, "kg": 1e3, "t": 1e6}
_HOURS = {"h": 1.0, "hour": 1.0, "d": 24.0, "day": 24.0}


class PowerFigure(Struct, frozen=True, kw_only=True):
    """A row of catalogs/power.csv: a load, watts or PUE with its ends and basis."""

    value: float
    low: float
    high: float
    basis: str
    source: str


def offer_carbon(offer: VmOffer, catalog: Catalog) -> Interval | None:
    """Return the emissions of one machine in g CO2e per hour; None where power or grid are not
    published.

    (devices x board power x load + vCPUs x watts of a vCPU) x PUE x g/kWh of the grid / 1000.
    Location-based: what the grid of the place emits on average of a year. What making the machines
    emitted, the network, stores and functions are not in it.

    A T4 of 70 W and 4 vCPUs at AWS in Oregon: (70 x 0.8 + 4 x 2.1) x 1.15 = 74.06 W; at 300 g/kWh
    22.2 g an hour.

    >>> watts = 70 * figure("load", "*").value + 4 * figure("vcpu_w", "gpu").value
    >>> watts * figure("pue", "aws").value * 300 / 1000
    22.218
    """
    if carbon_unknown(offer, catalog):
        return None
    gpu, grid = catalog.gpu(offer.gpu), catalog.region(offer.place).grid_carbon_g_per_kwh or 0.0
    load, vcpu, pue = figure("load", "*"), figure("vcpu_w", gpu.kind), figure("pue", offer.provider)
    board_w = offer.gpu_count * (gpu.power_w or 0.0)

    def at(end: str) -> float:
        watts = board_w * getattr(load, end) + offer.vcpus * getattr(vcpu, end)
        return float(watts * getattr(pue, end) * grid / 1000)

    return Interval(value=at("value"), low=at("low"), high=at("high"))


def carbon_unknown(offer: VmOffer, catalog: Catalog) -> str:
    """Return why nobody can say what a machine emits; empty if it is known."""
    gpu = catalog.gpu(offer.gpu)
    if gpu.kind != "cpu" and gpu.power_w is None:
        return NO_POWER
    return NO_GRID if catalog.region(offer.place).grid_carbon_g_per_kwh is None else ""


def carbon_of(machines: Iterable[tuple[VmOffer, int]], catalog: Catalog) -> Interval | None:
    """Return the emissions of several machines in g CO2e per hour; None if one is unknown."""
    ends = {"value": 0.0, "low": 0.0, "high": 0.0}
    for offer, count in machines:
        each = offer_carbon(offer, catalog)
        if each is None:
            return None
        ends = {end: sum_ + count * getattr(each, end) for end, sum_ in ends.items()}
    return Interval(**ends)


def parse_carbon(text: str) -> float:
    """Read a limit in g CO2e per hour, such as ``500g/h``, ``1.2kg/h`` or ``12kg/day``.

    >>> parse_carbon("500g/h"), parse_carbon("12 kg/day")
    (500.0, 500.0)
    """
    match = re.fullmatch(
        r"\s*([0-9]{1,12}(?:\.[0-9]{0,12})?)\s*(kg|g|t)\s*/\s*(hour|h|day|d)\s*", text
    )
    if match is None:
        words = f"max-carbon '{text}' is not an amount of CO2e per time"
        raise PlacerError(words, "write it as 500g/h, 1.2kg/h or 12kg/day")
    grams = float(match[1]) * _UNITS[match[2]] / _HOURS[match[3]]
    if grams <= 0:
        raise PlacerError(f"max-carbon '{text}' must be above zero", "give a positive amount")
    return grams


def figure(factor: str, setting: str) -> PowerFigure:
    """Find a figure of catalogs/power.csv; ``*`` where it has none of its own."""
    return _table().get((factor, setting)) or _table()[factor, "*"]


@lru_cache(maxsize=1)
def _table() -> dict[tuple[str, str], PowerFigure]:
    return {
        (row["factor"], row["setting"]): convert(row, PowerFigure, strict=False)
        for row in shipped_records("power.csv")
    }

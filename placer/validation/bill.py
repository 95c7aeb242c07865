"""An answer beside the bill for it: what was predicted and what was charged, by component."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import fsum
from typing import Any

import msgspec
from msgspec import Struct, field

from placer.documents.schemas import RESULT_SCHEMA
from placer.documents.schemas.by_hand import Bill, BilledLine, SortedCharges, UnplannedCharges
from placer.errors import EDITED, PlacerError
from placer.market.sources.charges import COLUMNS, USAGE, Charge, has_tag
from placer.records import Json
from placer.units import SECONDS_PER_HOUR, format_plain, parse_moment

PLANS = (RESULT_SCHEMA, "placer.estimate/v1")
"""Documents that say what a placement costs."""
UNEVEN = 0.1
"""Relative difference of the hours of machines from which on a warning speaks of it."""


class Planned(Struct, frozen=True, kw_only=True):
    """Something that the plan pays for by the hour; ``offer``, ``market`` and ``machines`` are of
    machines alone. ``charges`` are those of the bill that are for it.
    """

    component: str
    place: str | None
    usd_per_hour: float
    offer: str = ""
    market: str = ""
    machines: int = 0
    charges: list[Charge] = field(default_factory=list)

    @property
    def what(self) -> str:
        """Name it."""
        if not self.offer:
            return self.component
        return f"{self.machines} x {self.offer} {_spaced(self.market)}"

    @property
    def machine_hours(self) -> float | None:
        """Hours of machines that the bill has for it; None where it names none."""
        hours = [one.hours for one in self.charges if one.machine and one.hours is not None]
        return fsum(hours) if hours else None

    def line(self, hours: float) -> BilledLine:
        """Compare what some hours of it cost with its charges."""
        predicted = self.usd_per_hour * hours
        charged = _usd(self.charges) if self.charges else None
        return BilledLine(
            component=self.component,
            what=self.what,
            place=self.place,
            charges=len(self.charges),
            machine_hours=self.machine_hours,
            predicted_usd=predicted,
            charged_usd=charged,
            difference_usd=None if charged is None else charged - predicted,
            relative_difference=None if charged is None else _relative(charged, predicted),
        )


class Scope(Struct, frozen=True, kw_only=True):
    """Which charges are compared: those between two times with all of some tags."""

    first: datetime | None = None
    last: datetime | None = None
    tags: tuple[tuple[str, str], ...] = ()

    def reason_out(self, charge: Charge) -> str:
        """Say why a charge is left out; empty if it is not."""
        starts, ends = charge.starts, charge.ends or charge.starts
        if (self.last and starts >= self.last) or (self.first and starts < self.first >= ends):
            return "outside the period"
        if (self.first and starts < self.first) or (self.last and ends > self.last):
            return "reaches beyond the period"
        lacking = next((f"{k}={v}" for k, v in self.tags if not has_tag(charge, k, v)), "")
        return f"without the tag {lacking}" if lacking else ""


def parse_scope(period: str | None, tags: Iterable[str]) -> Scope:
    """Read a period, ``FROM/TO``, and tags, ``KEY=VALUE``. Raise `PlacerError` if they are none.

    >>> scope = parse_scope("2026-10-03/2026-10-04T06:00Z", ["run=7"])
    >>> scope.last.isoformat(), scope.tags
    ('2026-10-04T06:00:00+00:00', (('run', '7'),))
    """
    first = last = None
    if period is not None:
        form = "write it as 2026-10-03/2026-10-05, of which the second day is not in it"
        begin, slash, end = period.partition("/")
        if not slash:
            raise PlacerError(f"period '{period}' has no end", form)
        first, last = parse_moment(begin, "period", form), parse_moment(end, "period", form)
        if first >= last:
            raise PlacerError(f"period '{period}' ends before it begins", form)
    pairs = []
    for tag in tags:
        key, equals, value = tag.partition("=")
        if not (key and equals):
            raise PlacerError(f"tag '{tag}' is not a pair", "write it as --tag run=4711")
        pairs.append((key, value))
    return Scope(first=first, last=last, tags=tuple(pairs))


def bill_document(
    plan: Any,
    charges: Iterable[Charge],
    names: tuple[str, str] = ("plan", "bill"),
    *,
    cost: str = "billed",
    hours: float | None = None,
    scope: Scope | None = None,
) -> dict[str, Any]:
    """Build the ``placer.bill/v1`` document of a plan, which is a result or an estimate, and the
    charges of a bill.

    ``names``: of both files. ``cost``: which cost the charges have. ``hours``: for which is
    predicted; None: as many as the bill has for the machines of the plan. Raise `PlacerError` if
    the plan is no such document or has no placement, or nothing says how many hours there are.
    """
    head, planned = _read(plan, names[0])
    found = _Sorted(planned, charges, scope or Scope())
    each = _hours_of_each(planned)
    if hours is None and not each:
        machines = ", ".join(f"{one.what} in {one.place}" for one in planned if one.offer)
        raise PlacerError(
            f"{names[1]}: has no hour of a machine of the plan ({machines})",
            "say how long it ran, such as --hours 24, or check --period and --tag",
        )
    run_h = hours
    if run_h is None:  # the mean of all machines
        run_h = fsum(one.machines * h for one, h in each) / sum(one.machines for one, _ in each)
    lines = [one.line(run_h) for one in planned if one.usd_per_hour or one.charges]
    charged = [line for line in lines if line.charged_usd is not None]
    predicted_usd = fsum(line.predicted_usd for line in charged)
    matched = [charge for one in planned for charge in one.charges]
    charged_usd = _usd(matched)
    document = Bill(
        plan=names[0],
        bill=names[1],
        cost=COLUMNS[cost],
        hours=run_h,
        hours_given=hours is not None,
        first=_moment(min((charge.starts for charge in matched), default=None)),
        last=_moment(max((charge.ends or charge.starts for charge in matched), default=None)),
        rates=[*dict.fromkeys(charge.rate for charge in found.compared if charge.rate)],
        lines=lines,
        predicted_usd=predicted_usd,
        charged_usd=charged_usd,
        difference_usd=charged_usd - predicted_usd,
        relative_difference=_relative(charged_usd, predicted_usd),
        uncharged_usd=fsum(line.predicted_usd for line in lines if line.charged_usd is None),
        unmatched=_unplanned(found.unmatched),
        unmatched_usd=_usd(found.unmatched),
        apart=_added(found.apart),
        apart_usd=fsum(_usd(those) for those in found.apart.values()),
        left_out=_added(found.left_out),
        warnings=list(_warnings(planned, each, cost)),
        **head,
    )
    built: dict[str, Any] = msgspec.to_builtins(document)
    return built


def _read(plan: Any, name: str) -> tuple[dict[str, Any], list[Planned]]:
    """Return what the document says of the plan, and what the plan pays for."""
    if not isinstance(plan, Mapping) or plan.get("schema") not in PLANS:
        tip = "give what 'placer recommend -o' or 'placer estimate --json' wrote"
        raise PlacerError(f"{name}: neither a {' nor a '.join(PLANS)} document", tip)
    if plan.get("placement") is None:
        raise PlacerError(f"{name}: has no placement", "give an answer that has one")
    try:
        totals = plan.get("totals")
        head = {
            "model": plan["request"]["model"],
            "catalog": plan["data"]["catalog"],
            "as_of": plan["data"]["as_of"],
            "planned_hours": totals and totals["seconds"]["value"] / SECONDS_PER_HOUR,
        }
        return head, [*_machines(plan["placement"]), *_others(plan)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = f"{name}: not a whole {plan['schema']} document ({error!r:.80})"
        raise PlacerError(words, EDITED) from error


def _machines(placement: Json) -> Iterator[Planned]:
    """Yield each kind of machines of a placement; a server is one too."""
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    usd: dict[tuple[str, str, str], float] = {}
    for row in (*placement["workers"], *filter(None, [placement["server"]])):
        for part in (row, *row.get("behind", ())):
            kind = part["place"], part["offer"], part["market"]
            counts[kind] += row["count"] * part.get("machines", 1)
            usd[kind] = part["usd_per_hour"]
    for (place, offer, market), count in counts.items():
        yield Planned(
            component="compute",
            place=place,
            usd_per_hour=count * usd[place, offer, market],
            offer=offer,
            market=market,
            machines=count,
        )


def _others(plan: Json) -> Iterator[Planned]:
    """Yield what leaves each place, with the data that is read there, the store and functions."""
    placement, estimate = plan["placement"], plan["estimate"]
    usd = estimate["usd_per_hour"]
    egress: dict[str, float] = defaultdict(float)
    for link in estimate["links"]:
        egress[link["from"]] += link["usd_per_hour"]
    sources = _data_sources(plan)
    for place, share in sources.items():
        egress[place] += share * usd["data"]
    for place, usd_per_hour in egress.items():
        yield Planned(component="egress", place=place, usd_per_hour=usd_per_hour)
    if not sources:
        yield Planned(component="data", place=None, usd_per_hour=usd["data"])
    for component, where in (("storage", "storage"), ("functions", "aggregator")):
        place = placement[where] and placement[where]["place"]
        yield Planned(component=component, place=place, usd_per_hour=usd[component])


def _data_sources(plan: Json) -> dict[str, float]:
    """Return the share of the price of data that each place bills: its store, or where it moves
    from.
    """
    store = plan["request"]["data_store"]
    moves = plan["estimate"]["moves"]
    total = fsum(move["usd"] for move in moves)
    if store is None and total > 0:
        shares: dict[str, float] = defaultdict(float)
        for move in moves:
            shares[move["from"]] += move["usd"] / total
        return shares
    place = str(store).rpartition("@")[2]
    return {place: 1.0} if "/" in place else {}


class _Sorted:
    """Charges that are compared, those of them that no part of the plan is for, and the others by
    the reason why they are none of its parts.
    """

    def __init__(self, planned: Sequence[Planned], charges: Iterable[Charge], scope: Scope) -> None:
        self.unmatched: list[Charge] = []
        self.apart: dict[str, list[Charge]] = defaultdict(list)
        self.left_out: dict[str, list[Charge]] = defaultdict(list)
        self.compared: list[Charge] = []
        for charge in charges:
            reason = scope.reason_out(charge)
            if reason:
                self.left_out[reason].append(charge)
                continue
            self.compared.append(charge)
            if charge.category != USAGE:
                self.apart[charge.category].append(charge)
            else:
                part = _part_of(charge, planned)
                (self.unmatched if part is None else part.charges).append(charge)


def _part_of(charge: Charge, planned: Iterable[Planned]) -> Planned | None:
    """Find what a charge is for: the only one of its component in its place. Of machines its type
    decides, and its market where the plan has the type in two.

    Some providers bill cores, memory and devices by themselves, and name no type: these belong to
    the only kind of machines of a place.
    """
    found = [
        one
        for one in planned
        if (one.component, one.place) == (charge.component, charge.place)
        and (not charge.machine or one.offer.lower() == charge.machine.lower())
    ]
    if len(found) > 1:
        found = [one for one in found if one.market == charge.market]
    return found[0] if len(found) == 1 else None


def _hours_of_each(planned: Iterable[Planned]) -> list[tuple[Planned, float]]:
    """List the kinds of machines that have hours, with the hours of one machine."""
    return [(one, h / one.machines) for one in planned if one.machines and (h := one.machine_hours)]


def _warnings(
    planned: Sequence[Planned], each: Sequence[tuple[Planned, float]], cost: str
) -> Iterator[str]:
    """Say where the hours, the market or the cost of charges are not what the plan has."""
    if each and max(h for _, h in each) > (1 + UNEVEN) * min(h for _, h in each):
        words = ", ".join(f"{format_plain(hours, 3)} h for {one.offer}" for one, hours in each)
        yield f"machines ran for unequal times: {words}; the others are predicted for the mean"
    for one in planned:
        other = [c for c in one.charges if c.machine and c.market != one.market]
        if other:
            usd = f"{_usd(other):,.2f} USD"
            yield (
                f"{usd} of {one.offer} in {one.place} is {_spaced(other[0].market)}; the plan has "
                f"{_spaced(one.market)}"
            )
    committed = [charge for one in planned for charge in one.charges if charge.committed]
    if committed and cost == "billed":
        yield (
            f"{len(committed):,} charges are paid by a commitment, which is billed apart; "
            "the effective cost has their share"
        )


def _unplanned(charges: Iterable[Charge]) -> list[UnplannedCharges]:
    """Add up charges of the same; those that cost nothing are not worth a line."""
    groups: dict[tuple[str, str, str, str], list[Charge]] = defaultdict(list)
    for charge in charges:
        what = f"{charge.machine} {_spaced(charge.market)}" if charge.machine else ""
        machine = what if charge.component == "compute" else ""
        key = charge.component, charge.place, charge.service, machine or charge.description
        groups[key].append(charge)
    rows = [
        UnplannedCharges(
            component=component,
            place=place,
            service=service,
            what=what,
            charges=len(those),
            usd=_usd(those),
        )
        for (component, place, service, what), those in groups.items()
        if any(charge.usd for charge in those)
    ]
    return sorted(rows, key=lambda row: -row.usd)


def _added(groups: Mapping[str, Sequence[Charge]]) -> list[SortedCharges]:
    return [
        SortedCharges(kind=kind, charges=len(those), usd=_usd(those))
        for kind, those in sorted(groups.items())
    ]


def _usd(charges: Iterable[Charge]) -> float:
    return fsum(charge.usd for charge in charges)


def _relative(charged: float, predicted: float) -> float | None:
    return (charged - predicted) / predicted if predicted > 0 else None


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _spaced(market: str) -> str:
    return market.replace("_", "-")

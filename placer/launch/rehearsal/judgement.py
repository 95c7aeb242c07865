"""The judgement of a rehearsal: exchange, bytes of links and requests, predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from placer.launch.rehearsal.rehearsal import LEAST_LINK_SHARE, Rehearsal, exchange_seconds
from placer.launch.runtime.run_log import all_rounds, requests_of, rounds_of
from placer.problem.exchange import traits
from placer.records import replace
from placer.validation.calibration.run_log import by_rank

SCHEMA = "placer.rehearsal/v1"
SECONDS_TOLERANCE, BYTES_TOLERANCE = 0.10, 0.02
"""Within these a rehearsal confirms its plan: the exchange, and what each link carries."""
LEAST_EXCHANGE_S, LEAST_SHARE = 0.1, 0.05
"""An exchange that is shorter, or a smaller share of its round, is not measured within 10 %."""
LEAST_BYTES, LEAST_BYTES_OF_A_STORE = 1e5, 1e6
"""Pairs of places that carry less in a round are not judged: headers and greetings, with a store
also polls, are more than the tolerance then.
"""
SLOW_LINK = 0.8
"""Of an exchange that took too long, links below this share of their rate are named."""
EXCHANGE, PLAN = "exchange", "exchange of the whole plan, priced again"


@dataclass(frozen=True, kw_only=True)
class Line:
    """One figure: ``kind`` is seconds, bytes, requests or rate; ``within`` None: not judged."""

    kind: str
    what: str
    unit: str
    predicted: float | None
    measured: float | None
    within: bool | None = None

    @property
    def difference(self) -> float | None:
        """Return measured over predicted less 1."""
        return (
            self.measured / self.predicted - 1
            if self.predicted and self.measured is not None
            else None
        )


def lines_of(rehearsal: Rehearsal) -> list[Line]:
    """Compare a rehearsal with its plan; nothing is judged where workers went on without one."""
    exchange = _exchange(rehearsal)
    too_long = exchange.within is False and (exchange.difference or 0.0) > 0
    lines = [
        *_priced_again(rehearsal),
        exchange,
        *(_slow_links(rehearsal) if too_long else []),
        *_bytes(rehearsal),
        *_requests(rehearsal),
    ]
    return [replace(line, within=None) for line in lines] if rehearsal.went_on else lines


def _exchange(rehearsal: Rehearsal) -> Line:
    """Compare the fastest exchange with its price: whatever else this machine does makes some
    longer, and nothing makes one shorter. What stores of this machine take on their own partly
    passes while links are waited for, so the links alone are the least.
    """
    small = rehearsal.small
    predicted = small.exchange_s + rehearsal.machine_s
    measured = min(exchange_seconds(rehearsal.records, rehearsal.plan), default=None)
    line = Line(kind="seconds", what=EXCHANGE, unit="s", predicted=predicted, measured=measured)
    if measured is None:
        return line
    least = max(LEAST_EXCHANGE_S, LEAST_SHARE * round_seconds(rehearsal))
    if predicted >= least:
        shortest = (1 - SECONDS_TOLERANCE) * small.exchange_s
        longest = (1 + SECONDS_TOLERANCE) * predicted
        return replace(line, within=shortest <= measured <= longest)
    return replace(line, within=False if measured > predicted + least else None)


def round_seconds(rehearsal: Rehearsal) -> float:
    """Return the shortest of the rounds that count, each as long as its slowest worker."""
    workers = rehearsal.plan.workers
    rounds = rounds_of(rehearsal.records, rehearsal.plan)
    return min(
        (max(by_rank(records, "step_s", workers).values()) for records in rounds), default=0.0
    )


def _priced_again(rehearsal: Rehearsal) -> list[Line]:
    """Return a line where the manifest does not say what its own question costs."""
    said, priced = rehearsal.priced_again
    within = abs(priced / said - 1) <= SECONDS_TOLERANCE if said else None
    if within is not False and bool(said) == bool(priced):
        return []
    return [
        Line(kind="seconds", what=PLAN, unit="s", predicted=said, measured=priced, within=within)
    ]


def _slow_links(rehearsal: Rehearsal) -> list[Line]:
    """Name the links that carried less than their rate; inside places, cards are shared."""
    network, streams = rehearsal.small.problem.network, rehearsal.plan.exchange.streams
    lines = [
        Line(
            kind="rate",
            what=f"rate {src} -> {dst}",
            unit="B/s",
            predicted=network.link(src, dst).speed(streams, 0),
            measured=rate,
            within=False,
        )
        for (src, dst), rate in sorted(rehearsal.rates.items())
        if src != dst
    ]
    return [line for line in lines if (line.difference or 0.0) < SLOW_LINK - 1]


def _bytes(rehearsal: Rehearsal) -> list[Line]:
    """Compare the bytes that the relay counted with those of the exchange."""
    predicted = rehearsal.small.sent_bytes(rehearsal.rounds)
    share = LEAST_LINK_SHARE * max(predicted.values(), default=0.0)
    least = max(share, LEAST_BYTES if not rehearsal.plan.buckets else LEAST_BYTES_OF_A_STORE)
    gossips = traits(rehearsal.plan.exchange.strategy).transport == "region-gossip"
    lines = []
    for src, dst in sorted({*predicted, *rehearsal.sent}):
        should, did = predicted.get((src, dst)), rehearsal.sent.get((src, dst), 0.0)
        one_more = gossips and src == dst  # average at the end, of what was still under way
        within = None
        if should is None:  # nothing was to go there
            if did < max(share, LEAST_BYTES):
                continue
            within = False
        elif should > least and not one_more:
            # Of a ring, what asks for the data of one way goes the other way.
            most = max(should, predicted.get((dst, src), 0.0))
            within = abs(did - should) <= BYTES_TOLERANCE * most
        way = {"kind": "bytes", "what": f"{src} -> {dst}", "unit": "B a round"}
        lines.append(Line(**way, predicted=should, measured=did, within=within))
    return lines


def _requests(rehearsal: Rehearsal) -> list[Line]:
    """Compare the requests to each object store, which are exact; polls and deletes are shown."""
    rows = requests_of(rehearsal.plan, all_rounds(rehearsal.records, rehearsal.plan))
    unknown = [None in (row["predicted"], row["measured"]) for row in rows]
    exact = [row["predicted"] == row["measured"] for row in rows]
    return [
        Line(kind="requests", unit="a round", **row, within=None if lacks else same)
        for row, lacks, same in zip(rows, unknown, exact, strict=True)
    ]


def document_of(rehearsal: Rehearsal, lines: Sequence[Line]) -> dict[str, Any]:
    """Build the JSON document of a rehearsal."""
    small = rehearsal.small
    return {
        "schema": SCHEMA,
        "plan": rehearsal.plan.name,
        "strategy": rehearsal.plan.exchange.strategy,
        "workers": rehearsal.plan.workers,
        "scale": small.scale,
        "gradient_bytes": small.problem.gradient_bytes,
        "network": {
            "method": "namespaces",
            "why_not": "",
            "slower": [list(pair) for pair in small.slower],
        },
        "lines": [{**asdict(line), "difference": line.difference} for line in lines],
        "deaths": list(rehearsal.deaths),
        "confirmed": confirmed(lines),
    }


def confirmed(lines: Sequence[Line]) -> bool:
    """Return whether the exchange was measured, and all that is judged is within its tolerance."""
    measured = any(line.what == EXCHANGE and line.within for line in lines)
    return measured and all(line.within is not False for line in lines)


def verdict(lines: Sequence[Line]) -> str:
    """Say in one line whether the plan is confirmed, or what is off."""
    judged = [line for line in lines if line.within is not None]
    off = [
        line.what if line.difference is None else f"{line.what} {line.difference:+.1%}"
        for line in judged
        if not line.within
    ]
    if off:
        return f"not confirmed: {', '.join(off)}"
    if confirmed(lines):
        return f"confirmed: {len(judged)} of {len(judged)} judged"
    exchange = next(line for line in lines if line.what == EXCHANGE)
    if exchange.predicted is None or exchange.measured is None:
        return "not confirmed: no exchange was measured"
    return (
        f"not confirmed: an exchange of {exchange.predicted:.2g} s is too short, or too small a "
        f"share of the round, to be measured within {SECONDS_TOLERANCE:.0%}; take a larger --scale"
    )

"""A placement that a claimed bound would rule out: equal machines in one place, priced a second
time.

A bound that rests on a search cannot be worked out again without the search. It can be refuted: by
one placement that keeps every limit and beats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from placer.documents.checker.averages import transport_of
from placer.documents.checker.case import ALWAYS_OVERLAP, BUTTERFLIES, Case
from placer.documents.checker.dollars import dollars_of
from placer.documents.checker.limits import broken_limits
from placer.documents.checker.market import Machine
from placer.documents.checker.seconds import round_of
from placer.documents.checker.strategies import MAY_OVERLAP, Relaxed
from placer.records import Json

PRICED = 40
"""Placements that are priced in full at most, the most promising first."""
CLEARLY = 1e-6
"""Relative difference above which a placement beats a bound."""
OBJECTIVES = ("throughput", "time", "cost", "cost-per-sample", "total")
"""Objectives that the second implementation works out."""


def witness(
    problem: Json,
    machines: Sequence[Machine],
    modes: Sequence[Json],
    bound: float | None,
    links: Sequence[Json] = (),
) -> str:
    """Look for equal machines in one place that keep every limit and beat a bound; say which, empty
    if none was found.

    problem, machines: A ``placer.problem/v1`` document with the whole market, and what it admits:
        `machines_of`.
    modes: Rows with ``strategy``, ``local_steps`` and ``samples_to_target``.
    bound: What is claimed that nothing beats; None: that nothing keeps the limits.
    links: From the dataset's store, as a certificate has them; machines without one are not priced.
    """
    wish, objective = problem["requirements"], problem["requirements"]["objective"]
    if objective not in OBJECTIVES or wish.get("max_shares"):
        return ""  # equal machines in one place break any share of the speed
    if wish.get("on_demand_floor") is not None:
        machines = [machine for machine in machines if machine.bucket[2] == "on_demand"]
    sign = -1.0 if objective == "throughput" else 1.0
    limit = float("inf") if bound is None else sign * bound - CLEARLY * abs(bound)
    quick = sorted(
        (row for row in _quick(problem, machines, modes) if sign * row[0] < limit),
        key=lambda row: sign * row[0],
    )
    for _, machine, count, mode in quick[:PRICED]:
        value = _value(problem, machine, count, mode, links)
        if value is not None and sign * value < limit:
            return f"{count} x {_name(machine)} with {mode['strategy']} reach {value:.9g}"
    return ""


def _quick(
    problem: Json, machines: Sequence[Machine], modes: Sequence[Json]
) -> Iterator[tuple[float, Machine, int, Json]]:
    """Yield the objective of equal machines before egress and data, with what they are."""
    relaxed, wish = Relaxed(problem, (), ()), problem["requirements"]
    cheapest: dict[tuple[Any, ...], Machine] = {}
    for machine in machines:
        kind = machine.host, machine.speed, machine.gpus, machine.bucket[1:]
        if kind not in cheapest or machine.usd < cheapest[kind].usd:
            cheapest[kind] = machine
    for machine in cheapest.values():
        for mode in modes:
            strategy, factor = mode["strategy"], mode["samples_to_target"]
            if strategy != "none" and strategy not in BUTTERFLIES:
                continue
            samples = relaxed.batch * mode["local_steps"]
            for n in range(1, 2) if strategy == "none" else range(2, machine.most + 1):
                usd = n * machine.usd
                if n < wish["min_workers"] or usd > relaxed.budget:
                    continue
                counted = machine.alone / factor
                if strategy != "none":
                    together = n * machine.speed
                    counted = relaxed.counted(strategy, n, machine.host, together, samples, factor)
                if counted >= relaxed.floor:
                    yield (_objective(problem, counted, usd, usd), machine, n, mode)


def _objective(problem: Json, samples_per_second: float, usd: float, compute: float) -> float:
    """Return the objective of samples/s that count and USD/h, with those of machines."""
    wish = problem["requirements"]
    startup_s, samples = float(wish.get("startup_s", 0.0)), float(wish["samples"] or 0)
    if wish["objective"] == "throughput":
        return samples_per_second
    if wish["objective"] == "time":
        return samples / samples_per_second + startup_s + float(wish.get("copy_s", 0.0))
    if wish["objective"] == "total":
        return (samples / samples_per_second * usd + startup_s * compute) / 3600
    return usd if wish["objective"] == "cost" else usd / 3600 / samples_per_second * 1e6


def _value(
    problem: Json, machine: Machine, count: int, mode: Json, links: Sequence[Json]
) -> float | None:
    """Price equal machines in full; None if they break a limit, or the book lacks a price."""
    offer, speeds = machine.offer, machine.speeds
    placement = _placement(problem, machine, count, mode)
    small = {**problem, "catalog": {**problem["catalog"], "offers": [offer]}}
    row = {**placement["workers"][0], **{k: speeds[k] for k in ("alone", "in_group", "basis")}}
    case = Case(small, placement, {"machines": [row], "links": links}, mode["samples_to_target"])
    if problem["requirements"]["data_store"] and problem["profile"]["bytes_per_sample"]:
        reading = case.reading(row)
        if reading is None:  # how fast it reads is not in the file
            return None
        # The speeds of a device are those of the place that reads fastest.
        row.update({key: reading.mean(row[key]) for key in ("alone", "in_group")})
    try:
        bill = round_of(case)
        paid = dollars_of(case, bill)
        usd = paid["total"]
        counted = case.batch * case.local_steps / bill.seconds / case.multiplier
        broken = broken_limits(case, bill, counted, paid)
    except (KeyError, StopIteration, IndexError, ZeroDivisionError):
        return None
    return None if broken else _objective(problem, counted, usd, paid["compute"])


def _placement(problem: Json, machine: Machine, count: int, mode: Json) -> dict[str, Any]:
    offer, wish, strategy = machine.offer, problem["requirements"], mode["strategy"]
    overlap = strategy in ALWAYS_OVERLAP or (wish["overlap"] and strategy in MAY_OVERLAP)
    keys = ("gpu", "gpu_count", "market", "usd_per_hour")
    island = {key: machine.speeds[key] for key in ("machines", "inner") if key in machine.speeds}
    worker = {
        **{key: offer[key] for key in keys},
        "offer": offer["instance_type"],
        "place": machine.bucket[0],
        "count": count,
        **island,
    }
    return {
        "workers": [worker],
        "exchange": strategy,
        "compression": wish["compression"] or problem["profile"]["compression"],
        "local_steps": mode["local_steps"],
        "streams": 1 if strategy == "none" else wish["streams"],
        "overlap": overlap,
        "transport": transport_of(problem),
        **dict.fromkeys(("server", "aggregator", "storage")),
    }


def _name(machine: Machine) -> str:
    offer = machine.offer
    size = "" if offer["gpu_count"] == 1 else f":{offer['gpu_count']}"
    several = machine.speeds.get("machines", 1)
    island = "" if several == 1 else f"{several}x"
    return f"{island}{offer['gpu']}{size} {offer['market']} in {machine.bucket[0]}"

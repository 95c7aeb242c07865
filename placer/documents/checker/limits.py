"""Limits and wishes, looked at a second time from the file alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from placer.documents.checker.averages import transport_of
from placer.documents.checker.case import GIB, Case, kind_of, ran_out_of_memory
from placer.documents.checker.dollars import sends
from placer.documents.checker.islands import (
    least_device_bytes,
    machine_count,
    unread,
    wrong_islands,
)
from placer.documents.checker.loading import LOADER_STREAMS
from placer.documents.checker.seconds import Bill
from placer.documents.checker.shares import moves

SLACK = 1e-9
FORMER_QUOTA_GPUS = 8
"""GPUs of a place, type and market where no row says otherwise, in documents that do not say."""
MODELS = ("local-sgd", "model-averaging", "diloco", "streaming-diloco")
"""Strategies that send the model itself; the others send gradients."""
SEVERAL_REGIONS = ("hierarchical-all-reduce", "hierarchical", "model-averaging", "asgd-ga")
LOCAL = ("local-sgd", "model-averaging", "asgd-ga", "diloco", "streaming-diloco")


def broken_limits(
    case: Case, bill: Bill, samples_per_second: float, usd: Mapping[str, float]
) -> list[str]:
    """Name every limit that the placement breaks.

    Parameters
    ----------
    samples_per_second, usd
        What counts towards the target, and its price per hour by component, by the second
        implementation.
    """
    usd_per_hour = usd["total"]
    wish, broken = (
        case.wish,
        [
            *(*_machines(case), *_wishes(case), *_quotas(case), *_exchange(case, bill)),
            *(*_unlike(case), *_data(case), *_copied(case), *wrong_islands(case), *unread(case)),
        ],
    )
    for what, count, low, high in (
        ("workers", case.workers, wish["min_workers"], min(wish["max_workers"], case.batch)),
        ("regions", len(case.counts), wish["min_regions"], wish["max_regions"]),
    ):
        if not low <= count <= high:
            broken.append(f"{count} {what}, not {low} to {high}")
    most, machines = wish.get("max_machines"), sum(map(machine_count, case.placement["workers"]))
    if most is not None and machines > most:
        broken.append(f"{machines} machines, not at most {most}")
    broken += _totals(case, samples_per_second, usd)
    budget, floor = wish["budget_usd_per_hour"], wish["min_samples_per_second"]
    if budget is not None and usd_per_hour > budget * (1 + SLACK):
        broken.append(f"{usd_per_hour:.6g} USD/h are above the budget of {budget:g} USD/h")
    if floor is not None and samples_per_second < floor * (1 - SLACK):
        broken.append(
            f"{samples_per_second:.6g} samples/s are below the floor of {floor:g} samples/s"
        )
    return broken


def _totals(case: Case, samples_per_second: float, usd: Mapping[str, float]) -> Iterator[str]:
    """Check time and money for all samples."""
    wish, each = case.wish, usd["total"] / 3600 / samples_per_second
    startup_s, samples = wish.get("startup_s", 0.0), wish["samples"] or 0
    seconds = samples / samples_per_second + startup_s + wish.get("copy_s", 0.0)
    if wish["deadline_s"] is not None and seconds > wish["deadline_s"] * (1 + SLACK):
        yield f"{wish['samples']:,} samples take longer than the deadline"
    paid = each * samples + usd["compute"] / 3600 * startup_s
    if wish["budget_usd"] is not None and paid > wish["budget_usd"] * (1 + SLACK):
        yield f"{wish['samples']:,} samples cost more than the budget in total"
    limit = wish["most_usd_per_million_samples"]
    if limit is not None and each * 1e6 > limit * (1 + SLACK):
        yield "a million samples cost more than their limit"


def _copied(case: Case) -> Iterator[str]:
    """Check how long the data is copied before the run."""
    said, seconds = case.wish.get("copy_s", 0.0), 0.0
    if case.copy_from is not None:
        road = case.roads.get((case.copy_from, case.object_store(case.wish["data_store"])["place"]))
        if road is None:
            yield "no link between the stores of a copy of the data"
            return
        seconds = case.wish["data_bytes"] / road.rate(LOADER_STREAMS)
    if abs(said - seconds) > SLACK * max(1.0, seconds):
        yield f"data is said to be copied in {said:.6g} s, not {seconds:.6g} s"


def _machines(case: Case) -> Iterator[str]:
    wish, profile, speeds = case.wish, case.profile, case.speeds
    for row in case.placement["workers"]:
        offer, name = case.offer(row), f"{row['offer']} in {row['place']}"
        if least_device_bytes(row, profile) > case.book["gpus"][row["gpu"]]["memory_gib"] * GIB:
            yield f"the model does not fit the devices of {name}"
        if not row.get("inner") and profile["host_memory_bytes"] > offer["memory_gib"] * GIB:
            yield f"the model does not fit the host memory of {name}"
        if not row.get("inner") and ran_out_of_memory(offer, profile):
            yield f"the model is known to run out of memory on {name}"
        device = f"{row['gpu']}:{row['gpu_count']}"
        if wish["gpus"] and row["gpu"] not in wish["gpus"] and device not in wish["gpus"]:
            yield f"{name} has GPUs that were not asked for"
        if wish["market"] not in ("any", row["market"]):
            yield f"{name} is {row['market']}"
        if wish["oldest_price"] is not None and offer["as_of"] < wish["oldest_price"]:
            yield f"the price of {name} is of {offer['as_of']}"
        if wish["require_measured"] and speeds[kind_of(row)]["basis"] not in (
            "measured",
            "published",
        ):
            yield f"nobody measured {name}"


def _wishes(case: Case) -> Iterator[str]:
    """Check where machines may be, how many exist, and which must be used."""
    wish = case.wish
    for row in case.placement["workers"]:
        place, exist = row["place"], case.offer(row)["available"]
        inside = any(fnmatchcase(place, p) for p in wish["places_in"]) or not wish["places_in"]
        if not inside or any(fnmatchcase(place, p) for p in wish["places_not_in"]):
            yield f"{place} is not admitted"
        same = [r for r in case.placement["workers"] if kind_of(r)[:5] == kind_of(row)[:5]]
        machines = sum(map(machine_count, same))
        if exist is not None and machines > exist:
            yield f"{machines} x {row['offer']} in {place}, of which {exist} exist"
        launch = supply_of(case.offer(row), case.problem)
        if launch is not None and machines > launch:
            yield f"{machines} x {row['offer']} in {place}, of which {launch} launch together"
    for rule in wish["used"]:
        workers = case.placement["workers"]
        if sum(machine_count(r) for r in workers if _uses(rule, r)) < rule["count"]:
            yield f"fewer than {rule['count']} x {rule['device']} in {rule['place']}"


def supply_of(offer: Mapping[str, Any], problem: Mapping[str, Any]) -> int | None:
    """Return how many machines of an offer launch together at most: by what zones of its region
    refused, else by the wish for spot machines that no quota counts; None: any number.
    """
    wish, place = problem["requirements"], f"{offer['provider']}/{offer['region']}"
    most: int | None = wish.get("supply")
    named = place, offer["gpu"], offer["market"], offer["instance_type"]
    by_quota = other_quota(wish) is not None or any(counts(q, *named) for q in wish["quotas"])
    if most is None or by_quota or offer["market"] != "spot" or offer["price_basis"] == "owned":
        return None
    rows = [
        row
        for row in problem["catalog"].get("capacity", ())
        if (row["provider"] in ("*", offer["provider"]) and row.get("region") == offer["region"])
        and (row["device"] in ("*", offer["gpu"]) and row["market"] == "spot")
        and row.get("share") is not None
    ]
    seen = max((row["machines"] for row in rows if row["share"] > 0), default=0)
    return seen if any(row["machines_asked"] > seen for row in rows) else most


def _unlike(case: Case) -> Iterator[str]:
    """Check that workers are alike where the software divides a step equally, unless unlike ones
    are asked for: in words, by naming machines, or by data with its place.
    """
    wish, rows = case.wish, case.placement["workers"]
    offers = case.problem["catalog"]["offers"]
    own = {(o["gpu"], o["gpu_count"]) for o in offers if o["price_basis"] == "owned"}
    asked = not wish.get("uniform") or wish["used"] or wish["datasets"] or len(own) > 1
    kinds = {(r["gpu"], r["gpu_count"], r.get("machines", 1), str(r.get("inner"))) for r in rows}
    if len(kinds) > 1 and not asked and transport_of(case.problem) != "hivemind":
        yield f"{len(kinds)} kinds of workers, which are to be alike"


def _uses(rule: dict[str, Any], row: dict[str, Any]) -> bool:
    device = row["gpu"] if row["gpu_count"] == 1 else f"{row['gpu']}:{row['gpu_count']}"
    return all(
        fnmatchcase(a, rule[key])
        for key, a in (("place", row["place"]), ("device", device), ("market", row["market"]))
    )


def other_quota(wish: Mapping[str, Any]) -> int | None:
    """Return the GPUs of a place, type and market where no row says otherwise; None: no limit."""
    gpus: int | None = wish.get("quota_gpus", FORMER_QUOTA_GPUS)
    return gpus


def _quotas(case: Case) -> Iterator[str]:
    used: dict[tuple[str, str, str], int] = {}
    server, quotas = case.placement["server"], case.wish["quotas"]
    counted = (
        [] if server is None or case.book["gpus"][server["gpu"]]["kind"] == "cpu" else [server]
    )
    for row in [*case.placement["workers"], *counted]:
        key = row["place"], row["gpu"], row["market"]
        used[key] = used.get(key, 0) + machine_count(row) * row["gpu_count"]
    for key, gpus in used.items():
        rows = [
            q
            for q in quotas
            if q["scope"] == "each"
            and all(_like(k, q[f]) for k, f in zip(key, ("place", "gpu", "market"), strict=True))
        ]
        quota = rows[-1]["gpus"] if rows else other_quota(case.wish)
        if quota is not None and gpus > quota:
            yield f"{gpus} x {key[1]} {key[2]} in {key[0]}, where the quota is {quota}"
    for row in (q for q in quotas if q["scope"] == "together"):
        vcpus, most = row.get("vcpus"), row["gpus"] if row.get("vcpus") is None else row["vcpus"]
        # A server without GPUs takes no quota of GPUs, but vCPUs.
        others = counted if vcpus is None or server is None else [server]
        machines = [*case.placement["workers"], *others]
        together = sum(
            machine_count(m) * (m["gpu_count"] if vcpus is None else _vcpus(case.offer(m)))
            for m in machines
            if counts(row, m["place"], m["gpu"], m["market"], m["offer"])
        )
        if together > most:
            names = [row["place"], row["gpu"], row["market"], row.get("machine", "*")]
            unit = "GPUs" if vcpus is None else "vCPUs"
            yield f"{together:g} {unit}, where the joint quota of {' '.join(names)} is {most}"


def counts(row: Mapping[str, Any], place: str, gpu: str, market: str, machine: str) -> bool:
    """Tell whether a row of quotas counts a machine type of a place and market."""
    patterns = row["place"], row["gpu"], row["market"], row.get("machine", "*")
    return all(map(_like, (place, gpu, market, machine), patterns))


def _like(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split("|"))


def _vcpus(offer: Mapping[str, Any]) -> float:
    """Return the whole vCPUs of a machine; those of own machines are assumed, so no quota holds
    them.
    """
    stated = offer["price_basis"] != "owned" and 0 < offer["vcpus"] < math.inf
    return math.ceil(offer["vcpus"]) if stated else math.inf


def _exchange(case: Case, bill: Bill) -> Iterator[str]:
    wish, placement, name = case.wish, case.placement, case.strategy
    if name == "none" and (case.streams > 1 or placement["overlap"]):
        yield "one worker with streams of an exchange"
    if (case.workers > 1) == (name == "none"):
        yield f"{case.workers} workers with the exchange {name}"
    low, high = wish["min_local_steps"] or 1, wish["max_local_steps"] or 64
    admitted = wish["exchange"] in ("auto", name) and (
        name not in LOCAL or wish["exchange"] == name or wish["max_local_steps"] is not None
    )
    if name != "none" and not (
        admitted
        and (low <= case.local_steps <= high if name in LOCAL else low == 1 == case.local_steps)
    ):
        yield f"the exchange {name} with {case.local_steps} local steps was not asked for"
    if name in SEVERAL_REGIONS and len(case.counts) < 2:
        yield f"the exchange {name} in one region"
    if placement["compression"] != (wish["compression"] or case.profile["compression"]):
        yield f"compression {placement['compression']}"
    if name != "none" and case.streams != wish["streams"]:
        yield f"{case.streams} streams, not {wish['streams']}"
    for key, said in (("aggregator", "aggregator"), ("storage", "store")):
        if (
            name != "none"
            and wish[key] is not None
            and (placement[key] is None or placement[key]["place"] != wish[key])
        ):
            yield f"the {said} is not in {wish[key]}"
    yield from _hub(case, bill)


def _hub(case: Case, bill: Bill) -> Iterator[str]:
    """Check memory and time of functions, memory of a server."""
    server, counts = case.placement["server"], case.counts
    if server is not None:
        needed = 2 * case.profile["gradient_bytes_fp32"] + case.workers * case.size
        if case.offer(server)["memory_gib"] * GIB < needed:
            yield f"{needed / GIB:.1f} GiB do not fit the server"
    if case.strategy in ("central", "hierarchical"):
        memory = case.placement["aggregator"]["memory_gib"]
        summed = (
            max(*counts.values(), len(counts)) if case.strategy == "hierarchical" else case.workers
        )
        if summed * case.size > memory * GIB:
            yield f"{summed} gradients do not fit {memory:g} GiB of a function"
        for place, seconds in bill.functions:
            row = case.function(place)
            if memory > row["max_memory_gib"] or seconds > row["max_seconds"]:
                yield (
                    f"the function in {place} runs {seconds:.0f} s with {memory:g} GiB; its "
                    f"provider allows less"
                )


def _data(case: Case) -> Iterator[str]:
    """Check data that stays where no worker is, and what residency rules keep in."""
    wish, datasets = case.wish, case.wish["datasets"]
    stay = {d["place"] for d in datasets if not d["may_move"]}
    yield from (
        f"data stays in {place}, where there is no worker"
        for place in sorted(stay - case.counts.keys())
    )
    if datasets and stay.issuperset(d["place"] for d in datasets) and case.counts.keys() - stay:
        yield "some workers have no data"
    for rule in wish["kept"]:
        ways = (
            [(a, b) for a, b, *_ in sends(case)]
            if rule["kind"] == ("checkpoints" if case.strategy in MODELS else "gradients")
            else []
        )
        if rule["kind"] == "raw-data" and wish["data_store"] is not None:
            store = case.object_store(wish["data_store"])["place"]
            ways += [(store, place) for place in case.counts]
            if case.copy_from is not None:
                ways.append((case.copy_from, store))
        if rule["kind"] == "raw-data" and any(d["may_move"] for d in datasets):
            ways += [(src, dst) for src, dst, _, _ in moves(case)]
        if any(a in rule["places"] and b not in rule["places"] for a, b in ways):
            yield f"{rule['kind']} would leave {rule['area']}"

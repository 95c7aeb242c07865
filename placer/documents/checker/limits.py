"""Limits and wishes, looked at a second time from the file alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fnmatch import fnmatchcase

from placer.documents.checker.averages import transport_of
from placer.documents.checker.case import GIB, LOADER_STREAMS, Case, kind_of
from placer.documents.checker.dollars import sends
from placer.documents.checker.seconds import Bill
from placer.records import Json

SLACK = 1e-9
FORMER_QUOTA_GPUS = 8
"""GPUs of a place, type and market where no row says otherwise, in documents that do not say."""
MODELS = ("local-sgd", "model-averaging", "diloco", "streaming-diloco")
"""Strategies that send the model itself; the others send gradients."""
SEVERAL_REGIONS = ("hierarchical-all-reduce", "hierarchical", "model-averaging", "asgd-ga")
LOCAL = ("local-sgd", "model-averaging", "asgd-ga", "diloco", "streaming-diloco")
FIXED = ("sharding", "tensor_parallel", "checkpointing", "precision", "software")
"""Parts of a plan inside a worker that are as asked for, or free."""
STATES, LEANER = (8, 4, 4), {"nvidia-te": (8, 2, 4), "torchtune": (4, 2, 2)}
"""Bytes of each trainable parameter: optimizer, gradients and weights of AdamW in mixed precision,
and of software that keeps less. Moments of 8 bits have 2, of any software.
"""
DIVIDED = {"none": 0, "zero-1": 1, "zero-2": 2, "zero-3": 3, "hybrid": 3}
"""How many of them, in that order, the ranks divide among each other."""


def broken_limits(case: Case, bill: Bill, samples_per_second: float, usd: Json) -> list[str]:
    """Name every limit that the placement breaks, by the samples/s that count towards the target
    and USD/h by component of the second implementation.
    """
    return [
        *(*_machines(case), *_wishes(case), *_quotas(case), *_exchange(case, bill)),
        *(*_unlike(case), *_data(case), *_copied(case), *_islands(case), *unread(case)),
        *(*_counts(case), *_totals(case, samples_per_second, usd)),
    ]


def _counts(case: Case) -> Iterator[str]:
    wish = case.wish
    machines, most = sum(map(machine_count, case.placement["workers"])), wish.get("max_machines")
    for what, count, low, high in (
        ("workers", case.workers, wish["min_workers"], min(wish["max_workers"], case.batch)),
        ("regions", len(case.counts), wish["min_regions"], wish["max_regions"]),
    ):
        if not low <= count <= high:
            yield f"{count} {what}, not {low} to {high}"
    if most is not None and machines > most:
        yield f"{machines} machines, not at most {most}"


def _totals(case: Case, samples_per_second: float, usd: Json) -> Iterator[str]:
    wish, each = case.wish, usd["total"] / 3600 / samples_per_second
    startup_s, samples = wish.get("startup_s", 0.0), wish["samples"] or 0
    seconds = samples / samples_per_second + startup_s + wish.get("copy_s", 0.0)
    paid = each * samples + usd["compute"] / 3600 * startup_s
    for limit, value, words in (
        ("deadline_s", seconds, f"{samples:,} samples take longer than the deadline"),
        ("budget_usd", paid, f"{samples:,} samples cost more than the budget in total"),
        (
            "most_usd_per_million_samples",
            each * 1e6,
            "a million samples cost more than their limit",
        ),
    ):
        if wish[limit] is not None and value > wish[limit] * (1 + SLACK):
            yield words
    budget, floor = wish["budget_usd_per_hour"], wish["min_samples_per_second"]
    if budget is not None and usd["total"] > budget * (1 + SLACK):
        yield f"{usd['total']:.6g} USD/h are above the budget of {budget:g} USD/h"
    if floor is not None and samples_per_second < floor * (1 - SLACK):
        yield f"{samples_per_second:.6g} samples/s are below the floor of {floor:g} samples/s"


def _copied(case: Case) -> Iterator[str]:
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
    for row in case.placement["workers"]:
        offer, name = case.offer(row), f"{row['offer']} in {row['place']}"
        if (
            least_device_bytes(row, case.profile)
            > case.book["gpus"][row["gpu"]]["memory_gib"] * GIB
        ):
            yield f"the model does not fit the devices of {name}"
        if not row.get("inner"):
            yield from _unfit(offer, case.profile, name)
        yield from not_admitted(offer, case.speeds[kind_of(row)]["basis"], case.wish)


def _unfit(offer: Json, profile: Json, name: str = "") -> Iterator[str]:
    if profile["host_memory_bytes"] > offer["memory_gib"] * GIB:
        yield f"the model does not fit the host memory of {name}"
    if any(
        row["gpu"] == offer["gpu"] and row["gpu_count"] <= offer["gpu_count"]
        for row in profile.get("out_of_memory", ())
    ):
        yield f"the model is known to run out of memory on {name}"


def fits(offer: Json, problem: Json) -> bool:
    """Tell whether a model without an architecture fits devices and host of a machine."""
    profile, device = problem["profile"], problem["catalog"]["gpus"][offer["gpu"]]
    within = profile["device_memory_bytes"] <= device["memory_gib"] * GIB
    return within and not any(_unfit(offer, profile))


def not_admitted(offer: Json, basis: str, wish: Json) -> Iterator[str]:
    """Say which wishes about machines and places an offer with a basis of its speed breaks."""
    place, device = f"{offer['provider']}/{offer['region']}", f"{offer['gpu']}:{offer['gpu_count']}"
    name = f"{offer['instance_type']} in {place}"
    if wish["gpus"] and offer["gpu"] not in wish["gpus"] and device not in wish["gpus"]:
        yield f"{name} has GPUs that were not asked for"
    if wish["market"] not in ("any", offer["market"]):
        yield f"{name} is {offer['market']}"
    if wish["oldest_price"] is not None and offer["as_of"] < wish["oldest_price"]:
        yield f"the price of {name} is of {offer['as_of']}"
    if wish["require_measured"] and basis not in ("measured", "published"):
        yield f"nobody measured {name}"
    inside = not wish["places_in"] or any(fnmatchcase(place, p) for p in wish["places_in"])
    if not inside or any(fnmatchcase(place, p) for p in wish["places_not_in"]):
        yield f"{place} is not admitted"


def _wishes(case: Case) -> Iterator[str]:
    workers = case.placement["workers"]
    for row in workers:
        exist, launch = case.offer(row)["available"], supply_of(case.offer(row), case.problem)
        machines = sum(machine_count(r) for r in workers if kind_of(r)[:5] == kind_of(row)[:5])
        for most, what in ((exist, "exist"), (launch, "launch together")):
            if most is not None and machines > most:
                yield f"{machines} x {row['offer']} in {row['place']}, of which {most} {what}"
    for rule in case.wish["used"]:
        if sum(machine_count(r) for r in workers if _uses(rule, r)) < rule["count"]:
            yield f"fewer than {rule['count']} x {rule['device']} in {rule['place']}"


def _uses(rule: Json, row: Json) -> bool:
    device = row["gpu"] if row["gpu_count"] == 1 else f"{row['gpu']}:{row['gpu_count']}"
    named = {**row, "device": device}
    words = ((named[key], rule[key].split("|")) for key in ("place", "device", "market"))
    return all(any(fnmatchcase(name, pattern) for pattern in patterns) for name, patterns in words)


def supply_of(offer: Json, problem: Json) -> int | None:
    """Return how many machines of an offer launch together at most: by what zones of its region
    refused, else by the wish for spot machines that no quota counts; None: any number.
    """
    wish, place = problem["requirements"], f"{offer['provider']}/{offer['region']}"
    most: int | None = wish.get("supply")
    named = place, offer["gpu"], offer["market"], offer["instance_type"]
    by_quota = _other_quota(wish) is not None or any(is_counted(q, *named) for q in wish["quotas"])
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
    """Check that workers are alike where software divides a step equally and nobody asks else."""
    wish, rows = case.wish, case.placement["workers"]
    offers = case.problem["catalog"]["offers"]
    own = {(o["gpu"], o["gpu_count"]) for o in offers if o["price_basis"] == "owned"}
    asked = not wish.get("uniform") or wish["used"] or wish["datasets"] or len(own) > 1
    kinds = {(r["gpu"], r["gpu_count"], r.get("machines", 1), str(r.get("inner"))) for r in rows}
    if len(kinds) > 1 and not asked and transport_of(case.problem) != "hivemind":
        yield f"{len(kinds)} kinds of workers, which are to be alike"


def quota_of(place: str, gpu: str, market: str, wish: Json) -> int | None:
    """Return the GPUs of a place, type and market by quotas, else by the wish; None: no limit."""
    rows = [q for q in wish["quotas"] if q["scope"] == "each" and is_counted(q, place, gpu, market)]
    return int(rows[-1]["gpus"]) if rows else _other_quota(wish)


def _other_quota(wish: Json) -> int | None:
    gpus: int | None = wish.get("quota_gpus", FORMER_QUOTA_GPUS)
    return gpus


def _quotas(case: Case) -> Iterator[str]:
    used: dict[tuple[str, str, str], int] = {}
    server = case.placement["server"]
    on_cpu = server is None or case.book["gpus"][server["gpu"]]["kind"] == "cpu"
    counted = [] if on_cpu else [server]
    for row in [*case.placement["workers"], *counted]:
        key = row["place"], row["gpu"], row["market"]
        used[key] = used.get(key, 0) + machine_count(row) * row["gpu_count"]
    for key, gpus in used.items():
        quota = quota_of(*key, case.wish)
        if quota is not None and gpus > quota:
            yield f"{gpus} x {key[1]} {key[2]} in {key[0]}, where the quota is {quota}"
    for row in (q for q in case.wish["quotas"] if q["scope"] == "together"):
        vcpus, most = row.get("vcpus"), row["gpus"] if row.get("vcpus") is None else row["vcpus"]
        # A server without GPUs takes no quota of GPUs, but vCPUs.
        others = counted if vcpus is None or server is None else [server]
        together = sum(
            machine_count(m) * (m["gpu_count"] if vcpus is None else _vcpus(case.offer(m)))
            for m in [*case.placement["workers"], *others]
            if is_counted(row, m["place"], m["gpu"], m["market"], m["offer"])
        )
        if together > most:
            names = [row["place"], row["gpu"], row["market"], row.get("machine", "*")]
            unit = "GPUs" if vcpus is None else "vCPUs"
            yield f"{together:g} {unit}, where the joint quota of {' '.join(names)} is {most}"


def is_counted(row: Json, place: str, gpu: str, market: str, machine: str | None = None) -> bool:
    """Tell whether a row of quotas counts a place, type, market and, where given, machine type."""
    pairs = [(place, row["place"]), (gpu, row["gpu"]), (market, row["market"])]
    if machine is not None:
        pairs.append((machine, row.get("machine", "*")))
    return all(any(fnmatchcase(name, p) for p in words.split("|")) for name, words in pairs)


def _vcpus(offer: Json) -> float:
    """Return the whole vCPUs of a machine; of own machines, which no quota holds, infinity."""
    stated = offer["price_basis"] != "owned" and 0 < offer["vcpus"] < math.inf
    return math.ceil(offer["vcpus"]) if stated else math.inf


def _exchange(case: Case, bill: Bill) -> Iterator[str]:
    wish, placement, name, steps = case.wish, case.placement, case.strategy, case.local_steps
    if (case.workers > 1) == (name == "none"):
        yield f"{case.workers} workers with the exchange {name}"
    if placement["compression"] != (wish["compression"] or case.profile["compression"]):
        yield f"compression {placement['compression']}"
    yield from _hub(case, bill)
    if name == "none":
        if case.streams > 1 or placement["overlap"]:
            yield "one worker with streams of an exchange"
        return
    low, high = wish["min_local_steps"] or 1, wish["max_local_steps"] or 64
    asked = wish["exchange"] == name or (
        wish["exchange"] == "auto" and (name not in LOCAL or wish["max_local_steps"] is not None)
    )
    inside = low <= steps <= high if name in LOCAL else low == 1 == steps
    if not (asked and inside):
        yield f"the exchange {name} with {steps} local steps was not asked for"
    if name in SEVERAL_REGIONS and len(case.counts) < 2:
        yield f"the exchange {name} in one region"
    if case.streams != wish["streams"]:
        yield f"{case.streams} streams, not {wish['streams']}"
    for key, said in (("aggregator", "aggregator"), ("storage", "store")):
        if wish[key] is not None and (placement[key] or {}).get("place") != wish[key]:
            yield f"the {said} is not in {wish[key]}"


def _hub(case: Case, bill: Bill) -> Iterator[str]:
    server, counts = case.placement["server"], case.counts
    if server is not None:
        needed = 2 * case.profile["gradient_bytes_fp32"] + case.workers * case.size
        if case.offer(server)["memory_gib"] * GIB < needed:
            yield f"{needed / GIB:.1f} GiB do not fit the server"
    if case.strategy in ("central", "hierarchical"):
        memory, regional = case.placement["aggregator"]["memory_gib"], case.strategy != "central"
        summed = max(*counts.values(), len(counts)) if regional else case.workers
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
    wish, datasets = case.wish, case.wish["datasets"]
    stay = {d["place"] for d in datasets if not d["may_move"]}
    for place in sorted(stay - case.counts.keys()):
        yield f"data stays in {place}, where there is no worker"
    if datasets and stay.issuperset(d["place"] for d in datasets) and case.counts.keys() - stay:
        yield "some workers have no data"
    for rule in wish["kept"]:
        ways: list[tuple[str, str]] = []
        if rule["kind"] == ("checkpoints" if case.strategy in MODELS else "gradients"):
            ways = [(a, b) for a, b, *_ in sends(case)]
        if rule["kind"] == "raw-data" and wish["data_store"] is not None:
            store = case.object_store(wish["data_store"])["place"]
            ways += [(store, place) for place in case.counts]
            if case.copy_from is not None:
                ways.append((case.copy_from, store))
        if rule["kind"] == "raw-data" and any(d["may_move"] for d in datasets):
            ways += [(src, dst) for src, dst, _, _ in case.moves()]
        if any(a in rule["places"] and b not in rule["places"] for a, b in ways):
            yield f"{rule['kind']} would leave {rule['area']}"


# --- Workers of several machines, and plans inside them ---


def machine_count(row: Json) -> int:
    """Return the machines of a group of workers."""
    return int(row["count"] * row.get("machines", 1))


def least_device_bytes(row: Json, profile: Json) -> float:
    """Return the bytes that each device of a group holds at least: the states of its plan, without
    activations; of workers without a plan what the profile says.
    """
    inner, shape = row.get("inner"), profile.get("architecture")
    if not inner or not shape:
        return float(profile["device_memory_bytes"])
    degree, machines = inner["tensor_parallel"], row.get("machines", 1)
    ranks = row["gpu_count"] // degree * (1 if inner["sharding"] == "hybrid" else machines)
    name, cut = inner.get("software") or "", DIVIDED[inner["sharding"]]
    optimizer, *others = LEANER.get(name.removesuffix("-8bit"), STATES)
    sizes = (2 if name.endswith("-8bit") else optimizer, *others)
    divided, whole = sum(sizes[:cut]), sum(sizes[cut:])
    if name == "nvidia-te" and 0 < cut < 3:
        divided, whole = divided + 4, whole - 4  # weights in FP32 too
    # Stages and groups of experts hold parts: at least the equal part of each device.
    experts = max(1, inner.get("expert_parallel", 1) // degree)
    parts = degree * inner.get("pipeline", 1) * experts
    ranks = max(1.0, ranks * degree / parts)
    return float(shape["trainable_parameters"] / parts * (divided / ranks + whole))


def unread(case: Case) -> Iterator[str]:
    """Check that no worker calculates faster than it reads from the data's store or its disks."""
    for row in case.placement["workers"]:
        reading, figures = case.reading(row), case.speeds[kind_of(row)]
        most = math.inf if reading is None else reading.mean()
        if max(figures["alone"], figures["in_group"]) > most * (1 + SLACK):
            where = f"{row['offer']} in {row['place']}"
            yield f"{where} reads at most {most:,.6g} samples/s from {case.wish['data_store']}"


def _islands(case: Case) -> Iterator[str]:
    wish, ranks = case.wish, 0
    for row in case.placement["workers"]:
        machines, inner = row.get("machines", 1), row.get("inner") or {}
        name = f"an island of {machines} x {row['offer']} in {row['place']}"
        limits = (wish.get("max_island_machines"), case.offer(row).get("max_island_machines"))
        if machines < (wish.get("min_island_machines") or 1):
            yield f"{name} has too few machines"
        if any(limit is not None and machines > limit for limit in limits):
            yield f"{name} has too many machines"
        if machines > 1 and not wish["same_zone"]:
            yield f"{name} is not in several zones"
        if not inner:
            continue
        # GPUs that take the same sequences are one rank.
        split = inner.get("pipeline", 1) * inner.get("context_parallel", 1)
        ranks += machine_count(row) * row["gpu_count"] // (inner["tensor_parallel"] * split)
        for key in FIXED:
            if wish.get(key) not in (None, inner.get(key)):
                yield f"{name} works by {key} {inner.get(key)}"
        most = wish.get("microbatch")
        if most is not None and inner["microbatch"] > most:
            yield f"{name} takes {inner['microbatch']} sequences at once"
    if ranks > case.batch:
        yield f"{ranks} ranks share {case.batch} sequences of a step"

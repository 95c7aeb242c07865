"""Check of a portfolio document: shared limits are summed again, and each job is priced again."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from math import fsum

from placer.cost_model.objective import gap_between
from placer.documents.certificate_check import Checked, check_certificate
from placer.documents.proof_check import UNCOVERED
from placer.documents.saved_result import check_result, first_difference
from placer.errors import refuse
from placer.records import Json
from placer.units import counted

PORTFOLIO_SCHEMA = "placer.portfolio/v1"
"""What ``placer portfolio`` writes."""
SAME = 1e-6
"""Relative slack of a sum against its limit."""
NEVER_COVERED = (
    "objective.bound",
    "per_dollar",
    "fair.bound",
    "one_by_one",
    "that what is shared was asked so",
    "name, priority, weight, max_share, start and reason of a job",
    "alone_usd, alone_workers, alone_samples_per_second and displaced of a job",
    "worth",
    "giving_way",
    "left_out_proved",
    "solver",
)
"""What a portfolio says and nothing works out again."""


def check_portfolio(document: Json, where: str) -> str:
    """Price every job of a saved portfolio again and sum what they share.

    Raises
    ------
    PlacerError
        Names the first job or limit that is wrong.
    """
    running = [job for job in document["jobs"] if job["runs"]]
    for job in running:
        if "result" not in job:
            lacking = f"job '{job['name']}' has no problem to price again"
            refuse([lacking], where, "save it with placer portfolio -o FILE")
        check_result(job["result"], f"{where}: job '{job['name']}'")
        own = {**job["result"], "model": job["result"]["request"]["model"]}
        for key in ("model", "placement", "estimate"):
            if job[key] != own[key]:
                refuse([f"the {key} of job '{job['name']}' is not that of its result"], where)
    refuse([wrong_sums(document)], where)
    return f"portfolio: {len(running)} of {counted(len(document['jobs']), 'job')} run"


def portfolio_words(document: Json, where: str) -> Checked:
    """Price every job of a portfolio that adds up by the second implementation too; say what is
    confirmed and what is taken on trust.

    Raises
    ------
    PlacerError
        Names the first job that is wrong.
    """
    for job in document["jobs"]:
        if job["runs"]:
            check_certificate(job["result"], f"{where}: job '{job['name']}'")
    confirmed = (
        "every job is priced again, by two implementations, within all limits",
        "quotas, budget, machines and totals follow from the jobs",
    )
    return Checked(confirmed=confirmed, trusted=(f"{UNCOVERED} {', '.join(NEVER_COVERED)}",))


def wrong_sums(document: Json) -> str:
    """Say which shared limit is broken, or which figure does not follow, by sums of its own from
    the document alone; empty if all hold.
    """
    return next(_wrong(document), "")


def _wrong(document: Json) -> Iterator[str]:
    shared, jobs = document["shared"], [job for job in document["jobs"] if job["runs"]]
    slots = shared["slots"]
    for slot in range(1 if slots is None else slots["count"]):
        running = [job for job in jobs if job["start"] <= slot < job["start"] + job["slots"]]
        yield from _wrong_slot(running, shared, slot, "" if slots is None else f" in slot {slot}")
    for job in jobs:
        hourly = job["estimate"]["usd_per_hour"]["total"]
        if slots is None and abs(job["usd"] - hourly) > SAME * max(1.0, hourly):
            yield f"job '{job['name']}' costs {hourly:g} USD/h, not {job['usd']:g}"
        if slots is None and (job["start"], job["slots"]) != (0, 1):
            yield f"job '{job['name']}' has slots, but time is not divided"
        if slots is not None and job["start"] + job["slots"] > slots["count"]:
            yield f"job '{job['name']}' ends after the last slot"
    bought = fsum(
        block["usd"]
        for block in shared["blocks"]
        if any(
            (worker["place"], worker["offer"]) == (block["place"], block["offer"])
            for job in jobs
            for worker in _machines(job)
        )
    )
    usd, budget = fsum(job["usd"] for job in jobs) + bought, shared["budget_usd"]
    if budget is not None and usd > budget * (1 + SAME):
        yield f"{usd:g} USD are above the budget of {budget:g}"
    yield from _wrong_value(document, jobs)
    if abs(document["usd"] - usd) > SAME * max(1.0, usd):
        yield f"all jobs cost {usd:g}, not {document['usd']:g}"


def _wrong_value(document: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield what of an objective in speed does not follow from the jobs."""
    objective = document["objective"]
    if objective["name"] == "throughput":
        total = fsum(
            job["weight"] * job["estimate"]["effective_samples_per_second"]["value"] for job in jobs
        )
        if abs(objective["value"] - total) > SAME * max(1.0, total):
            yield f"all jobs do {total:g} weighted samples/s, not {objective['value']:g}"
    yield from _wrong_bound(document)
    if document["status"] == "all_run" and len(jobs) < len(document["jobs"]):
        yield "all jobs are said to run"
    shares = [job["share"] for job in jobs if job.get("share") is not None]
    fair = document.get("fair")
    if fair is not None and shares and abs(fair["least_share"] - min(shares)) > SAME:
        yield f"the least share is {min(shares):g}, not {fair['least_share']:g}"


def _wrong_bound(document: Json) -> Iterator[str]:
    objective, one = document["objective"], document["one_by_one"]
    bound, value = objective["bound"], objective["value"]
    sign = -1 if objective["name"] == "throughput" else 1
    if objective["name"] == "cost" and abs(value - document["usd"]) > SAME * max(1.0, value):
        yield f"the objective is {value:g}, but all jobs cost {document['usd']:g}"
    if bound is not None:
        if first_difference(gap_between(value, bound), objective["gap"], "objective.gap"):
            yield "gap, bound and value do not fit each other"
        if sign * (bound - value) > SAME * abs(bound):
            yield f"the bound {bound:g} is beaten by the value {value:g}"
    if one["saving"] is not None:
        saving = sign * (one["value"] - value) / one["value"]
        if first_difference(saving, one["saving"], "one_by_one.saving"):
            yield f"saved is {saving:.3g}, not {one['saving']:.3g}"


def _wrong_slot(jobs: list[Json], shared: Json, slot: int, when: str) -> Iterator[str]:
    gpus: dict[tuple[str, str, str], int] = {}
    machines: dict[tuple[str, str, str], int] = {}
    for worker in (worker for job in jobs for worker in _machines(job)):
        bucket = worker["place"], worker["gpu"], worker["market"]
        count = worker["count"] * worker.get("machines", 1)
        if not (worker["gpu"].startswith("CPU-") and worker.get("server")):
            gpus[bucket] = gpus.get(bucket, 0) + count * worker["gpu_count"]
        kind = worker["place"], worker["offer"], worker["market"]
        machines[kind] = machines.get(kind, 0) + count
    yield from _wrong_quotas(gpus, shared, when)
    there = {
        (row["place"], row["offer"], row["market"]): row["machines"] for row in shared["machines"]
    }
    for kind, most in {**there, **_blocks(shared, slot)}.items():
        if machines.get(kind, 0) > most:
            yield f"{machines[kind]} {kind[1]} in {kind[0]}{when} exceed the {most} that exist"


def _wrong_quotas(gpus: dict[tuple[str, str, str], int], shared: Json, when: str) -> Iterator[str]:
    for bucket, count in gpus.items():
        rows = [row for row in shared["quotas"] if _covers(row, bucket)]
        each = [row["gpus"] for row in rows if row["scope"] == "each"]
        most = each[-1] if each else shared["quota_gpus"]
        if most is not None and count > most:
            yield f"{count} {bucket[1]} in {bucket[0]}{when} exceed the quota of {most}"
    for row in shared["quotas"]:
        if row["scope"] == "together":
            total = sum(count for bucket, count in gpus.items() if _covers(row, bucket))
            if total > row["gpus"]:
                yield f"{total} {row['gpu']} in {row['place']}{when} exceed {row['gpus']} together"


def _blocks(shared: Json, slot: int) -> dict[tuple[str, str, str], int]:
    there: dict[tuple[str, str, str], int] = {}
    for block in shared["blocks"]:
        kind = block["place"], block["offer"], block["market"]
        inside = block["first_slot"] <= slot < block["first_slot"] + block["slots"]
        there[kind] = there.get(kind, 0) + (block["machines"] if inside else 0)
    return there


def _machines(job: Json) -> Iterator[Json]:
    """Yield the groups of machines of a job, its server among them."""
    yield from job["placement"]["workers"]
    server = job["placement"]["server"]
    if server is not None:
        yield {**server, "count": 1, "server": True}


def _covers(row: Json, bucket: tuple[str, str, str]) -> bool:
    pairs = zip(bucket, (row["place"], row["gpu"], row["market"]), strict=True)
    return all(
        any(fnmatchcase(value, one) for one in patterns.split("|")) for value, patterns in pairs
    )

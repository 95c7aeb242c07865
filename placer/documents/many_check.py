"""Check of documents with many answers. Of a frontier the points rise, every figure follows from
them, each is priced again, and none is ruled out by another placement; of a portfolio shared limits
are summed again, and each job is priced again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import fsum

from placer.cost_model.dollars import usd_per_million_samples
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.objective import gap_between
from placer.documents.certificate_check import Checked, check_certificate, wrong_prices
from placer.documents.checker.limits import is_counted, quota_of
from placer.documents.present_book import compare_with_book
from placer.documents.proof_check import UNCOVERED, can_refute, refuter
from placer.documents.result_parts import request_document
from placer.documents.saved_result import (
    SAME,
    check_result,
    figures,
    first_difference,
    is_request,
    placement_from,
    wrong_pricing,
)
from placer.errors import refuse
from placer.problem.problem import Problem
from placer.records import Json
from placer.units import counted

PROVED = 1e-7
"""By so much more than the gap that was asked for a point still counts as proved."""
FREE_USD_PER_HOUR = 1e-6
"""What a point without a price counts as on a logarithmic scale."""
NEVER_COVERED = (
    "that no point is missing between two others",
    "the gap that was asked for",
    "status",
    "solver",
    "nearest",
    "warnings",
)
"""What a frontier says and nothing works out again."""
PORTFOLIO_SCHEMA = "placer.portfolio/v1"
"""What ``placer portfolio`` writes."""
SLACK = 1e-6
"""Relative slack of a sum against its limit."""
NEVER_COVERED_JOBS = (
    "objective.bound",
    "per_dollar",
    "fair.bound",
    "one_by_one",
    "that what is shared was asked so",
    "name, team, priority, weight, max_share, start and reason of a job",
    "alone_usd, alone_workers, alone_samples_per_second and displaced of a job",
    "worth",
    "giving_way",
    "left_out_proved",
    "solver",
)
"""What a portfolio says and nothing works out again."""


def check_frontier(document: Json, where: str) -> tuple[str, Checked]:
    """Check the figures of a frontier against each other. Where the document has its problem, price
    every point again and compare it with the book on this machine. Say what it is, and what is
    confirmed and taken on trust.

    Raise `PlacerError`, which names the first point that is wrong: also where a price differs from
    the book of the same digest, or a placement beats a bound.
    """
    for wrong in (_wrong_points, _wrong_summary, _wrong_prices):
        refuse(wrong(document), where)
    kind = f"frontier of {len(document['points'])} points, none beats another"
    return kind, _frontier_words(document, where)


def _frontier_words(document: Json, where: str) -> Checked:
    points = document["points"]
    bounds = ("most_samples_per_second", "least_usd_per_hour") if points else ()  # by searches
    if "problem" not in document:
        left = ("placements, estimates and prices of the points", *bounds)
        words = f"{UNCOVERED} {', '.join((*left, 'request', 'data', *NEVER_COVERED))}"
        note = "the problem is not in this file: a version of today writes it with placer pareto -o"
        return Checked(confirmed=("figures of the points fit each other",), trusted=(words, note))
    placements = [placement_from(point["placement"]) for point in points]
    problem = Problem.from_dict(document["problem"])
    compared = compare_with_book(problem, placements, document["data"], whole=False)
    refuse(compared.wrong, where)
    refuse(_refuted(document, compared.problem), where)
    confirmed = ["every point is priced again, by two implementations, within all limits"]
    if can_refute(compared.problem) and points:
        confirmed.append("no equal machines in one place beat a point or its bounds")
    left = (*compared.uncovered, ", ".join((*bounds, *NEVER_COVERED)))
    return Checked(
        confirmed=(*confirmed, *compared.confirmed),
        trusted=tuple(f"{UNCOVERED} {text}" for text in left),
    )


def _wrong_points(document: Json) -> Iterator[str]:
    usd_before = speed_before = -1.0
    before: Json | None = None
    for number, point in enumerate(document["points"]):
        usd, speed = point["usd_per_hour"], point["samples_per_second"]
        most, least = point["most_samples_per_second"], point["least_usd_per_hour"]
        priced = point["estimate"]
        followed = {
            "usd_per_hour": priced["usd_per_hour"]["total"],
            "samples_per_second": priced["effective_samples_per_second"]["value"],
            "usd_per_million_samples": usd_per_million_samples(usd, speed),
            "marginal_usd_per_million_samples": None
            if before is None
            else usd_per_million_samples(usd - usd_before, speed - speed_before),
            "gap": _gap(point),
            "status": _status(point, document["gap"]),
        }
        for broken, words in (
            (usd <= usd_before or speed <= speed_before, "is no better than the one before"),
            (most is not None and most < speed * (1 - SAME), "is faster than its own bound"),
            (least is not None and least > usd * (1 + SAME), "is cheaper than its own bound"),
        ):
            if broken:
                yield f"point {number} {words}"
        for key, value in followed.items():
            yield first_difference(value, point[key], f"points[{number}].{key}")
        usd_before, speed_before, before = usd, speed, point


def _gap(point: Json) -> float | None:
    most, least = point["most_samples_per_second"], point["least_usd_per_hour"]
    if most is None or least is None:
        return None
    usd = point["usd_per_hour"]
    saved = 0.0 if usd <= 0 else 1 - least / usd
    return max(0.0, float(most / point["samples_per_second"] - 1), saved)


def _status(point: Json, asked_gap: float) -> str:
    gap = _gap(point)
    if gap is None:
        return "feasible"
    return "optimal" if gap <= asked_gap + PROVED else "time_limit"


def _wrong_summary(document: Json) -> Iterator[str]:
    """Yield what the document says of all points together and that does not follow from them."""
    points = document["points"]
    if points and document["status"] in ("infeasible", "unknown"):  # how one without points ends
        yield f"status is written as {document['status']}"
    prices = [point["usd_per_million_samples"] for point in points]
    for key, value in (
        ("proved", bool(points) and all(point["status"] == "optimal" for point in points)),
        ("best_value", prices.index(min(prices)) if prices else None),
        ("knee", _knee(points)),
    ):
        if document[key] is not value and document[key] != value:
            yield f"{key} is written as {str(document[key])[:40]}, but comes to {value}"


def _knee(points: Sequence[Json]) -> int | None:
    """Find the point that lies furthest above the chord of the ends, both axes logarithmic."""
    if len(points) < 3:
        return None
    costs = [math.log(max(point["usd_per_hour"], FREE_USD_PER_HOUR)) for point in points]
    speeds = [math.log(point["samples_per_second"]) for point in points]
    wide, high = costs[-1] - costs[0], speeds[-1] - speeds[0]
    above = [
        (y - speeds[0]) / (high or 1.0) - (x - costs[0]) / (wide or 1.0)
        for x, y in zip(costs, speeds, strict=True)
    ]
    best = above.index(max(above))
    return best if above[best] > SAME else None


def _wrong_prices(document: Json) -> Iterator[str]:
    if "problem" not in document:
        return
    problem = Problem.from_dict(document["problem"])
    request = request_document(problem)
    del request["objective"]
    if not is_request(document["request"], request):
        yield "the request does not fit the problem"
    for key, written in (("catalog", problem.catalog.name), ("digest", problem.catalog.digest)):
        if document["data"][key] != written:
            yield f"data.{key} does not fit the problem"
    for number, point in enumerate(document["points"]):
        placement = placement_from(point["placement"])
        broken = violations(placement, problem)
        if broken:
            yield f"point {number} breaks a limit: {broken[0].message}"
        priced = estimate(placement, problem)
        yield from wrong_pricing(point, problem, placement, priced, f"points[{number}].")
        parts = {"problem": document["problem"], **{k: point[k] for k in ("placement", "estimate")}}
        for text in wrong_prices(figures(placement, problem), parts):
            yield f"point {number}: {text}"


def _refuted(document: Json, whole: Problem | None) -> Iterator[str]:
    """Yield points whose bounds equal machines in one place beat, by speed or by price."""
    if whole is None or not can_refute(whole):
        return
    beaten = refuter(whole)
    for number, point in enumerate(document["points"]):
        usd, speed = point["usd_per_hour"], point["samples_per_second"]
        within = {"budget_usd_per_hour": usd, "min_samples_per_second": None}
        for objective, limits, key in (
            ("throughput", within, "most_samples_per_second"),
            ("cost", {"min_samples_per_second": speed}, "least_usd_per_hour"),
        ):
            if point[key] is None or (key == "most_samples_per_second" and usd <= 0):
                continue
            better = beaten({"objective": objective, **limits}, point[key])
            if better:
                yield f"points[{number}].{key} is {point[key]:.9g}, but {better}"


def check_portfolio(document: Json, where: str) -> tuple[str, Checked]:
    """Price every job of a saved portfolio again, by two implementations, and sum what they share;
    say what it is, and what is confirmed and taken on trust.

    Raise `PlacerError`, which names the first job or limit that is wrong.
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
    for job in running:
        check_certificate(job["result"], f"{where}: job '{job['name']}'")
    confirmed = (
        "every job is priced again, by two implementations, within all limits",
        "quotas, budgets, machines and totals follow from the jobs",
    )
    trusted = (f"{UNCOVERED} {', '.join(NEVER_COVERED_JOBS)}",)
    kind = f"portfolio: {len(running)} of {counted(len(document['jobs']), 'job')} run"
    return kind, Checked(confirmed=confirmed, trusted=trusted)


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
        if slots is None and abs(job["usd"] - hourly) > SLACK * max(1.0, hourly):
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
    if budget is not None and usd > budget * (1 + SLACK):
        yield f"{usd:g} USD are above the budget of {budget:g}"
    for team in shared.get("teams", ()):
        spent = fsum(job["usd"] for job in jobs if job.get("team", "") == team["name"])
        if team["budget_usd"] is not None and spent > team["budget_usd"] * (1 + SLACK):
            yield f"{spent:g} USD of team {team['name']} are above {team['budget_usd']:g}"
    yield from _wrong_value(document, jobs)
    if abs(document["usd"] - usd) > SLACK * max(1.0, usd):
        yield f"all jobs cost {usd:g}, not {document['usd']:g}"


def _wrong_value(document: Json, jobs: list[Json]) -> Iterator[str]:
    """Yield what of an objective in speed does not follow from the jobs."""
    objective = document["objective"]
    if objective["name"] == "throughput":
        total = fsum(
            job["weight"] * job["estimate"]["effective_samples_per_second"]["value"] for job in jobs
        )
        if abs(objective["value"] - total) > SLACK * max(1.0, total):
            yield f"all jobs do {total:g} weighted samples/s, not {objective['value']:g}"
    yield from _wrong_saving(document)
    if document["status"] == "all_run" and len(jobs) < len(document["jobs"]):
        yield "all jobs are said to run"
    shares = [job["share"] for job in jobs if job.get("share") is not None]
    fair = document.get("fair")
    if fair is not None and shares and abs(fair["least_share"] - min(shares)) > SLACK:
        yield f"the least share is {min(shares):g}, not {fair['least_share']:g}"


def _wrong_saving(document: Json) -> Iterator[str]:
    objective, one = document["objective"], document["one_by_one"]
    bound, value = objective["bound"], objective["value"]
    sign = -1 if objective["name"] == "throughput" else 1
    if objective["name"] == "cost" and abs(value - document["usd"]) > SLACK * max(1.0, value):
        yield f"the objective is {value:g}, but all jobs cost {document['usd']:g}"
    if bound is not None:
        if first_difference(gap_between(value, bound), objective["gap"], "objective.gap"):
            yield "gap, bound and value do not fit each other"
        if sign * (bound - value) > SLACK * abs(bound):
            yield f"the bound {bound:g} is beaten by the value {value:g}"
    if one["saving"] is not None:
        saving = sign * (one["value"] - value) / one["value"]
        if first_difference(saving, one["saving"], "one_by_one.saving"):
            yield f"saved is {saving:.3g}, not {one['saving']:.3g}"


def _wrong_slot(jobs: list[Json], shared: Json, slot: int, when: str) -> Iterator[str]:
    machines: dict[tuple[str, str, str], int] = {}
    for worker in (worker for job in jobs for worker in _machines(job)):
        kind = worker["place"], worker["offer"], worker["market"]
        machines[kind] = machines.get(kind, 0) + worker["count"] * worker.get("machines", 1)
    yield from _wrong_quotas(jobs, shared["quotas"], shared["quota_gpus"], when)
    for team in shared.get("teams", ()):
        own = [job for job in jobs if job.get("team", "") == team["name"]]
        yield from _wrong_quotas(own, team["quotas"], None, f"{when} of team {team['name']}")
    there = {
        (row["place"], row["offer"], row["market"]): row["machines"] for row in shared["machines"]
    }
    for kind, most in {**there, **_blocks(shared, slot)}.items():
        if machines.get(kind, 0) > most:
            yield f"{machines[kind]} {kind[1]} in {kind[0]}{when} exceed the {most} that exist"


def _wrong_quotas(
    jobs: list[Json], quotas: list[Json], other: int | None, when: str
) -> Iterator[str]:
    """Yield what jobs take above the last row that matches (``other`` without one), or together."""
    gpus: dict[tuple[str, str, str], int] = {}
    for worker in (worker for job in jobs for worker in _machines(job)):
        bucket = worker["place"], worker["gpu"], worker["market"]
        if not (worker["gpu"].startswith("CPU-") and worker.get("server")):
            count = worker["count"] * worker.get("machines", 1) * worker["gpu_count"]
            gpus[bucket] = gpus.get(bucket, 0) + count
    for bucket, count in gpus.items():
        most = quota_of(*bucket, {"quotas": quotas, "quota_gpus": other})
        if most is not None and count > most:
            yield f"{count} {bucket[1]} in {bucket[0]}{when} exceed the quota of {most}"
    for row in quotas:
        if row["scope"] == "together":
            total = sum(count for bucket, count in gpus.items() if is_counted(row, *bucket))
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

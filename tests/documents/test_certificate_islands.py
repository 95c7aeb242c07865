"""The second implementation and saved files of today's exchanges: islands, NCCL and Gloo."""

import importlib
import json
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from jsonschema import validate as follows
from second_opinions import assert_priced_alike, assert_same_limits, edited, examined

import placer
from instances import island_problem, question, wishing
from placements import random_placement
from placer.cost_model.limits import violations
from placer.documents.checker.market import machines_of
from placer.documents.saved_result import device_speeds
from placer.documents.schemas import schema_text
from placer.documents.validate import check_document, examine_document
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.market.words.own_machines import parse_own, with_own_machines
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.by_hand import place_by_hand
from placer.solving.result import Result
from placer.solving.solve import solve

placements = importlib.import_module("placer.solvers.exhaustive").placements
PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0, certificate=True)
SEVERAL = [name for name in STRATEGIES if name != "none"]


def island_placements(seed: int, count: int) -> list[tuple[Placement, Problem]]:
    """Draw placements of a market with islands; those of several workers or machines first."""
    problem = island_problem(seed)
    found = list(islice(placements(problem), 400))
    found.sort(key=lambda p: (p.workers > 1) + (p.machines > p.workers), reverse=True)
    best = found[: max(count, len(found) // 2)]
    return [(p, problem) for p in random.Random(seed).sample(best, min(count, len(best)))]


def test_the_second_implementation_prices_islands_alike() -> None:
    """120 placements on 40 markets: islands of several sizes, every transport, local steps, one
    stream or so many that a pair of machines reaches its cap.
    """
    seen: set[str] = set()
    several = 0
    for seed in range(40):
        for drawn, problem in island_placements(seed, 3):
            streams = random.Random(seed).choice((1, 64))
            placement = replace(drawn, exchange=replace(drawn.exchange, streams=streams))
            assert_priced_alike(placement, wishing(problem, streams=streams))
            seen.add(placement.exchange.transport)
            several += placement.machines > placement.workers
    assert seen == {"nccl", "gloo", "hivemind"}
    assert several >= 40


def test_islands_of_a_site_share_its_line_in_the_second_implementation(default: Catalog) -> None:
    """Two machines at a site with 1 Gb/s, and two in a cloud."""
    problem = question(
        "mpt-1b", with_own_machines(default, parse_own("lab=2xH100:8@Dallas", default)), streams=64
    )
    words = "onprem/lab=1x2xH100:8:on-demand,aws/us-east-1=1x2xH100:8:spot"
    assert_priced_alike(place_by_hand(words, problem), problem)


@pytest.mark.parametrize("transport", ["nccl", "gloo"])
@pytest.mark.parametrize("strategy", SEVERAL)
def test_rings_are_priced_alike_on_all_markets(strategy: str, transport: str) -> None:
    """12 random placements of each strategy, with streams, local steps, overlap and placed data."""
    for seed in range(12):
        placement, problem = random_placement(strategy, seed)
        exchange = replace(placement.exchange, transport=transport)
        asked = wishing(problem, transport=transport)
        assert_priced_alike(replace(placement, exchange=exchange), asked)


def test_the_second_implementation_finds_the_limits_of_islands_broken() -> None:
    """Machines, quotas, budgets and floors of islands."""
    drawn = map(island_problem, range(30))
    assert_same_limits((p, problem) for problem in drawn for p in islice(placements(problem), 30))


OTHER_WISHES: tuple[dict[str, Any], ...] = (
    {"sharding": "zero-2"},
    {"sharding": "zero-3", "checkpointing": "full"},
    {"tensor_parallel": 1},
    {"precision": "bf16"},
    {"microbatch": 2},
    {"min_island_machines": 2, "max_island_machines": 4},
    {"max_island_machines": 1},
    {"same_zone": False},
    {"max_machines": 2},
)


def test_both_implementations_hold_islands_to_other_wishes() -> None:
    """Placements of a question, judged by the wishes of another one: as a changed world does.

    That no plan of the other wishes fits an offer at all is not for the second implementation.
    """

    def pairs() -> Iterator[tuple[Placement, Problem]]:
        for seed in range(18):
            problem = island_problem(seed)
            wishes = OTHER_WISHES[seed % len(OTHER_WISHES)]
            changed = wishing(problem, **wishes)
            kept = {pool.group(1).offer_kind for pool in changed.pools}
            for placement in islice(placements(problem), 12):
                codes = {broken.code for broken in violations(placement, changed)}
                known = {group.offer_kind for group in placement.groups} <= kept
                if known and not codes & {"device-memory", "batch"}:
                    yield placement, changed

    assert_same_limits(pairs())


def test_the_relaxation_has_every_kind_of_worker() -> None:
    """One row for each admitted pool, with its speed, price and averaging class: an offer that is
    missing there makes a bound that an answer beats. Also machines whose network nobody knows.
    """
    unknown = 0
    for seed in range(60):
        problem = island_problem(seed)
        machines = machines_of(json.loads(json.dumps(problem.to_dict())), device_speeds(problem))
        ours = sorted((p.host, p.shared.value, p.usd_per_hour, p.gpus) for p in problem.pools)
        theirs = sorted((m.host, m.speed, m.usd, m.gpus) for m in machines)
        assert theirs == ours, seed
        unknown += any(pool.offer.network_gbps is None for pool in problem.pools)
    assert unknown >= 10


def test_results_with_islands_are_valid_with_and_without_a_market() -> None:
    """Four answers of `exact`, saved as a file holds them, follow the schema and are confirmed."""
    schema = json.loads(schema_text("result"))
    several = 0
    for seed in range(4):
        result = solve(island_problem(seed), "exact", PROOF)
        for whole in (False, True):
            document = json.loads(json.dumps(result.to_saved(whole=whole)))
            follows(document, schema)
            examined(document)
        if result.placement is not None:
            several += result.placement.machines > result.placement.workers
    assert several >= 1


@pytest.fixture(scope="module")
def answered() -> Result:
    """Llama 3.1 8B on machines of four L4: it fits no single one of them."""
    words: dict[str, Any] = {"budget": "60/h", "gpu": "L4", "places": "gcp/us-*", "quota": 64}
    words |= {"machines_per_island": "2..4", "certificate": True}
    return placer.recommend("llama-3.1-8b", **words)


@pytest.fixture(scope="module")
def saved(answered: Result) -> dict[str, Any]:
    """Its file, with the whole market."""
    document: dict[str, Any] = json.loads(json.dumps(answered.to_saved(whole=True)))
    assert document["placement"]["workers"][0]["machines"] > 1
    return document


def test_the_file_is_confirmed(saved: dict[str, Any]) -> None:
    """Prices, limits and speeds by the second implementation, and which workers were searched."""
    follows(saved, json.loads(schema_text("result")))
    said, checked = examine_document(saved, "r.json")
    assert "priced again" in said
    assert checked is not None
    assert any("second implementation finds" in line for line in checked.confirmed)
    assert any(
        "1 to 64 workers, of every number of machines from 2 to 4" in line
        for line in checked.confirmed
    )


EDITS: dict[str, tuple[str, Any]] = {
    "machines": ("placement/workers/0/machines", lambda v: v + 1),
    "fewer machines": ("placement/workers/0/machines", 1),
    "no machines": ("placement/workers/0/machines", 0),
    "machines in words": ("placement/workers/0/machines", "four"),
    "count": ("placement/workers/0/count", lambda v: v + 1),
    "sharding": ("placement/workers/0/inner/sharding", "none"),
    "unknown sharding": ("placement/workers/0/inner/sharding", "zero-9"),
    "tensor parallel": ("placement/workers/0/inner/tensor_parallel", 8),
    "microbatch": ("placement/workers/0/inner/microbatch", 512),
    "precision": ("placement/workers/0/inner/precision", "fp32"),
    "transport": ("placement/transport", "gloo"),
    "speed": ("certificate/figures/machines/0/in_group", lambda v: v * 0.99),
    "machines of a figure": ("certificate/figures/machines/0/machines", lambda v: v * 2),
    "compute": ("estimate/usd_per_hour/compute", lambda v: v * 0.5),
    "total": ("estimate/usd_per_hour/total", lambda v: v * 0.99),
    "tokens": ("estimate/tokens_per_second/value", lambda v: v * 1.5),
    "usd per token": ("estimate/usd_per_billion_tokens", lambda v: v * 0.5),
    "worker price": ("placement/workers/0/usd_per_hour", lambda v: v * 0.5),
    "layers": ("problem/profile/architecture/layers", 16),
    "network": ("problem/catalog/offers/0/network_gbps", 9000.0),
    "sizes": ("certificate/searched/islands/0/machines", lambda v: [v[0], v[1] + 1]),
    "setting": ("problem/catalog/settings/0/value", "gloo"),
    "most machines": ("problem/requirements/max_island_machines", 1),
}
"""Path and new value."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused(saved: dict[str, Any], name: str) -> None:
    """One figure changed at a time: one line, exit code 2."""
    document = edited(saved, *EDITS[name])
    with pytest.raises(PlacerError) as caught:
        check_document(document, "r.json")
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message


WISHES: dict[str, Any] = {
    "transport": "gloo",
    "machines": 9,
    "machines_per_island": "2..4",
    "sharding": "zero-3",
    "tp": 2,
    "checkpointing": "full",
    "microbatch": 2,
    "precision": "bf16",
    "tokens": "1B",
    "seq_len": 2048,
}


def test_a_problem_with_every_wish_reads_back() -> None:
    """Through JSON; and the plans that it admits are the same."""
    problem = Advisor().problem("llama-3.1-8b", "default", **WISHES, gpu="H100")
    again = Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    assert again.requirements == problem.requirements
    assert [p.name for p in again.pools] == [p.name for p in problem.pools]
    assert [p.alone for p in again.pools] == [p.alone for p in problem.pools]

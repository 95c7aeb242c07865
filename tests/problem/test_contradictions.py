"""Wishes that contradict each other or change nothing, servers as machines, and results that were
edited.
"""

import json
from pathlib import Path
from typing import Any

import placer
from conftest import Run
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.outlook.outlook import spot_outlook
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.by_hand import place_by_hand


def test_a_server_with_gpus_counts_against_the_quota(tmp_path: Path) -> None:
    """Three T4 on demand and a server on a fourth break a quota of 3."""
    quota = tmp_path / "q.csv"
    quota.write_text("place,gpu,market,gpus\n*,*,*,3\n", encoding="utf-8")
    words: dict[str, Any] = {"exchange": "parameter-server", "quota": str(quota)}
    problem = Advisor("erben-2023").problem("resnet50", **words)
    placement = place_by_hand("gcp/us-west1=3xT4:on-demand", problem)
    assert placement.exchange.server is not None
    assert {v.code for v in violations(placement, problem)} == {"quota"}
    found = placer.recommend(
        "resnet50",
        catalog="erben-2023",
        workers="2..3",
        gpu="T4",
        places="gcp/us-west1",
        market="on-demand",
        **words,
    )
    assert found.placement is None or found.placement.workers == 2


def test_a_server_is_on_demand_whatever_the_market_of_the_workers() -> None:
    """Without its server nothing goes on: one that somebody rents on spot leaves no floor, and the
    outlook counts it. A wish for spot admits no server that `any` does not, and keeps that one.
    """
    advisor = Advisor("erben-2023")
    for market in ("any", "spot"):
        problem = advisor.problem("resnet50", exchange="parameter-server", market=market)
        placement = place_by_hand("gcp/us-west1=4xT4:on-demand", problem)
        server = placement.exchange.server
        assert server is not None
        assert server.market == "on_demand"
        assert spot_outlook(placement, estimate(placement, problem), problem) is None
    on_spot = replace(placement.exchange, server=replace(server, market="spot"))
    risky = replace(placement, exchange=on_spot)
    got = spot_outlook(risky, estimate(risky, problem), problem)
    assert got is not None
    assert got.floor_samples_per_second == 0
    assert violations(place_by_hand("gcp/us-west1=4xT4:spot", problem), problem) == ()
    on_demand = advisor.problem("resnet50", exchange="parameter-server", market="on-demand")
    assert [v.message for v in violations(risky, on_demand)] == [
        "the server is spot, not on_demand"
    ]


def test_every_exchange_stands_alone_and_knows_one_worker(run: Run) -> None:
    """One row for one machine; not together with --exchange; what cannot keep a wish is left
    out.
    """
    base = ("estimate", "--model", "resnet50", "--every-exchange", "--workers")
    one = run(*base, "aws/us-east-1=1xT4:spot", "--json")
    assert len(json.loads(one.stdout)["placements"]) == 1
    assert run(*base, "aws/us-east-1=2xT4:spot", "--exchange", "central").returncode == 2
    two = run(
        *base, "aws/us-east-1=2xT4:spot,aws/us-west-2=2xT4:spot", "--local-steps", "8", "--json"
    )
    assert all(not row["violations"] for row in json.loads(two.stdout)["placements"])

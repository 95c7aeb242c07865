"""Wishes that contradict each other or change nothing, servers as machines, and results that were
edited.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import Run
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.cost_model.outlook.outlook import spot_outlook
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.by_hand import place_by_hand

STAY = ["gcp/us-central1=1M:stay", "gcp/us-west1=1M:stay"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"data": STAY, "regions": 1}, "data stays in 2 places, but at most 1 regions"),
        ({"data": STAY, "workers": 1}, "at most 1 workers"),
        ({"data": STAY, "tbs": 1}, "at most 1 samples a step"),
        ({"data": STAY[:1], "regions": 2}, "2 regions are wanted"),
        (
            {"data": STAY, "keep": ["gradients=gcp/us-west1", "checkpoints=gcp/us-west1"]},
            "lets no exchange pass between them",
        ),
        ({"data": STAY[:1], "gpu": "A10"}, "T4 is not among --gpu A10"),
        ({"data": "b2", "keep": "raw-data=backblaze"}, "raw-data must not leave backblaze"),
        ({"passes": 3}, "--passes 3 only applies with --data PLACE=N:move"),
        ({"data": "gcp/us-west1=1M:move", "passes": "1e-300"}, "passes is 1e-300"),
        ({"precision": "fp32"}, "precision 'fp32' does not apply to resnet50: its speeds"),
        ({"tp": 4, "microbatch": 7}, "tp '4' does not apply"),
        ({"microbatch": 7}, "microbatch '7' does not apply"),
        ({"sharding": "zero-3"}, "sharding 'zero-3' does not apply"),
        ({"checkpointing": "full"}, "checkpointing 'full' does not apply"),
        ({"machines_per_island": "2..4"}, "machines-per-island '2' does not apply"),
        ({"samples_to_target": "local-sgd=1.2"}, "which the request does not allow"),
        (
            {"samples_to_target": ["local-sgd=1.2", "local-sgd=1.3"], "local_steps": 4},
            "given twice",
        ),
        ({"local_steps": 600}, "nothing is known about how 600 local steps converge"),
        ({"compression": "int4"}, "int4 loses too much of each gradient for exchanges in every"),
        (
            {"compression": "sparse", "exchange": "local-sgd", "local_steps": 8},
            "sparse loses too much of each gradient for local-sgd",
        ),
        ({"exchange": "diloco", "overlap": True}, "diloco cannot overlap the next step"),
        ({"exchange": "streaming-diloco", "local_steps": 600}, "600 local steps converge"),
        ({"local_steps": "1..200000"}, "is above 100,000"),
        (
            {
                "exchange": "parameter-server",
                "aggregator": "gcp/us-west1",
                "not_places": "gcp/us-west1",
            },
            "is excluded by --not-in",
        ),
        (
            {"exchange": "parameter-server", "aggregator": "onprem/erben-eu"},
            "rents no machine that could serve",
        ),
        ({"exchange": "hierarchical"}, "the exchange hierarchical cannot run"),
        ({"solver": None}, "solver None is not a name"),
        ({"time_limit": -1}, "-1"),
        ({"seed": "x"}, "seed 'x'"),
    ],
)
def test_contradictions_are_refused_before_the_search(words: dict[str, Any], says: str) -> None:
    """One line that names the wishes, within milliseconds."""
    with pytest.raises(PlacerError, match=says):
        placer.recommend("resnet50", catalog="erben-2023", **words)


def test_a_placement_by_hand_has_no_plan_that_a_profile_of_speeds_ignores() -> None:
    """FP32 for ResNet-50 ended in the speed of its profile, and now in an error; so it does in a
    changed world.
    """
    machines = "gcp/us-central1=4xT4:spot"
    with pytest.raises(PlacerError, match="precision 'fp32' does not apply"):
        placer.estimate("resnet50", machines, catalog="erben-2023", precision="fp32")
    with pytest.raises(PlacerError, match="precision 'fp32' does not apply"):
        placer.whatif("resnet50", catalog="erben-2023", budget="1/h", set=["precision=fp32"])


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
    outlook counts it. A wish for spot admits no server that `any` does not.
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

"""Machines of third parties: a market of their own, beside spot and on demand."""

import json

import pytest

import placer
from instances import two_places
from placer.advice.recommendation.recommend import recommend
from placer.market.catalog import Catalog
from placer.market.sources.prices.skypilot.export import skypilot_lines
from placer.market.sources.prices.skypilot.names import skypilot_machine
from placer.market.sources.reading.tally import Tally
from placer.market.words.selection import filter_offers


def test_rows_that_name_the_community_cloud_are_in_its_market(default: Catalog) -> None:
    """440 rows were on spot and 20 of L4 on demand, all from prices of RunPod's Community Cloud; a
    secure machine is on demand. RunPod has no other market in the book.
    """
    rows = [offer for offer in default.offers if offer.provider == "runpod"]
    named = [offer for offer in rows if "Community Cloud" in offer.source]
    assert len(named) == 460
    assert {offer.market for offer in named} == {"community"}
    assert {offer.market for offer in rows} == {"community", "on_demand"}
    assert not [o for o in default.offers if o.market == "community" and o.provider != "runpod"]


def test_spot_alone_leaves_them_out(default: Catalog) -> None:
    """A question for spot admits no machine of a third party, one for any market does, and one for
    them nothing else.
    """
    places = [{o.provider for o in filter_offers(default, market=m)} for m in ("spot", "community")]
    assert "runpod" not in places[0]
    assert places[1] == {"runpod"}
    assert len(filter_offers(default)) == len(default.offers)
    with pytest.raises(placer.PlacerError, match="no offer of catalog"):
        placer.recommend("roberta-xlm", places="runpod", market="spot", budget="5/h")


def test_they_are_taken_to_leave_as_spot_machines_do() -> None:
    """An answer on one has an outlook with interruptions, no floor, and a warning of its own."""
    got = placer.recommend(
        "roberta-xlm", places="runpod", market="community", gpu="RTX4090", budget="1/h"
    )
    assert got.placement is not None
    assert {group.market for group in got.placement.groups} == {"community"}
    assert "community" in [warning.code for warning in got.warnings]
    outlook = got.to_dict()["outlook"]["spot"]
    assert outlook["floor_samples_per_second"] == 0
    assert got.to_manifest()["groups"][0]["offer"]["market"] == "community"


def test_skypilot_knows_them_by_name(default: Catalog) -> None:
    """A task asks for the machine of the community cloud; the price files of SkyPilot have secure
    machines alone, and say how many are left out.
    """
    assert skypilot_machine("runpod", "1x_L4", "community") == "1x_L4_COMMUNITY"
    tally = Tally(skip_bad=False)
    skypilot_lines(default, tally)
    left_out = [sum(n.values()) for why, n in tally.left_out.items() if "community" in why]
    assert left_out == [460]


def test_an_older_question_with_such_a_machine_on_spot_still_works() -> None:
    """A saved problem has its own offers: one of RunPod that is on spot stays so."""
    problem = two_places(market="spot")
    assert {pool.offer.market for pool in problem.pools} == {"spot"}
    again = type(problem).from_dict(json.loads(json.dumps(problem.to_dict())))
    assert recommend(again).placement == recommend(problem).placement

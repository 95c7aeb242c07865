"""From words to a Problem: what is read, and one clear error for every wrong word."""

from pathlib import Path
from typing import Any

import pytest

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.words.machines import read_quotas
from placer.problem.words.request import build_problem
from placer.problem.workers.quotas import NO_QUOTA_GPUS
from placer.workload.profile import load_profile


def ask(book: Catalog, model: str = "roberta-xlm", **words: Any) -> Problem:
    """Build a problem from words."""
    return build_problem(load_profile(model), book, **words)


def test_words_become_si_units(erben: Catalog) -> None:
    """5/h is 5 USD/h, 32K is 32,000 samples, names are resolved."""
    problem = ask(
        erben,
        budget="5/h",
        tbs="32K",
        gpu="t4,V100",
        places="gcp",
        market="on-demand",
        workers="2..8",
        data="b2",
    )
    wish = problem.requirements
    assert (wish.budget_usd_per_hour, problem.batch) == (5.0, 32_000)
    assert wish.gpus == ("T4", "V100")
    assert (wish.places_in, wish.market) == (("gcp/*",), "on_demand")
    assert (wish.min_workers, wish.max_workers, wish.data_store) == (2, 8, "backblaze/us-west")


def test_a_floor_alone_asks_for_the_lowest_cost(erben: Catalog) -> None:
    """With a floor and no budget the sensible objective is cost; a stated one wins."""
    assert ask(erben, min_throughput="400/s").requirements.objective == "cost"
    assert ask(erben, min_throughput="400/s", budget="5/h").requirements.objective == "throughput"
    assert (
        ask(erben, min_throughput="400/s", objective="cost-per-sample").requirements.objective
        == "cost-per-sample"
    )


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ({"gpu": "T5"}, "unknown GPU 'T5'", "T4"),
        ({"gpu": "H100"}, "rents no H100", "A10"),
        ({"places": "gcp/us-centrall1"}, "unknown place 'gcp/us-centrall1'", "gcp/us-central1"),
        ({"not_places": "awz"}, "unknown place 'awz'", "aws"),
        ({"market": "spott"}, "unknown market 'spott'", "spot"),
        ({"objective": "speed"}, "unknown objective 'speed'", "throughput"),
        ({"exchange": "all-reduse"}, "unknown exchange 'all-reduse'", "all-reduce"),
        ({"compression": "fp17"}, "unknown compression 'fp17'", "fp16"),
        ({"zones": "two"}, "unknown zones 'two'", "one"),
        ({"data": "b3"}, "unknown store 'b3'", "b2"),
        ({"aggregator": "aws/us-west-2"}, "has no functions", "all-reduce"),
        ({"links": "gcp/us-west1=1Gb/s"}, "is not a measured link", "250Mb/s"),
        ({"links": "gcp/us-west1:aws/us-west-2=250 gb/s"}, "ambiguous", "250Gb/s"),
        ({"links": "gcp/us-west1:aws/us-west-9=1Gb/s"}, "unknown place", "us-west-2"),
        ({"regions": "0"}, "at least 1", "1..16"),
        ({"budget": "120"}, "per hour or total?", "120/h"),
        ({"budget": "-1/h"}, "above zero", "positive"),
        ({"budget": "nan"}, "not an amount", "5/h"),
        ({"workers": "0"}, "at least 1", "worker"),
        ({"workers": "1.5"}, "not a range", "1..16"),
        ({"tbs": "0"}, "above zero", "positive"),
        ({"min_throughput": "400"}, "not samples per time", "400/s"),
        ({"quota": "/nowhere/q.csv"}, "cannot be read", "place,gpu,market,gpus"),
        ({"gpu": " "}, "gpu ' ' is empty", "leave it out"),
        ({"places": ","}, "is empty", "leave it out"),
        ({"objective": ""}, "unknown objective", "throughput"),
        ({"exchange": "central"}, "has no functions", "all-reduce"),
        ({"exchange": "all-reduce", "storage": "b2"}, "no aggregator and no store", "central"),
        ({"workers": "4 8"}, "not a range", "1..16"),
        ({"workers": "9" * 5000}, "not a range", "1..16"),
        ({"tbs": "1,2,3"}, "not a number", "32768"),
        ({"min_throughput": "400ki/s"}, "unknown prefix", "K"),
    ],
)
def test_wrong_words_are_named_with_a_tip(
    erben: Catalog, words: dict[str, str], message: str, hint: str
) -> None:
    """One line that quotes the word, and what to write instead."""
    with pytest.raises(PlacerError) as caught:
        ask(erben, **words)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in str(caught.value)


def test_the_last_matching_quota_row_wins(erben: Catalog, tmp_path: Path) -> None:
    """Wildcards first, exceptions below; what no row matches has no quota."""
    path = tmp_path / "q.csv"
    path.write_text("place,gpu,market,gpus\ngcp,*,*,16\ngcp/us-west1,t4,spot,0\n", encoding="utf-8")
    problem = ask(erben, quota=str(path))
    assert problem.quota("gcp/us-central1", "T4", "spot") == 16
    assert problem.quota("gcp/us-west1", "T4", "spot") == 0
    assert problem.quota("aws/us-west-2", "T4", "spot") == NO_QUOTA_GPUS


def test_no_quota_holds_that_nobody_gave(erben: Catalog) -> None:
    """A pool is limited by a number for all, by 0 as well; without one by nothing."""
    assert ask(erben).quota("gcp/us-central1", "T4", "spot") == NO_QUOTA_GPUS
    assert {pool.gpu_quota for pool in ask(erben, quota="3").pools} == {3}
    assert ask(erben, quota="0").pools == ()


def test_documents_without_a_quota_mean_eight(erben: Catalog) -> None:
    """Once it was eight for everybody, and documents did not say so; no limit is written down."""
    eight, none = ask(erben, quota="8"), ask(erben)
    document = eight.to_dict()
    assert "quota_gpus" not in document["requirements"]
    assert Problem.from_dict(document).requirements.quota_gpus == 8
    assert none.to_dict()["requirements"]["quota_gpus"] is None
    assert Problem.from_dict(none.to_dict()).requirements.quota_gpus is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "q.csv:1: columns"),
        ("place,gpu,gpus\n", "q.csv:1: columns place,gpu,gpus"),
        ("place,gpu,market,gpus\n*,T4,spot\n", "q.csv:2: 3 cells instead of 4"),
        ("place,gpu,market,gpus\n*,T4,cheap,4\n", "q.csv:2: market 'cheap'"),
        ("place,gpu,market,gpus\n*,T4,spot,-4\n", "q.csv:2: gpus '-4'"),
        ("place,gpu,market,gpus\n*,T4,spot,many\n", "q.csv:2: gpus 'many'"),
        ("place,gpu,market,gpus\n*,T4,spot," + "9" * 5000 + "\n", "q.csv:2: gpus"),
        ("place,gpu,market,gpus\n" + "x" * 140_000 + ",T4,spot,1\n", "not valid CSV"),
        ("place,gpu,market,gpus\ngcp/us-centrall1,T4,spot,1\n", "unknown place"),
        ("place,gpu,market,gpus\n*,T5,spot,1\n", "unknown GPU"),
    ],
)
def test_bad_quota_files_name_the_line(
    erben: Catalog, tmp_path: Path, text: str, says: str
) -> None:
    """File, line and value."""
    path = tmp_path / "q.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlacerError) as caught:
        read_quotas(path, erben)
    assert says in caught.value.message


def test_require_measured_leaves_estimates_out(default: Catalog) -> None:
    """On today's market only T4 and A10 were measured with this model."""
    pools = ask(default, require_measured=True).pools
    assert {(p.offer.gpu, p.offer.gpu_count) for p in pools} <= {
        ("T4", 1),
        ("T4", 4),
        ("A10", 1),
        ("V100", 8),
    }
    assert all(p.alone.basis in ("measured", "published") for p in pools)


def test_a_measured_link_replaces_the_book(erben: Catalog) -> None:
    """250 Mb/s are 31.25 MB/s, both directions, labelled measured; the round-trip time stays."""
    problem = ask(erben, links="gcp/us-west1:aws/us-west-2=250Mb/s")
    for src, dst in (("gcp/us-west1", "aws/us-west-2"), ("aws/us-west-2", "gcp/us-west1")):
        link = problem.network.link(src, dst)
        assert (link.bytes_per_second, link.basis) == (31.25e6, "measured")
        assert link.rtt_s == pytest.approx(0.0146, abs=0.001)


def test_continents_and_providers_are_places(default: Catalog) -> None:
    """Europe is every region there, aws is aws/*; both may be combined with wildcards. EU is the
    Union: what lies in Switzerland, Norway, Iceland and the United Kingdom is not in it.
    """
    europe = ask(default, places="europe").requirements.places_in
    assert {default.region(place).continent for place in europe} == {"EU"}
    assert len(europe) > 20
    outside = {"CH", "GB", "IS", "NO"}
    union = [place for place in europe if default.region(place).country not in outside]
    assert ask(default, places="EU,aws").requirements.places_in == (*union, "aws/*")

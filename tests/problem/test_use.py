"""Machines that must be used: words, contradictions, proofs against plain enumeration, drafts, and
the papers' hybrid cases.
"""

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import placer
from conftest import Run
from placer.advice.recommendation.recommend import recommend
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.problem.contradictions import unusable
from placer.problem.requirements import Quota, Requirements, Used
from placer.problem.words.machines import parse_used
from placer.records import replace

FORCED = importlib.import_module("placer.solvers._market.required_machines")
SITE = "onprem/erben-eu"


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("aws/us-west-2", Used(place="aws/us-west-2")),
        ("gcp", Used(place="gcp/*")),
        ("onprem/erben-eu=1xRTX8000", Used(place=SITE, device="RTX8000")),
        ("gcp/*=2xt4:spot", Used(place="gcp/*", device="T4", market="spot", count=2)),
        ("*=1xV100:8:on-demand", Used(place="*", device="V100:8", market="on_demand")),
        ("gcp/us-central1=3xT4*", Used(place="gcp/us-central1", device="T4*", count=3)),
    ],
)
def test_words_become_rules(erben: Catalog, word: str, rule: Used) -> None:
    """The grammar of placements by hand; names are spelt as in the book, and a rule writes itself
    as it was read.
    """
    assert parse_used([word], erben) == (rule,)
    assert parse_used([rule.spec], erben) == (rule,)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"use": "gcp/us-cental1"}, "a similar place exists: 'gcp/us-central1'"),
        ({"use": "*=1xRTX800"}, "a similar device exists: 'RTX8000'"),
        ({"use": "gcp=1xV100:4"}, "rents no machine with V100:4 .it has V100:8"),
        ({"use": "gcp/us-west1=T4"}, "names no machines"),
        ({"use": "gcp/us-west1=0xT4"}, "at least 1 is needed"),
        ({"use": ["gcp=1xT4", "gcp/*=2xT4"]}, "is given twice"),
        ({"use": "europe=1xT4"}, "a continent is not a pattern"),
        ({"use": ""}, "use '' is empty"),
        ({"use": "azure=1xA10"}, "rents none there; it has T4:on-demand, T4:spot"),
        ({"use": "gcp/us-west1", "not_places": "gcp"}, "gcp/us-west1 is excluded by --not-in"),
        ({"use": SITE, "places": "gcp"}, "onprem/erben-eu is not in --in"),
        (
            {"use": "*=1xRTX8000"},
            "machines of your own, which are used only where their site is named",
        ),
        ({"use": f"{SITE}=2xRTX8000"}, "only 1 exist"),
        ({"use": "gcp/us-west1=9xT4:spot", "quota": 8}, "the quota allows only 8"),
        ({"use": "gcp=5xT4", "workers": "1..4"}, "at most 4 workers"),
        ({"use": "gcp=5xT4", "tbs": 4}, "at most 4 samples a step"),
        (
            {"use": ["gcp=3xT4", "aws=3xT4"], "workers": "1..4"},
            "6 machines must be used, but at most 4 workers",
        ),
        ({"use": ["gcp/us-west1", "aws/us-west-2"], "regions": 1}, "at most 1 regions"),
        ({"use": "gcp=1xT4", "gpu": "A10"}, "T4 is not among --gpu A10"),
        (
            {"use": "gcp=1xT4", "data": "aws/us-west-2=1M:stay"},
            "workers are only where the data stays",
        ),
        ({"use": 3}, "use 3 is of type int"),
    ],
)
def test_rules_that_nothing_can_keep_are_refused_before_the_search(
    words: dict[str, Any], says: str
) -> None:
    """One line that names the rule and what stands against it."""
    with pytest.raises(PlacerError, match=says):
        placer.recommend("resnet50", catalog="erben-2023", **words)


@pytest.mark.parametrize(
    ("place", "device", "scope"),
    [("gcp/us-central1", "T4*", "each"), ("gcp/*", "T4", "together")],
)
def test_offers_of_a_rule_share_its_quota(
    erben: Catalog, place: str, device: str, scope: str
) -> None:
    """Eight GPUs are eight machines, not eight of each size, and not eight in each region."""
    quota = Quota(place="gcp/*", gpu="*", market="*", gpus=8, scope=scope)
    asked = Advisor(erben).problem("convnext-large", places=place, market="spot")
    for count, says in ((8, []), (9, ["the quota allows only 8 of them"])):
        rule = Used(place=place, device=device, count=count)
        wish = replace(asked.requirements, quotas=(quota,), used=(rule,))
        found = unusable(replace(asked, requirements=wish))
        assert [text.removeprefix(f"--use {rule.spec}: ") for text in found] == says


def test_owned_machines_come_with_their_site(erben: Catalog) -> None:
    """Naming the site in --use admits all that is owned there, as --in does; another question does
    not see them.
    """
    advisor = Advisor(erben)
    assert {
        p.offer.gpu
        for p in advisor.problem("roberta-xlm", use=f"{SITE}=1xRTX8000").pools
        if p.offer.provider == "onprem"
    } == {
        "RTX8000",
        "V100",
    }
    assert not any(
        p.offer.provider == "onprem" for p in advisor.problem("roberta-xlm", use="gcp=1xT4").pools
    )


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 2)), min_size=1, max_size=7),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_the_forced_sum_is_the_best_of_all_subsets(
    units: list[tuple[float, int]], first: int, second: int
) -> None:
    """Every subset with enough of kinds 1 and 2 is tried: the largest sum of n is what the exchange
    argument gives.
    """
    values, kind = np.array([[value for value, _ in units]]), np.array([k for _, k in units])
    rules = [(first, kind == 1), (second, kind == 2)]
    expected = np.full(len(units) + 1, -np.inf)
    for chosen in range(2 ** len(units)):
        mask = np.array([bool(chosen >> i & 1) for i in range(len(units))])
        if (kind[mask] == 1).sum() >= first and (kind[mask] == 2).sum() >= second:
            expected[mask.sum()] = max(expected[mask.sum()], float(values[0, mask].sum()))
    assert FORCED.best_with(values, np.full(len(units), True), rules, len(units))[
        0
    ] == pytest.approx(expected)
    assert FORCED.best_with(values, np.full(len(units), True), [], len(units))[0] == pytest.approx(
        FORCED.best_of(values, len(units))[0]
    )


def test_least_price_has_the_forced_machine() -> None:
    """Of machines at 1, 1 and 5 USD/h the last must be used: one costs 5, two cost 6, three 7;
    without any there is no price.
    """
    rules = used_market().required_machines.apart
    assert FORCED.least_usd(np.array([1.0, 5.0]), np.array([2.0, 1.0]), rules, 3).tolist() == [
        np.inf,
        5.0,
        6.0,
        7.0,
    ]


def used_market() -> Any:
    """Two pools, of which the second must be used."""
    problem = Advisor("erben-2023").problem(
        "convnext-large", places="gcp/us-central1", gpu="T4", market="spot", use="*=1xT4:4"
    )
    market = importlib.import_module("placer.solvers._market.market").Market.of(problem)
    assert [pool.offer.device for pool in market.pools] == ["T4", "T4:4"]
    return market


def test_infeasible_says_what_leaving_a_rule_out_would_give(run: Run) -> None:
    """A DGX-2 in the cloud costs 6.30 USD/h spot: with 5 USD/h nothing fits, with more budget or
    without the rule something does.
    """
    ask = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h")
    done = run(*ask, "--use", "gcp/us-central1=1xV100:8", columns=300)
    assert done.returncode == 3
    assert "--budget 6.3" in done.stderr
    assert "no --use gcp/us-central1=1xV100:8" in done.stderr
    typo = run(*ask, "--use", "gcp/us-cental1")
    assert typo.returncode == 2
    assert "a similar place exists" in typo.stderr


def test_of_two_rules_the_one_in_the_way_is_named(erben: Catalog) -> None:
    """Without the DGX-2 five dollars suffice; without the T4 they do not."""
    wish = Requirements(
        budget_usd_per_hour=5.0,
        used=(Used(place="gcp/*", device="T4"), Used(place="gcp/*", device="V100:8")),
    )
    found = recommend(replace(Advisor(erben).problem("roberta-xlm"), requirements=wish))
    assert [option.note for option in found.nearest if option.label == "use"] == [
        "no --use gcp/*=1xV100:8"
    ]

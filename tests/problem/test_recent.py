"""What requests to one advisor share, how much of it is kept, and the answer alone."""

import importlib
import pickle
from typing import Any

import pytest

from placer import Advisor
from placer.market.scaled_market import with_scaled_egress
from placer.problem.kept_answers import Recent
from placer.records import replace

exact, markets, shared = (
    importlib.import_module(f"placer.solvers.{name}")
    for name in ("exact.branch_and_bound", "_market.market", "_market.shared_tables")
)


@pytest.fixture(scope="module")
def advisor() -> Advisor:
    """One for all tests: what they share is the point."""
    return Advisor("erben-2023")


def said(document: dict[str, Any]) -> dict[str, Any]:
    """A result without the time that it took."""
    solver = document["solver"]
    return {**document, "solver": {key: value for key, value in solver.items() if key != "seconds"}}


def test_a_copy_starts_empty() -> None:
    """What another process gets holds no answers: they may not be copied, and it can work them
    out.
    """
    kept: Recent[int] = Recent(3)
    kept.get("a", lambda: 1)
    copy = pickle.loads(pickle.dumps(kept))
    assert (copy.most, copy.items()) == (3, [])


@pytest.mark.parametrize(
    "words",
    [
        {"budget": "5/h", "supply": "any"},
        {"budget": "0.8/h"},
        {"min_throughput": "700/s", "objective": "cost"},
    ],
)
def test_an_advisor_that_was_asked_much_says_the_same(
    advisor: Advisor, words: dict[str, Any]
) -> None:
    """Tables of other questions change nothing: the document of a fresh advisor is the same but for
    its seconds. An answer that is known is where the search begins, so other placements are priced.
    """
    for budget in ("1/h", "3/h"):
        advisor.recommend("roberta-xlm", budget=budget, gpu="T4,A10")
    used = advisor.recommend("roberta-xlm", gpu="T4,A10", **words)
    fresh = Advisor("erben-2023").recommend("roberta-xlm", gpu="T4,A10", **words)
    assert used.bound == fresh.bound
    ours, theirs = (said(result.to_dict()) for result in (used, fresh))
    for searched in ("proof", "solver"):
        assert ours.pop(searched)
        assert theirs.pop(searched)
    assert ours == theirs


def test_the_answer_alone_is_the_same_answer(advisor: Advisor) -> None:
    """Without alternatives the placement, its proof, notes and warnings stay; all that is only
    compared is left out.
    """
    whole = advisor.recommend("roberta-xlm", budget="5/h", gpu="T4,A10")
    alone = advisor.recommend("roberta-xlm", budget="5/h", gpu="T4,A10", alternatives=False)
    same = ("placement", "estimate", "bound", "status", "proof", "notes", "warnings", "candidates")
    assert [getattr(alone, name) for name in same] == [getattr(whole, name) for name in same]
    assert all((whole.options, whole.baselines, whole.verdict))
    assert (alone.options, alone.baselines, alone.near_misses, alone.verdict) == ((), (), (), ())
    assert alone.to_dict()["placement"] == whole.to_dict()["placement"]


def test_limits_share_tables_and_machines_do_not(advisor: Advisor) -> None:
    """Another budget, floor or number of regions has the same tables; another cap on workers has
    not.
    """
    problem = advisor.problem("roberta-xlm", budget="5/h", gpu="T4,A10")
    wish = problem.requirements

    def market(**changes: Any) -> Any:
        return markets.Market.of(replace(problem, requirements=replace(wish, **changes)))

    first = markets.Market.of(problem)
    for changes in (
        {"budget_usd_per_hour": 1.0},
        {"min_regions": 2},
        {"max_regions": 1},
        {"min_local_steps": 16, "max_local_steps": 16},
    ):
        assert market(**changes).weights is first.weights
    assert market(max_workers=3).weights is not first.weights
    assert market(same_zone=False).prices is not first.prices


def test_free_egress_is_made_once_and_shares_all_but_prices(advisor: Advisor) -> None:
    """The catalog of a tool that does not see egress is kept: its prices are 0, machines and their
    tables the same.
    """
    problem = advisor.problem("roberta-xlm", budget="5/h", gpu="T4,A10")
    mine = markets.Market.of(problem)
    blind = replace(problem, catalog=with_scaled_egress(problem.catalog, 0.0))
    assert with_scaled_egress(problem.catalog, 0.0) is blind.catalog
    assert markets.Market.of(blind).weights is mine.weights
    assert mine.prices.max() > 0.0
    assert markets.Market.of(blind).prices.max() == 0.0


def test_small_markets_are_kept_beside_large_ones(advisor: Advisor) -> None:
    """The small book has less than 400 machines, the default one more: a catalog keeps 40 of the
    small markets, and 8 of the large ones.
    """
    for asked, name, most in (
        (advisor, "small markets", shared.KEPT_SMALL),
        (Advisor(), "markets", shared.KEPT_MARKETS),
    ):
        problem = asked.problem("roberta-xlm", budget="5/h")
        problem = replace(problem, catalog=replace(problem.catalog))
        assert (len(problem.pools) <= 400) == (name == "small markets")
        markets.Market.of(problem)
        held = {key: each for key, each in problem.catalog.memo.items() if "markets" in str(key)}
        assert {key: each.most for key, each in held.items()} == {name: most}

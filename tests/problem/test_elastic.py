"""Elastic scheduling: shares of regions whose data has a place, moves, residency, disks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import reading_problem
from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.problem.datasets import Dataset, moves, shares
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.units import GIB

TWO = "lambda/us-west-1=8xA10:on-demand,gcp/us-central1=8xT4:spot"
STAY = ["lambda/us-west-1=1M:stay", "gcp/us-central1=1M:stay"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 10**6), st.booleans()),
        min_size=1,
        max_size=5,
    ),
    st.lists(st.floats(0.5, 500), min_size=3, max_size=3),
)
def test_shares_are_a_best_division(rows: list[tuple[str, int, bool]], speeds: list[float]) -> None:
    """Shares add up to 1, keep what stays, and no other division finishes earlier: the last regions
    share what may move.
    """
    data = [Dataset(place=place, samples=n, may_move=may) for place, n, may in rows]
    speed = dict(zip("abc", speeds, strict=True))
    found, total = shares(data, speed), sum(n for _, n, _ in rows)
    stay = {
        place: sum(d.samples for d in data if d.place == place and not d.may_move) / total
        for place in "abc"
    }
    assert sum(found.values()) == pytest.approx(1)
    assert all(found[place] >= stay[place] - 1e-12 for place in "abc")
    last = max(found[place] / speed[place] for place in "abc")
    free = sum(d.samples for d in data if d.may_move)
    if free:
        moved = [place for place in "abc" if found[place] > stay[place] * (1 + 1e-9) + 1e-12]
        assert all(
            found[place] / speed[place] == pytest.approx(found[moved[0]] / speed[moved[0]])
            for place in moved
        )
    assert last >= max(stay[place] / speed[place] for place in "abc") - 1e-12


def test_moves_by_hand(erben: Catalog) -> None:
    """300 samples of 1 MiB in Iowa, of which 100 are wanted in Belgium: 100 MiB at 0.08 USD/GiB,
    once.
    """
    data = [Dataset(place="gcp/us-central1", samples=300, may_move=True)]
    (move,) = moves(
        data, {"gcp/us-central1": 2 / 3, "gcp/europe-west1": 1 / 3}, 2**20, Network(erben)
    )
    assert (move.src, move.dst) == ("gcp/us-central1", "gcp/europe-west1")
    assert move.samples == pytest.approx(100)
    assert move.bytes == pytest.approx(100 * 2**20)
    assert move.usd == pytest.approx(100 * 2**20 / GIB * 0.08)
    assert move.seconds > 0


def test_moved_data_is_paid_over_its_passes(erben: Catalog) -> None:
    """One pass pays the move in its own hours, ten passes a tenth of it per sample."""
    advisor, data = Advisor("erben-2023"), "gcp/us-central1=1M:move"
    one = advisor.estimate("resnet50", "gcp/europe-west1=8xT4:spot", data=data)
    ten = advisor.estimate("resnet50", "gcp/europe-west1=8xT4:spot", data=data, passes=10)
    assert one.usd_per_hour.data == pytest.approx(10 * ten.usd_per_hour.data)
    hours = 1_000_000 / one.samples_per_second.value / 3600
    assert one.usd_per_hour.data * hours == pytest.approx(one.moves[0].usd)


def test_recommend_matches_workers_to_data(erben: Catalog) -> None:
    """At the throughput of everything rented less is rented, with workers at all data."""
    advisor = Advisor("erben-2023")
    every = advisor.estimate("resnet50", TWO, data=STAY, exchange="model-averaging", local_steps=8)
    result = advisor.recommend(
        "resnet50",
        objective="cost",
        min_throughput=f"{every.effective_samples_per_second.value * 0.9999}/s",
        gpu="A10,T4",
        data=STAY,
        exchange="model-averaging",
        local_steps=8,
    )
    assert result.placement is not None
    assert result.placement.places == ("gcp/us-central1", "lambda/us-west-1")
    assert result.estimate is not None
    assert result.estimate.usd_per_hour.total < every.usd_per_hour.total


def test_residency_forbids_what_would_leave(erben: Catalog) -> None:
    """Gradients kept in Europe: an all-reduce with the USA breaks the rule; models are checkpoints,
    not gradients.
    """
    advisor, workers = Advisor("erben-2023"), "gcp/us-central1=2xT4:spot,gcp/europe-west1=2xT4:spot"
    for exchange, kind, broken in (
        ("all-reduce", "gradients", True),
        ("local-sgd", "gradients", False),
        ("local-sgd", "checkpoints", True),
        ("model-averaging", "checkpoints", True),
        ("asgd-ga", "gradients", True),
    ):
        problem = advisor.problem("roberta-xlm", exchange=exchange, keep=f"{kind}=europe")
        found = {v.code for v in violations(place_by_hand(workers, problem), problem)}
        assert ("residency" in found) == broken, (exchange, kind)


def test_data_in_two_places_needs_workers_in_both(erben: Catalog) -> None:
    """A placement that leaves a dataset alone, or puts workers where none is, breaks a limit."""
    problem = Advisor("erben-2023").problem("resnet50", data=STAY)
    wish = problem.requirements
    plain = replace(problem, requirements=replace(wish, datasets=()))
    alone = place_by_hand("lambda/us-west-1=2xA10", plain)
    assert {v.code for v in violations(alone, problem)} == {"data"}
    beside = place_by_hand("lambda/us-west-1=2xA10,gcp/us-central1=2xT4,gcp/us-west1=2xT4", plain)
    assert [v.message for v in violations(beside, problem)] == [
        "workers in gcp/us-west1 have no data"
    ]


def test_moving_needs_the_size_of_a_sample(erben: Catalog) -> None:
    """A profile without bytes per sample cannot price a move: exit code 5, never 0 USD."""
    problem = Advisor("erben-2023").problem("resnet50", data="gcp/us-central1=1M:move")
    bare = replace(problem, profile=replace(problem.profile, bytes_per_sample=None))
    with pytest.raises(PlacerError, match="how many bytes a sample has") as caught:
        estimate(place_by_hand("gcp/europe-west1=2xT4", bare), bare)
    assert caught.value.exit_code == 5


def test_a_pool_whose_disks_keep_the_data_reads_it_once() -> None:
    """In the first pass all of it from the store, later nothing and no slower; other pools are the
    same in every pass.
    """
    pools = [pool for seed in range(8) for pool in reading_problem(seed).pools]
    keeping = [pool for pool in pools if pool.keeps_data]
    assert 0 < len(keeping) < len(pools)
    assert all(pool.in_pass(2) is pool for pool in pools if not pool.keeps_data)
    for pool in keeping:
        first, later = pool.in_pass(1), pool.in_pass(2)
        assert (first.streamed, later.streamed) == (1.0, 0.0)
        assert first.shared.value <= pool.shared.value <= later.shared.value

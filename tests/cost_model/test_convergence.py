"""Samples to target: the default table, its interpolation, the user's own figures, and where they
are shown.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import placer
from conftest import Run
from placer.cost_model.convergence import samples_to_target, table
from placer.errors import PlacerError
from placer.problem.placement import Exchange


def test_the_table_is_complete_and_ordered() -> None:
    """Every row has 1 <= low <= value <= high, a source, and is assumed, estimated or published;
    the references are exactly 1.
    """
    for (factor, setting), row in table().items():
        assert row.low <= row.value <= row.high
        assert row.low >= 1
        assert row.source
        assert row.basis in ("assumed", "estimated", "published")
        if (factor, setting) in (("compression", "none"), ("local-steps", "1"), ("staleness", "0")):
            assert (row.low, row.value, row.high) == (1, 1, 1)


@given(st.integers(1, 511))
def test_more_local_steps_never_need_fewer_samples(steps: int) -> None:
    """The multiplier does not fall with H, nor does its interval."""
    one, two = (
        samples_to_target(Exchange(strategy="local-sgd", compression="fp16", local_steps=h))
        for h in (steps, steps + 1)
    )
    assert one.value <= two.value
    assert one.high <= two.high
    assert one.low <= one.value <= one.high


def test_between_two_rows_the_logarithm_counts() -> None:
    """H = 8 lies in the middle of 4 (1.02) and 16 (1.05): 1.035."""
    assert samples_to_target(
        Exchange(strategy="local-sgd", compression="none", local_steps=8)
    ).value == pytest.approx(1.035)


def test_overlap_and_asynchrony_are_staleness() -> None:
    """One step late: 1.05 (1 to 1.3) for an overlapped all-reduce; ASGD-GA is late by itself."""
    late = samples_to_target(Exchange(strategy="all-reduce", compression="none", overlap=True))
    assert (late.value, late.low, late.high) == (1.05, 1.0, 1.3)
    assert samples_to_target(Exchange(strategy="asgd-ga", compression="none")).value == 1.05


def test_nobody_says_how_a_thousand_steps_converge() -> None:
    """Beyond the table the user has to say it."""
    exchange = Exchange(strategy="local-sgd", compression="none", local_steps=1000)
    with pytest.raises(PlacerError, match="1000 local steps"):
        samples_to_target(exchange)
    assert samples_to_target(exchange, [("local-sgd", 1.4)]).value == 1.4


def test_strategies_are_compared_at_equal_samples_to_target() -> None:
    """A multiplier that eats the gain makes local SGD lose; what passes through the workers stays
    as it is.
    """
    words: dict[str, Any] = {"catalog": "erben-2023", "exchange": "local-sgd", "local_steps": 16}
    plain = placer.estimate("roberta-xlm", "lambda/us-west-1=8xA10", **words)
    slow = placer.estimate(
        "roberta-xlm", "lambda/us-west-1=8xA10", samples_to_target="local-sgd=3", **words
    )
    assert slow.samples_per_second.value == plain.samples_per_second.value
    assert slow.effective_samples_per_second.value == pytest.approx(
        plain.samples_per_second.value / 3
    )
    found = placer.recommend(
        "roberta-xlm",
        budget="5/h",
        catalog="erben-2023",
        gpu="A10",
        local_steps="1..16",
        samples_to_target="local-sgd=3",
    )
    assert found.placement is not None
    assert found.placement.exchange.strategy == "all-reduce"
    better = placer.recommend(
        "roberta-xlm", budget="5/h", catalog="erben-2023", gpu="A10", local_steps="1..16"
    )
    assert better.placement is not None
    assert better.placement.exchange.strategy == "local-sgd"


def test_a_multiplier_is_shown_with_its_interval_and_the_speed_that_it_leaves(run: Run) -> None:
    """Where it is 1, there is nothing to say: the speed is the one of the first line."""
    asked = ("estimate", "--model", "roberta-xlm", "--catalog", "erben-2023", "--workers")
    workers = "lambda/us-west-1=8xA10"
    done = run(*asked, workers)
    assert "samples to target  " not in done.stdout
    done = run(*asked, workers, "--exchange", "local-sgd", "--local-steps", "16")
    said = " ".join(done.stdout.split())
    assert "samples to target 1.05 x those of synchronous steps (1.00 to 1.27, assumed)" in said

"""Exchanges that go on with a quorum: what is asked, what is refused, and that figures stay."""

from __future__ import annotations

from typing import Any

import pytest

from placer.cost_model.estimate import estimate
from placer.documents.checker.modes import required_modes
from placer.documents.manifest import build_manifest
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.problem.problem import Problem
from placer.solving.by_hand import place_by_hand

TWO = "gcp/us-west1=1xT4:spot,gcp/europe-west1=1xT4:spot"
DILOCO: dict[str, Any] = {
    "exchange": "diloco",
    "local_steps": "16",
    "samples_to_target": "diloco=1.2",
}


def question(**words: Any) -> Problem:
    """A question about ResNet-50."""
    return Advisor(("erben-2023",)).problem("resnet50", **words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"quorum": 2}, "an exchange in every step waits for all workers"),
        ({"quorum": 2, "exchange": "all-reduce"}, "all-reduce waits for all workers"),
        (
            {"quorum": 2, "exchange": "local-sgd", "overlap": True},
            "local-sgd with --overlap waits for all workers",
        ),
        ({**DILOCO, "quorum": 0}, "quorum '0' must be above zero"),
        ({**DILOCO, "quorum": 65}, "quorum 65 of at most 64 workers"),
        ({**DILOCO, "quorum": 3, "workers": "2"}, "quorum 3 of at most 2 workers"),
        ({**DILOCO, "grace": "30s"}, "grace of 30 s without a quorum"),
        ({**DILOCO, "quorum": 2, "grace": 0}, "must be above zero"),
        (
            {**DILOCO, "quorum": 2, "data": ("gcp/us-west1=2M:stay",)},
            "quorum 2 together with data that has a place",
        ),
    ],
)
def test_a_quorum_that_means_nothing_is_refused(words: dict[str, Any], said: str) -> None:
    """One line, exit code 2."""
    with pytest.raises(PlacerError, match=said) as caught:
        Advisor(("erben-2023",)).recommend("resnet50", budget="2/h", **words)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_as_many_workers_are_needed() -> None:
    """Three at least; without a quorum one is enough."""
    assert question(**DILOCO).requirements.min_workers == 1
    assert question(**DILOCO, quorum=3).requirements.min_workers == 3
    assert question(**DILOCO, quorum=3, workers="4..8").requirements.min_workers == 4


@pytest.mark.parametrize("words", [DILOCO, {"local_steps": "1..8"}])
def test_only_exchanges_that_go_on_are_admitted(words: dict[str, Any]) -> None:
    """The second implementation requires the same of a proof; with a quorum of two no single
    machine.
    """
    problem = question(**words, quorum=2)
    assert {name for name, _ in problem.modes} <= {"local-sgd", "diloco", "streaming-diloco"}
    assert required_modes(problem.to_dict()) == set(problem.modes)


def test_figures_stay_and_the_manifest_has_it() -> None:
    """Two workers that are through together: speed and price are those without a quorum; a minute
    of grace where nobody says.
    """
    plain, asked = question(**DILOCO), question(**DILOCO, quorum=2)
    placement = place_by_hand(TWO, plain)
    first, second = estimate(placement, plain), estimate(placement, asked)
    assert (second.samples_per_second, second.usd_per_hour) == (
        first.samples_per_second,
        first.usd_per_hour,
    )
    parts = [build_manifest(p, placement, first, "feasible", None) for p in (plain, asked)]
    assert "quorum" not in parts[0]["exchange"]
    assert (parts[1]["exchange"]["quorum"], parts[1]["exchange"]["grace_s"]) == (2, 60.0)

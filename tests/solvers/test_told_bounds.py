"""Bounds that a search tells on its way."""

from __future__ import annotations

from typing import Any

import pytest

import placer

ASGD = {"exchange": "asgd-ga", "local_steps": 4, "gpu": ["T4", "A10"], "budget": "1.5/h"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "throughput": ASGD,
    "time": {**ASGD, "objective": "time", "samples": "1e9"},
    "cost per sample": {**ASGD, "objective": "cost-per-sample", "budget": "1/h", "regions": "2.."},
    "batches": {"tbs": "1024..32768", "critical_batch": 8000, "gpu": "T4", "budget": "1/h"},
    "shares": {"max_share": "60%/region", "gpu": ["T4", "A10"], "budget": "1/h"},
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_of_them_holds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The final value beats none of them, the last one is that of the answer, and whoever listens
    changes nothing: not a node more is searched.
    """
    monkeypatch.setattr("placer.solvers.exact.schedule.TELL_EVERY_S", 0.002)
    words: dict[str, Any] = {"catalog": "erben-2023", "alternatives": False, **QUESTIONS[name]}
    told: list[float | None] = []
    result = placer.recommend("roberta-xlm", on_bound=told.append, **words)
    assert str(result.status) == "optimal"
    assert result.value is not None
    begun, *bounds = told
    assert begun is None
    assert bounds
    for bound in bounds:
        assert bound is not None
        assert not result.objective.beats_bound(result.value, bound)
    assert bounds[-1] == pytest.approx(result.bound)
    unheard = placer.recommend("roberta-xlm", **words)
    assert (unheard.nodes, unheard.candidates) == (result.nodes, result.candidates)
    assert unheard.placement == result.placement

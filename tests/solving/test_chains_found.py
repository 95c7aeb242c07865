"""Stages of several devices that are looked for: against all pairs, and where they are told of."""

from __future__ import annotations

from itertools import permutations, product
from math import inf

import pytest

import placer
from placer.advice.explanation.explain import Explanation
from placer.advice.explanation.side_questions import Asker
from placer.advice.explanation.subject import read_subject
from placer.advice.explanation.why_not import why_not
from placer.cost_model.estimate import evaluate
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.interface.advisor import pose
from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions
from placer.solving.by_hand import place_by_hand
from placer.solving.parts.chains import best_chain
from placer.solving.solve import solve


def asked(model: str, **words: object) -> Problem:
    """A question about the default book, at its prices."""
    return pose(model, {"figures": "book", **words}).problem


def test_no_pair_of_devices_in_the_place_is_faster() -> None:
    """H100, H200 and L40S in Ohio, up to 16 GPUs of each device on demand: every pair and count."""
    question = asked(
        "llama-3.1-8b",
        places=["aws/us-east-2"],
        gpu=["H100", "H200", "L40S"],
        market="on-demand",
        quota=16,
    )
    chain = best_chain(question)
    assert chain is not None
    found = evaluate(chain, question).samples_per_second
    speeds = []
    for one, other in permutations(("H100", "H200", "L40S"), 2):
        for counts in product((1, 2), repeat=2):
            parts = (f"{n}x{gpu}:8:on-demand" for n, gpu in zip(counts, (one, other), strict=True))
            try:
                placed = place_by_hand(f"aws/us-east-2=1x{'~'.join(parts)}", question)
            except PlacerError:
                continue  # not rented there, or too small
            speeds.append(evaluate(placed, question).samples_per_second)
    assert len(speeds) >= 8
    assert found == max(speeds)


def test_a_quota_makes_two_devices_faster_than_one() -> None:
    """64 GPUs of a type for Llama 3.1 70B: twice as many GPUs as any worker of one type."""
    question = asked("llama-3.1-70b", budget="500/h", quota=64)
    chain = best_chain(question)
    assert chain is not None
    (group,) = chain.groups
    assert [part.gpus for part in group.parts] == [64, 64]
    assert len({(part.place, part.gpu, part.market) for part in group.parts}) == 2
    assert len(chain.places) == 1
    usd = evaluate(chain, question).usd
    assert usd.total <= 500
    assert usd.egress == 0


def test_places_are_crossed_only_where_none_holds_the_model() -> None:
    """405 billion parameters do not fit 64 H100 of one place and market, so that three share them;
    with spot machines beside those on demand one place is enough.
    """
    away = asked("llama-3.1-405b", gpu="H100", quota=64, market="on-demand")
    crossing, staying = best_chain(away), best_chain(asked("llama-3.1-405b", gpu="H100", quota=64))
    assert crossing is not None
    assert staying is not None
    assert len(crossing.places) > 1
    assert evaluate(crossing, away).usd.egress > 0
    assert len(staying.places) == 1


@pytest.mark.parametrize("model", ["resnet50", "roberta-xlm"])
def test_models_without_layers_have_none(model: str) -> None:
    """Measured speeds say nothing about parts of a model."""
    assert best_chain(asked(model, budget="5/h")) is None


def test_what_fits_as_stages_is_told_where_nothing_fits() -> None:
    """With the words that time it."""
    with pytest.raises(PlacerError) as error:
        placer.recommend("llama-3.1-405b", gpu="H100", quota=64, market="on-demand", figures="book")
    spec = (error.value.hint or "").partition("placer estimate --workers ")[2]
    assert spec.count("~") >= 1
    assert placer.estimate("llama-3.1-405b", spec, figures="book").usd_per_hour.egress > 0


def test_why_not_stages() -> None:
    """Found, not proved, and faster than the answer with a small quota."""
    question = asked("llama-3.1-8b", budget="100/h", quota=8, gpu=["H100", "H200"])
    result = solve(question)
    asker = Asker(solver="exact", options=SolveOptions(), deadline=inf)
    found = why_not(read_subject("stages", question), result, asker)
    assert (found.kind, found.status, found.proved) == ("stages", "found", False)
    assert found.option is not None
    assert found.option.placement.groups[0].behind
    assert result.estimate is not None
    speeds = (e.samples_per_second.value for e in (found.option.estimate, result.estimate))
    gain = next(speeds) - next(speeds)
    assert found.difference == pytest.approx(gain)
    made = Explanation(problem=question, result=result, why_not=(found,))
    assert check_document(made.to_dict(), "explanation.json")
    assert "Nothing that placer writes starts such workers" in made.report()

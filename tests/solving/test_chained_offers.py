"""Stages of several devices: written by hand, and found."""

from itertools import permutations, product
from math import inf

import pytest

import placer
from placer.advice.explanation.explain import Explanation, why_not
from placer.advice.explanation.subject import Asker, read_subject
from placer.cost_model.estimate import evaluate
from placer.documents.manifest.manifest_document import build_manifest
from placer.documents.saved_result import placement_from
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.interface.advisor import pose
from placer.interface.by_hand import PlacementEstimate
from placer.problem.placement import parse_workers
from placer.problem.problem import Problem
from placer.solving.answer import SolveOptions
from placer.solving.by_hand import place_by_hand
from placer.solving.nearest_plan import best_chain
from placer.solving.solve import solve

HEAD = "aws/us-east-2=1x8xH200:8:spot"
SAME = f"{HEAD}~8xH100:8:on-demand"
AWAY = f"{HEAD}~aws/us-east-1=8xH100:8:spot"


def estimated(workers: str, **words: object) -> PlacementEstimate:
    """A placement of Llama 3.1 70B at the prices of the book."""
    return placer.estimate("llama-3.1-70b", workers, figures="book", **words)  # type: ignore[arg-type]


def test_price_and_emissions_are_the_sums_of_the_parts() -> None:
    """Eight H200 machines and eight H100 machines, each as it is priced alone."""
    both = estimated(SAME)
    alone = [
        estimated(f"aws/us-east-2=1x{part}") for part in ("8xH200:8:spot", "8xH100:8:on-demand")
    ]
    assert both.usd_per_hour.compute == pytest.approx(sum(e.usd_per_hour.compute for e in alone))
    assert both.usd_per_hour.egress == 0
    assert both.carbon_g_per_hour is not None
    grams = [e.carbon_g_per_hour.value for e in alone if e.carbon_g_per_hour is not None]
    assert both.carbon_g_per_hour.value == pytest.approx(sum(grams))
    assert both.placement.machines == 16
    assert sum(group.gpus for group in both.placement.groups) == 128


def test_a_worker_of_two_devices_beats_each_alone() -> None:
    """Both parts calculate, so that the speed is above that of either, and below their sum."""
    both = estimated(SAME).samples_per_second.value
    alone = [
        estimated(f"aws/us-east-2=1x{part}").samples_per_second.value
        for part in ("8xH200:8:spot", "8xH100:8:on-demand")
    ]
    assert max(alone) < both < sum(alone)


def test_what_was_chosen_is_found_again_from_its_text() -> None:
    """The plans of the parts stand in the text, with their layers, and give the same step."""
    first = estimated(SAME)
    (group,) = first.placement.groups
    again = estimated(group.spec)
    assert again.placement == first.placement
    assert again.step.total == first.step.total
    layers = [part.inner.layers for part in group.parts if part.inner is not None]
    assert sum(layers) == 80


def test_activations_between_places_are_paid_by_the_sample() -> None:
    """A sequence of 8,192 tokens of width 8,192 passes in BF16 there and back, 512 in a step."""
    away = estimated(AWAY)
    each = 512 * 8192 * 8192 * 2
    assert {link.bytes_per_step for link in away.links} == {each}
    assert [(link.src, link.dst) for link in away.links] == [
        ("aws/us-east-1", "aws/us-east-2"),
        ("aws/us-east-2", "aws/us-east-1"),
    ]
    usd_per_byte = sum(away.problem.network.usd_per_byte(link.src, link.dst) for link in away.links)
    steps_per_hour = 3600 / away.step.total
    assert away.usd_per_hour.egress == pytest.approx(each * usd_per_byte * steps_per_hour)
    assert away.samples_per_second.value < estimated(SAME).samples_per_second.value


def test_the_break_even_is_told_where_places_are_crossed() -> None:
    """4 bytes a token and unit of width, beside DiLoCo; nothing of it in one place."""
    away, same = (
        {note["code"]: note["message"] for note in estimated(workers).to_dict()["notes"]}
        for workers in (AWAY, SAME)
    )
    assert "4 x 8,192 bytes a token and hop" in away["stages-between-places"]
    assert "DiLoCo every 100 steps" in away["stages-between-places"]
    assert "stages-between-places" not in same
    assert "several-devices" in same


def test_quotas_count_each_part_in_its_place_and_type() -> None:
    """64 GPUs of each are within a quota of 64 of a type; 60 leave both too few."""
    assert not estimated(SAME, quota=64).to_dict()["violations"]
    broken = estimated(SAME, quota=60).to_dict()["violations"]
    texts = " ".join(v["message"] for v in broken if v["code"] == "quota")
    assert "64 x H200 spot" in texts
    assert "64 x H100 on_demand" in texts


def test_a_lost_machine_of_any_spot_part_stops_the_worker() -> None:
    """With H100 on spot too, the worker is lost more often than with H200 alone."""
    one, two = (
        estimated(workers, interruption=0.2).to_dict()["outlook"]["spot"]["chance_per_month"]
        for workers in (SAME, f"{HEAD}~8xH100:8:spot")
    )
    assert one == pytest.approx(1 - 0.8**8)
    assert two == pytest.approx(1 - 0.8**16)


def test_the_document_is_valid_and_names_the_parts() -> None:
    """As ``placer validate`` reads it."""
    document = estimated(AWAY).to_dict()
    (row,) = document["placement"]["workers"]
    assert [part["place"] for part in (row, *row["behind"])] == ["aws/us-east-2", "aws/us-east-1"]
    assert check_document(document, "estimate.json")
    assert placement_from(document["placement"]) == estimated(AWAY).placement


def test_deepseek_fits_where_neither_device_holds_it() -> None:
    """Eight machines of H100 and eight of H200 hold a mixture of experts as stages."""
    both = placer.estimate("deepseek-v3", "aws/us-east-2=1x8xH100:8~8xH200:8", figures="book")
    assert both.samples_per_second.value > 0
    for alone in ("8xH100:8", "8xH200:8"):
        with pytest.raises(PlacerError, match="GiB"):
            placer.estimate("deepseek-v3", f"aws/us-east-2=1x{alone}", figures="book")


def test_nothing_starts_such_workers() -> None:
    """A manifest is refused, as no target has stages of several devices."""
    found = estimated(SAME)
    with pytest.raises(PlacerError, match="no manifest"):
        build_manifest(found.problem, found.placement, found, "unknown", None)


def test_places_are_named_where_they_change() -> None:
    """A part without a place lies in that of the first."""
    (spec,) = parse_workers("a/b=1x2xA:8+tp=2+layers=3~4xB:8~c/d=C")
    assert [(p.place, p.machines, p.gpu, p.count) for p in spec.behind] == [
        ("a/b", 4, "B", 1),
        ("c/d", 1, "C", 1),
    ]


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
    assert found.best_with_it is not None
    assert found.best_with_it.placement.groups[0].behind
    assert result.estimate is not None
    speeds = (e.samples_per_second.value for e in (found.best_with_it.estimate, result.estimate))
    gain = next(speeds) - next(speeds)
    assert found.difference == pytest.approx(gain)
    made = Explanation(problem=question, result=result, why_not=(found,))
    assert check_document(made.to_dict(), "explanation.json")
    assert "Nothing that placer writes starts such workers" in made.report()

"""The answer with all that is said about it."""

import json
from typing import Any

import jsonschema
import pytest

import placer
from instances import carbon_problem, random_problem
from placer.advice.recommendation import recommend as recommendation
from placer.advice.recommendation.notes import notes_of, warnings_of
from placer.advice.recommendation.recommend import egress_blind, promise
from placer.cost_model.estimate import estimate, evaluate
from placer.cost_model.limits import evaluated
from placer.documents.schemas import schema_text
from placer.documents.validate import check_document
from placer.errors import PlacerError
from placer.market.scaled_market import with_scaled_egress
from placer.problem.placement import Placement
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.by_hand import place_by_hand
from placer.solving.solve import solve


def specs(result: placer.Result) -> list[str]:
    """Groups of the chosen placement."""
    assert result.placement is not None
    return [group.spec for group in result.placement.groups]


def test_the_papers_market_at_five_dollars() -> None:
    """8 x A10 at Lambda for 4.80 USD/h, proved; the DGX-2 at 6.30 is a near miss; 8 x T4 is in the
    table.
    """
    result = placer.recommend(
        "roberta-xlm",
        budget="5/h",
        catalog="erben-2023",
        gpu="T4,A10,V100",
        quota=8,
        time_limit=3600,
    )
    assert specs(result) == ["lambda/us-west-1=8xA10:on-demand"]
    assert result.status is Status.OPTIMAL
    assert result.estimate is not None
    assert result.estimate.usd_per_hour.total == pytest.approx(4.80)
    assert result.estimate.samples_per_second.value == pytest.approx(1060, rel=0.05)
    assert result.near_misses[0].placement.groups[0].spec == "gcp/us-central1=1xV100:8:spot"
    assert result.near_misses[0].estimate.usd_per_hour.total == pytest.approx(6.30)
    table = [[g.spec for g in option.placement.groups] for option in result.options]
    assert any(len(row) == 1 and "=8xT4:spot" in row[0] for row in table)
    assert table[0] == specs(result)


def test_todays_market_says_stay_and_why() -> None:
    """One strong node: the verdict names the place, the proof, the best two-region try and what
    would have to change.
    """
    result = placer.recommend("roberta-xlm", budget="5/h")
    assert result.placement is not None
    assert len(result.placement.places) == 1
    text = " ".join(result.verdict)
    assert f"Stay in {result.placement.places[0]}" in text
    assert "no placement of this catalog" in text
    assert "two or more regions" in text
    assert "one region" in text or "nothing to exchange" in text
    assert [b.note for b in result.baselines] == ["the same", "the same"]
    assert "estimated-rate" in {w.code for w in result.warnings}


def remarks(model: str, workers: str, **words: Any) -> dict[str, str]:
    """Warnings and notes of a placement by hand on the default book, by code."""
    problem = placer.Advisor("default").problem(model, **words)
    placement = place_by_hand(workers, problem)
    got = estimate(placement, problem)
    every = (*warnings_of(problem, placement, got), *notes_of(problem, placement, got))
    return {remark.code: remark.message for remark in every}


def test_warnings_of_averaging_are_those_of_its_software() -> None:
    """NCCL forms no groups and was measured on 32 machines; hivemind does, and on up to 10."""
    nccl = remarks("resnet50", "aws/us-east-1=40xT4:spot")
    assert "matchmaking" not in nccl
    assert "1 to 32 machines" in nccl["extrapolated"]
    hivemind = remarks("resnet50", "aws/us-east-1=40xT4:spot", transport="hivemind")
    assert "matchmaking" in hivemind
    assert "up to 10" in hivemind["extrapolated"]
    assert "extrapolated" not in remarks("llama-3.1-8b", "gcp/europe-north1=9xH100:8:spot")


def test_a_sharded_model_is_not_said_to_fill_a_gpu() -> None:
    """Llama 3.1 8B takes 121 GiB unsharded; the plan of an H100 takes 75 of its 79.5."""
    told = remarks("llama-3.1-8b", "aws/us-east-1=2xH100:8:spot")["memory"]
    assert "takes 75 of 79.5 GiB on each GPU" in told


@pytest.mark.parametrize("workers", ["65xH100:8:spot+zero-3+mb=1", "33x2xH100:8:spot+zero-3+mb=1"])
def test_fewer_sequences_than_ranks_are_refused(workers: str) -> None:
    """512 sequences a step of Llama 3.1 8B are enough for 512 ranks."""
    with pytest.raises(PlacerError, match="sequences of a step leave data-parallel ranks"):
        remarks("llama-3.1-8b", f"aws/us-east-1={workers}")


def test_a_batch_that_does_not_divide_names_the_nearest_that_do() -> None:
    """512 sequences over 72 ranks: 8 on the fullest, as over 64. 504 leave 7 on each and 576 leave
    8, both without a wait: 1 - 512 / 576 = 11 % of the time is idle.
    """
    words = remarks("llama-3.1-8b", "gcp/us-central1=9xH100:8:spot+zero-3+mb=1")["uneven-batch"]
    assert "do not divide among 72 ranks: the fullest has 8, and 11 %" in words
    assert "--tbs 504: " in words
    assert "--tbs 576: " in words
    assert "uneven-batch" not in remarks("llama-3.1-8b", "gcp/us-central1=8xH100:8:spot")


def test_no_answer_has_more_ranks_than_sequences() -> None:
    """Eight sequences a step: of what 12 USD/h would pay for, no more than eight ranks, of which TP
    puts two GPUs into one; nine workers cannot run.
    """
    words: dict[str, Any] = {"budget": "12/h", "gpu": "L4", "sharding": "zero-3", "tbs": 8}
    answer = placer.recommend("gpt-1.3b", **words, alternatives=False)
    assert isinstance(answer.placement, Placement)
    groups = answer.placement.groups
    assert 1 <= sum(g.gpus // g.inner.tensor_parallel for g in groups if g.inner) <= 8
    assert answer.status is Status.OPTIMAL
    nothing = placer.recommend("gpt-1.3b", **words, workers="9..", alternatives=False)
    assert nothing.status is Status.INFEASIBLE


def test_an_egress_blind_tool_is_priced_truly() -> None:
    """Forced onto several T4 regions, ignoring egress leads elsewhere, and what it would cost is
    said.
    """
    result = placer.recommend(
        "convnext-large",
        budget="5/h",
        catalog="erben-2023",
        gpu="T4",
        market="spot",
        workers="12..16",
    )
    blind = next(b for b in result.baselines if b.label == "egress-blind")
    assert result.estimate is not None
    assert blind.estimate.usd_per_hour.total > result.estimate.usd_per_hour.total
    assert "above the budget" in blind.note


def test_no_row_of_the_table_beats_an_answer_that_was_stopped() -> None:
    """A search that ended at its time limit takes up the best equal machines, whose bound still
    holds: of a few seconds, or of none at all.
    """
    taken = 0
    for budget, limit in (("2/h", 1e-3), ("5/h", 1e-3), ("100/h", 1e-3), ("100/h", 0.5)):
        result = placer.recommend(
            "resnet50",
            budget=budget,
            data="backblaze/us-west",
            local_steps="1..64",
            time_limit=limit,
        )
        assert result.status is Status.TIME_LIMIT
        assert result.value is not None
        values = [result.objective.value(option.estimate) for option in result.options]
        assert result.value >= max(values)
        assert result.bound is None or result.bound >= result.value
        taken += max(values) == result.value
    assert taken


def test_what_is_left_out_unseen_is_in_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal machines whose promise is no better than the best of their kind are not evaluated:
    options and near misses are those that evaluating all of them gives.
    """
    shown, seen = 0, {"some": 0, "all": 0}
    for seed in range(0, 40, 7):
        for objective in ("throughput", "cost", "cost-per-sample", "carbon", "time"):
            problem = (carbon_problem if objective == "carbon" else random_problem)(seed)
            if (objective == "time" and problem.requirements.samples is None) or not problem.pools:
                continue
            wish = replace(problem.requirements, objective=objective)
            asked = replace(problem, requirements=wish)
            tables = {}
            for name, hoped in (("some", promise), ("all", lambda *_: (float("inf"), 0.0))):
                monkeypatch.setattr(recommendation, "promise", hoped)
                monkeypatch.setattr(
                    recommendation, "evaluated", lambda *a, n=name: _counted(seen, n, *a)
                )
                result = recommendation.recommend(asked)
                tables[name] = (*result.options, *result.near_misses)
            assert tables["some"] == tables["all"], (seed, objective)
            shown += len(tables["all"])
    assert shown > 30
    assert seen["some"] < seen["all"]


def _counted(seen: dict[str, int], name: str, *words: Any) -> Any:
    seen[name] += 1
    return evaluated(*words)


@pytest.mark.parametrize(
    ("model", "quota", "spreads"),
    [("convnext-large", 8, True), ("roberta-xlm", 2, True), ("convnext-large", 64, False)],
)
def test_an_egress_blind_tool_leaves_the_region_or_stays(
    model: str, quota: int, spreads: bool
) -> None:
    """Within one region nobody pays egress, so several regions alone are searched at free egress:
    the value is that of a search of all placements.
    """
    result = placer.recommend(
        model, budget="2/h", catalog="erben-2023", gpu="T4", quota=quota, alternatives=False
    )
    assert result.placement is not None
    assert len(result.placement.places) == 1
    free = replace(result.problem, catalog=with_scaled_egress(result.problem.catalog, 0.0))
    best = solve(free, options=SolveOptions(break_ties=False)).value
    blind = egress_blind(result, "exact", SolveOptions())
    assert best is not None
    assert blind is not None
    value = result.objective.value(evaluate(blind, free))
    assert value == pytest.approx(best, rel=2e-3)  # each within its gap of 0.001
    assert (len(blind.places) > 1) == spreads


def test_infeasible_budget_names_the_least_that_works() -> None:
    """Status, not an exception; the change that is named works, and a cent less does not."""
    result = placer.recommend("roberta-xlm", budget="0.05/h", catalog="erben-2023")
    assert result.status is Status.INFEASIBLE
    assert result.placement is None
    change = result.nearest[0].note.split()[1]
    assert (
        placer.recommend("roberta-xlm", budget=change, catalog="erben-2023").placement is not None
    )
    less = f"{float(change.removesuffix('/h')) - 0.01:.2f}/h"
    assert placer.recommend("roberta-xlm", budget=less, catalog="erben-2023").placement is None


def test_infeasible_floor_names_the_most_that_can_be_had() -> None:
    """Both changes are offered when budget and floor contradict each other."""
    result = placer.recommend(
        "roberta-xlm", budget="1/h", min_throughput="5000/s", catalog="erben-2023"
    )
    assert [o.label for o in result.nearest] == ["throughput"]
    floor = result.nearest[0].note.split()[1]
    assert (
        placer.recommend(
            "roberta-xlm", budget="1/h", min_throughput=floor, catalog="erben-2023"
        ).placement
        is not None
    )


def test_no_admitted_machine_says_what_excludes_most() -> None:
    """A model too large for every device of the book."""
    with pytest.raises(PlacerError) as caught:
        placer.recommend("niser", catalog="erben-2023")
    assert "no offer of catalog 'erben-2023' passes your filters" in caught.value.message


def test_documents_follow_their_schemas() -> None:
    """Result and manifest, with and without a placement."""
    schema = json.loads(schema_text("result"))
    for budget in ("5/h", "0.05/h"):
        result = placer.recommend("roberta-xlm", budget=budget, catalog="erben-2023")
        jsonschema.validate(result.to_dict(), schema)
    manifest = json.loads(schema_text("manifest"))
    asked: tuple[dict[str, Any], ...] = (
        {"gpu": "T4"},
        {"workers": "4", "exchange": "central", "catalog": "phalak-2023", "model": "niser"},
    )
    for words in asked:
        model = words.pop("model", "roberta-xlm")
        jsonschema.validate(
            placer.recommend(model, **{"catalog": "erben-2023", **words}).to_manifest(), manifest
        )


def test_result_document_has_exactly_the_promised_names() -> None:
    """Golden keys of placer.result/v1: within v1 keys are only added."""
    document = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023").to_dict()
    promised = {
        "schema",
        "request",
        "data",
        "status",
        "objective",
        "solver",
        "placement",
        "estimate",
        "alternatives",
        "warnings",
    }
    assert promised <= document.keys()
    assert {"name", "value", "bound", "gap"} == document["objective"].keys()
    assert {"offer", "place", "gpu", "gpu_count", "market", "count", "usd_per_hour"} == document[
        "placement"
    ]["workers"][0].keys()
    estimate = document["estimate"]
    assert {"value", "low", "high"} == estimate["samples_per_second"].keys()
    assert {"calculation", "communication", "total"} <= estimate["step_seconds"].keys()
    assert {"compute", "egress", "storage", "functions", "data", "total"} == estimate[
        "usd_per_hour"
    ].keys()
    assert {"granularity", "usd_per_million_samples", "links", "provenance"} <= estimate.keys()


def test_saved_results_are_priced_again_and_edits_are_found() -> None:
    """A file is enough to check it; a changed figure or manifest is refused."""
    result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023")
    saved = result.to_saved()
    assert "priced again" in check_document(saved, "r.json")
    saved["estimate"]["usd_per_hour"]["total"] *= 0.9
    with pytest.raises(PlacerError, match=r"estimate\.usd_per_hour\.total is written as"):
        check_document(saved, "r.json")
    manifest = result.to_manifest()
    assert "manifest of" in check_document(manifest, "m.json")
    manifest["groups"][0]["count"] += 1
    with pytest.raises(PlacerError, match="digest differs"):
        check_document(manifest, "m.json")
    wrongs: list[Any] = [[], {}, {"schema": "placer.result/v1"}, {"schema": "placer.result/v9"}]
    for wrong in wrongs:
        with pytest.raises(PlacerError, match=r"x\.json|unknown schema"):
            check_document(wrong, "x.json")


def test_manifest_ranks_and_timeouts() -> None:
    """Rank offsets follow the counts; time-outs are above the predicted times."""
    result = placer.recommend(
        "roberta-xlm", budget="5/h", catalog="erben-2023", gpu="T4", regions="2.."
    )
    manifest = result.to_manifest()
    assert len(manifest["groups"]) > 1
    offset = 0
    for group in manifest["groups"]:
        assert group["rank_offset"] == offset
        offset += group["count"]
    assert manifest["world_size"] == offset
    assert result.estimate is not None
    assert manifest["exchange"]["timeouts"]["averaging_s"] > result.estimate.step.communication
    assert manifest["exchange"]["timeouts"]["step_s"] > result.estimate.step.total


def test_frames_and_notebooks() -> None:
    """to_frame has a row per option, the chosen one marked; notebooks get HTML."""
    result = placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023")
    frame = result.to_frame()
    assert list(frame["chosen"]).count(True) == 1
    assert "samples/s" in (result._repr_html_() or "")


def test_same_question_same_document() -> None:
    """Byte for byte, but for the seconds of the solver."""
    first, second = (
        placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023").to_dict()
        for _ in range(2)
    )
    first["solver"].pop("seconds"), second["solver"].pop("seconds")
    assert first == second


def test_advisor_shares_catalogs_between_threads() -> None:
    """Eight threads, one Advisor: equal answers."""
    from concurrent.futures import ThreadPoolExecutor

    advisor = placer.Advisor("erben-2023")
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda _: specs(advisor.recommend("roberta-xlm", budget="5/h")), range(8))
        )
    assert all(answer == answers[0] for answer in answers)


def test_regions_can_be_forced() -> None:
    """Two regions cost what they cost; one is what a single-region tool would choose."""
    words: dict[str, Any] = {"budget": "5/h", "catalog": "erben-2023", "gpu": "T4"}
    two, one = (
        placer.recommend("roberta-xlm", regions="2..", **words),
        placer.recommend("roberta-xlm", regions=1, **words),
    )
    assert two.placement is not None
    assert one.placement is not None
    assert len(two.placement.places) >= 2
    assert len(one.placement.places) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"bugdet": "5/h"}, "unknown word 'bugdet'"),
        ({"budget": 5}, "budget 5 is of type int"),
        ({"gpu": [1]}, "gpu [1] is not text"),
        ({"catalog": 5}, "catalog 5 is not a name"),
        ({"require_measured": "no"}, "require_measured 'no'"),
        ({"top": 0}, "top 0"),
    ],
)
def test_wrong_words_in_python_are_placer_errors(words: dict[str, Any], says: str) -> None:
    """Not a TypeError from inside."""
    with pytest.raises(PlacerError) as caught:
        placer.recommend("roberta-xlm", **{"catalog": "erben-2023", **words})
    assert says in caught.value.message


def test_one_region_by_wish_is_not_called_a_finding() -> None:
    """With --regions 1 nothing is said about spreading, which was not looked at."""
    text = " ".join(
        placer.recommend("roberta-xlm", budget="5/h", catalog="erben-2023", regions=1).verdict
    )
    assert "over two regions" not in text
    assert "however many regions" not in text
    assert "that meets the wishes" in text

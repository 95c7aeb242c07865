"""Answers keep to plans that an engine executes, unless wishes leave none."""

from typing import Any

import pytest

from instances import island_problem, wishing
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.by_hand import place_by_hand
from placer.solving.parts.search import best_executed, questions
from placer.solving.result import Result
from placer.solving.solve import solve
from proofs import PROOF

SEEDS = range(100, 116)


def asked(seed: int, **wishes: object) -> Problem:
    """A drawn language model on two workers or more."""
    drawn = island_problem(seed, most=400)
    most = max(2, drawn.requirements.max_workers)
    return wishing(drawn, min_workers=2, max_workers=most, **wishes)


LOCAL = {"exchange": "diloco", "min_local_steps": 8, "max_local_steps": 16}


def test_local_steps_keep_to_engines_and_agree_with_enumeration() -> None:
    """DiLoCo in 2 bytes is placer's, which divides no matrix; as it is, torchft's, which does.
    `exact` finds what enumerating each engine's plans finds, and some answers give compression up.
    """
    changed = 0
    for seed in SEEDS:
        problem = asked(seed, **LOCAL)
        found, every = (solve(problem, name, PROOF) for name in ("exact", "exhaustive"))
        assert found.value == (None if every.value is None else pytest.approx(every.value))
        if found.placement is not None:
            assert found.placement.unexecuted == "", seed
            assert found.problem.compression == found.placement.exchange.compression
            changed += found.problem.compression != problem.compression
    assert changed


@pytest.mark.parametrize(("objective", "best"), [("cost", min), ("throughput", max)])
def test_the_answer_is_the_best_of_what_engines_execute(objective: str, best: Any) -> None:
    """Torchft and placer execute plans of unequal value: the lower cost, the higher speed."""
    problem = asked(109, objective=objective, **LOCAL)
    values = [solve(question, "exact", PROOF).value for question in questions(problem)]
    both = [value for value in values if value is not None]
    assert len(both) == 2
    assert min(both) < 0.9 * max(both)
    assert solve(problem, "exact", PROOF).value == pytest.approx(best(both))


def test_each_engine_has_a_question_with_its_compression_and_degrees() -> None:
    """Of DiLoCo in FP16: torchft asks for none, placer for no tensor parallelism; PyTorch, which
    has no DiLoCo, for nothing, as two workers are wanted.
    """
    problem = asked(SEEDS[0], **LOCAL, compression=None)
    problem = replace(problem, profile=replace(problem.profile, compression="fp16"))
    rows = [(q.requirements.engine, q.compression) for q in questions(problem)]
    assert rows == [("torchft", "none"), ("placer", "fp16")]
    plans = [q.island_question and q.island_question.plan_wishes() for q in questions(problem)]
    assert [plan and plan.tensor_parallel for plan in plans] == [None, 1]


def test_wishes_that_no_engine_has_are_kept() -> None:
    """A parameter server with matrices over two GPUs: nobody asks another plan of the user."""
    problem = asked(SEEDS[0], exchange="parameter-server", tensor_parallel=2)
    assert not list(questions(problem))
    for seed in SEEDS:
        found = solve(asked(seed, exchange="parameter-server", tensor_parallel=2), "exact", PROOF)
        if found.placement is not None:
            assert "placer run does not do tp=2" in found.placement.unexecuted
            break
    else:
        pytest.fail("no drawn question has such an answer")


def test_a_plan_that_nobody_writes_is_an_engines_by_hand_too() -> None:
    """The machines of an answer, written without their plan: with one that is executed, where one
    is with the compression of the model.
    """
    tried = 0
    for seed in SEEDS:
        problem = asked(seed, **LOCAL)
        answer = solve(problem, "exact", PROOF)
        found = answer.placement
        if found is not None and answer.problem.compression == problem.compression:
            specs = (
                f"{g.place}={g.count}x({g.machines}x{g.gpu}:{g.gpu_count})" for g in found.groups
            )
            assert place_by_hand(",".join(specs), problem).unexecuted == "", seed
            tried += 1
    assert tried


@pytest.mark.parametrize("left_s", [PROOF.time_limit_s, 0.0])
def test_each_engine_is_asked_in_the_time_that_is_left(left_s: float) -> None:
    """Of the hour of a question whose answer no engine executes, nearly all is left for theirs;
    without any the machines of that answer train by an exchange that one has.
    """
    asked_s: list[float] = []
    served = {"exchange": "parameter-server", "tensor_parallel": 2}
    both = ((solve(asked(s, **served)), solve(asked(s, **LOCAL))) for s in SEEDS)
    unexecuted, problem = next(
        (one, other.problem)
        for one, other in both
        if one.placement is not None and other.placement is not None
    )

    def ask(problem: Problem, options: SolveOptions) -> Result:
        asked_s.append(options.time_limit_s)
        own = replace(options, time_limit_s=min(options.time_limit_s, left_s))
        return solve(problem, "exact", own) if asked_s[1:] else unexecuted

    found = best_executed(problem, ask, PROOF)
    assert found.placement is not None
    assert found.placement.unexecuted == ""
    assert len(asked_s) == 1 + len(list(questions(problem)))
    assert min(asked_s) > PROOF.time_limit_s / 2

"""Forged results: what an adversary writes, with digests, totals and gaps made to fit, is refused
or named as not covered.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from second_opinions import edited, examined, fresh

from conftest import Run
from instances import exchange_problem, random_problem, wide_problem, wishing
from placer.cost_model.estimate import estimate
from placer.documents.checker.strategies import required_modes
from placer.documents.proof_check import UNCOVERED
from placer.documents.saved_result import input_digests
from placer.documents.schemas.proofs import ModeProof
from placer.documents.validate import examine_document
from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.problem.requirements import Quota
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.by_hand import place_by_hand
from placer.solving.result import Result
from placer.solving.solve import solve

IN = ("--in", "lambda/us-*,aws/ap-southeast-3")
WORDS = ("--model", "roberta-xlm", "--budget", "5/h", "--gpu", "A10,A10G", *IN)
Files = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def files(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Results as the command writes them: with the whole market, and with what is used."""
    made = {}
    for name, words in (("whole", ("--certificate",)), ("used", ())):
        path = tmp_path_factory.mktemp("forged") / f"{name}.json"
        done = run("recommend", *WORDS, *words, "-o", str(path))
        assert done.returncode == 0, done.stderr
        made[name] = json.loads(path.read_text())
    return made


def problem_of(document: dict[str, Any]) -> Problem:
    """Question of a file."""
    return Problem.from_dict(document["problem"])


def claimed(document: dict[str, Any], workers: str, gap: float) -> Result:
    """A placement by hand that is called optimal, with the bound of each mode at its value."""
    problem = problem_of(document)
    placement = place_by_hand(workers, problem)
    value = estimate(placement, problem).effective_samples_per_second.value
    proof = tuple(
        ModeProof(**{**mode, "bound": value, "root_bound": value}) for mode in document["proof"]
    )
    return Result(
        problem=problem,
        status=Status.OPTIMAL,
        placement=placement,
        estimate=estimate(placement, problem),
        bound=value,
        solver="exact",
        seconds=1.0,
        candidates=10**6,
        nodes=10**6,
        proof=proof,
        limits=SolveOptions(gap=gap),
    )


def refused(document: dict[str, Any]) -> str:
    """The one line with which a document is refused, or an empty one."""
    caught: PlacerError | None = None
    try:
        examine_document(fresh(document), "r.json")
    except PlacerError as error:
        caught = error
    assert caught is None or (caught.exit_code == 2 and "\n" not in caught.message)
    return "" if caught is None else caught.message


def uncovered(document: dict[str, Any]) -> str:
    """What is said not to be covered by the check of a document that is not refused."""
    _, checked = examined(document)
    return "\n".join(line for line in checked.trusted if UNCOVERED in line)


@pytest.mark.parametrize("name", ["whole", "used"])
def test_what_the_command_writes_holds(files: Files, name: str) -> None:
    """And the output names what is not covered."""
    assert refused(files[name]) == ""
    assert "verdict" in uncovered(files[name])
    assert "that the answer is optimal" in uncovered(files[name])


@pytest.mark.parametrize("gap", [0.001, 0.0])
@pytest.mark.parametrize("name", ["whole", "used"])
def test_a_forged_optimum_is_refused_by_a_better_placement(
    files: Files, name: str, gap: float
) -> None:
    """(A) 2 x A10 called optimal, all bounds lowered to its value. 3 x A10 keep the budget too and
    are faster, so that the bound is refuted without a search, wherever the market comes from.
    """
    forged = claimed(files["whole"], "lambda/us-east-1=2xA10:on-demand", gap)
    document = forged.to_saved(whole=name == "whole")
    assert "the bound" in refused(document)
    assert "is beaten: " in refused(document)


def test_a_lowered_bound_does_not_follow_from_the_gap(files: Files) -> None:
    """The bound and those of all modes lowered to the value: with the gap of 0.1 % that was asked
    for, the mode of the answer would have a bound 0.1 % above it, or that of its relaxation.
    """
    document = fresh(files["whole"])
    objective = document["objective"]
    objective["bound"], objective["gap"] = objective["value"], 0.0
    for mode in document["proof"]:
        if mode["bound"] is not None and mode["bound"] > objective["value"]:
            mode["bound"] = objective["value"]
    assert "no bound of the proof follows from the gap" in refused(document)


def doctored(document: dict[str, Any], *, digest: str | None = None) -> Result:
    """(B) The best placement of a market in which an A10 costs 0.10 USD/h."""
    problem = problem_of(document)
    offers = tuple(
        replace(o, usd_per_hour=0.1) if o.gpu == "A10" else o for o in problem.catalog.offers
    )
    catalog = replace(problem.catalog, offers=offers, digest=digest or problem.catalog.digest)
    return solve(replace(problem, catalog=catalog), "exact", SolveOptions(certificate=True))


@pytest.mark.parametrize("name", ["whole", "used"])
def test_a_placement_that_breaks_a_quota_of_vcpus_is_refused(files: Files, name: str) -> None:
    """(A) Two A10 of 30 vCPUs called optimal under a row of 59; digests and totals are those of the
    forged question.
    """
    problem = problem_of(files["whole"])
    row = Quota(place="lambda/*", gpu="*", market="*", vcpus=59, scope="together")
    honest = solve(
        wishing(problem, quotas=(row,)), "exact", SolveOptions(certificate=name == "whole")
    )
    assert refused(honest.to_saved(whole=name == "whole")) == ""
    placement = place_by_hand("lambda/us-east-1=2xA10:on-demand", problem)
    forged = replace(honest, placement=placement, estimate=estimate(placement, problem))
    assert f"60 vCPUs exceed the joint quota of {row.vcpus} vCPUs in lambda/*" in refused(
        forged.to_saved(whole=name == "whole")
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_doctored_price_under_a_shipped_digest_is_refused(
    files: Files, whole: bool, run: Run, tmp_path: Path
) -> None:
    """(B) All figures, digests and bounds fit the doctored price; also with `--again`."""
    document = doctored(files["whole"]).to_saved(whole=whole)
    assert "costs 0.1 USD/h in the file" in refused(document)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(document))
    for again in ((), ("--again",)):
        done = run("validate", str(path), *again)
        assert done.returncode == 2
        assert "in the book 'default' of the same digest" in done.stderr


def test_a_digest_of_zeros_leaves_the_prices_uncovered(
    files: Files, run: Run, tmp_path: Path
) -> None:
    """A book of another day may have any price: terminal and JSON say that nothing compared it."""
    path = tmp_path / "r.json"
    path.write_text(json.dumps(doctored(files["whole"], digest="0" * 16).to_saved(whole=True)))
    words = "not covered by this check: prices, links and dates"
    assert words in " ".join(run("validate", str(path)).stdout.split())
    listed = json.loads(run("validate", str(path), "--json").stdout)
    assert any(line.startswith(words) for line in listed["trusted"])
    assert "0000000000000000" in str(listed["trusted"])


def test_offers_left_out_of_the_market_are_missed(files: Files) -> None:
    """A dearer machine becomes the best one when the cheaper ones are not in the file."""
    problem = problem_of(files["whole"])
    kept = tuple(o for o in problem.catalog.offers if o.provider != "lambda")
    smaller = replace(problem, catalog=replace(problem.catalog, offers=kept))
    document = solve(smaller, "exact", SolveOptions(certificate=True)).to_saved(whole=True)
    assert "the file lacks" in refused(document)


@pytest.mark.parametrize("name", ["whole", "used"])
def test_a_proof_that_lacks_strategies_is_refused(files: Files, name: str) -> None:
    """(C) 1 x A10 called optimal, with three strategies dropped from proof and relaxation."""
    result = claimed(files["whole"], "lambda/us-east-1=1xA10:on-demand", 0.0)
    document = result.to_saved(whole=name == "whole")
    dropped = ("all-reduce", "hierarchical-all-reduce", "parameter-server")
    drop_modes(document, dropped)
    assert "the proof says nothing of all-reduce" in refused(document)


def drop_modes(document: dict[str, Any], names: tuple[str, ...]) -> None:
    """Drop strategies from proof and relaxation."""
    document["proof"] = [mode for mode in document["proof"] if mode["strategy"] not in names]
    relaxation = document["certificate"]["relaxation"]
    if relaxation is not None:
        relaxation["modes"] = [m for m in relaxation["modes"] if m["strategy"] not in names]


@pytest.mark.parametrize(
    "strategy", ["none", "all-reduce", "hierarchical-all-reduce", "central", "hierarchical"]
)
def test_one_dropped_mode_is_missed(files: Files, strategy: str) -> None:
    """Whichever it is, also one that was far behind; and so is one in the relaxation alone."""
    document = fresh(files["whole"])
    drop_modes(document, (strategy,))
    assert "the proof says nothing of " in refused(document)
    document["proof"] = fresh(files["whole"]["proof"])
    assert "the relaxation says nothing of " in refused(document)


def at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set the value at a path."""
    return lambda document: document.update(edited(document, path, value))


def doubled(document: dict[str, Any]) -> None:
    """Write every alternative twice as fast."""
    for row in document["alternatives"]:
        row["estimate"]["effective_samples_per_second"]["value"] *= 2


def repeated(document: dict[str, Any]) -> None:
    """Write every alternative twice."""
    document["alternatives"] *= 2


def without_nodes(document: dict[str, Any]) -> None:
    """Call every search a proof by the relaxation, also in its counts."""
    for mode in document["proof"]:
        if mode["method"] == "search":
            mode.update(method="root", nodes=0, priced=0)


def without_searches(document: dict[str, Any]) -> None:
    """Call every search a proof by the relaxation."""
    for mode in document["proof"]:
        if mode["nodes"] or mode["priced"]:
            mode["method"] = "root"


def gap_and_nothing(document: dict[str, Any]) -> None:
    """Ask for half of the best, and call one mode of no machine: no bound follows from nothing."""
    document["certificate"]["gap"] = 0.5
    document["proof"][-1].update(bound=None, root_bound=None)


def other_factor(document: dict[str, Any]) -> None:
    """Lower a bound by weak duality by more samples to target than the model asks for."""
    document["certificate"]["relaxation"]["modes"][1]["samples_to_target"] *= 2


def unproved(document: dict[str, Any]) -> None:
    """Take out proof and certificate, as in a file of a version that had neither."""
    del document["certificate"], document["proof"]


TAMPERS: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "gap": (at("certificate/gap", 0.5), "no bound of the proof follows from the gap of 0.5", ""),
    "gap of none": (gap_and_nothing, "no bound of the proof follows from the gap of 0.5", ""),
    "method": (without_searches, "is said to need no search|is said to end by 'root'", ""),
    "method and counts": (without_nodes, "", "all-reduce: ruled out by the solver's relaxation"),
    "alternatives": (doubled, r"alternatives\[0\]\.estimate", ""),
    "repeated alternatives": (repeated, "appears twice", ""),
    "verdict": (at("verdict", ["Leave at once."]), "", "verdict"),
    "date": (at("data/as_of", "2026-11-21"), "data.as_of is written as 2026-11-21", ""),
    "egress date": (at("data/egress_as_of", "2026-11-21"), "data.egress_as_of is written", ""),
    "book": (at("data/catalog", "another"), "data.catalog is written as another", ""),
    "no certificate": (lambda d: d.pop("certificate"), "certificate that belongs to it", ""),
    "no proof": (at("proof", []), "the proof says nothing of", ""),
    "nor certificate": (unproved, "", "that the answer is optimal"),
    "factor": (other_factor, "samples_to_target of", ""),
    "unknown method": (at("proof/1/method", "guess"), "invalid enum value 'guess'", ""),
    "alone": (at("proof/1/method", "alone"), "is said to end by 'alone'", ""),
}
"""Edit, what it is refused with, and else what is said not to be covered."""


@pytest.mark.parametrize("name", TAMPERS)
def test_a_tamper_is_refused_or_named_as_uncovered(files: Files, name: str) -> None:
    """One at a time; figures that the edit leaves open stay as they were."""
    edit, message, named = TAMPERS[name]
    document = fresh(files["whole"])
    edit(document)
    if message:
        with pytest.raises(PlacerError, match=message):
            examine_document(document, "r.json")
    else:
        assert named in uncovered(document)


def test_nothing_fits_is_refuted_by_what_fits(files: Files) -> None:
    """A result that calls a question infeasible, where one A10 keeps every limit."""
    result = replace(
        claimed(files["whole"], "lambda/us-east-1=1xA10:on-demand", 0.0),
        status=Status.INFEASIBLE,
        placement=None,
        estimate=None,
        bound=None,
        proof=tuple(
            ModeProof(**{**mode, "bound": None, "root_bound": None})
            for mode in files["whole"]["proof"]
        ),
    )
    for whole in (True, False):
        assert "nothing is said to fit, but" in refused(result.to_saved(whole=whole))


def test_resealed_digests_do_not_help(files: Files) -> None:
    """A doctored link of the book, with the digest of the catalog worked out anew."""
    document = fresh(files["whole"])
    document["problem"]["catalog"]["egress"][0]["usd_per_gib"] = 0.5
    document["certificate"]["inputs"] = input_digests(document["problem"])
    assert "the egress in the file are not those of" in refused(document)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 100_000),
    st.sampled_from([random_problem, exchange_problem, wide_problem]),
    st.sampled_from([0.0, 0.001, 0.05]),
    st.booleans(),
)
def test_no_true_certificate_is_refused(
    seed: int, draw: Callable[[int], Problem], gap: float, whole: bool
) -> None:
    """Answers of `exact` to random questions: the modes that the checker asks for are those of the
    question, no bound is refuted, and every gap fits its proof.
    """
    problem = draw(seed)
    if not problem.pools:
        reject()
    result = solve(problem, "exact", SolveOptions(gap=gap, time_limit_s=600.0, certificate=whole))
    assert required_modes(problem.to_dict()) - {("none", 1)} == {*problem.modes}
    message = refused(result.to_saved(whole=whole))
    assert not any(word in message for word in ("bound", "proof", "gap", "says nothing"))

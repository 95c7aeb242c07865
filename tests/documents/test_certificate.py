"""The certificate: bounds by strategy, a second implementation of prices and limits, and edits that
are found.
"""

import importlib
import json
from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from jsonschema import validate as follows
from second_opinions import assert_priced_alike, assert_same_limits, edited, examined

import placer
from conftest import Run
from instances import (
    exchange_problem,
    loading_problem,
    random_problem,
    reading_problem,
    site_problem,
    vcpu_problem,
    wide_problem,
)
from placements import random_placement, ring_placement
from placer.cost_model.convergence import batch_factor, multiplier_of
from placer.cost_model.estimate import evaluate, pool_of
from placer.cost_model.limits import violations
from placer.cost_model.objective import objective_of
from placer.documents.checker.market import (
    CHEAPEST,
    Machine,
    largest_sums,
    machines_of,
    undominated,
)
from placer.documents.checker.seconds import last_arrival
from placer.documents.checker.strategies import Relaxed
from placer.documents.checker.witness import witness
from placer.documents.saved_result import device_speeds, mode_factor
from placer.documents.schemas import schema_text
from placer.documents.validate import check_document, examine_document
from placer.errors import PlacerError
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions, Status
from placer.solving.cross_check import solved_again
from placer.solving.result import Result
from placer.solving.solve import solve

placements = importlib.import_module("placer.solvers.exhaustive").placements
PROOF = SolveOptions(gap=0.0, time_limit_s=3600.0, certificate=True)
SEVERAL = [name for name in STRATEGIES if name != "none"]


@pytest.mark.parametrize("strategy", SEVERAL)
def test_the_second_implementation_prices_alike(strategy: str) -> None:
    """40 random placements of each strategy, with streams, local steps, overlap and placed data:
    seconds and every component.
    """
    for seed in range(40):
        assert_priced_alike(*random_placement(strategy, seed))


@pytest.mark.parametrize("strategy", ["all-reduce", "local-sgd", "diloco", "streaming-diloco"])
def test_the_second_implementation_prices_rings_alike(strategy: str) -> None:
    """40 random placements of NCCL or gloo, most of which average in a ring over two regions or
    more.
    """
    several = 0
    for seed in range(40):
        placement, problem = ring_placement(strategy, seed)
        assert_priced_alike(placement, problem)
        several += placement.exchange.in_ring and len(placement.places) > 1
    assert several >= 20


@pytest.mark.parametrize(
    "draw", [loading_problem, reading_problem, site_problem], ids=lambda d: d.__name__
)
def test_the_second_implementation_reads_alike(draw: Callable[[int], Problem]) -> None:
    """Placements of markets that read from a store, once or often, some of them from disks later;
    the store, a link, the line of a site or another worker's pass holds some back.
    """
    kept = 0
    for seed in range(40):
        problem = draw(seed)
        for placement in [*islice(placements(problem), 200)][::25]:
            assert_priced_alike(placement, problem)
            kept += any(pool_of(group, problem).keeps_data for group in placement.groups)
    assert kept >= 20


@pytest.mark.parametrize(
    "draw",
    [random_problem, wide_problem, exchange_problem, reading_problem, vcpu_problem],
    ids=lambda draw: draw.__name__,
)
def test_the_second_implementation_finds_the_same_limits_broken(
    draw: Callable[[int], Problem],
) -> None:
    """Over all placements of small markets that keep data where it stays."""

    def pairs() -> Iterator[tuple[Placement, Problem]]:
        for problem in map(draw, range(12)):
            stay = {d.place for d in problem.requirements.datasets if not d.may_move}
            for placement in islice(placements(problem), 40):
                if stay <= {*placement.places}:
                    yield placement, problem

    assert_same_limits(pairs())


def test_transfers_share_a_machine_by_hand() -> None:
    """Three at once, 1 s of the machine each: 3 s. One after the other: the last starts at 9 s and
    takes its own 4 s.
    """
    assert last_arrival([(0.0, 1.0, 3)], 1.0) == pytest.approx(3.0)
    assert last_arrival([(0.0, 4.0, 2), (9.0, 4.0, 1)], 1.0) == pytest.approx(13.0)


def test_weak_duality_by_hand() -> None:
    """Quota of 2 GPUs, sizes 1 and 2: two single machines (2 x 10) or one double (15); the majorant
    of (0, 15, 20) is itself.
    """
    kinds: dict[str, Any] = {"host": "t4", "bucket": ("a", "T4", "spot"), "quota": 2}
    single = Machine(alone=10.0, speed=10.0, usd=1.0, most=2, gpus=1, **kinds)
    double = Machine(alone=15.0, speed=15.0, usd=3.0, most=1, gpus=2, **kinds)
    assert largest_sums([single, double], 0.0, 5) == [0.0, 15.0, 20.0]
    assert largest_sums([single, double], 4.0, 5) == [0.0, 6.0, 12.0]
    assert largest_sums([single, double], CHEAPEST, 1) == [0.0, -1.0]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_machines_that_another_replaces_change_no_bound(data: st.DataObject) -> None:
    """Random machines, with and without quotas, against every way to take N of them: without those
    that another replaces the bound still holds, and is no looser.
    """
    machines = [
        Machine(
            alone=1.0,
            speed=float(data.draw(st.integers(1, 9))),
            usd=float(data.draw(st.integers(1, 9))),
            most=min(data.draw(st.sampled_from([1, 4])), 4 if number % 2 == 0 else 3 // gpus),
            gpus=gpus,
            host="t4",
            bucket=(str(number % 2), "T4", "spot"),
            quota=(None, 3)[number % 2],
        )
        for number, gpus in enumerate(data.draw(st.lists(st.integers(1, 2), max_size=4)))
    ]
    fewer = undominated(machines, 4)
    for multiplier in (0.0, 0.5, CHEAPEST):
        bounds = largest_sums(fewer, multiplier, 4)
        for counts in product(*(range(m.most + 1) for m in machines)):
            taken = list(zip(counts, machines, strict=True))
            within = all(
                sum(n * m.gpus for n, m in taken if m.bucket == key.bucket) <= key.quota
                for key in machines
                if key.quota is not None
            )
            if sum(counts) > 4 or not within:
                continue
            worth = sum(
                n * (-m.usd if multiplier == CHEAPEST else m.speed - multiplier * m.usd)
                for n, m in taken
            )
            assert worth <= bounds[sum(counts)] + 1e-9
        for tighter, looser in zip(bounds, largest_sums(machines, multiplier, 4), strict=False):
            assert tighter <= looser + 1e-9


def best_by_mode(problem: Problem) -> dict[tuple[str, int], float]:
    """Best value of each mode by plain enumeration."""
    name = problem.requirements.objective
    found: dict[tuple[str, int], float] = {}
    for placement in placements(problem):
        if violations(placement, problem):
            continue
        got = evaluate(placement, problem)
        value = objective_of(problem.requirements).value(got)
        mode = placement.exchange.strategy, placement.exchange.local_steps
        better = max if name == "throughput" else min
        found[mode] = better(value, found.get(mode, value))
    return found


def unbeaten(bound: float | None, value: float, objective: str) -> bool:
    """Whether a value keeps to a bound; a bound of None says that there is no value."""
    if bound is None:
        return False
    return value <= bound * (1 + 1e-8) if objective == "throughput" else value >= bound * (1 - 1e-8)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 100_000),
    st.sampled_from([random_problem, exchange_problem, reading_problem]),
    st.sampled_from([None, 3]),
)
def test_no_placement_of_a_mode_beats_its_bounds(
    seed: int, draw: Callable[[int], Problem], nodes: int | None
) -> None:
    """The bound of each mode, of its relaxation, and by weak duality, against plain enumeration;
    stopped searches too.
    """
    problem = draw(seed)
    if not problem.pools:
        reject()
    result = solve(problem, "exact", replace(PROOF, node_limit=nodes))
    name, best = problem.requirements.objective, best_by_mode(problem)
    proofs = {(p.strategy, p.local_steps): p for p in result.proof}
    document = json.loads(json.dumps(problem.to_dict()))
    speeds = device_speeds(problem)
    relaxed = Relaxed(document, machines_of(document, speeds), [0.1, 1.0, 10.0, 100.0, 1000.0])
    for mode, value in best.items():
        proof = proofs[mode]
        if result.placement is not None:
            assert unbeaten(proof.bound, value, name), (proof, value)
            assert unbeaten(proof.root_bound, value, name), (proof, value)
        factor = batch_factor(problem) if mode[0] == "none" else factor_of(problem, *mode)
        assert unbeaten(relaxed.best(*mode, factor), value, name), (mode, value)
    if result.status is Status.INFEASIBLE:
        assert not best
        assert all(proof.bound is None for proof in result.proof)


def factor_of(problem: Problem, strategy: str, local_steps: int) -> float:
    """Samples to target of a mode."""
    from placer.problem.admitted_exchanges import exchange_for

    return multiplier_of(exchange_for(strategy, 1, problem, local_steps=local_steps), problem).value


@pytest.fixture(scope="module")
def searched() -> Result:
    """Two regions of T4 machines, so that something is searched."""
    words: dict[str, Any] = {"catalog": "erben-2023", "budget": "5/h", "regions": "2..3"}
    return placer.recommend("convnext-large", **words, certificate=True)


@pytest.fixture(scope="module")
def saved(searched: Result) -> dict[str, Any]:
    """Its file, with the whole market."""
    document: dict[str, Any] = json.loads(json.dumps(searched.to_saved(whole=True)))
    return document


def test_the_bound_is_the_best_of_the_modes(searched: Result) -> None:
    """And the modes are those that the request admits; nodes and placements add up."""
    assert [(p.strategy, p.local_steps) for p in searched.proof] == list(searched.problem.modes)
    assert searched.bound == max(p.bound for p in searched.proof if p.bound is not None)
    assert sum(p.nodes for p in searched.proof) <= searched.nodes
    assert {"search", "root"} >= {p.method for p in searched.proof}
    assert searched.to_dict()["solver"]["nodes"] == searched.nodes > 0


def test_a_certificate_follows_the_schema_and_says_what_it_confirms(saved: dict[str, Any]) -> None:
    """Confirmed: prices, limits, digests, arithmetic. Trusted: searches and estimates."""
    follows(saved, json.loads(schema_text("result")))
    said, checked = examine_document(saved, "r.json")
    assert "priced again" in said
    assert checked is not None
    assert any("second implementation finds" in line for line in checked.confirmed)
    assert any("weak duality" in line for line in checked.confirmed)
    assert any(line.startswith("all-reduce: searched") for line in checked.trusted)


def test_a_coarse_compression_of_the_profile_leaves_strategies_out() -> None:
    """INT4 loses what only an outer optimizer takes up: of all strategies one machine is left, and
    the file lacks none.
    """
    problem = random_problem(1)
    coarse = replace(problem.profile, compression="int4")
    wish = replace(problem.requirements, compression=None, exchange="auto", min_local_steps=1)
    found = solve(replace(problem, profile=coarse, requirements=wish), "exact", PROOF)
    assert [proof.strategy for proof in found.proof] == ["none"]
    said = check_document(json.loads(json.dumps(found.to_saved(whole=True))), "r.json")
    assert "priced again" in said


@pytest.mark.parametrize(
    ("exchange", "steps"), [("local-sgd", 8), ("all-reduce", 1), ("streaming-diloco", 8)]
)
def test_equal_machines_refute_a_bound(exchange: str, steps: int) -> None:
    """The best T4 of one place calculate one batch or eight between two averages, which streaming
    DiLoCo alone sends meanwhile: a bound a thousandth below what they reach is refuted, the proved
    one is not.
    """
    problem = placer.Advisor("erben-2023").problem(
        "roberta-xlm",
        gpu="T4",
        places="gcp/us-central1",
        market="spot",
        exchange=exchange,
        local_steps=str(steps),
        workers="4",
    )
    found = solve(problem, "exact", PROOF)
    assert found.value is not None
    document, modes = problem.to_dict(), [mode_factor(exchange, steps, problem)]
    machines = machines_of(document, device_speeds(problem))
    assert witness(document, machines, modes, found.value * 0.999)
    assert not witness(document, machines, modes, found.bound)


def test_unproved_answers_have_no_proof_and_old_files_are_read(saved: dict[str, Any]) -> None:
    """A heuristic proves nothing; a file of an older version has no certificate and is priced again
    all the same.
    """
    tried = placer.recommend(
        "roberta-xlm", catalog="erben-2023", budget="5/h", solver="greedy", certificate=True
    )
    assert tried.proof == ()
    _, checked = examined(tried.to_saved())
    assert "nothing is proved" in checked.trusted[0]
    old = {key: value for key, value in saved.items() if key not in ("proof", "certificate")}
    old["solver"] = {key: value for key, value in saved["solver"].items() if key != "nodes"}
    _, checked = examined(old)
    assert checked.trusted[0].startswith(
        "no certificate in this file: it was written by an older version, or the certificate was "
        "removed; not covered by this check: the bound"
    )


def test_infeasible_answers_say_that_every_mode_is_ruled_out() -> None:
    """No machine costs 0.001 USD/h."""
    result = placer.recommend(
        "roberta-xlm", catalog="erben-2023", budget="0.001/h", certificate=True
    )
    assert result.status is Status.INFEASIBLE
    assert {proof.bound for proof in result.proof} == {None}
    document = json.loads(json.dumps(result.to_saved(whole=True)))
    said, checked = examine_document(document, "r.json")
    assert said == "result without a placement"
    assert checked is not None
    assert any(
        "weak duality" in line and line.count("none fits") == len(result.proof)
        for line in checked.confirmed
    )
    assert "found nothing either" in solved_again(document, "r.json", "exact")
    document["proof"][0]["bound"] = 1.0
    with pytest.raises(
        PlacerError, match="nothing is said to fit, but one machine is not ruled out"
    ):
        check_document(document, "r.json")


EDITS: dict[str, tuple[str, Any, str]] = {
    "price": (
        "problem/catalog/offers/0/usd_per_hour",
        0.01,
        "usd_per_hour is written as|digest of the catalog",
    ),
    "speed": (
        "estimate/samples_per_second/value",
        lambda v: v * 1.01,
        r"estimate\.samples_per_second\.value is written as",
    ),
    "counted speed": (
        "estimate/effective_samples_per_second/value",
        lambda v: v * 1.01,
        r"effective_samples_per_second\.value is written as",
    ),
    "egress": (
        "estimate/usd_per_hour/egress",
        lambda v: v * 1.01,
        r"usd_per_hour\.egress is written as",
    ),
    "count": ("placement/workers/0/count", lambda v: v + 1, "written as|breaks a limit|other keys"),
    "budget": (
        "problem/requirements/budget_usd_per_hour",
        6.0,
        "request does not fit|digest of the requirements",
    ),
    "rate": ("problem/profile/title", "another", "digest of the profile"),
    "host": ("problem/calibration/most_workers", 11, "digest of the calibration"),
    "quota": ("problem/catalog/name", "other", "digest of the catalog"),
    "digest": ("certificate/inputs/profile", "0" * 64, "digest of the profile"),
    "book": ("certificate/book", "0" * 64, "digest of the price book"),
    "bound": ("objective/bound", lambda v: v * 0.5, "is beaten by the value"),
    "total": ("objective/bound", lambda v: v * 1.0001, "gap, bound and value do not fit"),
    "mode": ("proof/0/bound", lambda v: v * 1.01, "not the best of the bounds of the modes"),
    "own mode": (
        "proof/0/bound",
        lambda v: v * 0.5,
        "not the best of the bounds|is beaten by the placement",
    ),
    "method": ("proof/0/method", "stopped", "the search of all-reduce was stopped"),
    "root": ("proof/0/method", "root", "all-reduce is said to need no search"),
    "nodes": ("solver/nodes", 0, r"solver\.nodes is written as 0"),
    "asked gap": ("certificate/gap", -0.1, "where -0.1 was asked for"),
    "solver": ("certificate/solver", "greedy", "the certificate is of the solver greedy"),
    "figure": (
        "certificate/figures/machines/0/in_group",
        lambda v: v * 1.01,
        "the second implementation finds",
    ),
    "odd link": (
        "certificate/figures/links/0/bytes_per_second",
        -1.0,
        r"links\[0\].bytes_per_second is -1.0: expected",
    ),
    "odd figure": (
        "certificate/figures/machines/0",
        {},
        "figures.machines.0.: object missing required field `gpu`",
    ),
    "link": (
        "certificate/figures/links/0/bytes_per_second",
        lambda v: v * 0.01,
        "the second implementation finds",
    ),
    "duality": (
        "certificate/relaxation/modes/0/bound",
        lambda v: v * 0.99,
        "by weak duality is written as",
    ),
    "multiplier": (
        "certificate/relaxation/multipliers/0",
        -1.0,
        r"multipliers\[0\] is -1.0: expected `float` >= 0.0",
    ),
    "speeds": (
        "certificate/relaxation/speeds/0/in_group",
        lambda v: v * 0.5,
        "not those of the profile",
    ),
    "version": ("certificate/schema", "placer.certificate/v9", "certificate.schema: invalid value"),
}
"""Path, new value, and what the error must name."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_named(saved: dict[str, Any], name: str) -> None:
    """One figure changed at a time."""
    path, value, message = EDITS[name]
    document = edited(saved, path, value)
    with pytest.raises(PlacerError, match=message) as caught:
        check_document(document, "r.json")
    assert caught.value.exit_code == 2


def test_the_bound_of_a_stopped_search_names_its_modes(searched: Result) -> None:
    """What was not finished has the bound of its relaxation, and the best of them is the bound of
    the answer.
    """
    stopped = solve(searched.problem, "exact", SolveOptions(node_limit=3))
    assert stopped.status is Status.TIME_LIMIT
    left = [proof for proof in stopped.proof if proof.method == "stopped"]
    assert left
    assert all(proof.bound == proof.root_bound is not None for proof in left)
    assert stopped.bound == max(proof.bound for proof in stopped.proof if proof.bound is not None)


def test_commands_write_show_and_check_a_certificate(run: Run, tmp_path: Path) -> None:
    """`recommend --certificate -o`, `validate`, `validate --again` with another solver."""
    path = tmp_path / "r.json"
    words = "--model convnext-large --catalog erben-2023 --budget 2/h --workers 2..8"
    done = run("recommend", *words.split(), "--certificate", "-o", str(path))
    assert "ruled out by its" in " ".join(done.stdout.split())
    checked = run("validate", str(path), "--again", "--solver", "local_search")
    assert checked.returncode == 0, checked.stderr
    assert "local_search solved it again" in checked.stdout
    assert "trusted" in checked.stdout
    listed = json.loads(run("validate", str(path), "--json").stdout)
    assert listed["valid"] is True
    assert listed["confirmed"]
    document = json.loads(path.read_text(encoding="utf-8"))
    document["certificate"]["book"] = "0" * 64
    path.write_text(json.dumps(document), encoding="utf-8")
    broken = run("validate", str(path))
    assert broken.returncode == 2
    assert "digest of the price book" in broken.stderr

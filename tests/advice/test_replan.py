"""``placer whatif --observed``: logs with known speeds and losses, and figures by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from certain import certain
from hypothesis import given
from hypothesis import strategies as st
from run_plans import A, B, document, plan_of, settings_of

import placer
from conftest import Run
from placer.advice.worlds.replan import break_even_seconds
from placer.cost_model.objective import objective_of
from placer.documents.manifest import read_manifest
from placer.errors import PlacerError
from placer.launch.runtime.run_log import RunLog
from placer.problem.requirements import Requirements
from placer.validation.calibration.observations import observe
from run_logs import logged, planned


@pytest.fixture(scope="module")
def two_regions(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Nine or ten T4 over two regions."""
    return planned(tmp_path_factory.mktemp("plan"), regions="2..")


def test_a_run_as_planned_is_kept(two_regions: str) -> None:
    """Factors of 1; nothing is better than the plan; a rank that stopped for another is no loss."""
    got = placer.replan(two_regions, logged(two_regions))
    assert got.verdict == "keep"
    assert [change.factor for change in got.changes] == pytest.approx(
        [1.0] * len(got.changes), rel=1e-4
    )
    assert {change.what for change in got.changes} == {"rate", "bandwidth"}
    assert got.observed.lost == []
    assert got.gain == pytest.approx(0.0, abs=1e-6)
    assert got.observed.samples_per_second == pytest.approx(
        got.manifest.expected.samples_per_second.value, rel=1e-3
    )


def test_slower_links_are_told_from_slower_machines(two_regions: str) -> None:
    """Machines at 80 %: calculation takes 1.25 times as long. The exchange takes 1.2 times:
    averaging is a property of the hosts, so the links carry all of the rest: factor = wan / (1.2
    (averaging + wan) - averaging).
    """
    got = placer.replan(two_regions, logged(two_regions, speed=0.8, exchange=1.2))
    rate, link = (
        next(change.factor for change in got.changes if change.what == what)
        for what in ("rate", "bandwidth")
    )
    assert rate == pytest.approx(0.8, rel=1e-5)
    expected = got.manifest.expected.step_seconds["communication"]
    from placer.cost_model.estimate import estimate
    from placer.documents.manifest import read_manifest
    from placer.documents.manifest.types import question_of

    problem, placement = question_of(
        read_manifest(json.loads(Path(two_regions).read_text()), "plan"), "plan"
    )
    parts = dict(estimate(placement, problem).step.parts)
    wan = parts["between regions"]
    assert link == pytest.approx(wan / (1.2 * expected - (expected - wan)), rel=1e-4)
    step = certain(certain(got.running).estimate).step
    assert step.communication == pytest.approx(1.2 * expected, rel=1e-4)
    assert step.calculation == pytest.approx(
        got.manifest.expected.step_seconds["calculation"] / 0.8, rel=1e-4
    )


def test_an_exchange_beside_the_next_step_is_not_what_is_beside_the_calculation(
    tmp_path: Path,
) -> None:
    """The exchange of 1.2 times the plan is as long as logged, whatever it makes the round."""
    path = planned(tmp_path, regions="2..", exchange="all-reduce", overlap=True)
    assert json.loads(Path(path).read_text())["exchange"]["overlap"]
    got = placer.replan(path, logged(path, exchange=1.2))
    expected = got.manifest.expected.step_seconds
    assert got.observed.exchange_s == pytest.approx(1.2 * expected["communication"], rel=1e-5)
    step = certain(certain(got.running).estimate).step
    assert step.communication == pytest.approx(1.2 * expected["communication"], rel=1e-4)
    assert step.total == pytest.approx(max(step.calculation, step.communication))
    with pytest.raises(PlacerError, match="2 rounds after the first") as caught:
        placer.replan(path, logged(path, rounds=4))
    assert caught.value.hint == "run at least 6 rounds"


def test_a_move_says_gain_and_break_even(tmp_path: Path) -> None:
    """A10 at a third of its speed: T4 are better. Gain and break-even follow from two values."""
    path = planned(tmp_path, gpu="T4,A10", places="*", budget="3/h")
    told = json.loads(Path(path).read_text())
    assert {group["offer"]["gpu"] for group in told["groups"]} == {"A10"}
    got = placer.replan(path, logged(path, speed=0.2), move=1200)
    assert got.verdict == "move"
    before, after, gain = certain(certain(got.running).value), certain(got.answer.value), got.gain
    assert certain(gain) == pytest.approx(1 - before / after)
    assert got.break_even_s == pytest.approx(1200 / certain(gain))
    assert {group.gpu for group in certain(got.answer.placement).groups} == {"T4"}
    assert got.kept_machines == 0


def test_lost_workers_are_started_again_unless_they_are_gone(two_regions: str) -> None:
    """Two of ten lost, on one machine: the log tells no speeds. The plan as it was is the best, and
    all that still runs stays.
    """
    log = logged(two_regions, links="loopback", lost=(1, 2))
    got = placer.replan(two_regions, log)
    assert got.verdict == "restore"
    assert certain(got.running).placement.workers == got.planned.workers - 2
    assert got.kept_machines == certain(got.running).placement.workers
    assert got.observed.speeds == []
    gone = got.manifest.groups[0]
    drop = [f"{gone.place}:T4:spot"]
    other = placer.replan(two_regions, log, drop=drop, time_limit="2s")  # a proof takes ten
    assert other.verdict == "move"
    there = {(g.place, g.market) for g in certain(other.answer.placement).groups}
    assert (gone.place, "spot") not in there


def test_logs_that_say_nothing_are_refused(two_regions: str, tmp_path: Path) -> None:
    """Another plan's, a short one, no log."""
    other = planned(tmp_path, budget="2/h")
    cases = [
        (logged(other), "the manifest is roberta-xlm"),
        (logged(two_regions, rounds=3, name="short"), "2 rounds after the first"),
        (str(tmp_path / "none"), "cannot read"),
    ]
    for log, said in cases:
        with pytest.raises(PlacerError, match=said):
            placer.replan(two_regions, log)


@given(st.floats(1, 1e4), st.floats(0.01, 0.9), st.floats(60, 3600))
def test_a_move_has_paid_off_at_break_even(old: float, share: float, move_s: float) -> None:
    """At Z both ways have done as many samples: s0 Z = s1 (Z - T); at USD/h the savings pay for the
    lost samples: (c0 - c1) Z = c0 T.
    """
    faster = old / (1 - share)
    after = break_even_seconds(move_s, objective_of(Requirements()).improvement(faster, old))
    assert old * after == pytest.approx(faster * (after - move_s), rel=1e-9)
    cheaper = old * (1 - share)
    after = break_even_seconds(
        move_s, objective_of(Requirements(objective="cost")).improvement(cheaper, old)
    )
    assert (old - cheaper) * after == pytest.approx(old * move_s, rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("step", {"calculation_s": float("nan")}, "calculation_s of a step record is nan"),
        ("step", {"calculation_s": "soon"}, "calculation_s of a step record is soon"),
        ("step", {"step_s": 0.0}, "step_s of a step record is 0.0"),
        ("step", {"samples": -1}, "samples of a step record is -1"),
        ("step", {"samples": 0}, "no worker calculated anything"),
        ("step", {"rank": 0, "kind": "other"}, "0 rounds after the first"),
        ("run", {"manifest": 5}, "manifest of a run record is 5"),
        ("ready", {"elements": None}, "elements of a ready record is None"),
    ],
)
def test_a_log_with_figures_that_no_run_has_is_refused(
    tmp_path: Path, run: Run, kind: str, change: dict[str, Any], words: str
) -> None:
    """One line that names the record, exit code 2; never a plan made from it."""
    manifest = planned(tmp_path)
    path = Path(logged(manifest))
    records = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text(
        "".join(json.dumps({**r, **change} if r["kind"] == kind else r) + "\n" for r in records)
    )
    done = run("whatif", manifest, "--observed", str(path), columns=200)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_the_logs_of_all_machines_are_one(two_regions: str, tmp_path: Path, run: Run) -> None:
    """Rank 2 is killed: rank 0 names it, the others name rank 0. All say what one log would. A part
    alone is refused: its samples/s would be taken for those of all.
    """
    whole = Path(logged(two_regions, name="whole"))
    head, *records = [json.loads(line) for line in whole.read_text().splitlines()]
    ranks = sorted({record["rank"] for record in records})
    parts = []
    for rank in ranks:
        own = [record for record in records if record["rank"] == rank and record["kind"] != "lost"]
        fault = {
            "kind": "fault",
            "rank": rank,
            "step": 6,
            "lost": 0 if rank else 2,
            "reason": "gone",
            "checkpoint": None,
        }
        parts.append(tmp_path / f"run-rank-{rank}.jsonl")
        lines = [head, *own, *([fault] if rank != 2 else [])]
        parts[-1].write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    manifest = read_manifest(json.loads(Path(two_regions).read_text()), "plan")
    one, all_ = observe(whole, manifest), observe([*parts, parts[0]], manifest)
    assert (one.speeds, one.exchange_s, one.rounds) == (all_.speeds, all_.exchange_s, all_.rounds)
    assert [lost.rank for lost in all_.lost] == [2]
    refused = run("whatif", two_regions, "--observed", str(parts[0]))
    assert refused.returncode == 2
    assert "no steps of rank 1" in refused.stderr
    assert "of a run that stopped, those of all machines" in refused.stderr
    words = [word for part in parts for word in ("--observed", str(part))]
    done = run("whatif", two_regions, *words, columns=200)
    assert "Workers that were lost" in done.stdout, done.stderr
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({**head, "manifest": {"name": "other", "digest": "0"}}) + "\n")
    with pytest.raises(PlacerError, match="a run of other"):
        observe([whole, other], manifest)


def observed(folder: Path, told: dict[str, Any], *records: dict[str, Any]) -> Any:
    """What a log of these records on one machine says of a plan."""
    plan, path = plan_of(told), folder / "run.jsonl"
    with RunLog(path, plan, settings_of(folder, plan), links="loopback") as log:
        for record in records:
            log.write(record)
    return observe(path, plan.manifest)


@pytest.mark.parametrize(
    ("exchange", "last"),
    [("all-reduce", 1), ("parameter-server", 2), ("central", 2), ("hierarchical", 4)],
)
def test_servers_and_functions_are_ranks_of_a_plan(
    tmp_path: Path, exchange: str, last: int
) -> None:
    """After two workers the server or function; of two regions one each, and that of their sums.
    A rank that the plan lacks is named before one of its own that has no steps.
    """
    told = document(exchange, (A, 1), (B, 1))
    figures = {"samples": 12, "step_s": 1.0, "calculation_s": 0.5}
    steps = [{"kind": "step", "rank": r, "step": 0, **figures} for r in range(last + 2)]
    assert observed(tmp_path, told, *steps[:-1]).lost == []
    with pytest.raises(PlacerError, match=f"steps of rank {last + 1}, the plan's last is {last} "):
        observed(tmp_path, told, *steps[1:])


def lost(rank: int, reason: str) -> dict[str, Any]:
    """The record of a rank that died in step 7."""
    return {"kind": "lost", "rank": rank, "step": 7, "reason": reason}


def fault(rank: int, of: int) -> dict[str, Any]:
    """The record of a rank that stopped in step 5 because another was silent."""
    return {"kind": "fault", "rank": rank, "lost": of, "step": 5, "reason": "silent"}


NOTICE = {"kind": "notice", "gone": 1, "message": "reclaimed"}


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([NOTICE], [(1, B, 0, "reclaimed")]),
        ([NOTICE, {"kind": "back", "rank": 1, "message": "back"}], []),
        ([fault(0, 1)], [(1, B, 5, "silent")]),
        ([fault(0, 1), lost(1, "killed")], [(1, B, 7, "killed")]),
        ([lost(1, "killed"), fault(0, 1)], [(1, B, 7, "killed")]),
        ([lost(0, "lost rank 1")], []),
        ([lost(2, "killed"), lost(0, "full")], [(0, A, 7, "full"), (2, None, 7, "killed")]),
        ([fault(0, 1), fault(1, 0)], [(0, A, 5, "silent"), (1, B, 5, "silent")]),
        ([fault(0, 1), fault(1, 2)], [(2, None, 5, "silent")]),
    ],
)
def test_who_was_lost_first(tmp_path: Path, records: list[Any], found: list[Any]) -> None:
    """The rank's own end counts before what others say of it. Who stopped because of another was
    not lost, unless each says so of the other. Rank 2 is the server.
    """
    all_ = observed(tmp_path, document("parameter-server", (A, 1), (B, 1)), *records).lost
    assert [(one.rank, one.place, one.step, one.reason) for one in all_] == found


def test_machines_a_thousand_times_off_are_a_slip(two_regions: str) -> None:
    """Either way; a little less is taken as it was measured, on all machines of a kind."""
    manifest = read_manifest(json.loads(Path(two_regions).read_text()), "plan")
    for speed in (999, 1 / 999):
        (seen,) = observe(Path(logged(two_regions, speed=speed)), manifest).speeds
        assert seen.workers == manifest.workers
        assert seen.factor == pytest.approx(speed)
        assert seen.measured == pytest.approx(speed * seen.planned)
    for speed in (1001, 1 / 1001):
        with pytest.raises(PlacerError, match="samples/s a machine, planned"):
            observe(Path(logged(two_regions, speed=speed)), manifest)

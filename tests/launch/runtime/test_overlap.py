"""Plans with ``--overlap``, executed: the exchange of a round runs beside the calculation of the
next and comes in one round late.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from killed import ORDER  # noqa: E402
from run_plans import A, B, document, plan_of, settings_of  # noqa: E402
from test_runtime import TOLERANCE, Alone, check_bytes, models, ran  # noqa: E402

from placer.documents.schemas import schema_text  # noqa: E402
from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.log.comparison import ALL_FLUSHED, HIDDEN  # noqa: E402
from placer.launch.runtime.processes.peer_loss import PeerLostError  # noqa: E402
from placer.launch.runtime.processes.run import run_here  # noqa: E402
from placer.launch.runtime.training.overlapped_exchange import OverlappedExchange  # noqa: E402
from placer.launch.runtime.wire.meter import Meter  # noqa: E402
from placer.problem.exchange import STRATEGIES, traits  # noqa: E402
from placer.validation.calibration.run_log import counted_rounds, round_seconds  # noqa: E402

torch.set_num_threads(1)
sys.path.insert(0, str(ROOT / "tests"))


def late(
    samples: dict[int, int], steps: int = 6, kept: tuple[int, ...] = ()
) -> tuple[Any, list[float]]:
    """Large-batch SGD in one process whose gradients are applied after the next one is calculated;
    all are in before a checkpoint.

    Parameters
    ----------
    kept
        Steps before which there is a checkpoint.
    """
    alone, losses, waiting = Alone(), [], None
    for step in range(steps):
        losses.append(alone.calculate(step, samples))
        new = [p.grad.clone() for p in alone.parameters]
        for gradient in (waiting, new if step + 1 in (*kept, steps) else None):
            if gradient is not None:
                for parameter, part in zip(alone.parameters, gradient, strict=True):
                    parameter.grad = part.clone()
                alone.optimizer.step()
        waiting = None if step + 1 in kept else new
    return alone.vector, losses


def late_averages(groups: list[dict[int, int]], every: int, steps: int = 6) -> list[Any]:
    """Replicas with ``x += average - own change`` one round late: average and change of the round
    before, both by samples.
    """
    replicas, total = [Alone() for _ in groups], sum(sum(g.values()) for g in groups)
    shares = [sum(g.values()) / total for g in groups]
    begun, pending = [replica.vector for replica in replicas], None
    for step in range(steps):
        for replica, group in zip(replicas, groups, strict=True):
            replica.step(step, group)
        if (step + 1) % every == 0:
            changes = [
                replica.vector - start for replica, start in zip(replicas, begun, strict=True)
            ]
            _correct(replicas, pending)
            pending = (
                sum(share * change for share, change in zip(shares, changes, strict=True)),
                changes,
            )
            begun = [replica.vector for replica in replicas]
    _correct(replicas, pending)
    return [replica.vector for replica in replicas]


def _correct(replicas: list[Alone], pending: Any) -> None:
    if pending is not None:
        for replica, own in zip(replicas, pending[1], strict=True):
            replica.load(replica.vector + pending[0] - own)


def test_all_reduce_is_sgd_one_step_late(tmp_path: Path) -> None:
    """Three workers with 8 of 24 samples: losses and parameters of one process whose gradients come
    in one step late.

    33 elements make three shards of 11: 2 x 11 x 4 = 88 bytes for each ordered pair and round, none
    left out and none counted twice.
    """
    told = document("all-reduce", (A, 2), (B, 1), overlap=True)
    records = ran(tmp_path, told, steps=9)
    vector, losses = late({0: 8, 1: 8, 2: 8}, steps=9, kept=(9,))
    found = models(tmp_path, plan_of(told), step=9)
    assert all(torch.equal(found[0], other) for other in found)
    torch.testing.assert_close(found[0], vector, **TOLERANCE)
    compared = check_bytes(told, tmp_path, records)
    assert {(r["src"], r["dst"]): r["measured"] for r in compared["bytes"]} == {
        (A, A): 176,
        (A, B): 176,
        (B, A): 176,
    }
    assert [row["loss"] for row in compared["losses"]] == pytest.approx(losses, rel=1e-5)
    in_turn = Alone()
    assert losses[2] != pytest.approx(
        [in_turn.step(step, {0: 8, 1: 8, 2: 8}) for step in range(3)][2], rel=0.01
    )  # it is late
    assert (
        compared["rounds"] == 6
    )  # 1 to 7 have the exchange of the round before, none of their own; the first is warm-up
    assert HIDDEN in {row["what"] for row in compared["seconds"]}
    check = Draft202012Validator(json.loads(schema_text("run")))
    for line in (tmp_path / "run.jsonl").read_text().splitlines():
        check.validate(json.loads(line))


def test_hierarchical_all_reduce_with_checkpoints(tmp_path: Path) -> None:
    """What is under way is waited for before the checkpoints after steps 3 and 6, so the next step
    sees all updates.
    """
    told = document("hierarchical-all-reduce", (A, 2), (B, 1), overlap=True)
    records = ran(tmp_path, told, checkpoint_every=3)
    for step in (3, 6):
        vector, _ = late({0: 8, 1: 8, 2: 8}, steps=step, kept=(3, 6))
        for model in models(tmp_path, plan_of(told), step=step):
            torch.testing.assert_close(model, vector, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)


def test_local_sgd_corrects_one_round_late(tmp_path: Path) -> None:
    """H = 2, eight steps: three corrections beside the steps and one at the end, after which both
    models are the same.
    """
    told = document("local-sgd", (A, 1), (B, 1), local_steps=2, target_batch_size=10, overlap=True)
    records = ran(tmp_path, told, steps=8)
    first, second = late_averages([{0: 5}, {1: 5}], every=2, steps=8)
    torch.testing.assert_close(first, second, **TOLERANCE)
    found = models(tmp_path, plan_of(told), step=8)
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], first, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)  # shards of 17 and 16 elements


def test_a_shorter_last_round_loses_no_exchange(tmp_path: Path) -> None:
    """H = 2, five steps: three exchanges, each logged a round later but the last two in step 4:
    bytes are those of three over three.
    """
    told = document("local-sgd", (A, 1), (B, 1), local_steps=2, target_batch_size=10, overlap=True)
    check_bytes(told, tmp_path, ran(tmp_path, told, steps=5), tolerance=0.04)


def test_a_checkpoint_after_each_round_leaves_nothing_beside(tmp_path: Path) -> None:
    """It is plain SGD then, and the comparison says so."""
    told = document("all-reduce", (A, 1), (B, 1), overlap=True)
    records = ran(tmp_path, told, checkpoint_every=1)
    alone = Alone()
    losses = [alone.step(step, {0: 12, 1: 12}) for step in range(6)]
    torch.testing.assert_close(models(tmp_path, plan_of(told))[0], alone.vector, **TOLERANCE)
    found = check_bytes(told, tmp_path, records, tolerance=0.04)
    assert [row["loss"] for row in found["losses"]] == pytest.approx(losses, rel=1e-5)
    assert ALL_FLUSHED in found["remarks"]
    assert next(row for row in found["seconds"] if row["what"] == HIDDEN)["measured"] is None


CASES = [  # strategy, rank, when, phase, how often the phase came, where the run goes on
    ("all-reduce", 2, "before", "calculation", 7, {5, 6}),
    ("all-reduce", 0, "before", "reduce-scatter", 6, {5}),
    ("all-reduce", 1, "after", "all-gather", 6, {5, 6}),
    ("all-reduce", 1, "while", "checkpoint", 1, {3, 4}),
    ("hierarchical-all-reduce", 1, "before", "broadcast inside regions", 6, {5, 6}),
    ("local-sgd", 2, "after", "reduce-scatter", 3, {4}),
]


def killable(folder: Path, strategy: str, **other: Any) -> list[dict[str, Any]]:
    """Run eight steps of three workers, with checkpoints after four and eight."""
    told = document(
        strategy,
        (A, 2),
        (B, 1),
        overlap=True,
        **({"local_steps": 2} if strategy == "local-sgd" else {}),
    )
    plan = plan_of(told)
    records: list[dict[str, Any]] = []
    settings = settings_of(folder, plan, train="killed:tiny", steps=8, checkpoint_every=4, **other)
    run_here(plan, told, settings, folder, records.append)
    return records


@cache
def undisturbed(strategy: str) -> frozenset[str]:
    """Digest of the parameters after a run that nothing happened to."""
    with TemporaryDirectory() as folder:
        return digests(killable(Path(folder), strategy))


def digests(records: list[dict[str, Any]]) -> frozenset[str]:
    """Of the parameters at the end."""
    return frozenset(record["parameters_sha256"] for record in records if record["kind"] == "end")


@pytest.mark.parametrize(
    ("strategy", "rank", "when", "phase", "times", "starts"),
    CASES,
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_nothing_is_lost_but_what_was_under_way(
    tmp_path: Path, strategy: str, rank: int, when: str, phase: str, times: int, starts: set[int]
) -> None:
    """A resumed run ends with the parameters of an undisturbed one, to the last bit.

    The sixth exchange, of step 5, runs beside step 6: the others go on with step 5, whose gradient
    they calculate with the parameters of then, which lack the update of step 4. Local SGD goes on
    from its last checkpoint.
    """
    ORDER.unlink(missing_ok=True)
    wanted = undisturbed(strategy)
    assert len(wanted) == 1
    ORDER.write_text(f"{rank}|{when}|{phase}|{times}|{tmp_path / 'killed'}")
    with pytest.raises(
        PlacerError,
        match=rf"^rank {rank} \({[A, A, B][rank]}\) stopped in step \d: killed by SIGKILL",
    ) as caught:
        killable(tmp_path, strategy, timeout_s=30.0)
    assert "--resume" in caught.value.hint
    again = killable(tmp_path, strategy, resume=True)
    start = {record["start"] for record in again if record["kind"] == "ready"}
    assert len(start) == 1
    assert start <= starts
    assert digests(again) == wanted


@pytest.fixture
def overlapped() -> Iterator[OverlappedExchange]:
    """An exchange in a thread, and meters."""
    made = OverlappedExchange(Meter(), Meter())
    yield made
    made.thread.shutdown()


def test_a_lost_peer_is_heard_of_in_the_calculation(overlapped: OverlappedExchange) -> None:
    """Not only when the calculation of the next round is over: the wait of an hour ends, and so
    does the look between microbatches.
    """

    def failing() -> None:
        raise PeerLostError(1, "Connection closed")

    overlapped.begin(4, failing, parameters="parameters")
    with pytest.raises(PeerLostError, match="rank 1: Connection closed"):
        overlapped.pause(3600.0)
    with pytest.raises(PeerLostError):
        overlapped.check()
    with pytest.raises(PeerLostError):
        overlapped.end()
    assert (overlapped.step, overlapped.parameters) == (4, "parameters")  # what a rescue needs


def test_an_exchange_is_counted_when_it_has_ended(overlapped: OverlappedExchange) -> None:
    """Phases and bytes of the thread come into the record as a whole; what runs does not disturb
    what is taken meanwhile.
    """
    go = threading.Event()

    def exchange() -> str:
        overlapped.wire_meter.sent(A, B, 8)
        with overlapped.wire_meter.phase("reduce-scatter"):
            go.wait()
        return "sum"

    overlapped.begin(0, exchange)
    overlapped.check()
    assert overlapped.meter.take()["sent"] == []
    go.set()
    assert overlapped.end() == "sum"
    taken = overlapped.meter.take()
    assert taken["sent"] == [{"src": A, "dst": B, "bytes": 8}]
    assert taken["beside"]["exchange_s"] >= taken["exchange_s"]["reduce-scatter"] > 0
    assert taken["beside"]["flushed_s"] == 0
    assert overlapped.wire_meter.take()["sent"] == []
    assert "beside" not in overlapped.meter.take()


@pytest.mark.parametrize(
    "strategy",
    sorted(name for name in STRATEGIES if not traits(name).may_overlap and name != "none"),
)
def test_others_never_get_there(strategy: str) -> None:
    """A manifest that says so is refused before anything starts."""
    with pytest.raises(PlacerError, match=f"the exchange {strategy} cannot overlap the next step"):
        plan_of(document(strategy, (A, 1), (B, 1), overlap=True))


def step(number: int, rank: int, step_s: float, **beside: float) -> dict[str, Any]:
    """Record of a step that calculates for 2 s."""
    parts = {"exchange_s": 0.0, "waited_s": 0.0, "flushed_s": 0.0}
    told = {
        "kind": "step",
        "step": number,
        "rank": rank,
        "samples": 4,
        "calculation_s": 2.0,
        "step_s": step_s,
    }
    return {**told, **({"beside": {**parts, **beside}} if beside else {})}


def test_rounds_that_count() -> None:
    """Of two workers: nothing beside step 0 nor after the checkpoint of step 4; step 1 has the
    first exchange; 2, 3 and 6 count.

    Exchange 3 s, of rank 1, which came last; it waited 1 s, so 2 s were beside the calculation.
    Rounds of 3.2 and 3.0 s.
    """
    usual = [
        ({"exchange_s": 3.5, "waited_s": 1.1}, 3.2),
        ({"exchange_s": 3.0, "waited_s": 1.0}, 3.0),
    ]
    flushed = [({"exchange_s": 3.0, "waited_s": 1.0, "flushed_s": 3.0}, 6.1)] * 2
    none: list[tuple[dict[str, float], float]] = [({}, 2.0)] * 2
    each = [none, usual, usual, usual, flushed, none, usual, flushed]
    records = [
        step(number, rank, step_s, **parts)
        for number, ranks in enumerate(each)
        for rank, (parts, step_s) in enumerate(ranks)
    ]
    rounds = counted_rounds(records, 2, 1, overlap=True)
    assert [found[0]["step"] for found in rounds] == [2, 3, 6]
    found = round_seconds(rounds, 2)
    assert found is not None
    assert (found.calculation, found.between, found.hidden) == (2.0, 3.0, 2.0)
    assert found.whole == pytest.approx(3.1)
    assert found.samples_per_second == pytest.approx(8 / 3.1)

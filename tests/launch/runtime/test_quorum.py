"""Exchanges that go on with a quorum of the workers, with real processes: workers that are killed,
that are late and come back, and the mean over those that answered.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tests"))
from run_plans import A, B, C, document, islands, plan_of  # noqa: E402
from test_diloco import ends  # noqa: E402
from test_runtime import Alone, Records, killing, ran  # noqa: E402

from placer.errors import PlacerError  # noqa: E402

STRATEGIES = ("local-sgd", "diloco", "streaming-diloco")
PACE = (80.0, 80.0, 80.0)
"""Eight samples of a step take 0.1 s: a worker that is to be killed before an exchange is."""


def planned(strategy: str, *counts: tuple[str, int], **more: Any) -> dict[str, Any]:
    """A manifest whose exchange goes on with two workers, every four steps; of a fragment in turn,
    eight of which make a round.
    """
    streaming = strategy == "streaming-diloco"
    words = {"local_steps": 32 if streaming else 4, "quorum": 2, "grace_s": 0.3, **more}
    return document(strategy, *counts, **words, overlap=streaming)


def ended(records: Records) -> set[int]:
    """The ranks that came to the end."""
    return {record["rank"] for record in records if record["kind"] == "end"}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_all_workers_it_is_the_same_run(tmp_path: Path, strategy: str) -> None:
    """Equal parameters with a quorum and without, to the last bit."""
    words = {"quorum": None, "grace_s": None}
    whole = ran(tmp_path / "all", planned(strategy, (A, 2), (B, 1), **words), steps=8)
    patient = planned(strategy, (A, 2), (B, 1), grace_s=60.0)
    records = ran(tmp_path / "quorum", patient, steps=8)
    assert ends(records) == ends(whole)
    assert not [record for record in records if record["kind"] in ("notice", "back")]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_others_go_on_without_a_killed_worker(tmp_path: Path, strategy: str) -> None:
    """Killed in its second step of twelve: the two others exchange three times and end alike."""
    told = planned(strategy, (A, 1), (B, 1), (C, 1))
    records = ran(tmp_path, told, killing(2, 0), steps=12, paced=PACE, checkpoints="")
    assert ended(records) == {0, 1}
    assert len(ends(records)) == 1
    assert [r["rank"] for r in records if r["kind"] == "lost"] == [2]
    assert any("rank 2 (aws/c) has not answered" in r.get("message", "") for r in records)


def test_the_mean_is_over_those_that_answered(tmp_path: Path) -> None:
    """Two replicas of four steps each, and half of each: the third was killed before."""
    told = planned("local-sgd", (A, 1), (B, 1), (C, 1))
    records = ran(tmp_path, told, killing(2, 0), steps=4, paced=PACE, checkpoints="")
    replicas = []
    for rank in (0, 1):
        alone = Alone()
        for step in range(4):
            alone.step(step, {rank: 8})
        replicas.append(torch.cat([p.detach().flatten() for p in alone.parameters]))
    found = next(record for record in records if record["kind"] == "end")["parameters"]
    assert torch.allclose(torch.tensor(found), sum(replicas) / 2, atol=1e-6)


def pausing(rank: int, at_step: int, until: int) -> Callable[[dict[str, Any]], None]:
    """Stop a rank when it has reported a step, until rank 0 has come to another."""
    pids: dict[int, int] = {}

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "ready":
            pids[record["rank"]] = record["pid"]
        elif record["kind"] == "step" and (record["rank"], record["step"]) == (rank, at_step):
            os.kill(pids[rank], signal.SIGSTOP)
        elif record["kind"] == "step" and (record["rank"], record["step"]) == (0, until):
            os.kill(pids[rank], signal.SIGCONT)

    return watch


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_late_worker_comes_back(tmp_path: Path, strategy: str) -> None:
    """Stopped over two exchanges: it takes the others' parameters at the next, leaves out the steps
    that they have done, and all end alike.
    """
    told = planned(strategy, (A, 1), (B, 1), (C, 1))
    records = ran(tmp_path, told, pausing(2, 0, 8), steps=32, paced=PACE, checkpoints="")
    assert ended(records) == {0, 1, 2}
    assert len(ends(records)) == 1
    assert any(record["kind"] == "back" and record["rank"] == 2 for record in records)
    steps = [r["step"] for r in records if r["kind"] == "step" and r["rank"] == 2]
    assert steps == sorted(set(steps))
    assert len(steps) < 32
    assert steps[-1] == 31


def test_below_the_quorum_the_run_stops(tmp_path: Path) -> None:
    """One of two is left where two must answer: the lost one is named."""
    told = planned("diloco", (A, 1), (B, 1))
    with pytest.raises(
        PlacerError, match=r"rank 1 \(gcp/b\) stopped in step \d: killed by SIGKILL"
    ):
        ran(tmp_path, told, killing(1, 0), steps=500, paced=PACE, timeout_s=5.0)


def test_an_island_goes_as_a_whole(tmp_path: Path) -> None:
    """A process of one of two islands is killed: the other island goes on alone."""
    told = islands("diloco", (A, 1, 2), (B, 1, 2), local_steps=4, quorum=1, grace_s=0.3)
    records = ran(tmp_path, told, killing(1, 0), steps=8, paced=PACE, checkpoints="")
    assert ended(records) == {0}


@pytest.mark.parametrize(
    ("strategy", "words", "said"),
    [
        ("diloco", {"quorum": 3}, "exchange.quorum is 3 of 2 workers"),
        ("diloco", {"quorum": 0}, "exchange.quorum is 0: expected"),
        ("diloco", {"quorum": None}, "exchange.quorum is None of 2 workers"),
        ("diloco", {"grace_s": None}, "a quorum without exchange.grace_s"),
        ("diloco", {"grace_s": -1.0}, "exchange.grace_s is -1.0"),
        ("asgd-ga", {}, "the exchange asgd-ga waits for all workers"),
    ],
)
def test_a_manifest_with_no_such_quorum_is_refused(
    strategy: str, words: dict[str, Any], said: str
) -> None:
    """Edited manifests, or those of another program."""
    with pytest.raises(PlacerError, match=said):
        plan_of(planned(strategy, (A, 1), (B, 1), **words))

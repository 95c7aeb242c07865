"""Islands, executed: workers of several processes against one process that does the same arithmetic
in plain PyTorch.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
import run_plans  # noqa: E402
from run_plans import A, B, islands, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.batch_shares import apportioned  # noqa: E402
from placer.launch.runtime.log.comparison import summary  # noqa: E402
from placer.launch.runtime.processes import launcher  # noqa: E402
from placer.launch.runtime.processes.run import run_here  # noqa: E402
from placer.launch.runtime.training.trainer import batch_seed  # noqa: E402

torch.set_num_threads(1)
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
STEPS = 4
Records = list[dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def _environment() -> None:
    """Processes find the tests' models."""
    sys.path.insert(0, str(ROOT / "tests"))


def ran(
    folder: Path,
    told: dict[str, Any],
    watch: Callable[[dict[str, Any]], None] = lambda record: None,
    **other: Any,
) -> Records:
    """Run a manifest on this machine; returns the records of its log."""
    plan, records = plan_of(told), []

    def both(record: dict[str, Any]) -> None:
        records.append(record)
        watch(record)

    settings = settings_of(folder, plan, **{"steps": STEPS, **other})
    run_here(plan, told, settings, folder, both)
    return records


def of(records: Records, kind: str) -> Records:
    """The records of a kind."""
    return [record for record in records if record["kind"] == kind]


def drawn(step: int, process: int, share: int, most: int, microbatch: int) -> list[Any]:
    """The samples of one process in a step, by microbatch, as `IslandTrainer` draws them."""
    parts, count = [], -(-most // microbatch)
    for number in range(count):
        torch.manual_seed(batch_seed(0, step, process, number))
        size = share // count + (number < share % count)
        x, y = run_plans._samples(max(1, size), "cpu")
        parts.append((x[:size], y[:size]))
    return parts


def one_process(batch: int, workers: int, members: int, microbatch: int) -> tuple[Any, list[float]]:
    """Parameters and losses of one process that takes the whole batch at once."""
    torch.manual_seed(0)
    work = run_plans.tiny()
    parameters = [p for p in work.module.parameters() if p.requires_grad]
    optimizer, losses = work.optimizer(parameters), []
    for step in range(STEPS):
        parts = []
        for worker, share in apportioned(batch, dict.fromkeys(range(workers), 1.0)).items():
            inside = apportioned(share, dict.fromkeys(range(members), 1.0))
            for member, samples in inside.items():
                process = worker * members + member
                parts += drawn(step, process, samples, inside[0], microbatch)
        x, y = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
        assert len(x) == batch
        optimizer.zero_grad()
        loss = work.loss(work.module, (x, y))
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return torch.cat([p.detach().reshape(-1) for p in parameters]), losses


@pytest.mark.parametrize(
    ("sharding", "machines", "processes"),
    [
        ("none", 2, 1),
        ("zero-1", 2, 1),
        ("zero-2", 2, 1),
        ("zero-3", 2, 1),
        ("hybrid", 2, 1),
        ("hybrid", 2, 2),
    ],
)
def test_two_islands_do_what_one_process_does(
    tmp_path: Path, sharding: str, machines: int, processes: int
) -> None:
    """All-reduce of 24 samples: 12 an island, 6 a process, so two microbatches of 3."""
    told = islands("all-reduce", (A, 1, machines), (B, 1, machines), inner={"sharding": sharding})
    records = ran(tmp_path, told, processes=processes)
    wanted, losses = one_process(24, 2, machines * processes, 3)
    ends = of(records, "end")
    assert len(ends) == 2
    for end in ends:
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)
    plan = plan_of(told)
    settings = settings_of(tmp_path, plan, steps=STEPS, processes=processes)
    comparison = summary(plan, settings, records)
    count = machines * processes
    words = f"the {count} processes of an island exchange their pieces side by side"
    assert words in comparison["remarks"]
    assert [row["loss"] for row in comparison["losses"]] == pytest.approx(losses, rel=1e-5)
    for row in comparison["bytes"]:  # the pieces of all processes, 33 floats in all
        assert row["measured"] == pytest.approx(row["predicted"], abs=4 * machines * processes)


@pytest.mark.parametrize("checkpointing", ["selective", "full"])
def test_recomputation_changes_nothing(tmp_path: Path, checkpointing: str) -> None:
    """Activations that are calculated again are the same."""
    inner = {"sharding": "zero-3", "checkpointing": checkpointing}
    told = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner=inner)
    wanted, _ = one_process(24, 2, 2, 3)
    for end in of(ran(tmp_path, told), "end"):
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)


def test_shares_that_do_not_divide_keep_step(tmp_path: Path) -> None:
    """Of 11 samples one island gets 6 and one 5: a process with 2 samples takes as many
    microbatches of 2 as one with 3, so that no collective operation is missed.
    """
    told = islands(
        "all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-2", "microbatch": 2}
    )
    wanted, losses = one_process(11, 2, 2, 2)
    plan = plan_of(told)
    records = ran(tmp_path, told, target_batch_size=11)
    for end in of(records, "end"):
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)
    rows = summary(plan, settings_of(tmp_path, plan, steps=STEPS), records)["losses"]
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize(
    "strategy", ["parameter-server", "central", "model-averaging", "hierarchical-all-reduce"]
)
def test_other_exchanges_between_islands(tmp_path: Path, strategy: str) -> None:
    """A server gets the whole from the first process of an island; one step from average to average
    is synchronous too.
    """
    if strategy == "central":
        pytest.importorskip("moto.server")
    told = islands(strategy, (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"})
    records = ran(tmp_path, told)
    wanted, losses = one_process(24, 2, 2, 3)
    plan = plan_of(told)
    for end in of(records, "end"):
        if end["rank"] < 2 and strategy != "model-averaging":
            torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)
    assert len({end["parameters_sha256"] for end in of(records, "end") if end["rank"] < 2}) == 1
    comparison = summary(plan, settings_of(tmp_path, plan, steps=STEPS), records)
    if strategy != "model-averaging":
        assert [row["loss"] for row in comparison["losses"]] == pytest.approx(losses, rel=1e-5)
    for row in comparison["bytes"]:
        assert row["measured"] == pytest.approx(row["predicted"], abs=16)
    whole = "the first process of each island exchanges the whole model"
    assert (whole in comparison["remarks"]) == (strategy != "hierarchical-all-reduce")


def test_islands_of_unlike_shapes_exchange_the_whole(tmp_path: Path) -> None:
    """An island of two processes and one of one cut the model differently: the first process of
    each sends it whole. Shares are equal, so the arithmetic is that of 12 + 12 samples.
    """
    told = islands("all-reduce", (A, 1, 2), (B, 1, 1), inner={"sharding": "zero-3"})
    records = ran(tmp_path, told)
    ends = of(records, "end")
    assert len({end["parameters_sha256"] for end in ends}) == 1
    assert {record["samples"] for record in of(records, "step")} == {12}


def test_local_steps_between_islands(tmp_path: Path) -> None:
    """Two local steps, then the pieces are averaged: both islands end alike, and with the exchange
    beside the next round too.
    """
    for overlap in (False, True):
        told = islands(
            "local-sgd",
            (A, 1, 2),
            (B, 1, 2),
            inner={"sharding": "zero-3"},
            local_steps=2,
            overlap=overlap,
        )
        folder = tmp_path / str(overlap)
        folder.mkdir()
        ends = of(ran(folder, told), "end")
        assert len({end["parameters_sha256"] for end in ends}) == 1


def test_a_lost_machine_takes_its_island_along_and_the_other_goes_on(tmp_path: Path) -> None:
    """One process of island 1 is killed; with an elastic exchange island 0 ends the run alone."""
    told = islands("parameter-server", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"})
    killed: list[int] = []

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and record["step"] == 1 and record["rank"] == 1 and not killed:
            killed.append(member_of(1))
            os.kill(killed[0], signal.SIGKILL)

    records = ran(tmp_path, told, watch, steps=12, elastic=True)
    lost = of(records, "lost")
    assert [record["rank"] for record in lost] == [1]
    assert lost[0]["reason"].startswith("machine 1 of 2: ")
    ends = {record["rank"] for record in of(records, "end")}
    assert ends == {0, 2}  # the island and the server
    last = [r for r in of(records, "step") if r["rank"] == 0][-1]
    assert (last["step"], last["samples"]) == (11, 24)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_lost_machine_stops_a_synchronous_run_which_resumes_as_it_was(
    tmp_path: Path, overlap: bool
) -> None:
    """Island 0 keeps the state before the lost step; the resumed run ends as an undisturbed one,
    also where the exchange was under way beside the next step.
    """
    inner = {"sharding": "zero-3"}
    told = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner=inner, overlap=overlap)
    killed: list[int] = []

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and record["step"] == 1 and record["rank"] == 1 and not killed:
            killed.append(member_of(1))
            os.kill(killed[0], signal.SIGKILL)

    with pytest.raises(
        PlacerError, match=r"island 1 .gcp/b. stopped in step .: machine 1 of 2"
    ) as caught:
        ran(tmp_path, told, watch, steps=STEPS)
    assert "it goes on before step" in caught.value.hint
    (tmp_path / "whole").mkdir()
    wanted = torch.tensor(of(ran(tmp_path / "whole", told), "end")[0]["parameters"])
    for end in of(ran(tmp_path, told, resume=True), "end"):
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)


def test_an_island_that_notices_a_loss_late_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes of island 0 stand still for a second after the loss, as on a busy machine: the
    launcher waits for them as long as for any peer (120 s here), not for the least time (0.2 s).
    """
    monkeypatch.setattr(launcher, "GRACE_S", 0.2)
    told = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"})
    still: list[int] = []

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and record["step"] == 1 and record["rank"] == 1 and not still:
            still.extend((process_of(0), process_of(1)))
            for process in still:
                os.kill(process, signal.SIGSTOP)
            os.kill(process_of(3), signal.SIGKILL)
        if record["kind"] == "lost" and record["rank"] == 1:
            threading.Timer(1.0, go_on, (still,)).start()

    with pytest.raises(PlacerError, match=r"machine 1 of 2: killed by SIGKILL") as caught:
        ran(tmp_path, told, watch, steps=STEPS)
    assert "it goes on before step 2" in caught.value.hint


def go_on(processes: list[int]) -> None:
    """Let processes that stand still go on."""
    for process in processes:
        os.kill(process, signal.SIGCONT)


def member_of(island: int) -> int:
    """Return the process id of the second machine of an island of two."""
    return process_of(2 * island + 1)


def process_of(number: int) -> int:
    """Return the process id of a process of the run."""
    import multiprocessing

    name = f"placer rank {number}"
    return next(p.pid for p in multiprocessing.active_children() if p.name == name and p.pid)


def test_a_checkpoint_fits_another_inner_plan(tmp_path: Path) -> None:
    """It holds the whole model, so ZeRO-3 goes on as DDP."""
    first = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"})
    ran(tmp_path, first, steps=2)
    second = islands("all-reduce", (A, 1, 2), (B, 1, 2), inner={"sharding": "none"})
    wanted, _ = one_process(24, 2, 2, 3)
    for end in of(ran(tmp_path, second, resume=True), "end"):
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        ({"tensor_parallel": 2}, "does not execute tensor parallelism"),
        ({"precision": "fp8"}, "does not execute the precision fp8"),
    ],
)
def test_what_is_planned_but_not_executed_is_refused(inner: dict[str, Any], words: str) -> None:
    """In one line, before anything starts."""
    with pytest.raises(PlacerError, match=words) as caught:
        plan_of(islands("all-reduce", (A, 1, 2), gpu_count=2, inner=inner))
    assert "\n" not in str(caught.value)


def test_seats_partition_machines_and_gpus() -> None:
    """Worker, machine and GPU of each process: each once, machines as the manifest ranks them."""
    plan = plan_of(islands("parameter-server", (A, 2, 2), (B, 1, 3), gpu_count=2))
    seats = plan.seats(0)
    assert [seat.process for seat in seats] == list(range(2 * 2 * 2 + 3 * 2 + 1))
    assert [seat.machine for seat in seats] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7]
    assert [seat.rank for seat in seats] == [0] * 4 + [1] * 4 + [2] * 6 + [3]
    assert len({(seat.machine, seat.gpu) for seat in seats}) == len(seats)
    assert [s.member for s in seats if s.rank == 2] == list(range(6))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without enough GPUs")
def test_each_process_of_an_island_needs_a_gpu_of_its_own(tmp_path: Path) -> None:
    """NCCL refuses two on one: said in one line instead."""
    told = islands("all-reduce", (A, 1, 2), inner={"sharding": "zero-3"})
    with pytest.raises(PlacerError, match="2 processes of islands need a GPU each") as caught:
        ran(tmp_path, told, device="cuda")
    assert "--device cpu" in caught.value.hint


def test_one_island_trains_alone(tmp_path: Path) -> None:
    """Nothing is exchanged with anybody; with gossip between islands two of them end whole."""
    alone = islands("none", (A, 1, 2), inner={"sharding": "zero-2"})
    (end,) = of(ran(tmp_path, alone), "end")
    wanted, _ = one_process(24, 1, 2, 3)
    torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)
    (tmp_path / "gossip").mkdir()
    told = islands("asgd-ga", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"}, local_steps=2)
    assert len(of(ran(tmp_path / "gossip", told), "end")) == 2

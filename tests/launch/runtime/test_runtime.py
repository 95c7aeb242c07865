"""The reference runtime: each strategy with real processes against one process that does the same
arithmetic in plain PyTorch.
"""

from __future__ import annotations

import json
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
import run_plans  # noqa: E402
from run_plans import A, B, C, document, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.log.comparison import summary  # noqa: E402
from placer.launch.runtime.processes.run import run_here  # noqa: E402
from placer.launch.runtime.run_plan import RunPlan  # noqa: E402
from placer.launch.runtime.training.trainer import batch_seed  # noqa: E402

torch.set_num_threads(1)
ELEMENTS = 33
"""Trainable parameters of the tiny model."""
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
Records = list[dict[str, Any]]


@pytest.fixture(autouse=True, scope="module")
def _environment() -> None:
    """Processes find the tests' models; the credentials are those of moto."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    sys.path.insert(0, str(ROOT / "tests"))


def ran(
    folder: Path,
    told: dict[str, Any],
    watch: Callable[[dict[str, Any]], None] = lambda record: None,
    **other: Any,
) -> Records:
    """Run a manifest on this machine; returns the records of its log."""
    plan = plan_of(told)
    records: Records = []

    def both(record: dict[str, Any]) -> None:
        records.append(record)
        watch(record)

    run_here(plan, told, settings_of(folder, plan, **other), folder, both)
    return records


def models(folder: Path, plan: RunPlan, step: int = 6) -> list[Any]:
    """Trainable parameters of each worker in its checkpoint, flat."""
    names = [name for name, p in run_plans.tiny().module.named_parameters() if p.requires_grad]
    found = []
    for rank in range(plan.workers):
        state = torch.load(
            folder / "checkpoints" / f"step-{step:08d}" / f"rank-{rank}.pt", weights_only=True
        )["module"]
        found.append(torch.cat([state[name].flatten() for name in names]))
    return found


class Alone:
    """One replica of the tiny model in this process."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.work = run_plans.tiny()
        self.parameters = [p for p in self.work.module.parameters() if p.requires_grad]
        self.optimizer = self.work.optimizer(self.parameters)

    def step(self, step: int, samples: dict[int, int]) -> float:
        """One optimizer step with the mean gradient over the samples of some ranks."""
        loss = self.calculate(step, samples)
        self.optimizer.step()
        return loss

    def calculate(self, step: int, samples: dict[int, int]) -> float:
        """Gradient and loss of a step, in microbatches of 3."""
        self.optimizer.zero_grad()
        total = sum(samples.values())
        loss_sum = 0.0
        for rank, count in samples.items():
            for number, start in enumerate(range(0, count, 3)):
                size = min(3, count - start)
                torch.manual_seed(batch_seed(0, step, rank, number))
                loss = (
                    self.work.loss(self.work.module, self.work.batch(size, torch.device("cpu")))
                    * size
                    / total
                )
                loss.backward()
                loss_sum += float(loss.detach())
        return loss_sum

    @property
    def vector(self) -> Any:
        """Flat parameters."""
        return torch.cat([p.detach().flatten() for p in self.parameters])

    def load(self, vector: Any) -> None:
        """Set the parameters."""
        torch.nn.utils.vector_to_parameters(vector.clone(), self.parameters)


def synchronous(samples: dict[int, int], steps: int = 6) -> tuple[Any, list[float]]:
    """Large-batch SGD in one process: what every synchronous strategy must equal."""
    alone = Alone()
    losses = [alone.step(step, samples) for step in range(steps)]
    return alone.vector, losses


def averaged(groups: list[dict[int, int]], every: int, steps: int = 6) -> Any:
    """Replicas, one for each group of ranks, whose models are averaged by samples after each
    ``every`` steps and at the end.
    """
    replicas, total = [Alone() for _ in groups], sum(sum(g.values()) for g in groups)
    for step in range(steps):
        for replica, group in zip(replicas, groups, strict=True):
            replica.step(step, group)
        if (step + 1) % every == 0 or step + 1 == steps:
            mean = sum(
                replica.vector * (sum(g.values()) / total)
                for replica, g in zip(replicas, groups, strict=True)
            )
            for replica in replicas:
                replica.load(mean)
    return replicas[0].vector


def check_bytes(
    told: dict[str, Any], folder: Path, records: Records, tolerance: float = 0.0
) -> dict[str, Any]:
    """Bytes on each pair of places are those of `placer.problem.exchange`; shards differ by one
    element where they do not divide.
    """
    plan = plan_of(told)
    found = summary(plan, settings_of(folder, plan), records)
    assert found["bytes"]
    for row in found["bytes"]:
        assert row["measured"] == pytest.approx(row["predicted"], rel=tolerance, abs=1e-6), row
    return found


def test_all_reduce_is_large_batch_sgd(tmp_path: Path) -> None:
    """Three workers with 8 of 24 samples each, in microbatches of 3, 3 and 2: the parameters of one
    process with all 24.

    33 elements make three shards of 11, so each ordered pair carries 2 x 11 x 4 = 88 bytes,
    exactly.
    """
    told = document("all-reduce", (A, 2), (B, 1))
    records = ran(tmp_path, told)
    vector, losses = synchronous({0: 8, 1: 8, 2: 8})
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    found = check_bytes(told, tmp_path, records)
    assert {(r["src"], r["dst"]): r["measured"] for r in found["bytes"]} == {
        (A, A): 176,
        (A, B): 176,
        (B, A): 176,
    }
    assert [row["loss"] for row in found["losses"]] == pytest.approx(losses, rel=1e-5)
    assert found["rounds"] == 5


def test_fp16_and_streams(tmp_path: Path) -> None:
    """Half the bytes; the result is near, not equal, and the same on all workers to the last bit.
    Two streams send the same bytes.
    """
    told = document("all-reduce", (A, 2), (B, 1), compression="fp16", streams=2)
    records = ran(tmp_path, told)
    vector, _ = synchronous({0: 8, 1: 8, 2: 8})
    found = models(tmp_path, plan_of(told))
    assert all(torch.equal(found[0], other) for other in found)
    torch.testing.assert_close(found[0], vector, rtol=0.01, atol=0.005)
    assert not torch.equal(found[0], vector)
    assert {r["measured"] for r in check_bytes(told, tmp_path, records)["bytes"]} == {88}


def test_local_sgd_averages_every_h_steps(tmp_path: Path) -> None:
    """H = 3, six steps: two averages; 10 samples on two workers with 5 each."""
    told = document("local-sgd", (A, 1), (B, 1), local_steps=3, target_batch_size=10)
    records = ran(tmp_path, told)
    vector = averaged([{0: 5}, {1: 5}], every=3)
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)  # 33 elements make shards of 17 and 16


def test_parameter_server(tmp_path: Path) -> None:
    """A server of its own in A: each worker pushes and pulls 33 x 4 = 132 bytes; unequal shares 9,
    8, 8 of 25.
    """
    told = document("parameter-server", (A, 1), (B, 2), target_batch_size=25)
    records = ran(tmp_path, told)
    vector, _ = synchronous({0: 9, 1: 8, 2: 8})
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    found = check_bytes(told, tmp_path, records)
    assert {(r["src"], r["dst"]): r["measured"] for r in found["bytes"]} == {
        (A, A): 264,
        (A, B): 264,
        (B, A): 264,
    }


def test_central_through_an_object_store(tmp_path: Path, endpoint: str) -> None:
    """Two workers, a function and moto's S3: n + 1 = 3 writes, 2 n = 4 reads, n = 2 lists a step,
    and nothing is left in the bucket.
    """
    told = document("central", (A, 1), (C, 1))
    records = ran(tmp_path, told, endpoint_url=endpoint)
    vector, _ = synchronous({0: 12, 1: 12})
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    found = check_bytes(told, tmp_path, records)
    asked = {row["what"]: row for row in found["requests"]}
    for kind, count in (("write", 3), ("read", 4), ("list", 2)):
        assert asked[kind]["measured"] == asked[kind]["predicted"] == count
    import boto3

    left = boto3.client("s3", endpoint_url=endpoint).list_objects_v2(Bucket="tiny-central")
    assert left["KeyCount"] == 0


def test_hierarchical_all_reduce(tmp_path: Path) -> None:
    """Two regions of two and one workers: the sum goes through the leaders, the result is that of
    all-reduce.
    """
    told = document("hierarchical-all-reduce", (A, 2), (B, 1))
    records = ran(tmp_path, told)
    vector, _ = synchronous({0: 8, 1: 8, 2: 8})
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)


def test_model_averaging(tmp_path: Path) -> None:
    """Regions of two and one workers, H = 3, hub A: regions are synchronous inside, models are
    averaged by samples.
    """
    told = document("model-averaging", (A, 2), (B, 1), local_steps=3)
    records = ran(tmp_path, told)
    vector = averaged([{0: 8, 1: 8}, {2: 8}], every=3)
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)


def test_asgd_ga_loses_no_gradient(tmp_path: Path) -> None:
    """Three regions, H = 2: with a loss that is linear in the parameters the order of gradients
    does not matter.

    After the late ones are taken, each region has the model of synchronous SGD: w0 less lr times
    all mean gradients.
    """
    told = document("asgd-ga", (A, 2), (B, 1), (C, 1), local_steps=2)
    records = ran(tmp_path, told, train="run_plans:linear", checkpoints="")
    ends = {r["rank"]: r for r in records if r["kind"] == "end"}
    torch.manual_seed(0)
    work = run_plans.linear()
    optimizer = work.optimizer(work.module.parameters())
    for step in range(6):
        optimizer.zero_grad()
        for rank in range(4):
            for number in range(2):
                torch.manual_seed(batch_seed(0, step, rank, number))
                (work.loss(work.module, work.batch(3, torch.device("cpu"))) * 3 / 24).backward()
        optimizer.step()
    wanted = torch.cat([p.detach().flatten() for p in work.module.parameters()])
    for end in ends.values():
        torch.testing.assert_close(torch.tensor(end["parameters"]), wanted, **TOLERANCE)
    assert len(ends) == 4


def test_hierarchical_serverless(tmp_path: Path, endpoint: str) -> None:
    """Regions of two and one workers, each with a store: the result is that of all-reduce, bytes
    those of eight phases.

    Requests are those of central aggregation in each store: of 2, 1 and, in the global one, 2
    gradients; nothing is left in them.
    """
    told = document("hierarchical", (A, 2), (B, 1))
    records = ran(tmp_path, told, endpoint_url=endpoint, steps=3)
    vector, _ = synchronous({0: 8, 1: 8, 2: 8}, steps=3)
    for model in models(tmp_path, plan_of(told), step=3):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    found = check_bytes(told, tmp_path, records)
    asked = {row["what"]: row for row in found["requests"]}
    for store, n in ((A, 2), (B, 1), ("the global store", 2)):
        for kind, count in (("write", n + 1), ("read", 2 * n), ("list", n)):
            row = asked[f"{kind} in {store}"]
            assert row["measured"] == row["predicted"] == count
    import boto3

    client = boto3.client("s3", endpoint_url=endpoint)
    names = [bucket.name for bucket in plan_of(told).buckets]
    assert [client.list_objects_v2(Bucket=name)["KeyCount"] for name in names] == [0, 0, 0]


def killing(rank: int, at_step: int) -> Callable[[dict[str, Any]], None]:
    """WorkerDeath a rank with SIGKILL when it has reported a step."""
    pids: dict[int, int] = {}

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "ready":
            pids[record["rank"]] = record["pid"]
        elif record["kind"] == "step" and (record["rank"], record["step"]) == (rank, at_step):
            os.kill(pids[rank], signal.SIGKILL)

    return watch


def losses_of(told: dict[str, Any], folder: Path, records: Records) -> dict[int, float]:
    """Loss of each step."""
    plan = plan_of(told)
    return {
        row["step"]: row["loss"]
        for row in summary(plan, settings_of(folder, plan), records)["losses"]
    }


def test_a_killed_worker_stops_all_reduce_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    """The error names rank and place, the others keep the state before the step; --resume has the
    losses of a run that was not disturbed.

    The kill comes when the record of step 20 arrives, by then the others may be a few steps on.
    """
    told = document("all-reduce", (A, 2), (B, 1))
    with pytest.raises(
        PlacerError, match=r"rank 2 \(gcp/b\) stopped in step \d+: killed by SIGKILL"
    ) as caught:
        ran(tmp_path, told, killing(2, 20), steps=5000)
    assert "--resume: it goes on before step" in caught.value.hint
    logged = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    faults = [record for record in logged if record["kind"] == "fault"]
    assert {fault["lost"] for fault in faults} == {2}
    kept = max(fault["checkpoint"] for fault in faults)
    again = ran(tmp_path, told, steps=kept + 4, resume=True)
    assert {record["start"] for record in again if record["kind"] == "ready"} == {kept}
    _, undisturbed = synchronous({0: 8, 1: 8, 2: 8}, steps=kept + 4)
    found = losses_of(told, tmp_path, again)
    assert [found[step] for step in range(kept, kept + 4)] == pytest.approx(
        undisturbed[kept:], rel=1e-4
    )


def test_local_sgd_resumes_with_each_workers_own_state(tmp_path: Path) -> None:
    """Momentum is each worker's own: three steps, a checkpoint, three more are six in one go, to
    the last bit.
    """
    told = document("local-sgd", (A, 1), (B, 1), local_steps=3)
    ran(tmp_path, told, steps=3)
    ran(tmp_path, told, steps=6, resume=True)
    resumed = models(tmp_path, plan_of(told))
    ran(tmp_path, told)  # what was there is set aside
    assert all(
        torch.equal(a, b) for a, b in zip(resumed, models(tmp_path, plan_of(told)), strict=True)
    )
    assert {path.name for path in tmp_path.iterdir()} == {
        "run.jsonl",
        "run.jsonl.1",
        "run.jsonl.2",
        "checkpoints",
        "checkpoints.1",
    }


@pytest.mark.parametrize("strategy", ["parameter-server", "asgd-ga"])
def test_elastic_goes_on_without_a_killed_worker(tmp_path: Path, strategy: str) -> None:
    """The others reach the last step; with a server they share the whole batch: 12 samples each
    instead of 8.
    """
    told = document(strategy, (A, 1), (B, 1), (C, 1))
    records = ran(tmp_path, told, killing(2, 2), steps=60, elastic=True, checkpoints="")
    ended = {record["rank"] for record in records if record["kind"] == "end"}
    assert ended >= {0, 1}
    assert 2 not in ended
    assert any(
        "rank 2 (aws/c) is gone" in record["message"]
        for record in records
        if record["kind"] == "notice"
    )
    last = {
        record["rank"]: record["samples"]
        for record in records
        if record["kind"] == "step" and record["step"] == 59
    }
    assert last[0] == last[1] == (12 if strategy == "parameter-server" else 8)


def test_elastic_central(tmp_path: Path, endpoint: str) -> None:
    """The function leaves out the dead worker and says in its answer who is left."""
    told = document("central", (A, 1), (B, 1), (C, 1))
    records = ran(tmp_path, told, killing(1, 1), steps=8, elastic=True, endpoint_url=endpoint)
    assert {record["rank"] for record in records if record["kind"] == "end"} == {0, 2, 3}
    last = {
        record["rank"]: record["samples"]
        for record in records
        if record["kind"] == "step" and record["step"] == 7
    }
    assert last == {0: 12, 2: 12, 3: 0}


def test_a_dead_server_is_named(tmp_path: Path) -> None:
    """Nobody goes on without the server, elastic or not."""
    told = document("parameter-server", (A, 1), (B, 1))
    with pytest.raises(
        PlacerError, match=r"server rank 2 \(gcp/a\) stopped in step \d+: killed by SIGKILL"
    ):
        ran(tmp_path, told, killing(2, 3), steps=5000, elastic=True)


def test_processes_that_begin_differently_are_refused(tmp_path: Path) -> None:
    """Parameters that depend on the process would make the workers drift apart silently."""
    with pytest.raises(PlacerError, match="begins with other parameters than rank 0"):
        ran(tmp_path, document("all-reduce", (A, 2)), train="run_plans:crooked")


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    """Another program listens on the port."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = document("all-reduce", (A, 2))
        plan = plan_of(told)
        with pytest.raises(PlacerError, match=f"port {port} is taken"):
            run_here(plan, told, settings_of(tmp_path, plan), tmp_path, lambda record: None, port)


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
@pytest.mark.parametrize("strategy", ["all-reduce", "parameter-server"])
def test_a_silent_worker_is_given_up_after_the_timeout(tmp_path: Path, strategy: str) -> None:
    """Stopped, not dead: all-reduce ends and names it; a server goes on with the others and the run
    ends without it.
    """
    pids: dict[int, int] = {}

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "ready":
            pids[record["rank"]] = record["pid"]
        elif record["kind"] == "step" and (record["rank"], record["step"]) == (1, 2):
            os.kill(pids[1], signal.SIGSTOP)

    told = document(strategy, (A, 1), (B, 1), (C, 1))
    if strategy == "all-reduce":
        with pytest.raises(PlacerError, match=r"rank 1 \(gcp/b\) was lost in step \d+: Timed out"):
            ran(tmp_path, told, watch, steps=5000, timeout_s=2.0)
    else:
        records = ran(tmp_path, told, watch, steps=40, timeout_s=2.0, elastic=True, checkpoints="")
        assert {record["rank"] for record in records if record["kind"] == "end"} == {0, 2, 3}

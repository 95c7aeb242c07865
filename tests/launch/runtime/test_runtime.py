"""Exchanges between workers, each with processes of its own, against one process that does the
same arithmetic in plain PyTorch.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from forked_ranks import ran  # noqa: E402
from plain_torch import TOLERANCE, Alone, Records, digests, ends, synchronous  # noqa: E402
from run_plans import A, B, C, document, islands, linear, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.log.comparison import summary  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def _environment() -> None:
    """The credentials are those of moto."""
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def compared(told: dict[str, Any], folder: Path, records: Records) -> dict[str, Any]:
    """The run beside its plan."""
    plan = plan_of(told)
    return summary(plan, settings_of(folder, plan), records)


def sent(told: dict[str, Any], folder: Path, records: Records) -> dict[tuple[str, str], float]:
    """Bytes on each pair of places in a round, which are those of `placer.problem.exchange`."""
    rows = compared(told, folder, records)["bytes"]
    for row in rows:
        assert row["measured"] == pytest.approx(row["predicted"]), row
    return {(row["src"], row["dst"]): row["measured"] for row in rows}


def check_synchronous(
    told: dict[str, Any], folder: Path, samples: dict[int, int], **other: Any
) -> Records:
    """Run a manifest: losses and parameters are those of one process with the whole batch."""
    records, workers = ran(folder, told, checkpoints="", **other), plan_of(told).workers
    vector, losses = synchronous(samples)
    assert len(digests(records, workers)) == 1
    torch.testing.assert_close(ends(records)[0], vector, **TOLERANCE)
    found = compared(told, folder, records)["losses"]
    assert [row["loss"] for row in found] == pytest.approx(losses, rel=1e-4)
    return records


def test_two_ranks_of_ddp_are_one_process(tmp_path: Path) -> None:
    """Two workers with 12 of 24 samples each, in four microbatches of 3: one world of DDP. A ring
    of two carries S = 33 x 4 bytes each way, as priced.
    """
    told = document("all-reduce", (A, 1), (B, 1))
    assert (plan_of(told).engine, plan_of(told).worlds) == ("torch", ((0, 1),))
    records = check_synchronous(told, tmp_path, {0: 12, 1: 12})
    assert sent(told, tmp_path, records) == {(A, B): 132, (B, A): 132}


def test_half_of_the_bytes_by_ddps_hook(tmp_path: Path) -> None:
    """FP16: the result is near, not equal, and the same on all workers to the last bit."""
    told = document("all-reduce", (A, 1), (B, 1), compression="fp16")
    records = ran(tmp_path, told, checkpoints="")
    vector, _ = synchronous({0: 12, 1: 12})
    assert len(digests(records, 2)) == 1
    torch.testing.assert_close(ends(records)[0], vector, rtol=0.01, atol=0.005)
    assert not torch.equal(ends(records)[0], vector)
    assert set(sent(told, tmp_path, records).values()) == {66}


@pytest.mark.parametrize(
    ("sharding", "machines", "processes"),
    [("none", 2, 1), ("zero-1", 2, 1), ("zero-2", 2, 1), ("zero-3", 2, 1), ("hybrid", 1, 2)],
)
def test_islands_average_each_step_as_one_mesh(
    tmp_path: Path, sharding: str, machines: int, processes: int
) -> None:
    """Two islands of two processes, HSDP 2 x 2: 6 of 24 samples for each process. Between islands
    travels what two workers exchange.
    """
    told = islands(
        "all-reduce",
        (A, 1, machines),
        (B, 1, machines),
        inner={"sharding": sharding, "checkpointing": "full"},
        gpu_count=processes,
    )
    samples = dict.fromkeys(range(4), 6)
    records = check_synchronous(told, tmp_path, samples, processes=processes)
    expected = 132 if sharding != "none" else 198  # a ring of 4: 2 x 3 / 4 S
    measured = {row["measured"] for row in compared(told, tmp_path, records)["bytes"]}
    assert measured == {expected}


def test_regions_average_inside_and_leaders_between(tmp_path: Path) -> None:
    """Hierarchical all-reduce of regions of two and one workers: DDP in A, then the first workers;
    in A also the sum is handed on.
    """
    told = document("hierarchical-all-reduce", (A, 2), (B, 1))
    assert plan_of(told).worlds == ((0, 1), (2,))
    records = check_synchronous(told, tmp_path, {0: 8, 1: 8, 2: 8})
    assert sent(told, tmp_path, records) == {(A, A): 396, (A, B): 132, (B, A): 132}


def test_parameter_server(tmp_path: Path) -> None:
    """A server of its own in A: each worker pushes and pulls 132 bytes; shares 13 and 12 of 25."""
    told = document("parameter-server", (A, 1), (B, 1), target_batch_size=25)
    records = check_synchronous(told, tmp_path, {0: 13, 1: 12})
    assert sent(told, tmp_path, records) == {(A, A): 264, (A, B): 132, (B, A): 132}


def test_central_through_an_object_store(tmp_path: Path, endpoint: str) -> None:
    """Two workers, a function and moto's S3: n + 1 = 3 writes, 2 n = 4 reads, n = 2 lists a step,
    and the last mean alone is left in the bucket.
    """
    told = document("central", (A, 1), (C, 1))
    samples = {0: 12, 1: 12}
    if inner:
        told = islands("central", (A, 1, 2), (C, 1, 1), inner={"sharding": inner})
        samples = {0: 6, 1: 6, 2: 12}
    records = check_synchronous(told, tmp_path, samples, endpoint_url=endpoint)
    asked = {row["what"]: row for row in compared(told, tmp_path, records)["requests"]}
    for kind, count in (("write", 3), ("read", 4)):
        assert asked[kind]["measured"] == asked[kind]["predicted"] == count
    import boto3

    left = boto3.client("s3", endpoint_url=endpoint).list_objects_v2(Bucket="tiny-central")
    assert [item["Key"].split("/")[1] for item in left["Contents"]] == ["means"]


def test_hierarchical_serverless(tmp_path: Path, endpoint: str) -> None:
    """A store and a function in each of two regions, and a global pair."""
    told = document("hierarchical", (A, 1), (B, 1))
    check_synchronous(told, tmp_path, {0: 12, 1: 12}, endpoint_url=endpoint)


def test_islands_of_unequal_shape_are_worlds_of_their_own(tmp_path: Path) -> None:
    """Two machines against one: no device mesh, so placer sums what their first processes have."""
    told = islands("all-reduce", (A, 1, 2), (B, 1, 1), inner={"sharding": "zero-3"})
    assert (plan_of(told).engine, plan_of(told).worlds) == ("placer", ((0,), (1,)))
    check_synchronous(told, tmp_path, {0: 6, 1: 6, 2: 12})


@pytest.mark.parametrize("strategy", ["all-reduce", "hierarchical-all-reduce"])
def test_an_exchange_that_is_a_step_late(tmp_path: Path, strategy: str) -> None:
    """The gradient of step t is applied after that of step t + 1 is there; the last at once."""
    told = document(strategy, (A, 1), (B, 1), overlap=True)
    records = ran(tmp_path, told, checkpoints="")
    alone, late = Alone(), None
    for step in range(6):
        alone.calculate(step, {0: 12, 1: 12})
        mine = [p.grad.clone() for p in alone.parameters]
        for gradient in [late, mine if step == 5 else None]:
            if gradient is not None:
                for parameter, part in zip(alone.parameters, gradient, strict=True):
                    parameter.grad = part
                alone.optimizer.step()
        late = mine
    torch.testing.assert_close(ends(records)[0], alone.vector, **TOLERANCE)
    assert len(digests(records, 2)) == 1
    beside = [r["beside"] for r in records if r["kind"] == "step" and r.get("beside")]
    assert any(part["exchange_s"] > 0 for part in beside)


@pytest.mark.parametrize("strategy", ["all-reduce", "hierarchical-all-reduce"])
def test_eight_bits_and_two_streams(tmp_path: Path, strategy: str) -> None:
    """INT8, which PyTorch does not average, and two TCP connections a pair: near, equal on all."""
    told = document(strategy, (A, 2), (B, 1), compression="int8", streams=2)
    records = ran(tmp_path, told, checkpoints="")
    vector, _ = synchronous({0: 8, 1: 8, 2: 8})
    assert len(digests(records, 3)) == 1
    torch.testing.assert_close(ends(records)[0], vector, rtol=0.05, atol=0.03)


def test_model_averaging(tmp_path: Path) -> None:
    """Regions of two and one workers, H = 3, hub A: DDP inside, models averaged by samples."""
    told = document("model-averaging", (A, 2), (B, 1), local_steps=3)
    records = ran(tmp_path, told, checkpoints="")
    replicas, groups = [Alone(), Alone()], [{0: 8, 1: 8}, {2: 8}]
    for step in range(6):
        for replica, group in zip(replicas, groups, strict=True):
            replica.step(step, group)
        if step % 3 == 2:
            mean = replicas[0].vector * 2 / 3 + replicas[1].vector / 3
            for replica in replicas:
                replica.load(mean)
    assert len(digests(records, 3)) == 1
    torch.testing.assert_close(ends(records)[0], mean, **TOLERANCE)


def test_asgd_ga_loses_no_gradient(tmp_path: Path) -> None:
    """Three regions, H = 2: with a loss that is linear in the parameters the order of gradients
    does not matter. After the late ones are taken, each region has w0 less lr times all of them.
    """
    told = document("asgd-ga", (A, 2), (B, 1), (C, 1), local_steps=2)
    records = ran(tmp_path, told, train="run_plans:linear", checkpoints="")
    alone = Alone(linear)
    for step in range(6):
        alone.step(step, dict.fromkeys(range(4), 6))
    assert len(ends(records)) == 4
    for end in ends(records).values():
        torch.testing.assert_close(end, alone.vector, **TOLERANCE)


def test_hierarchical_serverless(tmp_path: Path, endpoint: str) -> None:
    """Regions of two and one workers, each with a store: the result is that of all-reduce, bytes
    those of eight phases.

    Requests are those of central aggregation in each store: of 2, 1 and, in the global one, 2
    gradients; the last mean is left in them.
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
    assert [client.list_objects_v2(Bucket=name)["KeyCount"] for name in names] == [1, 1, 1]


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

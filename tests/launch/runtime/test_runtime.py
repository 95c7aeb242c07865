"""Exchanges between workers, each with processes of its own, against one process that does the
same arithmetic in plain PyTorch.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from forked_ranks import ran  # noqa: E402
from plain_torch import TOLERANCE, Alone, Records, digests, ends, synchronous  # noqa: E402
from rehearsed import by_hand, manifest_of  # noqa: E402
from run_plans import A, B, C, document, islands, linear, patient, plan_of, settings_of, tiny  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.run_log import summary  # noqa: E402
from placer.workload.island.transports import MIB, MOST_BUCKETS, bucket_count, bucket_mib  # noqa: E402

torch.set_num_threads(1)
TENSORS = (1_000, 600_000, 2_400_000, 60_000_000, 192_000_000)
"""Elements of norms, matrices and embeddings."""


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
    for step in (record for record in records if record["kind"] == "step"):
        assert 0 <= step["calculation_s"] + sum(step["exchange_s"].values()) <= step["step_s"]
        assert 0 <= step["wire_s"] <= step["step_s"]
    found = compared(told, folder, records)["losses"]
    assert [row["loss"] for row in found] == pytest.approx(losses, rel=1e-4)
    return records


def logged(number: int, rank: int, sent: int = 132, **words: Any) -> dict[str, Any]:
    """A step of one of two workers as it is logged: the first calculates for 1 s of 3, the other
    for 2 s of 3.5; ten times as long in the first step.
    """
    slow, (calculation_s, step_s) = 1 if number else 10, [(1, 3), (2, 3.5)][rank]
    seconds = {"calculation_s": slow * calculation_s, "step_s": slow * step_s, "exchange_s": {}}
    way = {"src": (A, B)[rank], "dst": (B, A)[rank], "bytes": sent}
    about = {"kind": "step", "step": number, "rank": rank, "samples": 12, "loss": 0.1 * (rank + 1)}
    more = {"exchanged": True, "sent": [way], "requests_by_bucket": {}}
    return {**about, **seconds, **more, **words}


def test_a_run_beside_its_plan_by_hand(tmp_path: Path) -> None:
    """Of four rounds the last three count. The plan's 1 s of calculation and 2 s in all leave 1 s
    for the exchange; the slowest worker calculates for 2 s of 3.5. Both losses are parts of one.
    What makes the seconds those of something else is said.
    """
    told = document("all-reduce", (A, 1), (B, 1))
    head: list[dict[str, Any]] = [{"kind": "run", "links": "real"}]
    head += [{"kind": "ready", "rank": 0, "elements": 33}]
    steps = [logged(number, rank) for number in range(4) for rank in range(2)]
    found = compared(told, tmp_path, [*head, *steps])
    rows = {row["what"]: (row["predicted"], row["measured"]) for row in found["seconds"]}
    assert rows == {
        "calculation": (1.0, 2.0),
        "exchange and waiting": (1.0, 1.5),
        "round": (2.0, 3.5),
        "throughput": (1.0, pytest.approx(24 / 3.5)),
    }
    assert (found["rounds"], found["seconds_compare"], found["remarks"]) == (3, True, [])
    assert [row["loss"] for row in found["losses"]] == pytest.approx([0.3] * 4)
    for way in found["bytes"]:
        assert way["predicted"] == way["measured"] == 132
    lost = {"kind": "lost", "rank": 1, "step": 2, "reason": "gone"}
    other = [{**head[0], "links": "loopback"}, {**head[1], "elements": 30}, *steps, lost]
    plan = plan_of(told)
    found = summary(plan, settings_of(tmp_path, plan, target_batch_size=26), other)
    assert not found["seconds_compare"]
    assert found["remarks"] == [
        "the plan's tiny exchanges 132 bytes, this model 120: seconds do not compare",
        "target batch size 26, the plan's is 24",
        "all processes shared this machine: links and machines were not those of the plan",
        "lost rank 1 (gcp/b) in step 2: gone",
    ]


def test_an_exchange_beside_the_calculation_by_hand(tmp_path: Path) -> None:
    """It takes 1.5 s of the worker that waits least for the other, 0.5 s of them after the
    calculation; a round is as long as both workers' on average. Of four exchanges three have been
    logged, each in the step after: 3 x 132 / 4 bytes a round.
    """
    told = document("all-reduce", (A, 1), (B, 1), overlap=True)
    beside = [{"exchange_s": s, "waited_s": 0.5, "flushed_s": 0.0} for s in (1.5, 2.5)]
    steps = [
        logged(n, rank, 132 * (n > 0), **({"beside": beside[rank]} if n else {}))
        for n in range(4)
        for rank in range(2)
    ]
    ready = {"kind": "ready", "rank": 0, "elements": 33}
    found = compared(told, tmp_path, [ready, *steps])
    rows = {row["what"]: row["measured"] for row in found["seconds"]}
    assert rows == {
        "calculation": 2.0,
        "exchange and waiting": 1.5,
        "beside the calculation": 1.0,
        "round": 3.25,
        "throughput": pytest.approx(24 / 3.25),
    }
    assert (found["rounds"], found["seconds_compare"]) == (2, True)
    assert {way["measured"] for way in found["bytes"]} == {99}
    plain = [{k: v for k, v in step.items() if k != "beside"} for step in steps]
    found = compared(told, tmp_path, [ready, *plain])
    assert not found["seconds_compare"]
    assert found["remarks"][-1].startswith("no round had one exchange beside its calculation")


def test_two_ranks_of_ddp_are_one_process(tmp_path: Path) -> None:
    """Two workers with 12 of 24 samples each, in four microbatches of 3: one world of DDP. A ring
    of two carries S = 33 x 4 bytes each way, as priced.
    """
    told = document("all-reduce", (A, 1), (B, 1))
    assert (plan_of(told).engine, plan_of(told).worlds) == ("torch", ((0, 1),))
    records = check_synchronous(told, tmp_path, {0: 12, 1: 12})
    assert sent(told, tmp_path, records) == {(A, B): 132, (B, A): 132}


@pytest.mark.parametrize("transport", ["nccl", "gloo"])
def test_processors_of_three_regions_send_the_way_that_is_priced(
    tmp_path: Path, transport: str
) -> None:
    """Gloo passes the ranks backwards: from India to London and on to Oregon, as NCCL is priced, or
    the other way round. A ring of three carries 2 x 2 / 3 x S = 176 bytes over each edge.
    """
    india, london, oregon = "aws/ap-south-1", "aws/eu-west-2", "aws/us-west-2"
    workers = ",".join(f"{place}=1xCPU-2:on-demand" for place in (oregon, india, london))
    words = {"transport": transport, "compression": "none", "tbs": "24"}
    told = manifest_of(*by_hand("niser", "phalak-2023", workers, **words))
    ways = {(india, london), (london, oregon), (oregon, india)}
    if transport == "gloo":
        ways = {(dst, src) for src, dst in ways}
    records = ran(tmp_path, told, checkpoints="")
    assert sent(told, tmp_path, records) == dict.fromkeys(ways, 176)


def test_half_of_the_bytes_by_ddps_hook(tmp_path: Path) -> None:
    """FP16: the result is near, not equal, and the same on all workers to the last bit."""
    told = document("all-reduce", (A, 1), (B, 1), compression="fp16")
    records = ran(tmp_path, told, checkpoints="")
    vector, _ = synchronous({0: 12, 1: 12})
    assert len(digests(records, 2)) == 1
    torch.testing.assert_close(ends(records)[0], vector, rtol=0.01, atol=0.005)
    assert not torch.equal(ends(records)[0], vector)
    assert set(sent(told, tmp_path, records).values()) == {66}


@given(sizes=st.lists(st.sampled_from(TENSORS), min_size=9))
def test_ddp_has_no_more_buckets_than_are_priced(sizes: list[int]) -> None:
    """PyTorch's own assignment of FP32 tensors, none of which is touched, to buckets of the size
    that a run asks for; of DDP's own size there are more than eight from 200 MiB on.
    """
    tensors, whole = [torch.empty(size) for size in sizes], 4 * sum(sizes)

    def buckets(mib: int) -> int:
        parts, _ = torch.distributed._compute_bucket_assignment_by_size(tensors, [mib * MIB])
        return len(parts)

    assert buckets(bucket_mib(whole)) <= bucket_count(whole) <= MOST_BUCKETS
    event("more by default" if buckets(25) > MOST_BUCKETS else "few")


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


@pytest.mark.parametrize("inner", [None, "zero-3"])
def test_central_through_an_object_store(tmp_path: Path, endpoint: str, inner: str | None) -> None:
    """Two workers, a function and moto's S3: n + 1 = 3 writes, 2 n = 4 reads; also of islands."""
    told = document("central", (A, 1), (C, 1))
    samples = {0: 12, 1: 12}
    if inner:
        told = islands("central", (A, 1, 2), (C, 1, 1), inner={"sharding": inner})
        samples = {0: 6, 1: 6, 2: 12}
    records = check_synchronous(told, tmp_path, samples, endpoint_url=endpoint)
    asked = {row["what"]: row for row in compared(told, tmp_path, records)["requests"]}
    for kind, count in (("write", 3), ("read", 4)):
        assert asked[kind]["measured"] == asked[kind]["predicted"] == count


@pytest.mark.parametrize("storage", [A, B])
def test_hierarchical_serverless(tmp_path: Path, endpoint: str, storage: str) -> None:
    """A store and a function in each of two regions, and a global pair. The global function is in
    A: its bucket calls it there, and else the functions of the regions. As many requests as
    planned: each of the three functions writes, reads and lists what comes.
    """
    told = document("hierarchical", (A, 1), (B, 1), storage=storage)
    records = check_synchronous(told, tmp_path, {0: 12, 1: 12}, endpoint_url=endpoint)
    for row in compared(told, tmp_path, records)["requests"]:
        if row["predicted"] is not None:
            assert row["measured"] == row["predicted"], row


def test_islands_of_unequal_shape_are_worlds_of_their_own(tmp_path: Path) -> None:
    """Two machines against one: no device mesh, so placer sums what their first processes have."""
    told = islands("all-reduce", (A, 1, 2), (B, 1, 1), inner={"sharding": "zero-3"})
    assert (plan_of(told).engine, plan_of(told).worlds) == ("placer", ((0,), (1,)))
    check_synchronous(told, tmp_path, {0: 6, 1: 6, 2: 12})


@pytest.mark.parametrize(
    ("told", "shares"),
    [
        (document("all-reduce", (A, 1), (B, 1), overlap=True), {0: 12, 1: 12}),
        (document("hierarchical-all-reduce", (A, 1), (B, 1), overlap=True), {0: 12, 1: 12}),
        (islands("all-reduce", (A, 1, 2), (B, 1, 1), overlap=True), {0: 6, 1: 6, 2: 12}),
    ],
)
def test_an_exchange_that_is_a_step_late(
    tmp_path: Path, told: dict[str, Any], shares: dict[int, int]
) -> None:
    """The gradient of step t is applied after that of step t + 1 is there; the last at once. A
    process that leads no world exchanges nothing, and has its part of the sum from the first one.
    """
    records = ran(tmp_path, told, checkpoints="")
    alone, late = Alone(), None
    for step in range(6):
        alone.calculate(step, shares)
        mine = [p.grad.clone() for p in alone.parameters]
        for gradient in [late, mine if step == 5 else None]:
            if gradient is not None:
                for parameter, part in zip(alone.parameters, gradient, strict=True):
                    parameter.grad = part
                alone.optimizer.step()
        late = mine
    torch.testing.assert_close(ends(records)[0], alone.vector, **TOLERANCE)
    assert len(digests(records, len(shares))) == 1
    beside = [r["beside"] for r in records if r["kind"] == "step" and r.get("beside")]
    assert any(part["exchange_s"] > 0 for part in beside)


@pytest.mark.parametrize("strategy", ["all-reduce", "hierarchical-all-reduce"])
def test_eight_bits_and_two_streams(tmp_path: Path, strategy: str) -> None:
    """INT8, which PyTorch does not average, and two TCP connections a pair: near, equal on all. Of
    regions, also what is handed on inside A is INT8: 33 bytes with a scale, and twice 33 between
    the two for the average that comes before.
    """
    told = document(strategy, (A, 2), (B, 1), compression="int8", streams=2)
    records = ran(tmp_path, told, checkpoints="")
    vector, _ = synchronous({0: 8, 1: 8, 2: 8})
    assert len(digests(records, 3)) == 1
    torch.testing.assert_close(ends(records)[0], vector, rtol=0.05, atol=0.03)
    if strategy == "hierarchical-all-reduce":
        rows = compared(told, tmp_path, records)["bytes"]
        assert [r["measured"] for r in rows if r["src"] == r["dst"]] == [33 + 4 + 2 * 33]


@pytest.mark.parametrize(
    ("compression", "tolerance"), [("none", TOLERANCE), ("fp16", {"rtol": 0.0, "atol": 2e-6})]
)
def test_model_averaging(tmp_path: Path, compression: str, tolerance: dict[str, float]) -> None:
    """Regions of two and one workers, H = 3, hub A: DDP inside, models averaged by samples. In FP16
    changes of less than 1e-3 travel, also inside A, and are rounded by less than 1e-6: a model
    rounded to FP16 would be off by up to 1.2e-4, half a step of numbers from 0.25 to 0.5.
    """
    told = document("model-averaging", (A, 2), (B, 1), local_steps=3, compression=compression)
    work = tiny if compression == "none" else patient
    records = ran(tmp_path, told, train=f"run_plans:{work.__name__}", checkpoints="")
    replicas, groups = [Alone(work), Alone(work)], [{0: 8, 1: 8}, {2: 8}]
    for step in range(6):
        for replica, group in zip(replicas, groups, strict=True):
            replica.step(step, group)
        if step % 3 == 2:
            mean = replicas[0].vector * 2 / 3 + replicas[1].vector / 3
            for replica in replicas:
                replica.load(mean)
    assert len(digests(records, 3)) == 1
    torch.testing.assert_close(ends(records)[0], mean, **tolerance)
    size = 132 if compression == "none" else 66  # a ring of two in A in each step, then the mean
    assert sent(told, tmp_path, records) == {(A, A): 7 * size, (A, B): size, (B, A): size}


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


def test_unequal_parameters_are_refused(tmp_path: Path) -> None:
    """Else workers would train different models."""
    for told in (document("all-reduce", (A, 2)), document("parameter-server", (A, 1), (B, 1))):
        with pytest.raises(PlacerError, match=r"begins with other parameters than rank \d"):
            ran(tmp_path, told, train="run_plans:crooked")

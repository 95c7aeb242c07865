"""The protocol of serverless aggregation against moto, with calls that are lost, doubled, late or
ended by a time-out; and `placer run` with functions that S3's own events call.
"""

import json
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import boto3
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from run_plans import completed_again, document, plan_of

from conftest import ROOT, Run
from placer.cost_model.dollars import store_requests
from placer.documents.manifest import read_manifest
from placer.launch.serverless import protocol
from placer.launch.serverless.functions import HELD, CloudFunction, functions_of
from placer.launch.serverless.protocol import (
    Bucket,
    Event,
    Function,
    Mean,
    gradient_key,
    int8_scale,
    mean_key,
    s3_event,
)

EAST, WEST = "aws/us-east-1", "aws/us-west-2"
RUN, ROUND = "tiny", "a-3"
GRADIENTS = np.random.default_rng(1).normal(size=(3, 5000)).astype("<f4")
SAMPLES = (9, 8, 8)
TIMES_OUT = "the function times out"


def functions(strategy: str, compression: str = "none") -> tuple[CloudFunction, ...]:
    """Two workers in the east, one in the west; the global pair in the east."""
    told = document(strategy, (EAST, 2), (WEST, 1), compression=compression)
    told["aggregator"]["place"] = told["storage"]["place"] = EAST
    whole = completed_again({**told, "name": RUN})
    return functions_of(read_manifest(whole, "m.json"), whole)


class Counted(Bucket):
    """A bucket that counts its requests, and at one of them ends the call once."""

    requests: Counter[str]
    ends_at: list[str]

    def call(self, kind: str, request: Callable[[], Any], fine: Any = ()) -> Any:
        """Count, then ask."""
        if kind in self.ends_at:
            self.ends_at.remove(kind)
            raise TimeoutError(TIMES_OUT)
        answer = super().call(kind, request, fine)
        self.requests["poll" if kind == "read" and answer is None else kind] += 1
        return answer


class Cloud:
    """Buckets and functions of a plan: uploads call functions as S3 does, which asks again twice
    where a call fails.
    """

    def __init__(self, plan: tuple[CloudFunction, ...], ends_at: tuple[str, ...] = ()) -> None:
        self.plan, self.events = plan, list[tuple[CloudFunction, Event]]()
        self.requests = {f.source.name: Counter[str]() for f in plan}
        self.ends_at, self.calls = list(ends_at), Counter[str]()
        self.client = boto3.client("s3", region_name="us-east-1")
        for name in self.requests:
            self.client.create_bucket(Bucket=name)
        self.functions = {
            (f.name, f.region): Function(f.settings(), self.connect, self.invoke) for f in plan
        }

    def connect(self, bucket: str, region: str, faults: bool = True) -> Bucket:
        """Open a bucket whose uploads call functions."""
        store = Counted(self.client, bucket)
        store.requests = self.requests[bucket]
        store.ends_at = self.ends_at if faults else []
        usual = store.put

        def put(key: str, body: Any, **words: Any) -> None:
            usual(key, body, **words)
            if "/gradients/" in key:
                here = next(f for f in self.plan if f.source.name == bucket)
                self.events.append((here, s3_event(bucket, key)))

        store.put = put  # type: ignore[method-assign]
        return store

    def invoke(self, other: Mapping[str, str], event: Event) -> None:
        """Take a direct call."""
        here = next(f for f in self.plan if (f.name, f.region) == (other["name"], other["region"]))
        self.events.append((here, event))

    def serve(self) -> None:
        """Work off all calls, each three times at most."""
        while self.events:
            function, event = self.events.pop(0)
            for _ in range(3):
                self.calls[function.region] += 1
                try:
                    self.functions[function.name, function.region].handle(event)
                    break
                except TimeoutError:
                    continue

    def upload(self, rank: int, gradient: Any = None, parts: int | None = None) -> None:
        """Put the gradient of a worker where its function reads."""
        body = protocol_bytes(GRADIENTS[rank], self.plan[0].compression)
        here = self.of(rank)
        usual = (2, 1)[rank == 2] if len(self.plan) > 1 else 3
        key = gradient_key(RUN, ROUND, rank, parts or usual)
        self.connect(here.source.name, "", faults=False).put(
            key, body if gradient is None else gradient, samples=SAMPLES[rank]
        )

    def filled(self) -> Self:
        """Put the gradients of all workers."""
        for rank in range(3):
            self.upload(rank)
        return self

    def of(self, rank: int) -> CloudFunction:
        """Return the function that gathers from a worker."""
        return self.plan[0] if len(self.plan) == 1 or rank < 2 else self.plan[1]

    def mean(self, rank: int) -> tuple[Any, Mapping[str, Any]]:
        """Read the mean where a worker polls."""
        store = self.connect(self.of(rank).source.name, "", faults=False)
        found = store.get(mean_key(RUN, ROUND))
        assert found is not None
        return numbers(found[0], self.plan[0].compression), found[1]


def protocol_bytes(vector: Any, compression: str) -> bytes:
    """Encode a vector as a worker does."""
    torch = pytest.importorskip("torch")
    from placer.launch.runtime.codec import Codec

    return bytes(Codec(compression).encode(torch.from_numpy(vector)).numpy().tobytes())


def numbers(body: bytes, compression: str) -> Any:
    """Decode a message as a worker does."""
    torch = pytest.importorskip("torch")
    from placer.launch.runtime.codec import Codec

    message = torch.frombuffer(bytearray(body), dtype=torch.uint8)
    return Codec(compression).decode(message).numpy()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moto in this process, with words for credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield


def weighted(ranks: tuple[int, ...] = (0, 1, 2)) -> Any:
    """The mean by samples, in 64-bit floats."""
    weights = [SAMPLES[rank] for rank in ranks]
    return np.average(GRADIENTS[list(ranks)].astype("f8"), axis=0, weights=weights)


def step_of(compression: str) -> float:
    """Largest error of a mean that is rounded three times at most, per unit of the largest value:
    float32, 11 bits of float16, 127 steps of int8.
    """
    return {"none": 1e-6, "fp16": 2e-3, "int8": 3 / 127}[compression]


@given(st.floats(2.0**-99, 2.0**99, width=32))
def test_127_steps_of_a_scale_are_exact(largest: float) -> None:
    """In 32 bits, so that they have the same scale again, which is right to its eight bits."""
    scale = int8_scale(largest)
    assert float(np.float32(127 * scale)) == 127 * scale
    assert int8_scale(127 * scale) == scale == pytest.approx(largest / 127, rel=2**-8)


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("compression", ["none", "fp16", "int8"])
@pytest.mark.parametrize("strategy", ["central", "hierarchical"])
def test_the_mean_is_that_of_one_process(strategy: str, compression: str) -> None:
    """Three workers with 9, 8 and 8 samples; requests are those that the cost model prices, and a
    round leaves its mean alone.
    """
    cloud = Cloud(functions(strategy, compression)).filled()
    cloud.serve()
    for rank in range(3):
        mean, _ = cloud.mean(rank)
        assert np.abs(mean - weighted()).max() < step_of(compression) * np.abs(GRADIENTS).max()
    gathers = (3,) if strategy == "central" else (2, 1, 2)
    for function, n in zip(cloud.plan, gathers, strict=True):
        asked = cloud.requests[function.source.name]
        assert {kind: asked[kind] for kind in ("write", "read", "list")} == store_requests(n)
        left = cloud.connect(function.source.name, "").list("")
        assert left == [mean_key(RUN, ROUND)]
    called = {"us-east-1": 3} if strategy == "central" else {"us-east-1": 2 + 2 + 1, "us-west-2": 2}
    assert cloud.calls == called, "one call an upload, and one of each region for the mean"


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("strategy", ["central", "hierarchical"])
def test_doubled_and_late_calls_change_nothing(strategy: str) -> None:
    """Every call comes twice, and the first ones again when all is over."""
    cloud = Cloud(functions(strategy)).filled()
    again = list(cloud.events)
    cloud.events = [event for event in again for _ in range(2)]
    cloud.serve()
    mean, _ = cloud.mean(2)
    cloud.events = again
    cloud.serve()
    assert np.array_equal(cloud.mean(2)[0], mean)
    assert np.abs(mean - weighted()).max() < 1e-6 * np.abs(GRADIENTS).max()


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("strategy", ["central", "hierarchical"])
def test_lost_calls_are_made_good_by_the_next_upload(strategy: str) -> None:
    """No call comes; when no mean has come in time, the workers put their gradients again."""
    cloud = Cloud(functions(strategy)).filled()
    cloud.events.clear()
    cloud.upload(0)
    if strategy == "hierarchical":
        cloud.upload(2)
    cloud.serve()
    assert np.abs(cloud.mean(0)[0] - weighted()).max() < 1e-6 * np.abs(GRADIENTS).max()


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize("strategy", ["central", "hierarchical"])
@pytest.mark.parametrize("ends_at", ["list", "read", "write", "delete"])
def test_a_function_that_times_out_is_called_again(strategy: str, ends_at: str) -> None:
    """Its first two calls end before a request of that kind: nothing is lost, nothing is averaged
    twice, and the parts go.
    """
    cloud = Cloud(functions(strategy), (ends_at, ends_at)).filled()
    cloud.serve()
    assert cloud.ends_at == []
    assert np.abs(cloud.mean(2)[0] - weighted()).max() < 1e-6 * np.abs(GRADIENTS).max()
    for function in cloud.plan:
        assert cloud.connect(function.source.name, "").list(f"{RUN}/gradients") == []


@pytest.mark.usefixtures("aws")
def test_a_round_has_one_mean() -> None:
    """A second call that averages what another worker has put anew does not replace what workers
    may have read.
    """
    cloud = Cloud(functions("central")).filled()
    cloud.serve()
    first, _ = cloud.mean(0)
    for rank in range(3):
        cloud.upload(rank, GRADIENTS[0].tobytes())
    cloud.serve()
    assert np.array_equal(cloud.mean(0)[0], first)


@pytest.mark.parametrize("compression", ["none", "fp16", "int8"])
def test_the_bytes_are_those_of_the_workers_codec(
    compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean of one part is that part; without NumPy, the mean of three differs in the last place
    of some numbers at most.
    """
    parts = [protocol_bytes(vector, compression) for vector in GRADIENTS]

    def mean_of(some: list[bytes]) -> bytes:
        mean = Mean(compression)
        for part, samples in zip(some, SAMPLES, strict=False):
            mean.add(part, samples)
        return bytes(mean.body())

    alone, three = mean_of(parts[:1]), mean_of(parts)
    assert np.allclose(
        numbers(alone, compression), numbers(parts[0], compression), rtol=1e-6, atol=0
    )
    assert len(three) == len(parts[0])
    monkeypatch.setattr(protocol, "np", None)
    plain = numbers(mean_of(parts), compression)
    most = step_of(compression) / 2 * np.abs(GRADIENTS).max()
    assert np.abs(plain - numbers(three, compression)).max() <= most


@pytest.mark.parametrize("compression", ["none", "fp16", "int8"])
def test_a_function_holds_what_its_memory_is_reckoned_with(compression: str) -> None:
    """Sum and one part, or sum and mean: 2, 3 and 5 times the bytes of a gradient of 16 million
    numbers, and some blocks of a million in 32 bits.
    """
    bytes_of_one = {"none": 4, "fp16": 2, "int8": 1}[compression] * (1 << 24)
    mean = Mean(compression)
    tracemalloc.start()
    for _ in range(3):
        part = bytes(bytes_of_one + mean.head)
        mean.add(part, 8)
        del part
    body = mean.body()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(body) == bytes_of_one + mean.head
    assert peak <= HELD[compression] * bytes_of_one + 4 * 4 * protocol.BLOCK


@contextmanager
def lambdas(plan: tuple[CloudFunction, ...], address: str) -> Iterator[Counter[str]]:
    """Play AWS Lambda: moto's S3 tells a queue of each upload as its bucket's stack asks for, and
    the shipped handler takes what comes; yields the calls by function.
    """
    s3, sqs = (boto3.client(name, endpoint_url=address) for name in ("s3", "sqs"))
    queues: dict[str, CloudFunction] = {}
    for number, function in enumerate(plan):
        s3.create_bucket(Bucket=function.source.name)
        url = sqs.create_queue(QueueName=f"calls-{number}")["QueueUrl"]
        rule = {"Name": "prefix", "Value": f"{function.run}/gradients/"}
        told = {
            "QueueArn": f"arn:aws:sqs:us-east-1:123456789012:calls-{number}",
            "Events": ["s3:ObjectCreated:*"],
            "Filter": {"Key": {"FilterRules": [rule]}},
        }
        s3.put_bucket_notification_configuration(
            Bucket=function.source.name, NotificationConfiguration={"QueueConfigurations": [told]}
        )
        queues[url] = function
    by_name = {(f.name, f.region): url for url, f in queues.items()}
    calls, ended = Counter[str](), threading.Event()

    def connect(bucket: str, region: str) -> Bucket:
        return Bucket(boto3.client("s3", endpoint_url=address), bucket)

    def invoke(other: Mapping[str, str], event: Event) -> None:
        url = by_name[other["name"], other["region"]]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps(event))

    def serve() -> None:
        built = {url: Function(f.settings(), connect, invoke) for url, f in queues.items()}
        while not ended.wait(0.05):
            for url, function in built.items():
                for message in sqs.receive_message(QueueUrl=url).get("Messages", ()):
                    event = json.loads(message["Body"])
                    if event.get("Event") != "s3:TestEvent":
                        function.handle(event)
                        calls[queues[url].place] += 1
                    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield calls
    finally:
        ended.set()
        thread.join(10)


@pytest.mark.usefixtures("warm_machines")
def test_placer_run_uses_functions_that_are_deployed(
    command: Run, endpoint: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers and no process that plays the function: S3 calls it, and both end with one model;
    requests of the workers are a write and a read a step.
    """
    told = document("hierarchical", ("aws/us-east-1", 1), ("aws/us-west-2", 1))
    told["aggregator"]["place"] = told["storage"]["place"] = "aws/us-east-1"
    whole = completed_again(told)
    (tmp_path / "plan.json").write_text(json.dumps(whole))
    plan = plan_of(whole)
    assert plan.ranks == 2 + len(plan.hubs)
    for name, value in (
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
        ("MASTER_ADDR", "127.0.0.1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    words = ["run", "plan.json", "--train", "run_plans:tiny", "--steps", "3", "--poll", "0.02"]
    words += ["--rank", "0-1", "--device", "cpu", "--one-machine", "--json", "-o", "out"]
    with lambdas(functions_of(read_manifest(whole, "m.json"), whole), endpoint) as calls:
        done = command(*words, cwd=tmp_path, PYTHONPATH=f"{ROOT}:{ROOT / 'tests'}")
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (tmp_path / "out/run.jsonl").read_text().splitlines()]
    ends = [record for record in records if record["kind"] == "end"]
    assert len({end["parameters_sha256"] for end in ends}) == 1
    assert sorted(end["rank"] for end in ends) == [0, 1]
    assert sum(calls.values()) >= 3 * (1 + 1 + 2 + 2)
    for record in records:
        if record["kind"] == "step":
            assert {k: record["requests"][k] for k in ("write", "read")} == {"write": 1, "read": 1}

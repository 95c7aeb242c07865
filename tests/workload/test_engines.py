"""What each engine executes, and the part of a plan that it lacks."""

import pytest

from placer.launch.export.targets.hivemind import COMPRESSIONS
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import parse_inner_plan
from placer.workload.profile import COMPRESSION_BYTES


def placement(plan: str, exchange: str, compression: str = "fp16", **words: object) -> Placement:
    """Two islands of two machines with a plan, which exchange under NCCL."""
    group = WorkerGroup(
        place="aws/us-east-1",
        instance_type="p5",
        gpu="H100",
        gpu_count=8,
        market="spot",
        count=2,
        machines=2,
        inner=parse_inner_plan(plan),
    )
    used = {"strategy": exchange, "compression": compression, "transport": "nccl", **words}
    return Placement(groups=(group,), exchange=Exchange(**used))  # type: ignore[arg-type]


def test_placer_run_does_every_exchange_and_compression() -> None:
    """What no engine of others does stays with placer; hivemind's compressions have a class."""
    assert set(ENGINES["placer"].exchanges) == set(STRATEGIES)
    assert set(ENGINES["placer"].compressions) == set(COMPRESSION_BYTES)
    assert set(ENGINES["hivemind"].compressions) == set(COMPRESSIONS)


@pytest.mark.parametrize(
    ("plan", "exchange", "compression", "lacks"),
    [
        ("+zero-3+tp=4", "all-reduce", "fp16", ""),
        ("+zero-1+tp=4", "diloco", "none", ""),
        ("+zero-1", "diloco", "fp16", ""),
        (
            "+zero-1+tp=4",
            "diloco",
            "fp16",
            "torchft does not do the compression fp16, placer run does not do tp=4",
        ),
        ("+zero-3+ep=8", "parameter-server", "fp16", "placer run does not do ep=8"),
        ("+zero-3+fp16", "central", "none", "placer run does not do the precision fp16"),
        (
            "+hybrid",
            "local-sgd",
            "fp16",
            "torchft does not do the compression fp16, placer run does not do local-sgd between "
            "copies of hybrid sharding, each sent by itself",
        ),
    ],
)
def test_a_plan_names_what_each_engine_of_its_exchange_lacks(
    plan: str, exchange: str, compression: str, lacks: str
) -> None:
    """Nothing where one engine does all: PyTorch every plan that it averages each step in 2 bytes,
    torchft models as they are, placer run whatever divides no matrix.
    """
    assert placement(plan, exchange, compression).unexecuted == lacks


def test_a_late_exchange_and_more_streams_are_placers() -> None:
    """PyTorch averages after each step over one stream; local SGD is late under hivemind alone."""
    assert placement("+zero-3", "all-reduce", overlap=True, streams=4).unexecuted == ""
    assert "tp=2" in placement("+zero-3+tp=2", "all-reduce", streams=4).unexecuted
    assert "beside the next step" in placement("+zero-3", "local-sgd", overlap=True).unexecuted

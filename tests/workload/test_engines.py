"""What each engine executes, and the part of a plan that it lacks."""

from placer.launch.export.targets.hivemind import COMPRESSIONS
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Exchange, Placement, WorkerGroup
from placer.workload.engines import ENGINES
from placer.workload.inner_plan import InnerPlan, written_parts
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
        inner=InnerPlan(**written_parts(plan)),
    )
    used = {"strategy": exchange, "compression": compression, "transport": "nccl", **words}
    return Placement(groups=(group,), exchange=Exchange(**used))  # type: ignore[arg-type]


def test_placer_run_does_every_exchange_and_compression() -> None:
    """What no engine of others does stays with placer; hivemind's compressions have a class."""
    assert set(ENGINES["placer"].exchanges) == set(STRATEGIES)
    assert set(ENGINES["placer"].compressions) == set(COMPRESSION_BYTES)
    assert set(ENGINES["hivemind"].compressions) == set(COMPRESSIONS)


def test_a_late_exchange_and_more_streams_are_placers() -> None:
    """PyTorch averages after each step over one stream; local SGD is late under hivemind alone.
    Two streams are already too many for the others.
    """
    assert placement("+zero-3", "all-reduce", overlap=True, streams=4).unexecuted == ""
    two = placement("+zero-3", "all-reduce", streams=2).exchange
    able = [name for name, each in ENGINES.items() if not each.lack(two)]
    assert able == ["placer"]
    assert "tp=2" in placement("+zero-3+tp=2", "all-reduce", streams=4).unexecuted
    assert "beside the next step" in placement("+zero-3", "local-sgd", overlap=True).unexecuted

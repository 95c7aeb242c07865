"""The object stores of a run on this machine: their end is said at once."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("waitress")
if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)
from listening import listeners, open_to_others, watched
from run_plans import A, B, document, plan_of, settings_of

from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import LOOPBACK, store_at
from placer.launch.runtime.processes.run import run_here
from placer.launch.runtime.strategies.serverless import LocalCalls

pytestmark = pytest.mark.usefixtures("warm_machines")


def stores_here() -> set[int]:
    """Object stores that this process has started."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int(
                (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
            if (
                parent == os.getpid()
                and b"placer.launch.runtime.object_store" in (process / "cmdline").read_bytes()
            ):
                found.add(int(process.name))
        except OSError:
            continue
    return found


def test_of_several_stores_the_one_that_is_killed_ends_the_run(tmp_path: Path) -> None:
    """Of two, that of the worker's region and that of the means, the second: it is named, nobody
    waits for a time-out, and no process is left. PyTorch's store and the object stores listen on
    the loopback device, where others do not reach them.
    """
    told = document("hierarchical", (A, 1))
    plan = plan_of(told)
    before, open_before = stores_here(), listeners()

    def kill(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and record["step"] == 0 and record["rank"] == 0:
            os.kill(sorted(stores_here() - before)[1], signal.SIGKILL)

    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with watched() as seen, pytest.raises(PlacerError) as caught:
        run_here(plan, told, settings, tmp_path, kill)
    stores = [port for _, port, name in seen - open_before if "object_store" in name]
    assert len(stores) == 2 < len(seen - open_before)
    assert open_to_others(seen - open_before) == set()
    name = f"the object store in {B} ({plan.buckets[1].name})"
    assert caught.value.message == f"{name} has ended: killed by SIGKILL"
    assert caught.value.exit_code == 1
    assert stores_here() == before


def test_a_call_goes_to_the_machine_of_its_function_alone() -> None:
    """Once they have met, nothing of a call passes the store where all meet: that of the first
    worker's machine may be far from both. Each call comes once, in its caller's order.
    """
    meeting = store_at(LOOPBACK, 0, 10.0)

    def calls(rank: int) -> LocalCalls:
        settings = SimpleNamespace(join_s=10.0)
        context: Any = SimpleNamespace(
            rank=rank, store=meeting, address=LOOPBACK, settings=settings
        )
        return LocalCalls(context)

    function, *workers = map(calls, (2, 0, 1))
    assert function.take([0, 1]) is None
    met = meeting.num_keys()
    for key in ("first", "second"):
        for worker in workers:
            worker.send(2, {"bucket": "b", "key": f"{key} of {worker.context.rank}"})
    took: Iterator[Any] = iter(lambda: function.take([0, 1]), None)
    assert sorted(event["key"] for event in took) == [
        *("first of 0", "first of 1", "second of 0", "second of 1")
    ]
    assert meeting.num_keys() == met

"""The object stores of a run on this machine: their end is said at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placer.records import replace

pytest.importorskip("torch")
pytest.importorskip("waitress")
if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)
from run_plans import A, B, document, plan_of, settings_of

from placer.errors import PlacerError
from placer.launch.runtime.processes.run import run_here
from placer.launch.runtime.stores.local_store import local_object_stores


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
                and b"placer.launch.runtime.stores.local_store"
                in (process / "cmdline").read_bytes()
            ):
                found.add(int(process.name))
        except OSError:
            continue
    return found


def at_first_step(do: Callable[[], None]) -> Callable[[dict[str, Any]], None]:
    """Do something when the first step is reported."""
    done: list[bool] = []

    def watch(record: dict[str, Any]) -> None:
        if record["kind"] == "step" and not done:
            done.append(True)
            do()

    return watch


def test_a_store_that_is_killed_ends_the_run_and_is_named(tmp_path: Path) -> None:
    """No worker waits for a time-out, and no process is left."""
    told = document("central", (A, 1), (B, 1))
    plan = plan_of(told)
    before = stores_here()

    def kill() -> None:
        (store,) = stores_here() - before
        os.kill(store, signal.SIGKILL)

    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with pytest.raises(PlacerError) as caught:
        run_here(plan, told, settings, tmp_path, at_first_step(kill))
    assert (
        caught.value.message
        == f"the object store in {B} (tiny-central) has ended: killed by SIGKILL"
    )
    assert caught.value.exit_code == 1
    assert stores_here() == before


def test_of_several_stores_the_one_that_is_killed_is_named(tmp_path: Path) -> None:
    """Of three, those of the two regions and the global one, the second."""
    told = document("hierarchical", (A, 1), (B, 1))
    plan = plan_of(told)
    settings = settings_of(tmp_path, plan, steps=100_000, checkpoints="", timeout_s=3600.0)
    with local_object_stores(tmp_path, plan.buckets) as stores:
        settings = replace(
            settings, endpoints={store.bucket.name: store.address for store in stores}
        )
        services = {store.label: store.process for store in stores}
        with pytest.raises(PlacerError) as caught:
            run_here(
                plan,
                told,
                settings,
                tmp_path,
                at_first_step(stores[1].process.kill),
                services=services,
            )
    assert caught.value.message == f"{stores[1].label} has ended: killed by SIGKILL"
    assert stores[1].bucket.place == "gcp/b"

"""Runs and probes listen on the loopback device, unless another address is asked for:
every listening socket of every process is looked up while they work.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("waitress")
if sys.platform != "linux":
    pytest.skip("reads /proc", allow_module_level=True)
from listening import listeners, open_to_others, watched
from run_plans import A, B, document, islands, plan_of, settings_of

from conftest import free_port
from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import store_at
from placer.launch.runtime.processes.run import run_here, run_ranks

SLOW = "run_plans:slow"
"""Six steps of the tiny model take a few milliseconds: processes could end before they are seen."""
Record = dict[str, Any]


def nothing(record: Record) -> None:
    """Take a record."""


@pytest.fixture(autouse=True)
def before() -> set[tuple[str, int, str]]:
    """Sockets of servers that other tests of this process have started."""
    return listeners()


@pytest.mark.parametrize(
    ("told", "most"),
    [
        (islands("all-reduce", (A, 1, 2), (B, 1, 2)), "store, islands and pieces over gloo"),
        (document("central", (A, 1), (B, 1)), "store and object store"),
    ],
    ids=["islands", "central"],
)
def test_a_local_run_listens_on_loopback(
    tmp_path: Path, before: set[tuple[str, int, str]], told: dict[str, Any], most: str
) -> None:
    """PyTorch's own store would listen on [::]. Two kinds of sockets at least are seen: the store
    at which processes meet, and gloo's or the object store's.
    """
    plan = plan_of(told)
    with watched() as seen:
        run_here(plan, told, settings_of(tmp_path, plan, train=SLOW), tmp_path, nothing)
    assert len(seen - before) >= 2, most
    assert open_to_others(seen - before) == set()


def test_ranks_that_meet_on_loopback_listen_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: set[tuple[str, int, str]]
) -> None:
    """Without --local the address is MASTER_ADDR: no other machine can join at this one."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.2")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    told = document("all-reduce", (A, 1), (B, 1))
    plan = plan_of(told)
    with watched() as seen:
        run_ranks(plan, told, settings_of(tmp_path, plan, train=SLOW), tmp_path, nothing, (0, 1))
    assert len(seen - before) >= 2
    assert open_to_others(seen - before) == set()


@pytest.mark.parametrize(
    ("host", "address"), [("::1", "::1"), ("127.0.0.3", "127.0.0.3"), ("localhost", "127.0.0.1")]
)
def test_a_store_listens_on_the_address_that_is_given(host: str, address: str) -> None:
    """It answers there, and nowhere else."""
    store = served(host)
    store.set("key", "value")
    assert store.get("key") == b"value"
    assert {where for where, port, _ in listeners() if port == store.port} == {address}


@pytest.mark.parametrize("host", ["0.0.0.0", socket.gethostname()])  # noqa: S104
def test_a_store_for_other_machines_listens_to_them(host: str) -> None:
    """A name may mean another address here than elsewhere, so it is not narrowed down."""
    store = served(host)
    assert open_to_others({one for one in listeners() if one[1] == store.port})


def test_an_address_of_another_machine_is_served_on_all() -> None:
    """Behind address translation MASTER_ADDR is none of this machine's; 192.0.2.0/24 is reserved
    for documents. The client half cannot connect: the store gives up after its time-out.
    """
    failed: list[BaseException] = []
    with watched(every_s=0.01) as seen:
        try:
            store_at("192.0.2.7", 0, 0.2)
        except Exception as error:
            failed.append(error)
    assert failed
    assert open_to_others(seen)


def test_a_taken_port_is_said_for_any_host() -> None:
    """One line, whichever address is meant."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            with pytest.raises(PlacerError, match=f"port {port} is taken"):
                store_at(host, port, 10.0)


def served(host: str) -> Any:
    """A store, or a skip where this machine has no such address."""
    make: Callable[[], Any] = lambda: store_at(host, 0, 10.0)  # noqa: E731
    try:
        return make()
    except (PlacerError, RuntimeError) as error:
        pytest.skip(f"no address {host} here: {error}")

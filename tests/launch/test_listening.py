"""Runs and probes listen on the loopback device, unless another address is asked for:
every listening socket of every process is looked up while they work. Runs with object stores:
test_store_processes.py; runs whose ranks are started one by one: test_run_command.py.
"""

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
from run_plans import A, B, islands, plan_of, settings_of

from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import store_at
from placer.launch.runtime.processes.run import run_here


@pytest.fixture(autouse=True)
def before() -> set[tuple[str, int, str]]:
    """Sockets of servers that other tests of this process have started."""
    return listeners()


@pytest.mark.usefixtures("warm_machines")
def test_a_local_run_listens_on_loopback(tmp_path: Path, before: set[tuple[str, int, str]]) -> None:
    """PyTorch's own store would listen on [::]. Two kinds of sockets at least are seen: the store
    at which processes meet, and gloo's, of islands and of the pieces between them. Six steps of the
    tiny model take a few milliseconds: processes could end before they are seen.
    """
    told = islands("all-reduce", (A, 1, 2), (B, 1, 2))
    plan = plan_of(told)
    settings = settings_of(tmp_path, plan, train="run_plans:slow")
    with watched() as seen:
        run_here(plan, told, settings, tmp_path, lambda record: None)
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

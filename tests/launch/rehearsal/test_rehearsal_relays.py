"""Relays, the network of a rehearsal that needs no rights: connections of this process, then real
rehearsals.

A shaped link is never faster than asked; how slow a busy machine may be is left wide open.
"""

from __future__ import annotations

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from shaped_peers import PEER, best
from test_rehearsal import EU, LONDON, OREGON, US, line, written

from conftest import PROCESS_TIMEOUT_S, Run
from placer.errors import PlacerError
from placer.launch.shaped_network import Shape, ShapedNetwork, open_network
from placer.launch.shaped_network.addresses import seen, seen_url
from placer.launch.shaped_network.gloo_backend import as_seen
from placer.launch.shaped_network.streams.relays import MOST_MACHINES, address_of

RATE, CAP, RTT = 4e6, 10e6, 0.06
"""Bytes/s of a stream and of the pair, and the round-trip time, from A to B; a tenth of the rates
on the way back.
"""


def shapes() -> list[Shape]:
    """From A to B, back, and fast ways to C."""
    slow = Shape(src="A", dst="B", stream_bytes_per_s=RATE, pair_bytes_per_s=CAP, rtt_s=RTT)
    back = Shape(
        src="B", dst="A", stream_bytes_per_s=RATE / 10, pair_bytes_per_s=CAP / 10, rtt_s=RTT
    )
    way = {"stream_bytes_per_s": 1e9, "pair_bytes_per_s": 1e9, "rtt_s": 0.0}
    return [
        slow,
        back,
        *(Shape(src=a, dst=b, **way) for a, b in (("A", "C"), ("C", "A"), ("B", "C"), ("C", "B"))),
    ]


A, B, C = range(3)


@pytest.fixture(scope="module")
def network() -> Iterator[ShapedNetwork]:
    """Three machines."""
    with open_network(["A", "B", "C"], shapes(), "relays") as made:
        yield made


Serve = Callable[[socket.socket], None]


@pytest.fixture
def opened(network: ShapedNetwork) -> Iterator[Callable[..., socket.socket]]:
    """Connect a machine with a server on another."""
    made: list[socket.socket] = []

    def one(src: int, dst: int, serve: Serve) -> socket.socket:
        listener = socket.create_server((network.addresses[dst], 0))

        def run() -> None:
            with suppress(OSError):
                link, _ = listener.accept()
                made.append(link)
                serve(link)

        threading.Thread(target=run, daemon=True).start()
        link = socket.create_connection(
            seen(network.entry(src), *listener.getsockname()), timeout=30
        )
        made.extend((listener, link))
        return link

    yield one
    for each in made:
        each.close()


def confirm(link: socket.socket) -> None:
    """Say so when all has come."""
    while head := link.recv(8, socket.MSG_WAITALL):
        left = int.from_bytes(head, "big")
        while left:
            left -= len(link.recv(min(left, 1 << 20)))
        link.sendall(b"\0")


def seconds(link: socket.socket, size: int) -> float:
    """Until the last of so many bytes is confirmed."""
    began = time.monotonic()
    link.sendall(size.to_bytes(8, "big") + bytes(size))
    assert link.recv(1) == b"\0"
    return time.monotonic() - began


def moved(network: ShapedNetwork, before: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """Bytes by ordered pair since then, where there are some."""
    return {
        pair: sent - before[pair]
        for pair, sent in network.sent_bytes().items()
        if sent != before[pair]
    }


Opened = Callable[[int, int, Serve], socket.socket]


def test_delay_and_rate_are_those_asked_for(opened: Opened) -> None:
    """A byte and its answer take 60 ms, the first of a connection twice as long; 800 kB at 4 MB/s
    take 0.2 s more.
    """
    link = opened(A, B, confirm)
    assert seconds(link, 1) >= 2 * RTT
    assert RTT <= best(lambda: seconds(link, 1), RTT + 0.1) < RTT + 0.1
    assert RTT + 0.2 <= best(lambda: seconds(link, 800_000), 1.5 * (RTT + 0.2)) <= 1.5 * (RTT + 0.2)


def test_each_direction_has_its_own_rate(opened: Opened) -> None:
    """From B to A it is 0.4 MB/s: 80 kB take 0.2 s."""
    link = opened(B, A, confirm)
    assert RTT + 0.2 <= best(lambda: seconds(link, 80_000), 1.5 * (RTT + 0.2)) <= 1.5 * (RTT + 0.2)


def test_streams_add_up_to_the_cap_of_the_pair(opened: Opened) -> None:
    """Five streams of 400 kB at 10 MB/s together: 0.2 s, where one alone takes 0.1 s."""
    links = [opened(A, B, confirm) for _ in range(5)]
    for link in links:
        seconds(link, 1)

    def all_at_once() -> float:
        began = time.perf_counter()  # one clock for all: a thread may begin late
        with ThreadPoolExecutor(len(links)) as pool:
            list(pool.map(lambda link: seconds(link, 400_000), links))
        return time.perf_counter() - began

    assert RTT + 0.2 <= best(all_at_once, 2 * (RTT + 0.2)) <= 2 * (RTT + 0.2)


def test_bytes_are_counted_exactly(network: ShapedNetwork, opened: Opened) -> None:
    """Payload by ordered pair: 8 bytes that say how many, and one that confirms."""
    before = network.sent_bytes()
    seconds(opened(A, C, confirm), 1_234_567)
    assert moved(network, before) == {(A, C): 1_234_575, (C, A): 1}


def test_bytes_come_as_they_were_sent(opened: Opened) -> None:
    """Both directions at once, and the end of one does not end the other."""
    sent = bytes(range(256)) * 12_000
    came = bytearray()

    def echo(link: socket.socket) -> None:
        while data := link.recv(1 << 16):
            link.sendall(data)
        link.sendall(b"the end")
        link.shutdown(socket.SHUT_WR)

    link = opened(A, C, echo)

    def read() -> None:
        while data := link.recv(1 << 16):
            came.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    link.sendall(sent)
    link.shutdown(socket.SHUT_WR)
    reader.join(30)
    assert bytes(came) == sent + b"the end"


def test_a_connection_that_breaks_off_breaks_off_at_the_other_end(opened: Opened) -> None:
    """As when its process is killed."""

    def broken(link: socket.socket) -> None:
        link.recv(1)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.close()

    link = opened(A, B, broken)
    link.sendall(b"!")
    with pytest.raises(ConnectionResetError):
        link.recv(1)


def test_where_nobody_listens_a_connection_breaks_off(network: ShapedNetwork) -> None:
    """After its way there and back."""
    listener = socket.create_server((network.addresses[B], 0))
    where = listener.getsockname()
    listener.close()
    with (
        closing(socket.create_connection(seen(network.entry(A), *where), timeout=30)) as link,
        pytest.raises(ConnectionResetError),
    ):
        link.recv(1)


def test_a_sender_waits_for_who_does_not_read(opened: Opened) -> None:
    """The relay takes no more than its window: the rest stays with the sender, and nothing is lost
    when it is read at last.
    """
    read = threading.Event()
    came: list[int] = []

    def late(link: socket.socket) -> None:
        read.wait(30)
        while data := link.recv(1 << 20):
            came.append(len(data))
        link.sendall(b"\0")

    link = opened(A, B, late)
    link.settimeout(0.5)
    sent = 0
    with suppress(TimeoutError):
        while sent < 30_000_000:
            sent += link.send(bytes(1 << 16))
    assert sent < 30_000_000
    read.set()
    link.settimeout(60)
    link.shutdown(socket.SHUT_WR)
    assert link.recv(1) == b"\0"
    assert sum(came) == sent


def test_who_looks_sees_others_at_the_relay_and_itself_where_it_is(network: ShapedNetwork) -> None:
    """The same question has the same answer, so that ports do not run out."""
    entry = network.entry(A)
    there = seen(entry, network.addresses[B], 4711)
    assert there[0] == address_of(A, B) == "127.0.2.100"
    assert seen(entry, network.addresses[B], 4711) == there
    assert seen(entry, network.addresses[A], 4711) == ("127.0.1.1", 4711)
    assert seen(entry, "127.0.0.1", 4711) == ("127.0.0.1", 4711)
    assert seen_url(entry, "http://127.0.1.1:4711") == "http://127.0.1.1:4711"
    assert seen_url(entry, "http://127.0.2.1:4711") == f"http://{there[0]}:{there[1]}"
    assert (
        seen_url(entry, "https://s3.eu-west-1.amazonaws.com")
        == "https://s3.eu-west-1.amazonaws.com"
    )


def test_addresses_in_what_gloo_publishes_are_exchanged(network: ShapedNetwork) -> None:
    """Family, port, address of a sockaddr_in; one's own stays, and so does all around it."""
    entry = network.entry(A)

    def published(address: str, port: int) -> bytes:
        return (
            b"\x02\x00\x00\x00"
            + struct.pack("=H", socket.AF_INET)
            + struct.pack("!H", port)
            + socket.inet_aton(address)
            + b"rest"
        )

    assert as_seen(published("127.0.1.1", 4711), entry) == published("127.0.1.1", 4711)
    assert as_seen(published("127.0.2.1", 4711), entry) == published(
        *seen(entry, "127.0.2.1", 4711)
    )


@pytest.mark.parametrize("machines", [2, MOST_MACHINES])
def test_the_machine_decides_which_address_is_higher(machines: int) -> None:
    """Of two ranks of gloo that with the lower address listens, so both ends have to agree on it,
    though each sees other addresses.
    """
    numbers = [0, 1, machines // 2, machines - 1]
    for i in numbers:
        for j in numbers:
            mine, other = socket.inet_aton(address_of(i, i)), socket.inet_aton(address_of(i, j))
            assert (mine < other) == (i < j)


def test_too_many_machines(network: ShapedNetwork) -> None:
    """Addresses end."""
    way = Shape(src="A", dst="A", stream_bytes_per_s=1.0, pair_bytes_per_s=1.0, rtt_s=0.0)
    with (
        pytest.raises(PlacerError, match="151 machines, relays have addresses for 150"),
        open_network(["A"] * 151, [way], "relays"),
    ):
        pass


def test_without_namespaces_relays_are_taken_and_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here without the package that makes them; asked for, they are refused."""
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    with open_network(["A", "B", "C"], shapes()) as made:
        assert made.method == "relays"
        assert made.why_not == "links by relays: shaped links need pyroute2, which is not installed"
    with (
        pytest.raises(PlacerError, match="pyroute2"),
        open_network(["A", "B", "C"], shapes(), "namespaces"),
    ):
        pass


def test_a_relay_that_is_gone(network: ShapedNetwork) -> None:
    """One line, no traceback."""
    with open_network(["A", "B", "C"], shapes(), "relays") as made:
        entry = made.entry(A)
    with pytest.raises(PlacerError, match="the relay of the rehearsal's network"):
        seen(entry, "127.0.2.1", 4711)
    with pytest.raises(PlacerError, match="has ended"):
        made.sent_bytes()


def test_a_gloo_all_reduce_is_not_faster_than_its_link_and_its_bytes_are_counted(
    network: ShapedNetwork,
) -> None:
    """Each of two ranks sends the whole vector in two halves: 0.25 s at 0.4 MB/s on the slower way,
    and half a round trip.
    """
    torch = pytest.importorskip("torch")
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    size = 100_000
    before = network.sent_bytes()
    run = [sys.executable, str(PEER)]
    ranks = [
        subprocess.Popen(
            [*run, json.dumps(network.entry(machine)), str(rank), str(store.port), str(size)],
            stdout=subprocess.PIPE,
        )
        for rank, machine in enumerate((A, B))
    ]
    taken = [float(process.communicate(timeout=PROCESS_TIMEOUT_S)[0]) for process in ranks]
    assert size / (RATE / 10) + RTT / 2 <= max(taken)
    after = moved(network, before)
    assert set(after) == {(A, B), (B, A)}
    assert all(5 * size < count < 1.02 * 5 * size + 10_000 for count in after.values())


@pytest.fixture
def rehearsed(command: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Rehearse a plan through relays."""

    def one(path: Path, *words: str) -> dict[str, Any]:
        pytest.importorskip("torch")
        done = command(
            "run",
            "--rehearse",
            str(path),
            "--method",
            "relays",
            "--dir",
            str(tmp_path / "logs"),
            "--json",
            "--rounds",
            "3",
            *words,
        )
        assert done.returncode in (0, 6), done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["network"]["method"] == "relays"
        return document

    return one


def test_two_regions(rehearsed: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """As through namespaces: 1.02 MB each way, in halves with half a round trip each, at 26.25 MB/s
    and 103 ms.
    """
    document = rehearsed(written(tmp_path, tbs="512"), "--scale", "1/50")
    assert line(document, "exchange and waiting")["measured"] >= 0.95 * 2 * (
        0.512e6 / 26.25e6 + 0.103 / 2
    )
    for row in (line(document, f"{US} -> {EU}"), line(document, f"{EU} -> {US}")):
        assert row["predicted"] == pytest.approx(25.6e6 / 50 * 2, rel=0.01)
        assert 0 <= row["difference"] < 0.02
        assert row["within"]


def test_requests_to_the_store_are_exact(
    rehearsed: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """N + 1 = 4 writes, 2 n = 6 reads and n = 3 lists in a round, through the relay's addresses of
    the store.
    """
    pytest.importorskip("waitress")
    words = {"exchange": "central", "aggregator": OREGON, "storage": OREGON, "tbs": "64"}
    path = written(
        tmp_path,
        "niser",
        "phalak-2023",
        f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
        **words,
    )
    document = rehearsed(path, "--scale", "1/20")
    for what, count in (("write", 4), ("read", 6), ("list", 3)):
        assert (line(document, what)["predicted"], line(document, what)["measured"]) == (
            count,
            count,
        )
    assert abs(line(document, f"{LONDON} -> {OREGON}")["difference"]) < 0.02


def relays_of(folder: Path) -> set[int]:
    """Processes of relays that run in a folder."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                b"stream_relay" in (process / "cmdline").read_bytes()
                and (process / "cwd").readlink() == folder
            ):
                found.add(int(process.name))
    return found


def test_sigkill_leaves_nothing(tmp_path: Path) -> None:
    """The relay ends by itself when the command is killed."""
    pytest.importorskip("torch")
    words = [
        "run",
        "--rehearse",
        str(written(tmp_path)),
        "--method",
        "relays",
        "--scale",
        "1/5",
        "--rounds",
        "9",
        "--limit",
        "1h",
    ]
    until = time.monotonic() + 300
    with subprocess.Popen(
        [sys.executable, "-m", "placer", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stderr is not None
        next(said for said in process.stderr if "measuring" in said)
        assert relays_of(tmp_path)
        process.send_signal(signal.SIGKILL)
    while time.monotonic() < until and relays_of(tmp_path):
        time.sleep(0.05)
    assert not relays_of(tmp_path)

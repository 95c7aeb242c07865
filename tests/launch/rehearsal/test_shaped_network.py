"""The network of a rehearsal: queues by the formula, then real processes in real namespaces."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shaped_peers import Peers, best

from conftest import PROCESS_TIMEOUT_S, ROOT
from placer.errors import PlacerError
from placer.launch.shaped_network import ENVIRONMENT, Shape, open_network
from placer.launch.shaped_network.network import shapes_between
from placer.launch.shaped_network.router import (
    MOST_QUEUED_BYTES,
    Card,
    Link,
    Outlet,
    Queues,
    Router,
)

HERE = ROOT / "tests"
PAIR = 2.5
"""The pair's rate over the stream's, in the network of these tests."""
WAYS = {"EU": (20e6, 0.005), "ASIA": (50e6, 0.27), "AUS": (100e6, 0.1), "AF": (200e6, 0.02)}
"""Bit/s of a stream and round-trip time from US, both ways."""
US, US2, EU, ASIA, AUS, AF = range(6)
PLACES = ("US", "US", "EU", "ASIA", "AUS", "AF")


def shape(src: str, dst: str, bits_per_s: float = 8e9, rtt_s: float = 0.0) -> Shape:
    """A link."""
    return Shape(
        src=src,
        dst=dst,
        stream_bytes_per_s=bits_per_s / 8,
        pair_bytes_per_s=PAIR * bits_per_s / 8,
        rtt_s=rtt_s,
    )


def link_to(deliver: Callable[[Any], None], card: float = 1e9) -> Link:
    """A link of 1000 bytes/s a stream and 2500 the pair, half a second long."""
    return Link(1000.0, 2500.0, 0.5, (Card(card), Card(card)), deliver)


def sent(queues: Queues, until: float) -> None:
    """Let time pass."""
    due: float | None = 0.0
    while due is not None and due <= until:
        due = queues.run(due)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 5000), st.floats(0, 3)), min_size=1, max_size=40
    )
)
def test_queues_keep_order_lose_nothing_and_are_never_faster_than_asked(
    packets: list[tuple[int, int, float]],
) -> None:
    """Any stretch of a stream takes its bytes / the rate and the delay; the same holds for the pair
    with its rate.
    """
    came: list[tuple[float, int, int, float]] = []  # delivered at, stream, bytes, came at
    clock = [0.0]
    link = link_to(lambda packet: came.append((clock[0], *packet)))
    queues = Queues()
    for stream, size, at in sorted(packets, key=lambda packet: packet[2]):
        while queues.events and queues.events[0][0] <= at:
            clock[0] = queues.events[0][0]
            queues.run(clock[0])
        queues.accept(link, bytes((stream,)), size, (stream, size, at), at)
    while queues.events:
        clock[0] = queues.events[0][0]
        queues.run(clock[0])
    assert len(came) == len(packets)
    for rate, rows in (
        (2500.0, came),
        *((1000.0, [row for row in came if row[1] == stream]) for stream in range(3)),
    ):
        for first in range(len(rows)):
            size = sum(row[2] for row in rows[first:])
            assert rows[-1][0] - min(row[3] for row in rows[first:]) >= size / rate + 0.5 - 1e-6
    for stream in range(3):
        times = [row[3] for row in came if row[1] == stream]
        assert times == sorted(times)


def test_a_packet_takes_its_size_over_the_rates_and_the_delay() -> None:
    """1000 bytes at 1000 bytes/s, then half a second: the pair's 2500 bytes/s do not slow a stream
    alone.
    """
    came: list[int] = []
    link, queues = link_to(came.append), Queues()
    queues.accept(link, b"a", 1000, 1, 0.0)
    queues.accept(link, b"a", 1000, 2, 0.0)
    sent(queues, 1.49)
    assert came == []
    sent(queues, 1.51)
    assert came == [1]
    sent(queues, 2.49)
    assert came == [1]
    sent(queues, 2.51)
    assert came == [1, 2]


def test_five_streams_share_the_pair_evenly() -> None:
    """Five streams of 1000 bytes/s and a pair of 2500: each has a half, so 2000 bytes of each take
    4 s and the delay.
    """
    came: list[int] = []
    link, queues = link_to(came.append), Queues()
    for _ in range(20):
        for stream in range(5):
            queues.accept(link, bytes((stream,)), 100, stream, 0.0)
    sent(queues, 2.51)
    assert all(9 <= came.count(stream) <= 11 for stream in range(5))
    sent(queues, 4.49)
    assert len(came) < 100
    sent(queues, 4.6)
    assert len(came) == 100


def test_one_stream_does_not_wait_for_the_queue_of_another() -> None:
    """A stream with ten seconds of backlog leaves the pair free: 100 bytes of another take 0.1 s,
    at most a packet of 0.4 s and 0.5 s.
    """
    came: list[int] = []
    link, queues = link_to(came.append), Queues()
    for number in range(10):
        queues.accept(link, b"a", 1000, number, 0.0)
    queues.accept(link, b"b", 100, 99, 0.95)
    sent(queues, 2.1)
    assert 99 in came


def test_links_of_a_machine_share_its_card() -> None:
    """Four links of 1000 bytes/s behind a card of 2000: 1000 bytes of each take 2 s and the delay,
    while a link that asks for less than its part has all of it; each was busy all the time.
    """
    came: list[int] = []
    card, queues = Card(2000.0), Queues()
    links = [Link(1000.0, 2500.0, 0.5, (card, Card(1e9)), came.append) for _ in range(4)]
    for number, link in enumerate(links):
        for _ in range(10):
            queues.accept(link, bytes((number,)), 100, number, 0.0)
    sent(queues, 2.45)
    assert 36 <= len(came) < 40
    sent(queues, 2.61)
    assert len(came) == 40
    assert [link.busy_s for link in links] == pytest.approx([2.0] * 4, rel=0.1)


def test_a_wait_for_the_card_makes_no_link_slower() -> None:
    """Beside a link that fills what is left of the card, one of a third of it keeps its rate."""
    came: list[int] = []
    card, queues = Card(3000.0), Queues()
    slow = Link(1000.0, 1000.0, 0.0, (card, Card(1e9)), came.append)
    fast = Link(3000.0, 3000.0, 0.0, (card, Card(1e9)), lambda packet: None)
    for _ in range(100):
        queues.accept(slow, b"s", 100, 1, 0.0)
        queues.accept(fast, b"f", 100, 2, 0.0)
        queues.accept(fast, b"f", 100, 2, 0.0)
    sent(queues, 10.11)
    assert len(came) == 100


def test_a_full_queue_drops_what_comes() -> None:
    """And takes more of the stream when its packet has left."""
    link, queues = link_to([].append), Queues()
    for at in (0.0, 1.0, 1.0 + MOST_QUEUED_BYTES / 1000.0):
        sent(queues, at)
        queues.accept(link, b"a", MOST_QUEUED_BYTES, 1, at)
    assert queues.dropped == 1


SENDER, RECEIVER = bytes((10, 1, 0, 1)), bytes((10, 2, 0, 1))


def ip_packet(inner: bytes, protocol: int, options: int = 0, segment: int = 0) -> bytes:
    """As a TUN device gives it: its own header, with the size of segments that a card would cut it
    into, and IP with some words of options.
    """
    told = struct.pack("<BBHHHH", 1, bool(segment), 0, segment, 20, 16)
    size, kind = 20 + 4 * options + len(inner), 0x45 + options
    outer = struct.pack("!BBHHHBBH4s4s", kind, 0, size, 0, 0, 64, protocol, 0, SENDER, RECEIVER)
    return told + outer + bytes(4 * options) + inner


def tcp_packet(
    ack: int, payload: bytes = b"", flags: int = 0x10, port: int = 5000, words: int = 5, **more: int
) -> bytes:
    """TCP with a header of some words and a checksum that is not worked out."""
    figures = (port, 6000, 1, ack, words << 4, flags, ack % 1000, 0, 0)
    header = struct.pack("!HHIIBBHHH", *figures) + bytes(4 * words - 20)
    return ip_packet(header + payload, 6, **more)


@pytest.mark.parametrize(
    ("packets", "counted", "streams"),
    [
        ([tcp_packet(1, bytes(100))], 140, 1),
        ([tcp_packet(1, bytes(100), segment=40)], 100 + 3 * 40, 1),
        ([tcp_packet(1, bytes(300), segment=300, words=8, options=1)], 300 + 24 + 32, 1),
        ([tcp_packet(1)], 0, 0),
        ([tcp_packet(1, flags=flag) for flag in (0x12, 0x11, 0x14)], 3 * 40, 1),
        ([tcp_packet(n, bytes(9)) for n in (1, 2)], 98, 1),
        ([tcp_packet(1, bytes(9), port=port) for port in (1, 2)], 98, 2),
        ([ip_packet(bytes(30), 17)] * 2, 100, 1),
        ([ip_packet(bytes((port,)) * 30, 17) for port in (1, 2)], 100, 2),
        ([ip_packet(bytes((port,)) * 30, 1) for port in (1, 2)], 100, 1),
        ([tcp_packet(1, bytes(9)).replace(RECEIVER, bytes(4))], None, 0),
        ([b"\0" * 10 + b"\x60" + tcp_packet(1, bytes(9))[11:]], None, 0),
    ],
)
def test_what_a_router_counts_and_where_it_sends(
    packets: list[bytes], counted: int | None, streams: int
) -> None:
    """Payload, and the headers of each segment that a card would cut: 20 bytes of IP and of TCP
    without options. Confirmations alone carry nothing, and wait for no bucket; a begin, an end and
    a reset do. Streams have their ports in TCP and UDP. What goes nowhere, or is not IP version 4,
    is lost.
    """
    pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
    for own, _ in pairs:
        own.setblocking(False)
    tuns = [own.fileno() for own, _ in pairs]
    ways = {(0, 1): (1000.0, 2500.0, 0.5), (1, 0): (1000.0, 2500.0, 0.5)}
    router = Router(tuns, [SENDER, RECEIVER], [1e9, 1e9], ways)
    for packet in packets:
        pairs[0][1].send(packet)
    before = time.monotonic()
    router.actions[tuns[0]]()
    due = router.queues.run(before)
    assert due is None if counted is None else due is not None and (due < before + 0.6)
    router.queues.run(before + 1e3)
    assert len(router.queues.streams) == streams
    assert (router.links[0, 1].sent_bytes, router.links[1, 0].sent_bytes) == (counted or 0, 0)
    if counted is not None:
        assert [pairs[1][1].recv(1000) for _ in packets] == packets
    for sockets in pairs:
        for end in sockets:
            end.close()


def test_data_that_was_overtaken_gets_the_last_confirmation() -> None:
    """Confirmation and window, across the wrap of sequence numbers; a new connection resets."""
    read, write = os.pipe()
    outlet = Outlet(write)
    for came, expected in (
        (tcp_packet(2**32 - 5), tcp_packet(2**32 - 5)),
        (tcp_packet(20), tcp_packet(20)),
        (tcp_packet(2**32 - 9, b"data"), tcp_packet(20, b"data")),
        (tcp_packet(30, b"more"), tcp_packet(30, b"more")),
        (tcp_packet(7, flags=0x12), tcp_packet(7, flags=0x12)),
        (tcp_packet(8, b"new"), tcp_packet(8, b"new")),
    ):
        outlet(came)
        assert os.read(read, 1000) == expected
    os.close(read)
    os.close(write)


def test_missing_links_are_named() -> None:
    """Inside a place only where it has two machines."""
    ways = [shape("US", "EU"), shape("EU", "US")]
    assert shapes_between(["US", "EU"], ways)
    with pytest.raises(PlacerError, match="no link US -> US"):
        shapes_between(["US", "EU", "US"], ways)
    with pytest.raises(PlacerError, match="no link EU -> US"):
        shapes_between(["US", "EU"], ways[:1])


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    """Six machines."""
    shapes = {(a, b): shape(a, b) for a in PLACES for b in PLACES}
    for place, (bits, rtt) in WAYS.items():
        shapes["US", place], shapes[place, "US"] = (
            shape("US", place, bits, rtt),
            shape(place, "US", bits, rtt),
        )
    try:
        network = open_network(PLACES, shapes.values())
        with network as made:
            found = Peers(made)
            yield found
            found.end()
    except PlacerError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("dst", [EU, ASIA, AUS, AF])
def test_delay_and_rate_are_those_asked_for(peers: Peers, dst: int) -> None:
    """Never faster, and not half as fast: how near they come on a quiet machine is
    `benchmarks/shaped_links.py`'s to say.
    """
    bits, rtt = WAYS[PLACES[dst]]
    assert rtt <= best(lambda: peers.seconds(US, dst, 1), 1.5 * rtt + 0.02) <= 1.5 * rtt + 0.02
    size = int(bits / 8 * 0.4)
    expected = size / (bits / 8) + rtt
    assert expected <= best(lambda: peers.seconds(US, dst, size), 1.5 * expected) <= 1.5 * expected


def test_bytes_are_payload_and_headers(peers: Peers) -> None:
    """Within 2 %, by ordered pair; what comes back is confirmations."""
    size = 5_000_000
    before = peers.network.traffic()
    peers.seconds(US, AF, size)
    after = peers.network.traffic()
    more = {pair: after[pair][0] - before[pair][0] for pair in after}
    assert size < more.pop((US, AF)) < 1.02 * size
    assert more.pop((AF, US)) < 0.01 * size
    assert sum(more.values()) < 1000  # late confirmations of earlier tests


def test_the_hosts_network_is_left_alone(peers: Peers) -> None:
    """No device, no namespace of this process has changed; each peer is in its own."""
    cards = {name for _, name in socket.if_nameindex()}
    assert "wan0" not in cards
    mine = os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116
    assert mine == os.stat(f"/proc/{os.getppid()}/ns/net").st_ino  # noqa: PTH116
    inodes = [os.stat(f"/proc/{p.pid}/ns/net").st_ino for p in peers.processes]  # noqa: PTH116
    assert len({mine, *inodes}) == 1 + len(inodes)


def test_a_gloo_all_reduce_is_not_faster_than_its_link_and_its_bytes_are_counted(
    peers: Peers,
) -> None:
    """Each of two ranks sends the whole vector in two halves, 0.5 s at 20 Mb/s, and waits at least
    5 ms.
    """
    pytest.importorskip("torch")
    bits, rtt = WAYS["EU"]
    size = 1_250_000
    before = peers.network.traffic()
    run = [sys.executable, str(HERE / "shaped_peer.py"), peers.network.addresses[US]]
    ranks = [
        subprocess.Popen(
            peers.network.command(machine, [*run, str(rank), str(size)]),
            stdout=subprocess.PIPE,
            env={**os.environ, **ENVIRONMENT},
        )
        for rank, machine in enumerate((US, EU))
    ]
    taken = [float(process.communicate(timeout=PROCESS_TIMEOUT_S)[0]) for process in ranks]
    after = peers.network.traffic()
    assert size / (bits / 8) + rtt <= max(taken)
    assert 5 * size < after[US, EU][0] - before[US, EU][0] < 1.02 * 5 * size + 20_000

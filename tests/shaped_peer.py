"""A process on one machine of a shaped network, for `test_shaped_network.py`: answers others, and
sends when it is told to.

``python shaped_peer.py ADDRESS`` reads commands from stdin, each a line of JSON [address, port,
bytes, streams], and answers with the seconds that the transfer took until the last byte was
confirmed. Ends with stdin.

``python shaped_peer.py ADDRESS RANK BYTES`` is one of two ranks of gloo that meet at an address,
and says how long the fastest of five all-reduces took, seconds.
"""

import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress

BLOCK = 1 << 20


def main() -> None:
    """Listen, say where, obey."""
    own = sys.argv[1]
    if len(sys.argv) > 2:
        gloo(own, *map(int, sys.argv[2:]))
        return
    listener = socket.create_server((own, 0))
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    say(listener.getsockname()[1])
    opened: dict[tuple[str, int, int], socket.socket] = {}
    for line in sys.stdin:
        address, port, size, streams = json.loads(line)
        for number in range(streams):
            if (address, port, number) not in opened:
                made = opened[address, port, number] = socket.create_connection(
                    (address, port), timeout=60
                )
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each = size // streams
        message = each.to_bytes(8, "big") + bytes(each)
        threads = [
            threading.Thread(target=send, args=(opened[address, port, n], message))
            for n in range(streams)
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        say(time.perf_counter() - began)


def send(link: socket.socket, message: bytes) -> None:
    """Send a message and wait for the word that all has come."""
    link.sendall(message)
    link.recv(1)


def serve(listener: socket.socket) -> None:
    """Take connections."""
    while True:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=confirm, args=(link,), daemon=True).start()


def confirm(link: socket.socket) -> None:
    """Take each message and confirm it."""
    space = bytearray(BLOCK)
    with suppress(OSError):
        while head := link.recv(8, socket.MSG_WAITALL):
            left = int.from_bytes(head, "big")
            while left:
                left -= link.recv_into(space, min(left, BLOCK))
            link.sendall(b"\0")


def gloo(meet: str, rank: int, size: int) -> None:
    """Take five all-reduces with another rank."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", f"tcp://{meet}:29500", rank=rank, world_size=2)
    vector, taken = torch.ones(size // 4), []
    for _ in range(5):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(vector)
        taken.append(time.perf_counter() - began)
    assert vector[0] == 2.0**5
    say(min(taken))
    os._exit(0)


def say(words: object) -> None:
    """Answer."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

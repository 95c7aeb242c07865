"""The process that carries connections: ``python -m
placer.launch.shaped_network.streams.stream_relay``, see
`placer.launch.shaped_network.relay_protocol`.

Processes of the machines ask it with a datagram where they find an address of another machine
(`placer.launch.shaped_network.addresses`).
"""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from typing import Any

from placer.launch.shaped_network.addresses import LOOPBACK
from placer.launch.shaped_network.relay_protocol import serve, traffic
from placer.launch.shaped_network.streams.streams import Streams

QUESTION_BYTES = 4096


def main() -> None:
    """Carry connections until stdin ends."""
    serve(StreamRelay)


class StreamRelay:
    """All machines and their links.

    Parameters
    ----------
    request
        ``machines``: addresses by which each machine sees each, its own on the diagonal; ``links``:
        src, dst, stream and pair bytes/s, delay in s.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.machines: list[list[str]] = request["machines"]
        self.numbers = {seen[number]: number for number, seen in enumerate(self.machines)}
        self.loop = Streams(
            {
                (src, dst): (stream, pair, delay)
                for src, dst, stream, pair, delay in request["links"]
            }
        )
        self.ports: dict[tuple[int, int, int], int] = {}
        self.questions = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.questions.bind((LOOPBACK, 0))
        self.questions.setblocking(False)
        self.loop.watch(self.questions.fileno(), self._answer)
        self.greeting = {"port": self.questions.getsockname()[1]}

    def figures(self) -> dict[str, Any]:
        """Return what it has carried so far."""
        return traffic(self.loop.queues, self.loop.links)

    def seen(self, machine: int, address: str, port: int) -> tuple[str, int]:
        """Return the address and port at which a machine reaches a port of another; anything else
        stays as it is.

        Raises
        ------
        OSError
            If there are too many connections.
        """
        dst = self.numbers.get(address)
        if dst is None or dst == machine:
            return address, port
        where = self.machines[machine][dst]
        key = machine, dst, port
        if key not in self.ports:
            self.ports[key] = self.loop.listen(where, machine, dst, (address, port))
        return where, self.ports[key]

    def _answer(self) -> None:
        try:
            question, sender = self.questions.recvfrom(QUESTION_BYTES)
            machine, address, port = json.loads(question)
            answer: Any = self.seen(machine, address, port)
        except BlockingIOError:
            return
        except (OSError, ValueError, TypeError, IndexError) as error:
            answer = f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            self.questions.sendto(json.dumps(answer).encode(), sender)


if __name__ == "__main__":
    main()

"""Machines of a run, each forked from the server that has PyTorch loaded in place of a process that
imports it for two seconds of CPU time.

What a user's launcher starts is tried where a command or a script is a process of its own.
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from forked_ranks import _server

from placer.launch.runtime.processes import launcher
from placer.launch.shaped_network import kernel

USUAL = launcher.MACHINE
ABOVE = 500
"""No process of a test has so many files open."""


class Forked:
    """A machine's process, as `subprocess.Popen` shows it."""

    def __init__(
        self, network: str, numbers: Sequence[int], environment: Mapping[str, str]
    ) -> None:
        read, write = os.pipe()
        self.stdin = open(write, "wb")  # noqa: PTH123, SIM115 - a descriptor, closed by the launcher
        ready, said = _server().Pipe(duplex=False)
        given = [Connection(os.dup(number)) for number in (read, *numbers)]
        os.close(read)
        where = (network, str(Path.cwd()), {**environment})
        self.process = _server().Process(target=_machine, args=(where, (0, *numbers), given, said))
        self.process.start()
        for connection in (said, *given):
            connection.close()
        ready.poll(None)  # its session is there to be killed, or it has ended
        ready.close()
        self.pid: int = self.process.pid

    def wait(self) -> int:
        """Return the exit code when it has ended."""
        self.process.join()
        return int(self.process.exitcode)


def _machine(
    where: tuple[str, str, dict[str, str]],
    numbers: Sequence[int],
    given: Sequence[Connection],
    said: Connection,
) -> None:
    """Take descriptors, environment and network of a machine for one's own, and be it."""
    network, folder, environment = where
    os.setsid()
    said.send_bytes(b"")
    said.close()
    kept = [fcntl.fcntl(connection.fileno(), fcntl.F_DUPFD, ABOVE) for connection in given]
    for connection in given:
        connection.close()
    for descriptor, number in zip(kept, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if network:
        with Path(network).open("rb") as namespace:
            kernel._call("setns", namespace.fileno(), kernel.CLONE_NEWNET)
    from placer.launch.runtime.processes import machine

    machine.main()


def started(words: Sequence[str], **how: Any) -> Any:
    """Start a process as `subprocess.Popen`; a machine is forked, also into a network of root's."""
    prefix, command = words[: -1 - len(USUAL)], tuple(words[-len(USUAL) :])
    networks = [word.removeprefix("--net=") for word in prefix if word.startswith("--net=")]
    if command != USUAL or len(prefix) != (3 if networks else 0):
        return subprocess.Popen(words, **how)
    return Forked("".join(networks), how["pass_fds"], how["env"])

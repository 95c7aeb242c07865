"""Local object stores for the time of a run, one process each
(`placer.launch.runtime.stores.local_store`).
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from placer.documents.manifest.types import Bucket
from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import LOOPBACK
from placer.version import install_line

if TYPE_CHECKING:
    from placer.launch.shaped_network import ShapedNetwork

START_S = 30.0
"""A store answers within so many seconds of its start."""
LOG = "object-store.log"


@dataclass(frozen=True, kw_only=True)
class LocalStore:
    """A local store that runs: its bucket, process and address."""

    bucket: Bucket
    process: subprocess.Popen[str]
    address: str

    @property
    def label(self) -> str:
        """Return the name of the store in messages."""
        return f"the object store in {self.bucket.place} ({self.bucket.name})"


@contextmanager
def local_object_stores(
    folder: Path,
    buckets: Sequence[Bucket],
    network: ShapedNetwork | None = None,
    first: int = 0,
) -> Iterator[tuple[LocalStore, ...]]:
    """Serve an object store for each bucket on this machine with moto.

    Parameters
    ----------
    folder
        Of their log.
    network, first
        On which they run, and the machine of the first one there; None: on 127.0.0.1.

    Raises
    ------
    PlacerError
        If moto is missing, or a store does not start.
    """
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "waitress")):
        raise PlacerError(
            "this exchange needs an object store, and none is given",
            f"give --endpoint-url, or install a local one: {install_line('rehearse')}",
        )
    log = folder / LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = log.open("wb")
    except OSError as error:
        raise PlacerError(
            f"cannot write '{log}': {error.strerror}", "choose another --out"
        ) from None
    with file, ExitStack() as stack:
        until = time.monotonic() + START_S
        processes = [
            stack.enter_context(_process(network, first + number, file))
            for number, _ in enumerate(buckets)
        ]  # all start before the first is waited for
        yield tuple(
            LocalStore(bucket=bucket, process=process, address=_address(process, until, log))
            for bucket, process in zip(buckets, processes, strict=True)
        )


@contextmanager
def _process(
    network: ShapedNetwork | None, machine: int, log: IO[bytes]
) -> Iterator[subprocess.Popen[str]]:
    address = LOOPBACK if network is None else network.addresses[machine]
    argv = [sys.executable, "-m", "placer.launch.runtime.stores.local_store", address]
    process = subprocess.Popen(  # noqa: S603 - this interpreter
        argv if network is None else network.command(machine, argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()  # closes the pipes


def _address(process: subprocess.Popen[str], until: float, log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http") or time.monotonic() > until:
        raise PlacerError(
            "the local object store did not start",
            f"see {log}, or give --endpoint-url",
            exit_code=1,
        )
    return line.strip()

"""Local object stores for the time of a run, one process each: ``python -m
placer.launch.runtime.stores.local_store ADDRESS`` serves S3 by moto on a free port of that address
until stdin ends.

The server is waitress, which keeps connections open as the stores of clouds do; moto's own closes
each, so that every request would open a new one and start slowly.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from placer.documents.manifest.types import Bucket
from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import LOOPBACK
from placer.version import install_line

if TYPE_CHECKING:
    from placer.launch.shaped_network import ShapedNetwork

LOG = "object-store.log"
THREADS = 32
"""Requests at a time; the clients are the workers and one function."""
LARGEST = 1 << 34
"""Objects stay in memory, whatever their size."""
RECEIVED_AT_ONCE = 1 << 18


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
    started: list[subprocess.Popen[str]] = []
    try:
        for number, _ in enumerate(buckets):  # all start before the first is waited for
            address = LOOPBACK if network is None else network.addresses[first + number]
            argv = [sys.executable, "-m", __name__, address]
            started.append(
                subprocess.Popen(  # noqa: S603 - this interpreter
                    argv if network is None else network.command(first + number, argv),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=file,
                    text=True,
                )
            )
        yield tuple(
            LocalStore(bucket=bucket, process=process, address=_address(process, log))
            for bucket, process in zip(buckets, started, strict=True)
        )
    finally:
        for process in started:
            process.kill()
            process.communicate()  # closes the pipes
        file.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise PlacerError(
            "the local object store did not start",
            f"see {log}, or give --endpoint-url",
            exit_code=1,
        )
    return line.strip()


def main() -> None:
    """Serve, say the address, wait for the end of stdin."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from waitress.server import create_server

    server = create_server(
        DomainDispatcherApplication(create_backend_app),
        host=sys.argv[1],
        port=0,
        threads=THREADS,
        inbuf_overflow=LARGEST,
        outbuf_overflow=LARGEST,
        outbuf_high_watermark=LARGEST,
        max_request_body_size=LARGEST,
        recv_bytes=RECEIVED_AT_ONCE,
    )
    threading.Thread(target=server.run, daemon=True).start()
    sys.stdout.write(f"http://{sys.argv[1]}:{server.effective_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()

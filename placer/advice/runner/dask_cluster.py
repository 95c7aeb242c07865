"""A Dask cluster that solves questions."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

from placer.advice.runner.runner import Runner, Task
from placer.errors import FailureError, PlacerError
from placer.version import install_line

SILENT_S = 10.0
"""Longest wait for the scheduler to answer."""
WORKERLESS_S = 15.0
"""A cluster whose workers have been gone for so long gets no new ones by itself."""


@contextlib.contextmanager
def dask(shared: Any, address: str) -> Iterator[Runner]:
    """Solve questions on a Dask cluster through the executor of its client; the shared part is sent
    there once. The questions of a worker that dies go to the others.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise PlacerError(
            "--dask needs the package distributed", f"install it: {install_line('dask')}"
        ) from None
    try:
        client = distributed.Client(address, timeout=f"{SILENT_S}s")
    except (OSError, ValueError, TimeoutError) as error:
        raise PlacerError(
            f"no Dask scheduler answers at '{address}' ({type(error).__name__})",
            "give it as tcp://host:8786",
        ) from None
    with client:
        workers = sum(client.nthreads().values())
        if not workers:
            raise PlacerError(
                f"the Dask cluster at '{address}' has no workers", "start some: dask worker ADDRESS"
            )
        seen = [time.monotonic()]

        def check() -> None:
            """Give up where there has been no worker for `WORKERLESS_S`."""
            if client.nthreads():
                seen[0] = time.monotonic()
            elif time.monotonic() - seen[0] > WORKERLESS_S:
                raise _workers_died(address)

        executor = client.get_executor(pure=False)
        try:
            sent = client.scatter(shared, broadcast=True)
            yield Runner(
                submit=lambda task, item: executor.submit(_solve_there, task, sent, item),
                workers=workers,
                check=check,
            )
        except (
            CancelledError,  # with its workers went what was sent to them
            OSError,  # its connections, and time-outs
            distributed.KilledWorker,
        ):
            raise _workers_died(address) from None
        finally:
            executor.shutdown(wait=False)


def _solve_there(task: Task, shared: Any, item: Any) -> Any:
    return task(shared, item)


def _workers_died(address: str) -> PlacerError:
    return FailureError(
        f"the workers of the Dask cluster at '{address}' died",
        "what -o FILE has is kept: start workers (dask worker ADDRESS), and run the same command "
        "again",
    )

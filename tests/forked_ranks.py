"""Ranks of a run without launcher and agents, forked from a server that has PyTorch loaded: the
arithmetic of an exchange in a fraction of the time.
"""

import json
import multiprocessing
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from run_plans import plan_of, settings_of

from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import (
    LIGHTHOUSE,
    LOOPBACK,
    serve_lighthouse,
    store_at,
)
from placer.launch.runtime.processes.worker import run_worker

OURS = "placer.launch.runtime.processes"
PRELOADED = ["torch", "torch._dynamo", "boto3", f"{OURS}.machine", f"{OURS}.worker"]
LONGEST_S = 240.0
Record = dict[str, Any]


@cache
def _server() -> Any:
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(PRELOADED)
    return made


def _rank(job: Record, pipe: Connection) -> None:
    os.environ |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    os.environ["PLACER_TEST_RANK"] = str(job["seats"][0]["rank"])
    os.environ |= {"RUST_LOG": "error", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    run_worker({**job, "pipes": [pipe.fileno()]})
    os._exit(0)


def signalling(rank: int, at_step: int, how: signal.Signals) -> Callable[[Record], None]:
    """Send a signal to a rank when it has reported a step."""
    pids: dict[int, int] = {}

    def watch(record: Record) -> None:
        if record["kind"] == "ready":
            pids[record["rank"]] = record["pid"]
        elif record["kind"] == "step" and (record["rank"], record["step"]) == (rank, at_step):
            os.kill(pids[rank], how)

    return watch


def ran(
    folder: Path, told: Record, watch: Callable[[Record], None] = lambda record: None, **other: Any
) -> list[Record]:
    """Run all ranks of a manifest; return their records in the order of arrival.

    Raises
    ------
    PlacerError
        The first that a rank reports.
    """
    plan = plan_of(told)
    settings = settings_of(folder, plan, **other)
    store = store_at(LOOPBACK, 0, 60.0)
    if plan.engine == "torchft":
        lighthouse, address = serve_lighthouse(plan, LOOPBACK, settings.timeout_s)
        store.set(LIGHTHOUSE, address)
    shared = {"manifest": told, "settings": asdict(settings), "host": LOOPBACK, "port": store.port}
    processes, selector, records = [], selectors.DefaultSelector(), list[Record]()
    try:
        for seat in plan.seats(settings.processes):
            mine, theirs = _server().Pipe(duplex=False)
            job = {**shared, "address": LOOPBACK, "seats": [asdict(seat)]}
            processes.append(_server().Process(target=_rank, args=(job, theirs), daemon=True))
            processes[-1].start()
            theirs.close()
            selector.register(mine, selectors.EVENT_READ, bytearray())
        _read(selector, records, watch)
    finally:
        for process in processes:
            process.kill()
            process.join()
        if plan.engine == "torchft":
            lighthouse.shutdown()
    return records


def _read(
    selector: selectors.BaseSelector, records: list[Record], watch: Callable[[Record], None]
) -> None:
    until = time.monotonic() + LONGEST_S
    while selector.get_map():
        assert time.monotonic() < until, records[-5:]
        for key, _ in selector.select(1.0):
            data = os.read(key.fd, 1 << 16)
            if not data:
                selector.unregister(key.fileobj)
                continue
            key.data.extend(data)
            *lines, rest = bytes(key.data).split(b"\n")
            key.data[:] = rest
            for line in lines:
                record = json.loads(line)
                records.append(record)
                watch(record)
                if record["kind"] == "error":
                    raise PlacerError(record["message"], record["hint"], record["exit_code"])
                if record["kind"] == "fault":
                    raise PlacerError(f"lost {record['lost']}: {record['reason']}", exit_code=1)

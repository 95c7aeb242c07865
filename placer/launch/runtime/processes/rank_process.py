"""The process of one rank: it runs its job, reports records, and ends with its launcher.

The launcher holds one end of a pipe open as long as it lives. When that closes, the process ends,
so nothing is left behind even when the launcher is killed.

The process always ends by ``os._exit``, and its process groups are never destroyed. Their
destructor can hang for ever: ``~ProcessGroupGloo`` joins gloo's thread while the main thread holds
the GIL, and gloo's thread may wait for the GIL to free a collective. Three rules prevent that.

* ``torch.distributed`` refers to every group until the end, as ``destroy_process_group`` is never
  called.
* `placer.launch.runtime.processes.rank_run` refers to the user's model, which may hold groups,
  works or data loaders of its own, until the end.
* Ranks only send and receive dense tensors point to point (`placer.launch.runtime.wire.wire`), so
  gloo's thread has no collective to free.

If a rank hangs in exit all the same, the launcher kills it after a deadline
(`placer.launch.runtime.processes.launcher`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.island.seats import Seat
from placer.launch.runtime.processes.loopback_store import store_at
from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan, plan_from
from placer.launch.runtime.training.context import Settings
from placer.market.sources.reading.web_address import without_secrets

FAILED, LOST = 1, 75
"""Exit codes: this process failed; another was lost (EX_TEMPFAIL)."""
GATHER_S = 60.0
"""Time for rank 0 to collect the records of a machine that has ended."""


def main(job: dict[str, Any], records: Connection, alive: Connection) -> None:
    """Run a job and end the process without any destructor; see above.

    Parameters
    ----------
    job
        Of `placer.launch.runtime.processes.launcher`.
    records
        Takes records, JSON.
    alive
        Ends with the launcher.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the launcher, which ends all
    os.dup2(2, 1)  # what the user's code prints is not a result
    os.environ.update(job["extra"])
    lock = threading.Lock()

    def report(record: dict[str, Any]) -> None:
        with lock:
            records.send_bytes(json.dumps(record).encode())

    os._exit(_code(job, alive, report))


def _code(job: dict[str, Any], alive: Connection, report: Callable[[dict[str, Any]], None]) -> int:
    """Run the job; every failure becomes a record and an exit code."""
    try:
        _join_user(job)
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
        _run(job, report)
    except PlacerError as error:
        report(
            {
                "kind": "error",
                "rank": job["seat"]["rank"],
                "message": error.message,
                "hint": error.hint,
                "exit_code": error.exit_code,
            }
        )
        return FAILED
    except PeerLostError:
        return LOST
    except BaseException as error:
        words = " ".join(without_secrets(f"{type(error).__name__}: {error}").split())[:300]
        report(
            {
                "kind": "error",
                "rank": job["seat"]["rank"],
                "message": words,
                "hint": "PLACER_DEBUG=1 shows the traceback",
                "exit_code": 1,
            }
        )
        if os.environ.get("PLACER_DEBUG"):
            sys.excepthook(type(error), error, error.__traceback__)
        return FAILED
    finally:
        sys.stderr.flush()
    return 0


def _join_user(job: dict[str, Any]) -> None:
    """Join the user namespace of a network that needs no root: the kernel wants that before there
    is a second thread.
    """
    if job["network"] is not None:
        from placer.launch.shaped_network.entrance import enter_user

        enter_user(job["network"])


def _end_with(alive: Connection) -> None:
    try:
        alive.recv_bytes()
    except (EOFError, OSError):
        os._exit(FAILED)


def _run(job: dict[str, Any], report: Callable[[dict[str, Any]], None]) -> None:
    from placer.launch.runtime.processes.rank_run import work

    settings, seat = Settings(**job["settings"]), Seat(**job["seat"])
    plan = plan_from(job["manifest"], "manifest", deployed=settings.deployed)
    store, backend = _store(job), "gloo"
    if job["network"] is not None:  # the socket to the store stays outside: control is not shaped
        from placer.launch.shaped_network.entrance import enter

        enter(job["network"])
    if not job["gather"] or seat.member:
        work(plan, settings, seat, store, report, backend, job["card"])
        return
    mine: list[dict[str, Any]] = []

    def both(record: dict[str, Any]) -> None:
        mine.append(record)
        report(record)

    work(plan, settings, seat, store, both, backend, job["card"])
    _gather(plan, job, store, mine, report)


def _store(job: dict[str, Any]) -> Any:
    """Connect to the store at which all ranks meet, or serve it."""
    from torch.distributed import TCPStore

    host, port, serves = job["store"]
    join_s = job["settings"]["join_s"]
    try:
        if serves:
            return store_at(host, port, "choose another: MASTER_PORT, or --port", join_s)
        return TCPStore(
            host,
            port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=join_s),
        )
    except (RuntimeError, ValueError) as error:
        words = " ".join(str(error).split())
        raise PlacerError(
            f"cannot reach rank 0 at {host}:{port}: {words[:160]}",
            "start rank 0, check MASTER_ADDR and firewalls",
            exit_code=1,
        ) from None


def _gather(
    plan: RunPlan,
    job: dict[str, Any],
    store: Any,
    mine: list[dict[str, Any]],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Hand the records of other machines to the launcher of rank 0, which writes the whole log."""
    rank = job["seat"]["rank"]
    if rank != 0:
        store.set(f"records/{rank}", json.dumps(mine))
        store.wait(
            ["gathered"], timedelta(seconds=GATHER_S)
        )  # rank 0 serves the store until all is handed over
        return
    until = time.monotonic() + GATHER_S
    for other in sorted(set(range(plan.ranks)) - set(job["here"])):
        if plan.quorum is not None and not _has_ended(store, other, until):
            continue  # the run went on without it
        for record in json.loads(store.get(f"records/{other}")):
            report(record)
    store.set("gathered", "1")
    threading.Event().wait(0.5)  # the others read the answer before the store goes


def _has_ended(store: Any, rank: int, until: float) -> bool:
    """Wait for the records of another machine; return whether they have come in time."""
    while not store.check([f"records/{rank}"]):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True

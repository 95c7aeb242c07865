"""The processes of one machine of a run: ``python -m placer.launch.runtime.processes.machine``.

PyTorch's elastic agent, which is torchrun's, starts and watches the workers. They are forked here
where the machine has no GPU, so PyTorch is imported once. The job comes as the first line of stdin,
records go to pipes. The run's first machine serves the store at which all meet, and torchft's
lighthouse; the first of each launcher then hands over records, as later lines of stdin ask.
On Linux everything ends with its launcher, also after SIGKILL.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from placer.errors import PlacerError
from placer.launch.runtime.processes.loopback_store import (
    LIGHTHOUSE,
    connected,
    serve_lighthouse,
    store_at,
)
from placer.launch.runtime.processes.reports import Report, error_record, reporter
from placer.launch.runtime.run_plan import RunPlan, plan_from
from placer.launch.shaped_network.kernel import end_with_parent

SHUTDOWN_S = 5
"""Between SIGTERM and SIGKILL for the other workers of a machine when one has failed."""


def main() -> None:
    """Run the job of stdin; end without any destructor, as one of gloo can hang."""
    end_with_parent()
    logging.disable(logging.CRITICAL)  # of the agent, which logs a lost worker as a traceback
    gc.disable()  # to look for garbage took a sixth of the time in which PyTorch is imported
    job = json.loads(sys.stdin.readline())
    os.environ.update(job["environment"])
    report = reporter(job["pipes"][-1])
    # In a thread: a worker that does not end holds up the agent, and no record.
    answers = threading.Thread(target=_hand_over, args=(job, report), daemon=True)
    if job["first"]:
        answers.start()
    try:
        how = _run(job)
    except PlacerError as error:
        report(error_record(job["seats"][0]["rank"], error))
        how = {"code": 1}
    report({"kind": "exit", **how})
    if job["first"]:
        answers.join()  # the launcher still needs it, and the others the store
    os._exit(1 if how["code"] else 0)


def _hand_over(job: dict[str, Any], report: Report) -> None:
    """Do what the launcher asks: give the store its records, and wait for those of others.

    The file is no other's: a fork would take along the lock of one that is being read.
    """
    with os.fdopen(os.dup(sys.stdin.fileno()), encoding="utf-8") as requests:
        for line in requests:
            asked, message = json.loads(line), ""
            try:
                _exchange(connected(job["host"], job["port"], asked["wait_s"]), asked, report)
            except (PlacerError, RuntimeError) as error:
                message = " ".join(str(error).split())[:160]
            report({"kind": "answer", "message": message})


def _exchange(store: Any, asked: dict[str, Any], report: Report) -> None:
    for machine, records in asked["own"].items():
        store.set(f"records/{machine}", json.dumps(records))
    store.check(["records"])  # its answer says that all have come
    until = time.monotonic() + asked["wait_s"]
    for machine in asked["others"]:
        key = f"records/{machine}"
        while not store.check([key]) and time.monotonic() < until:
            time.sleep(0.05)
        if store.check([key]):
            report({"kind": "handed", "machine": machine, "records": json.loads(store.get(key))})


def _run(job: dict[str, Any]) -> dict[str, int]:
    """Start the workers and wait; return code 0, or how the first that failed has ended."""
    plan, join_s = plan_from(job["manifest"], "manifest"), job["settings"]["join_s"]
    host, port = job["host"], job["port"]
    if not job["serves"]:
        return _agent(job, connected(host, port, join_s))
    lighthouse = _lighthouse(plan, job) if plan.engine == "torchft" else ""
    store = store_at(host, port, join_s, job["listening"])
    store.set(LIGHTHOUSE, lighthouse)
    return _agent(job, store)


def _lighthouse(plan: RunPlan, job: dict[str, Any]) -> str:
    """Serve torchft's lighthouse in a process: its threads do not survive a fork."""
    read, write = os.pipe()
    if os.fork() == 0:
        end_with_parent()
        _server, address = serve_lighthouse(plan, job["address"], job["settings"]["timeout_s"])
        os.write(write, address.encode())
        os.close(write)
        while True:
            signal.pause()
    os.close(write)
    with os.fdopen(read) as answer:
        return answer.read()


def _agent(job: dict[str, Any], store: Any) -> dict[str, int]:
    """Run the workers of this machine; machines of a world meet in a part of the run's store."""
    import torch
    import torch.distributed as dist
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import (
        RendezvousInfo,
        RendezvousStoreInfo,
        rendezvous_handler_registry,
    )
    from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from placer.launch.runtime.processes.worker import run_worker

    name, world, node, nodes = "placer", job["seats"][0]["world"], job["node"], job["nodes"]

    class Meeting(StaticTCPRendezvous):  # type: ignore[misc]
        """The machines of a world, in the order of the plan."""

        def get_backend(self) -> str:
            """Return the name under which it is asked for."""
            return name

        def next_rendezvous(self) -> RendezvousInfo:
            """Meet in the run's store."""
            part = dist.PrefixStore(f"agents/{world}", store)
            return RendezvousInfo(part, node, nodes, RendezvousStoreInfo(job["host"], job["port"]))

    rendezvous_handler_registry.register(
        name, lambda _: Meeting(job["host"], job["port"], node, nodes, name, 1)
    )
    on_gpu = job["settings"]["device"].startswith("cuda") or (
        not job["settings"]["device"] and torch.cuda.is_available()
    )
    forks = not on_gpu and sys.platform == "linux"
    if forks:  # the first optimizer of a process imports for a second
        torch.set_num_threads(1)
        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        gc.freeze()  # workers share what is imported until somebody looks at it
    gc.enable()
    config = LaunchConfig(
        min_nodes=nodes,
        max_nodes=nodes,
        nproc_per_node=len(job["seats"]),
        run_id=name,
        rdzv_backend=name,
        rdzv_endpoint=f"{job['host']}:{job['port']}",
        max_restarts=0,
        monitor_interval=0.05,
        start_method="fork" if forks else "spawn",
        shutdown_timeout=SHUTDOWN_S,
        logs_specs=DefaultLogsSpecs(log_dir=os.devnull),
    )
    try:
        elastic_launch(config, run_worker)(job)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return {"local": failure.local_rank, "code": failure.exitcode}
    return {"code": 0}


if __name__ == "__main__":
    main()

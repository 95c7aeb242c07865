"""A run from the words of the command: which ranks are here, where all meet, the log, and what came of it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.runtime.context import Settings
from placer.runtime.launcher import Job, Launcher, Record
from placer.runtime.plan import Plan
from placer.runtime.run_log import RunLog

if TYPE_CHECKING:
    from placer.rehearsal.network import ShapedNetwork

LOOPBACK = "127.0.0.1"
MOTO_S = 30.0
"""The local object store answers within so many seconds of its start."""


def run_here(
    plan: Plan,
    document: Mapping[str, Any],
    settings: Settings,
    folder: Path,
    watch: Callable[[Record], None],
    port: int = 0,
    network: ShapedNetwork | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> list[Record]:
    """Run all ranks of a plan on this machine.

    Parameters
    ----------
    plan, document
        The manifest, read and raw.
    settings
        How it is run.
    folder
        Of ``run.jsonl``.
    watch
        Called with each record.
    port
        Of the store at which the processes meet; 0: a free one.
    network
        Rank i runs on its machine i, a local object store on the machine after the last rank; None: all on the loopback device.
    environment
        Variables that all processes get.

    Returns
    -------
    list of dict
        All records, as in the log.
    """
    from torch.distributed import TCPStore

    try:
        store = TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False)
    except RuntimeError as error:
        if "in use" in str(error):
            raise PlacerError(f"port {port} is taken", "choose another --port, or leave it out for a free one", exit_code=1) from None
        raise PlacerError(
            f"cannot serve on port {port}: {' '.join(str(error).split())[:160]}", "choose another --port", exit_code=1
        ) from None
    joined = {} if network is None else {rank: network.entry(rank) for rank in range(plan.ranks)}
    store_entry = network.entry(plan.ranks) if network is not None and plan.bucket is not None else None
    links = "loopback" if network is None else "shaped"
    with ExitStack() as stack:
        extra = dict(environment)
        if plan.bucket is not None and not settings.endpoint_url:
            settings = replace(settings, endpoint_url=stack.enter_context(local_object_store(folder, store_entry)))
            extra |= {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}
        ranks = tuple(range(plan.ranks))
        job = Job(document=document, ranks=ranks, host=LOOPBACK, port=store.port, serves=False, links=links, extra=extra, network=joined)
        return _logged(plan, settings, job, store, folder, watch)


def run_ranks(
    plan: Plan, document: Mapping[str, Any], settings: Settings, folder: Path, watch: Callable[[Record], None], ranks: tuple[int, ...]
) -> list[Record]:
    """Run this machine's ranks; the others run elsewhere and meet at ``MASTER_ADDR``:``MASTER_PORT``, or as the manifest says."""
    meet = plan.rendezvous
    host = os.environ.get("MASTER_ADDR") or os.environ.get(meet.address_variable)
    port = os.environ.get("MASTER_PORT") or str(meet.port)
    if not host:
        raise PlacerError(f"neither MASTER_ADDR nor {meet.address_variable} is set", "set it to the address of rank 0, or add --local")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise PlacerError(f"MASTER_PORT is '{port}'", "give a port, such as 29400")
    world = os.environ.get("WORLD_SIZE", str(plan.ranks))
    if world != str(plan.ranks):
        words = f"WORLD_SIZE is {world}, the manifest has {plan.workers} workers" + (f" and a {plan.hub}" if plan.hub else "")
        raise PlacerError(words, f"set it to {plan.ranks}, or leave it out")
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # under torchrun its agent serves the store
    job = Job(document=document, ranks=ranks, host=host, port=int(port), serves=served, links="real", extra={})
    return _logged(plan, settings, job, None, folder, watch)


def ranks_from(words: str | None, plan: Plan) -> tuple[int, ...]:
    """Read ``3`` or ``0-3``; without words the environment's RANK.

    Raises
    ------
    PlacerError
        If there is no rank, or one that the manifest does not have.
    """
    text = words if words is not None else os.environ.get("RANK", "")
    match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", text.strip())
    if match is None:
        raise PlacerError(
            f"rank '{text}' is no rank" if text else "no rank is given", "set RANK, or --rank 3 or --rank 0-3, or add --local"
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < plan.ranks:
        raise PlacerError(
            f"rank '{text}' is not among 0 to {plan.ranks - 1}",
            f"the manifest has {plan.workers} workers" + (f" and a {plan.hub}, the last rank" if plan.hub else ""),
        )
    return tuple(range(first, last + 1))


def _logged(plan: Plan, settings: Settings, job: Job, store: Any, folder: Path, watch: Callable[[Record], None]) -> list[Record]:
    name = "run.jsonl" if 0 in job.ranks else f"run-rank-{job.ranks[0]}.jsonl"
    set_aside([folder / name] if settings.resume else [folder / name, Path(settings.checkpoints or folder / "checkpoints")])
    with RunLog(folder / name, plan, settings, links=job.links) as log:

        def handle(record: Record) -> None:
            log.write(record)
            watch(record)

        Launcher(plan, settings, job, store, handle).run()
        return log.records


def set_aside(paths: Iterable[Path]) -> None:
    """Give what an earlier run left another name, so that it is neither lost nor taken for this run's: ``run.jsonl.1``."""
    for path in paths:
        if path.exists():
            free = next(other for n in count(1) if not (other := path.with_name(f"{path.name}.{n}")).exists())
            try:
                path.rename(free)
            except OSError as error:
                raise PlacerError(f"cannot rename '{path}': {error.strerror}", "choose another --out") from None


@contextmanager
def local_object_store(folder: Path, entry: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Serve an object store on this machine with moto for the time of a run; yields its address.

    Parameters
    ----------
    folder
        Of its log.
    entry
        Machine of a `placer.rehearsal.network.ShapedNetwork` that it runs on; None: 127.0.0.1.
    """
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "waitress")):
        raise PlacerError(
            "this exchange needs an object store, and none is given",
            "give --endpoint-url, or install a local one: pip install 'placer[rehearse]'",
        )
    said = folder / "object-store.log"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = said.open("wb")
    except OSError as error:
        raise PlacerError(f"cannot write '{said}': {error.strerror}", "choose another --out") from None
    with file:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, a document of our own
            [sys.executable, "-m", "placer.runtime.local_store", *([] if entry is None else [json.dumps(entry)])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
    try:
        assert process.stdout is not None
        began = time.monotonic()
        line = process.stdout.readline()
        if not line.startswith("http") or time.monotonic() - began > MOTO_S:
            raise PlacerError("the local object store did not start", f"see {said}, or give --endpoint-url", exit_code=1)
        yield line.strip()
    finally:
        process.kill()
        process.communicate()  # closes the pipes

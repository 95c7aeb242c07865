"""A run from the options of the command: the ranks of this machine, the rendezvous, the log and the
records.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder, refuse_a_taken_log
from placer.launch.runtime.log.run_log import RunLog
from placer.launch.runtime.processes.launcher import Job, Launcher, Record
from placer.launch.runtime.processes.loopback_store import LOOPBACK, loopback_store
from placer.launch.runtime.processes.store_processes import local_object_stores
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.context import Settings
from placer.market.sources.reading.web_address import is_loopback
from placer.profiler.target import check_target
from placer.records import replace
from placer.units import counted

if TYPE_CHECKING:
    from placer.launch.shaped_network import ShapedNetwork

LOCAL_KEYS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_DEFAULT_REGION": "us-east-1",
}
"""What a client of S3 must have, and a local store does not look at."""


def run_here(
    plan: RunPlan,
    document: Mapping[str, Any],
    settings: Settings,
    folder: Path,
    watch: Callable[[Record], None],
    port: int = 0,
    network: ShapedNetwork | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
    services: Mapping[str, subprocess.Popen[str]] = MappingProxyType({}),
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
        Its machines are those of `RunPlan.machines`: ranks, then local object stores. None: all on
        the loopback device.
    environment
        Variables that all processes get.
    services
        Processes that the run needs, by the name that messages give them: where one ends, so does
        the run.

    Returns
    -------
    list of dict
        All records, as in the log.
    """
    _quieten()
    store = loopback_store(port, "choose another --port, or leave it out for a free one")
    seats = plan.seats(settings.processes)
    joined = {} if network is None else {s.process: network.entry(s.rank) for s in seats}
    links = "loopback" if network is None else "shaped"
    with ExitStack() as stack:
        extra = dict(environment)
        if plan.buckets and not (settings.endpoint_url or settings.endpoints):
            entries = [
                None if network is None else network.entry(plan.ranks + number)
                for number in range(len(plan.buckets))
            ]
            stores = stack.enter_context(local_object_stores(folder, plan.buckets, entries))
            settings = replace(
                settings, endpoints={store.bucket.name: store.address for store in stores}
            )
            services = {**services, **{store.label: store.process for store in stores}}
            extra |= LOCAL_KEYS
        job = Job(
            document=document,
            seats=seats,
            host=LOOPBACK,
            port=store.port,
            serves=False,
            links=links,
            extra=extra,
            network=joined,
        )
        return _logged(plan, settings, job, store, folder, watch, services)


def run_ranks(
    plan: RunPlan,
    document: Mapping[str, Any],
    settings: Settings,
    folder: Path,
    watch: Callable[[Record], None],
    ranks: tuple[int, ...],
    *,
    one_machine: bool = False,
) -> list[Record]:
    """Run the processes of this machine's ranks, which count machines; the others run elsewhere
    and meet at ``MASTER_ADDR``:``MASTER_PORT``, or as the manifest says.

    Notes
    -----
    With ``one_machine``, or where all meet at a loopback address, which no other machine reaches,
    the log says so: such links are not the plan's.
    """
    meet = plan.rendezvous
    host = os.environ.get("MASTER_ADDR") or os.environ.get(meet.address_variable)
    port = os.environ.get("MASTER_PORT") or str(meet.port)
    if not host:
        raise PlacerError(
            f"neither MASTER_ADDR nor {meet.address_variable} is set",
            "set it to the address of rank 0, or add --local",
        )
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise PlacerError(f"MASTER_PORT is '{port}'", "give a port, such as 29400")
    world = os.environ.get("WORLD_SIZE", str(plan.machine_ranks))
    if world != str(plan.machine_ranks):
        words = f"WORLD_SIZE is {world}, the manifest has {_site_group(plan)}"
        raise PlacerError(words, f"set it to {plan.machine_ranks}, or leave it out")
    served = (
        os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    )  # under torchrun its agent serves the store
    _quieten()
    here = one_machine or (plan.machine_ranks > 1 and is_loopback(host))
    links = "loopback" if here else "real"
    job = Job(
        document=document,
        seats=tuple(s for s in plan.seats(settings.processes) if s.machine in ranks),
        host=host,
        port=int(port),
        serves=served,
        links=links,
        extra={},
    )
    check_target(settings.train)  # before a folder is made
    with locked_folder(folder, "run", "--out", must_lock=False, shared=True):
        return _logged(plan, settings, job, None, folder, watch)


def _quieten() -> None:
    """Keep C++ to errors: else a rank that stops leaves 40 lines at each of the others."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def ranks_from(words: str | None, plan: RunPlan) -> tuple[int, ...]:
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
            f"rank '{text}' is not a valid rank" if text else "no rank is given",
            "set RANK, or --rank 3 or --rank 0-3, or add --local",
        )
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last < plan.machine_ranks:
        raise PlacerError(
            f"rank '{text}' is not among 0 to {plan.machine_ranks - 1}",
            f"the manifest has {_site_group(plan)}"
            + (", the last of the ranks" if plan.hub_processes else ""),
        )
    return tuple(range(first, last + 1))


def _site_group(plan: RunPlan) -> str:
    hubs = f" and {counted(plan.hub_processes, plan.hub)}" if plan.hub_processes else ""
    machines = plan.machine_ranks - plan.hub_processes
    islands = f" of {machines} machines" if plan.has_islands else ""
    return f"{counted(plan.workers, 'worker')}{islands}{hubs}"


def _logged(
    plan: RunPlan,
    settings: Settings,
    job: Job,
    store: Any,
    folder: Path,
    watch: Callable[[Record], None],
    services: Mapping[str, subprocess.Popen[str]] = MappingProxyType({}),
) -> list[Record]:
    check_target(settings.train)
    first = job.seats[0].machine
    name = f"run-rank-{first}.jsonl" if first else "run.jsonl"
    refuse_a_taken_log(folder / name)
    set_aside(
        [folder / name]
        if settings.resume
        else [folder / name, Path(settings.checkpoints or folder / "checkpoints")]
    )
    with RunLog(folder / name, plan, settings, links=job.links) as log:

        def handle(record: Record) -> None:
            log.write(record)
            watch(record)

        Launcher(plan, settings, job, store, handle, services).run()
        return log.records


def set_aside(paths: Iterable[Path]) -> None:
    """Give what an earlier run left another name, so that it is neither lost nor taken for this
    run's: ``run.jsonl.1``.
    """
    for path in paths:
        if path.exists():
            free = next(
                other
                for n in count(1)
                if not (other := path.with_name(f"{path.name}.{n}")).exists()
            )
            try:
                path.rename(free)
            except (
                FileNotFoundError
            ):  # the launcher of another rank, which writes here too, was first
                continue
            except OSError as error:
                raise PlacerError(
                    f"cannot rename '{path}': {error.strerror}", "choose another --out"
                ) from None

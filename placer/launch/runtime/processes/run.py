"""A run by the options of the command: this machine's ranks, rendezvous, log and records."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count, groupby
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError, not_installed
from placer.launch.folder_lock import locked_folder, refuse_a_taken_log
from placer.launch.runtime.object_store import local_object_stores
from placer.launch.runtime.processes.launcher import Job, Launcher, Machine, Record
from placer.launch.runtime.processes.loopback_store import LOOPBACK, listen_at
from placer.launch.runtime.run_log import RunLog, summary
from placer.launch.runtime.run_plan import RunPlan, Seat, Settings
from placer.market.sources.reading.web_address import LOOPBACK_INTERFACE, is_loopback
from placer.problem.exchange import fragments
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
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR", "RUST_LOG": "error"}
"""Keeps C++ and torchft to errors: else a rank that stops leaves 40 lines at each of the others."""
GATHER_S = 60.0
"""Time for rank 0 to collect the records of a machine that has ended."""


def run_here(
    plan: RunPlan,
    document: Mapping[str, Any],
    settings: Settings,
    folder: Path,
    watch: Callable[[Record], None],
    network: ShapedNetwork | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> list[Record]:
    """Run all ranks of a plan on this machine, and return the records of its log in ``folder``, the
    last of which compares them with the plan.

    ``network`` has the machines of `RunPlan.machines`; None: all are on the loopback device.
    ``environment`` is added to that of the processes. The run ends with its network and stores.
    """
    if plan.engine == "torchft":
        check_torchft(plan, settings.steps)
    machines = _machines(plan, settings, network)
    host = machines[0].address
    with ExitStack() as stack:
        extra, listening = {**QUIET, **environment}, None
        services = {} if network is None else dict(network.processes)
        port = plan.manifest.rendezvous.port
        if network is None:
            extra["GLOO_SOCKET_IFNAME"] = LOOPBACK_INTERFACE
            served = stack.enter_context(listen_at(host, 0))
            port, listening = served.getsockname()[1], served.fileno()
        else:
            from placer.launch.shaped_network import ENVIRONMENT

            extra |= ENVIRONMENT
        if plan.buckets and not (settings.endpoint_url or settings.endpoints):
            endpoints, stores = stack.enter_context(
                local_object_stores(folder, plan.buckets, network, plan.ranks)
            )
            settings = replace(settings, endpoints=endpoints)
            services |= stores
            extra |= LOCAL_KEYS
        job = Job(
            plan=plan,
            document=document,
            settings=settings,
            machines=machines,
            host=host,
            port=port,
            listening=listening,
            links="loopback" if network is None else "shaped",
            extra=extra,
            services=services,
        )
        return _logged(job, folder, watch)


def _machines(
    plan: RunPlan, settings: Settings, network: ShapedNetwork | None
) -> tuple[Machine, ...]:
    """Start the processes of each world together, or in a network those of each machine.

    Where none has a GPU, and none goes on without another, all start together: PyTorch is imported
    once.
    """
    seats = plan.seats(settings.processes)
    if network is not None:
        return _by_machine(seats, "", network)
    if settings.device == "cpu" and plan.engine != "torchft":
        return (Machine(seats=tuple(seats), address=LOOPBACK),)
    worlds = groupby(seats, key=lambda seat: seat.world)
    return tuple(Machine(seats=tuple(world), address=LOOPBACK) for _, world in worlds)


def _by_machine(
    seats: Sequence[Seat], address: str, network: ShapedNetwork | None = None
) -> tuple[Machine, ...]:
    """Group processes by machine; in a network each has an address of its own."""
    grouped, prefix = [], tuple[str, ...]()
    for number in sorted({seat.machine for seat in seats}):
        own = tuple(seat for seat in seats if seat.machine == number)
        world = sorted({s.machine for s in seats if s.world == own[0].world})
        if network is not None:
            address, prefix = network.addresses[number], tuple(network.command(number, []))
        here = {"node": world.index(number), "nodes": len(world)}
        grouped.append(Machine(seats=own, **here, address=address, prefix=prefix))
    return tuple(grouped)


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
    """Run this machine's ranks, which count machines; the others run elsewhere and meet at
    ``MASTER_ADDR``:``MASTER_PORT``, or as the manifest says.

    With ``one_machine``, or where all meet at a loopback address, which no other machine reaches,
    the log says so: such links are not the plan's.
    """
    meet = plan.manifest.rendezvous
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
    if plan.engine == "torchft":
        check_torchft(plan, settings.steps)
    here = one_machine or (plan.machine_ranks > 1 and is_loopback(host))
    loop = {"GLOO_SOCKET_IFNAME": LOOPBACK_INTERFACE} if is_loopback(host) else {}
    machines = _by_machine(plan.seats(settings.processes), _own_address(host))
    job = Job(
        plan=plan,
        document=document,
        settings=settings,
        machines=tuple(m for m in machines if m.seats[0].machine in ranks),
        host=host,
        port=int(port),
        links="loopback" if here else "real",
        extra={**QUIET, **loop},
    )
    check_target(settings.train)  # before a folder is made
    with locked_folder(folder, "run", "--out", must_lock=False, shared=True):
        return _logged(job, folder, watch)


def check_torchft(plan: RunPlan, steps: int) -> None:
    """Refuse what torchft does not execute as priced, such as a part of a round."""
    exchange = plan.exchange
    name, h = exchange.strategy, exchange.local_steps
    if name == "streaming-diloco" and h % fragments(h):
        raise PlacerError(
            f"torchft sends {fragments(h)} fragments at even distances, not in {h} local steps",
            f"plan it with --local-steps {h // fragments(h) * fragments(h)}",
        )
    if steps % h:
        raise PlacerError(
            f"{steps} steps are no whole rounds of {h} local steps",
            f"give --steps {-(-steps // h) * h}",
        )
    if importlib.util.find_spec("torchft") is None:  # to import it would load PyTorch
        raise not_installed(f"{name} needs torchft", "torchft")


def _own_address(host: str) -> str:
    """Return the address of this machine on the way to another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 9))  # of UDP: nothing is sent
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def ranks_from(words: str | None, plan: RunPlan) -> tuple[int, ...]:
    """Read ``3`` or ``0-3``; without words the environment's RANK."""
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
    islands = f" of {machines} machines" if plan.manifest.has_islands else ""
    return f"{counted(plan.workers, 'worker')}{islands}{hubs}"


def _logged(job: Job, folder: Path, watch: Callable[[Record], None]) -> list[Record]:
    settings = job.settings
    check_target(settings.train)
    first = job.machines[0].seats[0].machine
    name = f"run-rank-{first}.jsonl" if first else "run.jsonl"
    refuse_a_taken_log(folder / name)
    kept = Path(settings.checkpoints or folder / "checkpoints")
    # The first machine alone moves what all of them share.
    own = "://" not in settings.checkpoints and (not first or kept.parent == folder.absolute())
    set_aside([folder / name, *([] if settings.resume or not own else [kept])])
    with RunLog(folder / name, job.plan, settings, links=job.links) as log:

        def handle(record: Record) -> None:
            log.write(record)
            watch(record)

        launcher = Launcher(job, handle)
        launcher.run(lambda: _gather(launcher, log.records, handle))
        if not first:
            log.write(summary(job.plan, settings, log.records))
        return log.records


def _gather(
    launcher: Launcher, records: Sequence[Record], handle: Callable[[Record], None]
) -> None:
    """Hand the records of other machines to rank 0, whose log is the whole one."""
    job = launcher.job
    plan, settings = job.plan, job.settings
    everywhere = {seat.machine for seat in plan.seats(settings.processes)}
    here = {seat.machine for machine in job.machines for seat in machine.seats}
    if everywhere == here:
        return
    if 0 not in here:
        own = {machine: records[1:] if machine == min(here) else [] for machine in here}
        launcher.hand_over({"own": own, "others": [], "wait_s": GATHER_S})
        return
    # Where the run may go on without a machine, it may be gone.
    wait_s = GATHER_S if plan.quorum is None else min(GATHER_S, settings.timeout_s)
    others = sorted(everywhere - here)
    handed = launcher.hand_over({"own": {}, "others": others, "wait_s": wait_s})
    for machine in others:
        if machine in handed:
            for record in handed[machine]:
                handle(record)
        elif plan.quorum is None:
            raise PlacerError(
                f"machine {machine} has not handed over its records within {GATHER_S:g} s",
                f"they are on that machine, in run-rank-{machine}.jsonl",
                exit_code=1,
            )


def set_aside(paths: Iterable[Path]) -> None:
    """Rename what an earlier run left, so that it is not lost or taken: ``run.jsonl.1``."""
    for path in paths:
        if path.exists():
            others = (path.with_name(f"{path.name}.{n}") for n in count(1))
            try:
                path.rename(next(other for other in others if not other.exists()))
            except FileNotFoundError:  # the launcher of another rank here was first
                continue
            except OSError as error:
                raise PlacerError(
                    f"cannot rename '{path}': {error.strerror}", "choose another --out"
                ) from None

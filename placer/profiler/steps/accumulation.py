"""Gradient accumulation over microbatches: by a plain loop, and as DDP and hivemind do it, with
nobody to exchange with.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.util import register_after_fork
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.target.torch_import import load_torch
from placer.profiler.target.workload import Workload

if TYPE_CHECKING:
    import torch

Cycle = Callable[[], None]
"""Accumulates the gradients of one target batch and drops them."""
NEVER = 10**12
"""Target batch of hivemind that no measurement reaches, so that it accumulates and looks for no
peers.
"""


@dataclass(frozen=True, kw_only=True)
class Accumulation:
    """What one cycle does: ``steps`` microbatches of ``microbatch`` samples, each forward pass
    inside ``autocast()``.
    """

    workload: Workload
    device: torch.device
    microbatch: int
    steps: int
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext


@contextmanager
def plain(given: Accumulation) -> Iterator[Cycle]:
    """Accumulate in the gradients of the module itself: what a training loop of one's own does."""
    module, batch, run = _ready(given)

    def cycle() -> None:
        for _ in range(given.steps):
            run(module, batch)
        drop_gradients(module)

    yield cycle


@contextmanager
def ddp(given: Accumulation) -> Iterator[Cycle]:
    """Accumulate under ``no_sync`` of DistributedDataParallel; the last microbatch passes through a
    gloo group of one process.

    Raises
    ------
    PlacerError
        If this PyTorch has no gloo.
    """
    torch = load_torch()
    module, batch, run = _ready(given)
    with _group_of_one(torch) as group:
        run(module, batch)
        unused = any(p.requires_grad and p.grad is None for p in module.parameters())
        drop_gradients(module)
        wrapped = torch.nn.parallel.DistributedDataParallel(
            module, process_group=group, find_unused_parameters=unused
        )

        def cycle() -> None:
            for left in reversed(range(given.steps)):
                with wrapped.no_sync() if left else nullcontext():
                    run(wrapped, batch)
            drop_gradients(module)

        yield cycle


@contextmanager
def hivemind(given: Accumulation) -> Iterator[Cycle]:
    """Accumulate by ``hivemind.Optimizer`` with its default buffers, on a local DHT that has no
    peers.

    Notes
    -----
    The target batch is never reached: matchmaking, averaging and the update belong to the exchange,
    not to the local rate.
    """
    import hivemind as framework
    from hivemind.utils.logging import use_hivemind_log_handler

    torch = load_torch()
    use_hivemind_log_handler("nowhere")
    logging.getLogger("asyncio").setLevel(
        logging.CRITICAL
    )  # its processes end with tasks that they still wait for, and say so
    module, batch, run = _ready(given)
    here = {
        "host_maddrs": ["/ip4/127.0.0.1/tcp/0"],
        "use_ipfs": False,
        "use_relay": False,
        "use_auto_relay": False,
    }
    with _out_of_reach_of_ctrl_c():
        dht = framework.DHT(start=True, **here)
    optimizer = None
    try:
        with _out_of_reach_of_ctrl_c():
            optimizer = framework.Optimizer(
                dht=dht,
                run_id=f"placer-profile-{id(module)}",
                target_batch_size=NEVER,
                batch_size_per_step=given.microbatch,
                optimizer=torch.optim.SGD(
                    [p for p in module.parameters() if p.requires_grad], lr=0.0
                ),
                matchmaking_time=5.0,
                averaging_timeout=10.0,
                verbose=False,
            )
        yield _hivemind_cycle(given, optimizer, lambda: run(module, batch))
    finally:
        if optimizer is not None:
            optimizer.shutdown()
        dht.shutdown()
        drop_gradients(module)


class _Child:
    """Key of a function that runs in forked processes for as long as the key lives."""


@contextmanager
def _out_of_reach_of_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C reach this process alone.

    Notes
    -----
    A terminal sends it to the whole process group: hivemind's daemon would end first and its other
    processes fail with tracebacks, so what is forked gets a group of its own. In this process
    hivemind 1.1.12 sets ``signal.SIG_IGN``: the handler is put back.
    """
    handler, key = signal.getsignal(signal.SIGINT), _Child()
    register_after_fork(key, lambda _: os.setpgid(0, 0))
    try:
        yield
    finally:
        del key
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _hivemind_cycle(given: Accumulation, optimizer: Any, microbatch: Callable[[], None]) -> Cycle:
    def cycle() -> None:
        for _ in range(given.steps):
            microbatch()
            optimizer.step()
            optimizer.zero_grad()

    return cycle


def installed(framework: str) -> bool:
    """Whether a framework can be measured here: its package is there, and gloo for DDP."""
    if framework == "hivemind":
        return importlib.util.find_spec("hivemind") is not None
    distributed = load_torch().distributed
    return bool(distributed.is_available() and distributed.is_gloo_available())


def drop_gradients(module: torch.nn.Module) -> None:
    """Set all gradients to None."""
    for parameter in module.parameters():
        parameter.grad = None


def _ready(given: Accumulation) -> tuple[torch.nn.Module, Any, Callable[[Any, Any], None]]:
    """Put the module on the device, make one batch, and build the pass over a microbatch."""
    module = given.workload.module.to(given.device).train()
    batch = given.workload.batch(given.microbatch, given.device)
    drop_gradients(module)

    def run(model: Any, samples: Any) -> None:
        with given.autocast():
            loss: Any = given.workload.loss(model, samples)
        loss.backward()

    return module, batch, run


@contextmanager
def _group_of_one(torch: Any) -> Iterator[Any]:
    """Open a gloo group of this process alone; it talks to nobody, and its store is memory."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_gloo_available()):
        raise PlacerError(
            "this PyTorch has no gloo",
            "install one with torch.distributed, or leave out --framework ddp",
        )
    if distributed.is_initialized():
        raise PlacerError(
            "a process group is open already", "measure --framework ddp in a process of its own"
        )
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield distributed.group.WORLD
    finally:
        distributed.destroy_process_group()

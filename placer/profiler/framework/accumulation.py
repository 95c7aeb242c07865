"""Accumulate gradients over microbatches in a plain loop, under DDP and under hivemind.

Each runs in one process: nothing is exchanged.
"""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.market.sources.reading.web_address import LOOPBACK_INTERFACE
from placer.profiler.torch_import import load_torch
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch

Cycle = Callable[[], None]
"""Accumulates the gradients of one target batch and drops them."""
INTERFACE = "GLOO_SOCKET_IFNAME"
"""Variable that names the network device of gloo."""
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
def plain(accumulation: Accumulation) -> Iterator[Cycle]:
    """Accumulate in the gradients of the module itself: what a training loop of one's own does."""
    module, batch, run = _ready(accumulation)

    def cycle() -> None:
        for _ in range(accumulation.steps):
            run(module, batch)
        drop_gradients(module)

    yield cycle


@contextmanager
def ddp(accumulation: Accumulation) -> Iterator[Cycle]:
    """Accumulate under ``no_sync`` of DistributedDataParallel.

    The last microbatch passes through a gloo group of one process.

    Raises
    ------
    PlacerError
        If a process group is open already.
    """
    torch = load_torch()
    module, batch, run = _ready(accumulation)
    with _group_of_one(torch) as group:
        run(module, batch)
        unused = any(p.requires_grad and p.grad is None for p in module.parameters())
        drop_gradients(module)
        wrapped = torch.nn.parallel.DistributedDataParallel(
            module, process_group=group, find_unused_parameters=unused
        )

        def cycle() -> None:
            for left in reversed(range(accumulation.steps)):
                with wrapped.no_sync() if left else nullcontext():
                    run(wrapped, batch)
            drop_gradients(module)

        try:
            yield cycle
        finally:
            # DDP must not hold the last reference to the group: its destructor keeps the GIL while
            # it joins gloo's thread, which waits for the GIL to end a sparse all-reduce.
            wrapped = None
            gc.collect()


@contextmanager
def hivemind(accumulation: Accumulation) -> Iterator[Cycle]:
    """Accumulate by ``hivemind.Optimizer`` with its default buffers, on a local DHT without peers.

    Notes
    -----
    The target batch is never reached: matchmaking, averaging and the update belong to the exchange,
    not to the local rate.
    """
    import hivemind as framework
    from hivemind.utils.logging import use_hivemind_log_handler

    torch = load_torch()
    use_hivemind_log_handler("nowhere")
    # Its processes end with tasks that they still wait for, and log that.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    module, batch, run = _ready(accumulation)
    dht = framework.DHT(
        start=True,
        host_maddrs=["/ip4/127.0.0.1/tcp/0"],
        use_ipfs=False,
        use_relay=False,
        use_auto_relay=False,
    )
    optimizer: Any = None
    try:
        optimizer = framework.Optimizer(
            dht=dht,
            run_id=f"placer-profile-{id(module)}",
            target_batch_size=NEVER,
            batch_size_per_step=accumulation.microbatch,
            optimizer=torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=0.0),
            matchmaking_time=5.0,
            averaging_timeout=10.0,
            verbose=False,
        )

        def cycle() -> None:
            for _ in range(accumulation.steps):
                run(module, batch)
                optimizer.step()
                optimizer.zero_grad()

        yield cycle
    finally:
        if optimizer is not None:
            optimizer.shutdown()
        dht.shutdown()
        drop_gradients(module)


def installed(framework: str) -> bool:
    """Tell whether a framework can be measured here: its package exists, and gloo for DDP."""
    if framework == "hivemind":
        return importlib.util.find_spec("hivemind") is not None
    distributed = load_torch().distributed
    return bool(distributed.is_available() and distributed.is_gloo_available())


def drop_gradients(module: torch.nn.Module) -> None:
    """Set all gradients to None."""
    for parameter in module.parameters():
        parameter.grad = None


def _ready(accumulation: Accumulation) -> tuple[torch.nn.Module, Any, Callable[[Any, Any], None]]:
    """Put the module on the device, make one batch, and build the pass over a microbatch."""
    module = accumulation.workload.module.to(accumulation.device).train()
    batch = accumulation.workload.batch(accumulation.microbatch, accumulation.device)
    drop_gradients(module)

    def run(model: Any, samples: Any) -> None:
        with accumulation.autocast():
            loss: Any = accumulation.workload.loss(model, samples)
        loss.backward()

    return module, batch, run


@contextmanager
def _group_of_one(torch: Any) -> Iterator[Any]:
    """Open a gloo group of this process alone; it talks to nobody, and its store is memory.

    Notes
    -----
    Gloo listens all the same, by itself at the address of the machine's name: here on the loopback
    device, unless ``GLOO_SOCKET_IFNAME`` names another one.
    """
    distributed = torch.distributed
    if distributed.is_initialized():
        raise PlacerError(
            "a process group is open already",
            "let the target open no process group, or leave out --framework ddp",
        )
    given = os.environ.get(INTERFACE)
    os.environ[INTERFACE] = given or LOOPBACK_INTERFACE
    try:
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    finally:
        if given is None:
            del os.environ[INTERFACE]
    try:
        yield distributed.group.WORLD
    finally:
        distributed.destroy_process_group()

"""Models whose accumulation under DDP and hivemind is measured, each returned by a function."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from placer.errors import PlacerError
from placer.profiler.workload import Workload

FEATURES = 8


def workload(module: torch.nn.Module, loss: Any = None, **more: Any) -> Workload:
    """A model of 8 features."""

    def square(model: torch.nn.Module, batch: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(batch).square().mean()
        return loss

    return Workload(
        name="tiny",
        title="tiny",
        family="other",
        module=module,
        batch=lambda count, device: torch.randn(count, FEATURES, device=device),
        loss=loss or square,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        **more,
    )


def layers() -> torch.nn.Sequential:
    """Two linear layers: 321 parameters."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    )


def tiny() -> Workload:
    """Twelve samples by four."""
    return workload(layers(), microbatch=4, target_batch_size=12)


class Odd(torch.nn.Module):  # type: ignore[misc]
    """Sparse, tied and frozen parameters, and a layer that the loss does not reach."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, FEATURES, sparse=True)
        self.first = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.second = torch.nn.Linear(FEATURES, FEATURES, bias=False)
        self.second.weight = self.first.weight
        self.frozen = torch.nn.Linear(FEATURES, FEATURES).requires_grad_(False)
        self.unused = torch.nn.Linear(FEATURES, FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Look words up and add them."""
        index = (x[:, 0] > 0).long()
        out: torch.Tensor = self.second(self.first(self.frozen(x))) + self.words(index)
        return out


def odd() -> Workload:
    """What DDP refuses by default."""
    return workload(Odd())


def indexed() -> Workload:
    """A loss that reaches into the module, which DDP wraps: only the plain loop runs."""
    return workload(layers(), lambda model, batch: model[0](batch).square().mean())


def broken() -> Workload:
    """A loss that raises."""

    def divide(model: Any, batch: Any) -> Any:
        raise ZeroDivisionError

    return workload(layers(), divide)


def full() -> Workload:
    """A loss that runs out of memory."""

    def allocate(model: Any, batch: Any) -> Any:
        raise MemoryError("32 GiB")

    return workload(layers(), allocate)


def refused() -> Workload:
    """A function that cannot return its model."""
    raise PlacerError("no weights here", "download them")


def hangs() -> Workload:
    """A loss that under DDP sleeps for ever and keeps the GIL, as the destructor of gloo did."""

    def sleep(model: Any, batch: torch.Tensor) -> torch.Tensor:
        if isinstance(model, torch.nn.parallel.DistributedDataParallel):
            ctypes.PyDLL(None).sleep(100_000)
        loss: torch.Tensor = model(batch).square().mean()
        return loss

    return workload(layers(), sleep)


def step() -> Any:
    """A step function, which shows no gradients."""
    return lambda batch_size: None

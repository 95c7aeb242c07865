"""Bytes that an optimizer keeps for each parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from placer.errors import unknown
from placer.profiler.estimate.counting import said_plainly
from placer.profiler.estimate.meta_twin import meta_twin
from placer.profiler.target.torch_import import load_torch
from placer.units import counted

if TYPE_CHECKING:
    from placer.profiler.workload import Workload

STATES = {
    "sgd": 0,
    "momentum": 1,
    "rmsprop": 1,
    "adagrad": 1,
    "lion": 1,
    "adam": 2,
    "adamw": 2,
    "nadam": 2,
    "lamb": 2,
}
"""FP32 figures that common optimizers keep for each trainable parameter."""
FP32_BYTES = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerState:
    """What an optimizer keeps: its name, bytes, how they are known (``exact`` or ``assumed``) and
    where they come from.
    """

    name: str
    bytes: int
    source: str
    basis: str = "exact"


def optimizer_state(workload: Workload, trainable: int, name: str | None = None) -> OptimizerState:
    """Count the bytes of an optimizer's state after its first step.

    Parameters
    ----------
    workload
        Its own optimizer takes a step on the meta device, where nothing is computed.
    trainable
        Trainable parameters.
    name
        Takes the place of the workload's optimizer: one of `STATES`.

    Raises
    ------
    PlacerError
        If there is no such optimizer.

    Notes
    -----
    An optimizer that looks at values (Adafactor, LBFGS) cannot take a step there: then as many
    figures as Adam keeps are assumed.
    """
    if name is not None:
        if name.lower() not in STATES:
            raise unknown("optimizer", name, STATES)
        return _by_name(name.lower(), trainable)
    torch = load_torch()
    with said_plainly(workload):
        wanted = [p for p in meta_twin(workload.module).parameters() if p.requires_grad]
        optimizer = workload.optimizer(wanted)
    kind = type(optimizer).__name__
    try:
        for parameter in wanted:
            parameter.grad = torch.empty_like(parameter)
        optimizer.step()
    except Exception:  # whatever an optimizer does that the meta device cannot
        words = (
            f"taken as 2 FP32 figures for each trainable parameter, as Adam: {kind} takes no "
            f"step on the meta device"
        )
        return OptimizerState(
            name=kind, bytes=2 * FP32_BYTES * trainable, source=words, basis="assumed"
        )
    states = [
        value
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
    size = sum(int(s.numel()) * s.element_size() for s in states)
    return OptimizerState(name=kind, bytes=size, source=f"a step of {kind} on the meta device")


def _by_name(name: str, trainable: int) -> OptimizerState:
    count = STATES[name]
    words = f"{name}: {counted(count, 'FP32 figure')} for each trainable parameter"
    return OptimizerState(name=name, bytes=FP32_BYTES * count * trainable, source=words)

"""The child process that measures a framework: a JSON request in, JSON lines out.

It loads the target again by its words, so that no object of the user is pickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec import to_builtins

from placer.errors import PlacerError
from placer.profiler.framework.accumulation import Accumulation
from placer.profiler.framework.measurement import measure
from placer.profiler.steps.failures import OutOfMemory, translate_failures
from placer.profiler.steps.precision import autocast
from placer.profiler.target.target import Target
from placer.profiler.target.torch_import import load_torch
from placer.profiler.workload import Workload

MOST_STEPS = 8
"""Most microbatches of one cycle. Longer ones would hide the one that synchronises even better."""
LOADING_S = 600.0
"""Longest time to import PyTorch and to load the target."""
SPARE_S = 30
"""How much later than its parent the child ends itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the child measures; plain values only.

    Parameters
    ----------
    target
        Loaded by the child; must be a model, not a step function.
    device, framework, precision
        Such as ``cuda:0``, ``ddp``, ``fp32``.
    microbatch, target_batch_size
        Samples; None for those of the workload, else 8 and four microbatches.
    seconds
        Time of the measurement.
    threads
        Of PyTorch.
    silence_s
        Longest time between two messages once the target is loaded.
    """

    target: Target
    device: str
    framework: str
    precision: str
    microbatch: int | None
    target_batch_size: int | None
    seconds: float
    threads: int
    silence_s: float


class Messages:
    """Lines of JSON on what was standard output when the child started.

    What the user's code prints goes to standard error. Each message sets an alarm of the system
    that ends a child whose parent was killed: also one whose threads wait for the GIL for ever.
    """

    def __init__(self, silence_s: float) -> None:
        self._stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._silence_s = silence_s
        signal.alarm(int(LOADING_S) + SPARE_S)

    def __call__(self, **message: Any) -> None:
        """Send one message."""
        signal.alarm(int(self._silence_s) + SPARE_S)
        print(json.dumps(message), file=self._stream, flush=True)


def main(document: dict[str, Any]) -> None:
    """Answer one request and end without waiting for threads.

    Parameters
    ----------
    document
        A `Request` as `dataclasses.asdict` writes it.
    """
    request = Request(**{**document, "target": Target(**document["target"])})
    send = Messages(request.silence_s)
    with contextlib.suppress(BrokenPipeError):  # the parent has gone
        answer(request, send)
    sys.stderr.flush()
    os._exit(0)


def answer(request: Request, send: Callable[..., None]) -> None:
    """Measure what is asked for; every failure becomes a message."""
    try:
        _measure(request, send)
    except OutOfMemory as error:
        send(kind="memory", message=str(error))
    except PlacerError as error:
        send(kind="error", message=error.message, hint=error.hint, exit_code=error.exit_code)


def _measure(request: Request, send: Callable[..., None]) -> None:
    workload = request.target.load()
    if not isinstance(workload, Workload):
        raise PlacerError(
            "--framework needs a model: a step function hides its gradients",
            "leave out --framework",
        )
    load_torch().set_num_threads(request.threads)
    accumulation = accumulation_of(request, workload)
    send(kind="loaded")
    with translate_failures(f"while batches of {accumulation.microbatch:,} are accumulated"):
        measure(
            accumulation,
            request.framework,
            request.seconds,
            lambda share: send(kind="progress", share=share),
            lambda efficiency: send(kind="result", efficiency=to_builtins(efficiency)),
        )


def accumulation_of(request: Request, workload: Workload) -> Accumulation:
    """Choose the samples and the number of the microbatches of a cycle."""
    size = request.microbatch or workload.microbatch or 8
    target = request.target_batch_size or workload.target_batch_size or 4 * size
    device = load_torch().device(request.device)
    return Accumulation(
        workload=workload,
        device=device,
        microbatch=size,
        steps=max(1, min(MOST_STEPS, target // size)),
        autocast=lambda: autocast(request.precision, device),
    )

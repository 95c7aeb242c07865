"""Measure a framework's efficiency in a child process, which is ended if it hangs."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from placer.errors import PlacerError, unknown
from placer.profiler.framework.child import LOADING_S, Request
from placer.profiler.target import Target
from placer.profiler.torch_import import OutOfMemory, load_torch
from placer.workload.profile import Efficiency

FRAMEWORKS = ("none", "ddp", "hivemind")
LEAST_SILENCE_S = 120.0
"""Longest time without a message that is not taken for a hang."""
STEPS_OF_SILENCE = 20
"""And this many steps of the model: the warm-up of a slow model has eight."""
PIPE_BYTES = 65_536
ENDING_S = 5.0
"""Time of a child that has answered to end by itself: hivemind's processes remove their files."""
START = (
    "import json, sys; request = json.load(sys.stdin); sys.path[:] = request.pop('sys_path'); "
    "from placer.profiler.framework.child import main; main(request)"
)


def measured_efficiency(
    target: Target,
    device: str,
    framework: str,
    *,
    microbatch: int | None = None,
    target_batch_size: int | None = None,
    seconds: float = 10.0,
    precision: str = "fp32",
    silence_s: float = LEAST_SILENCE_S,
    progress: Callable[[float], None] = lambda share: None,
) -> Efficiency:
    """Measure the local rate under a framework's accumulation over that of a plain loop.

    Parameters
    ----------
    target
        What to measure. The child process loads it again: an object of this process must first be
        put into a function ``package.module:function`` that returns it.
    device
        Such as ``cpu`` or ``cuda:0``.
    framework
        ``none``, ``ddp`` or ``hivemind``.
    microbatch, target_batch_size
        Samples at once and samples of a whole accumulation; None takes the workload's, else 8 and
        four microbatches.
    seconds
        Time of the measurement; a slow model gets shorter cycles, but at least five pairs of two
        microbatches are measured.
    precision
        Of the forward pass, such as ``fp16``.
    silence_s
        Longest time between two messages of the child; it reports after every pair of cycles.
    progress
        Called with the share that is done, 0 to 1.

    Returns
    -------
    Efficiency
        ``measured``: median of the ratios of cycles that took turns, with a 90 % interval
        (`ratio_of_pairs`). Where the framework is not installed or refuses this model, the figure
        of `published_efficiency`, and ``source`` says why.

    Raises
    ------
    OutOfMemory
        If the microbatch does not fit.
    PlacerError
        If the framework is unknown, a size is below 1, PyTorch is missing, the target cannot be
        loaded or fails, or the child hangs or dies.

    Notes
    -----
    A cycle is some forward and backward passes and what the framework adds to each. Updates are
    left out on both sides: in the model of a step they belong to the exchange. One process has
    nobody to wait for, so this is the local rate.

    The child leads a process group of its own, so Ctrl-C reaches this process alone; whatever
    ends the measurement, the whole group is killed.
    """
    if framework not in FRAMEWORKS:
        raise unknown("framework", framework, FRAMEWORKS)
    for what, value in (("microbatch", microbatch), ("target batch size", target_batch_size)):
        if value is not None and value < 1:
            raise PlacerError(f"{what} is {value}", "give a whole number from 1")
    if framework == "none":
        return Efficiency(
            framework="none",
            value=1.0,
            low=1.0,
            high=1.0,
            basis="measured",
            source="the plain loop itself",
        )
    request = Request(
        target=target,
        device=device,
        framework=framework,
        precision=precision,
        microbatch=microbatch,
        target_batch_size=target_batch_size,
        seconds=seconds,
        threads=load_torch().get_num_threads(),
        silence_s=silence_s,
    )
    with _child(request) as process:
        return _efficiency(process, request, progress)


def silence_s(step_s: float) -> float:
    """Choose the longest silence for a model whose step on a microbatch takes so many seconds."""
    return LEAST_SILENCE_S + STEPS_OF_SILENCE * step_s


def _efficiency(
    process: subprocess.Popen[bytes], request: Request, progress: Callable[[float], None]
) -> Efficiency:
    """Read messages up to the first that ends the measurement."""
    for message in _messages(process, request):
        match message["kind"]:
            case "progress":
                progress(message["share"])
            case "result":
                _join(process)
                return Efficiency(**message["efficiency"])
            case "memory":
                raise OutOfMemory(message["message"])
            case "error":
                raise PlacerError(message["message"], message["hint"], message["exit_code"])
    _join(process)
    raise _died(request, process.returncode)


@contextmanager
def _child(request: Request) -> Iterator[subprocess.Popen[bytes]]:
    """Start the child in a session of its own, and leave no process of it behind."""
    process = subprocess.Popen(  # noqa: S603 - this Python
        [sys.executable, "-c", START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=request.target.folder,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin as stream:
            stream.write(json.dumps({**asdict(request), "sys_path": sys.path}).encode())
        yield process
    finally:
        # Also after the child has ended: processes of hivemind may be left in its group.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _messages(process: subprocess.Popen[bytes], request: Request) -> Iterator[dict[str, Any]]:
    """Yield messages until the child closes its end.

    Raises
    ------
    PlacerError
        If it says nothing for too long.
    """
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    doing, patience_s, rest = "loading", LOADING_S, b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while selector.select(patience_s):
            piece = os.read(pipe, PIPE_BYTES)
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if message["kind"] in ("loaded", "progress"):
                    loop = "a plain loop" if message["kind"] == "loaded" else request.framework
                    doing, patience_s = f"{loop} with", request.silence_s
                yield message
    raise _hung(request, doing, patience_s)


def _join(process: subprocess.Popen[bytes]) -> None:
    """Give the child a little time to end by itself."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ENDING_S)


def _hung(request: Request, doing: str, patience_s: float) -> PlacerError:
    return PlacerError(
        f"--framework {request.framework} hangs: {doing} {request.target.label} gave no sign of "
        f"life for {patience_s:g} s, and its process was ended",
        f"leave out --framework {request.framework}",
    )


def _died(request: Request, code: int | None) -> PlacerError:
    """Say how a child ended that sent no result."""
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    killed = code == -signal.SIGKILL
    return PlacerError(
        f"the process that measures {request.framework} with {request.target.label} ended with "
        f"{how} and no result",
        "memory may have run out: give --batch-sizes with smaller ones"
        if killed
        else "run one step of the target by hand to see where",
    )

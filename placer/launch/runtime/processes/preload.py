"""Modules that the fork server imports, so that every process of a run has them at once.

The first optimizer of a process imports most of PyTorch's compiler, over a second of CPU time: done
here once for all. Nothing here starts a thread, which would not survive a fork.

These imports take seconds. A server whose launcher is killed meanwhile would only notice
afterwards, so on Linux the kernel ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys

from placer.launch.shaped_network.kernel import end_with_parent


def load() -> None:
    """Import what every process of a run needs."""
    import torch
    import torch.distributed

    from placer.launch.runtime.processes import rank_run  # noqa: F401 - what a rank works with
    from placer.launch.runtime.strategies import MODULES
    from placer.profiler import devices, target  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    for name in {*MODULES.values()}:
        importlib.import_module(name)
    importlib.import_module("boto3")  # last, as a machine without object stores may not have it


if sys.platform == "linux":
    end_with_parent(signal.SIGKILL)
# The collector would walk many times through what is loaded, and copy every page of it in each
# rank; its destructors would take the server another second at its end.
gc.disable()
with contextlib.suppress(ImportError):  # the command itself says what is missing
    load()
gc.freeze()
gc.enable()
atexit.register(os._exit, 0)

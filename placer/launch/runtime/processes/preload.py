"""Modules that the fork server imports, so that every process of a run has them at once.

The first optimizer of a process imports most of PyTorch's compiler, over a second of CPU time: done
here once for all. Nothing here starts a thread, which would not survive a fork.

These imports take seconds. A server whose launcher is killed meanwhile would only notice
afterwards, so on Linux the kernel ends it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import signal
import sys

from placer.launch.shaped_network.packets.kernel import end_with_parent


def load() -> None:
    """Import what every process of a run needs."""
    import torch
    import torch.distributed

    from placer.launch.runtime.processes import rank_run  # noqa: F401 - what a rank works with
    from placer.launch.runtime.strategies import MODULES
    from placer.profiler.devices import device_facts  # noqa: F401
    from placer.profiler.target import target  # noqa: F401

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    for name in {*MODULES.values()}:
        importlib.import_module(name)
    importlib.import_module("boto3")  # last, as a machine without object stores may not have it


def keep_from_collector() -> None:
    """Keep what is loaded out of the garbage collector: a rank that walked through it would copy
    every page.
    """
    gc.collect()
    gc.freeze()


if sys.platform == "linux":
    end_with_parent(signal.SIGKILL)
with contextlib.suppress(ImportError):  # the command itself says what is missing
    load()
keep_from_collector()

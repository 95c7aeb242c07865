"""Modules that the fork server imports, so that every process of a run has them at once.

The first optimizer of a process imports most of PyTorch's compiler, over a second of CPU time: done
here once for all. Nothing here starts a thread, which would not survive a fork.
"""

from __future__ import annotations

import contextlib


def load() -> None:
    """Import what every process of a run needs."""
    import torch
    import torch.distributed

    torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)


with contextlib.suppress(ImportError):  # the command itself says what is missing
    load()

"""PyTorch, imported when it is needed."""

from __future__ import annotations

from types import ModuleType

from placer.errors import PlacerError
from placer.version import install_line


def load_torch() -> ModuleType:
    """Import PyTorch.

    Raises
    ------
    PlacerError
        If it is not installed.
    """
    try:
        import torch
    except ImportError:
        raise PlacerError(
            "placer profile needs PyTorch, which is not installed",
            f"install it: {install_line('profile')}",
        ) from None
    loaded: ModuleType = torch
    return loaded

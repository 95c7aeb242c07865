"""PyTorch, imported when it is needed."""

from __future__ import annotations

from types import ModuleType

from placer.errors import PlacerError


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
            "install it: pip install 'placer[profile]'",
        ) from None
    loaded: ModuleType = torch
    return loaded

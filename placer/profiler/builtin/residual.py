"""The one block that residual networks and transformers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from placer.profiler.target.torch_import import load_torch

if TYPE_CHECKING:
    import torch


def residual(body: Any, shortcut: Any, after: Any) -> torch.nn.Module:
    """Build a module that computes ``after(shortcut(x) + body(x))``.

    Parameters
    ----------
    body, shortcut, after
        Modules; their parameters come in this order.
    """
    nn: Any = load_torch().nn

    class Residual(nn.Module):  # type: ignore[misc]
        """A body beside a shortcut, and what follows their sum."""

        def __init__(self) -> None:
            super().__init__()
            self.body, self.shortcut, self.after = body, shortcut, after

        def forward(self, x: Any) -> Any:
            return self.after(self.shortcut(x) + self.body(x))

    return Residual()

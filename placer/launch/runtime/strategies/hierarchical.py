"""Hierarchical serverless aggregation: a store and a function in each region, then one global pair
(Phalak et al., 2024).

A worker uses its region's store as it would use the only one of central aggregation. What differs
is which functions the plan has, and where each writes (`placer.launch.serverless.functions`).
"""

from __future__ import annotations

from placer.launch.runtime.strategies.central import (
    close,
    follow,
    open,  # noqa: A004
    serve,
    step,
)

__all__ = ["WIRED", "close", "follow", "open", "serve", "step"]
WIRED = False

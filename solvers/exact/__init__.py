"""The default solver: branch and bound that proves its gap, with NumPy alone."""

from .branch_and_bound import prepare, solve

__all__ = ["prepare", "solve"]

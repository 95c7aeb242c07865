"""Array types of the solvers, named by what they hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""Floats: seconds, dollars, samples/s."""
Indices = NDArray[Any]
"""Whole numbers: positions and counts."""
Mask = NDArray[np.bool_]
"""Which entries of another array are meant."""

"""Threads of the linear algebra under NumPy: one where placer begins the process.

OpenBLAS starts a thread for each core when NumPy is loaded. A search multiplies small matrices, so
these threads mostly wait, and they wait by spinning: a fifth of the CPU of a large question, and
all of it wasted where processes share a machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLE = "OPENBLAS_NUM_THREADS"
"""Read once, when OpenBLAS is loaded. A value that the user has set stays."""


@contextmanager
def loading_one_thread() -> Iterator[None]:
    """Let NumPy have one thread if it is loaded in here.

    The variable is gone afterwards, so that processes which this one starts, such as trainers, have
    as many threads as they like.
    """
    if "numpy" in sys.modules:
        yield
        return
    with starting_one_thread():
        yield


@contextmanager
def starting_one_thread() -> Iterator[None]:
    """Let the processes that are started in here, and what they start, have one thread each."""
    if VARIABLE in os.environ:
        yield
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)

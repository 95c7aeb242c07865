"""The answers that were used last: memory stays bounded however many questions come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The ``most`` answers that were used last, by what they depend on; threads may share them.

    >>> squares = Recent[int](2)
    >>> [squares.get(n, lambda n=n: n * n) for n in (1, 2, 1, 3)], squares.items()
    ([1, 4, 1, 9], [(1, 1), (3, 9)])
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: dict[Hashable, T] = {}
        self._lock = threading.Lock()

    def items(self) -> list[tuple[Any, T]]:
        """Return the keys and answers, the latest used last."""
        with self._lock:
            return list(self._held.items())

    def __reduce__(self) -> tuple[type[Recent[T]], tuple[int]]:
        """Return an empty state: a copy for another process starts without answers."""
        return type(self), (self.most,)

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return the answer to ``key``, or build it outside the lock, so perhaps twice at once."""
        with self._lock:
            if key in self._held:
                answer = self._held[key] = self._held.pop(key)
                return answer
        answer = build()
        with self._lock:
            self._held[key] = answer
            while len(self._held) > self.most:
                del self._held[next(iter(self._held))]
        return answer

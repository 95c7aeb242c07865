"""Chance in a simulation: how much faster or slower than the mean a worker, step after step, and a
link, round after round, is.
"""

from __future__ import annotations

import math
import random

MOST_JITTER = 2.0


class Noise:
    """Factors on speeds, drawn from one seed: each worker and each link has a stream of its own.

    Parameters
    ----------
    seed
        Equal seeds draw equal factors.
    jitter
        Coefficient of variation of speeds; lognormal with mean 1.
    stragglers
        Probability that a worker is slowed in one step.
    straggler_factor
        By how much.

    Notes
    -----
    A worker draws both chances in each step, so that more stragglers leave all other draws as they
    are.
    """

    def __init__(
        self, seed: int, jitter: float, stragglers: float, straggler_factor: float
    ) -> None:
        self._seed, self._stragglers, self._factor = seed, stragglers, straggler_factor
        self._sigma = math.sqrt(math.log1p(jitter * jitter))
        self._streams: dict[str, random.Random] = {}

    @property
    def silent(self) -> bool:
        """Whether all factors are 1."""
        return self._sigma == 0.0 and self._stragglers == 0.0

    def worker(self, number: int) -> float:
        """Draw the speed of a worker in one step, as a multiple of its mean."""
        if self.silent:
            return 1.0
        stream = self._stream(f"worker {number}")
        slowed = stream.random() < self._stragglers
        return self._lognormal(stream) / (self._factor if slowed else 1.0)

    def link(self, src: str, dst: str) -> float:
        """Draw the bandwidth of a link in one round, as a multiple of its mean."""
        return 1.0 if self._sigma == 0.0 else self._lognormal(self._stream(f"link {src} {dst}"))

    def _lognormal(self, stream: random.Random) -> float:
        return math.exp(self._sigma * (stream.gauss(0.0, 1.0) - self._sigma / 2))

    def _stream(self, name: str) -> random.Random:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(f"{self._seed} {name}")  # noqa: S311 - no secret
        return stream

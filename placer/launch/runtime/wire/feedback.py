"""Error feedback: what compression loses of one message is added to the next."""

from __future__ import annotations

from typing import Any


class Feedback:
    """What a rank's messages have lost so far, in its part of every sum and in the sums it forms.

    Parameters
    ----------
    elements
        Length of the vector that is summed again and again.
    decay
        Share of the loss that is added to the next message; 1 adds all of it.

    Notes
    -----
    Both halves of a butterfly lose: a worker's shards on their way to their owners, and the sums on
    their way back. Each is fed back where it was lost, as DoubleSqueeze does (Tang et al., ICML
    2019). Nothing is lost of a worker's own shard.
    """

    def __init__(self, elements: int, decay: float = 1.0) -> None:
        import torch

        self.sent, self.summed, self.decay = torch.zeros(elements), torch.zeros(0), decay

    def added(self, vector: Any) -> Any:
        """Return a vector with what its last messages lost."""
        return vector + self.decay * self.sent

    def added_to_sum(self, total: Any) -> Any:
        """Return the sum of a shard with what its last message lost."""
        return total + self.summed if len(self.summed) == len(total) else total

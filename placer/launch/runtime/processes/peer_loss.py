"""The error of a process that has lost another process of the run."""

from __future__ import annotations

import re

LOST_WORDS = (
    *("gloo", "nccl", "connection closed", "reset by peer", "broken pipe", "timed out"),
    *("pair closure", "transport error"),
)
"""What torch.distributed says where another process is gone; the last one is torchft's."""


class PeerLostError(Exception):
    """A peer that no longer answers.

    Parameters
    ----------
    rank
        Of the peer; None: PyTorch did not say whose.
    reason
        What the transport said, one line.
    """

    def __init__(self, rank: int | None, reason: str) -> None:
        super().__init__(f"rank {rank}: {reason}")
        self.rank = rank
        self.reason = _said(reason)


def is_peer_loss(error: BaseException) -> bool:
    """Return whether an error of ``torch.distributed`` says that another process is gone."""
    import torch.distributed as dist

    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(word in words for word in LOST_WORDS)


def _said(reason: str) -> str:
    """Return the first sentence of a transport's message, without the place in its source."""
    words = re.sub(r"\[[^\]]*\.cc:\d+\]\s*", "", " ".join(reason.split()))
    return re.sub(r"\. [A-Z].*", "", words)[:200]

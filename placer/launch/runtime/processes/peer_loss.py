"""The error of a strategy that has lost another process of the run."""

from __future__ import annotations

import re

RESCUE = "rescue"
"""Kind of the record of a process that has lost a peer and begins to keep its state. It goes to the
launcher only, not into the log.
"""


class PeerLostError(Exception):
    """A peer that no longer answers.

    Parameters
    ----------
    rank
        Of the peer.
    reason
        What the transport said, one line.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"rank {rank}: {reason}")
        self.rank = rank
        self.reason = _said(reason)


def _said(reason: str) -> str:
    """Return the first sentence of a transport's message, without the place in its source."""
    words = re.sub(r"\[[^\]]*\.cc:\d+\]\s*", "", " ".join(reason.split()))
    return re.sub(r"\. [A-Z].*", "", words)[:200]

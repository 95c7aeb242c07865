"""The failure that strategies know: another process of the run is gone."""

from __future__ import annotations

import re


class PeerLostError(Exception):
    """A peer does not answer any more.

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
    """First sentence of what a transport said, without the place in its source."""
    words = re.sub(r"\[[^\]]*\.cc:\d+\]\s*", "", " ".join(reason.split()))
    return re.sub(r"\. [A-Z].*", "", words)[:200]

"""The failure that strategies know: another process of the run is gone."""

from __future__ import annotations


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
        self.reason = " ".join(reason.split())[:200]

"""The samples of each worker in a step: by the speed of the machines where the plan's timing
divides so, and by where the data lies.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import floor, fsum

from placer.documents.manifest.types import Group, groups_by_worker
from placer.problem.exchange import traits


def weights(groups: Sequence[Group], strategy: str) -> dict[int, float]:
    """Return the relative part of each worker in a step; not normalised.

    Parameters
    ----------
    groups
        Of the manifest, with the samples/s of one worker and the share of the data in each place,
        where it has its place.
    strategy
        Its division says whether fast workers do more of the batch:
        `placer.cost_model.timing.round_seconds` times the round so.

    Notes
    -----
    An early manifest knows no speeds: its workers get equal parts. Where data has its place, the
    workers of a place share what lies there.
    """
    workers = groups_by_worker(groups)
    known = all(group.samples_per_second for group in workers)
    adaptive = traits(strategy).division == "adaptive" and known
    speeds = [(group.samples_per_second or 1.0) if adaptive else 1.0 for group in workers]
    if any(group.data.place_share is None for group in workers):
        return dict(enumerate(speeds))
    whole: dict[str, float] = defaultdict(float)
    for group, speed in zip(workers, speeds, strict=True):
        whole[group.place] += speed
    return {
        rank: (group.data.place_share or 0.0) * speed / whole[group.place]
        for rank, (group, speed) in enumerate(zip(workers, speeds, strict=True))
    }


def apportioned(batch: int, parts: Mapping[int, float]) -> dict[int, int]:
    """Apportion whole samples by largest remainders. They add up to the batch, none is off by a
    sample or more, and ties go to the first ranks.

    Examples
    --------
    Speeds 3 and 1: 7.5 and 2.5 of ten, the half goes to the first.

    >>> apportioned(10, {0: 3.0, 1: 1.0}), apportioned(10, {0: 1.0, 1: 1.0, 3: 1.0})
    ({0: 8, 1: 2}, {0: 4, 1: 3, 3: 3})
    """
    total = fsum(parts.values())
    exact = {
        rank: batch * part / total if total else batch / len(parts) for rank, part in parts.items()
    }
    shares = {rank: floor(samples) for rank, samples in exact.items()}
    most = sorted(exact, key=lambda rank: (shares[rank] - exact[rank], rank))
    for rank in most[: batch - sum(shares.values())]:
        shares[rank] += 1
    return shares

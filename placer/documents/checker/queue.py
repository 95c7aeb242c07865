"""Equal transfers through one machine that they share, followed from event to event."""

from __future__ import annotations

from collections.abc import Sequence


def last_arrival(jobs: Sequence[tuple[float, float, int]], through: float) -> float:
    """Return when the last of some transfers is there.

    Parameters
    ----------
    jobs
        (start, seconds with the machine to itself, how many); seconds.
    through
        Seconds of the machine's capacity that one transfer takes.

    Notes
    -----
    Max-min fair: the slowest are served first, each at most at its own rate; who cannot use an even
    part leaves the rest.

    Examples
    --------
    >>> # halves by 1 s, thirds until 2.5 s, and half a transfer alone
    >>> last_arrival([(0.0, 2.0, 2), (1.0, 2.0, 1)], 1.0)
    3.5
    """
    done = [0.0] * len(jobs)
    finished = [False] * len(jobs)
    now = min(start for start, _, _ in jobs)
    last = now
    while not all(finished):
        rates = _rates(
            jobs,
            [k for k in range(len(jobs)) if not finished[k] and jobs[k][0] <= now],
            1 / through,
        )
        nexts = [(now + (1 - done[k]) / rate, k) for k, rate in rates.items()]
        starts = [jobs[k][0] for k in range(len(jobs)) if jobs[k][0] > now]
        then = min([at for at, _ in nexts] + starts)
        for at, k in nexts:
            done[k] += rates[k] * (then - now)
            if at <= then:
                finished[k], last = True, max(last, then)
        now = then
    return last


def _rates(
    jobs: Sequence[tuple[float, float, int]], under_way: list[int], capacity: float
) -> dict[int, float]:
    """Return the fair rates of the transfers under way."""
    rates: dict[int, float] = {}
    heads = sum(jobs[k][2] for k in under_way)
    for k in sorted(under_way, key=lambda k: -jobs[k][1]):
        rates[k] = min(1 / jobs[k][1], capacity / heads)
        capacity -= rates[k] * jobs[k][2]
        heads -= jobs[k][2]
    return rates

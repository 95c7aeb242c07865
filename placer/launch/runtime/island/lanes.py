"""Which processes of an island exchange with other islands."""

from __future__ import annotations

from placer.launch.runtime.island.seats import are_alike
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.strategies import executed


def exchanges_pieces(plan: RunPlan, processes: int) -> bool:
    """Return whether the processes of an island exchange their pieces side by side; else its first
    process exchanges the whole.

    Parameters
    ----------
    processes
        Of each machine of an island; see `placer.launch.runtime.island.seats.seats_of`.

    Notes
    -----
    Pieces fit where all workers are islands that are cut alike. A strategy whose step comes in
    three parts sees nothing but vectors, so it takes pieces; servers, stores and gossip take the
    whole model of a worker, and so does a quorum, which lets an island go as a whole.
    """
    parts = hasattr(executed(plan), "calculate") and not plan.hubs and plan.quorum is None
    return parts and are_alike(plan.groups, processes)


def lane_words(plan: RunPlan, processes: int) -> str | None:
    """Say who exchanges; None where no worker has several processes, or there is no exchange."""
    members = max(seat.members for seat in plan.seats(processes))
    if members == 1 or plan.workers == 1:
        return None
    if exchanges_pieces(plan, processes):
        return f"the {members} processes of an island exchange their pieces side by side"
    return "the first process of each island exchanges the whole model"

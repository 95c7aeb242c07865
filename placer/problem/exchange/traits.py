"""What sets exchange strategies apart, beside the bytes they move."""

from __future__ import annotations

from msgspec import Struct


class Traits(Struct, frozen=True, kw_only=True):
    """One strategy in the words that timing, limits and solvers ask for.

    ``framework`` is ``none`` where workers have nothing to exchange; all others are slowed by the
    software that averages, hivemind or another. ``division`` is ``adaptive`` (fast workers do more
    of the batch) or ``equal``. ``transport`` names the timing in `round_seconds`. ``hub`` is what
    ``Exchange.aggregator`` is the place of: a ``function``, a ``server`` machine of its own, the
    server of a ``region`` among the workers, or nothing. ``payload`` is what travels between
    regions: ``gradients``, or the model itself (``checkpoints``). ``local_steps``: whether H
    optimizer steps may pass between exchanges. ``least_regions``: with fewer it is another
    strategy. ``may_overlap``: whether the exchange can run beside the next step;
    ``always_overlaps``: it always does. ``staleness``: exchanges by which a worker's view is late.
    ``outer``: workers exchange the changes of many steps, an outer optimizer takes their mean, and
    what compression loses is added to the next ones. ``bucketed``: whether gradients travel in
    buckets beside the calculation that makes them, where the software does that. ``quorum``:
    whether an exchange can go on with some of the workers.
    """

    framework: str = "hivemind"
    division: str = "adaptive"
    transport: str
    hub: str = ""
    payload: str = "gradients"
    local_steps: bool = False
    least_regions: int = 1
    may_overlap: bool = False
    always_overlaps: bool = False
    staleness: int = 0
    outer: bool = False
    bucketed: bool = False
    quorum: bool = False

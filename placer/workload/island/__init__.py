"""Islands: machines of one offer in one zone that train one copy of a model by an inner plan.

`island` chooses the plan and times it, `machine_counts` says how many machines to offer.
"""

from placer.workload.island.machine_counts import machine_counts
from placer.workload.island.plans import Island, island
from placer.workload.island.refusals import Refusal
from placer.workload.island.transports import TRANSPORTS, Transport
from placer.workload.island.wishes import PlanWishes, check_wishes

__all__ = [
    "TRANSPORTS",
    "Island",
    "PlanWishes",
    "Refusal",
    "Transport",
    "check_wishes",
    "island",
    "machine_counts",
]

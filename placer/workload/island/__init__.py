"""Islands: machines of one offer in one zone that train one copy of a model by an inner plan.

`island` chooses the plan for a share of a step, and times it.
"""

from placer.workload.island.fitting import Bounds
from placer.workload.island.plans import Island, bounds, island
from placer.workload.island.question import Question, Refusal, least_sequence_seconds
from placer.workload.island.transports import TRANSPORTS, Transport
from placer.workload.island.wishes import PlanWishes, never_tried

__all__ = [
    "TRANSPORTS",
    "Bounds",
    "Island",
    "PlanWishes",
    "Question",
    "Refusal",
    "Transport",
    "bounds",
    "island",
    "least_sequence_seconds",
    "never_tried",
]

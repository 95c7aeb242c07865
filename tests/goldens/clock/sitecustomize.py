"""Stop all clocks of every process whose ``PYTHONPATH`` has this folder.

Ages of prices and deadlines count from one day, no search ends by its time limit, and none says
that it took any time: answers are the same on a busy machine.
"""

import time
from datetime import UTC, datetime

import time_machine

time_machine.travel(datetime(2026, 11, 28, 12, tzinfo=UTC), tick=False).start()
for clock in ("monotonic", "perf_counter"):
    setattr(time, clock, lambda: 1_000.0)
    setattr(time, f"{clock}_ns", lambda: 1_000_000_000_000)

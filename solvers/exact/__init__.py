"""The default solver: branch and bound that proves its gap, with NumPy alone.

`branch_and_bound` runs one search for each mode, which is a strategy with its number of local
steps. The three searches follow one protocol, `search.Search`:

* `allreduce_search`: all workers exchange with all others,
* `regions_search`: workers exchange inside their region, and the regions through one machine each,
* `hubs_search`: all workers send to a hub, which is a function with a store, or a server.

`bounds/` holds what no placement of a node can beat, `tree/` the nodes and leaves of the first two
searches, `hubs/` the bounds and the enumeration of the third.
"""

from .branch_and_bound import prepare, solve

__all__ = ["DRAWS_ALIKE", "prepare", "solve"]

DRAWS_ALIKE = True
"""Its drafts without a full proof are of machines of one kind where these are asked for."""

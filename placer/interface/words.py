"""The words of verbs beside the wishes: one row for each, for command line, Python and service.

Each word of a verb is a parameter of its own, or a row of a class that several verbs share, such as
`Solving`: an option of solving is added there and nowhere else. `placer.interface.verb` says how an
entry of the documentation is written, and docs/decisions/verbs.md who reads it. ``--help`` reads
this module, so it imports nothing that a search needs.
"""

# No `from __future__ import annotations`: the rows are read from the annotations of the classes.
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

from placer.problem.words.wishes import TrainingWishes, Wishes

if TYPE_CHECKING:
    from placer.market.catalog import Catalog
    from placer.problem.problem import Problem
    from placer.solving.allowance import Cancel
    from placer.workload.profile import ModelProfile

MOST_SEED = 2**31 - 1
"""The largest seed that every solver takes."""
Texts = str | Sequence[str]
Time = str | float
"""Such as ``24h``; a number is seconds."""
Books: TypeAlias = "str | Sequence[str] | Catalog | None"
"""A catalog, its name, or names of books, of which later ones win; None: what is pinned."""
Asked: TypeAlias = "str | ModelProfile | Problem"
"""A model by its name or profile, or a whole question such as ``result.problem``, and then no
words.
"""
Model: TypeAlias = "str | ModelProfile"
Document: TypeAlias = Mapping[str, Any]
"""A saved answer, as JSON has it."""


class Common(TypedDict, total=False):
    """Words that several verbs have as parameters of their own.

    model (NAME|FILE|hf:FILE|7B): A name of 'placer models', a public model such as Qwen/Qwen2.5-7B,
        a profile's JSON file, hf:config.json of a transformers model, or a number of parameters
        such as 7B (a decoder, assumed).

        Also a `ModelProfile`; and a whole problem, such as ``result.problem``, where the verb takes
        one, and then no words.
    workers (GROUPS): place=COUNTxGPU[:GPUS][:MARKET], comma between groups.
    manifest (MANIFEST): File of 'placer recommend --manifest'.
    catalog (NAME|DIR|CSV): Price book; rows of later books replace those of earlier ones. Default:
        the pinned ones.

        A name, a folder or a CSV file, several of them, or a catalog.
    asked (1..): Machines asked for each time; default: the most that were launched.
    deadline (TIME): Time from the start to the deadline.
    slack (SHARE): The deadline as extra time beyond the work: 25%.
    """


class Asking(TypedDict, total=False):
    """Where a question is asked.

    advisor (Python): An advisor that has read books already; None: they are read.
    """

    catalog: "str | Sequence[str] | Catalog | None"
    advisor: Any


class Limits(TypedDict, total=False):
    """What ends a search.

    gap (SHARE): Relative gap to prove, such as 0.1% or 0.001.
    time_limit (TIME): Stop after this long with the best so far, such as 20s.

        A number is seconds.
    memory_limit (SIZE): Stop a search whose process holds this much, such as 500MB or 2GiB, with
        the best so far. Default: a quarter of the machine, at most 2 GB.

        A number is bytes.
    cancel (Python): Token that another thread may set to end the search with the best so far:
        `threading.Event`, or whatever has ``is_set()``.
    """

    gap: Annotated[str | float, "0.1%"]
    time_limit: Annotated[str | float, "30s"]
    memory_limit: str | float | None
    cancel: "Cancel | None"


class Solving(Limits, total=False):
    """How to solve.

    solver (NAME): exact proves; greedy and local_search answer at once without proof; exhaustive
        tries all; milp and cpsat cross-check.
    seed (N): Seed of the worlds that robust draws; searches draw nothing.
    on_better (Python): Called with the value of each better answer.
    on_bound (Python): Called a few times a second with the best bound so far, in the unit of the
        objective; with None where a search begins. Only ``exact`` knows one before it ends.
    """

    solver: Annotated[str, "exact"]
    seed: Annotated[int, 0]
    on_better: Callable[[float], None] | None
    on_bound: Callable[[float | None], None] | None


class Searched(Wishes, Asking, Solving, total=False):
    """The words of a verb that searches."""


class Limited(Wishes, Asking, Limits, total=False):
    """The words of a verb that searches with the exact solver alone."""


class Placed(TrainingWishes, Asking, total=False):
    """The words of a verb about placements given by hand."""


class Changes(TypedDict, total=False):
    """How a world differs from the one of the books.

    set (WHAT=CHANGE): A change of the world, such as 'price:gcp/*:T4=x0.5'; see 'placer whatif
        --help'.
    drop (PLACE[:GPU[:MARKET]]): Offers that are gone, such as aws/us-east-1 or 'aws/*:H100:spot'.
    """

    set: Texts
    drop: Texts


class Running(TypedDict, total=False):
    """Where many questions are solved.

    jobs (1..): Processes that solve side by side.

        They start afresh and import the program that calls: guard it with ``__name__ ==
        "__main__"``.
    dask (ADDRESS): Solve on a Dask cluster: tcp://host:8786.

        Its workers have placer installed.
    """

    jobs: Annotated[int, 1]
    dask: str | None


class Prices(TypedDict, total=False):
    """What machines and bytes cost where a trace is followed.

    prices (FILE): CSV of spot prices in place of the catalog's: a row for each zone, or a trace.
    on_demand (USD, 0..): Price of one on-demand machine-hour; default: as in the file or the
        catalog.
    egress (USD, 0..): Price per GiB between two regions; default: the catalog's prices.
    """

    prices: str | None
    on_demand: float | None
    egress: float | None


class Losses(TypedDict, total=False):
    """What a job loses when its machines change.

    restart (TIME): Paid start-up time of a machine before it works.
    reform (TIME): Time that an island stops when its number of machines changes.
    efficiency (SHARE): Speed of a job in several places relative to one place.
    checkpoint (SIZE): Size of a checkpoint, sent to each new place.
    exchange (SIZE): Traffic per hour to and from each place but one, while a job runs in several.
    """

    restart: Annotated[Time, "12min"]
    reform: Annotated[Time, "3min"]
    efficiency: Annotated[str | float, "95%"]
    checkpoint: Annotated[str, "50GiB"]
    exchange: Annotated[str, "16GiB"]


class Following(Prices, Losses, total=False):
    """The words of a verb that follows a trace or a feed of capacity."""


class Changed(Searched, Changes, total=False):
    """The words of a verb about changed worlds."""


class Swept(Changed, Running, total=False):
    """The words of a verb about many changed worlds."""


class Weighed(Searched, Running, total=False):
    """The words of a verb about worlds that are drawn."""


class Replanned(Solving, Changes, total=False):
    """The words of a verb about a plan that runs."""


class Replayed(Following, Running, total=False):
    """The words of a verb that tries policies."""

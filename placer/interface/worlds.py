"""The Python interface to other worlds: what if, sweeps, regret and replanning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Unpack

from placer.advice.robustness.regret import WORLDS, Robustness, assess
from placer.advice.robustness.uncertainty import parse_boxes
from placer.advice.runner.choice import opener, options_of_each
from placer.advice.sweep.answer import Sweep
from placer.advice.sweep.axes import parse_axis, parse_shard
from placer.advice.sweep.run import Tell, run_sweep
from placer.advice.worlds.replan import MOVE_S, Replan
from placer.advice.worlds.replan import replan as replan_with
from placer.advice.worlds.scenario import apply
from placer.advice.worlds.whatif import WhatIf, what_if
from placer.documents.manifest import read_manifest
from placer.documents.manifest.question import question_of
from placer.documents.manifest.types import Manifest
from placer.documents.reopen import with_present_book
from placer.errors import PlacerError
from placer.files.bounded_file import bounded
from placer.files.json_text import parse_json
from placer.interface.advisor import Advisor, Asked, Books
from placer.interface.options import solve_options
from placer.interface.signatures import with_wishes
from placer.problem.words.changes import parse_changes
from placer.problem.words.wishes import Wishes
from placer.records import replace
from placer.solving.allowance import Cancel
from placer.validation.calibration.observations import observe
from placer.workload.profile import ModelProfile

Texts = str | Sequence[str]
WRITE_MANIFEST = "give a file of placer recommend --manifest"


@with_wishes
def whatif(
    model: Asked,
    *,
    set: Texts = (),  # noqa: A002 - the word of the command line
    drop: Texts = (),
    catalog: Books = None,
    solver: str = "exact",
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    on_bound: Callable[[float | None], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    advisor: Advisor | None = None,
    **words: Unpack[Wishes],
) -> WhatIf:
    """Solve a question as it is and as changed, and say what keeping the old choice would do in the
    changed world.

    Parameters
    ----------
    model
        As in `placer.recommend`; or a whole problem, such as ``result.problem``, and then no words.
    set
        Changes such as ``price:gcp/*:T4=x0.5``; see ``placer whatif --help``.
    drop
        Offers that are gone, such as ``aws/us-east-1`` or ``aws/*:H100:spot``.
    catalog, solver, gap, time_limit, seed, on_better, on_bound, memory_limit, cancel
        As in `placer.recommend`; the time limit is for each of the two searches.
    advisor
        An advisor that has read books and profiles already; None: they are read.
    **words
        The wishes:

        {wishes}

    Raises
    ------
    PlacerError
        Names the word that is wrong, or the pattern that matches nothing.

    Examples
    --------
    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"], "budget": "5/h"}
    >>> whatif = placer.whatif("roberta-xlm", set=["price:lambda/*:A10=x3"], **words)
    >>> whatif.same, whatif.kept.broken
    (False, ('$14.40/h is above the budget of $5.00/h',))
    """
    changes = parse_changes(set, drop)
    options = solve_options(
        gap=gap,
        time_limit=time_limit,
        seed=seed,
        on_better=on_better,
        on_bound=on_bound,
        memory_limit=memory_limit,
        cancel=cancel,
    )
    problem = (advisor or Advisor()).problem(model, catalog, **words)
    return what_if(problem, changes, solver, options)


@with_wishes
def sweep(
    model: str | ModelProfile,
    over: Texts,
    *,
    set: Texts = (),  # noqa: A002 - the word of the command line
    drop: Texts = (),
    output: str | None = None,
    shard: str | None = None,
    jobs: int = 1,
    dask: str | None = None,
    tell: Tell = lambda done, of: None,
    catalog: Books = None,
    solver: str = "exact",
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    advisor: Advisor | None = None,
    **words: Unpack[Wishes],
) -> Sweep:
    """Solve a question for every combination of one to three ranges.

    Parameters
    ----------
    over
        Ranges such as ``budget=2/h..20/h:7``, ``bandwidth:*:*=x0.25..4:log 5`` or ``gpu=T4,A10``.
    set, drop
        Changes that hold at every point, as in `whatif`.
    output
        File that grows line by line; points in it are not solved again.
    shard
        Such as ``1/4``: every fourth point from the first on.
    jobs
        Processes that solve side by side. They start afresh and import the program that calls:
        guard it with ``__name__ == "__main__"``.
    dask
        Address of a Dask scheduler whose workers have placer installed.
    tell
        Called with how many points of how many are done.
    model, catalog, solver, gap, time_limit, seed, on_better, memory_limit, cancel, advisor
        As in `whatif`; the time limit is for each point.
    **words
        The wishes:

        {wishes}

    Raises
    ------
    PlacerError
        Names the word that is wrong, or says that the file is another question's.

    Examples
    --------
    >>> import placer
    >>> sweep = placer.sweep("roberta-xlm", ["budget=2/h,5/h"], catalog="erben-2023", gpu="A10")
    >>> [row["workers"] for row in sweep.rows]
    [['lambda/us-west-1=3xA10:on-demand'], ['lambda/us-west-1=8xA10:on-demand']]
    """
    opened = opener(jobs, dask)
    axes, part = (
        [parse_axis(text) for text in ([over] if isinstance(over, str) else over)],
        parse_shard(shard),
    )
    changes = parse_changes(set, drop)
    options = solve_options(
        gap=gap,
        time_limit=time_limit,
        seed=seed,
        on_better=on_better,
        memory_limit=memory_limit,
        cancel=cancel,
    )
    problem = (advisor or Advisor()).problem(model, catalog, **words)
    problem = apply(problem, changes)
    each = options_of_each(options, jobs, elsewhere=dask is not None)
    with opened((problem, solver, each)) as runner:
        return run_sweep(
            problem,
            axes,
            solver=solver,
            options=options,
            output=output,
            shard=part,
            runner=runner,
            tell=tell,
        )


@with_wishes
def robust(
    model: Asked,
    *,
    box: Texts = (),
    worlds: int = WORLDS,
    exact: bool = False,
    jobs: int = 1,
    dask: str | None = None,
    catalog: Books = None,
    solver: str = "exact",
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    advisor: Advisor | None = None,
    **words: Unpack[Wishes],
) -> Robustness:
    """Say what a recommendation may lose if prices, links and speeds are not what the book says,
    and which figure to measure first.

    Parameters
    ----------
    box
        Ranges of factors by kind, such as ``bandwidth=0.5..1.5``, ``rate=0.8..1.2`` or
        ``price=1..1``; kinds without one vary as far as their figures are uncertain
        (`placer.advice.robustness.uncertainty`).
    worlds
        Worlds that are drawn beside the corners of the box.
    exact
        Solve each world anew: exact regrets, but one solve a world.
    jobs, dask
        Where worlds are solved anew, as in `sweep`.
    model, catalog, solver, gap, time_limit, seed, on_better, memory_limit, cancel, advisor
        As in `whatif`; the time limit is for each search.
    **words
        The wishes:

        {wishes}

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> box = ["bandwidth=1..1", "price=0.9..1.1"]
    >>> robust = placer.robust("roberta-xlm", box=box, catalog="erben-2023", gpu="T4", worlds=32)
    >>> round(robust.mean_regret, 3), robust.fragile
    (0.0, False)
    """
    ranges, opened = parse_boxes(box), opener(jobs, dask)
    if not exact and (jobs > 1 or dask is not None):
        raise PlacerError(
            "jobs and dask without exact: only worlds that are solved anew are many questions",
            "add --exact, or leave out --jobs and --dask",
        )
    options = solve_options(
        gap=gap,
        time_limit=time_limit,
        seed=seed,
        on_better=on_better,
        memory_limit=memory_limit,
        cancel=cancel,
    )
    problem = (advisor or Advisor()).problem(model, catalog, **words)
    return assess(
        problem,
        ranges,
        worlds=worlds,
        exact=exact,
        solver=solver,
        options=options,
        each=options_of_each(options, jobs, elsewhere=dask is not None),
        opened=opened,
    )


def replan(
    manifest: str,
    observed: Texts,
    *,
    set: Texts = (),  # noqa: A002 - the word of the command line
    drop: Texts = (),
    catalog: Texts = (),
    solver: str = "exact",
    gap: str | float = 0.001,
    time_limit: str | float = 30.0,
    seed: int = 0,
    on_better: Callable[[float], None] | None = None,
    on_bound: Callable[[float | None], None] | None = None,
    memory_limit: str | float | None = None,
    cancel: Cancel | None = None,
    move_s: float = MOVE_S,
) -> Replan:
    """Solve the question of a manifest again with what its run measured: keep what runs, or move.

    Parameters
    ----------
    manifest
        File of ``placer recommend --manifest``.
    observed
        Log of its run, ``run.jsonl`` of ``placer run``; of a run that stopped on several machines,
        the logs of all of them.
    set, drop
        What else has changed, as in `whatif`.
    catalog
        Books to ask; empty: those of the plan, as they are today.
    move_s
        Seconds for which a move stops the training.
    solver, gap, time_limit, seed, on_better, on_bound, memory_limit, cancel
        As in `placer.recommend`.

    Raises
    ------
    PlacerError
        If the manifest is an early one, the log is of another plan or says nothing, or a book is
        missing.
    """
    plan = read_plan(manifest)
    saved, planned = question_of(plan, manifest)
    seen = observe(
        [Path(one) for one in ([observed] if isinstance(observed, str) else observed)], plan
    )
    problem, notes = with_present_book(
        saved, manifest, [catalog] if isinstance(catalog, str) else catalog
    )
    answer = replan_with(
        plan,
        planned,
        problem,
        seen,
        changes=parse_changes(set, drop),
        solver=solver,
        options=solve_options(
            gap=gap,
            time_limit=time_limit,
            seed=seed,
            on_better=on_better,
            on_bound=on_bound,
            memory_limit=memory_limit,
            cancel=cancel,
        ),
        move_s=move_s,
    )
    return replace(answer, notes=(*notes, *answer.notes))


def read_plan(path: str) -> Manifest:
    """Read a launch manifest.

    Raises
    ------
    PlacerError
        If the file cannot be read, or is not a manifest.
    """
    try:
        document = parse_json(bounded(path, WRITE_MANIFEST))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"not valid JSON: {error}"
        raise PlacerError(f"cannot read '{path}': {reason}", WRITE_MANIFEST) from None
    return read_manifest(document, path)

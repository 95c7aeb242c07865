"""The verbs about other worlds: what if, sweeps, regret and replanning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from placer.errors import PlacerError
from placer.interface.advisor import OPTIONS, pose
from placer.interface.options import solve_options
from placer.interface.verb import verb
from placer.interface.words import Asked, Changed, Replanned, Swept, Texts, Time, Weighed
from placer.records import replace

if TYPE_CHECKING:
    from placer.advice.robustness.regret import Robustness
    from placer.advice.sweep import Sweep
    from placer.advice.worlds.replan import Replan
    from placer.advice.worlds.whatif import WhatIf
    from placer.documents.manifest.types import Manifest


@verb("whatif", searches=2)
def whatif(model: Asked, **words: Unpack[Changed]) -> WhatIf:
    """Solve a question as it is and as changed, and say what keeping the old choice would do in the
    changed world.

    Raise `PlacerError`, which names the word that is wrong, or the pattern that matches nothing.

    time_limit (TIME): Stop each of the two searches after this long, such as 20s.

    >>> import placer
    >>> words = {"catalog": "erben-2023", "gpu": ["T4", "A10"], "budget": "5/h"}
    >>> whatif = placer.whatif("roberta-xlm", set=["price:lambda/*:A10=x3"], **words)
    >>> whatif.same, whatif.kept.broken
    (False, ('$14.40/h is above the budget of $5.00/h',))
    """
    from placer.advice.worlds.whatif import what_if
    from placer.problem.words.changes import parse_changes

    changes = parse_changes(words["set"], words["drop"])
    _, problem, solver, options = pose(model, words)
    return what_if(problem, changes, solver, options)


@verb("sweep")
def sweep(
    model: Asked,
    over: Texts,
    *,
    output: str | None = None,
    shard: str | None = None,
    tell: Callable[[int, int], None] = lambda done, of: None,
    **words: Unpack[Swept],
) -> Sweep:
    """Solve a question for every combination of one to three ranges, and say where the choice
    changes.

    Raise `PlacerError`, which names the word that is wrong, or says that the file is another
    question's.

    over (WHAT=LOW..HIGH): A range, one to three times: budget=2/h..20/h:7, gpu=T4,A10.
    output (FILE): File that grows line by line; points in it are not solved again.
    time_limit (TIME): Stop each search after this long, such as 20s.
    shard (I/N): Only every N-th point, from the I-th on.
    tell (Python): Called with how many points of how many are done.

    >>> import placer
    >>> sweep = placer.sweep("roberta-xlm", ["budget=2/h,5/h"], catalog="erben-2023", gpu="A10")
    >>> [row["workers"] for row in sweep.rows]
    [['lambda/us-west-1=3xA10:on-demand'], ['lambda/us-west-1=8xA10:on-demand']]
    """
    from placer.advice.runner.runner import opener, options_of_each
    from placer.advice.sweep import parse_axis, parse_shard, run_sweep
    from placer.advice.worlds.whatif import apply
    from placer.problem.words.changes import parse_changes

    jobs, dask = words["jobs"], words["dask"]
    opened = opener(jobs, dask)
    axes = [parse_axis(text) for text in ([over] if isinstance(over, str) else over)]
    part = parse_shard(shard)
    changes = parse_changes(words["set"], words["drop"])
    _, problem, solver, options = pose(model, words)
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


@verb("robust", searches=2)
def robust(
    model: Asked,
    *,
    box: Texts = (),
    worlds: int = 128,
    exact: bool = False,
    **words: Unpack[Weighed],
) -> Robustness:
    """Say what a recommendation may lose if prices, links and speeds are not what the book says,
    and which figure to measure first.

    Raise `PlacerError`, which names the word that is wrong.

    box (KIND=LOW..HIGH): Factors on all figures of a kind: price, bandwidth, rate, phi.

        Kinds without one vary as far as their figures are uncertain.
    worlds (1..10000): Number of random worlds, in addition to the corners.
    time_limit (TIME): Stop each search after this long, such as 20s.
    seed (N): Seed of the sample.
    exact: Solve each world anew: exact regrets, slower.

    >>> import placer
    >>> box = ["bandwidth=1..1", "price=0.9..1.1"]
    >>> robust = placer.robust("roberta-xlm", box=box, catalog="erben-2023", gpu="T4", worlds=32)
    >>> round(robust.mean_regret, 3), robust.fragile
    (0.0, False)
    """
    from placer.advice.robustness.regret import assess
    from placer.advice.robustness.uncertainty import parse_boxes
    from placer.advice.runner.runner import opener, options_of_each

    jobs, dask = words["jobs"], words["dask"]
    ranges, opened = parse_boxes(box), opener(jobs, dask)
    if not exact and (jobs > 1 or dask is not None):
        raise PlacerError(
            "jobs and dask without exact: only worlds that are solved anew are many questions",
            "add --exact, or leave out --jobs and --dask",
        )
    _, problem, solver, options = pose(model, words)
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


@verb("replan", searches=2)
def replan(
    manifest: str,
    observed: Texts,
    *,
    catalog: Texts = (),
    move: Time = "10min",
    **words: Unpack[Replanned],
) -> Replan:
    """Solve the question of a plan again with what its run measured: keep what runs, or move.

    Raise `PlacerError` if the manifest has no question, the log is of another plan or says nothing,
    or a book is missing.

    observed (FILE): Log of its run: run.jsonl of 'placer run'. Repeat it for the logs of all
        machines of a run that stopped.
    catalog (NAME|DIR|CSV): Books to ask; by default those of the plan, as they are today.
    time_limit (TIME): Stop each of the two searches after this long, such as 20s.
    move (TIME): How long a move stops the training.
    """
    from placer.advice.worlds.replan import replan as replan_with
    from placer.documents.manifest.types import question_of
    from placer.documents.present_book import with_present_book
    from placer.problem.words.changes import parse_changes
    from placer.units import parse_seconds
    from placer.validation.calibration.observations import observe

    plan = read_plan(manifest)
    saved, planned = question_of(plan, manifest)
    seen = observe([Path(one) for one in texts(observed)], plan)
    problem, notes = with_present_book(saved, manifest, texts(catalog))
    answer = replan_with(
        plan,
        planned,
        problem,
        seen,
        changes=parse_changes(words["set"], words["drop"]),
        solver=words["solver"],
        options=solve_options(**{name: words[name] for name in OPTIONS}),  # type: ignore[literal-required]
        move_s=parse_seconds(move if isinstance(move, str) else f"{move}s"),
    )
    return replace(answer, notes=(*notes, *answer.notes))


def texts(given: Texts) -> list[str]:
    """Return one text, or several, as a list."""
    return [given] if isinstance(given, str) else list(given)


def read_plan(path: str) -> Manifest:
    """Read a launch manifest.

    Raise `PlacerError` if the file cannot be read, or is not a manifest.
    """
    from placer.documents.json_file import read_json
    from placer.documents.manifest import read_manifest

    return read_manifest(read_json(path), path)

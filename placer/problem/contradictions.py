"""Wishes that contradict each other, or would change nothing: refused before any search."""

from __future__ import annotations

from collections.abc import Iterator

from placer.errors import BadInputError, PlacerError
from placer.problem.admitted_exchanges import server_at
from placer.problem.data.datasets import needs_place, passes_of
from placer.problem.data.residency import homeless, parted
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.problem.question import MOST_KNOWN_LOCAL_STEPS
from placer.problem.required_machines import unusable
from placer.problem.requirements import LOCAL, OUTER
from placer.units import format_bytes
from placer.workload.profile import FEEDBACK_COMPRESSIONS

SAME_PASSES = 0.05
"""By so much passes may differ from those that samples and size of the data make: both are
rounded.
"""

INSIDE = {
    "sharding": "sharding",
    "tp": "tensor_parallel",
    "checkpointing": "checkpointing",
    "microbatch": "microbatch",
    "precision": "precision",
    "software": "software",
}
"""Wishes that fix a part of the plan inside a worker, and their fields."""


class ContradictionError(BadInputError):
    """Wishes that no placement can meet together; ``problem`` is the question, which `placer
    explain` takes apart.
    """

    def __init__(self, error: PlacerError, problem: Problem) -> None:
        super().__init__(error.message, error.hint, error.exit_code)
        self.problem = problem


def without_contradictions(problem: Problem) -> Problem:
    """Refuse wishes that contradict each other before anything is searched."""
    conflict = contradiction(problem)
    if conflict is not None:
        raise ContradictionError(conflict, problem)
    _check_idle(problem)
    return problem


def contradiction(problem: Problem) -> PlacerError | None:
    """Return the first contradiction that is seen without a search; None if there is none."""
    return _no_mode(problem) if not problem.modes else next(_contradictions(problem), None)


def _no_mode(problem: Problem) -> PlacerError:
    """Return why no exchange is left."""
    wish = problem.requirements
    if wish.exchange in ("auto", *LOCAL) and (wish.min_local_steps or 1) > MOST_KNOWN_LOCAL_STEPS:
        return PlacerError(
            f"nothing is known about how {wish.min_local_steps} local steps converge",
            f"take at most {MOST_KNOWN_LOCAL_STEPS}, or say it with --samples-to-target "
            f"STRATEGY=FACTOR",
        )
    if problem.compression in FEEDBACK_COMPRESSIONS and wish.exchange not in OUTER:
        what = "exchanges in every step" if wish.exchange == "auto" else f"{wish.exchange}"
        return PlacerError(
            f"{problem.compression} loses too much of each gradient for {what}: it is for the "
            f"changes of many steps, whose losses are added to the next",
            f"use --exchange {' or '.join(OUTER)}, or --compression int8",
        )
    outer = wish.exchange in OUTER
    if wish.quorum is not None:
        return _no_quorum(problem)
    if wish.overlap:
        return PlacerError(
            f"the exchange {wish.exchange} cannot overlap the next step",
            f"leave out --overlap, or use {'streaming-diloco' if outer else 'all-reduce'}",
        )
    return PlacerError(
        f"{wish.exchange} exchanges in every step",
        f"leave out --local-steps, or use {', '.join(LOCAL)}",
    )


def _no_quorum(problem: Problem) -> PlacerError:
    """Return why no exchange is left that goes on with a quorum."""
    wish = problem.requirements
    able = [name for name in LOCAL if traits(name).quorum]
    if wish.exchange != "auto" and wish.exchange not in able:
        return PlacerError(
            f"the exchange {wish.exchange} waits for all workers, so quorum {wish.quorum} means "
            f"nothing to it",
            f"use --exchange {', '.join(able)}, or leave out --quorum",
        )
    if wish.overlap:
        return PlacerError(
            f"{wish.exchange} with --overlap waits for all workers",
            "leave out --overlap or --quorum, or use --exchange streaming-diloco",
        )
    return PlacerError(
        f"an exchange in every step waits for all workers, so quorum {wish.quorum} has no effect",
        "give --local-steps 100 or --exchange diloco, or leave out --quorum",
    )


def _contradictions(problem: Problem) -> Iterator[PlacerError]:
    """Yield unusable data, unusable machines and places that cannot be had together."""
    for sentence in homeless(problem):
        yield PlacerError(sentence, "change --data, --keep, or the option that excludes its place")
    for sentence in unusable(problem):
        yield PlacerError(sentence, "change --use, or the option that contradicts it")
    yield from _places(problem)


def _check_idle(problem: Problem) -> None:
    """Refuse wishes that would change nothing."""
    wish, names = problem.requirements, {name for name, _ in problem.modes}
    for name, _ in wish.samples_to_target:
        if name not in names:
            raise PlacerError(
                f"samples to target of {name}, which the request does not allow",
                "allow it with --exchange or --local-steps",
            )
    if (
        wish.critical_batch is not None
        and wish.batch_range is None
        and problem.batch == problem.profile.target_batch_size
    ):
        raise PlacerError(
            f"critical batch {wish.critical_batch:,} at the profile's own batch of "
            f"{problem.batch:,} changes nothing",
            "give another --tbs or a range of them, or leave it out",
        )
    if wish.confidence is not None and wish.floor_samples_per_second is None:
        raise PlacerError(
            f"confidence {100 * wish.confidence:g} % without a deadline or a floor",
            "give --deadline or --min-throughput, or leave --confidence out",
        )
    if wish.passes != 1 and not wish.data_moves and wish.data_store is None:
        raise PlacerError(
            f"--passes {wish.passes:g} only applies with --data PLACE=N:move or --data STORE",
            "add one of them, or leave --passes out",
        )
    about = {"size": wish.data_bytes, "cache": wish.data_cache, "source": wish.data_source}
    for word, value in ((f"data-{part}", value) for part, value in about.items()):
        if value is not None and wish.data_store is None:
            raise PlacerError(
                f"{word} without a store that the data comes from",
                f"give --data STORE, or leave --{word} out",
            )
    _check_passes(problem)
    _check_inside(problem)


def _check_inside(problem: Problem) -> None:
    """Refuse a plan inside a worker where none is made: for a model of known speeds alone."""
    wish, name = problem.requirements, problem.profile.name
    if problem.profile.architecture is not None:
        return
    asked = {word: getattr(wish, field) for word, field in INSIDE.items()}
    if (wish.min_island_machines or 1) > 1:
        asked["machines-per-island"] = wish.min_island_machines
    for word, value in asked.items():
        if value is not None:
            raise PlacerError(
                f"{word} '{value}' does not apply to {name}: its speeds are those of its "
                f"profile, on one machine a worker",
                f"leave out --{word}, or name a language model (placer models)",
            )


def _check_passes(problem: Problem) -> None:
    """Refuse passes that do not follow from the samples and the size of the data."""
    wish, size = problem.requirements, problem.profile.bytes_per_sample
    if None in (wish.data_store, wish.samples, wish.data_bytes, size) or wish.passes == 1:
        return
    follow = passes_of(1.0, wish.samples, wish.data_bytes, size or 0.0)
    if abs(follow - wish.passes) > SAME_PASSES * follow:
        raise PlacerError(
            f"passes {wish.passes:g}, but {wish.samples:,} samples are {follow:,.3g} passes over "
            f"{format_bytes(wish.data_bytes or 0.0)}",
            "leave one of --passes, --samples and --data-size out",
        )


def _places(problem: Problem) -> Iterator[PlacerError]:
    """Yield the wishes about places that no placement can meet."""
    wish, stay = problem.requirements, needs_place(problem.requirements.datasets)
    fixed = bool(stay) and not wish.data_moves
    for what, most in (
        ("regions", wish.max_regions),
        ("workers", wish.max_workers),
        ("samples a step", problem.batch),
    ):
        if len(stay) > most:
            yield PlacerError(
                f"data stays in {len(stay)} places, but at most {most} {what} are allowed",
                "allow more, or let data move",
            )
    if fixed and wish.min_regions > len(stay):
        yield PlacerError(
            f"data stays in {len(stay)} places, but {wish.min_regions} regions are wanted",
            "lower --regions, or let data move",
        )
    for sentence in (*parted(problem), *_server_outside(problem)):
        yield PlacerError(sentence, "change --keep, --data, --aggregator or the places")


def _server_outside(problem: Problem) -> Iterator[str]:
    """Yield a sentence if a parameter server is wanted where no machine may be."""
    wish = problem.requirements
    if wish.exchange == "parameter-server" and wish.aggregator is not None:
        outside = problem.place_problem(wish.aggregator)
        if outside:
            yield f"the parameter server is wanted in {wish.aggregator}, but {outside}"
        elif server_at(wish.aggregator, 2, problem) is None:
            yield (
                f"{wish.aggregator} rents no machine that could serve: enough memory, "
                f"{wish.market} market, quota"
            )

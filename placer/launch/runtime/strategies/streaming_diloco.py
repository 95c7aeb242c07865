"""Streaming DiLoCo: the model in fragments, each with its own outer step every H steps, summed
beside the inner steps.

After every H / P steps the next fragment's change leaves, and the sum of the one before, which was
under way meanwhile, is applied (Douillard et al., 2025, algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from placer.launch.runtime.strategies.diloco import feedback_of, share_of
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.training.outer_optimizer import STREAMING_RATE, OuterOptimizer
from placer.launch.runtime.training.quorum import Outcome
from placer.launch.runtime.wire.butterfly import butterfly_sum
from placer.launch.runtime.wire.feedback import Feedback
from placer.problem.exchange.streaming_diloco import fragments

WIRED = True
REPLICATED = False
ELASTIC = False
OWN_SHARE = 0.5
"""Share of a worker's own parameters where a late outer step meets them: alpha of Douillard et al.
(2025).
"""


@dataclass(kw_only=True)
class Stream:
    """What lasts from step to step: the outer optimizer, what compression lost of each fragment,
    the step and the fragment of each exchange, and the fragment whose sum is under way.
    """

    optimizer: OuterOptimizer
    feedback: list[Feedback | None]
    parts: list[slice]
    order: list[tuple[int, int]]
    under_way: int | None = None


def open(context: Context) -> Stream:  # noqa: A001 - the protocol's word
    """Cut the model into fragments; begin with the first model, or with what a checkpoint kept."""
    compression, elements = context.plan.exchange.compression, context.trainer.elements
    parts = fragment_slices(elements, fragments(context.plan.steps_per_round))
    state = Stream(
        optimizer=OuterOptimizer.of(context.trainer.vector(), compression, STREAMING_RATE),
        feedback=[feedback_of(compression, part.stop - part.start) for part in parts],
        parts=parts,
        order=_order(context),
    )
    if context.kept:
        state.optimizer.load_state(context.kept["outer"])
        for number, feedback in enumerate(state.feedback):
            if feedback is not None:
                feedback.load_state(context.kept["feedback"][number])
    return state


def fragment_slices(elements: int, count: int) -> list[slice]:
    """Cut so many elements into even fragments.

    Examples
    --------
    >>> fragment_slices(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = [elements * k // count for k in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def due_fragment(done: int, local_steps: int, count: int) -> int | None:
    """Return the fragment that leaves after so many steps of a run; None: none does.

    Examples
    --------
    Two fragments in five steps: one after the second step, the other after the fifth.

    >>> [due_fragment(done, 5, 2) for done in (1, 2, 3, 4, 5, 7)]
    [None, 0, None, None, 1, 0]
    """
    ends = [local_steps * (k + 1) // count for k in range(count)]
    at = (done - 1) % local_steps + 1
    return ends.index(at) if at in ends else None


def exchange_steps(context: Context) -> tuple[int, ...]:
    """Return the steps after which a fragment leaves."""
    return tuple(step for step, _ in _order(context))


def _order(context: Context) -> list[tuple[int, int]]:
    """List the steps after which a fragment leaves, with the fragment."""
    steps, local_steps = context.settings.steps, context.plan.steps_per_round
    count = fragments(local_steps)
    due = ((step, due_fragment(step + 1, local_steps, count)) for step in range(steps))
    order = [(step, part) for step, part in due if part is not None and step >= context.start]
    rest = range(count) if steps % local_steps else ()
    return order + [(steps - 1, part) for part in rest]


def step(context: Context, state: Stream, step: int) -> float:
    """Take an inner step; where a fragment is due, send its change and apply the sum of the one
    before.

    Notes
    -----
    Nothing stays under way before a checkpoint or at the end. A run that ends inside a round sums
    all fragments once more, as nothing comes later.
    """
    if state.under_way is not None and context.quorum is not None and context.quorum.away:
        _settle(context, state, flush=True)  # steps that come to nothing would make it later still
        return 0.0
    loss = context.local_step(step)
    last = step + 1 == context.settings.steps
    steps = context.plan.steps_per_round
    due = due_fragment(step + 1, steps, len(state.parts))
    if due is not None:
        _settle(context, state, flush=False)
        if context.next_step > step:  # it was away: what was due has gone
            return loss
        _begin(context, state, due, step)
    if last and (step + 1) % steps:
        for number in range(len(state.parts)):
            _settle(context, state, flush=True)
            if context.next_step > step:
                return loss
            _begin(context, state, number, step)
    if context.saves_checkpoint(step) or last:
        _settle(context, state, flush=True)
    return loss


def _begin(context: Context, state: Stream, number: int, step: int) -> None:
    """Send a fragment's change since its last outer step, without waiting."""
    assert context.overlapped is not None
    part = state.parts[number]
    change = context.trainer.part(part).sub_(state.optimizer.common[part])
    context.overlapped.begin(step, _outer_step(context, state, number, change))
    state.under_way = number


def _outer_step(
    context: Context, state: Stream, number: int, change: Any
) -> Callable[[], Outcome | None]:
    """Return what runs beside the inner steps: the sum of the changes of a fragment, and its outer
    step; with a quorum what came of it.
    """
    feedback, quorum = state.feedback[number], context.quorum

    def run() -> None:
        total = butterfly_sum(
            context.connected, change * share_of(context), context.members, feedback=feedback
        )
        state.optimizer.step(total, state.parts[number])

    def with_quorum() -> Outcome:
        assert quorum is not None
        outcome = quorum.mean(
            change, state.optimizer.vectors, feedback, lambda k: _length(state, k)
        )
        if outcome.total is not None:
            state.optimizer.take(outcome.taken)
            state.optimizer.step(outcome.total, state.parts[state.order[outcome.number][1]])
        return outcome

    return run if quorum is None else with_quorum


def _length(state: Stream, exchange: int) -> int:
    part = state.parts[state.order[exchange][1]]
    return int(part.stop - part.start)


def _settle(context: Context, state: Stream, *, flush: bool) -> None:
    """Wait for the outer step of the fragment that is under way, and move the own parameters
    towards its result.
    """
    if state.under_way is None:
        return
    assert context.overlapped is not None
    part, state.under_way = state.parts[state.under_way], None
    outcome = context.overlapped.end(flush=flush)
    if outcome is not None and (outcome.taken is not None or outcome.total is None):
        context.follow(outcome)
        context.trainer.load_vector(state.optimizer.common)
        return
    context.trainer.move_part(part, state.optimizer.common[part], 1 - OWN_SHARE)


def saved(context: Context, state: Stream) -> dict[str, Any]:
    """Return what a checkpoint keeps beside model and inner optimizer."""
    lost = [feedback.state() for feedback in state.feedback if feedback is not None]
    return {"outer": state.optimizer.state(), **({"feedback": lost} if lost else {})}


def serve(context: Context, state: Any, step: int) -> None:
    """Do nothing: there is no hub."""


def close(context: Context, state: Stream) -> None:
    """End with the parameters of the outer optimizer, which are the same on all workers."""
    context.trainer.load_vector(state.optimizer.common)

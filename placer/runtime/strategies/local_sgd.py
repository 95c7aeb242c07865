"""Local SGD: every worker steps alone; once in H steps the changes of the models are averaged in a flat butterfly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.runtime.butterfly import butterfly_sum
from placer.runtime.context import Context

WIRED = True
REPLICATED = False
ELASTIC = False


def open(context: Context) -> dict[str, Any]:  # noqa: A001 - the protocol's word
    """Return the model that all had after the last average; beside it will be the own one whose change is on its way."""
    return {"common": context.trainer.vector()}


def calculate(context: Context, state: dict[str, Any], step: int) -> tuple[Any, float]:
    """Take a step on the own samples."""
    mine, batch = context.shares()[context.rank], context.settings.target_batch_size
    gradient, loss = context.calculated(step, max(1, mine))
    context.applied(gradient)
    return None, loss * mine / batch


def exchange(context: Context, state: dict[str, Any], mine: Any) -> Callable[[], Any]:
    """Average the changes of the models.

    Notes
    -----
    What travels is the change since the last average (same bytes as the model): rounded to FP16 it keeps more of it. Changes
    count by samples, so equal shares are Stich's mean (ICLR 2019).
    """
    state["taken"] = context.trainer.vector()
    share = context.shares()[context.rank] / context.settings.target_batch_size
    change = (state["taken"] - state["common"]).mul_(share)
    return lambda: butterfly_sum(context.connected, change, context.members)


def apply(context: Context, state: dict[str, Any], result: Any) -> None:
    """Put the average in the place of the own change; what the model did since, beside the exchange, stays."""
    since = context.trainer.vector().sub_(state.pop("taken"))
    state["common"].add_(result)
    context.trainer.load_vector(since.add_(state["common"]))


def serve(context: Context, state: Any, step: int) -> None:
    """There is no hub."""


def close(context: Context, state: Any) -> None:
    """Nothing is left open."""

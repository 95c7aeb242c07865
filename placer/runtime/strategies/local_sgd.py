"""Local SGD: every worker steps alone; once in H steps the changes of the models are averaged in a flat butterfly."""

from __future__ import annotations

from typing import Any

from placer.runtime.butterfly import butterfly_sum
from placer.runtime.context import Context

WIRED = True
REPLICATED = False
ELASTIC = False


def open(context: Context) -> dict[str, Any]:  # noqa: A001 - the protocol's word
    """Return the model that all had after the last average."""
    return {"common": context.trainer.vector()}


def step(context: Context, state: dict[str, Any], step: int) -> float:
    """Take a step on the own samples; at the end of a round, average.

    Notes
    -----
    What travels is the change since the last average (same bytes as the model): rounded to FP16 it keeps more of it. Changes
    count by samples, so equal shares are Stich's mean (ICLR 2019).
    """
    mine, batch = context.shares()[context.rank], context.settings.target_batch_size
    gradient, loss = context.calculated(step, max(1, mine))
    context.applied(gradient)
    if context.ends_round(step):
        change = (context.trainer.vector() - state["common"]) * (mine / batch)
        state["common"] = state["common"] + butterfly_sum(context.connected, change, context.members)
        context.trainer.load_vector(state["common"])
    return loss * mine / batch


def serve(context: Context, state: Any, step: int) -> None:
    """There is no hub."""


def close(context: Context, state: Any) -> None:
    """Nothing is left open."""

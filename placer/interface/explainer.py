"""`placer.explain`: an answer taken apart, in the words of the command line."""

from __future__ import annotations

from typing import Any

from placer.advice.explanation.explain import Explanation
from placer.interface.advisor import Advisor
from placer.problem.problem import Problem
from placer.workload.profile import ModelProfile


def explain(model: str | ModelProfile | Problem, **words: Any) -> Explanation:
    """Say what binds, why not something else, what one more is worth, when to leave a region, or
    why nothing fits.

    Parameters
    ----------
    model
        As in `recommend`; or a whole problem, such as ``result.problem``.
    **words
        As in `recommend` without solver, seed and top, and: ``why_not``, names of places, GPUs,
        exchanges, ``place=GPU:market``, ``spot``, ``on-demand`` or ``2-regions`` (default: the most
        tempting ones); ``time_limit`` of the whole explanation (120 s).

    Returns
    -------
    Explanation
        ``conflict`` is set where nothing fits; else ``binding``, ``why_not``, ``worth`` and
        ``staying``.

    Raises
    ------
    PlacerError
        Names the word that is wrong.

    Examples
    --------
    >>> import placer
    >>> found = placer.explain("roberta-xlm", budget="0.01/h", catalog="erben-2023")
    >>> [wish.code for wish in found.conflict.wishes]
    ['budget']
    """
    return Advisor().explain(model, **words)

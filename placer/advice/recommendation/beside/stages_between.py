"""Stages of several devices, and what stages in several places would pay for their activations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from placer.cost_model.estimate import Estimate
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.units import format_usd

OUTER_STEPS = 100
"""Local steps of the DiLoCo that stages are compared with."""
ACTIVATION_BYTES = 2.0
"""Bytes of an activation and of its gradient in BF16."""


def stages_between(problem: Problem, placement: Placement, got: Estimate) -> Iterator[Warn]:
    """Yield how a worker of several offers was timed, and for a language model in several places
    what each token would cost as activations, as gradients and as models now and then.

    A hop costs ``2 x 2 d`` bytes a token, there and back. DiLoCo over two places sends the model
    both ways in int8 every H steps: ``2 N / (H B)`` bytes a token for steps of B tokens. Both at
    the price of the cheapest pair of the places.
    """
    if any(group.behind for group in placement.groups):
        yield Warn(
            code="several-devices",
            message="stages of several devices: every stage counts as the slowest, and no hop "
            "between them is hidden; placer looks for such workers in explain --why-not stages "
            "alone, and starts none",
        )
    shape = problem.profile.architecture
    if shape is None or len(placement.places) < 2:
        return
    price = problem.network.usd_per_byte
    usd, a, b = min((price(a, b) + price(b, a), a, b) for a, b in combinations(placement.places, 2))
    if not usd:
        return
    hop = usd_per_billion_tokens(ACTIVATION_BYTES * shape.width, usd)
    tokens = problem.batch * shape.sequence_length
    outer = usd_per_billion_tokens(problem.profile.parameters / OUTER_STEPS / tokens, usd)
    now = got.usd_per_hour.egress / got.usd_per_hour.total * (got.usd_per_billion_tokens or 0.0)
    yield Warn(
        code="stages-between-places",
        message=f"stages between {a} and {b} cost {2 * ACTIVATION_BYTES:.0f} x {shape.width:,} "
        f"bytes a token and hop: {format_usd(hop)} per billion tokens, where this placement pays "
        f"{format_usd(now)} for egress, and DiLoCo every {OUTER_STEPS} steps in int8 "
        f"{format_usd(outer)}; of 18 questions that were studied, stages over places were best "
        "in none",
    )


def usd_per_billion_tokens(bytes_per_token: float, usd_per_byte: float) -> float:
    """Return the price of what each token sends one way and back.

    Activations of a width of 8,192 at 0.02 USD/GiB each way: 1e9 x 16,384 B x 0.04 / 2**30.

    >>> round(usd_per_billion_tokens(2 * 8192, 0.04 / 2**30), 1)
    610.4
    """
    return 1e9 * bytes_per_token * usd_per_byte

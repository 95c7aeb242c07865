"""What one pass over data of a known size takes, where nobody says how much is trained."""

from __future__ import annotations

from collections.abc import Iterator

from placer.cost_model.estimate import Estimate
from placer.problem.problem import Problem
from placer.solving.answer import Warn
from placer.units import (
    SECONDS_PER_HOUR,
    format_bytes,
    format_duration,
    format_number,
    format_tokens,
    format_usd,
)


def _amount(samples: float, each: float, tokens_per_sample: int | None) -> str:
    """Say how much is read: samples, or the tokens of a language model."""
    if tokens_per_sample is not None:
        return format_tokens(samples * tokens_per_sample)
    return f"{format_number(samples / 1e6)} M samples of {format_bytes(each)}"


def one_pass_notes(problem: Problem, got: Estimate) -> Iterator[Warn]:
    """Yield time and price of reading the data of the store once, at the speed of the answer."""
    wish, each = problem.requirements, problem.profile.bytes_per_sample
    if wish.data_store is None or wish.data_bytes is None or each is None:
        return
    if wish.samples is not None:
        return  # the totals say it
    samples = wish.data_bytes / each
    seconds = samples / got.samples_per_second.value
    unit = "samples" if got.tokens_per_sample is None else "tokens"
    usd = seconds / SECONDS_PER_HOUR * got.usd_per_hour.total
    yield Warn(
        "one-pass",
        f"one pass over {format_bytes(wish.data_bytes)} in {wish.data_store} "
        f"({_amount(samples, each, got.tokens_per_sample)}) takes "
        f"{format_duration(seconds)} and {format_usd(usd)}; --{unit} gives totals",
    )

"""Wishes about tokens: what they make of the model and of the other wishes, in sequences."""

from __future__ import annotations

from placer.errors import PlacerError
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.records import replace
from placer.workload.models.adapters import (
    BF16_BYTES,
    FOUR_BIT_BYTES,
    architecture_of,
    with_adapters,
    with_sequence_length,
)
from placer.workload.profile import ModelProfile


def in_sequences(problem: Problem) -> Problem:
    """Apply the wishes about sequence length, adapters and tokens; done twice, it changes nothing.
    The unit inside is the sequence: ``tokens`` become ``samples``, and a batch in tokens becomes
    one in sequences, both at the sequence length of the question. `PlacerError` if the model has no
    tokens.
    """
    wish = problem.requirements
    profile = _profile(problem.profile, wish)
    if wish.tokens is not None:
        length = architecture_of(profile, "--tokens").sequence_length
        wish = replace(wish, samples=-(-wish.tokens // length))
    if wish.batch_tokens is not None:
        length = architecture_of(profile, "a batch in tokens").sequence_length
        wish = replace(wish, target_batch_size=max(1, round(wish.batch_tokens / length)))
    if profile is problem.profile and wish is problem.requirements:
        return problem
    return replace(problem, profile=profile, requirements=wish)


def _profile(profile: ModelProfile, wish: Requirements) -> ModelProfile:
    shape = profile.architecture
    stored = BF16_BYTES if shape is None or shape.has_adapters else shape.frozen_bytes_per_parameter
    if stored < BF16_BYTES and wish.qlora is None:
        raise PlacerError(
            f"{profile.name} has weights of 4 bits, which no optimizer changes",
            "add --qlora 16, or give the config.json of the model before it was quantized",
        )
    if wish.sequence_length is not None:
        profile = with_sequence_length(profile, wish.sequence_length)
    for rank, frozen_bytes in ((wish.lora, BF16_BYTES), (wish.qlora, FOUR_BIT_BYTES)):
        if rank is not None:
            profile = with_adapters(profile, rank, frozen_bytes)
    return profile

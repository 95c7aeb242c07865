"""What `auto` tries with local steps, for language models and for others."""

from __future__ import annotations

from typing import Any

import pytest

from placer.interface.advisor import Advisor
from placer.problem.admitted_exchanges import exchange_for


def names(model: str, **words: Any) -> set[str]:
    """Return the strategies that a request admits."""
    return {name for name, _ in Advisor("default").problem(model, **words).modes}


@pytest.mark.parametrize(
    ("model", "kept", "left_out"),
    [
        ("llama-3.1-8b", {"diloco", "streaming-diloco"}, {"local-sgd"}),
        ("resnet50", {"local-sgd"}, {"diloco", "streaming-diloco"}),
    ],
)
def test_auto_takes_diloco_for_language_models(
    model: str, kept: set[str], left_out: set[str]
) -> None:
    """Published losses are those of decoders; the bytes are the same. By name each can be asked
    for, and without local steps nothing changes.
    """
    found = names(model, local_steps="1..64")
    assert kept | {"model-averaging", "asgd-ga"} <= found
    assert not left_out & found
    assert not (kept | left_out) & names(model)
    for name in left_out:
        assert names(model, exchange=name, local_steps=8) == {name}


def test_coarse_compression_leaves_only_what_feeds_errors_back() -> None:
    """INT4 with local steps: DiLoCo and its streaming form."""
    found = names("llama-3.1-8b", local_steps="8..64", compression="int4")
    assert found == {"diloco", "streaming-diloco"}


def test_streaming_overlaps_without_being_asked() -> None:
    """And stays the only one of the two where overlap is asked for."""
    problem = Advisor("default").problem("llama-3.1-8b", local_steps=16)
    assert exchange_for("streaming-diloco", 4, problem, local_steps=16).overlap
    assert not exchange_for("diloco", 4, problem, local_steps=16).overlap
    asked = names("llama-3.1-8b", local_steps=16, overlap=True)
    assert "streaming-diloco" in asked
    assert "diloco" not in asked

"""Efficiencies of frameworks: published for a model, else the mean of those like it."""

import pytest

from placer.profiler.measured_profile import published_efficiency
from placer.workload.profile import load_profile


def test_published_efficiency_of_a_shipped_model() -> None:
    """resnet50 lost 32 % on A10: its own figure, published."""
    found = published_efficiency("resnet50", "cnn", "hivemind")
    assert (found.value, found.basis) == (0.68, "published")
    assert "Erben" in found.source


def test_published_efficiency_of_a_family() -> None:
    """Transformers: mean of .61, .54, .546 and .44 = .534, over the lowest low and the highest high
    of them; assumed for another model.
    """
    found = published_efficiency("my-bert", "transformer", "hivemind")
    rows = [
        load_profile(name).efficiency[0]
        for name in ("roberta-base", "roberta-large", "roberta-xlm", "whisper-small")
    ]
    assert found.value == pytest.approx((0.61 + 0.54 + 0.546 + 0.44) / 4, abs=1e-3)
    assert (found.low, found.high) == (min(r.low for r in rows), max(r.high for r in rows))
    assert found.basis == "assumed"
    assert found.source.startswith("mean of 4 transformer models")


def test_published_efficiency_where_nobody_measured() -> None:
    """An LSTM gets the mean of all nine models; DDP is taken as 1, from 0.8."""
    lstm = published_efficiency("mine", "rnn", "hivemind")
    assert lstm.source.startswith("mean of all 9 models")
    assert lstm.value == pytest.approx(
        (0.70 + 0.68 + 0.78 + 0.50 + 0.46 + 0.61 + 0.54 + 0.546 + 0.44) / 9, abs=1e-3
    )
    alone = published_efficiency("mine", "cnn", "ddp")
    assert (alone.value, alone.low, alone.high, alone.basis) == (1.0, 0.8, 1.0, "assumed")

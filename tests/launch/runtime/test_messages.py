"""Messages of an exchange: their size, what they lose, and how that comes later."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_plans import A, document, plan_of

from placer.errors import PlacerError

torch: Any = pytest.importorskip("torch")
from placer.launch.runtime.codec import Codec  # noqa: E402
from placer.launch.runtime.wire import Feedback, is_peer_loss  # noqa: E402

COARSE = ("int8", "int4", "sparse")


@pytest.mark.parametrize("compression", ["int4", "sparse"])
def test_a_plan_too_coarse_for_its_exchange_is_refused(compression: str) -> None:
    """Only strategies with an outer optimizer feed the errors back."""
    with pytest.raises(PlacerError, match="too coarse for the exchange all-reduce"):
        plan_of(document("all-reduce", (A, 2), compression=compression))


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(COARSE), st.integers(0, 99))
def test_messages_have_their_size_and_come_back(elements: int, compression: str, seed: int) -> None:
    """A message has the bytes that are allocated for it, and its vector the same length. INT4 and
    INT8 are off by half a step, of 7 and 127 up to the largest value; a step of INT8 has 8 bits. A
    sparse message has 64 of 4,096 values, with their signs, and the mean of the smaller and of the
    larger ones.
    """
    vector = torch.randn(elements, generator=torch.Generator().manual_seed(seed))
    codec = Codec(compression)
    message = codec.encode(vector)
    assert len(message) == codec.size(elements) == len(codec.empty(elements))
    back = codec.decode(message, elements)
    assert len(back) == elements
    if elements and compression != "sparse":
        steps = 14 if compression == "int4" else 254
        assert float((back - vector).abs().max()) <= float(vector.abs().max()) / steps * (1 + 2**-8)
    if compression == "sparse":
        assert int((back != 0).sum()) == elements // 4_096 * 64 + math.ceil(elements % 4_096 / 64)
        assert float(back.abs().sum()) == pytest.approx(float(vector[back != 0].abs().sum()))
    if elements >= 4_096 and compression == "sparse":
        kept = back[:4_096] != 0
        assert float(vector[:4_096][kept].abs().min()) >= float(vector[:4_096][~kept].abs().max())
        assert bool((back[:4_096][kept].sign() == vector[:4_096][kept].sign()).all())


def test_halves_are_clamped_to_their_range() -> None:
    """65,504 is the largest; 11 bits are kept."""
    vector, codec = torch.tensor([1e9, -1e9, 0.1]), Codec("fp16")
    assert codec.decode(codec.encode(vector)).tolist() == pytest.approx(
        [65504, -65504, 0.1], rel=2**-11
    )


@settings(deadline=None)
@given(
    st.integers(1, 500),
    st.sampled_from(("fp16", "int8")),
    st.floats(-40.0, 4.0),
    st.integers(0, 99),
)
def test_what_was_decoded_loses_nothing_again(
    elements: int, compression: str, power: float, seed: int
) -> None:
    """A region hands on what came in the same format, to the last bit: its model is that of others.
    A scale of 24 significant bits would come back as another one of a hundred times.
    """
    generator = torch.Generator().manual_seed(seed)
    vector, codec = torch.randn(elements, generator=generator) * 10.0**power, Codec(compression)
    message = codec.encode(vector)
    assert torch.equal(codec.encode(codec.decode(message, elements)), message)


def test_sparse_is_146_times_less() -> None:
    """64 of 4,096 values with 14 bits each: 32 x 4,096 / (64 x 14) = 146.3, as Covenant-72B (arXiv
    2603.08163) counts.
    """
    elements = 4_096_000
    assert 4 * elements / Codec("sparse").payload(elements) == pytest.approx(146.3, abs=0.05)
    assert 4 * elements / Codec("sparse").size(elements) > 146


@pytest.mark.parametrize("compression", COARSE)
def test_what_is_lost_comes_later(compression: str) -> None:
    """The sum of 200 messages of one vector is near 200 times the vector: nothing is lost for
    good. Without feedback a sparse message would never tell of small values.
    """
    vector = torch.randn(4_096, generator=torch.Generator().manual_seed(1))
    codec, feedback = Codec(compression), Feedback(4_096)
    total = torch.zeros(4_096)
    for _ in range(200):
        said = feedback.added(vector)
        heard = codec.decode(codec.encode(said), 4_096)
        feedback.sent = said - heard
        total += heard
    assert float((total / 200 - vector).norm() / vector.norm()) < 0.5


@pytest.mark.parametrize(
    ("error", "is_lost"),
    [
        (RuntimeError("[tcp/pair.cc:547] Connection closed by peer [10.0.0.2]"), True),
        (torch.distributed.DistError("the store is gone"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied (8x4 and 8x4)"), False),
    ],
)
def test_an_error_of_the_model_is_no_lost_peer(error: Exception, is_lost: bool) -> None:
    """Gloo's words and any error of torch.distributed tell of one; those of a product do not."""
    assert is_peer_loss(error) == is_lost

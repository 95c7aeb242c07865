"""Gradients are counted without changing the model, on the CPU and on the meta device, and failures
are said in one line.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from placer.errors import PlacerError  # noqa: E402
from placer.profiler.builtin import builtin  # noqa: E402
from placer.profiler.gradients import gradient_sizes  # noqa: E402
from placer.profiler.workload import Workload  # noqa: E402

torch.set_num_threads(1)
nn: Any = torch.nn
META, CPU = torch.device("meta"), torch.device("cpu")


def workload(module: Any, width: int = 4, **fields: Any) -> Workload:
    """A module on random vectors, whose loss is the mean of what comes out."""
    return Workload(
        **{
            "name": "mine",
            "title": "mine",
            "family": "other",
            "module": module,
            "batch": lambda samples, device: torch.ones(samples, width, device=device),
            "loss": lambda module, batch: module(batch).abs().mean(),
            "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            **fields,
        }
    )


@given(
    st.lists(st.sampled_from(["new", "frozen", "tied"]), min_size=1, max_size=6), st.integers(1, 5)
)
@settings(max_examples=40, deadline=None)
def test_any_stack_of_layers_is_counted_from_its_shapes(kinds: list[str], width: int) -> None:
    """Square layers of w (w + 1) elements in two tensors; a tied one adds nothing."""
    first = nn.Linear(width, width)
    layers = [
        first,
        *(
            first if kind == "tied" else nn.Linear(width, width).requires_grad_(kind == "new")
            for kind in kinds
        ),
    ]
    whole = 1 + sum(kind != "tied" for kind in kinds)
    live = 1 + sum(kind == "new" for kind in kinds)
    sizes = gradient_sizes(workload(nn.Sequential(*layers), width))
    each = width * (width + 1)
    assert (sizes.parameters, sizes.trainable, sizes.tensors) == (
        whole * each,
        live * each,
        2 * live,
    )
    assert sizes.bytes_fp32 == 4 * live * each


@pytest.mark.parametrize("name", ["cnn-small", "gnn"])
def test_counting_changes_nothing(name: str) -> None:
    """Weights, gradients, running statistics, hooks and random numbers are as before; counting
    twice gives the same.
    """
    model = builtin(name)
    for parameter in model.module.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    state = torch.get_rng_state()
    first = gradient_sizes(model)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[key], value) for key, value in model.module.state_dict().items())
    assert all(torch.equal(p.grad, torch.ones_like(p)) for p in model.module.parameters())
    assert not any(p._post_accumulate_grad_hooks for p in model.module.parameters())
    assert gradient_sizes(model) == first


def test_a_large_model_is_counted_on_the_meta_device() -> None:
    """560 M parameters are 2,240,569,928 bytes in FP32, the shipped profile's figure; nothing of it
    is in memory.
    """
    with META:
        model = builtin("transformer-560m")
    sizes = gradient_sizes(model)
    assert (sizes.tensors, sizes.bytes_fp32) == (394, 2_240_569_928)


def test_complex_numbers_are_two_floats() -> None:
    """16 complex weights are 128 bytes in FP32 and in their own type; the real bias of 4 halves is
    16 and 8.
    """

    class Mixed(nn.Module):  # type: ignore[misc]
        """Complex weights and a bias in FP16."""

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 4, dtype=torch.complex64))
            self.bias = nn.Parameter(torch.zeros(4, dtype=torch.float16))

        def forward(self, x: Any) -> Any:
            return (x.to(torch.complex64) @ self.weight).abs() + self.bias

    sizes = gradient_sizes(workload(Mixed()))
    assert (sizes.trainable, sizes.bytes_fp32, sizes.bytes_native) == (20, 144, 136)
    assert "complex64, float16" in sizes.notes[0]


def test_lazy_layers_get_their_shape_first() -> None:
    """A lazy linear layer of 3 on vectors of 4 has 15 parameters."""
    assert gradient_sizes(workload(nn.LazyLinear(3))).parameters == 15


def test_failures_name_the_model_and_the_batch() -> None:
    """Nothing to train, and code that raises in a lazy model: one line each, exit code 2."""
    with pytest.raises(PlacerError, match="no trainable parameter"):
        gradient_sizes(workload(nn.Linear(4, 4).requires_grad_(False)))
    with pytest.raises(
        PlacerError, match="'mine' fails with 2 samples on cpu: RuntimeError: mat1 and mat2"
    ) as found:
        gradient_sizes(workload(nn.Sequential(nn.LazyLinear(3), nn.Linear(5, 5))))
    assert "\n" not in found.value.message
    assert found.value.exit_code == 2

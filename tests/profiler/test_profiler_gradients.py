"""Gradients are counted without changing the model, on the CPU and on the meta device, and failures
are said in one line.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from placer.market.catalog import Catalog  # noqa: E402
from placer.profiler.builtin import builtin  # noqa: E402
from placer.profiler.profiling import Profiling, _counted  # noqa: E402
from placer.profiler.steps.session import Findings, Plan  # noqa: E402
from placer.profiler.steps.timing import QUICK, Timing  # noqa: E402
from placer.profiler.workload import Workload, gradient_sizes  # noqa: E402

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
    uses = 2 * kinds.count("tied")  # weights and biases
    assert [note.split(" tied")[0] for note in sizes.notes if " tied use" in note] == (
        [str(uses)] if uses else []
    )


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


def test_memory_is_assumed_from_the_parameters() -> None:
    """16 bytes for each of 5 parameters, and on the host 2 GiB of a process with PyTorch."""
    sizes = _counted(workload(nn.Linear(4, 1)), CPU)
    assert (sizes.device_memory_bytes, sizes.host_memory_bytes) == (80, 2 * 2**30 + 80)


def test_a_large_model_is_counted_on_the_meta_device() -> None:
    """560 M parameters are 2,240,569,928 bytes in FP32, the shipped profile's figure; nothing of it
    is in memory.
    """
    with META:
        model = builtin("transformer-560m")
    sizes = gradient_sizes(model)
    assert (sizes.tensors, sizes.bytes_fp32) == (394, 2_240_569_928)


def timing(batch_size: int, seconds: float, accumulation: int = 1) -> Timing:
    """A batch size that was measured to the end: six steps that take as long."""
    found = Timing(batch_size=batch_size, accumulation=accumulation, done=True)
    for _ in range(6):
        found.add([{"step": seconds}])
    return found


def test_a_measurement_has_what_was_found_and_its_share_of_loading(default: Catalog) -> None:
    """Batches of 8 do 50 samples/s, of 4 only 40, of 16 failed first. A sample is loaded in 10 ms:
    of four batches of 8 in 0.32 s beside a step of 0.6 s, of one in 0.08 s beside 0.16 s. The
    precision at work is partial; one without a step is not there yet.
    """
    each = {4: timing(4, 0.1), 8: timing(8, 0.16)}
    failed = {32: "too large", 16: "no room"}
    first = Findings(precision="fp32", timings=each, failed=failed, accumulated=timing(8, 0.6, 4))
    second, third = Findings(precision="bf16", timings=dict(each)), Findings(precision="fp16")
    found = Profiling(
        subject=workload(nn.Linear(4, 1)),
        plan=Plan(device=CPU, precisions=("fp32", "bf16"), effort=QUICK, threads=1),
        catalog=default,
        command="placer profile",
        findings=[first, second],
        loading_seconds_per_sample=0.01,
    )
    whole, at_work = found.measurements
    assert [(point.batch_size, point.accumulation) for point in whole.points] == [
        *((4, 1), (8, 1), (8, 4))
    ]
    assert (whole.knee_batch_size, whole.largest_batch_size, whole.gpu) == (8, 8, "CPU-1")
    assert (whole.failed_batch_size, whole.failure) == (16, "no room")
    assert (at_work.failed_batch_size, at_work.failure) == (None, None)
    assert (whole.partial, at_work.partial) == (False, True)
    assert whole.loading_share == pytest.approx(0.32 / 0.92)
    assert at_work.loading_share == pytest.approx(0.08 / 0.24)
    found.findings.append(third)
    assert [row.partial for row in found.measurements] == [False, False]
    each[4].done = False
    assert found.measurements[0].partial

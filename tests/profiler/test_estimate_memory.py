"""Counts on the meta device: parameters, FLOPs, activations, optimizer states, memory and what
fits.
"""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest
from conforming import validate
from drawn import drawn
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from placer.cli.measure.profile_estimate import estimate_report
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.profiler.estimate.counters import Kept, flop_counter
from placer.profiler.estimate.counting import Counts, count
from placer.profiler.estimate.estimate import (
    ACTIVATIONS_OF_FP32,
    Estimate,
    OptimizerState,
    components,
    estimate,
    fits,
    optimizer_state,
)
from placer.profiler.estimate.throughput import Work
from placer.profiler.workload import Workload, twin_on
from placer.units import GIB

torch: Any = pytest.importorskip("torch")
torch.set_num_threads(1)
nn: Any = torch.nn


def workload(
    module: Any, shape: tuple[int, ...], optimizer: Callable[[Any], Any] | None = None, **more: Any
) -> Workload:
    """Model whose loss is the mean square of its output."""
    return Workload(
        name="small",
        title="Small",
        family="cnn",
        module=module,
        batch=lambda n, device: torch.ones(n, *shape, device=device),
        loss=lambda model, x: model(x).square().mean(),
        optimizer=optimizer or (lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
        **more,
    )


@pytest.fixture(scope="module")
def two_layers() -> Workload:
    """8 -> 16 -> 4 with biases."""
    return workload(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (8,))


@pytest.fixture(scope="module")
def small(two_layers: Workload) -> Estimate:
    """Its estimate at 10 samples in FP32 with Adam."""
    return estimate(two_layers, load_catalog("default"), 10, "fp32", "adam")


def test_two_layers_by_hand(two_layers: Workload) -> None:
    """Products of a sample, two FLOPs each: forward 8 x 16 + 16 x 4 = 192, backward 2 x 64 for the
    second layer and 128 for the weights of the first, whose input needs no gradient: 2 x 448 = 896.
    Saved: 8 inputs, 16 of ReLU, 4 outputs: 28 x 4 bytes.
    """
    found = count(two_layers)
    assert found.per_sample.flops == 896
    assert found.per_step.flops == 0
    assert found.per_sample.activation_bytes == 112
    assert found.parameter_bytes == 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert found.matrix_elements == 8 * 16 + 16 * 4
    assert found.of(10).flops == 8960


def test_an_estimate_by_hand(small: Estimate) -> None:
    """212 parameters: 848 bytes of weights, as many of gradients, 1,696 of Adam's moments; 1,120 of
    activations for 10 samples.
    """
    assert astuple(small.gradients)[:4] == (212, 212, 4, 848)
    assert small.flops_per_sample == 896
    parts = {c.name: c.bytes for c in small.memory}
    assert [parts[name] for name in ("weights", "gradients", "optimizer", "activations")] == [
        848,
        848,
        1696,
        1120,
    ]
    assert "half-precision weights" not in parts
    assert small.device_memory_bytes == round(sum(parts.values()))
    assert {fit.largest_microbatch for fit in small.fits} == {2**20}  # more is not looked for


def test_counts_are_those_of_a_real_pass() -> None:
    """What autograd saves, and torch's FLOPs, on the CPU with values: the same bytes at 3 samples
    as counted on the meta device.
    """
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    work = workload(net, (3, 12, 12))
    found = count(work).of(3)
    kept = Kept([*net.parameters(), *net.buffers()])
    with flop_counter() as flops, torch.autograd.graph.saved_tensors_hooks(kept.keep, lambda t: t):
        loss: Any = work.loss(net, work.batch(3, torch.device("cpu")))
        loss.backward()
    assert flops.get_total_flops() == found.flops
    assert kept.bytes == pytest.approx(
        found.activation_bytes, rel=0.01
    )  # the CPU saves the mean of a batch norm in another shape


def test_the_model_itself_is_left_alone() -> None:
    """Weights stay on the CPU without gradients, statistics as they were; the twin shares tied
    weights and frozen ones stay frozen.
    """
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    net[0].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    count(workload(net, (4,)))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    twin: Any = twin_on(net, "meta")
    assert twin[2].weight is twin[0].weight
    assert twin[0].weight.is_meta
    assert not twin[0].bias.requires_grad


def test_frozen_and_tied_weights_count_once(default: Catalog) -> None:
    """A frozen 4 x 4 layer and a 4 x 4 one used twice: 32 parameters of which 16 train, in one
    tensor; Adam keeps 128 bytes.
    """
    shared = nn.Linear(4, 4, bias=False)
    net = nn.Sequential(nn.Linear(4, 4, bias=False).requires_grad_(False), shared, shared)
    found = estimate(workload(net, (4,)), default, 4, "fp32", "adam")
    assert astuple(found.gradients)[:4] == (32, 16, 1, 64)
    assert next(c.bytes for c in found.memory if c.name == "optimizer") == 2 * 4 * 16


@pytest.mark.parametrize(
    ("build", "each"),
    [
        (lambda p: torch.optim.SGD(p, lr=0.1), 0),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), 1),
        (lambda p: torch.optim.Adam(p, lr=0.1), 2),
        (lambda p: torch.optim.AdamW(p, lr=0.1), 2),
        (lambda p: torch.optim.Adagrad(p, lr=0.1), 1),
    ],
)
def test_optimizer_states_are_stepped(build: Callable[[Any], Any], each: int) -> None:
    """SGD keeps nothing, momentum 4 bytes a parameter, Adam 8; and up to 4 bytes a tensor to count
    its steps.
    """
    net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    found = optimizer_state(workload(net, (8,), build), 212)
    assert 0 <= found.bytes - 4 * each * 212 <= 4 * 4
    assert "on the meta device" in found.source


def test_unknown_optimizers_are_refused(two_layers: Workload, default: Catalog) -> None:
    """With the nearest name; and so are precisions and microbatches that nothing has."""
    with pytest.raises(PlacerError) as caught:
        estimate(two_layers, default, 8, "fp16", "adams")
    assert caught.value.hint == "a similar optimizer exists: 'adam'"
    with pytest.raises(PlacerError, match="unknown precision 'fp8'"):
        estimate(two_layers, default, 8, "fp8")
    with pytest.raises(PlacerError, match="microbatch -3 is below 1"):
        estimate(two_layers, default, -3)


def test_a_model_that_looks_at_values_is_refused_plainly(default: Catalog) -> None:
    """One line that names the model and says what to do."""

    class Looks(nn.Linear):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return super().forward(x) * (2 if x.sum().item() > 0 else 1)

    with pytest.raises(PlacerError, match="small cannot be counted on the meta device") as caught:
        estimate(workload(Looks(4, 4), (4,)), default)
    assert "without --estimate" in caught.value.hint


COUNTED = Counts(
    per_sample=Work(samples=1, flops=1, moved_bytes=1, activation_bytes=2e8, largest_bytes=1e6),
    per_step=Work(samples=0, flops=0, moved_bytes=0, kernels=1, activation_bytes=1e6),
    parameter_bytes=10**9,
    buffer_bytes=10**6,
    matrix_elements=2 * 10**8,
)


def test_components_by_hand() -> None:
    """Ten samples under autocast: two bytes of each matrix element beside the weights; of the 2.001
    GB that FP32 would save 0.6; twice the largest result of 1 MB a sample; a tenth of all above.
    """
    kept = OptimizerState(name="given", bytes=5 * 10**9, source="-")
    parts = {part.name: part for part in components(COUNTED, 10, "fp16", 10**9, kept)}
    sizes = {
        "weights": 1.001e9,
        "gradients": 1e9,
        "optimizer": 5e9,
        "half-precision weights": 4e8,
        "activations": 0.6 * 2.001e9,
        "workspace": 2e7,
    }
    sizes |= {"fragmentation": sum(sizes.values()) / 10, "framework": 0.75e9}
    assert {name: part.bytes for name, part in parts.items()} == pytest.approx(sizes)
    grow = {name: part.per_sample for name, part in parts.items() if part.per_sample}
    each = {"activations": 1.2e8, "workspace": 2e6, "fragmentation": 1.22e7}
    assert grow == pytest.approx(each)


def test_a_large_model_takes_as_many_samples_as_fit_the_least_gpu(default: Catalog) -> None:
    """Of 32 samples, 13 fit it: the profile has 8, and its GPU the rate with 8; larger ones have
    more at once. The host needs 50 bytes for each parameter, 4 GB at least.
    """
    with torch.device("meta"):
        net = nn.Sequential(nn.Linear(4, 50_000_000), nn.ReLU(), nn.Linear(50_000_000, 1))
    work = workload(net, (4,))
    found = estimate(work, default)
    least, (roomy, *_) = found.least_microbatch, found.fits
    assert (least, roomy.largest_microbatch, found.microbatch) == (8, 13, 32)
    profile, alone = found.to_profile(), estimate(work, default, 8)
    assert (profile.microbatch, profile.target_batch_size) == (8, 32_768)
    assert profile.device_memory_bytes == alone.device_memory_bytes < found.device_memory_bytes
    rate, same = (next(r for r in e.rates if r.gpu == roomy.gpu) for e in (found, alone))
    assert rate == same
    assert {"16", "32"} <= {r.source.split("fp16, ")[1].split()[0] for r in found.rates}
    parameters = 300_000_001  # four inputs, a bias and an output of each, and a bias
    assert profile.host_memory_bytes == 50 * parameters
    few = workload(nn.Linear(8, 1), (8,), target_batch_size=512, microbatch=4)
    made = estimate(few, default).to_profile()
    assert (made.host_memory_bytes, made.target_batch_size, made.microbatch) == (4 * 10**9, 512, 4)


@given(
    microbatch=st.integers(1, 4096),
    precision=st.sampled_from(sorted(ACTIVATIONS_OF_FP32)),
    state=st.integers(0, 10**11),
)
def test_what_fits_is_monotone_in_memory(
    default: Catalog, microbatch: int, precision: str, state: int
) -> None:
    """A GPU with more memory takes no fewer samples; the largest microbatch fits and one sample
    more does not.
    """
    kept = OptimizerState(name="given", bytes=state, source="-")
    parts = components(COUNTED, microbatch, precision, 10**9, kept)
    rows = fits(parts, microbatch, default)
    assert [r.memory_bytes for r in rows] == sorted(r.memory_bytes for r in rows)
    assert [r.largest_microbatch for r in rows] == sorted(r.largest_microbatch for r in rows)
    for row in rows:
        assert row.fits == (row.largest_microbatch >= microbatch)
        for samples in (row.largest_microbatch, row.largest_microbatch + 1):
            needed = sum(c.bytes for c in components(COUNTED, samples, precision, 10**9, kept))
            assert (
                samples == 0
                or abs(needed - row.memory_bytes) < 1
                or (needed <= row.memory_bytes) == (samples <= row.largest_microbatch)
            )


def test_models_of_the_paper_fit_where_they_were_run(default: Catalog) -> None:
    """ConvNeXt Large with 32 images and XLM-RoBERTa with one sequence ran on a T4 with 16 GB; 32
    sequences fit on none below 80 GB.
    """
    references = reference_models()
    image = estimate(references.reference("convnext-large"), default, 32, optimizer="adam")
    assert next(f for f in image.fits if f.gpu == "T4").fits
    one = estimate(references.reference("roberta-xlm"), default, 1, optimizer="adam")
    assert next(f for f in one.fits if f.gpu == "T4").fits
    parts = [c for c in one.memory if c.per_sample]
    assert one.device_memory_bytes + 31 * sum(c.per_sample for c in parts) > 80 * GIB


def reference_models() -> Any:
    """Load tests/benchmarks/reference_models.py."""
    spec = importlib.util.spec_from_file_location(
        "reference_models", ROOT / "tests" / "benchmarks" / "reference_models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_document_is_json_and_the_tables_say_the_same(
    small: Estimate, default: Catalog
) -> None:
    """Every GPU in both; nothing but finite numbers."""
    document = json.loads(json.dumps(small.to_dict(), allow_nan=False))
    assert document["schema"] == "placer.profile-estimate/v1"
    validate(document, "profile-estimate")
    gpus = {g.gpu for g in default.gpus.values() if g.kind == "gpu"}
    assert (
        {row["gpu"] for row in document["fits"]}
        == {row["gpu"] for row in document["rates"]}
        == gpus
    )
    assert document["memory"]["bytes"] == pytest.approx(
        sum(c["bytes"] for c in document["memory"]["components"]), abs=1
    )
    text = drawn(estimate_report(small))
    assert all(gpu in text for gpu in gpus)
    assert "212 parameters" in text
    assert "kernel launches" in text

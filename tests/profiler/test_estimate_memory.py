"""Counts on the meta device: parameters, FLOPs, activations, optimizer states, memory and what
fits.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from drawn import drawn
from estimator_fit import published_works
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins

from conftest import ROOT
from placer.cli.measure.estimate_table import estimate_report
from placer.documents.schemas import schema_text
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.profiler.estimate.counters import Kept, flop_counter
from placer.profiler.estimate.counting import Counts, count, count_work
from placer.profiler.estimate.estimate import Estimate, estimate
from placer.profiler.estimate.memory import (
    ACTIVATIONS_OF_FP32,
    OptimizerState,
    components,
    fits,
    optimizer_state,
)
from placer.profiler.estimate.work import Work
from placer.profiler.gradients import twin_on
from placer.profiler.workload import Workload
from placer.records import replace
from placer.units import GIB
from placer.workload.profile import SCHEMA, Rate, load_profile

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
    assert (small.parameters, small.trainable, small.gradient_tensors, small.gradient_bytes) == (
        212,
        212,
        4,
        848,
    )
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


def test_grouped_convolutions_are_not_counted_for_each_group() -> None:
    """Depthwise 3 x 3 over 4 channels of 6 x 6: 2 x 9 x 4 x 36 FLOPs forward, as many for the
    weights (the input needs none).
    """
    found = count(workload(nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False), (4, 6, 6)))
    assert found.per_sample.flops == found.per_sample.grouped_flops == 2 * (2 * 9 * 4 * 36)


def test_kernels_of_recurrent_layers_are_not_launched() -> None:
    """An LSTM over 5 or 50 steps is one call of cuDNN: the host launches about as many kernels; its
    FLOPs grow tenfold.
    """

    class Last(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.LSTM(8, 16, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    short, long = (count(workload(Last(), (steps, 8))) for steps in (5, 50))
    assert long.of(4).kernels < 2 * short.of(4).kernels
    assert long.of(4).flops == pytest.approx(10 * short.of(4).flops, rel=0.05)


def test_transposed_convolutions() -> None:
    """Each of 5 x 5 inputs in 2 channels goes to 3 channels through 2 x 2 weights: 2 x 25 x 2 x 12
    FLOPs, and again for the weights.
    """
    found = count(workload(nn.ConvTranspose2d(2, 3, 2, stride=2, bias=False), (2, 5, 5)))
    assert found.per_sample.flops == 2 * (2 * 25 * 2 * 12)


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
    assert (found.parameters, found.trainable, found.gradient_tensors, found.gradient_bytes) == (
        32,
        16,
        1,
        64,
    )
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


def test_an_optimizer_that_looks_at_values_is_taken_as_adam() -> None:
    """LBFGS needs a closure: 8 bytes for each of 212 parameters, marked as assumed."""
    net = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    found = optimizer_state(workload(net, (8,), torch.optim.LBFGS), 212)
    assert (found.name, found.bytes, found.basis) == ("LBFGS", 1696, "assumed")
    assert "as Adam" in found.source


def test_models_in_half_precision_need_half(default: Catalog) -> None:
    """Weights and gradients of 20 parameters are 40 bytes each, autocast copies nothing, and the
    work is that of the FP32 model.
    """
    plain, half = (workload(net, (4,)) for net in (nn.Linear(4, 4), nn.Linear(4, 4).half()))
    half = replace(
        half, batch=lambda n, device: torch.ones(n, 4, device=device, dtype=torch.float16)
    )
    parts = {c.name: c.bytes for c in estimate(half, default, 4).memory}
    assert (parts["weights"], parts["gradients"], parts.get("half-precision weights")) == (
        40,
        40,
        None,
    )
    works = [count(w).of(4) for w in (plain, half)]
    assert works[0].flops == works[1].flops
    assert (works[0].half, works[1].half) == (False, True)
    assert works[0].moved_bytes == pytest.approx(2 * works[1].moved_bytes, rel=0.1)


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


def test_components_grow_with_the_microbatch() -> None:
    """Twice the samples: activations and workspace grow by what each sample takes, weights stay."""
    one, two = (
        {
            c.name: c
            for c in components(
                COUNTED, n, "fp32", 10**9, OptimizerState(name="sgd", bytes=0, source="-")
            )
        }
        for n in (8, 16)
    )
    assert two["activations"].bytes - one["activations"].bytes == pytest.approx(8 * 2e8)
    assert two["weights"] == one["weights"]
    assert "optimizer" not in one


def test_autocast_keeps_about_six_tenths() -> None:
    """Activations of a small ResNet and a small encoder under autocast on the CPU, over FP32: 0.53
    and 0.62; taken as 0.6.
    """
    convolution = nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3),
        nn.ReLU(),
    )
    encoder = nn.TransformerEncoderLayer(64, 4, 256, batch_first=True)
    for net, batch in ((convolution, torch.ones(4, 3, 16, 16)), (encoder, torch.ones(4, 32, 64))):
        size = []
        for half in (False, True):
            kept = Kept([*net.parameters(), *net.buffers()])
            with (
                torch.autocast("cpu", dtype=torch.bfloat16, enabled=half),
                torch.autograd.graph.saved_tensors_hooks(kept.keep, lambda t: t),
            ):
                net(batch).square().mean()
            copies = 2 * sum(p.numel() for p in net.parameters() if p.dim() > 1)
            size.append(kept.bytes - half * copies)
        assert 0.4 < size[1] / size[0] < 0.75
    assert ACTIVATIONS_OF_FP32["fp16"] == 0.6


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


def test_reference_models_are_the_published_ones() -> None:
    """Parameters equal torchvision's and the artifact's; 24.3 GFLOP a sample for ResNet-50: 3 x 2 x
    4.09 G less the input's gradient; the counts shipped in published.csv are those of today.
    """
    references = reference_models()
    for name, (_, family, parameters) in references.REFERENCE.items():
        if name in {"resnet18", "resnet50", "convnext-large", "roberta-base"}:
            assert (
                sum(p.numel() for p in references.reference(name).module.parameters()) == parameters
            )
        assert published_works()[name][0] == family
    step = count(references.reference("resnet50")).of(32)
    assert step.flops / 32 == pytest.approx(3 * 2 * 4.09e9, rel=0.02)
    work = published_works()["resnet50"][1]
    again = count_work(references.reference("resnet50"), 32, "fp16")
    assert (work.flops, work.moved_bytes, work.kernels) == pytest.approx(
        (again.flops, again.moved_bytes, again.kernels), rel=0.02
    )
    assert again.flops == step.flops


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
    jsonschema.validate(document, json.loads(schema_text("profile-estimate")))
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


def test_the_profile_of_an_estimate_is_read_back(small: Estimate, tmp_path: Path) -> None:
    """`placer recommend --model` takes it: estimated rates, memory and gradient bytes."""
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps({"schema": SCHEMA, **to_builtins(small.to_profile())}), encoding="utf-8"
    )
    profile = load_profile(str(path))
    assert (profile.gradient_bytes_fp32, profile.microbatch, profile.tensors) == (848, 10, 4)
    assert {r.basis for r in profile.rates} == {"estimated"}


def test_known_rates_are_used_and_checked(two_layers: Workload, default: Catalog) -> None:
    """A measured A10 is not estimated again, and its check says how far the estimate was off."""
    rate = Rate(
        gpu="A10",
        gpu_count=1,
        framework="none",
        value=100.0,
        low=99.0,
        high=101.0,
        basis="measured",
        source="here",
    )
    found = estimate(replace(two_layers, microbatch=4), default, known=(rate,))
    assert found.microbatch == 4
    assert "A10" not in {r.gpu for r in found.rates}
    assert [c.gpu for c in found.checks] == ["A10"]
    assert "measured" in drawn(estimate_report(found))

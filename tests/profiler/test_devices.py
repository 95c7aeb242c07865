"""The device table: dense figures, names that PyTorch says; and efficiencies of frameworks."""

import csv
import os

import pytest

from conftest import ROOT
from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.devices import busy_words, choose_device, device, facts, gpu_name
from placer.profiler.measured_profile import published_efficiency
from placer.units import parse_date
from placer.workload.measurement import PRECISIONS
from placer.workload.profile import load_profile

TABLE = ROOT / "placer" / "profiler" / "devices.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))
GENERATIONS = {"volta", "turing", "ampere", "ada", "hopper", "blackwell", "cdna3", "cdna4"}


def test_every_gpu_of_the_shipped_catalog_has_one_row(default: Catalog) -> None:
    """No GPU is missing, none appears twice, none is unknown to the catalog."""
    names = [row["gpu"] for row in ROWS]
    assert len(set(names)) == len(names)
    assert set(names) == {gpu.gpu for gpu in default.gpus.values() if gpu.kind == "gpu"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["gpu"])
def test_rows_have_a_source_a_date_and_plausible_ratios(
    row: dict[str, str], default: Catalog
) -> None:
    """BF16 runs at the FP16 rate of the catalog, TF32 at half of it, FP32 below both: figures with
    sparsity would be twice as large. FP16 over FP32 is 15 on an H100 and 31 on a GB200.
    """
    gpu = default.gpus[row["gpu"]]
    assert row["source"].startswith(("NVIDIA ", "AMD "))
    assert parse_date(row["as_of"], "date").isoformat() == gpu.as_of
    assert row["generation"] in GENERATIONS
    own = device(row["gpu"])
    assert own is not None
    assert own.memory_bytes == gpu.memory_gib * 2**30
    fp32, fp16 = float(row["fp32_tflops"]), gpu.fp16_tflops
    assert 1.9 <= fp16 / fp32 <= (32 if row["generation"] == "blackwell" else 20)
    tensor = row["generation"] in GENERATIONS - {"volta", "turing"}
    assert bool(row["bf16_tflops"]) == tensor
    assert bool(row["tf32_tflops"]) == (tensor and row["generation"] != "cdna4")
    if tensor:
        assert float(row["bf16_tflops"]) == pytest.approx(fp16)
    if row["tf32_tflops"]:
        assert float(row["tf32_tflops"]) == pytest.approx(fp16 / 2, rel=0.02)
        assert float(row["tf32_tflops"]) >= fp32


def test_missing_units_fall_back_as_in_pytorch() -> None:
    """A T4 runs TF32 as FP32 at 8.1 TFLOP/s, and has no BF16; an A10 has both."""
    t4, a10 = device("T4"), device("A10")
    assert t4 is not None
    assert a10 is not None
    assert (t4.peak("tf32"), t4.peak("bf16")) == (8.1e12, None)
    assert [a10.peak(p) for p in PRECISIONS] == [31.2e12, 62.5e12, 125e12, 125e12]
    assert device("B400") is None


@pytest.mark.parametrize(
    ("share", "name"),
    [
        *((None, "A100-40"), (0.81, "A100-40"), (1.14, "A100-40")),
        *((0.79, "A100-SXM4-40GB"), (1.16, "A100-SXM4-40GB")),
    ],
)
def test_a_slice_of_a_gpu_is_another_device(share: float | None, name: str) -> None:
    """Its memory is none that error correction and the driver leave of 39.5 GiB."""
    memory_bytes = None if share is None else share * 39.5 * 2**30
    assert gpu_name("NVIDIA A100-SXM4-40GB", memory_bytes) == name


@pytest.mark.parametrize(
    ("load", "words"), [(2.9, None), (3.0, "the machine is busy (load 3.0 on 4 CPUs): expect")]
)
def test_a_busy_machine_is_said(
    monkeypatch: pytest.MonkeyPatch, load: float, words: str | None
) -> None:
    """From half of four CPUs on, beside this program."""
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(4))
    assert (busy_words() or "").startswith(words or "")
    assert bool(busy_words()) == bool(words)


def test_a_gpu_is_found_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two, as on a machine that has them."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    names = (None, "cuda", "cuda:1", "cpu")
    assert [str(choose_device(name)) for name in names] == ["cuda:0", "cuda:0", "cuda:1", "cpu"]
    with pytest.raises(PlacerError, match=r"no device 'cuda:2': PyTorch \S+ sees 2 CUDA devices"):
        choose_device("cuda:2")


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


def test_a_processor_is_named_by_the_threads_that_were_asked_for() -> None:
    """``CPU-1`` with one thread; no more threads than there are cores make no larger processor."""
    torch = pytest.importorskip("torch")
    one, every, more = (facts(torch.device("cpu"), n).gpu for n in (1, None, 10_000))
    assert one == "CPU-1"
    assert every == more

"""Figures of devices beside the books: matrix products, NVLink and PCIe."""

import msgspec

from placer.market.books.csv_rows import read_rows
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import SHARE_OF_DATA_SHEET, Catalog, Gpu, gpu_document
from placer.records import replace

MINE = Gpu(
    gpu="mine",
    kind="gpu",
    memory_gib=79,
    fp16_tflops=100,
    memory_gb_per_s=2000,
    host="a10",
    source="our own",
    as_of="2026-11-01",
)
"""A device that accelerators.csv does not have."""


def test_every_row_can_be_read_and_names_a_device_of_the_default_book(default: Catalog) -> None:
    """Every GPU has a row, with its PCIe at least; no row is about anything else."""
    rows = {
        row["gpu"]: row
        for row in read_rows(shipped_catalogs() / "accelerators.csv", "accelerators.csv")
    }
    assert set(rows) == {gpu.gpu for gpu in default.gpus.values() if gpu.kind == "gpu"}
    assert all(bool(row["matmul_source"]) == bool(row["matmul_tflops"]) for row in rows.values())


def test_attainable_is_measured_or_a_share_of_the_data_sheet(erben: Catalog) -> None:
    """A100: 271.2 TFLOP/s, measured, in every book; the T4 has 0.8 x 65 = 52 by its data sheet."""
    a100, t4 = erben.gpu("A100-40"), erben.gpu("T4")
    assert (a100.attainable_tflops, a100.attainable_basis) == (271.2, "measured")
    assert (t4.attainable_tflops, t4.attainable_basis) == (52, "estimated")
    assert SHARE_OF_DATA_SHEET == 0.8


def test_a_book_may_have_figures_of_its_own() -> None:
    """A book's figure wins over the table; a device that the table lacks has none."""
    assert (MINE.nvlink_gb_per_s, MINE.pcie_gb_per_s, MINE.attainable_tflops) == (None, None, 80)
    a100 = replace(MINE, gpu="A100-40", matmul_tflops=250.0)
    assert (a100.matmul_tflops, a100.nvlink_gb_per_s) == (250.0, 300)


def test_documents_hold_only_figures_of_the_book() -> None:
    """What the table adds is added again when a document is read; a book's own figure is kept."""
    own = replace(MINE, gpu="A100-40", matmul_tflops=250.0)
    document = gpu_document(own)
    assert (document["matmul_tflops"], "nvlink_gb_per_s" in document) == (250.0, False)
    assert msgspec.convert(document, Gpu) == own

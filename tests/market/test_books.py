"""The shipped price books are plausible and have sources; bad books are refused."""

import csv
import importlib
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.books.csv_rows import BOOK_FILES
from placer.market.books.folders import own_book_names, own_folder, shipped_catalogs
from placer.market.catalog import Catalog
from placer.market.network.graph import Network


def test_columns_file_describes_every_file() -> None:
    """columns.csv has a block for each file of a book or beside it, and a word for each."""
    with (shipped_catalogs() / "columns.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["file"] for row in rows} >= set(BOOK_FILES)
    assert all(row["meaning"] for row in rows)


def test_default_book_covers_the_market(default: Catalog) -> None:
    """At least 30 regions on five continents, the GPUs of the request, all three markets."""
    places = {o.place for o in default.offers}
    assert len(places) >= 30
    assert len({default.region(p).continent for p in places}) >= 5
    assert {"T4", "L4", "A10", "A10G", "V100", "A100-40", "A100-80", "H100"} <= set(
        default.rented_gpus
    )
    assert {o.provider for o in default.offers} == {
        *("aws", "gcp", "azure", "lambda", "oci", "runpod")
    }
    assert {o.market for o in default.offers} == {"spot", "on_demand", "community"}


def test_erben_egress_by_scope(erben: Catalog) -> None:
    """Table 1 of Erben et al.: US 0.01, between continents 0.08, to Oceania 0.15 USD/GB."""
    network = Network(erben)
    places = ("gcp/us-west1", "gcp/europe-west1", "gcp/australia-southeast1")
    prices = [network.egress_price("gcp/us-central1", dst).usd_per_gib for dst in places]
    assert prices == [0.01, 0.08, 0.15]
    same = ("gcp/us-central1", "gcp/us-central1")
    inside = [network.egress_price(*same, same_zone=zone).usd_per_gib for zone in (True, False)]
    assert inside == [0.0, 0.01]
    assert network.egress_price("lambda/us-west-1", "gcp/us-west1").usd_per_gib == 0.0


def _copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped_catalogs() / "erben-2023", tmp_path / "mine"))


def edited(folder: Path, file: str, old: str, new: str) -> str:
    """A copy of a book with one file edited; without ``old`` the file is another. Its path."""
    shutil.rmtree(folder / "mine", ignore_errors=True)
    path = _copy(folder) / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else new, encoding="utf-8")
    return str(path.parent)


TIERS = "provider,src,dst,above_gib_per_month,usd_per_gib,source,as_of\n"


def tiers(*marks: str) -> str:
    """The rows of a pair with volume tiers, each of another price."""
    rows = (f"gcp,*,internet,{mark},0.{n},t,2026-01-01\n" for n, mark in enumerate(marks, 1))
    return TIERS + "".join(rows)


def test_files_that_are_not_text_are_refused(tmp_path: Path) -> None:
    """A mark of UTF-16 and a half character."""
    folder = _copy(tmp_path)
    (folder / "offers.csv").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(PlacerError, match=r"offers\.csv"):
        load_catalog(str(folder))


def test_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    """Spreadsheets write both."""
    folder = _copy(tmp_path)
    text = (folder / "offers.csv").read_text(encoding="utf-8")
    (folder / "offers.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(load_catalog(str(folder)).offers) == 21


def test_the_column_of_the_volume_tiers_may_be_missing(erben: Catalog, default: Catalog) -> None:
    """The papers' books price every GiB alike; the default book has tiers of four clouds."""
    assert {price.above_gib_per_month for price in erben.egress} == {0.0}
    tiered = {price.provider for price in default.egress if price.above_gib_per_month > 0}
    assert tiered == {"aws", "azure", "gcp", "oci"}


def test_a_region_without_egress_price_is_an_error_never_free(tmp_path: Path) -> None:
    """Dropping the rows of a provider makes its egress unknown."""
    folder = _copy(tmp_path)
    path = folder / "egress.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("azure")))
    network = Network(load_catalog(str(folder)))
    with pytest.raises(PlacerError, match="from azure/southcentralus to gcp/us-west1"):
        network.egress_price("azure/southcentralus", "gcp/us-west1")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_without_a_home_has_an_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container under any number: nothing is found there, and nothing can be written."""
    for name in ("PLACER_HOME", "HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    importlib.import_module("platformdirs")  # which the user cannot read in this checkout
    process = multiprocessing.get_context("fork").Process(target=_homeless)
    process.start()
    process.join()
    assert process.exitcode == 0


def _homeless() -> None:
    os.setuid(54_321)
    folders = [own_folder("cache"), own_folder("config"), own_folder("data")]
    os._exit(int(folders != 3 * [Path("/dev/null/placer")] or own_book_names() != []))

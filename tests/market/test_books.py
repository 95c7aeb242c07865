"""The shipped price books: every figure is plausible, every row has a source; bad books are
refused.
"""

import csv
import shutil
from pathlib import Path

import pytest

from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.books.csv_rows import KEYS
from placer.market.books.folders import shipped_catalogs
from placer.market.catalog import Catalog
from placer.market.network.graph import Network


def test_columns_file_describes_every_file() -> None:
    """columns.csv has a block for each file that a book may have or that lies beside it, and says
    what each column means.
    """
    with (shipped_catalogs() / "columns.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["file"] for row in rows} == set(KEYS)
    assert all(row["meaning"] for row in rows)


def test_default_book_covers_the_market(default: Catalog) -> None:
    """At least 30 regions on five continents, the GPUs of the request on five providers, all
    three markets.
    """
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
    """Table 1 of Erben et al.: US 0.01, between continents 0.08, anything to Oceania 0.15 USD/GB on
    GC.
    """
    network = Network(erben)
    price = {
        dst: network.egress_price("gcp/us-central1", dst).usd_per_gib
        for dst in ("gcp/us-west1", "gcp/europe-west1", "gcp/australia-southeast1")
    }
    assert price == {
        "gcp/us-west1": 0.01,
        "gcp/europe-west1": 0.08,
        "gcp/australia-southeast1": 0.15,
    }
    assert network.egress_price("gcp/us-central1", "gcp/us-central1").usd_per_gib == 0.0
    assert (
        network.egress_price("gcp/us-central1", "gcp/us-central1", same_zone=False).usd_per_gib
        == 0.01
    )
    assert network.egress_price("lambda/us-west-1", "gcp/us-west1").usd_per_gib == 0.0


def _copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped_catalogs() / "erben-2023", tmp_path / "mine"))


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (
            "offers.csv",
            "spot,0.18,",
            "spot,-0.18,",
            "offers.csv:2: usd_per_hour '-0.18' is not from 0",
        ),
        ("offers.csv", "spot,0.18,", "spot,,", "offers.csv:2: usd_per_hour '' is not a number"),
        ("offers.csv", "spot,0.18,", "spot,NaN,", "usd_per_hour 'NaN' is not a finite number"),
        ("offers.csv", "spot,0.18,", "spot,1e999,", "usd_per_hour '1e999' is not a finite number"),
        ("offers.csv", "spot,0.18,", "spot,0,", "usd_per_hour '0' of a rented machine"),
        (
            "offers.csv",
            "spot,0.18,",
            "reserved,0.18,",
            "market 'reserved' is not one of on_demand, spot",
        ),
        ("offers.csv", ",T4,1,", ",T5,1,", "gpu 'T5' is not in gpus.csv"),
        (
            "offers.csv",
            "gcp,us-west1,",
            "gcp,us-west9,",
            "region 'gcp/us-west9' is not in regions.csv",
        ),
        ("offers.csv", "2023-04-15", "15.4.2023", "as_of '15.4.2023' is not a date"),
        ("offers.csv", "usd_per_hour", "price", "offers.csv:1: column 'usd_per_hour' is missing"),
        ("offers.csv", "gcp,us-west1,", "gcp,us-west1", "12 cells instead of 13"),
        ("regions.csv", ",41.26,", ",,", "latitude_deg '' is not a number"),
        ("regions.csv", ",41.26,", ",141.26,", "latitude_deg '141.26' is not from -90 to 90"),
        ("links.csv", ",4.87,", ",0,", "gbps_one_stream '0' is not above 0"),
        ("egress.csv", "gcp,NA,NA,", "gcp,NAA,NA,", "src 'NAA' is no region or egress zone of gcp"),
        ("egress.csv", "gcp,NA,NA,", "gpc,NA,NA,", "provider 'gpc' has no region"),
        ("offers.csv", "spot,0.18,", "spot,1e308,", "usd_per_hour '1e308' is not"),
        ("egress.csv", "gcp,*,inter_zone,0.01", "gcp,*,intra_zone,0.01", "is already in line"),
    ],
)
def test_bad_cells_are_refused_with_file_line_column_and_value(
    tmp_path: Path, file: str, old: str, new: str, says: str
) -> None:
    """One clear line, not a traceback and not a zero."""
    folder = _copy(tmp_path)
    _replace(folder / file, old, new)
    with pytest.raises(PlacerError) as caught:
        load_catalog(str(folder))
    assert says in caught.value.message


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00x", b"<html>no</html>\n", b'provider,"unclosed\n']
)
def test_files_that_are_not_tables_are_refused(tmp_path: Path, data: bytes) -> None:
    """Empty, UTF-16, HTML and unclosed quotes."""
    folder = _copy(tmp_path)
    (folder / "offers.csv").write_bytes(data)
    with pytest.raises(PlacerError, match=r"offers\.csv"):
        load_catalog(str(folder))


def test_byte_order_mark_and_crlf_are_read(tmp_path: Path) -> None:
    """Spreadsheets write both."""
    folder = _copy(tmp_path)
    text = (folder / "offers.csv").read_text(encoding="utf-8")
    (folder / "offers.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert len(load_catalog(str(folder)).offers) == 21


TIERS = "provider,src,dst,above_gib_per_month,usd_per_gib,source,as_of\n"
REST = "t,2026-01-01\n"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (
            f"gcp,*,internet,0,0.1,{REST}gcp,*,internet,0,0.2,{REST}",
            "gcp/*/internet/0 is already in line 2",
        ),
        (
            f"gcp,*,internet,0,0.1,{REST}gcp,*,internet,0.0,0.2,{REST}",
            "gcp/*/internet/0.0 is already in line 2",
        ),
        (
            f"gcp,*,internet,1024,0.1,{REST}",
            "egress.csv:2: above_gib_per_month '1024' of gcp/*/internet has no tier from 0",
        ),
        (
            f"gcp,*,internet,0,0,{REST}gcp,*,internet,20,0.1,{REST}gcp,*,internet,10,0.2,{REST}",
            "egress.csv:4: above_gib_per_month '10' of",
        ),
        (f"gcp,*,internet,-1,0.1,{REST}", "above_gib_per_month '-1' is not from 0"),
        (f"gcp,*,internet,,0.1,{REST}", "above_gib_per_month '' is not a number"),
        (f"gcp,*,internet,inf,0.1,{REST}", "above_gib_per_month 'inf' is not a finite number"),
    ],
)
def test_volume_tiers_that_do_not_rise_from_zero_are_refused(
    tmp_path: Path, rows: str, says: str
) -> None:
    """A doubled, missing, falling, negative or empty mark would leave GiB without a price or with
    two.
    """
    folder = _copy(tmp_path)
    (folder / "egress.csv").write_text(TIERS + rows, encoding="utf-8")
    with pytest.raises(PlacerError) as caught:
        load_catalog(str(folder))
    assert says in caught.value.message


def test_the_column_of_the_volume_tiers_may_be_missing(erben: Catalog, default: Catalog) -> None:
    """The papers' books price every GiB alike, as published; the default book has the tiers of
    four clouds.
    """
    assert {price.above_gib_per_month for price in erben.egress} == {0.0}
    tiered = {price.provider for price in default.egress if price.above_gib_per_month > 0}
    assert tiered == {"aws", "azure", "gcp", "oci"}


def test_a_region_without_egress_price_is_an_error_never_free(tmp_path: Path) -> None:
    """Dropping the rows of a provider makes its egress unknown."""
    folder = _copy(tmp_path)
    rows = [
        line
        for line in (folder / "egress.csv").read_text(encoding="utf-8").splitlines()
        if not line.startswith("azure")
    ]
    (folder / "egress.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    network = Network(load_catalog(str(folder)))
    with pytest.raises(
        PlacerError, match="no egress price from azure/southcentralus to gcp/us-west1"
    ):
        network.egress_price("azure/southcentralus", "gcp/us-west1")


def test_unknown_book_names_the_nearest() -> None:
    """Did-you-mean."""
    with pytest.raises(PlacerError) as caught:
        load_catalog("erben-2032")
    assert "erben-2023" in caught.value.hint

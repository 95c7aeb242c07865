"""The shipped price books are plausible and have sources; bad books are refused."""

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
    """columns.csv has a block for each file of a book or beside it, and a word for each."""
    with (shipped_catalogs() / "columns.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert {row["file"] for row in rows} == set(KEYS)
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


OFFERS, PRICE = "offers.csv", "spot,0.18,"
TIERS = "provider,src,dst,above_gib_per_month,usd_per_gib,source,as_of\n"


def tiers(*marks: str) -> str:
    """The rows of a pair with volume tiers, each of another price."""
    rows = (f"gcp,*,internet,{mark},0.{n},t,2026-01-01\n" for n, mark in enumerate(marks, 1))
    return TIERS + "".join(rows)


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        (OFFERS, PRICE, "spot,-0.18,", "offers.csv:2: usd_per_hour '-0.18' is not from 0"),
        (OFFERS, PRICE, "spot,,", "offers.csv:2: usd_per_hour '' is not a number"),
        (OFFERS, PRICE, "spot,NaN,", "usd_per_hour 'NaN' is not a finite number"),
        (OFFERS, PRICE, "spot,1e999,", "usd_per_hour '1e999' is not a finite number"),
        (OFFERS, PRICE, "spot,0,", "usd_per_hour '0' of a rented machine"),
        (OFFERS, PRICE, "spot,1e308,", "usd_per_hour '1e308' is not"),
        (OFFERS, PRICE, "reserved,0.18,", "market 'reserved' is not one of on_demand, spot"),
        (OFFERS, ",T4,1,", ",T5,1,", "gpu 'T5' is not in gpus.csv"),
        (OFFERS, "us-west1,", "us-west9,", "region 'gcp/us-west9' is not in regions.csv"),
        (OFFERS, "2023-04-15", "15.4.2023", "as_of '15.4.2023' is not a date"),
        (OFFERS, "usd_per_hour", "price", "offers.csv:1: column 'usd_per_hour' is missing"),
        (OFFERS, "gcp,us-west1,", "gcp,us-west1", "12 cells instead of 13"),
        ("regions.csv", ",41.26,", ",,", "latitude_deg '' is not a number"),
        ("regions.csv", ",41.26,", ",141.26,", "latitude_deg '141.26' is not from -90 to 90"),
        ("links.csv", ",4.87,", ",0,", "gbps_one_stream '0' is not above 0"),
        ("egress.csv", "gcp,NA,NA,", "gcp,NAA,NA,", "src 'NAA' is no region or egress zone of gcp"),
        ("egress.csv", "gcp,NA,NA,", "gpc,NA,NA,", "provider 'gpc' has no region"),
        ("egress.csv", "gcp,*,inter_zone,0.01", "gcp,*,intra_zone,0.01", "is already in line"),
        # A doubled, missing, falling, negative or empty mark would leave GiB without a price.
        ("egress.csv", "", tiers("0", "0"), "gcp/*/internet/0 is already in line 2"),
        ("egress.csv", "", tiers("0", "0.0"), "gcp/*/internet/0.0 is already in line 2"),
        ("egress.csv", "", tiers("1024"), "2: above_gib_per_month '1024' of gcp/*/internet has no"),
        ("egress.csv", "", tiers("0", "20", "10"), "egress.csv:4: above_gib_per_month '10' of"),
        ("egress.csv", "", tiers("-1"), "above_gib_per_month '-1' is not from 0"),
        ("egress.csv", "", tiers(""), "above_gib_per_month '' is not a number"),
        ("egress.csv", "", tiers("inf"), "above_gib_per_month 'inf' is not a finite number"),
        # Empty, HTML and unclosed quotes.
        (OFFERS, "", "", "offers.csv"),
        (OFFERS, "", "<html>no</html>\n", "offers.csv"),
        (OFFERS, "", 'provider,"unclosed\n', "offers.csv"),
    ],
)
def test_bad_cells_are_refused_with_file_line_column_and_value(
    tmp_path: Path, file: str, old: str, new: str, says: str
) -> None:
    """One clear line, not a traceback and not a zero; without ``old`` the file is another."""
    path = _copy(tmp_path) / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1) if old else new, encoding="utf-8")
    with pytest.raises(PlacerError) as caught:
        load_catalog(str(path.parent))
    assert says in caught.value.message


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


def test_unknown_book_names_the_nearest() -> None:
    """Did-you-mean."""
    with pytest.raises(PlacerError) as caught:
        load_catalog("erben-2032")
    assert "erben-2023" in caught.value.hint

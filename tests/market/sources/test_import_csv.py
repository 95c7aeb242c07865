"""Books from any CSV file: columns are mapped, set or have placer's names; every wrong cell is
named.
"""

import json
from pathlib import Path

import pytest

from conftest import Run
from placer.cli.book.catalog_import import read_words
from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.sources.harvest import Harvest
from placer.market.sources.prices.listing import read_listing
from placer.market.sources.reading.fetch import FAILED

QUOTE = (
    "Machine,Card,Cards,Cores,RAM,Price,Place,Remark\n"
    "p4d.24xlarge,A100-40,8,96,1152,$21.95,us-east-1,net\n"
)
"""A quote for one machine, as somebody may send it."""
LINE = QUOTE.splitlines()[1]
MAP = (
    "instance_type=Machine,gpu=Card,gpu_count=Cards,vcpus=Cores,"
    "memory_gib=RAM,usd_per_hour=Price,region=Place"
)
SET = (
    "provider=aws",
    "market=on_demand",
    "price_basis=list",
    "source=quote 4711",
    "as_of=2026-11-01",
)


def read(
    tmp_path: Path,
    text: str | bytes,
    *,
    maps: str = MAP,
    constants: tuple[str, ...] = SET,
    kind: str = "offers",
    skip_bad: bool = False,
) -> Harvest:
    """Read a text as a file."""
    path = tmp_path / "quote.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    mapping = read_words("csv", kind, [maps] if maps else [], constants)
    return read_listing([str(path)], mapping, skip_bad=skip_bad)


def test_a_quote_becomes_an_offer(tmp_path: Path) -> None:
    """Mapped cells, set cells, a $ that is taken away, a column that nobody asked for, which is
    said, and the end of a file, which may be cut off.
    """
    found = read(tmp_path, QUOTE.rstrip())
    (row,) = found.rows["offers.csv"]
    assert row == {
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "p4d.24xlarge",
        "gpu": "A100-40",
        "gpu_count": 8,
        "vcpus": 96.0,
        "memory_gib": 1152.0,
        "market": "on_demand",
        "usd_per_hour": 21.95,
        "price_basis": "list",
        "source": "quote 4711",
        "as_of": "2026-11-01",
    }
    assert found.notes == [
        "their columns that were not read: Remark",
        "the last line has no end: check that the file is complete",
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("$21.95", '"1,234.50"', "(their 'Price') '1,234.50' is not a number; write a plain"),
        ("$21.95", "€21.95", "usd_per_hour (their 'Price') '€21.95' is not a number"),
        ("$21.95", "21.95/h", "is not a number; write a plain number"),
        ("$21.95", "$$1", "is not a number"),
        ("$21.95", "nan", "'nan' is not a finite number"),
        ("$21.95", "-1", "'-1' is not from 0"),
        ("$21.95", "$0", "on-demand price is zero or less: 0 USD/h of p4d"),
        ("$21.95", "", "is not a number"),
        ("$21.95", "0.00001", "is 1,000 times below the median of its device: 1e-05 USD/h of p4d"),
        ("$21.95", "900000", "on-demand price is 1,000 times above the median of its device"),
        (",8,", ",8.5,", "gpu_count (their 'Cards') '8.5' is not a whole number from 1"),
        ("p4d.24xlarge", "=cmd()", "(their 'Machine') '=cmd()' begins as a formula does"),
        ("p4d.24xlarge", "", "instance_type (their 'Machine') '' is empty"),
        ("p4d.24xlarge", "p4d\x1b[2J", "(their 'Machine') 'p4d?[2J' has control characters"),
        (",net", "", "7 cells instead of 8"),
        (",1152,", ",80 GB,", "memory_gib (their 'RAM') '80 GB' is not a number"),
    ],
)
def test_wrong_cells_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    """File, line, column and cell; --skip-bad counts the row, and refuses only if nothing is left.
    Only a leading $ is read: 1,234 means two things in two countries.
    """
    text = QUOTE.replace(old, new)
    with pytest.raises(PlacerError) as error:
        read(tmp_path, text)
    assert error.value.message.startswith(f"{tmp_path / 'quote.csv'}:2: ")
    assert words in error.value.message
    assert error.value.exit_code == FAILED
    found = read(tmp_path, f"{text}{LINE.replace('p4d', 'p4de')}\n", skip_bad=True)
    assert len(found.rows["offers.csv"]) == 1
    with pytest.raises(PlacerError, match="no row can be used: 1 x wrong row"):
        read(tmp_path, text, skip_bad=True)


def test_duplicates(tmp_path: Path) -> None:
    """The same row twice is one; the same machine with another price names both lines."""
    assert len(read(tmp_path, f"{QUOTE}{LINE}\n").rows["offers.csv"]) == 1
    with pytest.raises(
        PlacerError, match=r"quote.csv:3: .* is already in .*quote.csv:2 with other figures"
    ):
        read(tmp_path, f"{QUOTE}{LINE.replace('21.95', '22')}\n")


def test_a_price_of_the_future_is_refused(tmp_path: Path) -> None:
    """It would pass --max-price-age for years."""
    with pytest.raises(PlacerError, match="as_of 2096-11-01 is in the future"):
        read(tmp_path, QUOTE, constants=(*SET[:-1], "as_of=2096-11-01"))


@pytest.mark.parametrize(
    ("old", "new", "words", "tip"),
    [
        (
            "us-east-1",
            "us-east1",
            "unknown region of aws 'us-east1'",
            "exists: 'us-east-1'; gcp has one of this name; correct it, rename it",
        ),
        ("us-east-1", "us-east-1a", "region 'us-east-1a' is a zone of us-east-1", "write us-east"),
        ("us-east-1", "moon", "unknown region of aws 'moon'", "known: af-south-1, "),
        (
            "A100-40",
            "A100",
            "unknown gpu 'A100'",
            "write A100-40 or A100-80, rename it in the table [values.gpu] of a mapping file",
        ),
        ("A100-40", "NVIDIA A100 80GB", "unknown gpu 'NVIDIA A100 80GB'", "write A100-80, "),
        ("A100-40", "Tesla V100", "unknown gpu 'Tesla V100'", "write V100, "),
        ("A100-40", "TPU", "unknown gpu 'TPU'", "known: "),
    ],
)
def test_unknown_places_and_devices_are_refused(
    tmp_path: Path, old: str, new: str, words: str, tip: str
) -> None:
    """A row that would be missing silently is as wrong as a bad price; the tip has the nearest name
    and how to go on.
    """
    with pytest.raises(PlacerError) as error:
        read(tmp_path, QUOTE.replace(old, new))
    assert error.value.message == f"{tmp_path / 'quote.csv'}:2: {words}"
    assert tip in error.value.hint
    assert error.value.hint.endswith("or leave such rows out with --skip-bad")
    assert error.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("cell", "market"),
    [("on-demand", "on_demand"), ("On Demand", "on_demand"), ("Spot", "spot"), ("sold", None)],
)
def test_markets_are_read_as_price_lists_spell_them(
    tmp_path: Path, cell: str, market: str | None
) -> None:
    """Blanks, hyphens and capitals do not count; what another word means only the user knows."""
    constants = (SET[0], f"market={cell}", *SET[2:])
    if market is not None:
        (row,) = read(tmp_path, QUOTE, constants=constants).rows["offers.csv"]
        assert row["market"] == market
        return
    words = r"market 'sold' is not one of on_demand, spot, community; .*\[values.market\]"
    with pytest.raises(PlacerError, match=words):
        read(tmp_path, QUOTE, constants=constants)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (QUOTE.replace(",", ";").encode(), "is separated by ';', not by commas"),
        (QUOTE.replace(",", "\t").encode(), "is separated by tabs, not by commas"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "is a web page"),
        (b"PK\x03\x04..xl/workbook.xml", "is a zip archive or a workbook"),
        (b"\x7fELF\x02\x01\x01\0\0", "has zero bytes"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        ("Größe,Preis\n".encode("latin-1"), "is not UTF-8 text"),
        (QUOTE.encode("utf-16-le"), "has zero bytes"),
        (b'{"gpu": "T4", "usd": 1}\n', "is JSON, not CSV"),
        (QUOTE.replace("Card,", "Price,").encode(), "column 'Price' appears twice"),
        (QUOTE.replace("Card,", "\x1b[2J,").encode(), "has no names of columns"),
        (f'{QUOTE}"g4dn'.encode(), "not valid CSV"),
    ],
)
def test_what_is_no_csv_is_said(tmp_path: Path, data: bytes, words: str) -> None:
    """One line for each kind of wrong document, exit code 7."""
    with pytest.raises(PlacerError, match=words) as error:
        read(tmp_path, data)
    assert error.value.exit_code == FAILED


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_of_a_good_file(tmp_path: Path, encoding: str) -> None:
    """A mark, UTF-16 with a mark, CRLF and an empty line change nothing."""
    text = QUOTE.replace("\n", "\r\n\r\n").encode(encoding)
    assert [row["usd_per_hour"] for row in read(tmp_path, text).rows["offers.csv"]] == [21.95]


def test_the_command_writes_a_book(run: Run, tmp_path: Path) -> None:
    """Words of the command line from end to end; --as-of dates what has no date."""
    (tmp_path / "quote.csv").write_text(QUOTE)
    words = [word for pair in SET[:-1] for word in ("--set", pair)]
    done = run(
        *("catalog", "import", "csv", "quote.csv", "--map", MAP, *words, "--as", "quote"),
        *("--as-of", "2026-11-02", "--json"),
        cwd=tmp_path,
        PLACER_HOME=str(tmp_path / "home"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == {"offers.csv": 1}
    (row,) = read_rows(tmp_path / "home" / "catalogs" / "quote" / "offers.csv", "offers.csv")
    assert (row["usd_per_hour"], row["as_of"]) == (21.95, "2026-11-02")

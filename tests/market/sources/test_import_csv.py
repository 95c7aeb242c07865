"""Books from any CSV file: columns are mapped, set or have placer's names; every wrong cell is
named.
"""

import json
from pathlib import Path

import pytest

from conftest import Run
from placer.cli.book.catalog.import_.csv import read_mapping
from placer.errors import PlacerError
from placer.market.books.csv_rows import read_rows
from placer.market.sources.harvest import Harvest
from placer.market.sources.reading.fetch import FAILED
from placer.market.sources.reading.mapped_csv import read_mapped

QUOTE = (
    "Machine,Card,Cards,Cores,RAM,Price,Place,Remark\n"
    "p4d.24xlarge,A100-40,8,96,1152,$21.95,us-east-1,net\n"
)
"""A quote for one machine, as somebody may send it."""
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
    text: str,
    *,
    maps: str = MAP,
    constants: tuple[str, ...] = SET,
    kind: str = "offers",
    skip_bad: bool = False,
) -> Harvest:
    """Read a text as a file."""
    path = tmp_path / "quote.csv"
    path.write_text(text, encoding="utf-8")
    return read_mapped(
        str(path), read_mapping(kind, [maps] if maps else [], constants), skip_bad=skip_bad
    )


def test_a_quote_becomes_an_offer(tmp_path: Path) -> None:
    """Mapped cells, set cells, a $ that is taken away, and a column that nobody asked for, which is
    said.
    """
    found = read(tmp_path, QUOTE)
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
    assert found.notes == ["their columns that were not read: Remark"]


def test_columns_of_the_same_name_need_no_map(tmp_path: Path) -> None:
    """An egress.csv of placer itself."""
    text = (
        "provider,src,dst,usd_per_gib,source,as_of\n"
        "aws,us-east-1,internet,$0.05,contract,2026-11-01\n"
    )
    (row,) = read(tmp_path, text, maps="", constants=(), kind="egress").rows["egress.csv"]
    assert row["usd_per_gib"] == 0.05


def test_a_toml_file_maps_columns_and_values(tmp_path: Path) -> None:
    """[values.market] renames what the file calls otherwise; quoted names may have any
    character.
    """
    (tmp_path / "map.toml").write_text(
        "[columns]\ninstance_type = 'Machine, name'\nusd_per_hour = 'Price=USD'\ngpu = "
        "'Card'\nmarket = 'Model'\n"
        "[set]\nprovider = 'aws'\nregion = 'us-east-1'\ngpu_count = '1'\nvcpus = "
        "'4'\nmemory_gib = '16'\nprice_basis = 'list'\n"
        "source = 'quote'\nas_of = '2026-11-01'\n[values.market]\n'On Demand' = "
        "'on_demand'\n[values.gpu]\n'Tesla T4' = 'T4'\n"
    )
    text = '"Machine, name",Price=USD,Card,Model\ng4dn.xlarge,0.4,Tesla T4,On Demand\n'
    (row,) = read(tmp_path, text, maps=str(tmp_path / "map.toml"), constants=()).rows["offers.csv"]
    assert (row["instance_type"], row["usd_per_hour"], row["gpu"], row["market"]) == (
        "g4dn.xlarge",
        0.4,
        "T4",
        "on_demand",
    )


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (
            '"1,234.50"',
            (
                "usd_per_hour (their 'Price') '1,234.50' is not a number; write a plain number "
                "such "
                "as 1234.5"
            ),
        ),
        ("€21.95", "usd_per_hour (their 'Price') '€21.95' is not a number"),
        ("21.95/h", "is not a number; write a plain number"),
        ("$$1", "is not a number"),
        ("nan", "'nan' is not a finite number"),
        ("-1", "'-1' is not from 0"),
        ("$0", "usd_per_hour '0' of a rented machine"),
        ("", "is not a number"),
    ],
)
def test_prices_that_are_no_plain_numbers_are_refused(
    tmp_path: Path, cell: str, words: str
) -> None:
    """Only a leading $ is read: 1,234 means two things in two countries. The line says file, line,
    column and cell.
    """
    with pytest.raises(PlacerError) as error:
        read(tmp_path, QUOTE.replace("$21.95", cell))
    assert words in error.value.message
    assert f"{tmp_path / 'quote.csv'}:2: " in error.value.message
    assert error.value.exit_code == FAILED


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",8,", ",8.5,", "gpu_count (their 'Cards') '8.5' is not a whole number from 1"),
        (
            "p4d.24xlarge",
            "=cmd()",
            "instance_type (their 'Machine') '=cmd()' begins as a formula does",
        ),
        ("p4d.24xlarge", "", "instance_type (their 'Machine') '' is empty"),
        (",net", "", "7 cells instead of 8"),
        (",1152,", ",80 GB,", "memory_gib (their 'RAM') '80 GB' is not a number"),
    ],
)
def test_wrong_cells_are_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    """The message begins with the line; --skip-bad counts it, and refuses only if nothing is
    left.
    """
    with pytest.raises(PlacerError) as error:
        read(tmp_path, QUOTE.replace(old, new))
    assert words in error.value.message
    good = QUOTE.splitlines()[1]
    found = read(
        tmp_path, QUOTE.replace(old, new) + good.replace("p4d", "p4de") + "\n", skip_bad=True
    )
    assert len(found.rows["offers.csv"]) == 1
    with pytest.raises(PlacerError, match="no row can be used: 1 x wrong row"):
        read(tmp_path, QUOTE.replace(old, new), skip_bad=True)


def test_duplicates(tmp_path: Path) -> None:
    """The same row twice is one; the same machine with another price names both lines."""
    line = QUOTE.splitlines()[1]
    assert len(read(tmp_path, f"{QUOTE}{line}\n").rows["offers.csv"]) == 1
    with pytest.raises(
        PlacerError, match=r"quote.csv:3: .* is already in .*quote.csv:2 with other figures"
    ):
        read(tmp_path, f"{QUOTE}{line.replace('21.95', '22')}\n")


def test_unknown_places_and_devices_are_counted(tmp_path: Path) -> None:
    """With --skip-bad: a region without coordinates and a device without data cannot be used."""
    line = QUOTE.splitlines()[1]
    found = read(
        tmp_path,
        f"{QUOTE}{line.replace('us-east-1', 'moon-1')}\n{line.replace('A100-40', 'TPU')}\n",
        skip_bad=True,
    )
    assert found.left_out == {
        "region that no book knows: aws/moon-1": 1,
        "device that gpus.csv does not know: TPU": 1,
    }


@pytest.mark.parametrize(
    ("old", "new", "words", "tip"),
    [
        (
            "us-east-1",
            "us-east1",
            "unknown region of aws 'us-east1'",
            "exists: 'us-east-1'; gcp has one of this name; correct it, rename it",
        ),
        (
            "us-east-1",
            "us-east-1a",
            "region 'us-east-1a' is a zone of us-east-1",
            "write us-east-1, ",
        ),
        ("us-east-1", "moon", "unknown region of aws 'moon'", "known: af-south-1, "),
        (
            "A100-40",
            "A100",
            "unknown gpu 'A100'",
            "write A100-40 or A100-80, rename it in the table [values.gpu] of a map file",
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
    assert error.value.hint.startswith(tip) or tip in error.value.hint
    assert error.value.hint.endswith("or leave such rows out with --skip-bad")
    assert error.value.exit_code == FAILED


def test_an_unknown_provider_is_refused(tmp_path: Path) -> None:
    """Names are written as in regions.csv."""
    with pytest.raises(
        PlacerError,
        match=r"quote.csv:2: unknown provider 'AWS' \(a similar provider exists: 'aws'; "
        r".*\[values.provider\]",
    ):
        read(tmp_path, QUOTE, constants=("provider=AWS", *SET[1:]))


@pytest.mark.parametrize(
    ("cell", "market"),
    [
        ("on-demand", "on_demand"),
        ("On Demand", "on_demand"),
        ("ondemand", "on_demand"),
        ("Spot", "spot"),
    ],
)
def test_markets_are_read_as_price_lists_spell_them(tmp_path: Path, cell: str, market: str) -> None:
    """Blanks, hyphens and capitals do not count."""
    (row,) = read(
        tmp_path,
        QUOTE,
        constants=(f"market={cell}", *(pair for pair in SET if "market" not in pair)),
    ).rows["offers.csv"]
    assert row["market"] == market


def test_another_market_is_refused(tmp_path: Path) -> None:
    """What it means only the user knows: the table of a map file says it."""
    constants = tuple(pair.replace("on_demand", "committed") for pair in SET)
    with pytest.raises(
        PlacerError,
        match=r"market 'committed' is not one of on_demand, spot, community; rename it in the "
        r"table \[values.market\]",
    ):
        read(tmp_path, QUOTE, constants=constants)


@pytest.mark.parametrize(
    ("separator", "words", "code"),
    [
        (";", "separated by ';', not by commas", 2),
        ("\t", "separated by tabs, not by commas", FAILED),
    ],
)
@pytest.mark.parametrize("maps", [MAP, ""])
def test_other_separators_are_named(
    tmp_path: Path, separator: str, words: str, code: int, maps: str
) -> None:
    """Spreadsheets of half of Europe write semicolons, and a decimal comma in the price; a name of
    a column cannot have a tab.
    """
    with pytest.raises(PlacerError, match=words) as error:
        read(tmp_path, QUOTE.replace(",", separator).replace("21.95", "21,95"), maps=maps)
    assert error.value.hint == "export it as CSV with commas"
    assert error.value.exit_code == code


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\xff\xfe", FAILED),
        (b"PK\x03\x04..xl/workbook.xml", FAILED),
        (b'"""A module, short."""\n\nimport csv\n', 2),
        (b'"a" "b"\n', FAILED),
        (b"from csv import reader, writer\n\n\ndef f() -> None:\n    pass\n", 2),
        (b'{"gpu": "T4", "usd": 1}\n{"gpu": "L4", "usd": 2}\n', 2),
        (b"int x;\nint y;\n", 2),
    ],
)
def test_what_is_no_csv_is_said(tmp_path: Path, data: bytes, code: int) -> None:
    """A program, a workbook, source files, lines of JSON: 7 where it cannot be read at all, 2 where
    columns are missing.
    """
    (tmp_path / "quote.csv").write_bytes(data)
    with pytest.raises(PlacerError, match=r"quote.csv' is not CSV \(export it as CSV\)") as error:
        read_mapped(str(tmp_path / "quote.csv"), read_mapping("offers", [], SET))
    assert error.value.exit_code == code


@pytest.mark.parametrize(
    ("kind", "tip"),
    [
        ("discounts", "give it as --catalog FILE"),
        ("gpus", "give it as --catalog FILE"),
        ("links", "use 'placer network import csv'"),
    ],
)
def test_kinds_that_come_another_way_are_named(kind: str, tip: str) -> None:
    """Files of a book that this command does not write."""
    with pytest.raises(PlacerError) as error:
        read_mapping(kind, [], [])
    assert error.value.hint.startswith(tip)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("maps", "constants", "words", "hint"),
    [
        (
            MAP.replace("usd_per_hour", "usd_per_hours"),
            SET,
            "unknown column 'usd_per_hours'",
            "'usd_per_hour'",
        ),
        (MAP.replace("=Price", "=Pric"), SET, "unknown column 'Pric'", "'Price'"),
        (MAP, SET[1:], "gives no provider", "map them"),
        (MAP, ("provider=aws",), "gives no market, price_basis, source, as_of", "--set"),
        (MAP, (*SET, "gpu=T4"), "column 'gpu' is mapped to 'Card' and set to 'T4'", "keep one"),
        (MAP, (*SET, "provider=gcp"), "column 'provider' is given twice", "keep one"),
        ("usd_per_hour", SET, "--map 'usd_per_hour' is not a pair", "usd_per_hour=Price"),
        ("nowhere.toml", SET, "cannot read 'nowhere.toml'", "check the path"),
        (
            "Machine=instance_type",
            SET,
            "unknown column 'Machine'",
            "reversed: write instance_type=Machine",
        ),
    ],
)
def test_maps_that_do_not_fit_are_answered(
    tmp_path: Path, maps: str, constants: tuple[str, ...], words: str, hint: str
) -> None:
    """Unknown names get the nearest one, missing columns are all named at once; exit code 2."""
    with pytest.raises(PlacerError) as error:
        read(tmp_path, QUOTE, maps=maps, constants=constants)
    assert words in error.value.message
    assert hint in error.value.hint
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[columns", "not valid TOML"),
        ("[colums]\na = 'b'", "'colums' is none of its tables"),
        ("provider = 'aws'", "'provider' is none of its tables"),
        ("[set]\ngpu_count = 1", "'1' in \\[set\\] is not text"),
        ("[values]\nmarket = 'x'", "in \\[values\\] is not text"),
        ("[values.mark]\na = 'b'", "unknown column 'mark'"),
    ],
)
def test_wrong_toml_is_named(tmp_path: Path, toml: str, words: str) -> None:
    """One line for each kind of mistake."""
    (tmp_path / "map.toml").write_text(toml)
    with pytest.raises(PlacerError, match=words):
        read(tmp_path, QUOTE, maps=str(tmp_path / "map.toml"))


def test_a_file_without_an_end_is_said(tmp_path: Path) -> None:
    """Spreadsheets leave out the last line break, so it is no error, but a file that is cut off
    looks the same.
    """
    assert (
        read(tmp_path, QUOTE.rstrip()).notes[-1]
        == "the last line has no end: check that the file is complete"
    )


def test_a_map_that_is_nested_without_end_is_one_line(tmp_path: Path) -> None:
    """100,000 brackets are more than the reader of TOML can hold: a message, no traceback."""
    (tmp_path / "map.toml").write_text("columns = " + "[" * 100_000)
    with pytest.raises(PlacerError, match="not valid TOML"):
        read_mapping("offers", [str(tmp_path / "map.toml")], [])


def test_the_command_writes_a_book(run: Run, tmp_path: Path) -> None:
    """Words of the command line from end to end; a kind that does not exist is answered."""
    (tmp_path / "quote.csv").write_text(QUOTE)
    words = [word for pair in SET for word in ("--set", pair)]
    home = {"PLACER_HOME": str(tmp_path / "home")}
    done = run(
        "catalog",
        "import",
        "csv",
        "quote.csv",
        "--map",
        MAP,
        *words,
        "--as",
        "quote",
        "--json",
        cwd=tmp_path,
        **home,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == {"offers.csv": 1}
    (row,) = read_rows(tmp_path / "home" / "catalogs" / "quote" / "offers.csv", "offers.csv")
    assert (row["usd_per_hour"], row["source"]) == (21.95, "quote 4711")
    wrong = run("catalog", "import", "csv", "quote.csv", "--kind", "offer", cwd=tmp_path, **home)
    assert wrong.returncode == 2
    assert "unknown kind 'offer'" in wrong.stderr


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "$21.95",
            "0.00001",
            "usd_per_hour '1e-05' is 1,000 times what a A100-40 costs, or that small a part",
        ),
        ("$21.95", "900000", "usd_per_hour '900000.0' is 1,000 times"),
    ],
)
def test_a_price_out_of_all_proportion_is_refused(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    """As in every other source: eight A100 cost 22 USD/h, neither a thousandth of a cent nor the
    price of a house.
    """
    with pytest.raises(PlacerError) as caught:
        read(tmp_path, QUOTE.replace(old, new))
    assert words in caught.value.message


def test_a_price_of_the_future_is_refused(tmp_path: Path) -> None:
    """It would pass --max-price-age for years."""
    with pytest.raises(PlacerError, match="as_of 2096-11-01 is in the future"):
        read(tmp_path, QUOTE, constants=(*SET[:-1], "as_of=2096-11-01"))

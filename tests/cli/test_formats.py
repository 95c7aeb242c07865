"""Tables in all formats and widths: nothing is lost, nothing is markup."""

import csv
import html.parser
import io
import json
from pathlib import Path

import pytest
import yaml

from conftest import Run
from placer.cli.screen.formats import FORMATS
from placer.report.blocks import Report, Table, section, table
from placer.report.draw.formats import as_csv, as_html, as_jsonl, as_markdown
from placer.report.draw.terminal import table_lines
from placer.report.draw.wrapping import fold

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")
HOSTILE = "<script>alert(1)</script>|`x`"


def made() -> Table:
    """A table with numbers, an estimate, a line break and a hostile name."""
    rows = [
        ("*", "2 x T4\n1 x A10", ("$1,234.50~", 1234.5049), ("-12 %", -0.1204)),
        ("", HOSTILE, ("-", None), ("", None)),
    ]
    columns = ("", "machine", "USD/h", "share")
    shown = table("Prices", columns, rows, numbers=columns[2:], narrowed=("machine",))
    assert shown is not None
    return shown


def answer() -> Report:
    """An answer with that table."""
    sections = section("Prices", made())
    return Report(title="", subtitle="", verdict=HOSTILE, sections=sections)


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize(
    "words",
    [
        ("offers", "--gpu", "T4", "--limit", "9"),
        ("pareto", *ERBEN, "--budget", "2/h", "--points", "3"),
        ("estimate", *ERBEN, "--workers", "gcp/us-central1=8xT4:spot", "--every-exchange"),
        ("models",),
        ("catalog", "list"),
        ("network", "show", "gcp/us-central1", "gcp/us-west1", "--catalog", "erben-2023"),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, tuple) else str(words),
)
def test_every_column_fits_every_width(run: Run, words: tuple[str, ...], columns: int) -> None:
    """Piped, without colours: no line is too long, none ends in blanks, and every header and cell
    of the CSV stands on the screen.
    """
    done = run(*words, columns=columns)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert all(line == line.rstrip() for line in lines)
    assert "\x1b" not in done.stdout
    seen = sorted("".join(done.stdout.split()))
    table = csv.reader(io.StringIO(run(*words, "--format", "csv", columns=columns).stdout))
    for name in next(table):
        assert name in ("Gb/s", "fabric") or all(c in seen for c in name.replace(" ", ""))


def test_csv_and_jsonl_have_numbers_in_full() -> None:
    """Not those of the screen; a cell of several lines is one, what is not known is empty."""
    rows = list(csv.reader(io.StringIO(as_csv([made()]))))
    assert rows[0] == ["column1", "machine", "USD/h", "share"]
    assert rows[1] == ["*", "2 x T4; 1 x A10", "1234.5049", "-0.1204"]
    assert rows[2] == ["", HOSTILE, "", ""]
    one, other = map(json.loads, as_jsonl([made()]).splitlines())
    assert (one["USD/h"], one["share"]) == (1234.5049, -0.1204)
    assert (other["machine"], other["USD/h"], other["share"]) == (HOSTILE, None, None)
    named = table("", ("", "rtt"), [("~", ("2 s", 2.0))], units={"": "sign", "rtt": "rtt s"})
    assert named is not None
    assert as_csv([named]) == "sign,rtt s\n~,2.0\n"
    numbered = [json.loads(line) for line in as_jsonl([made(), made()]).splitlines()]
    assert [row["table"] for row in numbered] == [1, 1, 2, 2]


def test_rows_have_the_figures_of_the_document(run: Run) -> None:
    """The price that the screen rounds to 1.276 USD/h is 1.27568 in JSON, and in the rows."""
    words = ("offers", "--gpu", "H100", "--market", "spot", "--limit", "3")
    document = json.loads(run(*words, "--json").stdout)
    rows = [json.loads(line) for line in run(*words, "--format", "jsonl").stdout.splitlines()]
    assert [row["USD/h"] for row in rows] == [row["usd_per_hour"] for row in document["offers"]]


def test_names_are_no_markup() -> None:
    """Hostile names stay text in a page and in Markdown."""
    tags = []

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Tags().feed(as_html([HOSTILE, answer()]))
    assert "script" not in tags
    assert {"table", "th", "td", "pre", "p", "h2"} <= set(tags)
    text = as_markdown([answer()])
    assert "<script" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)


def test_an_answer_has_its_considered_table(run: Run, tmp_path: Path) -> None:
    """`recommend --format csv` writes the table; with `-o -` the document alone is printed."""
    words = ("recommend", *ERBEN, "--budget", "5/h", "--gpu", "A10,T4")
    rows = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout)))
    assert rows[0]["workers"] == "8 x A10 on-demand in lambda/us-west-1"
    assert float(rows[0]["samples/s"]) == pytest.approx(1060.0766)
    document = json.loads(run(*words, "-o", "-").stdout)
    assert document["schema"] == "placer.result/v1"
    assert run(*words, "--format", "json").stdout.startswith("{")
    file = tmp_path / "answer.csv"
    assert run(*words, "--format", "csv", "-o", str(file)).returncode == 0
    assert file.read_text().startswith("workers,exchange,")


def test_a_wide_character_takes_two_columns() -> None:
    """Tables stay aligned, and lines stay within the width."""
    assert fold("\u4e16\u754c\u4e16\u754c", 4) == ["\u4e16\u754c", "\u4e16\u754c"]
    assert fold("", 5) == [""]


def test_a_terminal_without_room_gets_records() -> None:
    """A header and its value in a line."""
    shown = table("", ("figure", "measure with"), [("x" * 30, "y" * 30)])
    assert shown is not None
    lines = [line for ((line, _),) in table_lines(shown, 40)]
    assert lines[0].startswith("figure: xxx")
    assert max(map(len, lines)) <= 40
    assert "table" in FORMATS


@pytest.mark.parametrize(
    "words",
    [
        ("recommend", *ERBEN, "--budget", "5/h"),
        ("offers", "--gpu", "T4", "--limit", "9"),
        ("catalog", "list"),
    ],
    ids=lambda words: words[0],
)
def test_yaml_is_the_document_of_json(run: Run, words: tuple[str, ...], tmp_path: Path) -> None:
    """Printed, and in a file of that name; every value has the type that JSON gives it."""
    done = run(*words, "--json")
    printed = run(*words, "--format", "yaml")
    assert printed.returncode == 0, printed.stderr
    assert not printed.stdout.startswith("{")
    answer, read = json.loads(done.stdout), yaml.safe_load(printed.stdout)
    for document in (answer, read):
        document.get("solver", {}).pop("seconds", None)
    assert read == answer
    assert list(read) == list(answer)
    saved = tmp_path / "answer.yaml"
    run(*words, "--format", "yaml", "-o", str(saved))
    assert yaml.safe_load(saved.read_text())["schema"] == answer["schema"]


def test_yaml_is_written_where_it_is_asked_for_alone(run: Run, tmp_path: Path) -> None:
    """A manifest beside it stays JSON, as `placer run` reads it; errors are read as both; ``-o
    yaml`` is answered with what is meant.
    """
    plan = tmp_path / "plan.json"
    words = ("recommend", *ERBEN, "--format", "yaml")
    assert run(*words, "--budget", "5/h", "--manifest", str(plan)).returncode == 0
    assert json.loads(plan.read_text())["schema"].startswith("placer.manifest/")
    wrong = run(*words, "--budget", "x")
    assert yaml.safe_load(wrong.stdout) == json.loads(wrong.stdout)
    assert "give --format yaml" in run(*words, "-o", "yaml").stderr

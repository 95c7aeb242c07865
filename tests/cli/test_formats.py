"""Tables in all formats and widths: nothing is lost, nothing is markup."""

from __future__ import annotations

import csv
import html.parser
import io
import json
from pathlib import Path

import pytest

from conftest import Run
from placer.cli.screen.formats import FORMATS, as_csv, as_html, as_jsonl, as_markdown
from placer.cli.screen.tables import Sheet, fold

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")
HOSTILE = "<script>alert(1)</script>|`x`"


def sheet() -> Sheet:
    """A table with numbers, an estimate, a line break and a hostile name."""
    made = Sheet(("", "machine", "USD/h", "share"), right=("USD/h", "share"), wrap=("machine",))
    made.add_row("*", "2 x T4\n1 x A10", "$1,234.50~", "-12 %", style="bold")
    made.add_row("", HOSTILE, "-")
    return made


@pytest.mark.parametrize("columns", [40, 80, 100, 120])
@pytest.mark.parametrize(
    "words",
    [
        ("offers", "--catalog", "erben-2023"),
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
        assert name.startswith("column") or all(c in seen for c in name.replace(" ", ""))


def test_headers_are_all_there_at_80_columns(run: Run) -> None:
    """The machine too, which was left out."""
    shown = run("offers", "--gpu", "T4", "--limit", "3", columns=80).stdout
    assert "machine" in shown.splitlines()[0]
    assert "g4dn.xlarge" in shown


def test_csv_and_jsonl_have_plain_numbers() -> None:
    """Without separators, dollars and marks; a cell of several lines is one."""
    rows = list(csv.reader(io.StringIO(as_csv([sheet()]))))
    assert rows[0] == ["column1", "machine", "USD/h", "share"]
    assert rows[1] == ["*", "2 x T4; 1 x A10", "1234.50", "-12"]
    one, other = map(json.loads, as_jsonl(["title", sheet()]).splitlines())
    assert (one["USD/h"], one["share"]) == (1234.5, -12)
    assert (other["machine"], other["USD/h"], other["share"]) == (HOSTILE, None, "")
    named = Sheet(("", "USD", ""), unseen=("sign", "within"))
    named.add_row("~", "$2", "ok")
    assert as_csv([named]) == "sign,USD,within\n~,2,ok\n"
    assert json.loads(as_jsonl([named])) == {"sign": "~", "USD": 2, "within": "ok"}
    numbered = [json.loads(line) for line in as_jsonl([sheet(), sheet()]).splitlines()]
    assert [row["table"] for row in numbered] == [1, 1, 2, 2]


def test_names_are_no_markup() -> None:
    """Hostile names stay text in a page and in Markdown."""
    tags = []

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Tags().feed(as_html([HOSTILE, sheet()]))
    assert "script" not in tags
    assert {"table", "th", "td", "pre"} <= set(tags)
    table = as_markdown([sheet()])
    assert "<script" not in table
    assert all(line.replace("\\|", "").count("|") == 5 for line in table.strip().splitlines())


@pytest.mark.parametrize("name", ["csv", "jsonl", "md", "html"])
def test_commands_write_their_tables(run: Run, tmp_path: Path, name: str) -> None:
    """To stdout, or to a file that -o names."""
    words = ("offers", "--gpu", "T4", "--limit", "2", "--format", name)
    shown = run(*words).stdout
    assert "g4dn.xlarge" in shown
    file = tmp_path / f"offers.{name}"
    done = run(*words, "-o", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"wrote {file}" in done.stderr
    assert file.read_text() == shown


def test_an_answer_has_its_considered_table(run: Run, tmp_path: Path) -> None:
    """`recommend --format csv` writes the table; with `-o -` the document alone is printed."""
    words = ("recommend", *ERBEN, "--budget", "5/h", "--gpu", "A10,T4")
    rows = list(csv.DictReader(io.StringIO(run(*words, "--format", "csv").stdout)))
    assert rows[0]["workers"] == "8 x A10 on-demand, lambda/us-west-1"
    assert float(rows[0]["samples/s"]) == 1060
    document = json.loads(run(*words, "-o", "-").stdout)
    assert document["schema"] == "placer.result/v1"
    assert run(*words, "--format", "json").stdout.startswith("{")
    file = tmp_path / "answer.csv"
    assert run(*words, "--format", "csv", "-o", str(file)).returncode == 0
    assert file.read_text().startswith("mark,workers,")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("offers", "-o", "json"), "'json' is a format, not the name of a file"),
        (("offers", "-o", "CSV"), "give --format csv, or ./CSV"),
        (("recommend", *ERBEN, "--budget", "5/h", "-o", "json"), "give --format json"),
        (("recommend", *ERBEN, "--budget", "5/h", "--manifest", "-"), "'-' is no file here"),
        (("offers", "--format", "cvs"), "similar format exists: 'csv'"),
        (("offers", "--format", "csv", "--json"), "--json together with --format csv"),
        (
            (
                "estimate",
                "--simulate",
                *ERBEN,
                "--workers",
                "gcp/us-central1=8xT4:spot",
                "--format",
                "md",
            ),
            "there is no table to print as md",
        ),
        (("offers", "--format", "csv", "-o", "none/there.csv"), "cannot write 'none/there.csv'"),
    ],
)
def test_formats_and_files_that_cannot_be_meant(
    run: Run, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    """One line and a tip, and no file."""
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_stdout_and_a_file_named_with_its_folder(run: Run, tmp_path: Path) -> None:
    """`-o -` is stdout; a file may be called json where that is meant."""
    words = ("offers", "--gpu", "T4", "--limit", "1")
    assert run(*words, "-o", "-").stdout == run(*words).stdout
    assert run(*words, "-o", "./json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "json").read_text() == run(*words).stdout


def test_a_wide_character_takes_two_columns() -> None:
    """Tables stay aligned, and lines stay within the width."""
    assert fold("\u4e16\u754c\u4e16\u754c", 4) == ["\u4e16\u754c", "\u4e16\u754c"]
    assert fold("", 5) == [""]


def test_a_terminal_without_room_gets_records() -> None:
    """A header and its value in a line."""
    made = Sheet(("figure", "measure with"))
    made.add_row("x" * 30, "y" * 30)
    lines = [line for line, _ in made.lines(40)]
    assert lines[0].startswith("figure: xxx")
    assert max(map(len, lines)) <= 40
    assert "table" in FORMATS

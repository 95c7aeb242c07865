"""Books of the user are put in place at once, whatever interrupts it, whatever lies there."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.market.sources import save as saving
from placer.market.sources.harvest import Cell, Harvest, Origin
from placer.market.sources.save import ORIGIN, merged, save


def harvest(usd_per_hour: float = 0.5, rows: int = 1) -> Harvest:
    """Some machines of one price."""
    row: dict[str, Cell] = {
        "provider": "aws",
        "region": "us-west-2",
        "gpu": "T4",
        "gpu_count": 1,
        "vcpus": 4,
        "memory_gib": 16,
        "market": "spot",
    }
    row |= {
        "usd_per_hour": usd_per_hour,
        "price_basis": "list",
        "source": "t",
        "as_of": "2026-11-01",
    }
    return Harvest(
        rows={"offers.csv": [{**row, "instance_type": f"m{i}"} for i in range(rows)]},
        origins=[Origin(place="t", sha256="0", size_bytes=1)],
    )


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shelf of each test's own."""
    monkeypatch.setenv("PLACER_HOME", str(tmp_path))
    return tmp_path / "catalogs"


def price(book: Path) -> str:
    """Price of the first machine as it stands in the file."""
    return (book / "offers.csv").read_text().splitlines()[1].split(",")[8]


def folders(shelf: Path) -> list[str]:
    """What lies on the shelf beside locks."""
    return sorted(
        path.name.partition("@")[0] for path in shelf.iterdir() if not path.name.endswith(".lock")
    )


def test_ctrl_c_after_the_link_has_moved_keeps_the_new_book(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new folder is the book then: removing it, as before, would leave a link to nothing."""
    save(harvest(0.5), "quote")

    def interrupted(*leftovers: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(saving, "_remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(harvest(0.7), "quote")
    assert price(shelf / "quote") == "0.7"


def test_leftovers_of_a_killed_process_go_with_the_next_book(shelf: Path) -> None:
    """A half-written folder and a link that was not moved; the folder before stays."""
    save(harvest(0.5), "quote")
    (shelf / ".quote@half").mkdir()
    (shelf / ".quote@half.link").symlink_to(".quote@half")
    (shelf / ".quote@gone.link").symlink_to(".quote@gone")
    save(harvest(0.7), "quote")
    assert price(shelf / "quote") == "0.7"
    assert folders(shelf) == [".quote", ".quote", "quote"]


PATHS = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
WRITER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from test_save import harvest
os.environ["PLACER_HOME"] = sys.argv[2]
from placer.market.sources.save import save
for i in range(1, 10_000):
    save(harvest(float(i), rows=300), "quote")
    print(i, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_writer_leaves_a_whole_book(shelf: Path, number: int) -> None:
    """A process that writes one book after the other is ended somewhere in its fourth: the book is
    one of those, whole.
    """
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(Path(__file__).parent), str(shelf.parent)]
        with subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": PATHS}, stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            for _ in range(3):
                last = int(writer.stdout.readline())
            writer.send_signal(number)
            last = max([last, *(int(line) for line in writer.stdout)])
        lines = (shelf / "quote" / "offers.csv").read_text().splitlines()
        assert len(lines) == 301
        assert float(price(shelf / "quote")) in (last, last + 1)
        assert json.loads((shelf / "quote" / ORIGIN).read_text())["schema"] == "placer.origin/v1"
    save(harvest(0.7), "quote")
    assert folders(shelf) == [".quote", ".quote", "quote"]


@pytest.mark.parametrize("target", ["/etc", "elsewhere", "quote", ".other@x"])
def test_a_link_that_placer_did_not_make_is_not_replaced(shelf: Path, target: str) -> None:
    """Somebody linked a folder of theirs, nothing, or the link itself under that name."""
    shelf.mkdir(parents=True)
    (shelf / "quote").symlink_to(target)
    with pytest.raises(PlacerError, match="was not written by placer"):
        save(harvest(), "quote")
    assert os.readlink(shelf / "quote") == target  # noqa: PTH115 the text of the link itself
    assert folders(shelf) == ["quote"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"documents": 7}',
        '{"schema": 1}',
        "[" * 100_000,
        '{"retrieved": NaN}',
        "\0",
        "\xff",
    ],
)
def test_an_origin_that_placer_did_not_write_is_passed_over(
    shelf: Path, run: Run, text: str
) -> None:
    """Prices are shown without it: it only tells where they come from."""
    (save(harvest(), "quote") / ORIGIN).write_text(text, encoding="latin-1")
    done = run("catalog", "show", "quote", "--json", PLACER_HOME=str(shelf.parent))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["layers"][-1]["origin"] is None


@pytest.mark.parametrize("source", ["=1+1", "@SUM(A1)", "+1", "-1"])
def test_no_source_writes_a_formula_into_a_book(shelf: Path, source: str) -> None:
    """A spreadsheet that opens the book would run it; the last gate refuses it."""
    (row,) = harvest().rows["offers.csv"]
    with pytest.raises(PlacerError, match="begins as a formula does"):
        save(Harvest(rows={"offers.csv": [{**row, "source": source}]}, origins=[]), "quote")
    assert folders(shelf) == []


def test_the_folder_before_is_kept_behind_a_linked_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three writings the last two folders stay, also where PLACER_HOME is a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    monkeypatch.setenv("PLACER_HOME", str(tmp_path / "home"))
    made = [save(harvest(), "mine").resolve() for _ in range(3)]
    assert [folder.is_dir() for folder in made] == [False, True, True]


def test_rows_are_laid_over_those_of_the_book_of_that_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two machines one has a new price; a book with prices of egress is none of capacity."""
    monkeypatch.setenv("PLACER_HOME", str(tmp_path))
    assert merged(harvest(), "mine") == harvest()
    book = save(harvest(0.5, rows=2), "mine")
    rows = merged(harvest(0.7), "mine").rows["offers.csv"]
    assert [(row["instance_type"], float(row["usd_per_hour"] or 0)) for row in rows] == [
        ("m0", 0.7),
        ("m1", 0.5),
    ]
    (book / "egress.csv").write_text("src\n", encoding="utf-8")
    with pytest.raises(PlacerError, match=r"has egress\.csv: it is no book of capacity"):
        merged(harvest(), "mine")

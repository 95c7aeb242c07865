"""``placer try``: from a price list in an empty folder to an answer, by one command."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from conftest import ROOT, Run
from placer.cli.ask.try_prices import confirm
from placer.cli.book.harvest import MOST_REASONS, say_rest
from placer.errors import PlacerError

LISTS = ROOT / "tests" / "fixtures" / "price_lists"
ASKED = ("--model", "roberta-xlm", "--budget", "60/h", "--json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with three lists and nothing else."""
    for path in (*LISTS.glob("*.csv"), ROOT / "examples" / "nordkarte.csv"):
        shutil.copy(path, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["nordkarte", "himalaya-cloud", "gpuwerk"])
def test_one_command_answers(command: Run, folder: Path, name: str) -> None:
    """With machines of the list alone; nothing is kept. What was read as what is on stderr."""
    home = folder / "home"
    done = command("try", f"{name}.csv", "--yes", *ASKED, cwd=folder, PLACER_HOME=str(home))
    answer = json.loads(done.stdout)
    assert answer["status"] == "optimal"
    assert {row["place"].split("/")[0] for row in answer["placement"]["workers"]} == {name}
    assert answer["data"]["catalog"] == f"default+{name}"
    assert "read as" in done.stderr
    assert "assumed: as " in done.stderr
    assert not [*home.glob("catalogs/*")]


def test_it_is_kept_by_name_and_asked_beside_others(command: Run, folder: Path) -> None:
    """A saved answer of one worker is explained later; the book has its name."""
    words = ("--as", "mine", "--catalog", "default", "-o", "answer.json", "--workers", "1..1")
    home = {"PLACER_HOME": str(folder / "home")}
    done = command("try", "gpuwerk.csv", "--yes", *words, *ASKED[:-1], cwd=folder, **home)
    assert done.returncode == 0, done.stderr
    books = command("catalog", "list", "--json", cwd=folder, **home).stdout
    assert "mine" in {row["name"] for row in json.loads(books)["catalogs"]}
    explained = command("explain", "answer.json", cwd=folder, **home)
    assert explained.returncode == 0, explained.stderr


def test_nobody_confirms_without_a_terminal(command: Run, folder: Path) -> None:
    """One line with what to type, and exit code 2; the table stands above it."""
    done = command("try", "nordkarte.csv", *ASKED, cwd=folder)
    assert done.returncode == 2
    assert "error: nobody confirmed how the list is read" in done.stderr
    assert "--yes" in done.stderr
    assert "Preis pro Stunde" in done.stderr


def test_a_temporary_answer_can_be_saved_and_explained(command: Run, folder: Path) -> None:
    """The saved result has the rows that it used, though the book is gone."""
    saved = command("try", "gpuwerk.csv", "--yes", *ASKED[:-1], "-o", "answer.json", cwd=folder)
    assert saved.returncode == 0, saved.stderr
    assert command("validate", "answer.json", cwd=folder).returncode == 0


class Terminal(io.StringIO):
    """A terminal on which something is typed."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize(("typed", "right"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_a_terminal_is_asked(monkeypatch: pytest.MonkeyPatch, typed: str, right: bool) -> None:
    """What is not confirmed is not answered; the way to correct it is said."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", Terminal())
    if right:
        confirm(yes=False)
    else:
        with pytest.raises(PlacerError, match="read otherwise") as caught:
            confirm(yes=False)
        assert "--columns" in caught.value.hint


def test_rare_reasons_are_counted_together(capsys: pytest.CaptureFixture[str]) -> None:
    """Two more than are named, of one row each."""
    say_rest({f"reason {n}": 1 for n in range(MOST_REASONS + 2)}, ["a note"])
    said = capsys.readouterr().out
    assert said.count("left out: 1 x reason") == MOST_REASONS
    assert "left out: 2 x 2 other reasons (--json lists them)" in said
    assert said.endswith("note: a note\n")

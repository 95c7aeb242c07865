"""Files that placer wrote in November 2026, before its modules moved into rooms: each still loads,
holds, and is taken up again.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import ROOT, Run
from placer.documents.manifest import read_manifest
from placer.documents.present_book import reopened_problem
from placer.documents.validate import examine_document, manifest_of
from placer.problem.problem import Problem
from placer.solving.cross_check import solved_again
from placer.workload.constants import Calibration, HostConstants, ServiceConstants

FILES = ROOT / "tests/fixtures/saved-2026-11"
BOOKS = FILES / "books"
"""The price book that they were written with: the shipped one of the name has new links since."""
RESULTS = ("result", "certificate", "wishes", "central")
FORMER = Calibration(
    name="published",
    hosts={
        "t4": HostConstants(0.386, 10.53, 0.978),
        "a10": HostConstants(0.0, 7.26, 0.304, 0.00669),
    },
    kappa=(1.0, 1.2, 0.74),
    averaging_spread=(1.0, 1.15, 0.87),
    services=ServiceConstants(server_sum_bytes_per_s=None),
)
"""The constants that they were written with."""


def document_of(name: str) -> dict[str, Any]:
    """One of the files."""
    document: dict[str, Any] = json.loads((FILES / f"{name}.json").read_text())
    return document


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("result", "result, priced again: "),
        ("certificate", "result, priced again: "),
        ("wishes", "result, priced again: "),
        ("central", "result, priced again: "),
        ("nothing", "result without a placement"),
        ("manifest", "manifest of "),
        ("central-manifest", "manifest of "),
        ("problem", "problem: roberta-xlm on "),
        ("calibration", "calibration runs.csv of "),
        ("pareto", "frontier of 3 points"),
    ],
)
def test_every_file_holds(name: str, kind: str) -> None:
    """`placer validate` says what it is and finds no fault."""
    assert examine_document(document_of(name), name)[0].startswith(kind)


@pytest.mark.parametrize("name", RESULTS)
def test_certificates_confirm_as_much_as_before(name: str) -> None:
    """Digests and the second implementation: prices of all, bounds where the market is in the
    file.
    """
    checked = examine_document(document_of(name), name)[1]
    assert checked is not None
    confirmed = " ".join(checked.confirmed)
    assert "a second implementation finds" in confirmed
    assert "digests of profile, catalog, requirements and calibration" in confirmed
    assert ("weak duality" in confirmed) == (name == "certificate")


@pytest.mark.parametrize("name", [*RESULTS, "problem"])
def test_problems_are_written_as_they_were_read(name: str) -> None:
    """Nothing of a problem is lost or added."""
    document = document_of(name)
    saved = document if name == "problem" else document["problem"]
    assert json.loads(json.dumps(Problem.from_dict(saved).to_dict())) == saved


@pytest.mark.parametrize("name", ["result", "certificate"])
def test_results_are_solved_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same book is here, or the market is in the file: the same value is found."""
    monkeypatch.setattr("placer.market.books.layers.shipped_catalogs", lambda: BOOKS)
    value = f"{document_of(name)['objective']['value']:.3g}"
    words = solved_again(document_of(name), name, "exact")
    assert words.startswith("exact solved it again: ")
    assert "(optimal" in words
    assert words.count(value[:3]) >= 2


def test_questions_are_reopened_on_the_whole_book() -> None:
    """The file holds the offers that were chosen; the reopened question has all of the book, also
    where nothing fitted.
    """
    for name in ("result", "nothing"):
        problem, changes = reopened_problem(document_of(name), name, (str(BOOKS / "erben-2023"),))
        assert len(problem.catalog.offers) == len(
            placer.load_catalog(str(BOOKS / "erben-2023")).offers
        )
        assert changes == ()


def test_results_give_their_manifest_and_launch_files(run: Run, tmp_path: Path) -> None:
    """A manifest written from the result now is the one that was written with it, but for the names
    of its buckets, which end in a digest of the plan now; both export.
    """
    for name, manifest in (("result", "manifest"), ("central", "central-manifest")):
        built = json.loads(json.dumps(manifest_of(document_of(name), name)))
        text, then = json.dumps(built), document_of(manifest)
        for new, old in zip(built["buckets"], then["buckets"], strict=True):
            assert new["name"].startswith(f"{old['name']}-")
            text = text.replace(new["name"], old["name"])
        assert {**json.loads(text), "digest": then["digest"]} == then
    for name in ("result", "manifest"):
        folder = tmp_path / name
        done = run("export", str(FILES / f"{name}.json"), "--to", "torchrun", "--dir", str(folder))
        assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in (tmp_path / "result").iterdir()) == sorted(
        p.name for p in (tmp_path / "manifest").iterdir()
    )


def test_a_plan_is_replanned_with_the_log_of_its_run(run: Run) -> None:
    """Every machine of the log is a fifth slower than the plan says, so there is nothing to
    gain.
    """
    done = run(
        "whatif", str(FILES / "manifest.json"), "--observed", str(FILES / "run.jsonl"), "--json"
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["manifest"]["digest"] == read_manifest(document_of("manifest"), "m").digest
    assert [round(speed["factor"], 6) for speed in answer["observed"]["speeds"]] == [0.8]


def swept(file: Path, calibration: Calibration | None = None) -> placer.Sweep:
    """Ask the question of the sweep, with the profile and the book of its day."""
    return placer.sweep(
        str(FILES / "profile.json"),
        "budget=2/h..4/h:3",
        output=str(file),
        catalog=str(BOOKS / "erben-2023"),
        budget="3/h",
        quota="8",
        supply="any",
        calibration=calibration,
    )


def test_a_sweep_is_taken_up_again(tmp_path: Path) -> None:
    """Of three points the last is missing: it alone is solved, and the file is as it was."""
    lines = (FILES / "sweep.jsonl").read_text().splitlines(keepends=True)
    file = tmp_path / "sweep.jsonl"
    file.write_text("".join(lines[:-1]))
    swept(file, FORMER)
    assert file.read_text().splitlines(keepends=True) == lines


def test_a_calibration_is_used(tmp_path: Path) -> None:
    """Its figures change the estimate, and the request names it."""
    file = tmp_path / "calibration.json"
    shutil.copy(FILES / "calibration.json", file)
    words: dict[str, Any] = {"catalog": "erben-2023", "budget": "2/h", "gpu": "T4", "regions": 1}
    plain = placer.recommend("roberta-xlm", **words)
    fitted = placer.recommend("roberta-xlm", calibration=str(file), **words)
    assert fitted.problem.calibration.name.startswith("runs.csv of ")
    assert fitted.value != plain.value

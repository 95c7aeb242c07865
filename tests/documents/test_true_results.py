"""What a command writes is valid, whatever was asked: questions whose files were once refused."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import ROOT, Run
from placer.documents.validate import examine_document
from placer.errors import PlacerError

Edit = Callable[[dict[str, Any]], None]
ERBEN: dict[str, Any] = {"catalog": "erben-2023"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "shares": {**ERBEN, "budget": "5/h", "max_share": "50%/region", "time_limit": "2s"},
    "shares of four": {
        **ERBEN,
        "gpu": "T4",
        "workers": "4",
        "max_share": "60%/region",
        "time_limit": "3s",
    },
    "nothing yet": {
        **ERBEN,
        "gpu": "T4",
        "workers": "4",
        "max_share": "40%/provider",
        "time_limit": "2s",
    },
    "range by price": {
        **ERBEN,
        "gpu": "T4",
        "budget": "2/h",
        "tbs": "16Ki..32Ki",
        "objective": "cost-per-sample",
    },
    "range by time": {
        **ERBEN,
        "gpu": "T4",
        "budget": "2/h",
        "tbs": "16Ki..32Ki",
        "objective": "time",
        "samples": "100M",
    },
    "community": {"budget": "3/h", "market": "community", "gpu": "RTX4090", "workers": "1"},
}
"""One machine has all of the speed; a search may end with a bound and no placement; the modes of a
range are those of one batch; machines of a community are looked up among spot ones.
"""


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_true_result_is_valid(name: str) -> None:
    """With and without the market."""
    result = placer.recommend("roberta-xlm", **QUESTIONS[name])
    assert (result.placement is None) == (name == "nothing yet")
    for whole in (False, True):
        document = json.loads(json.dumps(result.to_saved(whole=whole)))
        _, checked = examine_document(document, "r.json")
        assert checked is not None
        if "range" in name:
            assert "no batch from 16,384 to 32,768 is better" in " ".join(checked.trusted)


def test_a_value_of_another_kind_is_named_with_its_path() -> None:
    """Before anything is priced again."""
    document = placer.recommend("roberta-xlm", gpu="T4", budget="1/h", **ERBEN).to_saved()
    document["placement"]["workers"][0]["count"] = "two"
    with pytest.raises(PlacerError, match=r'workers\[0\]\.count is "two": expected `int`'):
        examine_document(document, "r.json")


def test_a_portfolio_holds_and_names_what_nobody_checks(run: Run, tmp_path: Path) -> None:
    """Figures that follow from others are worked out again."""
    path = tmp_path / "jobs.json"
    assert run("portfolio", str(ROOT / "examples" / "jobs.toml"), "-o", str(path)).returncode == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    _, checked = examine_document(document, "jobs.json")
    assert checked is not None
    for words in ("objective.bound", "worth", "that what is shared was asked so"):
        assert words in checked.trusted[0]
    edits: tuple[tuple[Edit, str], ...] = (
        (lambda d: d["objective"].update(value=1.0), "the objective is 1, but"),
        (lambda d: d["objective"].update(gap=0.3), "gap, bound and value do not fit"),
        (lambda d: d["objective"].update(bound=9.0), "do not fit|is beaten by the value"),
        (lambda d: d["one_by_one"].update(saving=0.5), "saved is 0"),
        (lambda d: d["jobs"][0].update(model="niser"), "the model of job"),
        (lambda d: d["jobs"][0].update(slots="one"), r'jobs\[0\].slots is "one"'),
        (
            lambda d: d["jobs"][0]["result"]["certificate"].update(book="0" * 16),
            "book|digest",
        ),
    )
    for edit, message in edits:
        forged = copy.deepcopy(document)
        edit(forged)
        with pytest.raises(PlacerError, match=message):
            examine_document(forged, "jobs.json")

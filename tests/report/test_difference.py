"""Differences of two results: machines, dollars of a month, conditions."""

import json
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import Run
from placer.documents.difference import difference_document, parse_condition
from placer.errors import PlacerError
from placer.report.contents import contents
from report_documents import saved


def files(folder: Path, *documents: Any) -> list[str]:
    """Write documents to files of their own."""
    paths = [folder / f"{name}.json" for name in "ab"]
    for path, document in zip(paths, documents, strict=True):
        path.write_text(json.dumps(document), encoding="utf-8")
    return [str(path) for path in paths]


def test_the_month_is_730_hours_and_machines_add_up() -> None:
    """Changes of all kinds of machines sum to the change of what machines cost; egress is beside
    them.
    """
    document = difference_document(saved("one"), saved("several"))
    figures = {row["name"]: row for row in document["figures"]}
    one, other = (saved(kind)["estimate"]["usd_per_hour"] for kind in ("one", "several"))
    assert document["usd_per_month"]["change"] == pytest.approx(
        730 * (other["total"] - one["total"])
    )
    assert sum(row["usd_per_month_change"] for row in document["machines"]) == pytest.approx(
        730 * (other["compute"] - one["compute"])
    )
    assert figures["egress"]["after"] == other["egress"]
    assert figures["cost"]["relative_change"] == pytest.approx(other["total"] / one["total"] - 1)
    assert {row["wish"] for row in document["wishes"]} == {
        "budget_usd_per_hour",
        "min_regions",
        "max_regions",
    }


@pytest.mark.parametrize(
    ("text", "cost", "holds"),
    [
        ("cost>10%", 1.2, True),
        ("cost>10%", 1.05, False),
        ("cost>10%", 0.5, False),
        ("cost<-10%", 0.5, True),
        ("cost>0.5", 1.2, True),  # 4.80 USD/h x 0.2 = 0.96 USD/h
        ("cost>2", 1.2, False),
        ("speed<-5%", 1.2, False),
    ],
)
def test_conditions_compare_the_change(text: str, cost: float, *, holds: bool) -> None:
    """Relative with a percent sign, else in the unit of the figure."""
    dearer = deepcopy(saved("one"))
    dearer["estimate"]["usd_per_hour"]["total"] *= cost
    failed = difference_document(saved("one"), dearer, conditions=[parse_condition(text)])["failed"]
    assert failed == ([text] if holds else [])


def test_a_placement_that_is_gone_is_not_accepted() -> None:
    """Its cost is not 0 but unknown: every condition holds. From no egress to some is endless."""
    conditions = [parse_condition("cost>10%"), parse_condition("speed<-5%")]
    gone = difference_document(saved("one"), saved("nothing"), conditions=conditions)
    assert gone["failed"] == ["cost>10%", "speed<-5%"]
    assert "no placement after" in contents(gone, today=date(2026, 11, 23)).verdict
    egress = [parse_condition("egress>1000%")]
    assert difference_document(saved("one"), saved("several"), conditions=egress)["failed"]


def whole_run(*, usd: float, hours: float) -> dict[str, Any]:
    """Build a result of a question with a number of samples."""
    totals = {"usd": {"value": usd}, "seconds": {"value": 3600 * hours}}
    return {**deepcopy(saved("one")), "totals": totals}


def test_the_total_of_a_real_run_is_its_cost_for_its_hours() -> None:
    """10 M samples at 1,060 samples/s for 4.80 USD/h: 2.62 h and 12.58 USD; 10 min of start-up more
    are 2.79 h and 0.80 USD of machines.
    """
    words: dict[str, Any] = {
        "budget": "5/h",
        "samples": "10M",
        "catalog": "erben-2023",
        "gpu": ["T4", "A10"],
    }
    run = placer.recommend("roberta-xlm", alternatives=False, **words).to_dict()
    figures = {row["name"]: row["after"] for row in difference_document(run, run)["figures"]}
    assert figures["hours"] == pytest.approx(10e6 / 1_060 / 3600 + 1 / 6, rel=1e-3)
    assert figures["total"] == pytest.approx(4.80 * figures["hours"])


def test_a_figure_that_no_result_has_is_refused() -> None:
    """Without samples there is no total; one side without is a change that is not accepted."""
    condition = [parse_condition("total>5%")]
    with pytest.raises(PlacerError, match="neither result has the figure 'total'") as refused:
        difference_document(saved("one"), saved("several"), conditions=condition)
    assert "--samples" in refused.value.hint
    one_side = (saved("one"), whole_run(usd=1.0, hours=1.0))
    assert difference_document(*one_side, conditions=condition)["failed"] == ["total>5%"]


def test_the_command_prints_a_table_markdown_and_json(tmp_path: Path, command: Run) -> None:
    """Exit code 6 where a condition holds; -o writes what would be printed."""
    before, after = files(tmp_path, saved("one"), saved("several"))
    table = command("report", "--diff", before, after)
    assert (table.returncode, "a month" in table.stdout) == (0, True)
    refused = command("report", "--diff", before, after, "--fail-on", "cost>10%", "--json")
    assert refused.returncode == 6
    assert json.loads(refused.stdout)["failed"] == ["cost>10%"]
    target = tmp_path / "comment.md"
    assert (
        command("report", "--diff", before, after, "--format", "md", "-o", str(target)).returncode
        == 0
    )
    assert "| - |" in target.read_text(encoding="utf-8")
    wrong = command("report", "--diff", before, str(tmp_path / "none.json"))
    assert (wrong.returncode, "none.json" in wrong.stderr) == (2, True)

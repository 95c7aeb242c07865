"""Pages: every figure is that of the document, every kind has one, every fault one line."""

from __future__ import annotations

import json
import re
import shlex
import sys
from copy import deepcopy
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import placer
from conftest import ROOT, Run
from placer.cli.report.recommend.default_screen import speed_words
from placer.cost_model.outlook.shown_speed import speed_between
from placer.errors import PlacerError
from placer.interface.by_hand import comparison_document, side_by_side
from placer.report.blocks import Chart, Facts, Report, Table
from placer.report.charts.drawing import drawn, fixed_colours
from placer.report.contents import KINDS, contents
from placer.report.figures import speed_of
from placer.report.kinds.shared.parts import PARTS_OF_PRICE, option_cells
from placer.report.kinds.shared.placement import figures_of, spot_facts
from placer.report.page import page
from placer.report.question import command_of, wish_words
from report_documents import SMALL, saved

TODAY = date(2026, 11, 23)
OLD = ROOT / "tests" / "fixtures" / "saved-2026-11"


class Parsed(HTMLParser):
    """Tags of a page that were opened, and addresses that could be loaded."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag, and what its attributes would load."""
        self.tags.append(tag)
        loading = ("src", "href", "xlink:href", "srcset", "data", "action", "poster")
        self.addresses += [value or "" for name, value in attrs if name in loading]


def tables(report: Report) -> dict[str, Table]:
    """Tables of a report by their caption, those of charts among them."""
    blocks = [block for part in report.sections for block in part.blocks]
    found = [block.table if isinstance(block, Chart) else block for block in blocks]
    return {table.caption: table for table in found if isinstance(table, Table)}


def titles(report: Report) -> list[str]:
    """Headings of a report."""
    return [part.title for part in report.sections]


def test_a_result_has_every_section() -> None:
    """In the order in which one reads: the answer, where, why, what may go wrong, sources."""
    report = contents(saved("several"), today=TODAY)
    assert titles(report) == [
        "The answer",
        "Where",
        "Where each dollar goes",
        "One step",
        "Considered",
        "Why not something else",
        "Proof",
        "What may go wrong",
        "What was asked",
        "Every figure and its source",
        "How to reproduce it",
    ]
    assert "samples/s for $" in report.verdict


def test_dollars_add_up_to_the_price_of_the_document() -> None:
    """The parts of the waterfall are those of the estimate, and their sum is its total."""
    document = saved("several")
    usd = document["estimate"]["usd_per_hour"]
    rows = tables(contents(document, today=TODAY))["USD in an hour"].keys
    shown = {str(row[0]): row[1] for row in rows}
    assert shown["total"] == usd["total"]
    assert shown == {name: usd[key] for key, name in PARTS_OF_PRICE if usd[key]} | {
        "total": usd["total"]
    }


def test_links_carry_the_bytes_of_an_hour() -> None:
    """Bytes of a step x 3600 over the seconds of one; USD/GiB x GiB/h is the egress again."""
    document = saved("several")
    estimate = document["estimate"]
    table = tables(contents(document, today=TODAY))["What the places send each other"]
    for link, keys in zip(estimate["links"], table.keys, strict=True):
        _, _, carried, usd_per_gib, usd, *_ = keys
        assert isinstance(carried, float)
        assert isinstance(usd_per_gib, float)
        assert carried == pytest.approx(
            link["bytes_per_step"] * 3600 / estimate["step_seconds"]["total"]
        )
        assert carried / 2**30 * usd_per_gib == pytest.approx(usd)
    assert sum(float(str(keys[4])) for keys in table.keys) == pytest.approx(
        estimate["usd_per_hour"]["egress"]
    )


def test_the_step_ends_where_the_document_says() -> None:
    """Calculation, then what nothing hides: the last part ends with the whole."""
    document = saved("several")
    keys = tables(contents(document, today=TODAY))["One step"].keys
    total = document["estimate"]["step_seconds"]["total"]
    assert keys[-1][0] == "whole step"
    assert keys[-1][2] == pytest.approx(total)
    assert max(float(str(row[2])) for row in keys[:-1]) == pytest.approx(total)


def test_every_line_of_provenance_has_a_basis_a_source_and_an_age() -> None:
    """Prices of May 2023 are 3.5 years old in November 2026."""
    table = tables(contents(saved("one"), today=TODAY))["What the answer rests on"]
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert len(rows) == len(saved("one")["estimate"]["provenance"])
    assert all(row["basis"] and row["source"] for row in rows)
    prices = [row for row in rows if row["figure"].startswith("price of")]
    assert {row["age"] for row in prices} <= {"3.5 years", "3.6 years"}


@pytest.mark.parametrize(
    "wishes",
    [
        {"budget": "5/h", "regions": "1..2", "market": "spot", "workers": "2..8"},
        {"budget": "2000usd", "samples": "10M", "deadline": "30d", "places": "gcp/*,lambda"},
        {"min_throughput": "200/s", "local_steps": "1..4", "zones": "spread", "tbs": "8K"},
        {"budget": "9/h", "max_share": "50%/region", "interruption": "10%", "use": "lambda"},
    ],
)
def test_the_command_asks_the_same_question(wishes: dict[str, Any], command: Run) -> None:
    """What the page prints to reproduce it, typed again, has the same request."""
    document = placer.recommend("roberta-xlm", time_limit=1, **SMALL, **wishes).to_saved()
    words, left = command_of(document)
    assert left == ()
    again = command(*shlex.split(words)[1:], "--time-limit", "1s", "--json")
    assert json.loads(again.stdout)["request"] == document["request"]


def test_a_fine_tune_is_named_with_its_assumed_batch() -> None:
    """Llama 3.1 8B of rank 16: 41.9 M parameters, 128 sequences that no option asks for."""
    wishes: dict[str, Any] = {"gpu": ["H100"], "market": "spot", "time_limit": 2, "gap": "50%"}
    document = placer.recommend("llama-3.1-8b", budget="60/h", lora=16, **wishes).to_saved()
    rows = dict(wish_words(document))
    assert rows["lora"] == "16"
    assert rows["parameters trained"] == "41.9 M"
    assert rows["batch"] == "128 samples a step (assumed)"
    words, _ = command_of(document)
    assert "--lora 16" in words
    assert "--tbs" not in words


def test_a_language_model_is_asked_for_in_tokens_alone() -> None:
    """Of `--tokens` a request also keeps the samples: to give both is refused."""
    wishes: dict[str, Any] = {"gpu": ["H100"], "market": "spot", "time_limit": 2, "gap": "50%"}
    document = placer.recommend("llama-3.1-8b", budget="60/h", tokens="1B", **wishes).to_saved()
    words, _ = command_of(document)
    assert "--tokens 1000000000" in words
    assert "--samples" not in words
    estimate = {
        key: dict(value) if isinstance(value, dict) else value
        for key, value in document["estimate"].items()
    }
    speed = estimate["effective_samples_per_second"]
    estimate["effective_samples_per_second"] = {end: 0.5 * speed[end] for end in speed}
    whole, unit = speed_of(document["estimate"])
    assert speed_of(estimate) == ({end: 0.5 * whole[end] for end in whole}, unit)
    assert (whole["value"], unit) == (
        pytest.approx(document["estimate"]["tokens_per_second"]["value"]),
        "tokens/s",
    )


def test_a_page_names_no_address_and_runs_only_what_its_policy_names() -> None:
    """Links lead into the page; the icon is empty data; the two scripts are in the policy."""
    html = page({"a.json": saved("several"), "b.json": saved("nothing")}, today=TODAY)
    parsed = Parsed(html)
    assert {address.partition("-")[0] for address in parsed.addresses} == {"#part", "data:,"}
    assert html.count("sha256-") == parsed.tags.count("script") == 1
    assert "default-src &#39;none&#39;" in html
    assert "iframe" not in parsed.tags


def test_equal_documents_make_equal_pages() -> None:
    """Nothing in a page depends on the clock but the day."""
    pages = {page({"a.json": saved("one")}, today=TODAY) for _ in range(2)}
    assert len(pages) == 1


@pytest.mark.parametrize(
    "name", ["result", "pareto", "central", "nothing", "wishes", "certificate"]
)
def test_files_of_older_versions_have_a_page(name: str) -> None:
    """Keys that came later are not asked for."""
    document = json.loads((OLD / f"{name}.json").read_text(encoding="utf-8"))
    assert contents(document, name, TODAY).verdict


def test_what_is_no_document_is_refused_in_one_line() -> None:
    """Another schema, no schema, and a document without its parts."""
    for document, words in (
        ({"schema": "placer.doctor/v1"}, "of which there is no report"),
        ([1, 2], "no document of placer"),
        ({"schema": "placer.result/v1", "placement": None}, "not a whole placer.result/v1"),
    ):
        with pytest.raises(PlacerError, match=words) as refused:
            contents(document, "x.json")
        assert "x.json" in refused.value.message
        assert refused.value.hint


@pytest.mark.parametrize("key", ["estimate", "placement", "data", "request", "objective"])
def test_a_document_without_a_part_is_refused(key: str) -> None:
    """Edited by hand: no traceback."""
    document = deepcopy(saved("one"))
    document[key] = {}
    with pytest.raises(PlacerError, match="not a whole"):
        contents(document)


def test_without_the_extra_the_error_names_the_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a notebook shows the text in place of a card."""
    document = saved("one")
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PlacerError, match="altair, which is not installed") as refused:
        page({"a.json": document})
    assert "placer-advisor[report]" in refused.value.hint


def test_a_drawing_of_its_own_has_the_light_colours() -> None:
    """A file has no page around it that sets colours."""
    report = contents(saved("one"), today=TODAY)
    chart = next(b for part in report.sections for b in part.blocks if isinstance(b, Chart))
    svg = drawn(chart.draw(), "svg").decode()
    assert "var(--" not in svg
    assert "#0b5cad" in svg
    assert drawn(chart.draw(), "png").startswith(b"\x89PNG")
    assert fixed_colours("var(--ink)", {"ink": "#000"}) == "#000"


def test_a_comparison_says_how_far_the_others_are_from_the_fastest() -> None:
    """150 samples/s against 200 are a quarter less, and 6 USD/h against 4 half as much again."""
    problem = placer.Advisor("erben-2023").problem("roberta-xlm")
    spots = ["gcp/us-central1=2xT4:spot", "gcp/us-central1=4xT4:spot"]
    document = comparison_document(problem, side_by_side(problem, spots, every=False))
    figures = ((150.0, 6.0), (200.0, 4.0))
    for row, (speed, usd) in zip(document["placements"], figures, strict=True):
        row["estimate"]["effective_samples_per_second"]["value"] = speed
        row["estimate"]["usd_per_hour"]["total"] = usd
    report = contents(document, today=TODAY)
    (facts,) = next(p.blocks for p in report.sections if p.title == "Against the fastest")
    assert isinstance(facts, Facts)
    assert facts.rows == (("row 1", "-25 % speed, +50 % cost", ""),)


def test_emissions_are_said_in_kilograms() -> None:
    """2,500 g an hour are 2.5 kg."""
    carbon = {"value": 2500.0, "low": 2000.0, "high": 3000.0}
    rows = figures_of({**saved("one")["estimate"], "carbon_g_per_hour": carbon})
    assert rows[-1] == ("2.5", "kg CO2e per hour", "2 to 3")


def test_the_chance_that_all_machines_launch_is_said() -> None:
    """Where it was observed; else that it was not."""
    document = deepcopy(saved("one"))
    speed = {"expected_samples_per_second": document["estimate"]["samples_per_second"]}
    risk = {"machines": 4, "median_hours": None, **speed}
    spot = {"chance_per_month": 0.1, "unavailable": 0.2, "all_lost": 0.01, "risk": risk, **speed}
    document["outlook"] = {"spot": spot}
    chances = {"90 % of the time": {"value": 0.9, "low": 0.8, "high": 1.0}, "not observed": None}
    for words, chance in chances.items():
        risk["chance_all"] = chance
        facts = spot_facts(document)
        assert facts is not None
        assert facts.rows[-2][:2] == ("all 4 machines launch", words)


def test_kinds_are_modules() -> None:
    """Each kind that is named can be imported."""
    import importlib

    for kind in KINDS.values():
        module, _, view = kind.partition(":")
        found = importlib.import_module(f"placer.report.kinds.{module}")
        assert callable(getattr(found, view or "report"))


def test_the_command_writes_a_page(tmp_path: Path, command: Run) -> None:
    """Beside the document by default, or where -o says; errors are one line and exit code 2."""
    file = tmp_path / "result.json"
    file.write_text(json.dumps(saved("one")), encoding="utf-8")
    assert command("report", str(file)).returncode == 0
    html = (tmp_path / "result.html").read_text(encoding="utf-8")
    assert html.startswith("<!doctype html>")
    for words, message in (
        (["report", str(file), "-o", str(file)], "is the document itself"),
        (["report", str(file), "-o", "html"], "'html' is a format, not the name of a file"),
        (["report", str(tmp_path / "none.json")], "none.json"),
        (["report"], "is missing"),
    ):
        done = command(*words)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.html", "result.json"]


def test_pdf_without_a_browser_says_what_to_install(tmp_path: Path, command: Run) -> None:
    """Before anything is drawn."""
    file = tmp_path / "result.json"
    file.write_text(json.dumps(saved("one")), encoding="utf-8")
    done = command(
        "report", str(file), "--pdf", str(tmp_path / "x.pdf"), PLACER_BROWSER="no-browser"
    )
    assert done.returncode == 2
    assert "apt-get install chromium" in done.stderr


@pytest.mark.parametrize("name", ["json", "csv", "jsonl", "md", "html"])
def test_no_command_writes_a_file_named_like_a_format(name: str, command: Run) -> None:
    """`-o json` means a format elsewhere: here it is refused before anything is solved."""
    done = command("recommend", "--model", "roberta-xlm", "--budget", "5/h", "-o", name)
    assert done.returncode == 2
    assert f"'{name}' is a format, not the name of a file" in done.stderr
    assert not Path(name).exists()


def test_a_live_result_makes_the_page_of_its_file(tmp_path: Path) -> None:
    """`Result.report` returns it, and writes it where a path is given."""
    result = placer.recommend("roberta-xlm", budget="5/h", **SMALL)
    html = result.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html
    live, file = (contents(one, today=TODAY) for one in (result.to_shown(), saved("one")))
    assert (live.verdict, titles(live), live.figures) == (file.verdict, titles(file), file.figures)


def test_results_show_a_card_in_notebooks() -> None:
    """With the verdict and two charts; no script and no address."""
    result = placer.recommend("roberta-xlm", budget="5/h", **SMALL)
    card = result._repr_html_()
    assert card is not None
    parsed = Parsed(card)
    assert "Train on" in card
    assert parsed.tags.count("svg") == parsed.tags.count("figure") == 2
    assert "script" not in parsed.tags
    assert parsed.addresses == []


def test_without_the_extra_a_notebook_shows_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """None: IPython then takes the representation."""
    result = placer.recommend("roberta-xlm", budget="5/h", **SMALL)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert result._repr_html_() is None


@pytest.mark.parametrize(
    "words",
    [
        "whatif --model roberta-xlm --catalog erben-2023 --gpu T4 --over budget=1/h,2/h",
        "robust --model roberta-xlm --catalog erben-2023 --gpu T4 --workers 4 --worlds 8",
        "estimate --simulate --model resnet50 --workers gcp/us-central1=4xT4:spot",
        "reproduce intellect-1",
    ],
)
def test_plots_stand_beside_the_table(words: str, tmp_path: Path, command: Run) -> None:
    """The first chart of the report, as a file of its own."""
    target = tmp_path / "plot.svg"
    done = command(*words.split(), "--plot", str(target))
    assert done.returncode == 0, done.stderr
    assert target.read_text(encoding="utf-8").startswith("<svg")
    assert command(*words.split(), "--plot", str(tmp_path / "x.gif")).returncode == 2


@pytest.mark.parametrize(("book", "gpu"), [("erben-2023", "T4,A10,V100"), ("default", "L4")])
def test_a_speed_has_one_interval_everywhere(book: str, gpu: str, command: Run) -> None:
    """The ends are those of the speed that counts: samples/s of the machines over a multiplier of
    1 to 1.02. The terminal, all that is known, warnings and the page write the same digits, and
    the level once on each.
    """
    result = placer.recommend("roberta-xlm", budget="5/h", catalog=book, gpu=gpu)
    assert result.estimate is not None
    raw, counted = result.estimate.samples_per_second, result.estimate.effective_samples_per_second
    assert counted.low == pytest.approx(raw.low / 1.02)
    ends = speed_between(result.estimate)
    document = result.to_saved()
    assert document["speed_interval_level"] == 0.9
    assert figures_of(document["estimate"])[0][2] == f"{ends}, 90 % interval"
    assert (
        option_cells({"placement": document["placement"], "estimate": document["estimate"]})[3]
        == ends
    )
    assert speed_words(result.estimate).count("90 %") == 1
    asked = ("recommend", "--model", "roberta-xlm", "--budget", "5/h", "--catalog", book)
    for more in ((), ("-v",)):
        done = command(*asked, "--gpu", gpu, *more, columns=160)
        assert ends in done.stdout
        assert re.search(r"\(90 %|90 % interval", done.stdout)
    for warning in result.warnings:
        assert warning.code != "estimated-rate" or ends in warning.message

"""Pages: every figure is that of the document, every kind has one, every fault one line."""

import json
import shlex
import sys
from datetime import date
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from goldens.__main__ import FROZEN

import placer
from conftest import Run
from placer.errors import PlacerError
from placer.report.blocks import Chart
from placer.report.charts.drawing import drawn, fixed_colours
from placer.report.charts.rows import Dot, dollar_spans, interval_chart, span_chart
from placer.report.contents import contents
from placer.report.kinds.shared.placement import COMPONENTS
from placer.report.page import page
from placer.report.question import command_of
from report_documents import SMALL, saved, tables

TODAY = date(2026, 11, 23)


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


def test_dollars_add_up_to_the_price_of_the_document() -> None:
    """The parts of the waterfall are those of the estimate, and their sum is its total."""
    document = saved("several")
    usd = document["estimate"]["usd_per_hour"]
    rows = tables(contents(document, today=TODAY))["USD in an hour"].keys
    shown = {str(row[0]): row[1] for row in rows}
    assert shown["total"] == usd["total"]
    assert shown == {name: usd[name] for name in COMPONENTS if usd[name]} | {"total": usd["total"]}


@pytest.mark.parametrize(("over", "kind"), [("budget=1/h,4/h", "log"), ("startup=0,10min", None)])
def test_an_axis_is_logarithmic_unless_it_has_a_zero(over: str, kind: str | None) -> None:
    """Speed over a budget, and over a start that may take no time."""
    wishes = {"budget": "5/h", "samples": "1M", **SMALL}
    got = placer.sweep("roberta-xlm", over=[over], **wishes)
    blocks = [block for part in contents(got.to_dict()).sections for block in part.blocks]
    (chart,) = [block for block in blocks if isinstance(block, Chart)]
    line = chart.draw().to_dict()["layer"][0]["encoding"]
    assert [line[axis]["scale"].get("type") for axis in ("x", "y")] == [kind, kind]


@pytest.mark.parametrize("point", [["market=spot"], ["budget=2/h", "egress=x4"]])
def test_a_range_without_one_axis_of_numbers_has_a_row_for_each_point(point: list[str]) -> None:
    """Words have no place on an axis, and two ranges have no single one: rows have their names."""
    document = json.loads((FROZEN / "documents/sweep.json").read_text(encoding="utf-8"))
    axes = [words.split("=") for words in point]
    document["over"] = [{"what": name, "values": [value]} for name, value in axes]
    document["rows"] = [{**document["rows"][1], "set": point}]
    blocks = [block for part in contents(document, today=TODAY).sections for block in part.blocks]
    (chart,) = [block for block in blocks if isinstance(block, Chart)]
    assert " ".join(point) in str(chart.draw().to_dict())


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


def test_a_page_names_no_address_and_runs_only_what_its_policy_names() -> None:
    """Links lead into the page; the icon is empty data; the two scripts are in the policy."""
    html = page({"a.json": saved("several"), "b.json": saved("nothing")}, today=TODAY)
    parsed = Parsed(html)
    assert {address.partition("-")[0] for address in parsed.addresses} == {"#part", "data:,"}
    assert html.count("sha256-") == parsed.tags.count("script") == 1
    assert "default-src &#39;none&#39;" in html
    assert "iframe" not in parsed.tags


def test_without_the_extra_the_error_names_the_install_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a notebook shows the text in place of a card."""
    document = saved("one")
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(PlacerError, match="altair, which is not installed") as refused:
        page({"a.json": document})
    assert "placer-advisor[report]" in refused.value.hint


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


def test_a_drawing_of_its_own_has_the_light_colours() -> None:
    """A file has no page around it that sets colours."""
    report = contents(saved("one"), today=TODAY)
    chart = next(b for part in report.sections for b in part.blocks if isinstance(b, Chart))
    svg = drawn(chart.draw(), "svg").decode()
    assert "var(--" not in svg
    assert "#0b5cad" in svg
    assert drawn(chart.draw(), "png").startswith(b"\x89PNG")
    assert fixed_colours("var(--ink)", {"ink": "#000"}) == "#000"


def test_an_axis_holds_every_end_and_begins_at_zero_where_it_should() -> None:
    """Of 2 to 5 it begins at 0, or 6 % of the width below 2; of -3 to 5 below -3 at least."""
    dots = [Dot(name="a", value=4.0, text="4", low=2.0, high=5.0)]
    below = [Dot(name="b", value=1.0, text="1", low=-3.0)]
    for rows, zero, begins in (
        (dots, True, 0.0),
        (dots, False, 2 - 0.06 * 3),
        (dots + below, True, -3.0),
    ):
        x = interval_chart(rows, "USD/h", zero=zero).to_dict()["layer"][0]["encoding"]["x"]
        low, high = x["scale"]["domain"]
        assert low == pytest.approx(begins)
        assert high > 5.0


def test_the_whole_alone_has_an_interval() -> None:
    """Parts of 1 and 2 USD end at 1 and 3; the words of their sum begin behind its 4 at most."""
    spans = dollar_spans([("vm", 1.0), ("egress", 2.0)], 3.0, 4.0)
    bars, _, whisker, *_ = span_chart(spans, "USD/h", low=3.0, high=4.0).to_dict()["layer"]
    assert [row["beyond"] for row in bars["data"]["values"]] == [1.0, 3.0, 4.0]
    assert whisker["data"]["values"] == [{"name": "total", "low": 3.0, "high": 4.0}]

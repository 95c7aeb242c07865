"""Papers worked out again: stated tolerances, a verdict and a reason for every claim, tables and
JSON.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
from certain import certain
from conforming import validate

from placer import reproduction
from placer.cli import run as run_command
from placer.documents.schemas.measured import PaperGroup, Verdict
from placer.market.books.book_reader import load_catalog
from placer.records import replace
from placer.reproduction import PAPERS, cloudless, reproduce
from placer.reproduction.cloudless import elastic_cases, speed_rows
from placer.reproduction.comparison import PublishedClaim, Reproduction, within
from placer.reproduction.erben import SENT, SPEED
from placer.reproduction.erben_costs import four_continents, gib_per_hour, multi_cloud
from placer.reproduction.erben_speeds import AZURE, NLP, WEST, Bench
from placer.reproduction.intellect import BASE_MFU, slowest_hop, utilisation

Reproduced = Callable[[str], Reproduction]


@pytest.fixture(scope="module")
def elastic() -> list[Any]:
    """All cases of Cloudless-Training, its slowest part."""
    return list(elastic_cases(load_catalog("erben-2023")))


@pytest.fixture(scope="module")
def reproduced(request: pytest.FixtureRequest) -> Reproduced:
    """Work each paper out once for all tests."""
    papers: dict[str, Reproduction] = {}

    def once(paper: str) -> Reproduction:
        if paper not in papers:
            with pytest.MonkeyPatch.context() as patch:
                if paper == "cloudless":
                    cases = request.getfixturevalue("elastic")
                    patch.setattr(cloudless, "elastic_cases", lambda book: iter(cases))
                papers[paper] = reproduce(paper)
        return papers[paper]

    return once


@pytest.fixture
def printed(
    reproduced: Reproduced, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What the command prints on stdout, without working the paper out again."""
    monkeypatch.setattr(reproduction, "reproduce", reproduced)

    def call(*arguments: str, columns: int = 120) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as ended:
            run_command(["reproduce", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    return call


def groups(paper: Reproduction, quantity: str) -> dict[str, PaperGroup]:
    """Groups of one quantity by name."""
    return {group.name: group for group in paper.groups if group.quantity == quantity}


def test_held_out_runs_are_within_four_percent(reproduced: Reproduced) -> None:
    """Mean absolute error at most 3 %, worst 5 %, over the runs that calibrated nothing: A-3, A-4,
    A-6 and D-2; those of B and E-A calibrate the links since.
    """
    held_out = groups(reproduced("erben"), SPEED)["held out"]
    assert held_out.rows == 8
    assert held_out.mean_error <= 0.03
    assert abs(held_out.worst_error) <= 0.05


def test_calibrating_runs_are_reproduced(reproduced: Reproduced) -> None:
    """T4 runs A-2 and A-8 within 4 %; the eight models on 2 and 8 x A10 within 2 % on average, 6 %
    at worst.
    """
    errors = {
        host: [
            abs(row.error or 0.0)
            for row in reproduced("erben").rows
            if row.calibrates.endswith(f"{host} hosts")
        ]
        for host in ("t4", "a10")
    }
    assert (len(errors["t4"]), len(errors["a10"])) == (4, 16)
    assert max(errors["t4"]) <= 0.04
    assert fmean(errors["a10"]) <= 0.02
    assert max(errors["a10"]) <= 0.06


def test_every_series_is_within_its_tolerance(reproduced: Reproduced) -> None:
    """One zone 2 %, several continents and two clouds 4 %, mixed GPUs 4 % on average."""
    most = {
        "Lambda, one zone": 0.02,
        "A: one zone": 0.02,
        "B: two continents": 0.04,
        "D: two clouds": 0.04,
        "E, F: mixed GPUs": 0.04,
        "C: three or four continents": 0.04,
    }
    series = groups(reproduced("erben"), SPEED)
    assert {*most, "held out", "calibrating"} == set(series)
    assert all(series[name].mean_error <= error for name, error in most.items())


def test_intervals_hold_most_runs(reproduced: Reproduced) -> None:
    """60 of 63 published speeds lie within the interval."""
    inside = [row.inside_interval for row in reproduced("erben").rows if row.quantity == SPEED]
    assert len(inside) == 63
    assert sum(map(bool, inside)) >= 0.9 * 63


def test_bytes_of_the_t4_runs_are_those_of_the_logs(reproduced: Reproduced) -> None:
    """2 (N - 1) / N gradients: 4 % at worst, 2 % on average of each series; Lambda's counters are
    not held to that. The claim names the worst of all.
    """
    worst = []
    for name, group in groups(reproduced("erben"), SENT).items():
        if not name.startswith("Lambda"):
            assert abs(group.worst_error) <= 0.04
            assert group.mean_error <= 0.02
            worst.append(group.worst_error)
    (claim,) = (claim for claim in reproduced("erben").claims if claim.id == "E03")
    assert f"{100 * max(worst, key=abs):+.1f} % at worst" in claim.ours


@pytest.mark.parametrize("paper", PAPERS, scope="module")
def test_every_claim_has_a_verdict_and_a_reason(reproduced: Reproduced, paper: str) -> None:
    """And its own figure, unless nothing can be computed yet."""
    claims = reproduced(paper).claims
    assert claims
    for claim in claims:
        assert claim.verdict in set(Verdict)
        assert len(claim.why) > 10
        assert claim.ours


def test_a_figure_is_judged_by_its_tolerance() -> None:
    """10 % of 3.77 is 0.377: 4.1 is near enough, 4.2 and the 19.6 of internet prices are not."""
    claim = PublishedClaim(
        id="X",
        statement="s",
        value="3.77",
        unit="USD/h",
        condition="c",
        tolerance=0.1,
        passage="",
        source="",
        as_of="2024-02-01",
    )
    assert within(claim, 4.1) == within(claim, 3.4) == Verdict.REPRODUCED
    assert within(claim, 4.2) == within(claim, 19.6) == Verdict.CONTRADICTED
    with pytest.raises(ValueError, match="no tolerance"):
        within(replace(claim, tolerance=None), 3.77)


@pytest.mark.parametrize("paper", PAPERS, scope="module")
def test_the_page_lists_every_claim_with_its_condition(reproduced: Reproduced, paper: str) -> None:
    """`python tests/benchmarks/claims.py --write` writes it; verdicts move with the model, and are
    of its day.
    """
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    rows = {line.split(" | ")[0].lstrip("| "): line for line in page.splitlines()}
    for claim in reproduced(paper).claims:
        condition = str(claim.condition).replace("**", "^")
        assert rows[claim.id].endswith(f" | {condition} |")


def test_the_accounting_of_figure_11_by_hand() -> None:
    """With the 57.2 GB/h that follow from the paper (0.381 USD/h at 2/3 and 0.01 USD/GB) a VM of
    Google Cloud costs 0.180 + 0.191 + 0.381 + 0.083 = 0.835 USD/h.
    """
    bench = Bench(load_catalog("erben-2023"))
    sent, loaded = gib_per_hour(bench, NLP, "D-2")
    hour = multi_cloud(bench, NLP, "D-2", WEST)
    assert hour.inside / sent * 57.2 == pytest.approx(0.191, abs=1e-3)
    assert hour.outside / sent * 57.2 == pytest.approx(0.381, abs=1e-3)
    assert hour.vm == 0.18
    assert hour.loading == pytest.approx(loaded * 0.01)
    azure = multi_cloud(bench, NLP, "D-3", AZURE)
    assert azure.inside == 0
    assert azure.outside > azure.vm
    # 4.329 USD/h at 6/20 x 0.08 + 6/20 x 0.15 = 0.069 USD/GB are 62.7 GB/h
    c8, (sent, _) = four_continents(bench, NLP, "gcp"), gib_per_hour(bench, NLP, "C-8")
    assert c8.outside / sent * 62.74 == pytest.approx(4.329, abs=1e-3)
    assert c8.inside / sent * 62.74 == pytest.approx(0.251, abs=1e-3)
    assert c8.vm == pytest.approx(0.1825)


def test_prices_that_do_not_depend_on_the_model_are_exact(reproduced: Reproduced) -> None:
    """All 27 of table 1, the savings of spot, and nodes that exchange nothing."""
    verdicts = {c.id: c.verdict for c in reproduced("erben").claims}
    exact = ("E04", "E05", "E10", "E11", "E12", "E15")
    assert {verdicts[name] for name in exact} == {Verdict.REPRODUCED}
    assert verdicts["E81"] == Verdict.UNDECIDED


def test_intellect_lies_inside_its_intervals(reproduced: Reproduced) -> None:
    """Table 2 of the report: 95.7 % of the time calculating in the USA, 83.0 % on three continents,
    38 minutes for 100 steps; nothing is fitted to the run. A ring of 14 nodes carries 2 x 13 / 14 x
    10.2 GB over links of 1.41 Gb/s, 1.9 times as long as an ideal one: 204 s in the USA.
    """
    rows = reproduced("intellect-1").rows
    compared = [row for row in rows if row.published is not None]
    assert all(row.inside_interval for row in compared)
    shares = {row.label: row for row in compared if row.quantity == "calculating"}
    assert {label: row.published for label, row in shares.items()} == {
        "USA": pytest.approx(95.7),
        "USA and Europe": pytest.approx(85.6),
        "three continents": pytest.approx(83.0),
    }
    assert all(abs(row.error or 0.0) < 0.08 for row in shares.values())
    mfu = {row.label: row for row in compared if row.quantity == "MFU"}
    for label, row in mfu.items():
        assert row.ours / shares[label].ours == pytest.approx(BASE_MFU, rel=1e-9)
        ring = next(r for r in compared if (r.label, r.quantity) == (label, "all-reduce"))
        assert shares[label].ours == pytest.approx(100 * utilisation(ring.ours), rel=1e-9)
    assert shares["USA"].ours > shares["three continents"].ours
    seconds = next(r for r in compared if (r.label, r.quantity) == ("USA", "all-reduce"))
    assert seconds.ours == pytest.approx(2 * 13 / 14 * 10.211 * 8 / 1.41 * 1.9, rel=1e-3)
    claims = reproduced("intellect-1").claims
    assert [claim.verdict for claim in claims] == [
        *[Verdict.UNDECIDED] * 3,  # the link of no pair is published
        *[Verdict.REPRODUCED] * 2,
    ]
    judged = [float(claim.ours.split()[0]) for claim in claims[:3]]
    assert judged == [round(row.ours, 1) for row in shares.values()]  # each by its own places
    node = next(row for row in compared if row.quantity == "calculation")
    # 43.3 % in 38 minutes: the slowest end has the smallest share.
    mean, low, high = (43.3 * 38 * 60 / certain(s) for s in (node.ours, node.high, node.low))
    assert claims[3].ours.startswith(f"{mean:.1f} % ({low:.1f} to {high:.1f})")


def test_ratios_and_links_are_judged_by_what_is_printed(reproduced: Reproduced) -> None:
    """A ratio is the quotient of the speeds beside it. Links between clouds are near the published
    ones; those of a site, whose line is its own, are not.
    """
    claims = {claim.id: claim for claim in reproduced("erben").claims}
    for name in ("E17", "E19", "E72"):
        ours, speed, base = map(float, re.findall(r"[\d.]+", claims[name].ours.replace(",", "")))
        assert ours == pytest.approx(speed / base, rel=1e-3)
        assert claims[name].verdict == Verdict.REPRODUCED
    links = {name: (claims[name].verdict, claims[name].ours[:7]) for name in ("E45", "E46")}
    assert links == {
        "E45": (Verdict.REPRODUCED, "4 of 4 "),
        "E46": (Verdict.CONTRADICTED, "0 of 3 "),
    }


def numbers(value: Any) -> Iterator[float]:
    """All numbers of a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


@pytest.mark.parametrize("paper", PAPERS, scope="module")
def test_json_follows_its_schema_and_is_finite(
    printed: Callable[..., str], reproduced: Reproduced, paper: str
) -> None:
    """Nothing but the document on stdout; all rows are in it."""
    document = json.loads(printed(paper, "--json"))
    validate(document, "reproduction")
    assert (document["schema"], document["paper"]) == ("placer.reproduction/v1", paper)
    assert all(math.isfinite(number) for number in numbers(document))
    assert len(document["rows"]) == len(reproduced(paper).rows)


def test_elastic_scheduling_never_costs_more_and_saves_where_regions_are_unequal(
    elastic: list[Any],
) -> None:
    """L08 of Cloudless-Training: all 12 cases save more than 0 %, the equal split most; some within
    the published 9.2 to 24.0 %.
    """
    assert len(elastic) == 12
    saved = []
    for _, _, rented, chosen in elastic:
        saved.append(1 - chosen.usd_per_hour.total / rented.usd_per_hour.total)
        assert saved[-1] >= 0
        assert (
            chosen.effective_samples_per_second.value
            >= 0.999 * rented.effective_samples_per_second.value
        )
    assert any(0.092 <= share <= 0.24 for share in saved)


def test_local_strategies_beat_synchronous_ones_over_slow_links() -> None:
    """At equal samples to target both are faster than an all-reduce of the same machines in every
    case.
    """
    assert all(row.ours > 1 for row in speed_rows(load_catalog("erben-2023")))


def test_a_ring_takes_the_order_whose_slowest_link_is_fastest() -> None:
    """Over a square whose diagonals carry 1 byte/s and whose sides 5 and 7: around it, so 5."""
    speeds = {"ab": 5.0, "bc": 7.0, "cd": 5.0, "ad": 7.0}

    def link(a: str, b: str) -> Any:
        return SimpleNamespace(speed=lambda case: speeds.get("".join(sorted(a + b)), 1.0) + case)

    network: Any = SimpleNamespace(link=link)
    assert slowest_hop("acbd", network, 0) == 5.0
    assert slowest_hop("ab", network, 1) == 6.0

"""The default answer: about eighteen lines, in order, that say what is not certain."""

import json
import re
from pathlib import Path

import pytest

from conftest import Run
from placer.cli.report.recommend.default_screen import (
    advice_lines,
    answer_lines,
    baseline_words,
    title,
)
from placer.cli.report.recommend.proof_words import (
    doubt_words,
    proof_words,
    short_confidence_lines,
    short_proof_words,
)
from placer.interface.advisor import Advisor
from placer.records import replace
from placer.solving.answer import Status
from placer.solving.confident_plan import ConfidentPlan, Rank
from placer.solving.result import Result
from placer.units import Interval

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "5/h")


@pytest.fixture(scope="module")
def measured() -> Result:
    """Eight A10, whose speed was measured: alternatives are all measured too."""
    return Advisor(catalog="erben-2023").recommend(
        "roberta-xlm", budget="5/h", gpu="T4,A10,V100", catalog="erben-2023"
    )


def labels(text: str) -> list[str]:
    """Return the labels of printed lines in order."""
    return re.findall(r"^([a-z]+)  ", text, flags=re.MULTILINE)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_about_eighteen_lines_in_order(run: Run, columns: int) -> None:
    """What, where, speed and price first; then one line a fact. `-v` has everything."""
    done = run("recommend", *ERBEN, "--gpu", "T4,A10,V100", columns=columns)
    first, *others = done.stdout.splitlines()
    assert first.startswith("8 x A10 on-demand in lambda/us-west-1 (gpu_1x_a10)")
    figures = " ".join([first, *others][:2])
    assert "$4.80/h   1,060 samples/s (90 %: 961 to 1,141)" in figures
    order = ["steady", "next", "model", "step", "price", "proof", "doubt", "risk", "regions"]
    assert labels(done.stdout) == order
    assert labels(done.stderr) == ["warning", "next"]
    lines = len(done.stdout.splitlines()) + len(done.stderr.splitlines())
    assert lines <= (21 if columns == 80 else 18)
    for line in (done.stdout + done.stderr).splitlines():
        assert len(line) <= columns
        assert line == line.rstrip()
    whole = run("recommend", *ERBEN, "--gpu", "T4,A10,V100", "--all", columns=columns).stdout
    again = run("recommend", *ERBEN, "--gpu", "T4,A10,V100", "-v", columns=columns).stdout
    assert len(whole.splitlines()) == len(again.splitlines())
    assert "Considered" in whole
    assert not any(line != line.rstrip() for line in whole.splitlines())


VARIED = {
    "tokens": ("llama-3.1-8b", "--tokens", "10B", "--budget", "100/h", "--gpu", "H100", "--spot"),
    "own": ("llama-3.2-1b", "--own", "office=2xA100-40@Berlin"),
    "euros": ("roberta-xlm", "--budget", "8EUR/h", "--in", "europe", "--gpu", "H100"),
    "kinds": ("Qwen2.5-7B", "--budget", "50/h", "--in", "gcp"),
}


@pytest.mark.parametrize("kind", VARIED)
def test_eighteen_lines_and_the_next_whatever_is_asked(run: Run, kind: str) -> None:
    """Tokens with their total, own machines, a rate of exchange, machines of several kinds. Own
    machines have a table below, of three lines and what is cheaper.
    """
    done = run("recommend", "--model", *VARIED[kind], columns=100)
    assert done.returncode == 0, done.stderr
    *lines, last = done.stdout.splitlines() + done.stderr.splitlines()
    assert len(lines) <= 18 + 4 * (kind == "own"), "\n".join(lines)
    assert last.startswith("next ")
    assert max(map(len, [*lines, last])) <= 100


def test_a_plan_with_fallbacks_takes_three_lines(measured: Result) -> None:
    """What it reaches, what it costs, and the first fallback; `-v` has the others, the number of
    scenarios and the names of machines. 418 USD over 94 % of runs are 444.68 USD per finished one.
    """
    placement, got = measured.placement, measured.estimate
    assert placement is not None
    assert got is not None
    rank = Rank(placement=placement, estimate=got, alone=0.9, hours=20.0, certain=False)
    last = replace(rank, certain=True)
    plan = ConfidentPlan(
        asked=0.95,
        reached=0.94,
        fresh=0.945,
        scenarios=4096,
        seed=3,
        ranks=(rank, rank, last),
        tried=12,
        deadline_h=72.0,
        hours=54.0,
        usd=418.0,
        tail_usd=483.0,
        least_usd=400.0,
    )
    said = dict(short_confidence_lines(plan))
    reached = "done within 72 h in 94 % of scenarios, 94.5 % of fresh ones (not the 95 % asked for)"
    assert said["confidence"] == reached
    assert said["run"] == (
        "$444.68 per finished run, $483.00 in the most expensive 5 %; 54 h if finished"
    )
    assert said["fallback"].startswith("8 x A10 on-demand in lambda/us-west-1: 1,06")
    assert said["fallback"].endswith("(1 more: -v)")
    assert "scenarios" not in short_proof_words(replace(measured, confidence=plan))


def test_an_estimated_speed_is_an_interval_first(run: Run) -> None:
    """A speed that nobody measured says so where the answer is called optimal, and a price of the
    book that decides it and looks wrong is named.
    """
    asked = ("recommend", "--model", "roberta-xlm", "--budget", "5/h", "--figures", "book")
    done = run(*asked, columns=100)
    assert len(done.stdout.splitlines()) + len(done.stderr.splitlines()) <= 18
    said = " ".join(done.stdout.split())
    assert re.search(r"/h [\d,]+ to [\d,]+ samples/s \(90 %; [\d,]+ expected\)", said)
    assert "doubt open: the speed of L4:4 is assumed; the price is estimated 2025-06" in said
    assert re.search(r"outlier spot L4:4 at \$0.61/h: 89 % below on-demand", said)
    assert "risk spot, quota 32 L4;" in said


def test_a_measured_answer_has_no_doubt(measured: Result) -> None:
    """All intervals are narrow; the verbs of a stopped search do not call it optimal."""
    assert doubt_words(measured) == ""
    assert title(measured)[2] == "1,060 samples/s (90 %: 961 to 1,141)"
    assert proof_words(measured).startswith("optimal within 0.1 % over 17 offers")
    stopped = replace(measured, status=Status.TIME_LIMIT, bound=1200.0)
    assert proof_words(stopped).startswith("not proved: best until the time limit, gap 13 %")
    assert doubt_words(stopped) == ""
    interrupted = replace(stopped, interrupted=True)
    assert "until the interruption" in proof_words(interrupted)


def test_a_wide_interval_leaves_the_ranking_open(measured: Result) -> None:
    """Three-fold, though the devices were measured: it is the links."""
    got = measured.estimate
    assert got is not None
    wide = Interval(value=1060.0, low=500.0, high=1500.0)
    vague = replace(measured, estimate=replace(got, effective_samples_per_second=wide))
    assert doubt_words(vague).startswith("ranking not certain: the speed of its links is not known")
    assert vague.estimate is not None
    rivals = [replace(o, estimate=vague.estimate) for o in measured.options]
    doubtful = replace(measured, options=tuple(rivals))
    assert "which may be faster" in doubt_words(doubtful)


def test_more_samples_leave_an_effective_speed(measured: Result) -> None:
    """At 1.00 there is no line of it."""
    got = measured.estimate
    assert got is not None
    assert "target" not in dict(answer_lines(measured))
    more = replace(got, samples_to_target=replace(got.samples_to_target, value=1.05))
    said = dict(answer_lines(replace(measured, estimate=more)))["target"]
    assert said.startswith("effective speed ")
    assert "needs 5 % more samples" in said


def test_simpler_tools_that_choose_otherwise_are_told_their_true_cost(measured: Result) -> None:
    """The same choice is a word, another one is priced."""
    other = replace(measured.near_misses[0], label="egress-blind", note="", same=False)
    words = baseline_words([measured.baselines[0], other])
    assert words.startswith("Single-region tool: the same; egress-blind tool: 10 x A10")
    assert "at a true cost of $6.00/h" in words


def test_the_long_screen_and_the_document_have_what_the_short_one_leaves_out(
    run: Run, tmp_path: Path
) -> None:
    """The short screen is the same whether local steps and other prices were asked for or not; all
    other outputs have both.
    """
    asked = ("recommend", "--model", "roberta-xlm", "--catalog", "erben-2023", "--budget", "3/h")
    whole = Advisor("erben-2023").recommend("roberta-xlm", budget="3/h")
    short = replace(
        Advisor("erben-2023").recommend("roberta-xlm", budget="3/h", alternatives="short"),
        seconds=whole.seconds,
    )
    assert [*answer_lines(short), *advice_lines(short)] == [
        *answer_lines(whole),
        *advice_lines(whole),
    ]
    printed = " ".join(run(*asked, "-v", columns=200).stdout.split())
    assert "If an exchange only every 16 steps" in printed
    assert "it no longer holds" in printed
    saved = tmp_path / "answer.json"
    written = json.loads(run(*asked, "--json").stdout)
    assert run(*asked, "-o", str(saved)).returncode == 0
    for document in (written, json.loads(saved.read_text(encoding="utf-8"))):
        assert any("only every 16 steps" in text for text in document["verdict"])
        assert document["price_risk"]["cases"]


def test_what_a_short_search_found_over_two_regions_is_a_least_value(measured: Result) -> None:
    """It stops before it proves anything here, so more may exist; a proved one is the value."""
    spread = measured.spread
    assert spread is not None
    assert not spread.proved
    assert "two reach at least " in dict(advice_lines(measured))["regions"]
    proved = replace(measured, spread=replace(spread, proved=True))
    assert "two reach 6" in dict(advice_lines(proved))["regions"]
    cheapest = replace(measured.problem.requirements, objective="cost", min_samples_per_second=100)
    least = replace(measured, problem=replace(measured.problem, requirements=cheapest))
    assert "for at most $" in dict(advice_lines(least))["regions"]

"""The default answer: about eighteen lines, in order, that say what is not certain."""

import json
import re
from pathlib import Path
from typing import Any

from conftest import Run
from placer.cli.report.answer import answer_lines
from placer.cli.report.placements import proof_words
from placer.interface.advisor import Advisor
from placer.records import replace


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
    assert [*answer_lines(short)] == [*answer_lines(whole)]
    printed = " ".join(run(*asked, "-v", columns=200).stdout.split())
    assert "If an exchange only every 16 steps" in printed
    assert "it no longer holds" in printed
    saved = tmp_path / "answer.json"
    written = json.loads(run(*asked, "--json").stdout)
    assert run(*asked, "-o", str(saved)).returncode == 0
    for document in (written, json.loads(saved.read_text(encoding="utf-8"))):
        assert any("only every 16 steps" in text for text in document["verdict"])
        assert document["price_risk"]["cases"]


def test_a_proof_names_the_most_workers_that_nobody_asked_for() -> None:
    """With money for more than the 1,024 workers that are looked at last, what is proved is said of
    so many. With a number of the user's it is not.
    """
    words: dict[str, Any] = {"gpu": "T4", "places": "gcp/*", "figures": "book", "supply": "any"}
    words |= {"budget": "1000000/h", "alternatives": False}
    own: dict[str, Any] = {"workers": "1..50"}
    for given, said in ((words, True), (words | own, False)):
        found = Advisor("default").recommend("roberta-xlm", **given)
        most = found.problem.requirements.max_workers
        assert found.found[0].workers == most
        assert (f"and at most {most:,} workers" in proof_words(found)) is said

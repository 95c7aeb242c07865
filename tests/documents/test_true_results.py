"""What a command writes is valid, whatever was asked: questions whose files were once refused, and
saved results of a what-if, priced again on the book with the same changes, which are named. One
that was doctored is refused.
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from second_opinions import examined, fresh

import placer
from conftest import ROOT, Run
from placer.documents.saved_result import input_digests
from placer.documents.validate import examine_document
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.problem.words.changes import book_changed_again, changed_book, parse_changes

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
        _, checked = examined(document)
        if "range" in name:
            assert "no batch from 16,384 to 32,768 is better" in " ".join(checked.trusted)


def test_a_value_of_another_kind_is_named_with_its_path() -> None:
    """Before anything is priced again."""
    document = placer.recommend("roberta-xlm", gpu="T4", budget="1/h", **ERBEN).to_saved()
    document["placement"]["workers"][0]["count"] = "two"
    with pytest.raises(PlacerError, match=r'workers\[0\]\.count is "two": expected `int`'):
        examine_document(document, "r.json")


def test_an_estimate_is_named_by_its_kind() -> None:
    """Nobody works its figures out again: they are taken on trust."""
    estimated = placer.estimate("roberta-xlm", "gcp/us-central1=4xT4:spot", **ERBEN)
    said, checked = examined(estimated.to_dict())
    assert said == "answer of placer estimate"
    assert checked.trusted[0].endswith("what its figures follow from")


def test_a_link_of_the_users_own_holds_and_a_doctored_one_does_not() -> None:
    """The book says 0.21 Gb/s of it, the user 0.1. One that names the source of the book is held
    against the book.
    """
    words = {"links": "gcp/us-central1:gcp/europe-west1=100Mb/s", "alternatives": False, **ERBEN}
    result = placer.recommend("roberta-xlm", gpu="T4", workers="2", budget="1/h", **words)
    document = json.loads(json.dumps(result.to_saved(whole=True)))
    _, checked = examined(document)
    assert "2 links of the user's own" in " ".join(checked.trusted)
    link = document["problem"]["catalog"]["links"][0]
    link["rtt_ms"] += 1
    with pytest.raises(PlacerError, match=f"the link from {link['src']} to .* is not that of"):
        examined(signed(document))


def test_a_portfolio_holds_and_names_what_nobody_checks(run: Run, tmp_path: Path) -> None:
    """Figures that follow from others are worked out again."""
    path = tmp_path / "jobs.json"
    assert run("portfolio", str(ROOT / "examples" / "jobs.toml"), "-o", str(path)).returncode == 0
    document = json.loads(path.read_text(encoding="utf-8"))
    _, checked = examined(document)
    for words in ("objective.bound", "worth", "that what is shared was asked so"):
        assert words in checked.trusted[0]
    edits: tuple[tuple[Edit, str], ...] = (
        (lambda d: d["objective"].update(value=1.0), "the objective is 1, but"),
        (lambda d: d["objective"].update(gap=0.3), "gap, bound and value do not fit"),
        (lambda d: d["objective"].update(bound=9.0), "do not fit|is beaten by the value"),
        (lambda d: d["one_by_one"].update(saving=0.5), "saved is 0"),
        (lambda d: d["jobs"][0].update(model="niser"), "the model of job"),
        (lambda d: d["jobs"][0].update(slots="one"), r'jobs\[0\].slots is "one"'),
        (lambda d: d["jobs"][0]["result"]["certificate"].update(book="0" * 16), "book|digest"),
    )
    for edit, message in edits:
        forged = fresh(document)
        edit(forged)
        with pytest.raises(PlacerError, match=message):
            examine_document(forged, "jobs.json")


BOOK = "20ed9ce906baa8eb"
"""Digest of erben-2023."""
CHANGES = {
    "price": (["price:lambda/*:A10=x3"], []),
    "egress": (["egress:*:internet=x0.5"], []),
    "bandwidth": (["bandwidth:*:*=x0.5"], []),
    "drop": ([], ["lambda/us-west-1"]),
    "several": (["price:gcp/*:T4=0.1/h", "budget=4/h", "price:gcp/*:T4=+10%"], ["onprem/*"]),
}


@cache
def _saved(name: str, *, whole: bool) -> str:
    given, drop = CHANGES[name]
    words: dict[str, Any] = {"catalog": "erben-2023", "gpu": ["T4", "A10", "V100"], "budget": "5/h"}
    answer = placer.whatif("roberta-xlm", set=given, drop=drop, **words)
    return json.dumps(answer.after.to_saved(whole=whole))


def saved(name: str, *, whole: bool = True) -> dict[str, Any]:
    """The answer in the changed world, as `Result.to_saved` writes it."""
    document: dict[str, Any] = json.loads(_saved(name, whole=whole))
    return document


def signed(document: dict[str, Any]) -> dict[str, Any]:
    """Make the digests of the inputs fit, as a forger would."""
    document["certificate"]["inputs"] = input_digests(document["problem"])
    return document


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_an_honest_one_holds_and_names_its_changes(name: str, whole: bool) -> None:
    """It was refused: its rows differ from the book whose digest it had."""
    document = saved(name, whole=whole)
    _, checked = examined(document)
    words = ", ".join(document["data"]["changes"])
    assert (
        f"the book 'erben-2023' ({BOOK}) are those on this machine, after the what-if {words}"
        in ("\n".join(checked.confirmed))
    )
    assert f"that the market is as the what-if {words} says" in "\n".join(checked.trusted)
    assert document["data"]["digest"] != BOOK
    assert "budget" not in words  # a wish is in the request


def test_a_doctored_one_is_refused() -> None:
    """A price below what the changes make of the book's, and changes that are not said."""
    cheaper = saved("price")
    for offer in cheaper["problem"]["catalog"]["offers"]:
        offer["usd_per_hour"] *= 0.9
    silent = saved("price")
    del silent["problem"]["catalog"]["changes"], silent["data"]["changes"]
    for part in (silent["data"], silent["problem"]["catalog"]):
        part["digest"] = BOOK
    silent["certificate"]["book"] = BOOK
    for document in (cheaper, silent):
        with pytest.raises(PlacerError, match=r"costs .* USD/h in the file|priced|is written as"):
            examine_document(signed(document), "w.json")
    other = saved("price")
    other["data"]["changes"] = ["price:lambda/*:A10=x9"]
    with pytest.raises(PlacerError, match=r"data\.changes is written as"):
        examine_document(other, "w.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["price:lambda/*:A10=x9"], "another price there"),
        (["price:nowhere:A10=x3"], "do not fit"),
        (["rate:T4=x2"], "changes no price book"),
        (["tbs=1024"], "changes no price book"),
        (["price"], "gives no new value"),
        (["price:gcp/*:T4=x2"] * 101, "more than 100 changes"),
        (["x" * 1001, "x"], "very long"),
    ],
)
def test_changes_that_do_not_make_the_digest_are_not_believed(words: list[str], said: str) -> None:
    """Then the market of the file is another book's: not covered, as with any other one."""
    document = saved("price")
    document["problem"]["catalog"]["changes"] = document["data"]["changes"] = words
    _, checked = examined(signed(document))
    assert any("prices, links and dates" in line and said in line for line in checked.trusted)
    assert not any("are those on this machine" in line for line in checked.confirmed)


def test_the_digest_follows_from_the_book_and_the_words_alone() -> None:
    """Not from how the changes are grouped; and one word makes another digest."""
    book = load_catalog("erben-2023")
    changes = parse_changes(["price:gcp/*:T4=x2", "price:gcp/*:T4=x3"], ["onprem/*"])
    once = changed_book(book, changes)
    steps = book
    for change in changes:
        steps = changed_book(steps, [change])
    again = book_changed_again(book, once.changes)
    assert once.changes == ("price:gcp/*:T4=x2", "price:gcp/*:T4=x3", "drop:onprem/*")
    assert once == steps == again
    assert len({book.digest, once.digest, changed_book(book, changes[:2]).digest}) == 3
    assert (book.digest, book.changes) == (BOOK, ())

"""Phrases that readers stumbled over: literal translations, riddles and compressed lines that were
replaced by plain English.
"""

import re

import pytest

from conftest import ROOT

FOLDERS = ("placer", "solvers", "catalogs", "profiles", "docs", "examples", "tests")
ENDINGS = (".py", ".md", ".ipynb", ".csv", ".json")
RECORDS = (
    "CHANGELOG.md",
    "tests/project/test_phrases.py",
    "tests/fixtures/",
    "tests/benchmarks/book/",
)
"""What tells of the past or lists the phrases themselves."""
PHRASES = (
    r"(?<!convex )in the mean(?! that)",
    r"with interruptions while there is\s+capacity",
    r"the others ruled out",
    r"by their bounds alone",
    r"x the samples of synchronous FP32 \(",
    r"nobody waits 1 %",
    r"stragglers 0 x",
    r"for what is really",
    r"the price of those that the point",
    r"a further percent of cost",
    r"keeps the plan for an executor",
    r"these columns are those of no file",
    r"is admitted for \{",
    r"[Nn]ot even for nothing",
    r"tells the truth",
    r"from memory of the list",
    r"is of the wrong kind \(",
    r"} is of the wrong kind",
    r"auto adds local-sgd",
    r"local-sgd and its kin",
    r"without data that may move, or",
    r"are taken to be needed",
    r"Most that may be spent",
    r"Least samples per second, such",
    r"a gap that is said",
    r"[Bb]ooks lie over each other",
    r"stays as (below|in the layer below)",
    r"is no package\.module",
    r"over alone",
    r"are left beside",
    r"to be had",
    r"nothing to be robust",
    r"is no (whole|finite) number",
    r"a machine and hour",
    r"an island stands for so long",
    r"Goes to and from each place but one",
    r"leads on to",
    r"without anything that is to hold",
    r"\b1 to 1 (workers|regions|local steps)",
    r"Where to go on",
    r"[Mm]y data are",
    r"who says so\b",
    r"(in|than) (its|the) dearest",
    r"[Ww]ithout more words",
    r"\bit takes up the",
    r"rather too dark",
    r"become a stranger",
    r"SkyPilot passes over",
    r"For so long a",
    r"what one more is worth, when",
)
"""Regular expressions; a `{` stands where a message has a figure."""
TEXT = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for folder in FOLDERS
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in ENDINGS and path.is_file()
} | {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")}


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_page_message_or_test_has_the_phrase(phrase: str) -> None:
    """In code, documents, data and tests."""
    found = [
        name
        for name, text in TEXT.items()
        if not name.startswith(RECORDS) and re.search(phrase, text)
    ]
    assert found == []

"""What commands print on a terminal, what words are read as and how wrong ones are refused is what
was frozen: `make goldens NAMES='screens mistakes readings refusals answers'`.
"""

import pytest
from goldens.__main__ import FROZEN, difference
from goldens.commands import screen
from goldens.outputs import asked, made

COLUMNS = 80
"""The frozen screens have 100 and 120 columns as well."""
SCREENS = {name: words for name, words in asked("screens") if name != "config"}
"""All but the screen that names its folder, whose length breaks its lines."""


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_is_as_frozen(name: str) -> None:
    """Output, messages and exit code of a command."""
    frozen = (FROZEN / f"screens/{name}.txt").read_text(encoding="utf-8")
    before = frozen.partition("\n$ placer ")[0]
    assert difference(name, before, screen(SCREENS[name], COLUMNS).rstrip("\n")) == []


@pytest.mark.parametrize("name", ["mistakes.txt", "readings.txt", "refusals.txt", "answers.txt"])
def test_words_are_read_and_refused_as_frozen(name: str) -> None:
    """What 150 calls in Python read; the message, the tip and the exit code of 1,000 others and of
    180 commands, each with one mistake, of which none leaves a file; the lines of 50 short answers.
    """
    frozen = (FROZEN / name).read_text(encoding="utf-8")
    assert difference(name, frozen, made(name)) == []

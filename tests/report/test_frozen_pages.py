"""What the page of each kind of document says and draws is what was frozen: `make goldens
NAMES='pages charts'`.
"""

import pytest
from goldens.__main__ import FROZEN, difference
from goldens.outputs import goldens, made

from placer.report.contents import KINDS, contents

PAGES = [name for name in goldens() if name.startswith(("pages/", "charts/", "views"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_and_draws_what_was_frozen(name: str) -> None:
    """Every section and table as Markdown, and every chart as it is told to Vega-Lite."""
    assert callable(contents)
    before = (FROZEN / name).read_text(encoding="utf-8")
    assert difference(name, before, made(name)) == []


def test_nearly_every_kind_has_a_frozen_page() -> None:
    """The others come of runs, sources and files that are watched."""
    assert sum(name.startswith("pages/") for name in PAGES) >= len(KINDS) - 8

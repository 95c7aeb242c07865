"""Papers worked out again from the shipped books, one file each: published figures beside placer's
own.
"""

from __future__ import annotations

import importlib

from placer.errors import unknown
from placer.reproduction.comparison import Reproduction

PAPERS = {
    "erben": "placer.reproduction.erben",
    "phalak": "placer.reproduction.phalak",
    "cloudless": "placer.reproduction.cloudless",
    "intellect-1": "placer.reproduction.intellect",
}
"""Name on the command line and module; a new paper is one file and one line here."""


def reproduce(name: str) -> Reproduction:
    """Work a paper out again from the shipped books. Raises `PlacerError` if there is no such
    paper; the hint names the nearest one.
    """
    module = PAPERS.get(name)
    if module is None:
        raise unknown("paper", name, PAPERS)
    reproduced: Reproduction = importlib.import_module(module).reproduce()
    return reproduced

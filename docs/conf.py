"""Settings of the documentation site: ``make site`` builds it into ``build/site``.

The source folder is the root of the project, since pages of docs/ link to the README, to the
examples and to the price books.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from placer.version import __version__  # noqa: E402

gc.set_threshold(100_000, 50, 1000)  # trees of pages are no garbage: a fifth of the time

project = "placer"
author = "The placer developers"
project_copyright = "2026, the placer developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "sphinx_external_toc",
    "generated_pages",
]
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "examples/README.md"]
# Folders without pages: Sphinx does not walk into what is excluded.
exclude_patterns = [".*", "build", "placer", "solvers", "tests", "catalogs", "profiles"]

myst_heading_anchors = 4
smartquotes = False  # they would join the two dashes of an option

autodoc_typehints = "signature"
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "placer"
html_show_sourcelink = False
html_additional_pages = {"index": "to_docs.html"}
templates_path = ["templates"]
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

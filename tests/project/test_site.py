"""The documentation site: built with warnings as errors, complete, and readable without a network.

A page that no table of contents leads to, a link to a page or heading that does not exist, and
markup that cannot be read are warnings of Sphinx. The whole site is built once a day; each run
builds two pages, below, and follows the links of all pages in test_documents.py.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import placer
from conftest import ROOT, completed, made_once
from placer.cli import COMMANDS
from placer.documents.schemas import SCHEMA_NAMES

pytest.importorskip("sphinx")
SOURCES = ("docs", "examples", "catalogs", "profiles")
"""Folders that pages lie in or link to."""
LONGEST_S = 400.0
"""Longest wait for the whole site, half a minute of CPU, on a machine that does much else; a worker
that waits for the site of another needs as long."""


def build(root: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """Build the site from a folder as ``make site`` does."""
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    return completed(
        [*words, "-d", str(into / "doctrees"), ".", str(into / "site")],
        cwd=root,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "NO_COLOR": "1"},
        timeout=LONGEST_S,
    )


def build_whole(copy: Path) -> None:
    """Build the site in a copy of what it is made from, with links to the folders of code."""
    copy.mkdir()
    for page in ROOT.glob("*.md"):
        shutil.copy(page, copy)
    for folder in SOURCES:
        shutil.copytree(
            ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("generated", "__pycache__")
        )
    for name in ("placer", "solvers", "tests", "LICENSE", "Makefile", "pyproject.toml"):
        (copy / name).symlink_to(ROOT / name)
    done = build(copy, copy / "build")
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built once for all workers."""
    return made_once(tmp_path_factory, "whole-site", build_whole) / "build" / "site"


pytestmark = pytest.mark.timeout(2 * LONGEST_S)


@pytest.mark.nightly
def test_commands_names_and_schemas_have_pages(site: Path) -> None:
    """Made from the code, so that none can be forgotten."""
    reference = site / "docs" / "reference" / "generated"
    pages = {path.relative_to(reference).as_posix() for path in reference.rglob("*.html")}
    assert {f"commands/{name}.html" for name in COMMANDS} <= pages
    assert {f"python/{name}.html" for name in placer.__all__ if name[0] != "_"} <= pages
    assert {"schemas/result-v1.html", "schemas/manifest-v2.html"} <= pages
    assert len([page for page in pages if page.startswith("schemas/")]) == len(SCHEMA_NAMES) + 1
    assert "gallery/index.html" in pages
    recommend = (reference / "commands" / "recommend.html").read_text(encoding="utf-8")
    assert "--budget" in recommend
    assert "--catalog" in recommend


@pytest.mark.nightly
def test_search_finds_an_option_without_a_network(site: Path) -> None:
    """The index of words is a file of the site; no page loads anything from elsewhere."""
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    pages = found["docnames"]
    hits = found["terms"]["granular"]
    names = {pages[number] for number in ([hits] if isinstance(hits, int) else hits)}
    assert "docs/glossary" in names
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preload)"[^>]*href="([^"]+)"', text)
        assert [url for url in loaded if re.match(r"(?:https?:)?//", url)] == [], page


@pytest.mark.nightly
def test_the_first_page_leads_to_the_documentation(site: Path) -> None:
    """A browser that opens index.html is sent on; all links of the first pages lead to files."""
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'content="0; url=docs/README.html"' in first
    seen = 0
    for name in ("README", "tutorials/README", "how-to/README", "reference/README"):
        page = site / "docs" / f"{name}.html"
        targets = re.findall(r'href="([^"#]+)', page.read_text(encoding="utf-8"))
        local = [target for target in targets if not urlsplit(target).scheme]
        assert [t for t in local if not (page.parent / unquote(urlsplit(t).path)).exists()] == []
        seen += len(local)
    assert seen >= 100


def test_a_page_with_a_broken_link_is_refused(tmp_path: Path) -> None:
    """And one that nothing leads to; each is named with its file."""
    (tmp_path / "docs").mkdir()
    settings = (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")
    for extension in ('    "generated_pages",\n', '    "numpydoc",\n'):
        assert extension in settings
        settings = settings.replace(extension, "")
    (tmp_path / "docs" / "conf.py").write_text(settings, encoding="utf-8")
    (tmp_path / "docs" / "templates").mkdir()
    shutil.copy(ROOT / "docs" / "templates" / "to_docs.html", tmp_path / "docs" / "templates")
    (tmp_path / "docs" / "_toc.yml").write_text("root: docs/README\n", encoding="utf-8")
    (tmp_path / "docs" / "README.md").write_text("# First\n\n[x](no.md)\n", encoding="utf-8")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "build")
    assert done.returncode != 0
    assert "README.md:3: WARNING: 'myst' cross-reference target not found: 'no.md'" in done.stderr
    assert "lost.md: WARNING: document isn't included in any toctree" in done.stderr

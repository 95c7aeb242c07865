"""Pages in a real browser: nothing is loaded, nothing fails, everybody can read them."""

import json
import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from browsing import Seen

from conftest import completed
from placer.report.page import page
from report_documents import FOUR, saved

MOST_STATIC, MOST_INTERACTIVE = 300_000, 1_200_000
"""Bytes of a page."""
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\"'`${window.hit=1}"
"""A name that would run if it were put into a page, an attribute or an expression as it is."""
LINK = "javascript:window.hit=1//https://example.invalid/x.png"


def opened(browser: Any, folder: Path, html: str, **context: Any) -> Seen:
    """Write a page and open it."""
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    seen = Seen(browser, path.as_uri(), **context)
    seen.page.goto(path.as_uri())
    return seen


KINDS = [
    pytest.param(kind, marks=() if kind == "several" else pytest.mark.nightly) for kind in FOUR
]
"""A page with a map, tables and charts is opened in each run, the others once a day."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_loads_nothing_complains_of_nothing_and_is_accessible(
    browser: Any, tmp_path: Path, kind: str
) -> None:
    """In light and dark, with every table unfolded; under 300 kB."""
    html = page({"result.json": saved(kind)})
    assert len(html.encode()) < MOST_STATIC
    seen = opened(browser, tmp_path, html)
    seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert seen.violations() == []
    seen.page.emulate_media(color_scheme="dark")
    assert seen.violations("color-contrast") == []
    assert (seen.requests, seen.complaints) == ([(tmp_path / "report.html").as_uri()], [])
    seen.context.close()


def test_tables_sort_by_the_figure_and_not_by_its_text(browser: Any, tmp_path: Path) -> None:
    """$16.52 is above $4.80 though its text is not; pressed twice, the other way round."""
    seen = opened(browser, tmp_path, page({"result.json": saved("one")}))
    column = "th:has-text('USD/h') button >> visible=true"
    table = "document.querySelector('table.sortable th button')"
    assert seen.page.evaluate(f"{table} !== null")
    for order in ("ascending", "descending"):
        seen.page.click(f"section:has(h2:text-is('Considered')) {column}")
        keys = seen.page.evaluate(
            '[...document.querySelectorAll("th[aria-sort]")].map(th => '
            "[...th.closest('table').tBodies[0].rows].map(r => "
            "Number(r.cells[th.cellIndex].dataset.key)))[0]"
        )
        assert keys == sorted(keys, reverse=order == "descending")
        assert len(keys) > 1
    seen.context.close()


@pytest.mark.parametrize("interactive", [False, True])
def test_hostile_words_of_a_book_are_shown_and_do_nothing(
    browser: Any, tmp_path: Path, *, interactive: bool
) -> None:
    """Names, sources and notes with markup, quotes, expressions and addresses stay text."""
    document = poisoned(saved("several"))
    seen = opened(browser, tmp_path, page({HOSTILE: document}, interactive=interactive))
    if interactive:
        seen.page.wait_for_selector(".vega-embed svg", timeout=20_000)
    seen.page.wait_for_timeout(200)
    assert seen.page.evaluate("window.hit") is None
    assert (len(seen.requests), seen.complaints) == (1, [])
    assert "<script>window.hit=1</script>" in seen.page.inner_text("main")
    assert seen.page.evaluate("[...document.links].every(a => a.hash.startsWith('#part-'))")
    seen.context.close()


def poisoned(document: Any) -> Any:
    """Put hostile words wherever a document has words of a book or of a user."""
    copy = deepcopy(document)
    copy["request"]["model"] = HOSTILE
    copy["data"]["catalog"] = HOSTILE
    copy["verdict"] = [HOSTILE, LINK]
    copy["warnings"] = [{"code": "x", "message": HOSTILE}]
    copy["notes"] = [{"code": "x", "message": LINK}]
    copy["estimate"]["provenance"] = [f"{HOSTILE}: measured: {HOSTILE}", LINK]
    for row in copy["problem"]["catalog"]["offers"]:
        row["source"] = HOSTILE + LINK
    text = json.dumps(copy)
    hostile = json.dumps(HOSTILE)[1:-1]
    return json.loads(text.replace("T4", hostile).replace("us-central1", f"us-{hostile}"))


CUT = """() => [...document.querySelectorAll("figure svg")].flatMap(svg => {
    const all = svg.getBoundingClientRect(), room = svg.closest('.scroll').getBoundingClientRect();
    const cut = [...svg.querySelectorAll("text")].filter(text => {
        const one = text.getBoundingClientRect();
        return one.left < all.left - 0.5 || one.right > all.right + 0.5
            || one.top < all.top - 0.5 || one.bottom > all.bottom + 0.5;
    }).map(text => text.textContent);
    const scrolls = getComputedStyle(svg.closest('.scroll')).overflowX === "auto";
    return all.right > room.right + 0.5 && !scrolls ? [...cut, "a chart"] : cut;
})"""
"""Labels that a chart cuts off, and charts that the page cuts off: not those that scroll."""
COMMAND_LINE = re.compile(r"=\d+x\w|[A-Z]\w*\d:\d")
"""A group or a device as on a command line."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_label_is_clipped_and_no_chart_cut(browser: Any, tmp_path: Path, kind: str) -> None:
    """At the widths of a phone, a window and a screen, and on the 182 mm of a printed page (688
    pixels), where nothing scrolls. Only charts and tables scroll on a phone, each by itself.
    Sentences name no machines as on a command line.
    """
    seen = opened(browser, tmp_path, page({"result.json": saved(kind)}))
    seen.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    for pixels, media in ((400, "screen"), (800, "screen"), (1280, "screen"), (688, "print")):
        seen.page.set_viewport_size({"width": pixels, "height": 900})
        seen.page.emulate_media(media=media)
        assert seen.page.evaluate("document.documentElement.scrollWidth") == pixels
        assert seen.page.evaluate(CUT) == [], pixels
        prose = "[...document.querySelectorAll('main p, main li')].map(one => one.innerText)"
        assert [words for words in seen.page.evaluate(prose) if COMMAND_LINE.search(words)] == []
    seen.context.close()


@pytest.mark.nightly
def test_headings_repeat_on_the_next_printed_page(browser: Any, tmp_path: Path) -> None:
    """Each printed page on which the age of a figure stands has the heading of its column. Each run
    lays the same pages out for print, above.
    """
    if shutil.which("pdftotext") is None:
        pytest.skip("no pdftotext (apt-get install poppler-utils)")
    document = deepcopy(saved("several"))
    document["problem"]["catalog"]["offers"] *= 12
    seen = opened(browser, tmp_path, page({"result.json": document}))
    seen.page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
    words = ("pdftotext", "-layout", str(tmp_path / "page.pdf"), "-")
    text = completed(words, check=True).stdout
    pages = [one for one in text.split("\f") if " years\n" in one]
    assert len(pages) >= 2
    assert all("age" in one.split() for one in pages)
    seen.close()

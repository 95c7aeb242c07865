"""The page in a real browser, from a question to the manifest; and what it answers without one."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from served import LONG, Served, serving

from placer.report.pdf import BROWSERS

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium (apt-get install chromium)")
HOSTILE = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>"
TYPED = {"model": "roberta-xlm", "budget": "5/h", "catalog": "erben-2023"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for all tests of this file."""
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


class Seen:
    """A window, with what it asked for and what it complained of."""

    def __init__(self, browser: Any, service: Served, **context: Any) -> None:
        self.address = service.address
        self.context = browser.new_context(base_url=service.address, **context)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def type_in(self, **words: str) -> None:
        """Fill in fields."""
        for name, value in words.items():
            self.page.fill(f"#{name}", value)

    def close(self) -> None:
        """Close the window; nothing was loaded from elsewhere, nothing was complained of."""
        foreign = [url for url in self.requests if not url.startswith((self.address, "data:"))]
        assert foreign == []
        assert self.complaints == []
        self.context.close()


@needs_browser
def test_from_a_question_to_the_manifest(browser: Any, service: Served, tmp_path: Path) -> None:
    """Ask, see the verdict and the tables, change a wish, compare, share, download."""
    seen = Seen(browser, service, accept_downloads=True)
    page = seen.page
    page.goto("/")
    assert axe.Axe().run(page).violations_count == 0
    seen.type_in(**TYPED)
    page.click("text=Ask")
    page.wait_for_selector("#verdict", timeout=60_000)
    first = page.url
    assert "8 x A10" in page.text_content("main")
    assert page.locator("table").count() >= 3
    violations = axe.Axe().run(page)
    assert violations.violations_count == 0, violations.generate_report()
    page.click("summary")
    page.fill("#budget", "2/h")
    page.click("text=Ask again")
    page.wait_for_url("**/answers/*before=*")
    page.wait_for_selector("text=Before the change", timeout=60_000)
    page.click("text=Compare both answers")
    assert page.locator(".pair section").count() == 2
    page.goto(first)
    with page.expect_download() as download:
        page.click("text=Download the launch manifest")
    download.value.save_as(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["world_size"] == 8
    page.click("text=Link to this question")
    assert page.input_value("#budget") == "5/h"
    seen.close()


@needs_browser
def test_the_gap_closes_while_one_watches(browser: Any, service: Served) -> None:
    """Rows come without a reload; the search is stopped with the best so far."""
    seen = Seen(browser, service)
    page = seen.page
    page.goto("/")
    seen.type_in(model=LONG["model"], budget=LONG["budget"], regions="2..", time_limit="60s")
    page.fill("#more", "gap=0.01%\nalternatives=no")
    page.click("text=Ask")
    page.wait_for_selector("#found tbody tr", timeout=60_000)
    assert "samples/s, gap" in page.text_content("#progress")
    page.click("text=Stop with the best so far")
    page.wait_for_selector("#verdict", timeout=60_000)
    assert "the best until then" in page.text_content("#error")
    seen.close()


@needs_browser
def test_it_works_without_scripts(browser: Any, service: Served) -> None:
    """The plain question: the page asks again by itself until there is an answer."""
    seen = Seen(browser, service, java_script_enabled=False)
    seen.page.goto("/")
    seen.type_in(**TYPED)
    seen.page.click("text=Ask")
    seen.page.wait_for_selector("#verdict", timeout=60_000)
    assert "A10" in seen.page.text_content("#verdict")
    seen.close()


@needs_browser
def test_a_token_is_asked_for_once(browser: Any, tmp_path: Path) -> None:
    """The page leads to the form for it, and a cookie that scripts cannot read keeps it."""
    (tmp_path / "token").write_text("0123456789abcdef")
    options = ("--token-file", str(tmp_path / "token"), "--workers", "1")
    with serving(tmp_path, *options) as served:
        seen = Seen(browser, served)
        seen.page.goto("/")
        seen.page.fill("#token", "0123456789abcdef")
        seen.page.click("text=Go on")
        seen.page.wait_for_selector("#model")
        (cookie,) = seen.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert "0123456789abcdef" not in cookie["value"]
        seen.close()


@needs_browser
def test_the_report_is_framed(browser: Any, service: Served, client: httpx2.Client) -> None:
    """With its map, under a policy that lets its one script run and nothing else."""
    pytest.importorskip("vl_convert")
    answer = client.post("/ask", data=TYPED)
    seen = Seen(browser, service)
    seen.page.goto(answer.headers["location"])
    seen.page.wait_for_selector("iframe", timeout=60_000)
    seen.page.locator("iframe").scroll_into_view_if_needed()
    frame = seen.page.frame_locator("iframe")
    frame.locator("svg").first.wait_for(timeout=60_000)
    seen.close()


def test_a_wrong_word_comes_back_with_the_form(client: httpx2.Client) -> None:
    """What was typed stays, the word is marked, and nothing typed becomes markup."""
    answer = client.post("/ask", data={**TYPED, "more": f"x{HOSTILE}=1"})
    assert answer.status_code == 422
    assert 'value="5/h"' in answer.text
    assert "unknown word" in answer.text
    assert "<script>window" not in answer.text
    assert "<img" not in answer.text
    answer = client.post("/ask", data={"model": "/etc/passwd"})
    assert 'aria-invalid="true"' in answer.text


def test_no_inline_script_may_run(client: httpx2.Client) -> None:
    """Each page has a policy without 'unsafe-inline' for scripts, and no script of its own."""
    for path in ("/", "/answers/nope", "/compare?a=x&b=y", "/login"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "<script>" not in answer.text
        assert "onclick" not in answer.text


def test_a_refused_answer_offers_the_words_again(client: httpx2.Client) -> None:
    """What the worker refuses is said on the page, with the question to mend."""
    from test_service_jobs import finished

    answer = client.post("/ask", data={**TYPED, "gpu": "T44"})
    assert answer.status_code == 303
    finished(client, answer.headers["location"].rpartition("/")[2])
    page = client.get(answer.headers["location"])
    assert "T44" in page.text
    assert "No answer" in page.text

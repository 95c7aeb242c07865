"""The page in a real browser, from a question to the manifest; and what it answers without one."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from browsing import Seen
from served import LONG, Served, serving

from placer.service import openapi
from placer.service.pages import routes

HOSTILE = "<script>window.hit=1</script>\"'><img src=x onerror=window.hit=1>"
TYPED = {"model": "roberta-xlm", "budget": "5/h", "catalog": "erben-2023"}


def test_from_a_question_to_the_manifest(browser: Any, service: Served, tmp_path: Path) -> None:
    """Ask, see the verdict and the tables, change a wish, compare, share, download."""
    seen = Seen(browser, service.address, accept_downloads=True)
    page = seen.page
    page.goto("/")
    assert seen.violations() == []
    seen.type_in(**TYPED)
    page.click("text=Ask")
    page.wait_for_selector("#verdict", timeout=60_000)
    first = page.url
    assert "8 x A10" in page.text_content("main")
    assert page.locator("table").count() >= 3
    assert seen.violations() == []
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


@pytest.mark.nightly
def test_the_gap_closes_while_one_watches(browser: Any, service: Served) -> None:
    """Rows come without a reload; the search is stopped with the best so far. Each run reads the
    same events, and stops a search, in test_service_jobs.py.
    """
    seen = Seen(browser, service.address)
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


@pytest.mark.nightly
def test_a_token_is_asked_for_once(browser: Any, tmp_path: Path) -> None:
    """The page leads to the form for it, and a cookie that scripts cannot read keeps it. Each run
    asks with and without a token in test_service_limits.py.
    """
    (tmp_path / "token").write_text("0123456789abcdef")
    options = ("--token-file", str(tmp_path / "token"), "--workers", "1")
    with serving(tmp_path, *options) as served:
        seen = Seen(browser, served.address)
        seen.page.goto("/")
        seen.page.fill("#token", "0123456789abcdef")
        seen.page.click("text=Go on")
        seen.page.wait_for_selector("#model")
        (cookie,) = seen.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        assert "0123456789abcdef" not in cookie["value"]
        seen.close()


@pytest.mark.nightly
def test_the_report_is_framed(browser: Any, service: Served, client: httpx2.Client) -> None:
    """With its map, under a policy that lets its one script run and nothing else. Each run reads
    the policies of pages, below, and opens such a report in test_in_browser.py.
    """
    pytest.importorskip("vl_convert")
    answer = client.post("/ask", data=TYPED)
    seen = Seen(browser, service.address)
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


@pytest.mark.parametrize(
    "width", [400, *(pytest.param(wider, marks=pytest.mark.nightly) for wider in (800, 1280))]
)
def test_pages_fit_a_phone_a_window_and_a_screen(browser: Any, service: Served, width: int) -> None:
    """The form and an answer do not scroll sideways; tables do, each by itself. Each run looks at
    the narrowest.
    """
    seen = Seen(browser, service.address, viewport={"width": width, "height": 900})
    page = seen.page
    page.goto("/")
    across = "document.documentElement.scrollWidth"
    assert page.evaluate(across) == width
    seen.type_in(**TYPED)
    page.click("text=Ask")
    page.wait_for_selector("#verdict", timeout=60_000)
    page.wait_for_load_state()  # the verdict may be there before the style of what follows it
    assert page.evaluate(across) == width
    page.emulate_media(media="print")
    assert page.evaluate(across) == width
    seen.close()


@pytest.mark.nightly
def test_the_api_is_tried_on_a_page(browser: Any, service: Served) -> None:
    """Every operation is listed, offline and under the policy of all pages; one tried answers. Each
    run compares the document that the page reads with the routes in test_service_openapi.py.
    """
    pytest.importorskip("mkdocs_swagger_ui_tag")
    seen = Seen(browser, service.address)
    page = seen.page
    page.goto("/api")
    page.wait_for_selector(".opblock", timeout=60_000)
    paths = json.loads(openapi.text())["paths"]
    listed = page.locator(".opblock").count()
    assert listed == sum(len(operations) for operations in paths.values())
    asked = page.locator(".opblock", has_text="/v1/estimate")
    asked.locator(".opblock-summary-control").click()
    asked.get_by_role("button", name="Try it out").click()
    workers = {"model": "roberta-xlm", "workers": "gcp/us-central1=4xT4:spot"}
    asked.locator("textarea").fill(json.dumps(workers))
    asked.get_by_role("button", name="Execute").click()
    answer = asked.locator(".live-responses-table .response")
    assert '"schema": "placer.' in answer.text_content(timeout=60_000)
    seen.close()


def test_the_page_of_the_api_names_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Swagger UI the page is one line that says how it is installed."""
    monkeypatch.setattr(routes, "SWAGGER", "not_here")
    answer: Any = routes.api.fn()
    assert answer.status_code == 404
    assert "pip install &#39;placer-advisor[openapi]&#39;" in answer.content.decode()

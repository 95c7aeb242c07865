"""``placer catalog refresh azure`` by the Retail Prices API, and what every refresh keeps."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from price_servers import (
    Answer,
    Call,
    Request,
    Server,
    as_json,
    azure_item,
    azure_page,
    rows_of,
    said,
    serving,
)

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, home_with_book
from placer.market.sources.prices import pages

T4, A100 = "Standard_NC4as_T4_v3", "Standard_NC24ads_A100_v4"
ODD: list[Any] = [None, 7, "", "x\ny", [], {}, ["a"], True, 1e300]
"""What no field of the format should hold."""
ITEMS = [
    azure_item(T4, "eastus", 0.526),
    azure_item(T4, "eastus", 0.1578, "Spot"),
    azure_item(T4, "eastus", 0.7, "Windows"),
    azure_item(T4, "eastus", 0.1052, "Low Priority"),
    azure_item(A100, "westeurope", 4.775),
    azure_item(T4, "usgovvirginia", 0.7),
]
"""Four prices of Linux machines in known regions would be five with the government's region;
Windows and low priority are none.
"""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Run) -> Call:
    """Run a refresh in this process against one server; exit code, stdout and stderr."""
    monkeypatch.setenv("PLACER_HOME", str(home_with_book(tmp_path)))

    def refresh(server: Server | str, *options: str) -> tuple[int, str, str]:
        url = server if isinstance(server, str) else f"{server.url}/api/retail/prices"
        words = ("catalog", "refresh", "azure", *options)
        return said(command(*words, PLACER_AZURE_PRICES_URL=url))

    return refresh


def one_page(items: list[dict[str, Any]]) -> Callable[[Request], Answer]:
    """Answer every question with those of some items whose size it names, as the interface does."""
    return lambda request: as_json(
        azure_page([item for item in items if str(item["armSkuName"]) in request.query["$filter"]])
    )


def test_prices_become_a_book(call: Call, tmp_path: Path) -> None:
    """Linux prices of known regions, with the shape of the shipped book; the rest is counted."""
    with serving(one_page(ITEMS)) as server:
        code, out, err = call(server)
    assert (code, err) == (0, "")
    found = {
        (row["region"], row["instance_type"], row["market"]): row
        for row in rows_of(tmp_path, "azure")
    }
    assert sorted(found) == [
        ("eastus", T4, "on_demand"),
        ("eastus", T4, "spot"),
        ("westeurope", A100, "on_demand"),
    ]
    assert found["eastus", T4, "spot"]["usd_per_hour"] == "0.1578"
    a100 = found["westeurope", A100, "on_demand"]
    assert (a100["gpu"], a100["memory_gib"]) == ("A100-80", "220.0")
    assert "left out: 1 x Windows" in out
    assert "region that no book knows: azure/usgovvirginia" in out
    assert "no book 'azure' to compare with" in out
    assert (
        "next: placer recommend --model roberta-xlm --budget 5/h --catalog default --catalog azure"
        in out
    )
    origin = json.loads((tmp_path / "catalogs" / "azure" / "origin.json").read_text())
    assert len(origin["documents"][0]["sha256"]) == 64


def test_the_question_names_sizes_regions_and_market(call: Call) -> None:
    """The filter asks for machines as one goes, sizes with a T4, regions named."""
    with serving(one_page(ITEMS)) as server:
        assert call(server, "--in", "eastus", "--gpu", "T4", "--dry-run")[0] == 0
    question = server.requests[0].query["$filter"]
    assert question.startswith(
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and (armSkuName eq '"
    )
    assert question.endswith(" and (armRegionName eq 'eastus')")
    assert "T4_v3" in question
    assert "A100" not in question
    assert server.requests[0].query["api-version"] == "2023-01-01-preview"


def test_pages_are_followed_to_the_end(call: Call, tmp_path: Path) -> None:
    """The link to the next page leads on, with the port that the real interface writes out."""

    def answer(request: Request) -> Answer:
        if "$skip" in request.query:
            return as_json(azure_page(ITEMS[4:5]))
        return as_json(azure_page(ITEMS[:2], f"{server.url}/api/retail/prices?$skip=2"))

    with serving(answer) as server:
        assert call(server)[0] == 0
    assert len(rows_of(tmp_path, "azure")) == 3


def test_a_full_page_without_a_link_is_followed_by_number(call: Call, tmp_path: Path) -> None:
    """The interface forgot its links in March 2023: after 100 items the 101st is asked for."""
    full = [ITEMS[0]] * 100

    def answer(request: Request) -> Answer:
        return as_json(azure_page(ITEMS[4:5] if request.query.get("$skip") == "100" else full))

    with serving(answer) as server:
        assert call(server)[0] == 0
    assert {row["instance_type"] for row in rows_of(tmp_path, "azure")} == {T4, A100}


def test_changes_against_the_book_before_are_said(call: Call, command: Run) -> None:
    """0.526 -> 0.5786 is 10 % dearer; one is cheaper, one gone; what was not asked for is apart. A
    pin of the book is of the one before, and a pin of another book is not.
    """
    with serving(one_page(ITEMS)) as server:
        call(server)
        assert command("catalog", "pin", "default", "azure").returncode == 0
        warned = [call(server, *options)[1] for options in ([], ["--dry-run"], ["--as", "mine"])]
    assert ["'azure' is pinned as it was before" in out for out in warned] == [True, False, False]
    with serving(
        one_page([azure_item(T4, "eastus", 0.5786), azure_item(T4, "eastus", 0.15, "Spot")])
    ) as server:
        _, out, _ = call(server, "--dry-run")
        _, narrow, _ = call(server, "--gpu", "T4", "--in", "eastus", "--json")
    assert "would have 2 offers in 1 region: 1 on-demand, 1 spot" in out
    assert "1 dearer, 1 cheaper, 0 as before, 0 new, 1 gone" in out
    assert f"largest change +10.0%: azure/eastus {T4} on-demand 0.526 -> 0.5786 USD/h" in out
    assert "nothing was written (--dry-run)" in out
    changes = json.loads(narrow)["changes"]
    assert (changes["gone"], changes["not_asked"], changes["up"], changes["down"]) == (0, 1, 1, 1)


THEIRS = "their 'per_hour(retailPrice, currencyCode, unitOfMeasure)'"


@pytest.mark.parametrize(
    ("price", "changed", "reason"),
    [
        (-1.0, {}, f"usd_per_hour ({THEIRS}) '-1' is not from 0"),
        (0.0, {}, "on-demand price is zero or less"),
        (0.0, {"retailPrice": "free"}, f"usd_per_hour ({THEIRS}) 'free' is not a number"),
        (0.00001, {}, "on-demand price is 1,000 times below the median of its device"),
        (5260.0, {}, "on-demand price is 1,000 times above the median of its device"),
        (
            0.526,
            {"effectiveStartDate": "2006-01-02T15:04:05Z"},
            "on-demand price is dated before 2015",
        ),
        (
            0.526,
            {"effectiveStartDate": "2099-01-01T00:00:00Z"},
            "on-demand price takes effect only in the future",
        ),
        (0.526, {"unitOfMeasure": "1/Month"}, "price of another unit: 1/Month"),
        (0.526, {"currencyCode": "KRW"}, "no exchange rate is known of currencyCode KRW"),
        (0.526, {"type": "Reservation"}, "no price of a machine as one goes"),
        (0.526, {"isPrimaryMeterRegion": False}, "second meter of the same price"),
    ],
)
def test_a_price_that_cannot_be_is_left_out(
    call: Call, tmp_path: Path, price: float, changed: dict[str, Any], reason: str
) -> None:
    """Each wrong price is counted by its reason; the others are written."""
    items = [azure_item(T4, "westus2", price, **changed), ITEMS[0]]
    with serving(one_page(items)) as server:
        code, out, _ = call(server, "--json")
    assert code == 0
    assert json.loads(out)["left_out"] == {reason: 1}
    assert [row["region"] for row in rows_of(tmp_path, "azure")] == ["eastus"]


@pytest.mark.parametrize("field", sorted(ITEMS[0]))
def test_no_field_of_an_item_can_break_a_refresh(call: Call, field: str) -> None:
    """Whatever one field of the format holds, the other price is read."""
    odd = [{**ITEMS[0], "armRegionName": "westus2", field: value} for value in ODD]
    with serving(one_page([ITEMS[0], *odd])) as server:
        code, _, err = call(server, "--dry-run")
    assert (code, err) == (0, "")


def test_of_two_prices_the_newer_counts(call: Call, tmp_path: Path) -> None:
    """Prices that were replaced stay in the list for a while; of one day the dearer counts."""
    old = azure_item(T4, "eastus", 0.9, effectiveStartDate="2020-01-01T00:00:00Z")
    twin = azure_item(T4, "eastus", 0.52)
    with serving(one_page([old, ITEMS[0], twin])) as server:
        call(server)
    assert [row["usd_per_hour"] for row in rows_of(tmp_path, "azure")] == ["0.526"]


PAGE = json.dumps(azure_page(ITEMS)).encode()
BROKEN = {
    "404": (Answer(b"{}", 404), "answered 404"),
    "500": (Answer(b"", 500, {"Retry-After": "0"}), "answered 500"),
    "429": (Answer(b"", 429, {"Retry-After": "0"}), "answered 429: it asks to wait for 0 s"),
    "429 for an hour": (
        Answer(b"", 429, {"Retry-After": "3600"}),
        "answered 429: it asks to wait for 3600 s",
    ),
    "redirection": (
        Answer(b"", 302, {"Location": "http://192.0.2.1/"}),
        "answered 302, which leads elsewhere",
    ),
    "cut off": (Answer(PAGE[:300]), "is not valid JSON"),
    "cut connection": (Answer(PAGE[:300], length=len(PAGE)), "RemoteProtocolError"),
    "web page": (
        Answer(b"<!DOCTYPE html><title>Login</title>"),
        "answered a web page instead of JSON",
    ),
    "list": (as_json([]), "is not a JSON object"),
    "no items": (as_json({"Count": 0}), "has no list of Items"),
    "half a page": (as_json(azure_page(ITEMS[:2], count=6)), "has 2 items and says 6"),
    "nested": (Answer(b"[" * 100_000), "is not valid JSON"),
    "other host": (
        as_json(azure_page(ITEMS, "https://prices.example.com/?$skip=2")),
        "leads to another host",
    ),
    "other port": (as_json(azure_page(ITEMS, "http://127.0.0.1:1/")), "leads to another host"),
    "a file": (as_json(azure_page(ITEMS, "file:///etc/passwd")), "leads to another host"),
    "empty": (as_json(azure_page([])), "azure gave no price that can be used"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_fails_keeps_the_old_book(call: Call, tmp_path: Path, name: str) -> None:
    """Exit code 7, one line, and every byte of the old book in place."""
    with serving(one_page(ITEMS)) as server:
        call(server)
    book = tmp_path / "catalogs" / "azure"
    before = book.resolve(), (book / "offers.csv").read_bytes()
    answer, words = BROKEN[name]
    with serving(lambda request: answer) as server:
        code, out, err = call(server)
    assert (code, out) == (7, "")
    assert words in err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 2
    assert (book.resolve(), (book / "offers.csv").read_bytes()) == before


def test_a_page_that_leads_back_to_itself_ends(call: Call) -> None:
    """The second page names itself as the next: no endless loop."""
    with serving(
        lambda request: as_json(azure_page(ITEMS, f"{server.url}/api/retail/prices?$skip=6"))
    ) as server:
        code, _, err = call(server)
    assert (code, len(server.requests)) == (7, 2)
    assert "leads back to itself" in err


def test_a_short_wait_is_waited_for(call: Call) -> None:
    """Two refusals with a wait of 0 s, then the page: three requests and a book."""

    def answer(request: Request) -> Answer:
        return (
            as_json(azure_page(ITEMS))
            if len(server.requests) > 2
            else Answer(b"", 429, {"Retry-After": "0"})
        )

    with serving(answer) as server:
        assert call(server, "--gpu", "T4")[0] == 0
    assert len(server.requests) == 3


def test_a_retry_date_is_read() -> None:
    """Retry-After may hold a date: in the past it is no wait, in two minutes about 120 s."""
    later = datetime.now(UTC) + timedelta(seconds=120)
    assert pages._pause("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert pages._pause(later.strftime("%a, %d %b %Y %H:%M:%S GMT")) == pytest.approx(120, abs=5)
    assert pages._pause("soon") is None


def test_a_silent_server_is_given_up(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the longest silence the refresh ends with exit code 7."""
    monkeypatch.setattr(pages, "READ_SECONDS", 0.2)
    with serving(lambda request: Answer(hang=True)) as server:
        code, _, err = call(server)
    assert code == 7
    assert "was silent for 0.2 s" in err


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "http://prices.example.com/",
        "https://u:p@x/",
        "http://[",
        "x",
        "https://x/?key=1",
    ],
)
def test_the_address_must_be_one(call: Call, url: str) -> None:
    """Another scheme, plain HTTP to another machine, a password in it: nothing is sent."""
    code, _, err = call(url)
    assert code == 2
    assert "PLACER_AZURE_PRICES_URL" in err


def test_a_book_with_something_else_in_it_is_not_replaced(call: Call, tmp_path: Path) -> None:
    """A book of links, or of another provider, would be lost."""
    with serving(one_page(ITEMS)) as server:
        call(server, "--as", "mine")
        links = tmp_path / "catalogs" / "mine" / "links.csv"
        links.write_text("src,dst\n")
        code, _, err = call(server, "--as", "mine")
        assert (code, links.exists()) == (2, True)
        assert "holds more than prices of azure: links.csv" in err


def test_two_refreshes_of_one_book_do_not_meet(call: Call, tmp_path: Path) -> None:
    """While another process holds the book, exit code 7; another name works."""
    (tmp_path / "catalogs").mkdir()
    with (
        serving(one_page(ITEMS)) as server,
        FileLock(tmp_path / "catalogs" / ".azure.refreshed.lock"),
    ):
        code, _, err = call(server)
        assert (code, server.requests) == (7, [])
        assert "is being refreshed by another process" in err
        assert call(server, "--as", "second")[0] == 0


def test_ctrl_c_keeps_the_old_book(call: Call, tmp_path: Path) -> None:
    """SIGINT to a process that waits for a silent server: 130, the old book, no lock left."""
    with serving(one_page(ITEMS)) as server:
        call(server)
    before = (tmp_path / "catalogs" / "azure" / "offers.csv").read_bytes()
    with serving(lambda request: Answer(hang=True)) as server:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLACER_AZURE_PRICES_URL": server.url}
        command = [sys.executable, "-m", "placer", "catalog", "refresh", "azure"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert server.asked.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PROCESS_TIMEOUT_S)
    assert (process.returncode, out, err.strip()) == (130, "", "interrupted")
    assert (tmp_path / "catalogs" / "azure" / "offers.csv").read_bytes() == before
    with serving(one_page(ITEMS)) as server:
        assert call(server)[0] == 0


@pytest.mark.parametrize(
    ("shelf", "code", "words"),
    [("folder", 2, "was not written by placer"), ("file", 7, "cannot write the book 'azure'")],
)
def test_a_book_that_cannot_be_written_is_said_first(
    call: Call, tmp_path: Path, shelf: str, code: int, words: str
) -> None:
    """Somebody made a folder of this name by hand, or a file where the shelf should be: nothing is
    asked.
    """
    if shelf == "folder":
        (tmp_path / "catalogs" / "azure").mkdir(parents=True)
    else:
        (tmp_path / "catalogs").write_text("")
    with serving(one_page(ITEMS)) as server:
        said = call(server)
    assert (said[0], server.requests) == (code, [])
    assert words in said[2]

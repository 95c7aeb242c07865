"""Read pages of JSON from a price interface: bounded, few retries, never beyond its host."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, SourceError
from placer.files.json_text import parse_json
from placer.market.sources.harvest import Origin
from placer.market.sources.reading.fetch import (
    LATER,
    MOST_SECONDS,
    READ_SECONDS,
    failures_said,
    is_url,
    open_client,
    within,
)
from placer.market.sources.reading.web_address import is_loopback

PAGE_BYTES = 64 * 1024 * 1024  # Largest page: 5000 SKUs of Google's catalog have about 10 MB
MOST_PAGES = 2000
WAITS_S = (1.0, 4.0, 10.0)  # Waits before each retry where the server does not say how long
MOST_WAIT_S = 60.0  # A server that asks for a longer wait is not waited for
RETRIED = (429, 500, 502, 503, 504)
TIPS = {
    400: "check the key",
    401: "check the key",
    403: "check the key and that its project may use this interface",
}
Answer = tuple[int, float | None, bytes]  # Status, the wait that the server asks for, and the body
Step = tuple[str, Mapping[str, str] | None]  # Address of a page, and its parameters
Following = Callable[[dict[str, Any], int], Step | None]
"""What comes after a page, given the number of objects up to its end; None at the last one."""


class Pages:
    """A connection to one price interface: pages lie at the host of ``base`` alone, redirections
    are not followed. The headers of the client may hold a key, so they are shown nowhere.
    """

    def __init__(self, client: Any, base: str) -> None:
        self._client = client
        self._digest = hashlib.sha256()
        self.base = base
        self.count = 0
        self.size_bytes = 0

    def get(
        self,
        url: str,
        params: Mapping[str, str] | None = None,
        question: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Read one page, or the answer to a question that is posted as JSON and changes nothing.
        Exit code 7 says what the server did.
        """
        if self.count >= MOST_PAGES:
            words = f"'{self.base}' has more than {MOST_PAGES:,} pages"
            raise SourceError(words, "name regions with --in")
        for wait in (*WAITS_S, None):
            what = f"a page of '{self.base}'"
            with failures_said(self.base, what, READ_SECONDS, MOST_SECONDS, secret=True):
                asked = within(MOST_SECONDS, lambda: self._read(url, params, question))
            status, pause, body = asked
            if status == 200:
                self._digest.update(body)
                self.count += 1
                self.size_bytes += len(body)
                return _object(body, self.base)
            if status not in RETRIED or wait is None or (pause or 0) > MOST_WAIT_S:
                raise _refused(self.base, status, pause, body)
            time.sleep(wait if pause is None else pause)
        raise AssertionError("the last attempt returns or raises")

    def rows(
        self, key: str, first: Step, following: Following, tell: Callable[[str], None]
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of all pages, each with a list of them under ``key``; see `get`."""
        step: Step | None = first
        asked: list[Step] = []
        count = 0
        while step is not None:
            if step in asked:
                raise self.broken("leads back to itself")
            asked.append(step)
            tell(f"page {self.count + 1}")
            page = self.get(*step)
            items = page.get(key)
            if not isinstance(items, list) or not all(isinstance(row, dict) for row in items):
                raise self.broken(f"has no list of {key}")
            yield from items
            count += len(items)
            step = following(page, count)

    def broken(self, what: str) -> PlacerError:
        """Build the error of a page that is not as the interface documents it."""
        return SourceError(f"a page of '{self.base}' {what}", LATER)

    def _read(
        self, url: str, params: Mapping[str, str] | None, question: Mapping[str, Any] | None
    ) -> Answer:
        body, method, tip = bytearray(), "GET" if question is None else "POST", "check the address"
        with self._client.stream(method, url, params=params, json=question) as answer:
            if "," in answer.headers.get("content-encoding", ""):
                raise SourceError(f"a page of '{self.base}' is packed more than once", tip)
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > PAGE_BYTES:
                    words = f"has more than {PAGE_BYTES / 2**20:g} MiB"
                    raise SourceError(f"a page of '{self.base}' {words}", tip)
            return answer.status_code, _pause(answer.headers.get("retry-after")), bytes(body)

    def origin(self) -> Origin:
        """Digest of all pages that were read."""
        return Origin(place=self.base, sha256=self._digest.hexdigest(), size_bytes=self.size_bytes)

    def beside(self, link: str) -> bool:
        """Tell whether a link leads to the same host and port by the same scheme."""
        return _host(link) == _host(self.base)


@contextmanager
def pages(base: str, headers: Mapping[str, str] | None = None) -> Iterator[Pages]:
    """Open a connection for many pages; PlacerError if httpx2 is missing."""
    with open_client(READ_SECONDS, headers) as client:
        yield Pages(client, base)


def address(variable: str, default: str) -> str:
    """Return the address of an interface: the provider's, or a mirror that an environment variable
    names; no plain HTTP to another machine: prices and keys do not travel in the clear.
    """
    address = (os.environ.get(variable) or default).rstrip("/")
    try:
        parts = urlsplit(address)
        host = parts.hostname if is_url(address) and parts.port != 0 else None
    except ValueError:
        host = None
    if not host or parts.username or parts.query:
        words = f"{variable} is not an address of an interface"
        raise PlacerError(words, "give https://host/path, or unset it")
    if parts.scheme == "http" and not is_loopback(host):
        raise PlacerError(f"{variable} names another machine over plain HTTP", "use https://")
    return address


def secret(names: tuple[str, ...], what: str, missing: str, tip: str) -> str:
    """Return a key or token from the first environment variable of some that has one; PlacerError,
    which does not show it, if it has characters that none has.
    """
    key = next((value for name in names if (value := os.environ.get(name, "").strip())), "")
    if not key:
        raise PlacerError(missing, tip)
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise PlacerError(f"{what} has characters that no key has", f"check {' and '.join(names)}")
    return key


def _host(link: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(link)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
        return parts.scheme, parts.hostname, port
    except ValueError:
        return None


def _object(body: bytes, base: str) -> dict[str, Any]:
    try:
        document = parse_json(body)
    except (ValueError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            words = f"'{base}' answered a web page instead of JSON"
            raise SourceError(words, "a login page or proxy may answer in its place") from None
        cut = isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc) - 1
        what = "is cut off" if cut else "is not valid JSON"
        raise SourceError(f"an answer of '{base}' {what}", LATER) from None
    if not isinstance(document, dict):
        raise SourceError(f"an answer of '{base}' is not a JSON object", "check the address")
    return document


def _pause(header: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header[:9])
    try:
        return max(0.0, (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None


def _refused(base: str, status: int, pause: float | None, body: bytes) -> PlacerError:
    """Name a status; of the body only Google's word for it, since it may repeat what was sent."""
    said = f"'{base}' answered {status}"
    if 300 <= status < 400:
        tip = "redirections are not followed; check the address"
        return SourceError(f"{said}, which leads elsewhere", tip)
    if status == 429:
        wait = "" if pause is None else f" for {pause:g} s"
        tip = f"{LATER}, or for fewer regions with --in"
        return SourceError(f"{said}: it asks to wait{wait}", tip)
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        code = json.loads(body)["error"]["status"]
        if isinstance(code, str) and code.replace("_", "").isalpha() and len(code) < 40:
            said = f"{said} {code}"
    return SourceError(said, TIPS.get(status, "check the address") if status < 500 else LATER)

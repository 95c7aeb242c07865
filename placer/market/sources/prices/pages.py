"""Read pages of JSON from a price interface: bounded in size, time and number, with few retries,
never beyond its host.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError, SourceError
from placer.market.sources.harvest import Origin
from placer.market.sources.reading.deadline import within
from placer.market.sources.reading.fetch import READ_SECONDS, is_url, open_client
from placer.market.sources.reading.web_address import is_loopback

PAGE_SECONDS = 120.0
"""Longest time for one page."""
PAGE_BYTES = 64 * 1024 * 1024
"""Largest page: 5000 SKUs of Google's catalog have about 10 MB."""
MOST_PAGES = 2000
WAITS_S = (1.0, 4.0, 10.0)
"""Waits before each retry where the server does not say how long."""
MOST_WAIT_S = 60.0
"""A server that asks for a longer wait is not waited for."""
RETRIED = (429, 500, 502, 503, 504)


class Pages:
    """A connection to one price interface.

    Parameters
    ----------
    client
        An open httpx2 client; its headers may hold a key, so they are shown nowhere.
    base
        Address of the interface; pages lie at this host alone, redirections are not followed.
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

        Raises
        ------
        PlacerError
            With exit code 7: what the server did.
        """
        if self.count >= MOST_PAGES:
            raise _failed(
                f"'{self.base}' has more than {MOST_PAGES:,} pages", "name regions with --in"
            )
        for wait in (*WAITS_S, None):
            status, pause, body = self._ask(url, params, question)
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
        self, key: str, url: str, params: Mapping[str, str] | None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Read one page with the list of objects that it has under ``key``.

        Raises
        ------
        PlacerError
            With exit code 7: what the server did, or that the page has no such list.
        """
        page = self.get(url, params)
        items = page.get(key)
        if not isinstance(items, list) or not all(isinstance(row, dict) for row in items):
            raise self.broken(f"has no list of {key}")
        return page, items

    def broken(self, what: str) -> PlacerError:
        """Build the error of a page that is not as the interface documents it."""
        return _failed(f"a page of '{self.base}' {what}")

    def _ask(
        self, url: str, params: Mapping[str, str] | None, question: Mapping[str, Any] | None
    ) -> tuple[int, float | None, bytes]:
        """Return the status, the wait that the server asks for, and the body."""
        import httpx2

        try:
            return within(PAGE_SECONDS, lambda: self._read(url, params, question))
        except httpx2.TimeoutException:
            raise _failed(f"'{self.base}' was silent for {READ_SECONDS:g} s") from None
        except TimeoutError:
            raise _failed(f"a page of '{self.base}' took longer than {PAGE_SECONDS:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _failed(
                f"cannot read '{self.base}': {type(error).__name__}",
                "check the connection and proxy",
            ) from None

    def _read(
        self, url: str, params: Mapping[str, str] | None, question: Mapping[str, Any] | None
    ) -> tuple[int, float | None, bytes]:
        body, method = bytearray(), "GET" if question is None else "POST"
        with self._client.stream(method, url, params=params, json=question) as answer:
            if "," in answer.headers.get("content-encoding", ""):
                raise _failed(
                    f"a page of '{self.base}' is packed more than once", "check the address"
                )
            for chunk in answer.iter_bytes():
                body += chunk
                if len(body) > PAGE_BYTES:
                    raise _failed(
                        f"a page of '{self.base}' has more than {PAGE_BYTES / 2**20:g} MiB",
                        "check the address",
                    )
            return answer.status_code, _pause(answer.headers.get("retry-after")), bytes(body)

    def origin(self) -> Origin:
        """Digest of all pages that were read."""
        return Origin(place=self.base, sha256=self._digest.hexdigest(), size_bytes=self.size_bytes)

    def beside(self, link: str) -> bool:
        """Tell whether a link leads to the same host and port by the same scheme."""
        return _host(link) == _host(self.base)


@contextmanager
def pages(base: str, headers: Mapping[str, str] | None = None) -> Iterator[Pages]:
    """Open a connection for many pages; see `Pages`.

    Raises
    ------
    PlacerError
        If httpx2 is missing.
    """
    with open_client(READ_SECONDS, headers) as client:
        yield Pages(client, base)


def address(variable: str, default: str) -> str:
    """Return the address of an interface: the provider's, unless an environment variable names
    another, such as a mirror.

    Raises
    ------
    PlacerError
        If it is no URL, or plain HTTP to another machine: prices and keys do not travel in the
        clear.
    """
    address = (os.environ.get(variable) or default).rstrip("/")
    try:
        parts = urlsplit(address)
        host = parts.hostname if is_url(address) and parts.port != 0 else None
    except ValueError:
        host = None
    if not host or parts.username or parts.query:
        raise PlacerError(
            f"{variable} is not an address of an interface", "give https://host/path, or unset it"
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise PlacerError(f"{variable} names another machine over plain HTTP", "use https://")
    return address


def _host(link: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(link)
        return (
            parts.scheme,
            parts.hostname,
            parts.port or {"https": 443, "http": 80}.get(parts.scheme),
        )
    except ValueError:
        return None


def _object(body: bytes, base: str) -> dict[str, Any]:
    try:
        document = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if body.lstrip()[:1] == b"<":
            raise _failed(
                f"'{base}' answered a web page instead of JSON",
                "a login page or proxy may answer in its place",
            ) from None
        what = (
            "is cut off"
            if isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc) - 1
            else "is not valid JSON"
        )
        raise _failed(f"an answer of '{base}' {what}") from None
    if not isinstance(document, dict):
        raise _failed(f"an answer of '{base}' is not a JSON object", "check the address")
    return document


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


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
    if 300 <= status < 400:
        return _failed(
            f"'{base}' answered {status}, which leads elsewhere",
            "redirections are not followed; check the address",
        )
    if status == 429:
        wait = "" if pause is None else f" for {pause:g} s"
        return _failed(
            f"'{base}' answered 429: it asks to wait{wait}",
            "run this again later, or for fewer regions with --in",
        )
    word = ""
    try:
        code = json.loads(body)["error"]["status"]
        word = (
            f" {code}"
            if isinstance(code, str) and code.replace("_", "").isalpha() and len(code) < 40
            else ""
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    tip = {
        400: "check the key",
        401: "check the key",
        403: "check the key and that its project may use this interface",
    }
    return _failed(
        f"'{base}' answered {status}{word}",
        tip.get(status, "check the address") if status < 500 else "",
    )


def _failed(message: str, hint: str = "") -> PlacerError:
    return SourceError(message, hint or "run this again later")

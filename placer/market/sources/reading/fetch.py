"""Read one document from a URL or a path: bounded in time and size, with its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, BinaryIO, TypeVar

from msgspec import Struct

from placer.errors import PlacerError, SourceError, installed
from placer.files.bounded_file import bounded
from placer.market.sources.harvest import Origin
from placer.market.sources.reading.web_address import DIRECT, public

MOST_BYTES = 256 * 1024 * 1024
"""Largest document, packed and unpacked: the largest public price list of machines (AWS, one
region) has about 200 MB.
"""
MOST_SECONDS = 120.0  # Longest time for one document or page
READ_SECONDS = 20.0  # Longest silence of a server
MOST_REDIRECTIONS = 8
RIGHT = "name the right document"
LATER = "run this again later"
FAILED = 7  # Exit code of a source that did not deliver; what was there stays as it was
T = TypeVar("T")


class Document(Struct, frozen=True, kw_only=True):
    """What was read, unpacked, with its origin: the digest is of the bytes as they came."""

    data: bytes
    origin: Origin


def is_url(place: str) -> bool:
    """Tell a URL from a path."""
    return place.startswith(("http://", "https://"))


def read_document(
    place: str,
    *,
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
    read_seconds: float = READ_SECONDS,
) -> Document:
    """Read a file or a URL; gzip is unpacked. Exit code 7 says what could not be read and why, 2
    that a path does not exist.

    ``most_bytes`` bounds the packed and the unpacked document, ``most_seconds`` the whole download
    with redirections and headers, ``read_seconds`` the silence of a server. What may be secret in a
    URL, a password or a signature in its query, is neither shown nor kept.
    """
    shown = place
    if is_url(place):
        shown = public(place)
        client = open_client(read_seconds)
        with client, failures_said(shown, f"'{shown}'", read_seconds, most_seconds):
            data = within(most_seconds, lambda: _body(client, place, shown, most_bytes))
    else:
        data = _read(place, most_bytes)
    origin = Origin(place=shown, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
    packed = data[:2] == b"\x1f\x8b"
    return Document(data=_unpacked(data, shown, most_bytes) if packed else data, origin=origin)


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do something in a thread and wait no longer, whatever it does: a server that drips single
    bytes resets every other clock. After TimeoutError it is left alone and ends with the process.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done.result(seconds)


@contextmanager
def failures_said(
    shown: str, what: str, read_seconds: float, most_seconds: float, *, secret: bool = False
) -> Iterator[None]:
    """Say what httpx2 raises, and a deadline, in one line (exit code 7); its own words only where
    they cannot repeat a ``secret`` of the headers.
    """
    import httpx2

    try:
        yield
    except httpx2.TimeoutException:
        raise SourceError(f"'{shown}' was silent for {read_seconds:g} s", LATER) from None
    except TimeoutError:
        raise SourceError(f"{what} took longer than {most_seconds:g} s", LATER) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        kind = type(error).__name__
        invalid = isinstance(error, httpx2.InvalidURL)
        words = "the address is not valid" if invalid else kind if secret else error or kind
        tip = "check the address, the connection and the proxy"
        raise SourceError(f"cannot read '{shown}': {words}", tip) from None


def _read(place: str, most_bytes: int) -> bytes:
    try:
        return bounded(place, RIGHT, most_bytes, FAILED)
    except IsADirectoryError:
        raise PlacerError(f"'{place}' is a folder", "name a file") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise PlacerError(f"cannot read '{place}': {why}", "check the path") from None


def _body(client: Any, place: str, shown: str, most_bytes: int) -> bytes:
    request, wrong = client.build_request("GET", place, headers={"Accept-Encoding": "gzip"}), ""
    for _ in range(MOST_REDIRECTIONS):
        answer = client.send(request, stream=True)
        with closing(answer):
            following = answer.next_request
            if following is None and not answer.has_redirect_location:
                return _bounded(answer, shown, most_bytes)
            if following is None:
                wrong = f"'{shown}' redirects to an address that is not valid"
            elif request.url.scheme == "https" and following.url.scheme != "https":
                wrong = f"'{shown}' redirects to an address without https://"
            if wrong:
                raise SourceError(wrong, "check the address")
        request = following
    words = f"'{shown}' redirects more than {MOST_REDIRECTIONS} times"
    raise SourceError(words, "check the address")


def _bounded(answer: Any, shown: str, most_bytes: int) -> bytes:
    if answer.status_code != 200:
        words = f"'{shown}' answered {answer.status_code} {answer.reason_phrase}"
        raise SourceError(words, "check the address")
    content = bytearray()
    for chunk in answer.iter_raw():
        content += chunk
        if len(content) > most_bytes:
            raise _too_large(shown, most_bytes)
    return bytes(content)


def open_client(read_seconds: float, headers: Mapping[str, str] | None = None) -> Any:
    """Open an httpx2 client that follows no redirections."""
    httpx2 = installed("httpx2", "downloads need httpx2", "online")
    try:
        return httpx2.Client(
            headers=headers,
            timeout=read_seconds,
            follow_redirects=False,
            mounts=DIRECT,
            verify=_certificates(),
        )
    except (ImportError, ValueError, httpx2.InvalidURL):
        words = "the proxy settings of this environment cannot be used"
        raise PlacerError(words, "check HTTPS_PROXY and ALL_PROXY") from None


@cache
def _certificates() -> Any:
    """Read whom to trust once: 30 ms, more than a short answer takes."""
    import httpx2

    return httpx2.create_ssl_context()


def _unpacked(data: bytes, place: str, most_bytes: int) -> bytes:
    """Unpack gzip up to a limit: a few kilobytes can claim gigabytes."""
    stream: BinaryIO = gzip.GzipFile(fileobj=io.BytesIO(data))  # type: ignore[assignment]
    try:
        content = stream.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        words = f"'{place}' is not a complete gzip file: {error}"
        raise SourceError(words, "fetch it again") from None
    if len(content) > most_bytes:
        raise _too_large(place, most_bytes)
    return content


def _too_large(place: str, most_bytes: int) -> PlacerError:
    return SourceError(f"'{place}' has more than {most_bytes / 2**20:g} MiB, the limit", RIGHT)

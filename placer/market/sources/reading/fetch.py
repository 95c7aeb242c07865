"""Read one document from a URL or a path: bounded in time and size, with its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO

from placer.errors import PlacerError, SourceError
from placer.files.bounded_file import bounded
from placer.market.sources.harvest import Origin
from placer.market.sources.reading.deadline import within
from placer.market.sources.reading.web_address import DIRECT, public
from placer.version import install_line

MOST_BYTES = 256 * 1024 * 1024
"""Largest document, packed and unpacked: the largest public price list of machines (AWS, one
region) has about 200 MB.
"""
MOST_SECONDS = 120.0
"""Longest time for one document."""
READ_SECONDS = 20.0
"""Longest silence of a server."""
MOST_REDIRECTIONS = 8
RIGHT = "name the right document"
FAILED = 7
"""Exit code of a source that did not deliver; what was there stays as it was."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
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
    """Read a file or a URL; gzip is unpacked.

    Parameters
    ----------
    place
        Path, or URL that begins with http:// or https://. What may be secret in a URL, a password
        or a signature in its query, is neither shown nor kept.
    most_bytes
        Limit of the packed and of the unpacked document.
    most_seconds
        Limit of the whole download, redirections and headers as well; s.
    read_seconds
        Longest silence of the server; s.

    Raises
    ------
    PlacerError
        With exit code 7: what could not be read and why; with exit code 2 if a path does not exist.
    """
    shown = public(place) if is_url(place) else place
    data = (
        _download(place, shown, most_bytes, most_seconds, read_seconds)
        if is_url(place)
        else _read(place, most_bytes)
    )
    origin = Origin(place=shown, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
    return Document(
        data=_unpacked(data, shown, most_bytes) if data[:2] == b"\x1f\x8b" else data, origin=origin
    )


def _read(place: str, most_bytes: int) -> bytes:
    try:
        return bounded(place, RIGHT, most_bytes, FAILED)
    except IsADirectoryError:
        raise PlacerError(f"'{place}' is a folder", "name a file") from None
    except (OSError, ValueError) as error:
        raise PlacerError(
            f"cannot read '{place}': {getattr(error, 'strerror', None) or error}", "check the path"
        ) from None


def _download(
    place: str, shown: str, most_bytes: int, most_seconds: float, read_seconds: float
) -> bytes:
    client = open_client(read_seconds)
    import httpx2

    try:
        with client:
            return within(most_seconds, lambda: _body(client, place, shown, most_bytes))
    except httpx2.TimeoutException:
        raise SourceError(
            f"'{shown}' was silent for {read_seconds:g} s", "try again later"
        ) from None
    except TimeoutError:
        raise SourceError(
            f"'{shown}' took longer than {most_seconds:g} s", "try again later"
        ) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        words = (
            "the address is not valid"
            if isinstance(error, httpx2.InvalidURL)
            else error or type(error).__name__
        )
        raise SourceError(f"cannot read '{shown}': {words}", "check the address") from None


def _body(client: Any, place: str, shown: str, most_bytes: int) -> bytes:
    """Read the body of a URL, or of what it leads to."""
    request = client.build_request("GET", place, headers={"Accept-Encoding": "gzip"})
    for _ in range(MOST_REDIRECTIONS):
        answer = client.send(request, stream=True)
        with closing(answer):
            following = answer.next_request
            if following is None:
                if answer.has_redirect_location:
                    raise SourceError(
                        f"'{shown}' redirects to an address that is not valid", "check the address"
                    )
                return _bounded(answer, shown, most_bytes)
            if request.url.scheme == "https" and following.url.scheme != "https":
                raise SourceError(
                    f"'{shown}' redirects to an address without https://", "name the right address"
                )
        request = following
    raise SourceError(
        f"'{shown}' redirects more than {MOST_REDIRECTIONS} times", "check the address"
    )


def _bounded(answer: Any, shown: str, most_bytes: int) -> bytes:
    content = bytearray()
    if answer.status_code != 200:
        raise SourceError(
            f"'{shown}' answered {answer.status_code} {answer.reason_phrase}", "check the address"
        )
    for chunk in answer.iter_raw():
        content += chunk
        if len(content) > most_bytes:
            raise _too_large(shown, most_bytes)
    return bytes(content)


def open_client(read_seconds: float, headers: Mapping[str, str] | None = None) -> Any:
    """Open an httpx2 client that follows no redirections.

    Raises
    ------
    PlacerError
        If httpx2 is missing, or the environment names proxies that cannot be used.
    """
    try:
        import httpx2
    except ImportError:
        raise PlacerError("downloads need httpx2", install_line("online")) from None
    try:
        return httpx2.Client(
            headers=headers, timeout=read_seconds, follow_redirects=False, mounts=DIRECT
        )
    except (ImportError, ValueError, httpx2.InvalidURL):
        raise PlacerError(
            "the proxy settings of this environment cannot be used",
            "check HTTPS_PROXY and ALL_PROXY",
        ) from None


def _unpacked(data: bytes, place: str, most_bytes: int) -> bytes:
    """Unpack gzip up to a limit: a few kilobytes can claim gigabytes."""
    stream: BinaryIO = gzip.GzipFile(fileobj=io.BytesIO(data))  # type: ignore[assignment]
    try:
        content = stream.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(
            f"'{place}' is not a complete gzip file: {error}", "fetch it again"
        ) from None
    if len(content) > most_bytes:
        raise _too_large(place, most_bytes)
    return content


def _too_large(place: str, most_bytes: int) -> PlacerError:
    return SourceError(f"'{place}' has more than {most_bytes / 2**20:g} MiB, the limit", RIGHT)

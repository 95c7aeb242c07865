"""Read one document from a URL or a path: bounded in time and size, with its digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from placer.errors import PlacerError
from placer.sources.harvest import Origin

MOST_BYTES = 256 * 1024 * 1024
"""Largest document, packed and unpacked: the largest public price list of machines (AWS, one region) has about 200 MB."""
MOST_SECONDS = 120.0
"""Longest time for one document."""
READ_SECONDS = 20.0
"""Longest silence of a server."""
CHUNK_BYTES = 1 << 16
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
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Document:
    """Read a file or a URL; gzip is unpacked.

    Parameters
    ----------
    place
        Path, or URL that begins with http:// or https://.
    most_bytes
        Limit of the packed and of the unpacked document.
    most_seconds
        Limit of the whole download; s.
    read_seconds
        Longest silence of the server; s.
    params, headers
        Query and headers of a URL; neither is kept nor shown, so they may hold a key.

    Raises
    ------
    PlacerError
        With exit code 7: what could not be read and why; with exit code 2 if a path does not exist.
    """
    data = _download(place, most_bytes, most_seconds, read_seconds, params, headers) if is_url(place) else _read(place, most_bytes)
    origin = Origin(place=place, sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))
    return Document(data=_unpacked(data, place, most_bytes) if data[:2] == b"\x1f\x8b" else data, origin=origin)


def _read(place: str, most_bytes: int) -> bytes:
    try:
        path = Path(place)
        if path.is_dir():
            raise PlacerError(f"'{place}' is a folder", "name a file")
        with path.open("rb") as stream:
            data = stream.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        raise PlacerError(f"cannot read '{place}': {getattr(error, 'strerror', None) or error}", "check the path") from None
    if len(data) > most_bytes:
        raise _too_large(place, most_bytes)
    return data


def _download(
    place: str,
    most_bytes: int,
    most_seconds: float,
    read_seconds: float,
    params: Mapping[str, str] | None,
    headers: Mapping[str, str] | None,
) -> bytes:
    httpx = load_httpx()
    end, found = time.monotonic() + most_seconds, bytearray()
    try:
        with httpx.stream("GET", place, params=params, headers=headers, timeout=read_seconds, follow_redirects=True) as answer:
            if answer.status_code != 200:
                raise PlacerError(f"'{place}' answered {answer.status_code} {answer.reason_phrase}", "check the address", exit_code=FAILED)
            for chunk in answer.iter_raw(CHUNK_BYTES):
                found += chunk
                if len(found) > most_bytes:
                    raise _too_large(place, most_bytes)
                if time.monotonic() > end:
                    raise PlacerError(f"'{place}' took longer than {most_seconds:g} s", "try again later", exit_code=FAILED)
    except httpx.TimeoutException:
        raise PlacerError(f"'{place}' was silent for {read_seconds:g} s", "try again later", exit_code=FAILED) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PlacerError(f"cannot read '{place}': {error or type(error).__name__}", "check the address", exit_code=FAILED) from None
    return bytes(found)


def load_httpx() -> Any:
    """Import httpx; `PlacerError` if it is missing."""
    try:
        import httpx
    except ImportError:
        raise PlacerError("downloads need httpx", "pip install 'placer[online]'") from None
    return httpx


def _unpacked(data: bytes, place: str, most_bytes: int) -> bytes:
    """Unpack gzip up to a limit: a few kilobytes can claim gigabytes."""
    stream: BinaryIO = gzip.GzipFile(fileobj=io.BytesIO(data))  # type: ignore[assignment]
    try:
        found = stream.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise PlacerError(f"'{place}' is no complete gzip file: {error}", "fetch it again", exit_code=FAILED) from None
    if len(found) > most_bytes:
        raise _too_large(place, most_bytes)
    return found


def _too_large(place: str, most_bytes: int) -> PlacerError:
    return PlacerError(f"'{place}' has more than {most_bytes / 2**20:g} MiB", "name the right document", exit_code=FAILED)

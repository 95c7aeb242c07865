"""Web addresses: those of this machine, and how to show one without its secrets."""

from __future__ import annotations

import re
import sys
from ipaddress import ip_address
from urllib.parse import urlsplit

DIRECT: dict[str, None] = {f"all://{host}": None for host in ("127.0.0.1", "localhost", "[::1]")}
"""Hosts that an httpx2 client reaches without a proxy (``mounts``), whatever the environment says:
a proxy's loopback device is another machine.
"""
LOOPBACK_INTERFACE = "lo" if sys.platform == "linux" else "lo0"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback device, which no other machine reaches.

    Names other than ``localhost`` are not looked up: a machine may resolve its own name to
    127.0.1.1 where the others reach it.

    >>> is_loopback("localhost"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def public(url: str) -> str:
    """Drop what may be secret in a URL: user, password, query and fragment.

    >>> public("https://me:secret@prices.example/aws/vms.csv?sig=secret")
    'https://prices.example/aws/vms.csv?...'
    """
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return f"{url.partition(':')[0]}://..."
    if not host:  # such as me:secret@store.example, which has no scheme
        return url.rpartition("@")[2].partition("?")[0].partition("#")[0]
    return f"{parts.scheme}://{host}{parts.path}{'?...' if parts.query else ''}"


def without_secrets(text: str) -> str:
    """Drop what may be secret in each URL of a text.

    >>> without_secrets('no answer from "https://me:secret@store.example/b"')
    'no answer from "https://store.example/b"'
    """
    return _URL.sub(lambda match: public(match[0]), text)

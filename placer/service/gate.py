"""Who may ask: names of the host, the token, and pages of other sites."""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import urlsplit

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from placer.service.settings import Settings

COOKIE = "placer_page"
OPEN = "open"
"""Option of routes that ask for no token: probes of an orchestrator, the page that asks for it."""
PROBE = "probe"
"""Option of routes that an orchestrator asks by the address of a container: any name will do."""
Connection = ASGIConnection[Any, Any, Any, Any]


class GateError(Exception):
    """A request that does not come in, with the kind of its problem."""

    def __init__(self, kind: str, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.hint = hint


def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let a request in, or say why not.

    Raises
    ------
    GateError
        Names the host, the site, or what is wrong with the token.
    """
    settings: Settings = connection.app.state.settings
    if not handler.opt.get(PROBE):
        _check_host(connection, settings)
    if connection.scope.get("method") not in ("GET", "HEAD"):
        _check_site(connection)
    if settings.token is not None and not handler.opt.get(OPEN):
        _check_token(connection, settings)


def _check_host(connection: Connection, settings: Settings) -> None:
    """Refuse other names on loopback: a foreign name that resolves here is a page's attack."""
    allowed = settings.allowed_hosts
    host = urlsplit(f"//{connection.headers.get('host', '')}").hostname or ""
    if allowed and host not in allowed:
        raise GateError("host", f"host '{host[:60]}'", "start the service with --allow-host NAME")


def _check_site(connection: Connection) -> None:
    """Refuse what a page of another site has a browser send."""
    origin = connection.headers.get("origin")
    if origin in (None, ""):
        return
    if urlsplit(origin).netloc != connection.headers.get("host"):
        raise GateError("origin", f"origin '{origin[:60]}'", "ask from the page of the service")


def _check_token(connection: Connection, settings: Settings) -> None:
    kind, _, given = connection.headers.get("authorization", "").partition(" ")
    token = (settings.token or "").encode()
    if kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token):
        return
    cookie = connection.cookies.get(COOKIE, "")
    if cookie and hmac.compare_digest(cookie.encode(), settings.cookie.encode()):
        return
    raise GateError(
        "token",
        "the token is wrong" if given or cookie else "no token",
        "send it as 'Authorization: Bearer TOKEN'",
    )

"""Who may ask (names of the host, the token, pages of other sites), and what is wrong with a
request, as RFC 9457 problem details.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from placer.errors import one_line
from placer.service.settings import Settings
from placer.service.working.messages import Outcome, Reply

if TYPE_CHECKING:  # tools of assistants need no Litestar
    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler

    Connection: TypeAlias = ASGIConnection[Any, Any, Any, Any]

CONTENT_TYPE = "application/problem+json"
COOKIE = "placer_page"
OPEN = "open"
"""Option of routes that ask for no token: probes of an orchestrator, the page that asks for it."""
PROBE = "probe"
"""Option of routes that an orchestrator asks by the address of a container: any name will do."""
KINDS: Mapping[str, tuple[int, str]] = {
    "body": (400, "The request cannot be read."),
    "host": (400, "The service is not called by that name."),
    "token": (401, "A token is needed."),
    "origin": (403, "The request comes from another site."),
    "missing": (404, "There is nothing here."),
    "method": (405, "The method is not one of this address."),
    "late": (408, "The request did not arrive in time."),
    "unfinished": (409, "The job is not finished."),
    "large": (413, "The request is too large."),
    "words": (422, "A word of the question is wrong."),
    "full": (429, "Too many questions are waiting."),
    "failed": (500, "The service failed."),
    "stopped": (503, "The search was ended."),
    "cancelled": (503, "The question was given up."),
    "interrupted": (503, "The job was interrupted."),
    "starting": (503, "The service is not ready."),
    "disk": (507, "The disk of the service takes no more."),
}
"""Status and title of each kind of problem; the kind is the last part of ``type``."""
KIND_OF_STATUS = {400: "body", 401: "token", 404: "missing", 405: "method", 413: "large"}
DISK_HINT = "make room on the disk of the service, and ask again"
STOPPED = "the search did not end in time, and its process was ended"


def problem_of(kind: str, detail: str, hint: str = "", field: str = "") -> dict[str, Any]:
    """Build the details of a problem of `KINDS`; ``field`` is the word that is wrong."""
    status, title = KINDS[kind]
    rows = {
        "type": f"/problems/{kind}",
        "title": title,
        "status": status,
        "detail": one_line(detail),
        "hint": one_line(hint),
        "field": field,
    }
    return {name: value for name, value in rows.items() if value != ""}


def refused(reply: Reply) -> dict[str, Any]:
    """Build the details of a question that has no answer."""
    if reply.outcome is Outcome.REFUSED:
        return problem_of("words", reply.message, reply.hint, reply.field)
    if reply.outcome is Outcome.STOPPED:
        return problem_of("stopped", STOPPED, "ask for less, or give a smaller time_limit")
    if reply.outcome is Outcome.CANCELLED:
        return problem_of("cancelled", "the question was cancelled before it had an answer")
    return problem_of(
        "failed", "the process that worked on the question ended", "its reason is in the log"
    )


class GateError(Exception):
    """A request that does not come in, with the kind of its problem."""

    def __init__(self, kind: str, detail: str, hint: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.hint = kind, detail, hint
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    @property
    def status(self) -> int:
        """Return the status that HTTP has for it."""
        return KINDS[self.kind][0]


class FullError(GateError):
    """No more questions may wait now."""

    def __init__(self, seconds: int) -> None:
        hint = f"ask again in {seconds} s"
        super().__init__("full", "too many questions are waiting", hint, Retry_After=str(seconds))


def guard(connection: Connection, handler: BaseRouteHandler) -> None:
    """Let a request in, or say why not.

    Raise `GateError`, which names the host, the site, or what is wrong with the token.
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
    detail = "the token is wrong" if given or cookie else "no token"
    hint = "send it as 'Authorization: Bearer TOKEN'"
    raise GateError("token", detail, hint, WWW_Authenticate="Bearer")

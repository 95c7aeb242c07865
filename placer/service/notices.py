"""Where a change is told: a webhook, mail or a file. Secrets stand in the environment, or in files
that it names, and never in a document.
"""

from __future__ import annotations

import hmac
import json
import os
import smtplib
import time
from collections.abc import Callable
from contextlib import closing
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from placer.errors import PlacerError, SourceError
from placer.files.bounded_file import read_file
from placer.market.sources.reading.fetch import failures_said, is_url, open_client, within
from placer.market.sources.reading.web_address import public
from placer.records import Json

SECONDS = 10.0
"""Longest silence of a server, and of a whole delivery twice that."""
PAUSES_S = (1.0, 5.0)
"""Pauses before the second and the third try, which is the last."""
SIGNATURE, TIMESTAMP = "X-Placer-Signature", "X-Placer-Timestamp"
WEBHOOK_SECRET, SMTP_PASSWORD = "PLACER_WEBHOOK_SECRET", "PLACER_SMTP_PASSWORD"
MAIL = ("smtp", "smtps")
MAIL_FORM = "write it as smtp://HOST:25/to@example.org?from=placer@example.org"
Send = Callable[[Json, str], None]
"""Sends a document, with what it says as text."""


def sender(target: str) -> Send:
    """Return what sends to a target: ``https://...``, ``smtp://[USER@]HOST[:PORT]/TO``, or a file.

    Raise `PlacerError` if the target cannot be used, or its secret is missing: before anything is
    computed.
    """
    if is_url(target):
        return partial(_post, target, _secret(WEBHOOK_SECRET, public(target)))
    parts = urlsplit(target)
    if parts.scheme in MAIL:
        return partial(_mail, parts, _secret(SMTP_PASSWORD, target) if parts.username else "")
    if "://" in target:
        raise PlacerError(
            f"'{parts.scheme}://' is no way to tell", "give https://, smtp:// or a file"
        )
    path = Path(target)
    if not path.parent.is_dir() or path.is_dir():
        raise PlacerError(f"cannot write '{target}'", "name a file in a folder that exists")
    return partial(_append, path)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Sign what a webhook gets: HMAC-SHA256 of ``TIMESTAMP.BODY``, so that an old message cannot be
    sent again as a new one.

    >>> signature("secret", "1764339840", b"{}")[:21]
    'sha256=0737b65f7cc439'
    """
    return (
        "sha256=" + hmac.new(secret.encode(), f"{timestamp}.".encode() + body, "sha256").hexdigest()
    )


def _secret(name: str, target: str) -> str:
    """Read a secret of the environment, or of the file that ``NAME_FILE`` names."""
    path = os.environ.get(f"{name}_FILE")
    secret = os.environ.get(name, "") if path is None else read_file(path).decode().strip()
    if not secret:
        raise PlacerError(
            f"no secret for {target}",
            f"set {name}, or {name}_FILE to the name of a file that has it",
        )
    return secret


def _retried(send: Callable[[], None]) -> None:
    """Send, and again after a pause where the other side was not there; three times at most."""
    for pause in PAUSES_S:
        try:
            return send()
        except SourceError:
            time.sleep(pause)
    return send()


def _post(url: str, secret: str, document: Json, text: str) -> None:
    body, shown = json.dumps(document, allow_nan=False).encode(), public(url)

    def send() -> None:
        now = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            TIMESTAMP: now,
            SIGNATURE: signature(secret, now, body),
        }
        client: Any = open_client(SECONDS, headers)
        with client, failures_said(shown, f"'{shown}'", SECONDS, 2 * SECONDS, secret=True):
            request = client.build_request("POST", url, content=body)
            answer = within(2 * SECONDS, lambda: client.send(request, stream=True))
            with closing(answer):
                status = int(answer.status_code)
        if status >= 300:
            late = status == 429 or status >= 500
            kind = SourceError if late else partial(PlacerError, exit_code=1)
            raise kind(f"'{shown}' answered {status}", "check the address and the secret")

    _retried(send)


def _mail(parts: SplitResult, password: str, document: Json, text: str) -> None:
    host = f"{parts.hostname}"
    message = EmailMessage()
    try:
        message["To"] = to = unquote(parts.path.lstrip("/"))
        message["From"] = parse_qs(parts.query).get("from", [to])[0]
        message["Subject"] = "placer: " + text.partition("\n")[0][:120]
        port = parts.port or (465 if parts.scheme == "smtps" else 25)
    except ValueError as error:
        raise PlacerError(f"{parts.scheme}://{host}: {error}", MAIL_FORM) from None
    message.set_content(text)
    message.add_attachment(json.dumps(document, indent=2), filename="change.json")
    kind = smtplib.SMTP_SSL if parts.scheme == "smtps" else smtplib.SMTP

    def send() -> None:
        try:
            with kind(host, port, timeout=SECONDS) as server:
                if parts.username:
                    if parts.scheme == "smtp":
                        server.starttls()
                    server.login(unquote(parts.username), password)
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:  # its words may repeat what was sent
            words = f"mail through {host}:{port} failed: {type(error).__name__}"
            raise SourceError(words, "check the host, the port and the password") from None

    _retried(send)


def _append(path: Path, document: Json, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(document, allow_nan=False) + "\n")
    except OSError as error:
        raise PlacerError(
            f"cannot write '{path}': {error.strerror}", "choose another file"
        ) from None

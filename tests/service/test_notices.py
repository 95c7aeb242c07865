"""The watch of prices, and where it tells a change: real servers on loopback, and a file."""

import hashlib
import hmac
import json
import shutil
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.service import notices

SECRET = "a secret of the tests"  # noqa: S105
ASKED = (
    *("recommend", "--model", "roberta-xlm", "--budget", "7/h"),
    *("--gpu", "A10", "--workers", "8"),
)
CHANGE = {"schema": "placer.diff/v1", "failed": ["cost>10%"]}


@contextmanager
def running(server: socketserver.BaseServer) -> Iterator[None]:
    """Let a server answer in a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def webhook(*statuses: int) -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """A webhook that answers with these statuses, then with 204, and what it was sent."""
    heard: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            heard.append((dict(self.headers), self.rfile.read(length)))
            self.send_response([*statuses, *[204] * 9][len(heard) - 1])
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield f"http://127.0.0.1:{server.server_port}/hook", heard


@contextmanager
def mailbox() -> Iterator[tuple[int, list[bytes]]]:
    """A server that takes any mail (RFC 5321), and the messages."""
    mails: list[bytes] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            while line := self.rfile.readline().upper():
                if line.startswith(b"DATA"):
                    self.wfile.write(b"354 go on\r\n")
                    mails.append(b"".join(iter(self.rfile.readline, b".\r\n")))
                if line.startswith(b"QUIT"):
                    self.wfile.write(b"221 bye\r\n")
                    return
                self.wfile.write(b"250 well\r\n")

    server = socketserver.TCPServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.server_address[1], mails


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret in the environment, and no pauses."""
    monkeypatch.setenv(notices.WEBHOOK_SECRET, SECRET)
    monkeypatch.setattr(notices, "PAUSES_S", (0.0, 0.0))


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """Check a signature as a receiver does, by the words of the manual."""
    signed = headers["X-Placer-Timestamp"].encode() + b"." + body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    return hmac.compare_digest(headers["X-Placer-Signature"], f"sha256={expected}")


def test_a_webhook_gets_a_signed_body() -> None:
    """The document as it is; a body that was changed on the way has another signature."""
    with webhook() as (url, heard):
        notices.sender(url)(CHANGE, "dearer")
    ((headers, body),) = heard
    assert json.loads(body) == CHANGE
    assert headers["Content-Type"] == "application/json"
    assert is_signed(headers, body)
    assert not is_signed(headers, body.replace(b"10", b"20"))


def test_a_webhook_that_is_away_is_tried_three_times() -> None:
    """After 503 and 429 it takes the third; after three times 503 the error names its status."""
    with webhook(503, 429) as (url, heard):
        notices.sender(url)(CHANGE, "dearer")
        assert len(heard) == 3
    with webhook(503, 503, 503) as (url, heard), pytest.raises(PlacerError, match="answered 503"):
        notices.sender(url)(CHANGE, "dearer")
    assert len(heard) == 3
    with pytest.raises(PlacerError, match="cannot read"):
        notices.sender(url)(CHANGE, "dearer")  # nobody listens there any more


def test_a_refusal_is_not_tried_again_and_no_redirection_followed() -> None:
    """Another try would be refused as well, and a secret is for the address that was named."""
    for status in (401, 302):
        with webhook(status) as (url, heard), pytest.raises(PlacerError, match=str(status)):
            notices.sender(url)(CHANGE, "dearer")
        assert len(heard) == 1


def test_a_secret_is_read_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As containers get them; without any secret nothing is sent."""
    monkeypatch.delenv(notices.WEBHOOK_SECRET)
    with pytest.raises(PlacerError, match=r"no secret for https://example\.org") as error:
        notices.sender("https://example.org")
    assert "PLACER_WEBHOOK_SECRET_FILE" in error.value.hint
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    monkeypatch.setenv(f"{notices.WEBHOOK_SECRET}_FILE", str(tmp_path / "secret"))
    with webhook() as (url, heard):
        notices.sender(url)(CHANGE, "dearer")
    assert is_signed(*heard[0])


def test_mail_has_the_text_and_the_document() -> None:
    """To and from as the address says; the first line is the subject."""
    with mailbox() as (port, mails):
        target = f"smtp://127.0.0.1:{port}/team@example.org?from=placer@example.org"
        notices.sender(target)(CHANGE, "It costs more.\n\nA table")
    (mail,) = mails
    message = message_from_bytes(mail)
    assert (message["To"], message["From"]) == ("team@example.org", "placer@example.org")
    assert message["Subject"] == "placer: It costs more."
    _, text, document = message.walk()
    assert "A table" in str(text)
    assert json.loads(bytes(document.get_payload(decode=True))) == CHANGE


def test_mail_that_cannot_be_sent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host where nobody listens; a line break in an address; a user without a password."""
    with mailbox() as (port, _):
        pass
    with pytest.raises(PlacerError, match=f"through 127.0.0.1:{port} failed"):
        notices.sender(f"smtp://127.0.0.1:{port}/team@example.org")(CHANGE, "dearer")
    with pytest.raises(PlacerError, match=r"smtp://127\.0\.0\.1"):
        notices.sender("smtp://127.0.0.1/team@example.org%0ABcc:%20x@y.z")(CHANGE, "dearer")
    with pytest.raises(PlacerError, match="no secret"):
        notices.sender("smtp://me@127.0.0.1/team@example.org")


def test_a_name_with_a_colon_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No address is without ``://``."""
    monkeypatch.chdir(tmp_path)
    notices.sender("prices:eu.jsonl")(CHANGE, "dearer")
    assert json.loads((tmp_path / "prices:eu.jsonl").read_text(encoding="utf-8")) == CHANGE


def test_a_price_that_rises_is_told(tmp_path: Path, run: Run) -> None:
    """An A10 costs 0.60 USD/h in the book, and 0.70 on another day: the webhook and the file get
    what `report --diff` says, and the next watch counts from there.
    """
    book = tmp_path / "book"
    shutil.copytree(ROOT / "catalogs" / "erben-2023", book)
    result, log = tmp_path / "result.json", tmp_path / "alerts.jsonl"
    assert run(*ASKED, "--catalog", str(book), "-o", str(result)).returncode == 0
    saved = ("--save", str(result), "--catalog", str(book))
    when = ("watch", str(result), "--when", "cost>10%", *saved)
    quiet = run(*when)
    assert (quiet.returncode, quiet.stdout) == (0, "nothing changed that was asked for\n")
    offers = book / "offers.csv"
    offers.write_text(offers.read_text().replace("on_demand,0.6,", "on_demand,0.7,"))
    with webhook() as (url, heard):
        told = run(*when, "--to", url, "--to", str(log), PLACER_WEBHOOK_SECRET=SECRET)
    assert told.returncode == 6, told.stderr
    ((headers, body),) = heard
    assert is_signed(headers, body)
    document = json.loads(body)
    assert document == json.loads(log.read_text())
    assert document["failed"] == ["cost>10%"]
    cost = next(row for row in document["figures"] if row["name"] == "cost")
    assert cost["relative_change"] == pytest.approx(0.7 / 0.6 - 1)
    assert run(*when).returncode == 0  # from the new price on


def test_a_change_that_nobody_takes_is_told_again(tmp_path: Path, run: Run) -> None:
    """The delivery fails, so the result that the watch counts from stays as it was."""
    book, result = tmp_path / "book", tmp_path / "result.json"
    shutil.copytree(ROOT / "catalogs" / "erben-2023", book)
    run(*ASKED, "--catalog", str(book), "-o", str(result))
    offers, before = book / "offers.csv", result.read_bytes()
    offers.write_text(offers.read_text().replace("on_demand,0.6,", "on_demand,0.7,"))
    with webhook(401) as (url, _):
        failed = run(
            *("watch", str(result), "--to", url, "--save", str(result), "--catalog", str(book)),
            PLACER_WEBHOOK_SECRET=SECRET,
        )
    assert failed.returncode == 1
    assert "answered 401" in failed.stderr
    assert SECRET not in failed.stderr + failed.stdout
    assert result.read_bytes() == before

"""Documents from servers that drip, lead elsewhere or never end, and what of an address is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from price_servers import Answer, Request, serving

from placer.errors import PlacerError
from placer.market.sources.harvest import Origin
from placer.market.sources.reading.csv_text import read_table
from placer.market.sources.reading.fetch import FAILED, Document, read_document

ROWS = b"a,b\n1,2\n"


@contextmanager
def dripping(start: bytes) -> Iterator[str]:
    """A server that sends some bytes and then one byte every 20 ms for as long as somebody
    reads.
    """
    over, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection = listener.accept()[0]
        with connection:
            connection.recv(65536)
            connection.sendall(start)
            try:
                while not over.wait(0.02):
                    connection.sendall(b"a")
            except OSError:
                pass

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/prices.csv"
    finally:
        over.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX-Slow: "]
)
def test_a_server_that_drips_is_given_up(start: bytes) -> None:
    """Each byte comes well within the silence of 5 s, in the body or in a header, and all of them
    would take hours.
    """
    with (
        dripping(start) as url,
        pytest.raises(PlacerError, match=r"took longer than 0\.3 s") as caught,
    ):
        read_document(url, most_seconds=0.3, read_seconds=5)
    assert caught.value.exit_code == FAILED


def test_a_redirection_is_followed_and_its_own_body_is_not_read() -> None:
    """The first answer says that 2 GB follow, and sends 3 bytes: who waited for them would fail."""

    def answer(request: Request) -> Answer:
        return (
            Answer(ROWS)
            if request.path == "/end.csv"
            else Answer(b"abc", 302, {"Location": "/end.csv"}, length=2 << 30)
        )

    with serving(answer) as server:
        assert read_document(f"{server.url}/start.csv", read_seconds=2).data == ROWS


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("file:///etc/passwd", "unsupported protocol"),
        ("/again.csv", "redirects more than 8 times"),
        ("http://[::1", "redirects to an address that is not valid"),
    ],
)
def test_a_redirection_to_nowhere_is_a_source_that_failed(location: str, words: str) -> None:
    """Files of this machine are no source, and a loop ends."""
    with (
        serving(lambda request: Answer(b"", 302, {"Location": location})) as server,
        pytest.raises(PlacerError, match=words) as caught,
    ):
        read_document(f"{server.url}/again.csv")
    assert caught.value.exit_code == FAILED


def test_secrets_of_an_address_stay_out_of_origins_and_errors() -> None:
    """A signed address has its signature in the query, others have a password before the host; both
    are sent, neither is told.
    """

    def answer(request: Request) -> Answer:
        return Answer(
            ROWS
            if request.query == {"sig": "CANARY"} and "authorization" in request.headers
            else b"",
            200 if request.query else 404,
        )

    with serving(answer) as server:
        place = server.url.replace("//", "//me:CANARY@")
        found = read_document(f"{place}/a.csv?sig=CANARY")
        with pytest.raises(PlacerError, match="answered 404") as caught:
            read_document(f"{place}/a.csv")
    assert found.data == ROWS
    assert found.origin.place == f"{server.url}/a.csv?..."
    assert "CANARY" not in str(caught.value)


def test_proxy_settings_that_cannot_be_used_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library refuses such a proxy when it is made, with an exception that is none of its
    own.
    """
    monkeypatch.setenv("ALL_PROXY", "nonsense://127.0.0.1:9")
    with pytest.raises(PlacerError, match="proxy settings"):
        read_document("http://127.0.0.1:9/a.csv")


def test_a_header_of_a_hundred_thousand_columns_is_read_at_once() -> None:
    """Counting each name among all others would take minutes; the last name appears twice."""
    header = ",".join(f"c{i}" for i in range(100_000)) + ",c7\n"
    document = Document(
        data=header.encode(), origin=Origin(place="wide.csv", sha256="", size_bytes=len(header))
    )
    with pytest.raises(PlacerError, match="column 'c7' appears twice"):
        read_table(document)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_on_this_machine_is_reached_without_the_proxy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """The proxy's port is closed: a request through it would fail."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(lambda request: Answer(body=ROWS)) as server:
        port = server.url.rpartition(":")[2].strip("/")
        assert read_document(f"http://{host}:{port}/a.csv").data == ROWS

"""Documents from servers that drip, lead elsewhere or never end, and files without an end."""

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from price_servers import Answer, Request, serving

from conftest import Run
from placer.errors import PlacerError
from placer.files import bounded_file
from placer.files.bounded_file import bounded, read_file
from placer.market.sources.harvest import Origin, Tally
from placer.market.sources.reading.fetch import FAILED, Document, read_document
from placer.market.sources.reading.mapping import SourceMap
from placer.market.sources.reading.records import read_records

ROWS = b"a,b\n1,2\n"


@contextmanager
def dripping(start: bytes) -> Iterator[str]:
    """A server that sends some bytes and then one byte every 20 ms."""
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
    """Each byte comes well within the silence of 5 s; all of them would take hours."""
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
    """A signature stands in the query, a password before the host; both are sent, not told."""

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
    """The library refuses such a proxy when it is made."""
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
        read_records(document, SourceMap(), Tally(skip_bad=False))


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


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="devices and pipes of Linux")


def test_a_file_of_the_limit_is_read_and_one_byte_more_is_not(tmp_path: Path) -> None:
    """1,024 bytes of 1,024."""
    path = tmp_path / "a.json"
    path.write_bytes(b"x" * 1024)
    assert read_file(path, most_bytes=1024) == b"x" * 1024
    path.write_bytes(b"x" * 1025)
    with pytest.raises(PlacerError, match=r"a\.json' has more than 0\.000976562 MiB, the limit"):
        read_file(path, most_bytes=1024)


def test_a_sparse_file_is_refused_by_its_size(tmp_path: Path) -> None:
    """A terabyte that holds nothing: not one byte is read."""
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    start = time.monotonic()
    with pytest.raises(PlacerError, match="more than 32 MiB"):
        read_file(path)
    assert time.monotonic() - start < 1


def test_a_device_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more of it than of a file of lines, however large a regular file may be."""
    with pytest.raises(PlacerError, match="'/dev/zero' has more than 32 MiB"):
        read_file("/dev/zero")
    monkeypatch.setattr(bounded_file, "MOST_LINES_BYTES", 1 << 20)
    with pytest.raises(PlacerError, match="'/dev/zero' has more than 1 MiB") as caught:
        bounded("/dev/zero", "a hint", 1 << 40, exit_code=7)
    assert (caught.value.hint, caught.value.exit_code) == ("a hint", 7)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """A folder, no file, a name with a NUL, a name that is too long."""
    for path, words in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file or directory"),
        ("a\0b", "null"),
        ("x" * 5000, "File name too long"),
    ):
        with pytest.raises(PlacerError, match=words) as caught:
            read_file(path, "the hint")
        assert caught.value.hint == "the hint"


def test_a_pipe_that_nobody_writes_into_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open it would wait for a writer for ever."""
    monkeypatch.setattr(bounded_file, "WRITER_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PlacerError, match=r"nobody wrote into this pipe within 0\.1 s"):
        read_file(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("parts", "whole"), [((b"ab", b"cd"), b"abcd"), ((b"x" * 300_000,), b"x" * 300_000), ((), b"")]
)
def test_a_pipe_is_read_to_its_end(tmp_path: Path, parts: tuple[bytes, ...], whole: bytes) -> None:
    """The writer comes late and pauses between two parts, or writes nothing."""
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        time.sleep(0.1)
        with path.open("wb", buffering=0) as pipe:
            for part in parts:
                pipe.write(part)
                time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_file(path) == whole
    writer.join()


MODEL = ("--model", "roberta-xlm", "--catalog", "erben-2023")


@pytest.mark.parametrize(
    "words",
    [
        ("validate", "FILE"),
        ("explain", "FILE"),
        ("recommend", "--model", "FILE"),
        ("recommend", *MODEL, "--quota", "FILE"),
        ("recommend", *MODEL, "--calibration", "FILE"),
        ("export", "FILE", "--to", "torchrun", "--dir", "out"),
        ("run", "FILE", "--train", "a:b", "--local"),
        ("run", "--rehearse", "FILE"),
        ("whatif", "FILE", "--observed", "FILE"),
        ("network", "import", "iperf3", "FILE", "--from", "gcp/us-west1", "--to", "aws/us-east-1"),
        ("profile", "runs", "FILE", "--catalog", "erben-2023"),
        ("whatif", "--merge", "FILE"),
        ("network", "import", "csv", "FILE"),
        ("catalog", "import", "csv", "FILE", "--as", "x"),
    ],
    ids=" ".join,
)
def test_no_command_reads_a_device_to_its_end(
    command: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """/dev/zero in the place of each document: one line, and no more memory than the limit."""
    done = command(*("/dev/zero" if w == "FILE" else w.replace("FILE", "/dev/zero") for w in words))
    assert done.returncode in (2, 7)
    assert done.stderr.startswith("error: '/dev/zero' has more than "), done.stderr
    assert " MiB, the limit\n  tip: " in done.stderr

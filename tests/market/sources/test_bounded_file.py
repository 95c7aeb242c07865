"""Files of the user are read up to a limit: devices without an end, files that grow, pipes."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from conftest import Run
from placer.errors import PlacerError
from placer.files import bounded_file
from placer.files.bounded_file import bounded, read_file

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
    ("parts", "whole"),
    [((b"ab", b"cd"), b"abcd"), ((b"x" * 300_000,), b"x" * 300_000), ((), b"")],
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

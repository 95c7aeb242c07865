"""Files that are there whole or not at all: umask, owners, full disks, and what a kill leaves."""

import errno
import multiprocessing
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from running import files_of_at_most

from placer.cli.output import write_text
from placer.errors import PlacerError
from placer.files import whole_files
from placer.files.whole_files import exchange_names, folder_beside, whole_file, write_whole
from placer.launch.export import folder
from placer.launch.export.folder import MANIFEST, left_over, write_folder
from placer.launch.export.texts.files import MARK


@pytest.fixture
def private() -> Iterator[None]:
    """A umask of 077: new files are for their owner alone."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def names(path: Path) -> list[str]:
    """List what lies in a folder."""
    return sorted(entry.name for entry in path.iterdir())


def mode(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_new_files_follow_the_umask_and_old_ones_keep_their_mode(
    tmp_path: Path, private: None
) -> None:
    """Under umask 077 a new file is 0600 and a folder 0700; one that was 0640 stays so."""
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("{}", encoding="utf-8")
    old.chmod(0o640)
    for file in (new, old):
        write_text(str(file), "text")
        assert file.read_text(encoding="utf-8") == "text"
    assert (mode(new), mode(old)) == (0o600, 0o640)
    write_folder(str(tmp_path / "launch"), {MANIFEST: "{}", "start.sh": "#"})
    launch = tmp_path / "launch"
    modes = [mode(path) for path in (launch, launch / MANIFEST, launch / "start.sh")]
    assert modes == [0o700, 0o600, 0o700]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")
def test_a_file_of_another_owner_stays_with_its_owner(open_folder: Path) -> None:
    """Root gives the new file to the owner of the old one; another user, who may not, is refused
    and the file stays as it was.
    """
    file = open_folder / "plan.json"
    file.write_text("old", encoding="utf-8")
    os.chown(file, 12_345, 12_346)
    write_text(str(file), "new")
    assert (file.stat().st_uid, file.stat().st_gid) == (12_345, 12_346)
    open_folder.chmod(0o777)
    file.chmod(0o666)
    process = multiprocessing.get_context("fork").Process(target=_written_by, args=(23_456, file))
    process.start()
    process.join()
    assert process.exitcode == errno.EPERM
    assert file.read_text(encoding="utf-8") == "new"
    assert names(open_folder) == ["plan.json"]


def _written_by(user: int, file: Path) -> None:
    os.setgid(user)
    os.setuid(user)
    try:
        write_whole(file, b"theirs")
    except PermissionError as error:
        os._exit(errno.EPERM if "belongs to another user" in str(error) else 99)
    os._exit(0)


@pytest.mark.parametrize("anonymous", [True, False])
def test_a_full_disk_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anonymous: bool
) -> None:
    """No byte beyond 100 may be written (RLIMIT_FSIZE stands for the disk): the error names the
    file, and nothing lies beside it.
    """
    if not anonymous:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    file = tmp_path / "plan.json"
    write_text(str(file), "old")
    words = r"cannot write '.*plan\.json': File too large"
    with files_of_at_most(100), pytest.raises(PlacerError, match=words) as caught:
        write_text(str(file), "new" * 1000)
    assert caught.value.hint == "free some space, or choose another disk"
    assert file.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["plan.json"]


WRITER = """
import os, sys
from pathlib import Path
from placer.files.whole_files import write_whole
if sys.argv[2] == "named":
    del os.O_TMPFILE
print("begins", flush=True)
while True:
    write_whole(Path(sys.argv[1]), b"x" * 200_000)
"""


@pytest.mark.parametrize("how", ["anonymous", "named"])
def test_kill_9_leaves_a_whole_file_and_the_next_write_clears_up(tmp_path: Path, how: str) -> None:
    """Ten writers are killed at different moments: the file is whole at once, and alone after one
    more write. The fallback without O_TMPFILE leaves more, and clears it up too.
    """
    file = tmp_path / "plan.json"
    for number in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file), how], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(0.005 * number)
            writer.kill()
        assert not file.exists() or file.stat().st_size == 200_000
    write_whole(file, b"last")
    assert (names(tmp_path), file.read_bytes()) == (["plan.json"], b"last")


def test_what_a_living_process_writes_is_not_cleared_up(tmp_path: Path) -> None:
    """Two exports of one folder side by side; the lock tells the living from the dead."""
    with folder_beside(tmp_path / "launch") as first:
        with folder_beside(tmp_path / "launch") as second:
            assert first.is_dir()
        assert (first.is_dir(), second.exists()) == (True, False)
    dead = tmp_path / ".launch.placer-00000000"
    dead.mkdir()
    with folder_beside(tmp_path / "launch"):
        assert not dead.exists()


def test_a_folder_is_exchanged_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With renameat2 no name is ever free; a system without it brings the old folder back after a
    kill between its two renames.
    """
    target = tmp_path / "launch"
    write_folder(str(target), {MANIFEST: "old"})
    moves: list[str] = []
    monkeypatch.setattr(Path, "replace", lambda *names: moves.append(str(names)))
    write_folder(str(target), {MANIFEST: "new"})
    if sys.platform == "linux":
        assert not moves
    monkeypatch.undo()
    target.rename(tmp_path / ".launch.old.placer-00000000")  # killed here
    monkeypatch.setattr(folder, "exchange_names", lambda *names: False)
    write_folder(str(target), {"other.yaml": "text", MANIFEST: "newer"})
    assert (target / MANIFEST).read_text(encoding="utf-8") == "newer"
    assert names(tmp_path) == ["launch"]


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_names_are_exchanged(tmp_path: Path) -> None:
    """Both are there before and after; a missing one is no success."""
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "it").write_text(name, encoding="utf-8")
    assert exchange_names(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "it").read_text(encoding="utf-8") == "b"
    assert not exchange_names(tmp_path / "a", tmp_path / "c")


def test_large_files_of_others_are_neither_read_nor_copied(tmp_path: Path) -> None:
    """A sparse file of 1 TiB lies in the folder of the export: only its head is looked at, and it
    keeps its inode, so that whoever writes into it goes on.
    """
    target = tmp_path / "launch"
    write_folder(str(target), {MANIFEST: "{}", "old.yaml": f"# {MARK}\n"})
    with (target / "data.bin").open("wb") as stream:
        try:
            stream.truncate(2**40)
        except OSError:
            stream.truncate(2**33)
    inode = (target / "data.bin").stat().st_ino
    assert left_over(str(target), {MANIFEST: ""}) == ["old.yaml"]
    write_folder(str(target), {MANIFEST: "{}"})
    assert (target / "data.bin").stat().st_ino == inode
    assert names(target) == ["data.bin", MANIFEST]
    shutil.rmtree(target)


def test_a_target_that_is_made_meanwhile_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes the new file between the look and the write: the last one wins."""
    file, link = tmp_path / "plan.json", whole_files._link

    def late(descriptor: int, name: Path) -> bool:
        if name == file:
            file.write_bytes(b"first")
        return link(descriptor, name)

    monkeypatch.setattr(whole_files, "_link", late)
    write_whole(file, b"last")
    assert (names(tmp_path), file.read_bytes()) == (["plan.json"], b"last")


def test_of_several_files_none_is_replaced_if_one_cannot_be_written(tmp_path: Path) -> None:
    """The second does not fit (RLIMIT_FSIZE): the first, which did, stays as it was as well."""
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_bytes(b"old")
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        _write_both(first, second)
    assert (names(tmp_path), first.read_bytes()) == (["first.csv"], b"old")


def _write_both(first: Path, second: Path) -> None:
    with ExitStack() as stack:
        for file, size in ((first, 10), (second, 1000)):
            stream = stack.enter_context(whole_file(file))
            stream.write(b"x" * size)
            stream.flush()


def test_a_forked_child_does_not_remove_the_folder_of_its_parent(tmp_path: Path) -> None:
    """A child that leaves the block, as one does that ends, lets the folder be; the parent does
    not.
    """
    stack = ExitStack()
    made = stack.enter_context(folder_beside(tmp_path / "plan"))
    child = os.fork()
    if child == 0:
        stack.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert made.is_dir()
    stack.close()
    assert not made.exists()

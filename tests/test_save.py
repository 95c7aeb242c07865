"""Books on the user's shelf: put in place at once, and never taken away under a reader."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from placer.layers import find_layer
from placer.sources.harvest import Harvest, Row
from placer.sources.save import save

ROW: Row = {
    "src": "aws/us-east-1",
    "dst": "gcp/us-west1",
    "gbps_one_stream": 1.0,
    "rtt_ms": 60.0,
    "basis": "measured",
    "source": "iperf3",
    "as_of": "2026-11-01",
}
LINKS = Harvest(rows={"links.csv": [ROW]}, origins=[])


def test_the_folder_before_is_kept_behind_a_linked_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three writings the last two folders stay, also where PLACER_HOME is a link, as /tmp is on macOS."""
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    monkeypatch.setenv("PLACER_HOME", str(tmp_path / "home"))
    made = [save(LINKS, "mine").resolve() for _ in range(3)]
    assert [folder.is_dir() for folder in made] == [False, True, True]


def test_an_interruption_after_the_change_keeps_the_new_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the oldest folder is dropped: the link has moved already, so the new folder has to stay."""
    monkeypatch.setenv("PLACER_HOME", str(tmp_path))
    save(LINKS, "mine")
    before = save(LINKS, "mine").resolve()

    def interrupted(folder: Path, ignore_errors: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            save(LINKS, "mine")
    assert (tmp_path / "catalogs" / "mine").resolve() != before
    assert set(find_layer("mine").files) == {"links.csv"}

"""A disk that is full while placer writes: one line that names the file, nothing half written, and
a run that goes on from there.

Two real refusals of the system: a limit on the size of files (EFBIG, everywhere), and a tiny file
system in memory (ENOSPC, where a mount namespace may be made).
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from run_plans import A, B, document, plan_of, saved, settings_of
from running import alive, files_of_at_most

from conftest import ROOT, completed
from placer.errors import PlacerError
from placer.launch.export.folder import write_folder
from placer.launch.runtime.run_log import RunLog
from placer.validation.calibration.run_log import read_log

TESTS = str(ROOT / "tests")


def _fill(log: RunLog) -> None:
    for step in range(1000):
        log.write({"kind": "step", "step": step, "rank": 0, "place": A})


def test_a_log_ends_with_a_whole_record(tmp_path: Path) -> None:
    """4,000 bytes: the record that does not fit is taken back, so every line of the file can be
    read; so too a summary that is added.
    """
    told = document("all-reduce", (A, 2))
    plan, path = plan_of(told), tmp_path / "out" / "run.jsonl"
    with (
        RunLog(path, plan, settings_of(tmp_path, plan), links="loopback") as log,
        files_of_at_most(4000),
    ):
        with pytest.raises(
            PlacerError, match=r"cannot write '.*out/run\.jsonl': File too large"
        ) as caught:
            _fill(log)
        with pytest.raises(PlacerError, match=r"cannot write '.*run\.jsonl'"):
            log.write({"kind": "summary", "words": "x" * 1000})
    assert caught.value.exit_code == 1
    assert caught.value.hint.startswith("free some space")
    lines = path.read_bytes().splitlines(keepends=True)
    assert 3900 < path.stat().st_size <= 4000
    assert [json.loads(line)["step"] for line in lines[1:]] == list(range(len(lines) - 1))
    assert lines[-1].endswith(b"\n")
    assert len(read_log(path)) == len(lines)


def test_an_export_stays_as_it_was(tmp_path: Path) -> None:
    """The old folder is still there, and no temporary file beside it; single files are written in
    test_whole_files.py.
    """
    folder = tmp_path / "launch"
    write_folder(str(folder), {"manifest.json": "{}", "start.sh": "old\n"})
    before = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*"))
    words = r"cannot write '.*launch': File too large"
    with files_of_at_most(1000), pytest.raises(PlacerError, match=words) as caught:
        write_folder(str(folder), {"manifest.json": "{}", "start.sh": "x" * 2000})
    assert caught.value.hint == "free some space, or choose another disk"
    assert (folder / "start.sh").read_text() == "old\n"
    assert sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before


TRIAL = """
mount -t tmpfs -o size=$SIZE none disk || exit 99
$PLACER run $WORDS 2> kept/said.full > kept/out.full; echo $? > kept/code.full
cp -r disk/out kept/out
head -c 1000000 /dev/zero > disk/fill 2> kept/said.fill
$PLACER export plan.json --to torchrun --dir disk/launch 2> kept/said.export
echo $? > kept/code.export
find disk > kept/files
"""
"""A run on a disk of some bytes, and an export where none is left."""


def full_disk(folder: Path, told: dict[str, Any], size: str, *more: str) -> Path:
    """Run a plan on a tiny disk of its own; return the folder with copies of what it left. The
    mount ends with its processes.
    """
    unshare = shutil.which("unshare")
    if unshare is None or sys.platform != "linux":
        pytest.skip("needs unshare")
    for name in ("disk", "kept"):
        (folder / name).mkdir()
    words = (
        f"{saved(folder, told)} --train run_plans:tiny --local --checkpoint-every 5 -o "
        f"disk/out {' '.join(more)}"
    )
    extra = {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}",
        "PLACER": f"{sys.executable} -m placer",
        "WORDS": words,
        "SIZE": size,
    }
    spaces = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    done = completed(
        [unshare, *spaces, "sh", "-c", TRIAL],
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **extra},
        start_new_session=True,
    )
    if done.returncode == 99 or (done.returncode and not (folder / "kept" / "code.full").exists()):
        pytest.skip(f"no mount namespace here: {done.stderr.strip()[-100:]}")
    return folder / "kept"


def test_a_run_on_a_full_disk_ends_and_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    """96 KiB hold some checkpoints of two workers: the run ends by itself with one line; with more
    room it goes on to step 60.

    Meanwhile an export writes nothing and says so. The run's parameters are those of a run that was
    never disturbed, to the last bit.
    """
    pytest.importorskip("torch")
    told = document("all-reduce", (A, 1), (B, 1))
    kept = full_disk(tmp_path, told, "96k", "--steps", "60")
    said = (kept / "said.full").read_text()
    assert (kept / "code.full").read_text().strip() == "1", said
    errors = [line for line in said.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "No space left on device" in errors[0]
    assert any(f"disk/out/{name}" in errors[0] for name in ("run.jsonl", "checkpoints/step"))
    assert "free some space" in said
    assert "Traceback" not in said
    records = [json.loads(line) for line in (kept / "out" / "run.jsonl").read_text().splitlines()]
    pids = [record["pid"] for record in records if record["kind"] == "ready"]
    assert pids
    assert not any(map(alive, pids))
    said = (kept / "said.export").read_text()
    assert (kept / "code.export").read_text().strip() == "2"
    assert "cannot write 'disk/launch': No space left on device" in said
    assert "launch" not in (kept / "files").read_text()
    from forked_ranks import ran as forked
    from plain_torch import digests

    again = forked(kept / "out", told, steps=60, checkpoint_every=5, resume=True)
    start = {record["start"] for record in again if record["kind"] == "ready"}
    assert min(start) >= 5
    alone = forked(tmp_path / "alone", told, steps=60, checkpoints="")
    assert digests(again, 2) == digests(alone, 2)

"""The command line as a user meets it: output, errors, exit codes, files."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, completed, in_fresh_python
from placer.cli.output import check_targets
from placer.errors import PlacerError

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")


def test_files_are_written_whole_and_validate(run: Run, tmp_path: Path) -> None:
    """-o and --manifest; both are accepted by validate."""
    result, manifest = tmp_path / "r.json", tmp_path / "m.json"
    done = run(
        "recommend", *ERBEN, "--budget", "5/h", "-o", str(result), "--manifest", str(manifest)
    )
    assert done.returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.json", "r.json"]
    assert "priced again" in run("validate", str(result)).stdout
    assert "manifest of 8 workers" in run("validate", str(manifest)).stdout


def test_output_files_are_checked_before_anything_is_solved_or_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same file twice, a folder, a missing folder for the second: nothing is written at all. A
    folder that the user may not write into is refused as well; root may write anywhere.
    """
    one, gone = str(tmp_path / "r.json"), str(tmp_path / "none" / "m.json")
    for paths in (
        ("-o", one, "--manifest", one),
        ("-o", str(tmp_path)),
        ("-o", one, "--manifest", gone),
        ("-o", gone),
        ("-o", ""),
    ):
        done = run("recommend", *ERBEN, "--budget", "5/h", *paths)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert list(tmp_path.iterdir()) == []
    check_targets(one)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PlacerError, match="cannot be written"):
        check_targets(one)


def test_links_are_followed_and_the_mode_kept(run: Run, tmp_path: Path) -> None:
    """A symbolic link stays one; a private file stays private; a device is refused."""
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("{}", encoding="utf-8")
    target.chmod(0o600)
    link.symlink_to(target)
    assert run("recommend", *ERBEN, "--budget", "5/h", "-o", str(link)).returncode == 0
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert json.loads(target.read_text(encoding="utf-8"))["schema"] == "placer.result/v1"
    assert (
        "no regular file" in run("recommend", *ERBEN, "--budget", "5/h", "-o", "/dev/null").stderr
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("offers --limit 500 | head -1; exit ${PIPESTATUS[0]}", 0, ""),
        ("models > /dev/full", 1, "cannot write the output"),
    ],
)
def test_a_reader_that_is_gone_is_no_error_and_a_full_disk_is_one_line(
    words: str, code: int, says: str
) -> None:
    """``placer offers | head -1`` ends well; output that cannot be written is exit code 1 without a
    traceback.
    """
    done = completed(["bash", "-c", f"{sys.executable} -m placer {words}"], cwd=ROOT)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert says in done.stderr if says else done.stderr == ""


PLACED = "gcp/us-central1=2xT4:spot"


@pytest.mark.parametrize(
    ("words", "code", "written"),
    [
        ("recommend --budget 5/h --manifest FILE", 0, True),
        ("recommend --budget 0.01/h -o FILE", 3, True),
        (f"estimate --workers {PLACED} --manifest FILE --json", 0, True),
        ("pareto --points 2 --budget 5/h -o FILE", 0, True),
        ("recommend --modl x --json", 2, False),
    ],
)
@pytest.mark.parametrize("both", [False, True])
def test_a_command_runs_to_its_end_though_nobody_reads(
    words: str, code: int, written: bool, both: bool, tmp_path: Path
) -> None:
    """``| true`` changes neither files nor the exit code: it ended with 0 or 1, by chance, also
    where nothing fits, and `estimate` without its file. So it is where stderr has no reader either.
    """
    path = tmp_path / "written.json"
    command = [*words.replace("FILE", str(path)).split(), *ERBEN]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "placer", *command],
        stdout=write,
        stderr=write if both else subprocess.PIPE,
        cwd=ROOT,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    os.close(write)
    assert (done.returncode, path.exists()) == (code, written), done.stderr


def test_a_version_without_a_reader_is_no_error() -> None:
    """Options that end at once, and a stdout or stderr that is closed from the start."""
    placer = f"{sys.executable} -m placer"
    script = f"{placer} --version | true; echo ${{PIPESTATUS[0]}}; {placer} models >&-; echo $?; "
    script += f"{placer} models >/dev/null 2>&-; echo $?"
    done = completed(["bash", "-c", script], cwd=ROOT)
    assert (done.stdout.split(), "rror" in done.stderr) == (["0", "0", "0"], False)


def test_a_stream_without_an_end_ends_with_its_reader(tmp_path: Path) -> None:
    """What is printed for a feed that goes on for ever is not written to nobody for ever."""
    script = (
        "import sys; from placer.cli.screen.streams import has_reader, outlasting\n"
        "stdout = outlasting(sys.stdout)\n"
        "while has_reader(stdout):\n    print('x' * 9999, file=stdout, flush=True)\n"
        "sys.stderr.write('ended')"
    )
    done = completed(["bash", "-c", f'{sys.executable} -c "{script}" | head -1'], cwd=ROOT)
    assert done.stderr == "ended"


def test_ctrl_c_while_modules_load_is_one_line() -> None:
    """At ten moments of a start, from the first line of placer's own on: 130 and no traceback.
    Where SIGINT is ignored, as in the background of a script, it stays so.
    """
    script = (
        "import signal, sys, threading; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})\n"
        "from placer.__main__ import main\n"
        "class Interrupter:\n"
        "    left = int(sys.argv.pop())\n"
        "    def find_spec(self, *args):\n"
        "        Interrupter.left -= 1\n"
        "        if not Interrupter.left: signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupter())\n"
        "main()"
    )
    for imports in (1, 2, 5, 10, 20, 40, 60, 80, 100, 120):
        done = completed(
            [sys.executable, "-c", script, "recommend", *ERBEN, "--budget", "5/h", str(imports)],
            cwd=ROOT,
        )
        assert (done.returncode, done.stdout) == (130, ""), imports
        assert done.stderr.strip() == "interrupted"
    script = script.replace("signal.default_int_handler", "signal.SIG_IGN")
    done = completed([sys.executable, "-c", script, "--version", "5"], cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "1" * 400, '{"schema": "placer.result/v1"}', '{"schema": 1}', "\x00", "[" * 50_000],
)
def test_validate_refuses_broken_files_in_one_line(run: Run, tmp_path: Path, text: str) -> None:
    """Cut off, wrong type, incomplete, binary, nested too deep."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    done = run("validate", str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_runs_from_any_folder_without_a_home(run: Run, tmp_path: Path) -> None:
    """Nothing is read from the current folder, nothing is written."""
    done = run(
        "recommend",
        *ERBEN,
        "--budget",
        "5/h",
        "--json",
        cwd=tmp_path,
        HOME=str(tmp_path / "nobody"),
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_looked_through_for_garbage_at_the_end() -> None:
    """What is left when a command has ended is frozen before Python ends, not sooner: whoever calls
    `run` in a process of their own keeps collecting.
    """
    code = (
        "import atexit, gc\n"
        "atexit.register(lambda: print('at exit', gc.get_freeze_count() > 1000))\n"
        "from placer.cli import run\n"
        "try:\n    run(['--version'])\n"
        "except SystemExit:\n    print('after', gc.get_freeze_count())\n"
    )
    done = in_fresh_python(code)
    assert done.stdout.splitlines()[1:] == ["after 0", "at exit True"]


def test_time_limit_zero_ends_at_once(run: Run) -> None:
    """Best so far with exit 0, or exit 4 if nothing was found; never a hang."""
    done = run(
        "recommend", "--model", "resnet50", "--budget", "20/h", "--gpu", "T4", "--time-limit", "1us"
    )
    assert done.returncode in (0, 4)
    assert "Traceback" not in done.stderr


def test_what_is_not_installed_is_named_with_its_line(
    command: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pip knows no package, each extra has the line that installs it."""

    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    rows = json.loads(command("config", "check", "--json").stdout)["rows"]
    extras = [row for row in rows if row["name"].startswith("extra ")]
    assert {row["found"] for row in extras} == {"not installed"}
    assert all(row["name"].removeprefix("extra ") in row["hint"] for row in extras)


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="a file of Linux")
def test_a_file_without_an_end_is_not_waited_for(run: Run, tmp_path: Path) -> None:
    """The kernel's messages are a file by their kind, whose reader would wait for the next one."""
    done = run("validate", "/proc/kmsg")
    assert (done.returncode, "cannot read '/proc/kmsg'" in done.stderr) == (2, True)


def test_a_number_of_400_digits_is_one_line(run: Run, tmp_path: Path) -> None:
    """In a saved answer: `report` failed inside, as no float is that large."""
    document = tmp_path / "answer.json"
    assert run("recommend", *ERBEN, "--budget", "5/h", "-o", str(document)).returncode == 0
    told = json.loads(document.read_text(encoding="utf-8"))
    told["objective"]["value"] = 10**400
    document.write_text(json.dumps(told), encoding="utf-8")
    done = run("report", str(document), "-o", str(tmp_path / "report.html"))
    assert (done.returncode, "value is 100000000000... and has 401 digits" in done.stderr) == (
        2,
        True,
    )

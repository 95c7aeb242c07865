"""``placer run`` as a user calls it: output, log, bad input, a killed launcher, ranks from the
environment.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from conforming import validator
from listening import listeners, open_to_others, watched
from run_plans import A, B, document, plan_of, saved, settings_of
from running import alive

from conftest import INTERRUPTIBLE, PROCESS_TIMEOUT_S, ROOT, Run, free_port
from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder
from placer.launch.runtime.processes import launcher as launching
from placer.launch.runtime.processes import run as running_here
from placer.launch.runtime.processes.launcher import Job, Launcher, Machine, check_models
from placer.launch.runtime.processes.run import (
    _machines,
    check_torchft,
    ranks_from,
    run_here,
    run_ranks,
)
from placer.records import replace
from placer.report.contents import contents

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from forked_ranks import ran as forked  # noqa: E402
from forked_ranks import signalling  # noqa: E402
from plain_torch import digests  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_machines")
TESTS = str(ROOT / "tests")
PATHS = {"PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}


def lines_of(log: Path) -> list[dict[str, Any]]:
    """The records of a log."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_the_test_manifest_follows_the_schema() -> None:
    """Else the tests would run what placer does not write."""
    check = validator("manifest")
    for strategy in ("all-reduce", "central", "parameter-server", "model-averaging"):
        check.validate(document(strategy, (A, 2), (B, 1)))


def launcher_of(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> Launcher:
    """A launcher of one machine, whose process runs some code in place of placer's."""
    monkeypatch.setattr(launching, "MACHINE", ("-c", code))
    told = document("all-reduce", (A, 1), (B, 1))
    plan = plan_of(told)
    job = Job(
        plan=plan,
        document=told,
        settings=settings_of(folder, plan),
        machines=(Machine(seats=plan.seats(1)[:1], address="127.0.0.1"),),
        host="127.0.0.1",
        port=1,
        links="loopback",
        extra={},
    )
    return Launcher(job, lambda record: None)


STEP = {"kind": "step", "rank": 0, "step": 4}
FAULT = {"kind": "fault", "rank": 0, "lost": 1, "step": 3, "reason": "silent"}
RESUME = "run it again with --resume: it goes on from the last checkpoint, if there is one"


def error(code: int, hint: str = "") -> dict[str, Any]:
    """The record of an error."""
    return {"kind": "error", "rank": 0, "message": "boom", "hint": hint, "exit_code": code}


@pytest.mark.parametrize(
    ("records", "code", "message", "hint", "exit_code"),
    [
        ([STEP], -9, "stopped in step 5: killed by SIGKILL", f"{RESUME}; dmesg says whether", 1),
        ([STEP], 3, "stopped in step 5: ended with code 3", RESUME, 1),
        ([], 0, "stopped in step 0: ended without a word", RESUME, 1),
        ([STEP, error(1, "less")], 1, "stopped in step 5: boom", f"less; {RESUME}", 1),
        ([STEP, error(1), error(1, "late")], 1, "stopped in step 5: boom", RESUME, 1),
        ([STEP, error(2, "less")], 1, "boom", "less", 2),
        ([error(1, "less")], 1, "boom", "less", 1),
        ([STEP, FAULT], 75, "rank 1 (gcp/b) was lost in step 3: silent", RESUME, 1),
    ],
)
def test_how_a_worker_ends_is_said_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[dict[str, Any]],
    code: int,
    message: str,
    hint: str,
    exit_code: int,
) -> None:
    """After the step that it ended: a signal, a code, its own error or that of another. What is
    wrong with the words, or fails before the first step, has no step and no checkpoint.
    """
    lines = [json.dumps(record) for record in [*records, {"kind": "exit", "code": code}]]
    say = f"import json, os; os.write(json.loads(input())['pipes'][-1], {chr(10).join(lines)!r}"
    launcher = launcher_of(tmp_path, monkeypatch, f"{say}.encode() + b'\\n')")
    with pytest.raises(PlacerError) as caught:
        launcher.run()
    whole = f"rank 0 (gcp/a) {message}" if message.startswith("stopped") else message
    assert (caught.value.message, caught.value.exit_code) == (whole, exit_code)
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("words", "rank", "found"),
    [
        ("0", "", (0,)),
        ("0-2", "", (0, 1, 2)),
        (" 1-2 ", "", (1, 2)),
        (None, "2", (2,)),
        (
            "3",
            "",
            "rank '3' is not among 0 to 2 (the manifest has 2 workers and 1 server, the last ",
        ),
        ("0-3", "", "rank '0-3' is not among 0 to 2"),
        ("2-1", "", "rank '2-1' is not among 0 to 2"),
        ("one", "", "rank 'one' is not a valid rank (set RANK, or --rank 3 or --rank 0-3, or "),
        (None, "", "no rank is given"),
    ],
)
def test_ranks_are_read_from_words_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, words: str | None, rank: str, found: tuple[int, ...] | str
) -> None:
    """Of two workers and their server; what they lack is refused, with those that they have."""
    monkeypatch.setenv("RANK", rank)
    plan = plan_of(document("parameter-server", (A, 1), (B, 1)))
    if isinstance(found, tuple):
        assert ranks_from(words, plan) == found
        return
    with pytest.raises(PlacerError, match=f"^{re.escape(found)}"):
        ranks_from(words, plan)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "neither MASTER_ADDR nor PLACER_RENDEZVOUS_ADDRESS is set"),
        ({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "0"}, "MASTER_PORT is '0'"),
        ({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "65536"}, "MASTER_PORT is '65536'"),
        ({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "ssh"}, "MASTER_PORT is 'ssh'"),
        ({"MASTER_ADDR": "10.0.0.1", "WORLD_SIZE": "3"}, "WORLD_SIZE is 3, the manifest has 2 "),
    ],
)
def test_a_meeting_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str
) -> None:
    """Before anything starts: no address, no port, another number of machines."""
    for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "PLACER_RENDEZVOUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = document("all-reduce", (A, 1), (B, 1))
    plan = plan_of(told)
    with pytest.raises(PlacerError, match=f"^{said}"):
        run_ranks(plan, told, settings_of(tmp_path, plan), tmp_path, lambda record: None, (0,))


@pytest.mark.parametrize(
    ("workers", "host", "one", "links"),
    [
        (1, "127.0.0.1", False, "real"),
        (2, "127.0.0.1", False, "loopback"),
        (2, "10.0.0.1", False, "real"),
        (2, "10.0.0.1", True, "loopback"),
    ],
)
def test_a_log_says_whose_links_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, host: str, one: bool, links: str
) -> None:
    """Those of one machine where several ranks meet at an address that no other reaches."""
    monkeypatch.setenv("MASTER_ADDR", host)
    monkeypatch.setattr(running_here, "_logged", lambda job, *_: [job.links])
    told = document("all-reduce", (A, workers))
    plan = plan_of(told)
    words = (plan, told, settings_of(tmp_path, plan), tmp_path, lambda record: None, (0,))
    found: Any = run_ranks(*words, one_machine=one)
    assert found == [links]


@pytest.mark.parametrize(
    ("strategy", "local_steps", "steps", "words"),
    [
        ("diloco", 4, 10, r"10 steps are no whole rounds of 4 local steps \(give --steps 12\)"),
        ("streaming-diloco", 18, 18, r"8 fragments at even distances, not in 18 .*steps 16\)"),
    ],
)
def test_rounds_that_torchft_would_cut_are_refused(
    strategy: str, local_steps: int, steps: int, words: str
) -> None:
    """With the next number that it does."""
    late = strategy == "streaming-diloco"
    told = document(strategy, (A, 1), (B, 1), local_steps=local_steps, overlap=late)
    with pytest.raises(PlacerError, match=words):
        check_torchft(plan_of(told), steps)


def test_a_recommended_plan_runs(run: Run, command: Run, tmp_path: Path) -> None:
    """Manifest of `placer recommend`, four workers in two regions: table, notes, and a log that
    follows its schema.

    ResNet-18 has 11.7 million parameters, the tiny model 33; 4 workers, FP16: each ordered pair of
    workers carries 2 x 33 x 2 / 4 = 33 bytes. A step lasts 18 s in any case, so one worker stands
    apart, which sends least: 3 pairs each way between the regions make 99. Shards of 8 and 9
    elements differ from that by up to 9 %.
    """
    words = (
        "--model resnet18 --catalog erben-2023 --exchange all-reduce --budget 5/h --in gcp/* "
        "--regions 2..2 --workers 4..4 --quota 8"
    )
    made = command("recommend", *words.split(), "--manifest", "plan.json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    more = "--train run_plans:loose --local --steps 5 --tbs 16 --microbatch 2 -o out"
    done = run("run", "plan.json", *more.split(), cwd=tmp_path, columns=120, **PATHS)
    assert done.returncode == 0, done.stderr
    assert "loading data" in done.stderr
    assert "loading data" not in done.stdout
    assert "all-reduce, 4 workers in 2 regions; 4 rounds measured" in done.stdout
    assert (
        "the plan's resnet18 exchanges 23,400,000 bytes, this model 66: seconds do not compare"
        in done.stdout
    )
    records = lines_of(tmp_path / "out" / "run.jsonl")
    check = validator("run")
    for record in records:
        check.validate(record)
    pairs = [row for row in records[-1]["bytes"] if row["src"] != row["dst"]]
    assert [row["predicted"] for row in pairs] == pytest.approx([99.0, 99.0])
    assert [row["measured"] for row in pairs] == pytest.approx([99.0, 99.0])
    refused = command("profile", "runs", "out/run.jsonl", "--catalog", "erben-2023", cwd=tmp_path)
    assert refused.returncode == 2
    assert "all workers ran on one machine" in refused.stderr


def test_one_worker_in_one_region(command: Run, tmp_path: Path) -> None:
    """A machine alone exchanges nothing."""
    words = "--model resnet18 --catalog erben-2023 --gpu T4 --workers 1..1 --manifest plan.json"
    made = command("recommend", *words.split(), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["world_size"] == 1
    more = "--train run_plans:tiny --local --steps 3 --tbs 6 --microbatch 3 -o out"
    done = command("run", "plan.json", *more.split(), cwd=tmp_path, columns=120, **PATHS)
    assert done.returncode == 0, done.stderr
    assert "no exchange, 1 worker in 1 region; 2 rounds measured" in done.stdout
    assert "->" not in done.stdout


def test_bad_input_is_said_in_one_line(command: Run, tmp_path: Path) -> None:
    """Exit code 2, the thing and what to do; nothing is started."""
    told = document("all-reduce", (A, 2))
    edited, newer = {**told, "world_size": 3}, {**told, "schema": "placer.manifest/v9"}
    late = document("model-averaging", (A, 1), (B, 1), overlap=True)
    cases = [
        (edited, ("--local",), "the digest differs: the manifest was edited by hand"),
        (newer, ("--local",), "manifest version 9 is newer than this placer"),
        (late, ("--local",), "placer run does not do model-averaging beside the next step"),
        (told, ("--local", "--tbs", "1"), "target batch size 1 is below the 2 workers"),
        (told, ("--rank", "0-2"), "rank '0-2' is not among 0 to 1"),
        (told, ("--local", "--timeout", "nan"), "'nan' is not a number"),
        (told, ("--local", "--timeout", "1e300"), "1e+300 is not in the range"),
    ]
    for document_, words, said in cases:
        asked = ("run", saved(tmp_path, document_), "--train", "run_plans:tiny", *words)
        done = command(*asked, cwd=tmp_path, **PATHS)
        assert done.returncode == 2, (said, done.stderr)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert not (tmp_path / "tiny-all-reduce-2-run").exists()


TAKEN = [
    "error: another run is writing into 'out'",
    "  tip: wait until it has ended, or choose another --out",
]


def test_one_run_at_a_time_has_a_folder(command: Run, tmp_path: Path) -> None:
    """The second is refused in one line, before it writes anything."""
    words = ("--train", "run_plans:tiny", "--local", "-o", "out")
    path = saved(tmp_path, document("none", (A, 1)))
    with locked_folder(tmp_path / "out"):
        refused = command("run", path, *words, cwd=tmp_path, **PATHS)
    assert (refused.returncode, refused.stderr.splitlines()) == (2, TAKEN)
    assert not list((tmp_path / "out").iterdir())


def test_one_run_at_a_time_has_a_rank(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --local: ranks of one run share a folder; the log of a rank, or a folder where a
    --local run writes, is another run's. Nothing is set aside.
    """
    path, out = saved(tmp_path, document("all-reduce", (A, 2))), tmp_path / "out"
    words = ("run", path, "--train", "run_plans:tiny", "--rank", "0", "-o", "out")
    environment = {**PATHS, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    out.mkdir()
    for name in ("run.jsonl", "."):
        (out / "run.jsonl").write_text("{}\n", encoding="utf-8")
        descriptor = os.open(out / name, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        refused = command(*words, cwd=tmp_path, **environment)
        os.close(descriptor)
        assert (refused.returncode, refused.stderr.splitlines()) == (2, TAKEN)
        assert [entry.name for entry in out.iterdir()] == ["run.jsonl"]
    with (
        locked_folder(out, "run", "--out", shared=True),
        locked_folder(out, "run", "--out", shared=True),
        pytest.raises(PlacerError, match="another run is writing"),
        locked_folder(out, "run", "--out"),
    ):
        pass


def test_a_wrong_train_function_is_said_once(command: Run, tmp_path: Path) -> None:
    """Both processes fail alike; the user reads it once, without a traceback."""
    path = saved(tmp_path, document("all-reduce", (A, 2)))
    words = ("--train", "run_plans:stepping", "--local")
    done = command("run", path, *words, cwd=tmp_path, **PATHS)
    assert done.returncode == 2
    assert "error: run_plans:stepping returns a step function" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


def test_a_job_that_is_restarted_begins_or_goes_on(command: Run, tmp_path: Path) -> None:
    """--resume-if-any: the first start begins with step 0, the second goes on before step 2, and a
    run cannot end before that. --json prints the last line of the log, with its schema.
    """
    told = document("none", (A, 1))
    path, more = saved(tmp_path, told), ["--train", "run_plans:tiny", "--local", "-o", "out"]
    for steps, start in ((2, 0), (3, 2)):
        words = [*more, "--steps", str(steps), "--resume-if-any", "--json"]
        done = command("run", path, *words, cwd=tmp_path, **PATHS)
        assert done.returncode == 0, done.stderr
        printed = json.loads(done.stdout)
        validator("run").validate(printed)
        with pytest.raises(PlacerError, match=r"give its run\.jsonl"):
            contents(printed)
        records = lines_of(tmp_path / "out" / "run.jsonl")
        assert [record["start"] for record in records if record["kind"] == "ready"] == [start]
        assert printed == {"schema": "placer.run/v1", **records[-1]}
    with pytest.raises(PlacerError, match="begin with one after step 2, the run ends after 1"):
        forked(tmp_path / "out", told, steps=1, resume=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_the_launcher(tmp_path: Path, how: signal.Signals) -> None:
    """Killed or interrupted while it runs: all ranks end by themselves."""
    path = saved(tmp_path, document("all-reduce", (A, 1), (B, 1)))
    asked = "--train run_plans:tiny --local --steps 1000000 -o out"
    words = [sys.executable, "-c", INTERRUPTIBLE, "run", path, *asked.split()]
    with (tmp_path / "said").open("w") as said:
        launcher = subprocess.Popen(
            words, cwd=tmp_path, env={**os.environ, **PATHS}, stdout=said, stderr=said
        )
    log, pids = tmp_path / "out" / "run.jsonl", []
    try:
        until = time.monotonic() + 300
        while time.monotonic() < until and launcher.poll() is None:
            lines = log.read_text().splitlines() if log.exists() else []
            if any('"step"' in line for line in lines):
                pids = [json.loads(line)["pid"] for line in lines if '"kind": "ready"' in line]
                break
            time.sleep(0.05)
        launcher.send_signal(how)
        code = launcher.wait(timeout=PROCESS_TIMEOUT_S)
    finally:
        launcher.kill()
        launcher.wait()
    assert len(pids) == 2, (tmp_path / "said").read_text()
    assert code == (-9 if how == signal.SIGKILL else 130)
    until = time.monotonic() + 300
    while time.monotonic() < until and any(map(alive, pids)):
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_ranks_from_the_environment(tmp_path: Path) -> None:
    """Two launchers, as on two machines: RANK=0 and --rank 1-2; rank 0 has the whole log, which
    says that they met on one, and the other folder has the records of its own ranks. All listen on
    the loopback device, where MASTER_ADDR is: no other machine can join them.
    """
    path = saved(tmp_path, document("all-reduce", (A, 1), (B, 2)))
    asked = "--train run_plans:slow --steps 6 --threads 1 --device cpu"
    words = [sys.executable, "-m", "placer", "run", path, *asked.split()]
    where = {
        "MASTER_ADDR": "127.0.0.2",
        "MASTER_PORT": str(free_port()),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    before = listeners()
    started = [
        subprocess.Popen(
            [*words, *more],
            cwd=tmp_path,
            env={**os.environ, **PATHS, **where, **extra},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for more, extra in ((["-o", "zero"], {"RANK": "0"}), (["-o", "one", "--rank", "1-2"], {}))
    ]
    try:
        with watched() as seen:
            said = [process.communicate(timeout=PROCESS_TIMEOUT_S) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0, 0], said
    assert len(seen - before) >= 2
    assert open_to_others(seen - before) == set()
    records = lines_of(tmp_path / "zero" / "run.jsonl")
    assert records[0]["links"] == "loopback"  # nobody else reaches 127.0.0.2
    steps = [(record["rank"], record["step"]) for record in records if record["kind"] == "step"]
    assert sorted(steps) == [(rank, step) for rank in range(3) for step in range(6)]
    assert "5 rounds measured" in said[0][0]
    own = {record.get("rank", 1) for record in lines_of(tmp_path / "one" / "run-rank-1.jsonl")}
    assert own == {1, 2}


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("nothere:f", "cannot import nothere: No module named 'nothere'"),
        ("nothere.inside:f", "cannot import nothere.inside: No module named 'nothere'"),
        ("run_plans", "'run_plans': expected module:function, such as mymodel:profile"),
        ("run_plans:tyni", "run_plans has no function 'tyni'"),
        ("broken:f", "cannot import broken: SyntaxError: "),
    ],
)
def test_a_module_or_function_that_is_missing_is_said_once(
    command: Run, tmp_path: Path, train: str, words: str
) -> None:
    """Before any process starts: one line and its tip, not one of each worker; no log is made."""
    plan = saved(tmp_path, document("all-reduce", (A, 2), (B, 1)))
    (tmp_path / "broken.py").write_text("def f(:\n")
    more = ("--train", train, "--local", "--out", str(tmp_path / "out"))
    done = command("run", str(plan), *more, cwd=tmp_path, **PATHS)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2
    assert words in done.stderr
    assert not (tmp_path / "out" / "run.jsonl").exists()


@pytest.mark.parametrize("rank", [1, 0])
def test_a_killed_worker_ends_the_run_which_goes_on_from_its_checkpoint(
    tmp_path: Path, rank: int
) -> None:
    """One line names rank, place and how it ended; the resumed run ends like an undisturbed one."""
    told = document("all-reduce", (A, 1), (B, 1))
    plan, watch = plan_of(told), signalling(rank, 25, signal.SIGKILL)
    usual = settings_of(tmp_path, plan, steps=100_000, checkpoint_every=10)
    place = r"gcp/b" if rank else r"gcp/a"
    words = rf"rank {rank} \({place}\) stopped in step \d+: killed by SIGKILL"
    with pytest.raises(PlacerError, match=words) as caught:
        run_here(plan, told, usual, tmp_path, watch)
    assert caught.value.exit_code == 1
    assert caught.value.hint.startswith("run it again with --resume")
    newest = max((tmp_path / "checkpoints").glob("step-*/world-0/identity.json"))
    last = int(newest.parts[-3].removeprefix("step-")) + 2
    records = run_here(
        plan, told, replace(usual, steps=last, resume=True), tmp_path, lambda record: None
    )
    assert {r["start"] for r in records if r["kind"] == "ready"} == {last - 2}
    whole = forked(tmp_path / "whole", told, steps=last, checkpoints="")
    assert digests(records, 2) == digests(whole, 2)


@pytest.mark.skipif(sys.platform != "linux", reason="stops a process")
def test_a_silent_worker_is_named_after_the_timeout(tmp_path: Path) -> None:
    """Stopped, not dead: the others give it up, and the run ends."""
    told = document("all-reduce", (A, 1), (B, 1))
    plan, watch = plan_of(told), signalling(1, 2, signal.SIGSTOP)
    settings = settings_of(tmp_path, plan, steps=100_000, timeout_s=3.0, checkpoints="")
    with pytest.raises(PlacerError, match=r"rank 1 \(gcp/b\) was lost in step \d+: "):
        run_here(plan, told, settings, tmp_path, watch)


def test_unlike_models_at_the_end_are_an_error() -> None:
    """Exit code 1 and one line; gossip alone ends with different models."""
    plan = plan_of(document("diloco", (A, 1), (B, 1), local_steps=2))
    ends = [{"rank": rank, "parameters_sha256": f"{rank}"} for rank in (1, 0)]
    with pytest.raises(PlacerError, match=r"rank 1 .* ends with another model than rank 0") as one:
        check_models(plan, ends)
    assert one.value.exit_code == 1


def test_worlds_on_gpus_are_started_apart(tmp_path: Path) -> None:
    """A world of one worker and one of two; without GPUs all three share a start."""
    plan = plan_of(document("model-averaging", (A, 1), (B, 2), local_steps=2))
    for device, starts in (("cpu", [3]), ("cuda", [1, 2])):
        settings = replace(settings_of(tmp_path, plan), device=device)
        assert [len(machine.seats) for machine in _machines(plan, settings, None)] == starts


@pytest.mark.skipif(sys.platform != "linux", reason="epoll lists events by when they came")
def test_a_machine_may_end_before_its_worker_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of agent and worker are events of one look, that of the agent first."""
    agent_first = "import json, os; [os.close(p) for p in json.loads(input())['pipes'][::-1]]"
    launcher = launcher_of(tmp_path, monkeypatch, agent_first)
    launcher.sites = [launcher._started(launcher.job.machines[0])]
    launcher.running, launcher.last = [*launcher.sites], {("end", 0): {"kind": "end"}}
    launcher.sites[0].process.wait()
    launcher._look()
    assert launcher.running == []
    launcher.close()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (
            'import os; os.write(pipe, b\'{"kind": "answer", "message": "no store"}\\n\')',
            "no store",
        ),
        ("", "its process has ended"),
    ],
)
def test_records_that_nobody_can_hand_over_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, why: str
) -> None:
    """The machine's process cannot reach the store, or is gone: one line, and no wait."""
    first = "import json; pipe = json.loads(input())['pipes'][-1]; input()"
    launcher = launcher_of(tmp_path, monkeypatch, f"{first}; {code}")
    launcher.sites = [launcher._started(launcher.job.machines[0])]
    with pytest.raises(PlacerError, match=f"machine 0 handed over no records: {why}") as one:
        launcher.hand_over({"own": {}, "others": [1], "wait_s": 60.0})
    assert one.value.exit_code == 1
    launcher.close()

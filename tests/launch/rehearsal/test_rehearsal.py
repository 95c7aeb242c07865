"""Rehearsals as users start them: real processes behind shaped links, and what is refused.

How near an honest plan comes on a quiet machine is measured by ``make rehearse``. Here machines may
be busy: of several rounds the fastest counts, and what is asserted holds by a wide margin.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conforming import validate
from rehearsed import EU, LONDON, OREGON, STORES, US, by_hand, manifest_of, written
from shaping import shaped

from conftest import Run
from placer.documents.manifest import document_digest, read_manifest
from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder
from placer.launch.rehearsal import rehearsal as module
from placer.launch.rehearsal.judgement import lines_of, verdict
from placer.launch.rehearsal.rehearsal import Rehearsal, RehearsalOptions, check_kill, rehearse
from placer.launch.rehearsal.small_plan import small_plan
from placer.launch.shaped_network import Shape, ShapedNetwork, open_network
from placer.records import replace

SCALE = 1 / 10
"""5.12 MB each way at 15 MB/s and four round trips: 0.64 s."""


def ran(folder: Path, say: Callable[[str], None] = lambda words: None, **words: Any) -> Rehearsal:
    """A rehearsal of three rounds in this process."""
    manifest = read_manifest(manifest_of(*by_hand(**words)), "plan.json")
    return rehearse(manifest, "plan.json", RehearsalOptions(scale=SCALE, rounds=3), folder, say)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    """A rehearsal of an honest plan of two regions, on links as they are priced."""
    return ran(tmp_path_factory.mktemp("honest"))


@shaped
def test_an_honest_plan_is_measured_as_priced(honest: Rehearsal) -> None:
    """No exchange is faster than links allow, and the fastest is near it. 5.12 MB each way; before
    the first of four rounds PyTorch has copied the model of 10.24 MB.
    """
    exchange, *sent = lines_of(honest)
    assert exchange.predicted == pytest.approx(0.64, rel=0.03)
    assert exchange.difference is not None
    assert -0.05 < exchange.difference < 2.0  # a busy machine: 10 % is for a quiet one
    assert [line.what for line in sent] == [f"{EU} -> {US}", f"{US} -> {EU}"]
    assert [line.predicted for line in sent] == pytest.approx([5.12e6, 7.68e6])
    assert all(line.within for line in sent)
    assert honest.rates == pytest.approx({(EU, US): 15e6, (US, EU): 15e6}, rel=0.1)


@shaped
@pytest.mark.parametrize("times", [2.0, 100.0, 1 / 2, 1 / 100])
def test_a_real_exchange_that_was_priced_wrong_is_named(honest: Rehearsal, times: float) -> None:
    """Measured with 15 MB/s and 103 ms; priced with links so many times as fast and as near. The
    honest price is off by what this machine is busy.
    """
    small = honest.small
    links = tuple(
        replace(
            link,
            gbps_one_stream=(link.gbps_one_stream or 0.0) * times,
            gbps_many_streams=(link.gbps_many_streams or 0.0) * times,
            rtt_ms=(link.rtt_ms or 0.0) / times,
        )
        for link in small.problem.catalog.links
    )
    catalog = replace(small.problem.catalog, links=links)
    hosts = {
        name: replace(host, base_s=host.base_s / times)
        for name, host in small.problem.calibration.hosts.items()
    }
    calibration = replace(small.problem.calibration, hosts=hosts)
    problem = replace(small.problem, catalog=catalog, calibration=calibration)
    priced = replace(honest, small=replace(small, problem=problem))
    assert priced.small.exchange_s == pytest.approx(small.exchange_s / times, rel=1e-3)
    off, right = lines_of(priced)[0].difference, lines_of(honest)[0].difference
    assert off is not None
    assert right is not None
    assert 1 + off == pytest.approx(times * (1 + right), rel=1e-3)
    named = verdict(lines_of(priced)).startswith(f"not confirmed: exchange {off:+.1%}")
    assert named == (abs(off) > 0.1)


@pytest.mark.nightly
@shaped
def test_half_the_bandwidth_of_a_real_link_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way from the US to Europe carries half of what is priced, and is the only one named.
    Each run compares both rates of the honest plan, and names a slow one in test_judgement.py.
    """

    @contextmanager
    def slower(places: list[str], shapes: Iterable[Shape]) -> Iterator[ShapedNetwork]:
        planted = [
            replace(
                shape,
                stream_bytes_per_s=shape.stream_bytes_per_s / 2,
                pair_bytes_per_s=shape.pair_bytes_per_s / 2,
            )
            if (shape.src, shape.dst) == (US, EU)
            else shape
            for shape in shapes
        ]
        with open_network(places, planted) as network:
            yield network

    monkeypatch.setattr(module, "open_network", slower)
    words = verdict(lines_of(ran(tmp_path)))
    assert words.startswith("not confirmed: exchange +")
    assert f"rate {US} -> {EU} -" in words
    assert f"rate {EU}" not in words


def processes_of(folder: Path, rank: int) -> list[int]:
    """Processes of a rank whose run writes into a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        told = {f"PLACER_OUT={folder.absolute() / 'run'}", f"PLACER_RANK={rank}"}
        if {word.encode() for word in told} <= {*environment}:
            found.append(int(process.name))
    return found


@shaped
def test_a_lost_rank_is_named(tmp_path: Path) -> None:
    """All processes of rank 1 die in the middle: one line says who was lost, and none is left."""

    def say(words: str) -> None:
        if words.startswith("round 2/"):
            for pid in processes_of(tmp_path, 1):
                os.kill(pid, signal.SIGKILL)

    with pytest.raises(PlacerError, match=rf"^rank 1 \({EU}\)") as caught:
        ran(tmp_path, say)
    assert caught.value.exit_code == 1
    assert str(tmp_path) in (caught.value.hint or "")
    assert not processes_of(tmp_path, 0)


@shaped
@pytest.mark.usefixtures("warm_machines")
def test_requests_to_the_store_are_exact(command: Run, tmp_path: Path) -> None:
    """N + 1 = 4 writes, 2 n = 6 reads and n = 3 lists in a round (Phalak et al., 2024, eq. 5)."""
    path, logs = written(tmp_path, exchange="central", **STORES), str(tmp_path / "logs")
    words = (str(path), "--dir", logs, "--json", "--rounds", "3", "--scale", "1/5")
    done = command("run", "--rehearse", *words)
    assert done.returncode in (0, 6), done.stderr
    document = json.loads(done.stdout)
    validate(document, "rehearsal")
    assert document["confirmed"] == (done.returncode == 0)
    rows = {row["what"]: row for row in document["lines"]}
    for kind, count in (("write", 4), ("read", 6), ("list", 3)):
        row = rows[kind]
        assert (row["predicted"], row["within"]) == (count, True)
        assert row["measured"] == count
    for way in ((LONDON, OREGON), (OREGON, LONDON)):
        assert rows[" -> ".join(way)]["within"]
    assert rows["exchange"]["measured"] > 0.3


@shaped
def test_a_worker_that_is_killed_costs_the_step_under_way(command: Run, tmp_path: Path) -> None:
    """And the one before it where the death came before its checkpoint.

    It dies in step 2, counted from 0: both have kept steps 0 and 1, the run that goes on begins
    with step 2 at the latest and is judged.
    """
    plan, words = str(written(tmp_path)), "--scale 1/10 --rounds 3 --kill 1@2 -o killed.json --dir"
    done = command("run", "--rehearse", plan, *words.split(), str(tmp_path), cwd=tmp_path)
    assert done.returncode in (0, 6), done.stderr
    lost = r"2: the step under way was|1: 1 whole step and the step under way were"
    assert re.search(f"resumed before step ({lost}) done again", done.stdout)
    killed = json.loads((tmp_path / "killed.json").read_text(encoding="utf-8"))
    validate(killed, "rehearsal")
    first, second = killed["deaths"]
    assert first.startswith("rank 1 (gcp/europe-west1) killed in step 2; the run ended: ")
    assert second.startswith("resumed before step ")
    assert all(row["within"] is not None for row in killed["lines"])
    log = (tmp_path / "run" / "run.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in log.splitlines()]
    steps = {record["step"] for record in records if record["kind"] == "step"}
    assert min(steps) <= 2
    assert max(steps) == 5


@shaped
def test_sigkill_leaves_nothing(tmp_path: Path) -> None:
    """Scripts, ranks, relay and namespaces end by themselves when the command is killed."""
    words = ["run", "--rehearse", str(written(tmp_path)), "--scale", "1/50", "--rounds", "500"]
    run = [sys.executable, "-m", "placer", *words, "--dir", str(tmp_path / "logs")]
    logs, until = tmp_path / "logs", time.monotonic() + 170
    with subprocess.Popen(
        run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(said for said in process.stderr if "round 1/" in said)
        assert processes_of(logs, 0)
        process.send_signal(signal.SIGKILL)
    while time.monotonic() < until and processes_of(logs, 0):
        time.sleep(0.05)
    assert not processes_of(logs, 0)


@shaped
def test_a_relay_that_dies_is_named() -> None:
    """Whoever asks it next hears so, and its broken pipe does not pass for a reader that has closed
    standard output.
    """
    way = {"stream_bytes_per_s": 1e8, "pair_bytes_per_s": 1e8, "rtt_s": 0.0}
    ways = [Shape(src="A", dst="B", **way), Shape(src="B", dst="A", **way)]
    with open_network(["A", "B"], ways) as network:
        network.process.kill()
        with pytest.raises(PlacerError, match="the relay of the rehearsal's network has ended"):
            network.traffic()


class TestRefused:
    """What the command refuses, before anything is started: one line, exit code 2."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--scale", "2"], "--scale '2' is not a share of the plan"),
            (["--scale", "1/0"], "--scale '1/0' is not a share"),
            (["--scale", "nan"], "--scale 'nan' is not a share"),
            (["--kill", "one"], "'one' does not name a worker and a step"),
            (["--kill", "1@0"], "'1@0' does not name a worker and a step"),
            (["--limit", "soon"], "duration 'soon' is not a time"),
            (["--scale", "1/2", "--train", "a:b"], "the size of your model is the scale"),
            (["--scale", "1e-9"], "leaves 0 of 25,600,000 parameters, fewer than 10,000"),
            (["--limit", "1ms"], "s, the limit is 1 ms"),
            (["--kill", "2@1"], "no worker 2 that dies in step 1"),
            (["--kill", "0@6"], "workers are ranks 0 to 1, steps 1 to 5"),
            (["--dir", "plan.json"], "cannot make the folder 'plan.json': it is a file"),
            (["-o", "no/such.json"], "cannot write 'no/such.json'"),
        ],
    )
    def test_words_that_cannot_work(
        self, command: Run, tmp_path: Path, words: list[str], message: str
    ) -> None:
        """No process of the run was started: there are no scripts."""
        pytest.importorskip("torch")
        where = [] if "--dir" in words else ["--dir", "logs"]
        done = command("run", "--rehearse", str(written(tmp_path)), *where, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "logs" / "launch").exists()

    def test_a_model_without_parameters(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It would exchange nothing."""
        pytest.importorskip("torch")
        from placer.launch.runtime.training.trainer import load_model

        text = """import torch
from placer.profiler.workload import Workload
def empty():
    return Workload(name="e", title="e", family="other", module=torch.nn.Identity(),
                    batch=torch.randn, loss=lambda m, x: x.sum(), optimizer=list)
"""
        (tmp_path / "empty_model.py").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(PlacerError, match="no parameter that is trained"):
            load_model("empty_model:empty")

    def test_one_worker(self, command: Run, tmp_path: Path) -> None:
        """It exchanges nothing."""
        pytest.importorskip("torch")
        done = command("run", "--rehearse", str(written(tmp_path, workers=f"{US}=1xT4:spot")))
        assert (done.returncode, "nothing to rehearse" in done.stderr) == (2, True)

    def test_a_death_among_functions_and_stores(self) -> None:
        """They start and end as one run."""
        small = small_plan(*by_hand(exchange="central", **STORES), 0.1)
        with pytest.raises(PlacerError, match="--kill: functions and stores of central"):
            check_kill(0, 1, small.plan, 5)

    def test_a_manifest_without_links(self, tmp_path: Path, command: Run) -> None:
        """It says to write it again."""
        pytest.importorskip("torch")
        whole = manifest_of(*by_hand())
        told = {key: value for key, value in whole.items() if key != "digest"} | {"question": None}
        path = tmp_path / "plan.json"
        document = {**told, "digest": document_digest(told)}
        path.write_text(json.dumps(document), encoding="utf-8")
        done = command("run", "--rehearse", str(path))
        assert done.returncode == 2
        assert "a manifest without links and prices" in done.stderr


def test_more_processes_than_a_machine_has_room_for_are_refused() -> None:
    """Twelve workers in each of two regions with a store, and the pairs of functions and stores: 30
    processes are fine, 54 would not be.
    """
    words = {**STORES, "workers": f"{OREGON}=12xCPU-2:on-demand,{LONDON}=12xCPU-2:on-demand"}
    small = small_plan(*by_hand(exchange="hierarchical", **words), 0.1)
    RehearsalOptions(limit_s=1e9).check(small, small.plan)
    many = replace(small.plan, places=small.plan.places * 2)
    with pytest.raises(PlacerError, match="are 54 processes, a rehearsal has at most 48"):
        RehearsalOptions().check(small, many)


def test_one_rehearsal_at_a_time_has_a_folder(command: Run, tmp_path: Path) -> None:
    """The second is refused in one line, before it writes anything; other folders are free."""
    path = written(tmp_path)
    with locked_folder(tmp_path / "logs"), locked_folder(tmp_path / "others"):
        done = command("run", "--rehearse", str(path), "--dir", str(tmp_path / "logs"))
        assert done.returncode == 2
        assert (
            done.stderr.splitlines()[0]
            == f"error: another rehearsal is writing into '{tmp_path / 'logs'}'"
        )
        assert not list((tmp_path / "logs").iterdir())
    with locked_folder(tmp_path / "logs"):
        pass


def test_sigkill_frees_the_folder(tmp_path: Path) -> None:
    """The kernel does, although a process that was started meanwhile lives on."""
    code = f"""
import subprocess, sys
from pathlib import Path
from placer.launch.folder_lock import locked_folder
with locked_folder(Path({str(tmp_path)!r})):
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with (
            pytest.raises(PlacerError, match="another rehearsal is writing into"),
            locked_folder(tmp_path),
        ):
            pass
        holder.kill()
        holder.wait()
    os.kill(child, 0)
    with locked_folder(tmp_path):
        os.kill(child, signal.SIGKILL)

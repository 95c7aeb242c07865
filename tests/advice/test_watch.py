"""``placer capacity watch``: decisions on lines, and real processes on feeds that grow."""

import codecs
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conforming import validate

import placer
from conftest import PROCESS_TIMEOUT_S, ROOT
from placer.advice.policy.trace import Job, Market
from placer.advice.policy.watch import Change, watch
from placer.errors import PlacerError
from placer.files.growing_file import LOOK_S, MOST_LINE_BYTES, Line, follow
from placer.interface import replay

HEAD = "utc,gcp/us-central1-a,gcp/us-east4-a"
JOB = Job(machines=4, work_h=4.0, deadline_h=8.0, restart_h=0.25, reform_h=0.05, checkpoint_gib=10)
MARKET = Market(
    zones=("gcp/us-central1-a", "gcp/us-east4-a"),
    on_demand_place="gcp/us-central1",
    on_demand_usd_per_hour=10.0,
    egress_usd_per_gib=((0.0, 0.02, 0.0), (0.02, 0.0, 0.02), (0.0, 0.02, 0.0)),
)


def rows(*counts: str, minutes: int = 30) -> list[str]:
    """Lines of a log, one every half an hour."""
    return [
        f"2026-11-01T{at * minutes // 60:02d}:{at * minutes % 60:02d}Z,{count}"
        for at, count in enumerate(counts)
    ]


def changes(*lines: str, held: dict[str, int] | None = None, job: Job = JOB) -> list[Change]:
    """What a feed of these lines changes, at 1 and 2 USD an hour."""
    feed = [Line(text=text, file="feed", number=at) for at, text in enumerate(lines, 1)]
    prices = np.array([1.0, 2.0])
    return [*watch(feed, job, lambda zones: (prices, MARKET), tick_h=0.5, held=held or {})]


def actions(change: Change) -> list[tuple[str, int, int]]:
    """Kind, place and machines of each action."""
    return [(one.action, MARKET.places.index(one.place), one.machines) for one in change.actions]


def test_only_ticks_that_change_something_are_told() -> None:
    """Four machines start in the first zone, and nothing changes for an hour. Then it has none, and
    the second one does: their start costs 0.25 h x 4 x 2 USD, and the checkpoint 10 x 0.02 USD.
    """
    first, second = changes(HEAD, *rows("4,0", "4,0", "0,4", "0,4"))
    assert actions(first) == [("add", 0, 4)]
    assert first.actions[0].usd == pytest.approx(1.0)  # 0.25 h x 4 x 1 USD
    assert actions(second) == [("lose", 0, 4), ("add", 1, 4)]
    assert second.actions[1].usd == pytest.approx(2.2)
    assert second.held == {"gcp/us-east4-a": 4}
    assert second.usd_per_hour == 8.0


def test_machines_that_go_count_as_gone_since_the_line_before() -> None:
    """Of the first hour 0.25 h are a start, and the last half hour is not believed: 0.25 h of work
    are done, and the slack is 8 - 1 - 3.75 h. A restart less is left to start on-demand machines.
    """
    change = changes(HEAD, *rows("4,0", "4,0", "0,0"))[1]
    assert change.done_hours == pytest.approx(0.25)
    assert change.slack_hours == pytest.approx(3.25)
    assert str(change.latest_on_demand)[11:16] == "04:00"  # 1:00 and 3.25 - 0.25 h


def test_an_island_grows_after_three_steady_lines() -> None:
    """Three machines at once; one that is there from the second line on joins at the fourth. The
    deadline is far: else an on-demand machine would fill the gap.
    """
    job = Job(machines=4, work_h=4.0, deadline_h=40.0)
    found = changes(HEAD, *rows("3,0", "4,0", "4,0", "4,0", "4,0"), job=job)
    assert [(one.utc[11:16], actions(one)) for one in found] == [
        ("00:00", [("add", 0, 3)]),
        ("01:30", [("add", 0, 1)]),
    ]


def test_on_demand_for_good_with_a_tick_in_hand() -> None:
    """4 h of work in 5 h: slack 1 h, of which a start takes 0.25 and a tick that may be lost 0.5.
    With nothing there at 0:00, half an hour more would leave too little: it begins at once.
    """
    job = Job(machines=4, work_h=4.0, deadline_h=5.0, restart_h=0.25)
    (only,) = changes(HEAD, *rows("0,0", "4,0", "4,0"), job=job)
    assert actions(only) == [("add", 2, 4)]
    assert only.on_demand_for_good
    assert only.to_dict()["held"] == {"gcp/us-central1 (on-demand)": 4}


def test_machines_that_run_already_stay() -> None:
    """Nothing changes, until the work is done at 4:00: then they are dropped and the watch ends."""
    (last,) = changes(HEAD, *rows(*["4,4"] * 10), held={"gcp/us-central1-a": 4})
    assert last.utc[11:16] == "04:00"
    assert last.finished
    assert actions(last) == [("drop", 0, 4)]
    assert last.usd == pytest.approx(16.0)


def test_cells_without_a_count_are_carried_forward_and_empty_lines_passed_over() -> None:
    """Nobody looked at the first zone: it has what it had."""
    assert len(changes(HEAD, "", *rows("4,0", ",0", ",", ""[:0] or "4,0"))) == 1


def test_files_of_a_folder_are_one_feed(tmp_path: Path) -> None:
    """In the order of their names, each with its header, the zones in any order; files that are
    still written under another name are passed over. The feed ends after a pause.
    """
    (tmp_path / "b.csv").write_text("utc,y,x\n2026-11-01T01:00Z,2,1", encoding="utf-8")
    (tmp_path / "a.csv").write_text("utc,x,y\n2026-11-01T00:00Z,1,2\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text("utc,x,y\n", encoding="utf-8")
    (tmp_path / "d.csv.tmp").write_text("half", encoding="utf-8")
    lines = [*follow(str(tmp_path), idle_s=0.3, sleep=lambda seconds: None)]
    assert [(Path(line.file).name, line.number) for line in lines] == [
        ("a.csv", 1), ("a.csv", 2), ("b.csv", 1), ("b.csv", 2), ("c.csv", 1),
    ]  # fmt: skip


def test_a_half_written_line_is_waited_for(tmp_path: Path) -> None:
    """The line is yielded once it has its end, and between looks there is a pause. What Windows
    writes before the first line is no part of it.
    """
    feed = tmp_path / "feed.csv"
    feed.write_bytes(codecs.BOM_UTF8 + b"one\ntw")
    pauses: list[float] = []

    def finish(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            with feed.open("ab") as file:
                file.write(b"o\n")

    lines = follow(str(feed), idle_s=60, sleep=finish)
    assert [line.text for line in islice(lines, 2)] == ["one", "two"]
    assert pauses == [LOOK_S] * 3


def test_a_line_without_end_is_refused_by_its_number(tmp_path: Path) -> None:
    """The third of a file, as soon as it has more than a mebibyte, though nobody has ended it."""
    feed = tmp_path / "feed.csv"
    feed.write_text(HEAD + "\nfirst\n" + "9" * (MOST_LINE_BYTES + 1), encoding="utf-8")
    with pytest.raises(PlacerError, match=r"feed\.csv:3: over 1,048,576 bytes in one line"):
        [*follow(str(feed), idle_s=0.3, sleep=lambda seconds: None)]


def test_a_feed_that_is_cut_or_replaced_is_refused(tmp_path: Path) -> None:
    """What is then appended would be read from the wrong place."""
    feed = tmp_path / "feed.csv"
    feed.write_bytes(b"one\ntwo\n")

    def cut(seconds: float) -> None:
        feed.write_bytes(b"one\n")

    with pytest.raises(PlacerError, match="was truncated or replaced"):
        [*follow(str(feed), idle_s=9, sleep=cut)]
    with pytest.raises(PlacerError, match=r"nowhere\.csv"):
        next(follow(str(tmp_path / "nowhere.csv")))
    feed.write_bytes(b"\xff\n")
    with pytest.raises(PlacerError, match=r"feed\.csv:1: no UTF-8"):
        next(follow(str(feed)))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A plan of a few T4 on the default book."""
    found = placer.recommend(
        "roberta-xlm", catalog="erben-2023", budget="1/h", gpu="T4", workers="4", alternatives=False
    )
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(json.dumps(found.to_manifest()), encoding="utf-8")
    return str(path)


WORDS = ("--gpu", "H100", "--machines", "4", "--work", "4h", "--deadline", "8h", "--tick", "30min")
COMMAND = (sys.executable, "-m", "placer", "capacity", "watch")


@pytest.fixture
def started(plan: str, tmp_path: Path) -> Iterator[Any]:
    """Start the command in a process of its own; what is left of it is ended."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, **pipes: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, plan, *words, "--catalog", "default", *WORDS],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            **pipes,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def test_a_file_that_grows(started: Any, tmp_path: Path) -> None:
    """Each change is told when its line has its end, no sooner; waiting takes next to no CPU;
    Ctrl-C ends it within a second with exit code 130.
    """
    feed = tmp_path / "feed.csv"
    first, second = rows("4,0", "0,4")
    feed.write_text(f"{HEAD}\n{first}\n{second[:8]}", encoding="utf-8")
    process = started(str(feed), "--json")
    told = json.loads(process.stdout.readline())
    validate(told, "watch")
    assert told["held"] == {"gcp/us-central1-a": 4}
    with feed.open("a", encoding="utf-8") as file:
        file.write(f"{second[8:]}\n")
    assert json.loads(process.stdout.readline())["held"] == {"gcp/us-east4-a": 4}
    before = cpu_s(process.pid)
    time.sleep(0.6)
    assert cpu_s(process.pid) - before < 0.2
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PROCESS_TIMEOUT_S)
    assert time.monotonic() - begun < 1.0
    assert process.returncode == 130
    assert errors.strip() == "interrupted"


def test_python_follows_a_file_as_the_command_does(plan: str, tmp_path: Path) -> None:
    """Its changes come one by one, and end after a pause."""
    feed = tmp_path / "feed.csv"
    feed.write_text("\n".join([HEAD, *rows("4,0", "0,4"), ""]), encoding="utf-8")
    words: dict[str, Any] = {"gpu": "H100", "machines": 4, "work": "4h", "deadline": "8h"}
    told = replay.watch(plan, str(feed), catalog="default", tick="30min", idle="0.1s", **words)
    held = [dict(change.to_dict()["held"]) for change in told]
    assert held == [{"gcp/us-central1-a": 4}, {"gcp/us-east4-a": 4}]


def test_the_deadline_of_the_question_counts(tmp_path: Path) -> None:
    """Where the command names none: 4.9 hours of work and a start do not fit in five."""
    words: dict[str, Any] = {"budget": "1/h", "gpu": "T4", "workers": "4", "samples": "1M"}
    found = placer.recommend(
        "roberta-xlm", catalog="erben-2023", deadline="5h", alternatives=False, **words
    )
    plan, feed = tmp_path / "plan.json", tmp_path / "feed.csv"
    plan.write_text(json.dumps(found.to_manifest()), encoding="utf-8")
    feed.write_text("\n".join([HEAD, *rows("4,0"), ""]), encoding="utf-8")
    own: dict[str, Any] = {"gpu": "H100", "machines": 4, "idle": "0.1s", "catalog": "default"}
    with pytest.raises(PlacerError, match=r"4\.9 h of work and a start .* do not fit in 5 h"):
        next(replay.watch(str(plan), str(feed), work="4.9h", **own))
    assert next(replay.watch(str(plan), str(feed), work="4h", **own)).to_dict()["held"]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_folder_that_stays_empty_ends_after_the_pause(tmp_path: Path) -> None:
    """A second of looks every `LOOK_S`, and no line."""
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        assert sum(naps) < 10

    assert [*follow(str(tmp_path), idle_s=1.0, sleep=nap)] == []
    assert 1.0 <= sum(naps) < 1.0 + naps[0]


def test_machines_that_are_held_are_read_by_zone() -> None:
    """Digits of other alphabets are no number, and a job holds its own machines alone."""
    assert replay._held(["gcp/us-east4-a=3"], JOB) == {"gcp/us-east4-a": 3}
    for word in (
        "gcp/us-east4-a",
        "=3",
        "gcp/us-east4-a=0",
        "gcp/us-east4-a=\N{ARABIC-INDIC DIGIT THREE}",
    ):
        with pytest.raises(PlacerError, match="write it as ZONE=N"):
            replay._held([word], JOB)
    with pytest.raises(PlacerError, match="9 machines held by a job of 4"):
        replay._held(["gcp/us-east4-a=9"], JOB)

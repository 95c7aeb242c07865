"""Sweeps: points, breakpoints, files that are taken up again, shards, processes and Dask."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from drawn import drawn

import placer
from conftest import PROCESS_TIMEOUT_S, ROOT, Run
from instances import two_places
from placer.advice.sweep import Sweep, append, merged, parse_axis, points_of, read_points, run_sweep
from placer.advice.worlds.whatif import apply
from placer.errors import PlacerError
from placer.problem.words.changes import parse_changes
from placer.report.stretches import breakpoints, stretches
from placer.solving.answer import SolveOptions

QUESTION = ("whatif", "--model", "roberta-xlm", "--catalog", "erben-2023", "--gpu", "T4,A10")
OVER = ("--over", "budget=1/h..5/h:5", "--over", "egress:*:internet=x1,x4")


def swept(*over: str, **wishes: object) -> Sweep:
    """A sweep of the small market."""
    return run_sweep(two_places(**wishes), [parse_axis(text) for text in over])


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("tbs=32K..64K:2", "32000 64000"),
        ("tbs=1000..8000:log 4", "1000 2000 4000 8000"),
        ("workers=x1..x2:3", "x1 x1.5 x2"),  # a factor need not be whole
        ("quota:*:*=0..8:3", "0 4 8"),
        ("price:*:T4=-50%..50%:3", "-50% +0% +50%"),
        ("price:*:T4=0.5..x2:2", "x0.5 x2"),
        ("budget=1..5/h", "1/h 2/h 3/h 4/h 5/h"),
        ("budget=1/h, 2/h,1/h", "1/h 2/h"),
    ],
)
def test_the_values_of_a_range_are_those_of_its_ends(values: str, words: str) -> None:
    """Five of them unless a number is given; a unit or a factor at one end is that of both."""
    axis = parse_axis(values)
    assert axis.words == tuple(f"{axis.what}={word}" for word in words.split())


def test_ranges_span_a_bounded_number_of_points() -> None:
    """One to three of different wishes, and 100,000 points at most."""
    one, two = parse_axis("budget=1/h..5/h:250"), parse_axis("tbs=1000..9000:400")
    assert len(points_of([one, two])) == 100_000
    more = [parse_axis(f"{name}=1..2:2") for name in ("workers", "regions", "streams")]
    for axes, message in (
        ([], "0 ranges"),
        ([one, *more], "4 ranges"),
        ([one, two, more[0]], "200,000 points"),
        ([one, one], "two ranges for budget"),
    ):
        with pytest.raises(PlacerError, match=message):
            points_of(axes)


def test_the_choice_changes_where_the_prices_cross() -> None:
    """0.60 USD/h x F against 1.00: at F = 1.5 it is 0.90, at F = 2 it is 1.20, so the cheapest
    changes between them.
    """
    got = swept("price:gcp/*:T4=x0.5..x2.5:5", objective="cost", max_workers=1)
    assert [row["value"] for row in got.rows] == pytest.approx([0.3, 0.6, 0.9, 1.0, 1.0])
    assert [
        (one["set"][0], other["set"][0]) for one, other in breakpoints(got.header["over"], got.rows)
    ] == [("price:gcp/*:T4=x1.5", "price:gcp/*:T4=x2")]
    assert [len(run) for run in stretches(got.header["over"], got.rows)] == [3, 2]


def test_two_ranges_are_a_product_and_break_along_the_longer() -> None:
    """Rows of one value of the first range are never taken together with those of the next."""
    got = swept("price:aws/*:T4=x1,x2", "price:gcp/*:T4=x1,x2,x4", objective="cost", max_workers=1)
    assert [row["value"] for row in got.rows] == pytest.approx([0.6, 1.0, 1.0, 0.6, 1.2, 2.0])
    assert [len(run) for run in stretches(got.header["over"], got.rows)] == [1, 2, 2, 1]
    assert len(breakpoints(got.header["over"], got.rows)) == 2
    turned = swept(
        "price:gcp/*:T4=x1,x2,x4", "price:aws/*:T4=x1,x2", objective="cost", max_workers=1
    )
    assert [
        [row["value"] for row in run] for run in stretches(turned.header["over"], turned.rows)
    ] == [[pytest.approx(v) for v in run] for run in ([0.6], [1, 1], [0.6, 1.2], [2])]


def test_a_point_that_fits_nothing_or_is_refused_is_an_answer() -> None:
    """0.5 USD/h buys nothing: infeasible. No quota: no machine is admitted, and why."""
    got = swept("budget=0.5/h,0.7/h")
    assert [row["status"] for row in got.rows] == ["infeasible", "optimal"]
    none = swept("quota:*:*=0..8:2")
    assert [row["status"] for row in none.rows] == ["refused", "optimal"]
    assert "no offer of catalog" in none.rows[0]["message"]


def test_shards_together_are_the_whole(tmp_path: Path, run: Run) -> None:
    """Merged, or concatenated and merged, shards are the file of one run, to the byte."""
    sweep = partial(placer.sweep, "roberta-xlm", OVER[1::2], catalog="erben-2023", gpu="T4,A10")
    paths = [str(tmp_path / f"{name}.jsonl") for name in ("whole", "a", "b", "c")]
    assert run(*QUESTION, *OVER, "-o", paths[0]).returncode == 0
    for i, path in enumerate(paths[1:], start=1):
        sweep(output=path, shard=f"{i}/3")
    merged, joined = tmp_path / "merged.jsonl", tmp_path / "joined.jsonl"
    assert run("whatif", "--merge", *paths[1:], "-o", str(merged)).returncode == 0
    whole = Path(paths[0]).read_bytes()
    assert merged.read_bytes() == whole
    joined.write_bytes(b"".join(Path(path).read_bytes() for path in paths[1:]))
    points = points_of([parse_axis(text) for text in OVER[1::2]])
    assert sorted(row["key"] for row in read_points(joined)[1]) == sorted(map(" ".join, points))
    again = sweep(output=str(joined))
    assert list(again.rows) == [json.loads(line) for line in whole.decode().splitlines()[1:]]
    assert len(joined.read_text(encoding="utf-8").splitlines()) == 10 + 3


def test_a_torn_last_line_is_cut_off_and_solved_again(tmp_path: Path) -> None:
    """Whatever is left of the last line, or of the header: the file ends as that of one run."""
    path, problem, axes = tmp_path / "s.jsonl", two_places(), [parse_axis("budget=0.5/h..8/h:4")]
    run_sweep(problem, axes, output=str(path))
    whole = path.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 40, whole.index(b"\n") + 1, whole.index(b"\n"), 30, 0):
        path.write_bytes(whole[:cut])
        got = run_sweep(problem, axes, output=str(path))
        assert path.read_bytes() == whole
        assert len(got.rows) == 4


def test_a_file_of_another_question_is_refused_and_stays(tmp_path: Path) -> None:
    """Another range, another wish, another price, another gap; or no file of a sweep at all."""
    path, over = tmp_path / "s.jsonl", "budget=0.7/h,8/h"
    run_sweep(two_places(), [parse_axis(over)], output=str(path))
    whole = path.read_bytes()
    dearer = apply(two_places(), parse_changes(["price:*:*=x1.5"]))
    others = (
        (two_places(), "budget=0.7/h,9/h", SolveOptions()),
        (two_places(max_workers=2), over, SolveOptions()),
        (two_places(), over, SolveOptions(gap=0.01)),
        (dearer, over, SolveOptions()),
    )
    for problem, axis, options in others:
        with pytest.raises(PlacerError, match="another question"):
            run_sweep(problem, [parse_axis(axis)], options=options, output=str(path))
        assert path.read_bytes() == whole
    no_sweeps = ("{}\n", "[]\n", "x\n", "hello", '{"schema": "placer.result/v1"}\n', '{"key": 1}\n')
    for text in no_sweeps:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(PlacerError):
            run_sweep(two_places(), [parse_axis(over)], output=str(path))
        assert path.read_text(encoding="utf-8") == text


def started(tmp_path: Path, *more: str) -> tuple["subprocess.Popen[str]", Path]:
    """A sweep of 16 points in a process of its own, once it has written some of them."""
    path = tmp_path / "s.jsonl"
    asked = (*QUESTION, "--over", "budget=1/h..5/h:16", "-o", str(path), *more)
    process = subprocess.Popen(
        [sys.executable, "-m", "placer", *asked],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 4):
        time.sleep(0.002)
    return process, path


def nobody_left(group: int) -> bool:
    """Whether all processes of a group end; multiprocessing's tracker does a moment later."""
    for _ in range(500):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def finished(path: Path, run: Run, tmp_path: Path) -> None:
    """Take the file up again; it is that of one run."""
    assert run(*QUESTION, "--over", "budget=1/h..5/h:16", "-o", str(path)).returncode == 0
    whole = tmp_path / "whole.jsonl"
    placer.sweep(
        "roberta-xlm", "budget=1/h..5/h:16", catalog="erben-2023", gpu="T4,A10", output=str(whole)
    )
    assert path.read_bytes() == whole.read_bytes()


def test_killed_in_the_middle_and_taken_up_again(tmp_path: Path, run: Run) -> None:
    """SIGKILL, then the same command: the same content as one run."""
    process, path = started(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PROCESS_TIMEOUT_S)
    assert process.returncode == -signal.SIGKILL
    assert 4 <= path.read_bytes().count(b"\n") < 17
    finished(path, run, tmp_path)


@pytest.mark.parametrize("more", [(), ("--jobs", "2")], ids=["here", "processes"])
def test_ctrl_c_keeps_what_is_done(tmp_path: Path, run: Run, more: tuple[str, ...]) -> None:
    """Exit code 130, a word on what to do, whole lines only, no traceback, no child left."""
    process, path = started(tmp_path, *more)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PROCESS_TIMEOUT_S)
    assert process.returncode == 130
    assert "stopped" in err
    assert "Traceback" not in err
    assert path.read_bytes().endswith(b"\n")
    assert nobody_left(process.pid)
    finished(path, run, tmp_path)


def written(path: Path) -> list[str]:
    """Lines of a sweep of four points: the header, two answers, two refusals."""
    over = [parse_axis("price:gcp/*:T4=x1,x2"), parse_axis("budget=8/h,0.0001/h")]
    run_sweep(two_places(), over, output=str(path))
    return path.read_text(encoding="utf-8").splitlines()


WRONG: tuple[object, ...] = (
    *(None, True, -1, 10**400, 1e300, "x", [], [None], {}, {"a": 1}, 0.5, ["x"]),
)


def test_no_wrong_value_of_a_line_is_an_internal_failure(tmp_path: Path) -> None:
    """Each value removed or of another type: the file is refused in one line, or is printed."""
    path = tmp_path / "s.jsonl"
    lines = [json.loads(line) for line in written(path)]
    read, said = 0, list[str]()
    for number in (0, 1, 2):
        for key in lines[number]:
            for value in ("removed", *WRONG):
                changed = {**lines[number], key: value}
                if value == "removed":
                    del changed[key]
                others = [*lines[:number], changed, *lines[number + 1 :]]
                path.write_text("".join(json.dumps(line) + "\n" for line in others))
                try:
                    header, rows = merged([str(path)])
                except PlacerError as error:
                    said.append(error.message)
                    continue
                got = Sweep(header=header, rows=tuple(rows))
                with suppress(PlacerError):  # a key that only pages need is missing
                    drawn({**got.to_dict(), "schema": "placer.sweep/v1"})
                json.dumps(got.to_dict(), allow_nan=False)
                read += 1
    assert len(said) > read > 0
    assert all(str(path) in words and len(words) < len(str(path)) + 260 for words in said)


def test_two_sweeps_do_not_share_a_file(tmp_path: Path) -> None:
    """The second one is refused while the first one solves, in another process as well."""
    path = tmp_path / "s.jsonl"
    over = [parse_axis("price:gcp/*:T4=x1,x2")]
    refused: list[PlacerError] = []

    def tell(done: int, of: int) -> None:
        if done == 1:
            with pytest.raises(PlacerError, match="another sweep is writing into") as caught:
                run_sweep(two_places(), over, output=str(path))
            refused.append(caught.value)

    run_sweep(two_places(), over, output=str(path), tell=tell)
    assert "--merge" in refused[0].hint
    assert path.read_text().count("\n") == 3
    run_sweep(two_places(), over, output=str(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_file() -> None:
    """As does a disk that is gone."""
    with (
        open("/dev/full", "ab", buffering=0) as full,  # noqa: PTH123 - as the sweep opens it
        pytest.raises(PlacerError, match="cannot write '/dev/full': No space left") as caught,
    ):
        append(full, {"a": 1})
    assert caught.value.exit_code == 1
    assert "free some space" in caught.value.hint

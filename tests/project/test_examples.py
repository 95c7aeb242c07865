"""Each file of examples/ runs as its user runs it: a process of its own, a copy in an empty folder,
placer from this checkout.
"""

import ast
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from shaping import shaped

from conftest import ROOT, completed

FOLDER = ROOT / "examples"
torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """A copy of the examples, nothing beside it."""
    return Path(
        shutil.copytree(FOLDER, tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    )


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a shell has after ``. .venv/bin/activate``: placer, torchrun and python3 on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = shlex.quote(sys.executable)
    for name, words in {
        "placer": "-m placer",
        "torchrun": "-m torch.distributed.run",
        "python3": "",
    }.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {python} {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "1",
    }


def output(*command: str | Path, cwd: Path, environment: dict[str, str]) -> str:
    """What a command that succeeds prints."""
    words = [str(word) for word in command]
    done = completed(words, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def python(name: str, examples: Path, environment: dict[str, str]) -> str:
    """What a script prints that is started from another folder."""
    return output(sys.executable, examples / name, cwd=examples.parent, environment=environment)


def number(pattern: str, text: str) -> float:
    """The number that a pattern finds."""
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in: {text}"
    return float(found[1].replace(",", ""))


def test_every_example_is_in_the_table() -> None:
    """Of examples/README.md, which names no other."""
    named = set(
        re.findall(
            r"^\| \[(\S+?)\]\(\1\)", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.M
        )
    )
    there = {path.name for path in FOLDER.iterdir() if path.is_file()} - {"README.md"}
    assert named == there


def test_first_recommendation(examples: Path, environment: dict[str, str]) -> None:
    """Eight A10 at 0.60 USD/h each are 4.80 USD/h; a step of 32,768 samples at 1,060 samples/s is
    30.9 s.
    """
    said = python("first_recommendation.py", examples, environment)
    assert "8 x gpu_1x_a10" in said
    assert "4.80 USD/h, 0.00 of it egress" in said
    assert number(r"step +([\d.]+) s", said) == pytest.approx(
        32_768 / number(r"speed +([\d,]+) ", said), rel=0.01
    )
    assert "optimal" in said


def test_scheduler_loop(examples: Path, environment: dict[str, str]) -> None:
    """One job does not fit and one is refused; every budget is kept; where its cards are gone,
    the plan leaves them.
    """
    said = python("scheduler_loop.py", examples, environment)
    assert "roberta-base: infeasible; a change that works: --budget" in said
    assert "roberta-xml: refused: unknown model" in said
    budgets = re.findall(r"^  ([\d.]+) USD/h: .* for ([\d.]+) USD/h$", said, flags=re.M)
    assert [float(budget) for budget, _ in budgets] == [0.5, 1, 2, 5, 10, 20]
    assert all(float(usd) <= float(budget) for budget, usd in budgets)
    gone = re.search(r"^  drop runpod/\*:RTX4090:community: (.*)$", said, flags=re.M)
    assert gone
    assert gone[1].startswith("move to ")
    assert "RTX4090" not in gone[1].split(",", maxsplit=1)[0]
    assert said.count("requests/s") == 2


def test_own_prices(examples: Path, environment: dict[str, str]) -> None:
    """The contract takes 20 % off H100; the reserved machine costs nothing and is the fastest; the
    file holds two rows.
    """
    said = python("own_prices.py", examples, environment)
    was, now = (
        number(pattern, said)
        for pattern in (r"it cost ([\d.]+) USD/h", r"now costs ([\d.]+) USD/h")
    )
    assert now == pytest.approx(0.8 * was, abs=0.01)
    assert "with quote.csv: 2 rows of the book differ" in said
    speeds = [
        float(value.replace(",", "")) for value in re.findall(r"([\d,]+) samples/s for", said)
    ]
    assert speeds == sorted(speeds)
    assert said.rstrip().endswith("samples/s for 0.00 USD/h")


@torch
def test_run_plan(examples: Path, environment: dict[str, str]) -> None:
    """All bytes together are as predicted, and PyTorch's ring sends as many on each of its ways.
    The loss falls from that of guessing, ln 32 = 3.47; the log is one that `calibrate` and `replan`
    take.
    """
    said = output("sh", "run_plan.sh", examples.parent, cwd=examples, environment=environment)
    assert "4 workers in 2 regions" in said
    shown = re.findall(r"^gcp/\S+ to gcp/\S+ +([\d.]+) kB +([\d.]+) kB", said, re.MULTILINE)
    lines = (examples.parent / "run" / "run.jsonl").read_text(encoding="utf-8").splitlines()
    moved = json.loads(lines[-1])["bytes"]
    assert shown == [(f"{m['predicted'] / 1e3:.0f}", f"{m['measured'] / 1e3:.0f}") for m in moved]
    assert len(moved) == 4  # two machines in each region talk among themselves and with the others
    assert sum(m["predicted"] for m in moved) == sum(m["measured"] for m in moved)
    assert len({m["measured"] for m in moved}) == 1
    first, last = re.findall(r"([\d.]+) in step", said)
    assert 3.2 < float(first) < 4.2
    assert float(last) < 1.5
    assert re.search(r"speed of tiny-gpt on CPU-\d+ alone", said)
    told = json.loads((examples.parent / "calibration.json").read_text(encoding="utf-8"))
    assert told["schema"].startswith("placer.calibration/")
    assert re.search("a run on one machine", " ".join(said.split()))
    assert re.search(r"^(Keep|Move)", said, re.MULTILINE)


@pytest.mark.nightly
@shaped
def test_rehearse_plan(examples: Path, environment: dict[str, str]) -> None:
    """Bytes on both links are within 2 % of the prediction, and a worker dies. Each run rehearses
    both in test_rehearsal.py.
    """
    said = output("sh", "rehearse_plan.sh", examples.parent, cwd=examples, environment=environment)
    assert len(re.findall(r"-> \S+ .* [+-][01]\.\d %  yes", said)) == 4
    whole, killed = (
        json.loads((examples.parent / name).read_text(encoding="utf-8"))
        for name in ("rehearsal.json", "killed.json")
    )
    assert whole["strategy"] == "all-reduce"
    assert len(killed["deaths"]) == 2


@pytest.mark.nightly
@torch
def test_launch_torchrun(examples: Path, environment: dict[str, str]) -> None:
    """Both scripts join, the loss falls, and the alarm is the manifest's. Each run starts exported
    torchrun scripts in test_export_worlds.py, and trains this model in `test_run_plan`.
    """
    said = output(
        "sh", "launch_torchrun.sh", examples.parent, cwd=examples, environment=environment
    )
    first, last = re.findall(r"^step \d+: loss ([\d.]+)$", said, flags=re.M)
    assert float(first) > 3
    assert float(last) < 2
    assert "samples/s on 2 workers" in said
    drift = json.loads((examples.parent / "plan.json").read_text(encoding="utf-8"))["drift"]
    assert f"alarm below {drift['min_samples_per_second']:,.0f} samples/s" in said


NO_TORCH = "import sys; sys.modules['torch'] = None; from placer.cli import run; run()"
"""The command line where PyTorch cannot be imported or found, whether it is installed or not."""


@pytest.mark.parametrize(
    "script", ["profile_to_skypilot.sh", "run_plan.sh", "rehearse_plan.sh", "launch_torchrun.sh"]
)
def test_scripts_without_torch_say_what_to_install(
    script: str, examples: Path, environment: dict[str, str]
) -> None:
    """In one line with a tip, after what can be said without it."""
    programs = examples.parent / "bin"
    (programs / "torchrun").unlink()
    (programs / "placer").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{NO_TORCH}" "$@"\n', encoding="utf-8"
    )
    words = {**environment, "PATH": f"{programs}:/usr/bin:/bin"}
    done = completed(["sh", script], cwd=examples, env=words)
    assert done.returncode == 2, done.stderr
    assert (
        "pip install 'placer-advisor[profile]'" in done.stderr
        or "pip install 'placer-advisor[rehearse]'" in done.stderr
    )
    assert "Traceback" not in done.stderr


CELLS = """
import ast, json, pathlib
for cell in json.loads(pathlib.Path("where_to_train.ipynb").read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        tree = ast.parse("".join(cell["source"]))
        shows = isinstance(tree.body[-1], ast.Expr)
        last = ast.Expression(tree.body.pop().value) if shows else None
        exec(compile(tree, "cell", "exec"), globals())
        shown = None if last is None else eval(compile(last, "cell", "eval"), globals())
        print(shown.to_string() if hasattr(shown, "to_string") else "")
"""
"""Cells in order in one process, as a kernel runs them, without Jupyter."""


def test_notebook_runs(examples: Path, environment: dict[str, str]) -> None:
    """All cells, and their figures are those that are committed: prices of 2023 do not change."""
    kept = [cell for cell in _notebook()["cells"] if cell["cell_type"] == "code"]
    said = output(
        sys.executable, "-c", CELLS, cwd=examples, environment={**environment, "MPLBACKEND": "agg"}
    )
    printed = [
        line
        for cell in kept
        for part in cell["outputs"]
        if part["output_type"] == "stream"
        for line in part["text"]
    ]
    assert len(printed) > 20
    missing = [line for line in printed if line.strip() and line.rstrip("\n") not in said]
    assert not missing


def test_notebook_is_clean() -> None:
    """Executed from top to bottom, without errors, paths of a machine or large outputs; the
    frontier is drawn.
    """
    notebook = _notebook()
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    parts = [part for cell in cells for part in cell["outputs"]]
    assert {part["output_type"] for part in parts} == {"execute_result", "stream", "display_data"}
    assert any("image/svg+xml" in part.get("data", {}) for part in parts)
    text = json.dumps(notebook)
    assert not re.search(r"/(tmp|home|root|work|Users)/", text)
    assert len(text) < 80_000
    for cell in cells:
        ast.parse("".join(cell["source"]))


def _notebook() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (FOLDER / "where_to_train.ipynb").read_text(encoding="utf-8")
    )
    return found

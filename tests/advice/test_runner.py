"""One runner for many questions: the same answers here, in processes and on a Dask cluster."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import placer
from conftest import PROCESS_TIMEOUT_S, ROOT, Run, completed
from placer.advice.runner.runner import answers, here, opener, options_of_each, processes
from placer.errors import BadInputError, FailureError
from placer.records import replace
from placer.solving.allowance import default_memory_bytes
from placer.solving.answer import SolveOptions

QUESTION: dict[str, Any] = {"catalog": "erben-2023", "gpu": "T4,A10"}
FOLDER = ROOT / "examples" / "many-questions"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


def doubled(shared: int, item: int) -> int:
    """A question that any process can answer."""
    return shared * item


def dies(shared: int, item: int) -> int:
    """A question that kills who answers it, or the process id of its parent."""
    if item == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def test_answers_come_in_order() -> None:
    """Ten questions here and in two processes; a stop ends them after the third."""
    with here(2) as runner:
        assert list(answers(doubled, range(10), runner)) == [2 * n for n in range(10)]
    with processes(2, 2) as runner:
        assert list(answers(doubled, range(10), runner)) == [2 * n for n in range(10)]
    got: list[int] = []
    with here(2) as runner:
        got.extend(answers(doubled, range(10), runner, lambda: len(got) >= 3))
    assert got == [0, 2, 4]


def test_a_process_that_dies_is_said() -> None:
    """No answer is left out silently."""
    with pytest.raises(FailureError, match="a process that solved died"), processes(0, 2) as runner:
        list(answers(dies, range(4), runner))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"jobs": 0}, "jobs 0"),
        ({"jobs": True}, "jobs True"),
        ({"jobs": 2, "dask": "tcp://x:1"}, "jobs 2 together with a Dask cluster"),
    ],
)
def test_wrong_runners_are_refused(words: dict[str, Any], message: str) -> None:
    """Before anything is solved."""
    with pytest.raises(BadInputError, match=message):
        opener(**words)


@pytest.mark.parametrize(
    ("jobs", "elsewhere", "limit", "each"),
    [
        (1, False, 10**9, 10**9),
        (1, True, 10**9, 10**9),
        (4, True, 10**9, 250_000_000),
        (2, False, None, default_memory_bytes() / 2),
        (10_000, False, None, 250_000_000),
        (1, True, None, None),
    ],
)
def test_processes_share_the_memory(
    jobs: int, elsewhere: bool, limit: int | None, each: float | None
) -> None:
    """Each has at least 250 MB; one that runs elsewhere has the whole limit, and hears nobody."""
    cancel = threading.Event()
    options = SolveOptions(memory_limit_bytes=limit, cancel=cancel, on_better=print)
    own = options_of_each(options, jobs, elsewhere=elsewhere)
    assert own.memory_limit_bytes == (each and int(each))
    assert own.on_better is None
    assert own.cancel is (None if jobs > 1 or elsewhere else cancel)
    with pytest.raises(BadInputError, match="each of 4 processes has 249 MB") as error:
        options_of_each(replace(options, memory_limit_bytes=996_000_000), 4, elsewhere=False)
    assert error.value.hint == "give 1 GB or more, or fewer --jobs"


def test_every_verb_answers_the_same_everywhere(cluster: Any) -> None:
    """Sweep, regret and replay: here, in two processes and on two Dask workers."""
    address = cluster.scheduler_address
    calls: dict[str, Callable[..., Any]] = {
        "sweep": partial(placer.sweep, "roberta-xlm", ["budget=1/h..5/h:4"], **QUESTION),
        "robust": partial(
            placer.robust, "roberta-xlm", exact=True, worlds=4, workers="4", **QUESTION
        ),
        "replay": partial(
            placer.replay,
            str(ROOT / "examples" / "capacity-trace.csv"),
            machines=4,
            work="4h",
            deadline="8h",
            gpu="H100",
            every="24h",
            catalog="default",
        ),
    }
    for call in calls.values():
        whole = call().to_dict()
        assert call(jobs=2).to_dict() == whole
        assert call(dask=address).to_dict() == whole


def test_a_dask_worker_that_dies_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    """One of two is killed after the second of twelve points: the other solves its points."""
    path, over = tmp_path / "s.jsonl", ["budget=1/h..5/h:12"]
    killed: list[int] = []

    def tell(done: int, of: int) -> None:
        if done == 2 and not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    got = placer.sweep(
        "roberta-xlm", over, dask=cluster.scheduler_address, output=str(path), tell=tell, **QUESTION
    )
    assert killed
    assert got.rows == placer.sweep("roberta-xlm", over, **QUESTION).rows
    assert path.read_bytes().count(b"\n") == 13


def test_the_slurm_array_solves_every_point_once(run: Run, tmp_path: Path) -> None:
    """Its four tasks, run one after the other as Slurm would start them, merge to the sweep."""
    over = "budget=0.3/h..0.6/h:5"
    script = (FOLDER / "slurm_array.sh").read_text(encoding="utf-8")
    options = dict(
        line.removeprefix("#SBATCH --").split("=", 1)
        for line in script.splitlines()
        if line.startswith("#SBATCH --") and "=" in line
    )
    first, last = map(int, options["array"].split("-"))
    command = tmp_path / "placer"
    command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/asked-$SLURM_ARRAY_TASK_ID\n')
    command.chmod(0o755)
    files = []
    for task in range(first, last + 1):
        subprocess.run(
            ["sh", str(FOLDER / "slurm_array.sh")],
            env={
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_ARRAY_TASK_COUNT": str(last),
                "OVER": over,
                "CATALOG": "erben-2023",
            },
            check=True,
            timeout=PROCESS_TIMEOUT_S,
        )
        words = (tmp_path / f"asked-{task}").read_text(encoding="utf-8").split()
        assert run(*words, cwd=tmp_path).returncode == 0
        files.append(words[-1])
    done = run("whatif", "--merge", *files, "--json", cwd=tmp_path)
    rows = json.loads(done.stdout)["rows"]
    assert [row["key"] for row in rows] == [
        row["key"] for row in placer.sweep("roberta-xlm", over, catalog="erben-2023").rows
    ]


def test_the_indexed_job_shards_by_its_index() -> None:
    """As many shards as completions, numbered from 1; a failed pod is started again."""
    job = yaml.safe_load((FOLDER / "indexed-job.yaml").read_text(encoding="utf-8"))
    spec = job["spec"]
    assert (job["apiVersion"], job["kind"], spec["completionMode"]) == (
        "batch/v1",
        "Job",
        "Indexed",
    )
    assert spec["backoffLimitPerIndex"] > 0
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # what backoffLimitPerIndex asks for
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    (container,) = spec["template"]["spec"]["containers"]
    (line,) = container["args"]
    for index in range(spec["completions"]):
        shown = completed(
            ["sh", "-c", line.replace("exec placer", "printf '%s\\n'")],
            env={"JOB_COMPLETION_INDEX": str(index), "PATH": os.environ["PATH"]},
            check=True,
        ).stdout.split()
        shard = f"{index + 1}/{spec['completions']}"
        assert shown[shown.index("--shard") + 1] == shard
        assert shown[-1] == f"shard-{index + 1}.jsonl"

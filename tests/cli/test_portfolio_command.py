"""``placer portfolio``: files of jobs, what is printed and written, what is wrong with a file."""

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from conftest import Run
from placer.cli.ask.limits import _code

JOB = """
[[job]]
name = "one"
model = "roberta-xlm"
min-throughput = "300/s"
"""
HEAD = """
catalog = "erben-2023"
quota = "quota.csv"

[defaults]
in = "lambda,gcp/us-central1"
market = "on-demand"
"""
QUOTA = "place,gpu,market,gpus\n*,T4,*,8\n*,A10,*,1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a quota file."""
    (tmp_path / "quota.csv").write_text(QUOTA, encoding="utf-8")
    return tmp_path


def written(folder: Path, text: str) -> str:
    """Write a file of jobs and return its path."""
    path = folder / "jobs.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_forged_sum_is_refused(run: Run, folder: Path) -> None:
    """A saved portfolio whose quota was lowered by hand is not valid."""
    path, saved = written(folder, HEAD + JOB), folder / "saved.json"
    assert run("portfolio", path, "-o", str(saved)).returncode == 0
    document = json.loads(saved.read_text())
    document["shared"]["quotas"][1]["gpus"] = 0
    saved.write_text(json.dumps(document))
    done = run("validate", str(saved))
    assert done.returncode == 2
    assert "exceed the quota of 0" in done.stderr


def test_jobs_that_do_not_fit_are_named(run: Run, folder: Path) -> None:
    """Three jobs, of which the T4 and the A10 serve two: exit code 3, with what does fit."""
    text = HEAD.replace('"on-demand"', '"on-demand"\ngpu = "A10"') + JOB
    done = run("portfolio", written(folder, text + JOB.replace("one", "two")))
    assert done.returncode == 3
    text = " ".join(done.stdout.split())
    assert "what it needs is held by" in text
    assert "1 of 2 jobs for $0.60/h" in text


def test_a_file_names_a_list_of_blocks(run: Run, folder: Path) -> None:
    """Its path is meant beside the file of jobs; `begins` may be a time of TOML."""
    (folder / "blocks.csv").write_text(
        "name,place,instance_type,gpu,gpu_count,machines,start,hours,usd,source\n"
        "cb-1,lambda/us-west-1,gpu_1x_a10,A10,1,1,2026-11-24T02:00:00+00:00,4,0.5,EC2\n",
        encoding="utf-8",
    )
    head = (
        'catalog = "erben-2023"\nslot = "1h"\nhorizon = "6h"\nblocks-file = "blocks.csv"\n'
        "begins = 2026-11-24T00:00:00Z\n"
    )
    job = '[[job]]\nmodel = "roberta-xlm"\nduration = "2h"\nmarket = "on-demand"\ngpu = "A10"\n'
    done = run("portfolio", written(folder, head + job), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["usd"] == pytest.approx(0.5)
    wrong = run("portfolio", written(folder, head.replace('"blocks.csv"', "7") + job))
    assert wrong.returncode == 2
    assert "blocks-file 7 is not text" in wrong.stderr


@pytest.mark.parametrize("word", ["bugdet", '"bugdet"'])
def test_a_wrong_word_of_a_file_is_named_with_its_line(run: Run, folder: Path, word: str) -> None:
    """The fourth, as the file begins with an empty one; in quotes too."""
    text = HEAD.replace("\n[defaults]", f'{word} = "5/h"\n[defaults]') + JOB
    done = run("portfolio", written(folder, text))
    assert done.returncode == 2
    assert "jobs.toml:4: unknown word 'bugdet'" in done.stderr


def test_the_exit_code_says_what_is_known_of_jobs_that_do_not_fit() -> None:
    """4 where time ended before anybody knew whether others might, else 3; 0 where all run."""
    for left_out, stopped, proved in product((False, True), repeat=3):
        answer = SimpleNamespace(left_out=left_out, stopped=stopped, left_out_proved=proved)
        expected = 0 if not left_out else 4 if (stopped, proved) == (True, False) else 3
        assert _code(answer) == expected

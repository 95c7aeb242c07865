"""The command line as a user meets it: output, errors, exit codes, files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from conftest import PROCESS_TIMEOUT_S, ROOT, Run, in_fresh_python
from placer.cli import COMMANDS
from placer.documents.schemas import SCHEMA_NAMES, schema_document, schema_text
from placer.problem.exchange import STRATEGIES

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")


def test_recommend_prints_what_was_understood_the_winner_and_the_advice(run: Run) -> None:
    """Result on stdout, warnings on stderr."""
    done = run("recommend", *ERBEN, "--budget", "5/h", "--gpu", "T4,A10,V100", "-v")
    assert done.returncode == 0
    for words in (
        "budget $5.00/h",
        "8 x A10",
        "15.7 GB in all each step",
        "samples/s",
        "granularity",
        "Proved:",
        "Why not something else",
        "tool",
    ):
        assert words in " ".join(done.stdout.split())
    assert "warning: the newest price of catalog 'erben-2023'" in done.stderr
    assert "warning" not in done.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_output_fits_the_terminal(run: Run, columns: int) -> None:
    """No line is longer than the terminal, and nothing is coloured with NO_COLOR."""
    done = run("recommend", *ERBEN, "--budget", "5/h", columns=columns)
    assert all(len(line.rstrip()) <= columns for line in done.stdout.splitlines())
    assert "\x1b" not in done.stdout + done.stderr


def test_json_is_json_and_follows_the_schema(run: Run) -> None:
    """Nothing but the document on stdout."""
    done = run("recommend", *ERBEN, "--budget", "5/h", "--json")
    jsonschema.validate(json.loads(done.stdout), json.loads(schema_text("result")))


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


def test_a_failed_write_leaves_the_old_file(run: Run, tmp_path: Path) -> None:
    """A missing folder is one line; an existing file is not touched."""
    done = run("recommend", *ERBEN, "--budget", "5/h", "-o", str(tmp_path / "none" / "r.json"))
    assert (done.returncode, "cannot write" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_output_files_are_checked_before_anything_is_solved_or_written(
    run: Run, tmp_path: Path
) -> None:
    """The same file twice, a folder, a missing folder for the second: nothing is written at all."""
    one, gone = str(tmp_path / "r.json"), str(tmp_path / "none" / "m.json")
    for paths in (
        ("-o", one, "--manifest", one),
        ("-o", str(tmp_path)),
        ("-o", one, "--manifest", gone),
        ("-o", ""),
    ):
        assert run("recommend", *ERBEN, "--budget", "5/h", *paths).returncode == 2
    assert list(tmp_path.iterdir()) == []


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


def test_a_closed_pipe_is_no_error(run: Run) -> None:
    """``placer offers | head -1`` ends well."""
    command = f"{sys.executable} -m placer offers --limit 500 | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "words",
    ["recommend --budget 5/h", "estimate --workers gcp/us-central1=2xT4:spot"],
)
def test_a_manifest_is_written_though_nobody_reads(words: str, tmp_path: Path) -> None:
    """``| true`` ends with 0, and the file that was asked for is there: `recommend` ended with 1,
    and `estimate` without the file.
    """
    plan = tmp_path / "plan.json"
    command = f"{sys.executable} -m placer {words} {' '.join(ERBEN)} --manifest {plan}"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command.split(),
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    os.close(write)
    assert (done.returncode, plan.exists()) == (0, True)


def test_a_full_disk_is_one_line(run: Run) -> None:
    """Output that cannot be written is exit code 1 without a traceback."""
    command = f"{sys.executable} -m placer models > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "cannot write the output" in done.stderr


def test_infeasible_is_exit_code_three_with_a_change_that_works(run: Run) -> None:
    """What binds, in words, and the cheapest change; nothing is written."""
    done = run("recommend", *ERBEN, "--budget", "0.05/h")
    assert done.returncode == 3
    assert "no placement satisfies the request (proved" in done.stderr
    assert "With --budget 0.14/h: 1 x T4 spot" in done.stderr
    assert "--budget 0.14/h" in done.stderr
    as_json = run("recommend", *ERBEN, "--budget", "0.05/h", "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["status"]) == (3, "infeasible")


@pytest.mark.parametrize(
    ("arguments", "error", "tip"),
    [
        (
            ("recommend", "--model", "roberta-xml", "--budget", "5/h"),
            "unknown model 'roberta-xml'",
            "roberta-xlm",
        ),
        (("recommend", *ERBEN, "--gpu", "T5"), "unknown GPU 'T5'", "T4"),
        (("recommend", *ERBEN, "--in", "gpc"), "unknown place 'gpc'", "gcp"),
        (
            ("recommend", "--model", "roberta-xlm", "--catalog", "defalt"),
            "unknown catalog 'defalt'",
            "default",
        ),
        (("recommend", *ERBEN, "--budget", "120"), "per hour or total?", "120/h"),
        (("recommend", *ERBEN, "--budget", "-1/h"), "above zero", "positive"),
        (("recommend", *ERBEN, "--budget", "nan"), "not an amount", "5/h"),
        (("recommend", *ERBEN, "--workers", "0"), "at least 1", "1..16"),
        (("recommend", *ERBEN, "--exchange", "allreduce"), "unknown exchange", "all-reduce"),
        (("recommend", *ERBEN, "--solver", "magic"), "unknown solver 'magic'", "exact"),
        (("recommend", *ERBEN, "--gap", "2"), "gap '2'", "5%"),
        (("recommend", *ERBEN, "--time-limit", "5"), "duration '5'", "90s"),
        (("recommend", *ERBEN, "--bugdet", "5/h"), "unknown option '--bugdet'", "--budget"),
        (("recommend", "--budget", "5/h"), "--model is missing", "--help"),
        (("recomend",), "unknown command 'recomend'", "recommend"),
        (("estimate", *ERBEN, "--workers", "gcp/us-central1=0xT4"), "at least 1", "worker"),
        (
            ("estimate", *ERBEN, "--quota", "8", "--workers", "gcp/us-central1=9xT4:spot"),
            "exceed the quota of 8",
            "",
        ),
        (("validate", "/nowhere.json"), "cannot read", "path"),
        (("validate", "--schema", "resutl"), "unknown schema", "result"),
        (("--completion", "tcsh"), "'tcsh' is not one of", "--help"),
        (("network", "show", "gcp/*", "aws/*"), "links", "40"),
        (
            ("estimate", *ERBEN, "--workers", "x=1xT4", "--seed", "1"),
            "--seed without",
            "--simulate",
        ),
        (("offers", "--sort", "prise"), "unknown sort key", "price"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(
    run: Run, arguments: tuple[str, ...], error: str, tip: str
) -> None:
    """No traceback; the value is quoted; the tip says what to do; with --json the error is JSON."""
    done = run(*arguments)
    assert done.returncode == 2
    assert error in done.stderr
    assert tip in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error:") == 1


def test_errors_are_json_in_json_mode(run: Run) -> None:
    """A program can read what went wrong."""
    done = run("recommend", "--model", "roberta-xml", "--json")
    document = json.loads(done.stdout)
    assert document["schema"] == "placer.error/v1"
    assert document["error"]["hint"] == "a similar model exists: 'roberta-xlm'"


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": "placer.result/v1"}', '{"schema": 1}', "\x00", "[" * 50_000]
)
def test_validate_refuses_broken_files_in_one_line(run: Run, tmp_path: Path, text: str) -> None:
    """Cut off, wrong type, incomplete, binary, nested too deep."""
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    done = run("validate", str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_validate_checks_books_and_quota_files(run: Run, tmp_path: Path) -> None:
    """A folder is a price book, a CSV file a quota file."""
    assert (
        "price book with 21 offers" in run("validate", str(ROOT / "catalogs" / "erben-2023")).stdout
    )
    quota = tmp_path / "q.csv"
    quota.write_text("place,gpu,market,gpus\n*,T4,spot,4\n", encoding="utf-8")
    assert "quota file with 1 rows" in run("validate", str(quota)).stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    """And its short help is its first line."""
    done = run(command, "--help")
    assert done.returncode == 0
    assert "Example" in done.stdout


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schemas_are_printed_and_valid(run: Run, name: str) -> None:
    """Each is a JSON Schema."""
    jsonschema.Draft202012Validator.check_schema(
        json.loads(run("validate", "--schema", name).stdout)
    )


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (("models",), "roberta-xlm"),
        (("models", "roberta-xlm"), "time-weighted"),
        (("offers", "--gpu", "A100", "--market", "spot", "--limit", "3"), "A100"),
        (
            ("network", "show", "gcp/us-central1", "gcp/europe-west1", "--catalog", "erben-2023"),
            "210 Mb/s",
        ),
        (("network", "show", "gcp/us-central1", "aws/us-west-2"), "* first paid price of a month"),
        (("catalog", "list"), "erben-2023"),
        (
            ("estimate", *ERBEN, "--workers", "lambda/us-west-1=8xA10", "--every-exchange"),
            "8 x A10",
        ),
        (
            (
                "estimate",
                *ERBEN,
                "--workers",
                "gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot",
            ),
            "granularity",
        ),
    ],
)
def test_every_listing_has_a_text_and_a_json_form(
    run: Run, arguments: tuple[str, ...], shows: str
) -> None:
    """Both forms name what was asked for."""
    assert shows in run(*arguments).stdout
    document = json.loads(run(*arguments, "--json").stdout)
    assert document


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


def test_the_wish_for_regions_is_echoed(run: Run) -> None:
    """What was understood is printed, for an open and a closed range."""
    assert (
        "2 regions or more"
        in run(
            "recommend", *ERBEN, "--budget", "5/h", "--gpu", "T4", "--regions", "2..", columns=160
        ).stdout
    )
    assert (
        "; 1 region"
        in run("recommend", *ERBEN, "--budget", "5/h", "--regions", "1", columns=200).stdout
    )


def test_what_nobody_placed_is_said_with_the_wish_that_binds(run: Run) -> None:
    """Nine A10 exceed the quota and the budget: each single change that works is named."""
    done = run(
        "recommend", *ERBEN, "--budget", "5/h", "--workers", "9..12", "--gpu", "A10", "--quota", "8"
    )
    assert done.returncode == 3
    assert "--workers 1..64" in done.stderr
    assert "no --gpu" in done.stderr


@pytest.mark.parametrize("exchange", [name for name in STRATEGIES if name != "none"])
def test_documents_of_every_exchange_follow_their_schemas(
    exchange: str, run: Run, tmp_path: Path
) -> None:
    """Result and manifest of each strategy over two cities; the result prices the same from its
    file.
    """
    result, manifest = tmp_path / "r.json", tmp_path / "m.json"
    steps = (
        ["--local-steps", "4"] if exchange in ("local-sgd", "model-averaging", "asgd-ga") else []
    )
    words = [
        "--workers",
        "2..4",
        "--regions",
        "2",
        "--budget",
        "3/h",
        "--time-limit",
        "20s",
        *steps,
    ]
    files = ["-o", str(result), "--manifest", str(manifest)]
    ask = ["--model", "niser", "--catalog", "phalak-2023", "--exchange", exchange, "--in", "aws"]
    done = run("recommend", *ask, *words, *files)
    assert done.returncode == 0, done.stderr
    document = json.loads(result.read_text(encoding="utf-8"))
    assert document["placement"]["exchange"] == exchange
    jsonschema.validate(document, json.loads(schema_text("result")))
    jsonschema.validate(
        json.loads(manifest.read_text(encoding="utf-8")), json.loads(schema_text("manifest"))
    )
    assert "priced again" in run("validate", str(result)).stdout
    assert run("validate", str(manifest)).returncode == 0


def test_schemas_name_every_strategy() -> None:
    """A new strategy needs a word in both schemas."""
    result, manifest = schema_document("result")["$defs"], schema_document("manifest")["$defs"]
    assert {*result["Placement"]["properties"]["exchange"]["enum"]} == {*STRATEGIES}
    assert {*manifest["ExchangeSettings"]["properties"]["strategy"]["enum"]} == {*STRATEGIES}

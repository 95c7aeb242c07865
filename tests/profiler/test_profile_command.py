"""``placer profile``: targets, failures, Ctrl-C, merging; every file that is left is valid and can
be asked about.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conforming import validate
from profiled import PARAMETERS, SOURCE

from conftest import ROOT, completed
from placer.cli import run
from placer.market.accelerators import processor_name
from placer.profiler.devices import cpus_here
from placer.workload.profile import load_profile

torch = pytest.importorskip("torch")
FAST = ("--device", "cpu", "--steps", "3")
HERE = processor_name(cpus_here())
"""This machine as a device."""
Profile = Callable[..., int]


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profile]:
    """Run the command in a folder with the user's module, in this process; return the exit code."""
    (tmp_path / "mymodel.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    torch.set_num_threads(1)

    def call(*arguments: str) -> int:
        sys.modules.pop("mymodel", None)
        with pytest.raises(SystemExit) as caught:
            run(["profile", *arguments])
        return int(caught.value.code or 0)

    yield call
    sys.modules.pop("mymodel", None)


def checked(path: str) -> dict[str, Any]:
    """A profile file that follows its schema and can be read."""
    document: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    validate(document, "profile")
    assert load_profile(str(Path(path).resolve())).measurements
    return document


def test_a_function_is_measured_and_written(
    profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    """2,762 parameters in 4 tensors are 11,048 bytes of gradients; three phases of each of two
    batch sizes; the next command is said.
    """
    assert profile("mymodel:good", *FAST, "--batch-sizes", "2,8") == 0
    said = capsys.readouterr()
    document = checked("good.json")
    assert (document["parameters"], document["tensors"], document["gradient_bytes_fp32"]) == (
        PARAMETERS,
        4,
        4 * PARAMETERS,
    )
    (row,) = document["measurements"]
    assert [point["batch_size"] for point in row["points"]] == [2, 8]
    for point in row["points"]:
        phases = [point[name]["median"] for name in ("forward", "backward", "optimizer")]
        assert all(seconds > 0 for seconds in phases)
        assert point["steps"] == 3
        assert point["device_memory_bytes"] is None
        assert point["low"] <= point["samples_per_second"] <= point["high"]
    assert (row["device"], row["precision"], row["threads"], row["failure"], row["partial"]) == (
        "cpu",
        "fp32",
        1,
        None,
        False,
    )
    assert row["command"] == "placer profile mymodel:good --device cpu --steps 3 --batch-sizes 2,8"
    # One sample: products of 32 x 64 and 64 x 10, forward and for weights; for inputs only the
    # second: 2 (2 x 2048 + 3 x 640).
    assert row["flops_per_sample"] == 2 * (2 * 2048 + 3 * 640)
    cpu = next(rate for rate in document["rates"] if rate["gpu"] == HERE)
    assert cpu["basis"] == "measured"
    assert all(
        word in cpu["source"] for word in (row["device_name"], "torch 2", "fp32", row["date"])
    )
    assert "samples/s" in said.out
    assert "next: placer recommend --model good.json" in said.err


def test_a_second_run_is_merged(profile: Profile) -> None:
    """The same device in another precision is added; in the same one it takes the old place. The
    target batch size stays.
    """
    profile("mymodel:good", *FAST, "--batch-sizes", "2", "--target-batch-size", "64")
    profile("mymodel:good", *FAST, "--batch-sizes", "4", "--precision", "bf16")
    profile("mymodel:good", *FAST, "--batch-sizes", "8")
    document = checked("good.json")
    assert {(m["precision"], m["knee_batch_size"]) for m in document["measurements"]} == {
        ("bf16", 4),
        ("fp32", 8),
    }
    assert [rate["gpu"] for rate in document["rates"]].count(HERE) == 1
    assert document["target_batch_size"] == 64


def test_accumulation_is_measured_up_to_the_target(profile: Profile) -> None:
    """64 samples in batches of 8 are 8 batches of a step; that point stands for the device."""
    profile("mymodel:good", *FAST, "--batch-sizes", "8", "--target-batch-size", "64")
    document = checked("good.json")
    (row,) = document["measurements"]
    assert [(p["batch_size"], p["accumulation"]) for p in row["points"]] == [(8, 1), (8, 8)]
    cpu = next(rate for rate in document["rates"] if rate["gpu"] == HERE)
    assert cpu["value"] == row["points"][1]["samples_per_second"]
    assert "batch 8 x 8" in cpu["source"]


def test_memory_that_runs_out_is_an_answer(
    profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 samples fit: 8 fails, 6 fails, 5 fits, and nothing is between 5 and 6."""
    assert profile("mymodel:small", *FAST) == 0
    (row,) = checked("small.json")["measurements"]
    assert [p["batch_size"] for p in row["points"]] == [1, 2, 4, 5]
    assert (row["largest_batch_size"], row["failed_batch_size"]) == (5, 6)
    assert "can't allocate memory" in row["failure"]
    assert "5 fit, 6 do not" in capsys.readouterr().out


def test_a_crash_names_the_batch_size_and_leaves_a_valid_file(
    profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 and more samples fail: 1 and 2 are kept, marked partial; one line names 4 and the user's
    exception, without its second line.
    """
    assert profile("mymodel:crashes", *FAST) == 2
    said = capsys.readouterr().err
    assert (
        "error: the measured code fails at batch size 4: ValueError: shapes do not agree\n" in said
    )
    assert "Traceback" not in said
    (row,) = checked("crashes.json")["measurements"]
    assert [p["batch_size"] for p in row["points"]] == [1, 2]
    assert row["partial"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give one thing to profile"),
        (("mymodel:good", "--builtin", "lstm"), "give one thing to profile"),
        (("mymodel",), "'mymodel': expected module:function, such as mymodel:profile"),
        (("nomodel:good",), "cannot import nomodel: No module named 'nomodel'"),
        (("mymodel:god",), "mymodel has no function 'god'"),
        (("mymodel:number",), "mymodel has no function 'number'"),
        (("mymodel:nothing",), "mymodel:nothing returns int"),
        (("mymodel:broken",), "mymodel:broken fails: ZeroDivisionError"),
        (("mymodel:leaves",), "mymodel:leaves fails: SystemExit: I leave"),
        (("mymodel:good", "--name", " "), "--name ' '"),
        (("mymodel:needs",), "mymodel:needs fails: TypeError"),
        (("mymodel:no_loss",), "the loss of mymodel:no_loss is NoneType"),
        (("mymodel:detached",), "is a tensor of shape () without a gradient"),
        (("mymodel:on_meta",), "mymodel:on_meta is on the meta device"),
        (("mymodel:bad_name",), r"the Workload of mymodel:bad_name: name is 'a\nb'"),
        (("mymodel:bad_target",), "target_batch_size is -4"),
        (("mymodel:bad_microbatch",), "microbatch is 'x'"),
        (("mymodel:bad_samples",), "samples is 7"),
        (("mymodel:frozen_step",), "the module of mymodel:frozen_step has no trainable parameter"),
        (("..:good",), "'..:good': expected module:function, such as mymodel:profile"),
        (
            ("../mymodel:good",),
            "'../mymodel:good': expected module:function, such as mymodel:profile",
        ),
        (("mymodel:good", "--out", ""), "'' is not the name of a file"),
        (("mymodel:good", "--threads", "100000000"), "--threads"),
        (
            ("mymodel:good", "--estimate", "--framework", "ddp", "--device", "cpu"),
            "--estimate measures nothing",
        ),
        (("mymodel:vector",), "the loss of mymodel:vector is a tensor of shape (1, 10)"),
        (("mymodel:none_fits",), "one sample does not fit"),
        (("mymodel:hidden_step",), "returns a step function, which shows no parameters"),
        (("mymodel:good", "--device", "cuda:7"), "there is no device 'cuda:7'"),
        (("mymodel:good", "--device", "tpu"), "unknown device 'tpu'"),
        (("mymodel:good", "--device", "meta"), "device 'meta' cannot be measured"),
        (("mymodel:good", "--precision", "fp8"), "unknown precision 'fp8'"),
        (
            ("mymodel:good", "--device", "cpu", "--precision", "tf32"),
            "precision tf32 is not supported on cpu",
        ),
        (("mymodel:good", "--batch-sizes", "1,x"), "batch size 'x'"),
        (("mymodel:good", "--batch-sizes", "0"), "batch size '0'"),
        (("mymodel:good", "--out", "none/x.json"), "cannot write 'none/x.json'"),
        (("mymodel:good", "--framework", "horovod"), "unknown framework 'horovod'"),
        (("mymodel:good", "--quick", "--thorough"), "--quick and --thorough"),
        (("mymodel:good", "--out", "mymodel.py"), "not valid JSON"),
    ],
)
def test_what_cannot_be_profiled_is_one_line(
    profile: Profile, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    """Exit code 2, the thing named, no file, no traceback; what is there already is not
    overwritten.
    """
    assert profile(*arguments, "--steps", "1") == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said
    assert not list(Path().glob("*.json"))
    assert Path("mymodel.py").read_text(encoding="utf-8") == SOURCE


def test_a_step_function_has_whole_steps_alone(profile: Profile) -> None:
    """No phases; parameters of its attribute ``module``; two precisions are refused, as it has its
    own.
    """
    assert profile("mymodel:step_function", *FAST, "--batch-sizes", "4") == 0
    (row,) = checked("step_function.json")["measurements"]
    assert row["points"][0]["forward"] is None
    assert checked("step_function.json")["parameters"] == PARAMETERS
    assert profile("mymodel:step_function", "--precision", "fp32", "--precision", "bf16") == 2


def test_what_a_loss_prints_is_no_result(
    profile: Profile, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also while operations are counted on the meta device, and with ``--estimate``: stdout is one
    JSON document.
    """
    assert profile("mymodel:chats", *FAST, "--batch-sizes", "2", "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["name"] == "chats"
    assert "a word from the loss" in said.err
    assert profile("mymodel:chats", "--estimate", "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "placer.profile-estimate/v1"


def in_process(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """The command in a process of its own."""
    (cwd / "mymodel.py").write_text(SOURCE, encoding="utf-8")
    script = f"from placer.cli import run\nrun({list(arguments)!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return completed([sys.executable, "-c", script], cwd=cwd, env=environment)


def test_ctrl_c_writes_what_is_measured(tmp_path: Path) -> None:
    """SIGINT in the third step of 4 samples: 1 and 2 are kept, marked partial, exit code 130."""
    done = in_process("profile", "mymodel:interrupts", *FAST, cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    (row,) = checked(str(tmp_path / "interrupts.json"))["measurements"]
    assert [p["batch_size"] for p in row["points"]] == [1, 2]
    assert row["partial"]
    assert "marked partial" in done.stderr

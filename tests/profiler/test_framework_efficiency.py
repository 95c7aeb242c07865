"""Framework efficiency: ratios of pairs, published figures, and real accumulation under DDP and,
where it is installed, hivemind.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import PROCESS_TIMEOUT_S, ROOT
from placer.errors import PlacerError
from placer.profiler.framework import efficiency
from placer.profiler.framework.child import (
    CONFIDENCE,
    LEAST_PAIRS,
    Request,
    answer,
    efficiency_of,
)
from placer.profiler.framework.efficiency import LEAST_SILENCE_S, measured_efficiency, silence_s
from placer.profiler.framework.published import published_efficiency
from placer.profiler.steps.statistics import ranks
from placer.profiler.target import Target
from placer.profiler.torch_import import OutOfMemory
from placer.workload.profile import Efficiency, load_profile

TIMES = st.lists(
    st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)), min_size=LEAST_PAIRS, max_size=60
)

SIOCGIFADDR = 0x8915
"""Request of Linux for the address of an interface (netdevice(7))."""


@given(TIMES)
def test_the_median_lies_in_its_interval(times: list[tuple[float, float]]) -> None:
    """Whatever the times: in order, and never above 1."""
    above, below = zip(*times, strict=True)
    found = efficiency_of("ddp", above, below, what="-")
    assert 0 < found.low <= found.value <= found.high <= 1


@given(st.integers(LEAST_PAIRS, 200))
def test_intervals_of_the_sign_test_hold_the_median_as_often_as_they_say(count: int) -> None:
    """Worked out by plain enumeration of the binomial distribution; one value less on each side
    would be too few.
    """

    def held(out: int) -> float:
        return 1 - 2 * sum(math.comb(count, k) for k in range(out + 1)) / float(2**count)

    out = ranks(count, CONFIDENCE)[0] - 1
    assert held(out) >= CONFIDENCE
    assert held(out + 1) < CONFIDENCE


def test_one_disturbed_pair_hardly_moves_the_ratio() -> None:
    """Twenty pairs of 0.5, of which two took a hundred times as long: still 0.5 to 0.5."""
    found = efficiency_of("ddp", [1.0] * 20, [2.0] * 18 + [200.0, 0.02], what="-")
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("above", "below"), [([1.0] * 4, [1.0] * 4), ([1.0] * 6, [1.0] * 5 + [0.0])]
)
def test_too_few_pairs_are_refused(above: list[float], below: list[float]) -> None:
    """Four pairs give 87 % at most; a time of 0 is a broken clock."""
    with pytest.raises(PlacerError, match="too few"):
        efficiency_of("ddp", above, below, what="-")


def test_ratios_above_one_are_cut_and_say_so() -> None:
    """A framework cannot be faster than none: noise, cut at 1 with the measured figure kept in the
    source. Of five pairs the interval leaves out none.
    """

    def found(*ratios: float) -> Efficiency:
        return efficiency_of("ddp", ratios, [1.0] * 5, what="4 x 8 samples on cpu")

    cut = found(0.98, 1.0, 1.01, 1.02, 1.04)
    assert (cut.value, cut.low, cut.high) == (1.0, 0.98, 1.0)
    assert "measured 1.010 (0.980 to 1.040), cut to 1" in cut.source
    disturbed = found(1.125, 1.14, 1.16, 1.2, 1.25)
    # 1 / 1.25: no certainty that nobody measured
    assert (disturbed.value, disturbed.low, disturbed.high) == (1.0, 0.8, 1.0)
    assert disturbed.source.endswith("the machine was disturbed, measure again")
    whole = found(0.88, 0.89, 0.9, 0.91, 0.93)
    assert "cut" not in whole.source
    assert whole.basis == "measured"


def test_published_efficiency_of_a_shipped_model() -> None:
    """resnet50 lost 32 % on A10: its own figure, published."""
    found = published_efficiency("resnet50", "cnn", "hivemind")
    assert (found.value, found.basis) == (0.68, "published")
    assert "Erben" in found.source


def test_published_efficiency_of_a_family() -> None:
    """Transformers: mean of .61, .54, .546 and .44 = .534, over the lowest low and the highest high
    of them; assumed for another model.
    """
    found = published_efficiency(
        "my-bert", "transformer", "hivemind", "hivemind is not installed; "
    )
    rows = [
        load_profile(name).efficiency[0]
        for name in ("roberta-base", "roberta-large", "roberta-xlm", "whisper-small")
    ]
    assert found.value == pytest.approx((0.61 + 0.54 + 0.546 + 0.44) / 4, abs=1e-3)
    assert (found.low, found.high) == (min(r.low for r in rows), max(r.high for r in rows))
    assert found.basis == "assumed"
    assert found.source.startswith("hivemind is not installed; mean of 4 transformer models")


def test_published_efficiency_where_nobody_measured() -> None:
    """An LSTM gets the mean of all nine models; DDP is taken as 1, from 0.8."""
    lstm = published_efficiency("mine", "rnn", "hivemind")
    assert lstm.source.startswith("mean of all 9 models")
    assert lstm.value == pytest.approx(
        (0.70 + 0.68 + 0.78 + 0.50 + 0.46 + 0.61 + 0.54 + 0.546 + 0.44) / 9, abs=1e-3
    )
    alone = published_efficiency("mine", "cnn", "ddp")
    assert (alone.value, alone.low, alone.high, alone.basis) == (1.0, 0.8, 1.0, "assumed")


def measured(words: str, framework: str = "ddp", **more: Any) -> Efficiency:
    """The shortest measurement of a target in a child process."""
    pytest.importorskip("torch")
    return measured_efficiency(Target(words=words), "cpu", framework, **{"seconds": 0.0, **more})


def request(words: str, framework: str = "ddp") -> Request:
    """The same as the child is asked for it."""
    return Request(
        target=Target(words=words),
        device="cpu",
        framework=framework,
        precision="fp32",
        microbatch=None,
        target_batch_size=None,
        seconds=0.0,
        threads=1,
        silence_s=60.0,
    )


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """No process is left, running or dead."""

    def children() -> str:
        return Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")

    before = children()
    yield
    assert children() == before


def test_none_is_the_plain_loop() -> None:
    """By definition 1; no process is started."""
    row = measured_efficiency(Target(words="no:matter"), "cpu", "none")
    assert (row.value, row.low, row.high) == (1.0, 1.0, 1.0)


@pytest.mark.usefixtures("nothing_left")
def test_ddp_is_measured_in_a_child_process() -> None:
    """Measured, in (0, 1]; the progress ends at 1 and no process is left."""
    seen: list[float] = []
    row = measured("framework_models:tiny", progress=seen.append)
    assert row.basis == "measured"
    assert 0 < row.low <= row.value <= row.high <= 1
    # No time: the shortest cycles.
    assert "5 pairs of cycles of 2 x 4 samples on cpu" in row.source
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_ddp_takes_models_with_unused_frozen_tied_and_sparse_parameters() -> None:
    """What DDP refuses by default it is told of: a layer that the loss does not reach, beside tied,
    frozen and sparse ones.
    """
    row = measured("framework_models:odd", microbatch=4)
    assert row.basis == "measured", row.source


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "broken",
            {
                "kind": "error",
                "message": "the measured code fails while batches of 8 are accumulated: "
                "ZeroDivisionError: no message",
                "hint": "run one step of it by hand to see where",
                "exit_code": 2,
            },
        ),
        ("full", {"kind": "memory", "message": "32 GiB"}),
        (
            "refused",
            {
                "kind": "error",
                "message": "framework_models:refused fails: BadInputError: no weights here "
                "(download them)",
                "hint": "correct the function, which is called without arguments",
                "exit_code": 2,
            },
        ),
        (
            "step",
            {
                "kind": "error",
                "message": "--framework needs a model: a step function hides its gradients",
                "hint": "leave out --framework",
                "exit_code": 2,
            },
        ),
    ],
)
def test_failures_of_the_model_itself_are_its_own(function: str, message: dict[str, Any]) -> None:
    """They are not blamed on the framework, and memory that runs out is told apart."""
    pytest.importorskip("torch")
    sent: list[dict[str, Any]] = []
    answer(request(f"framework_models:{function}"), lambda **words: sent.append(words))
    assert sent[-1] == message


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("killed", "ended with signal 9 and no result"),
        ("exits", "ended with exit code 3 and no result"),
        ("missing", "framework_targets has no function 'missing'"),
    ],
)
def test_a_child_that_dies_is_one_line(function: str, says: str) -> None:
    """It names the target, or repeats what the child said."""
    with pytest.raises(PlacerError) as caught:
        measured(f"framework_targets:{function}")
    assert says in caught.value.message
    assert "\n" not in caught.value.message


def test_memory_that_runs_out_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command answers it with smaller batches."""
    monkeypatch.setattr(
        efficiency, "_messages", lambda *_: iter([{"kind": "memory", "message": "32 GiB"}])
    )
    with pytest.raises(OutOfMemory, match="32 GiB"):
        measured("framework_targets:hangs")


@pytest.mark.usefixtures("nothing_left")
def test_a_child_that_hangs_is_ended_at_its_deadline() -> None:
    """Under DDP it sleeps for a day and keeps the GIL, so that no handler of Python could run: the
    error names the framework and the target, and no process is left.
    """
    with pytest.raises(PlacerError) as caught:
        measured("framework_models:hangs", silence_s=6.0)
    assert caught.value.message == (
        "--framework ddp hangs: ddp with framework_models:hangs gave no sign of life for 6 s, and "
        "its process was ended"
    )
    assert caught.value.hint == "leave out --framework ddp"


@pytest.mark.usefixtures("nothing_left")
def test_a_target_that_hangs_while_it_is_loaded_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading has a deadline of its own: imports and downloads take longer than a step."""
    monkeypatch.setattr(efficiency, "LOADING_S", 0.5)
    with pytest.raises(PlacerError, match="ddp hangs: loading framework_targets:hangs gave no"):
        measured("framework_targets:hangs")


@pytest.mark.usefixtures("nothing_left")
def test_ctrl_c_ends_the_child() -> None:
    """It passes through, and no process is left."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            measured("framework_targets:interrupted")
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_slow_model_may_be_silent_for_longer() -> None:
    """Twenty steps of 30 s more than the least."""
    assert silence_s(30.0) == LEAST_SILENCE_S + 600


IN_ITS_OWN_PROCESS = """
import contextlib
import torch
from framework_models import indexed, odd, tiny
from placer.errors import PlacerError
from placer.profiler.framework.accumulation import Accumulation
from placer.profiler.framework.child import measure
torch.set_num_threads(1)
cpu = torch.device("cpu")
workload = tiny()
before = [p.detach().clone() for p in workload.module.parameters()]
def measured(workload, seconds, autocast=contextlib.nullcontext):
    reported = []
    accumulation = Accumulation(
        workload=workload, device=cpu, microbatch=4, steps=3, autocast=autocast
    )
    measure(accumulation, "ddp", seconds, lambda share: None, reported.append)
    assert len(reported) == 1, reported
    return reported[0]


# Three microbatches of four take milliseconds: 40 pairs end the minute.
assert "40 pairs of cycles of 3 x 4 samples on cpu" in measured(workload, 60.0).source
assert all(torch.equal(a, b) for a, b in zip(before, workload.module.parameters(), strict=True))
assert all(p.grad is None for p in workload.module.parameters())
assert not torch.distributed.is_initialized()
assert measured(odd(), 0.0, lambda: torch.autocast("cpu", torch.bfloat16)).basis == "measured"

# A loss that reaches into the module, which DDP wraps: the plain loop runs, DDP does not.
row = measured(indexed(), 0.0)
assert row.basis == "assumed", row
assert row.source.startswith("ddp failed with this model (TypeError"), row
assert not torch.distributed.is_initialized()

torch.distributed.init_process_group(
    "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
)
try:
    measured(workload, 0.0)
except PlacerError as error:
    assert "a process group is open already" in str(error), error
else:
    raise AssertionError("no error")
assert torch.distributed.is_initialized()
print("as before", flush=True)
"""


def in_a_process(code: str) -> subprocess.CompletedProcess[str]:
    """Run some code that may hang."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests" / "profiler")))
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
        start_new_session=True,
    )


def test_ddp_leaves_the_model_and_process_groups_as_they_were() -> None:
    """Parameters stay, there are no gradients, the group is closed; a group of the user's own is an
    error and stays open. A model that DDP does not take gets the table with the reason.
    """
    pytest.importorskip("torch")
    done = in_a_process(IN_ITS_OWN_PROCESS)
    assert done.stdout == "as before\n", (done.returncode, done.stdout, done.stderr)


LISTENS = """
import os, torch
from listening import listeners
from placer.profiler.framework.accumulation import _group_of_one
for asked in (None, "eth0"):
    if asked:
        os.environ["GLOO_SOCKET_IFNAME"] = asked
    before = listeners()
    with _group_of_one(torch):
        print(*sorted(address for address, *_ in listeners() - before))
    assert os.environ.get("GLOO_SOCKET_IFNAME") == asked
"""


def test_ddp_listens_on_loopback_unless_another_device_is_named(tmp_path: Path) -> None:
    """On a machine whose name stands for an address of its own, at which gloo listened: read from
    /proc/net/tcp. The name and its address are those of a namespace.
    """
    pytest.importorskip("torch")
    unshare = shutil.which("unshare")
    own = own_address("eth0")
    if unshare is None or own is None or os.geteuid() != 0:
        pytest.skip("needs unshare, root and a network card")
    (tmp_path / "hosts").write_text(f"{own} elsewhere\n", encoding="ascii")
    named = f"hostname elsewhere && mount --bind {tmp_path / 'hosts'} /etc/hosts || exit 99"
    spaces = (unshare, "--uts", "--mount", "sh", "-c", f'{named}; exec "$0" -c "$1"')
    done = subprocess.run(
        [*spaces, sys.executable, LISTENS],
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    if done.returncode == 99 or "unshare:" in done.stderr:
        pytest.skip(f"no namespaces here: {done.stderr.strip()[-100:]}")
    assert done.stdout.split() == ["127.0.0.1", own], done.stderr


def own_address(card: str) -> str | None:
    """Return the address of a network card, if there is one."""
    fcntl = pytest.importorskip("fcntl")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            told = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, card.encode().ljust(256, b"\0"))
        except OSError:
            return None
    return socket.inet_ntoa(told[20:24])


@pytest.mark.parametrize(
    ("framework", "more", "says"),
    [
        ("horovod", {}, "unknown framework 'horovod'"),
        ("ddp", {"microbatch": 0}, "microbatch is 0"),
        ("ddp", {"target_batch_size": -1}, "target batch size is -1"),
    ],
)
def test_wrong_words_are_refused(framework: str, more: dict[str, Any], says: str) -> None:
    """By name and value, before a process is started."""
    with pytest.raises(PlacerError, match=says):
        measured("framework_models:tiny", framework, **more)


@pytest.mark.skipif(
    importlib.util.find_spec("hivemind") is not None, reason="hivemind is installed"
)
def test_hivemind_that_is_not_installed_gives_the_table() -> None:
    """With the reason."""
    pytest.importorskip("torch")
    sent: list[dict[str, Any]] = []
    answer(request("framework_models:tiny", "hivemind"), lambda **words: sent.append(words))
    row = Efficiency(**sent[-1]["efficiency"])
    assert row.basis == "assumed"
    assert row.source.startswith("hivemind is not installed; ")


@pytest.mark.skipif(
    importlib.util.find_spec("hivemind") is None, reason="hivemind is not installed"
)
def test_hivemind_is_measured_without_peers() -> None:
    """Two linear layers of 321 parameters: its bookkeeping takes longer than the model, so it loses
    speed. It says nothing on stderr.

    Ctrl-C, sent to the whole process group as a terminal does, ends the measurement without a word.
    """
    code = """
import os
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from placer.profiler.framework.efficiency import measured_efficiency
from placer.profiler.target import Target
target = Target(words="framework_models:tiny")
row = measured_efficiency(target, "cpu", "hivemind", seconds=0.0)
assert row.basis == "measured", row.source
assert 0 < row.low <= row.value < 1, row


def interrupt(share):
    os.killpg(0, signal.SIGINT)


try:
    measured_efficiency(target, "cpu", "hivemind", seconds=60.0, progress=interrupt)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("kept", flush=True)
"""
    done = in_a_process(code)
    assert done.stdout == "interrupted\nkept\n", (done.returncode, done.stdout, done.stderr)
    assert not done.stderr

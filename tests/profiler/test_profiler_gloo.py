"""Counted gradients are what two real processes send each other over gloo, by the kernel's own
count of bytes.
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if (
    not torch.distributed.is_available()
    or not torch.distributed.is_gloo_available()
    or sys.platform != "linux"
):
    pytest.skip("needs gloo and Linux's TCP_INFO", allow_module_level=True)
from gloo_ranks import CASES  # noqa: E402

from conftest import PROCESS_TIMEOUT_S, ROOT  # noqa: E402
from placer.profiler.workload import gradient_sizes  # noqa: E402

torch.set_num_threads(1)
OVERHEAD = 0.01
"""Gloo's headers: about 100 bytes a message, two messages and more for each tensor."""
Counts = dict[str, dict[str, dict[str, int]]]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[Counts]:
    """What both ranks counted for all cases: bytes and tensors handed to all-reduce, bytes that
    came in over TCP.
    """
    store = tmp_path_factory.mktemp("gloo") / "store"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = str(ROOT / "tests" / "gloo_ranks.py")
    started = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(store)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        ended = [process.communicate(timeout=PROCESS_TIMEOUT_S) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0, 0], "\n".join(
        error.decode()[-2000:] for _, error in ended
    )
    return [json.loads(out) for out, _ in ended]


@pytest.mark.parametrize("case", CASES)
def test_ddp_sends_what_is_counted(ranks: list[Counts], case: str) -> None:
    """Each of two ranks of a ring sends 2 (N - 1) / N = 1 times the gradient. TCP carries up to 1 %
    more. DistributedDataParallel hands over the same bytes and tensors.
    """
    sizes = gradient_sizes(CASES[case]())
    for rank in ranks:
        counted = rank[case]["by_ddp"]
        assert sizes.bytes_native <= counted["received"] <= sizes.bytes_native * (1 + OVERHEAD)
        assert (counted["handed"], counted["tensors"]) == (sizes.bytes_native, sizes.tensors)


SIZES: dict[str, dict[str, Any]] = {
    "plain": {"parameters": 299_530, "trainable": 299_530, "tensors": 6, "bytes_fp32": 1_198_120},
    "tied": {"parameters": 385_000, "trainable": 385_000, "tensors": 2, "bytes_fp32": 1_540_000},
    "frozen": {"parameters": 299_530, "trainable": 151_690, "tensors": 4, "bytes_fp32": 606_760},
    "unused": {"parameters": 447_370, "trainable": 447_370, "tensors": 6, "bytes_fp32": 1_789_480},
    "bfloat16": {
        "parameters": 299_530,
        "trainable": 299_530,
        "tensors": 6,
        "bytes_fp32": 1_198_120,
        "bytes_native": 902_440,
    },
}
"""384 x 385 = 147,840 parameters of a layer, 385 x 10 = 3,850 of the last, 1,000 words of 384; in
BF16 a layer saves 295,680 bytes.
"""


@pytest.mark.parametrize("case", CASES)
def test_sizes_by_hand(case: str) -> None:
    """The same sizes from the shapes of the layers."""
    sizes = gradient_sizes(CASES[case]())
    assert {name: getattr(sizes, name) for name in SIZES[case]} == SIZES[case]

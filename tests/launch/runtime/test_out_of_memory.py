"""Out of memory where gradients meet: refused before the run where it can be known, said in one
line where it happens.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from forked_ranks import ran  # noqa: E402
from run_plans import A, B, C, changed, document, plan_of, settings_of  # noqa: E402

from placer.documents.manifest import read_manifest  # noqa: E402
from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.training.context import Context, check_fits, memory_error  # noqa: E402
from placer.launch.runtime.wire import Meter  # noqa: E402
from placer.records import replace  # noqa: E402

sys.path.insert(0, str(ROOT / "tests"))


def with_gradients(told: dict[str, Any], gradient_bytes: float) -> dict[str, Any]:
    """The manifest of another model."""
    return changed(told, model={**told["model"], "gradient_bytes": gradient_bytes})


@pytest.mark.parametrize(("strategy", "held"), [("central", 4), ("hierarchical", 3)])
def test_a_manifest_whose_function_is_too_small_is_refused(strategy: str, held: int) -> None:
    """1 GiB = 1,073,741,824 bytes, workers 2 + 1 + 1: one function holds 4 gradients; in regions 2
    at most, and the global one 3.
    """
    told = document(strategy, (A, 2), (B, 1), (C, 1))
    most = 1024**3 / held
    read_manifest(with_gradients(told, most), "plan.json")
    with pytest.raises(
        PlacerError, match=f"the function in {A} has 1 GiB, its {held} gradients are 1.0"
    ):
        read_manifest(with_gradients(told, most * 1.01), "plan.json")


def test_a_model_that_is_larger_than_the_plans_is_refused_at_the_start() -> None:
    """Two workers of 200 million FP32 parameters: 1.6 GB do not fit 1 GiB, though the plan's model
    did. 2 x 4 x 2^27 bytes fill it; a worker is told how to take less.
    """
    plan = plan_of(document("central", (A, 1), (B, 1)))
    check_fits(plan, 2, 2**27)
    with pytest.raises(PlacerError, match="aggregator out of memory"):
        check_fits(plan, 2, 2**27 + 1)
    with pytest.raises(
        PlacerError,
        match=r"aggregator out of memory: the function in gcp/a holds 2 gradients of 800 MB .*; it "
        r"has 1 GiB",
    ):
        check_fits(plan, 2, 200_000_000)
    told = memory_error(plan, 1, 33)
    assert told.message == "out of memory: the worker in gcp/b, 3 samples at once by the plan"
    assert told.hint == "give a smaller --microbatch"


@pytest.mark.parametrize(
    ("steps", "every", "ends", "saved"),
    [(8, 4, [2, 5, 7], [5, 7]), (9, 3, [2, 5, 8], [2, 5, 8]), (7, 0, [2, 5, 6], [])],
)
def test_checkpoints_come_at_the_ends_of_rounds(
    tmp_path: Path, steps: int, every: int, ends: list[int], saved: list[int]
) -> None:
    """Rounds of three steps, of which the last may be shorter: every four steps are every two
    rounds. The end of the run has one too; without a place there is none.
    """
    plan = plan_of(document("model-averaging", (A, 1), (B, 1), local_steps=3))
    usual = settings_of(tmp_path, plan, steps=steps, checkpoint_every=every)
    common: dict[str, Any] = {"trainer": None, "store": None, "address": ""}
    for settings, expected in ((usual, saved), (replace(usual, checkpoints=""), [])):
        seat = plan.seats(1)[0]
        context = Context(plan=plan, settings=settings, seat=seat, meter=Meter(), **common)
        assert [step for step in range(steps) if context.ends_round(step)] == ends
        assert [step for step in range(steps) if context.saves_checkpoint(step)] == expected


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS and /proc")
def test_an_aggregator_that_gets_no_more_memory_says_so(tmp_path: Path) -> None:
    """The limit of its process is too small for two gradients of 8 MB and their sum: place, what it
    holds, what to do; all end.
    """
    told = document("parameter-server", (A, 1), (B, 1))
    words = r"out of memory: the (server|function) in gcp/a holds 2 gradients of 8 MB and their sum"
    with pytest.raises(PlacerError, match=words) as caught:
        ran(tmp_path, told, train="run_plans:hungry", checkpoints="", steps=3)
    assert caught.value.exit_code == 1
    assert "fewer workers" in caught.value.hint

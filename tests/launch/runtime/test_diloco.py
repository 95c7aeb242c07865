"""DiLoCo and Streaming DiLoCo with real processes: the arithmetic of the papers, equal parameters
after an outer step, errors of compression that are fed back and kept in checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
sys.path.insert(0, str(ROOT / "tests"))
from run_plans import A, B, document, islands, plan_of  # noqa: E402
from test_runtime import (  # noqa: E402
    TOLERANCE,
    Alone,
    Records,
    check_bytes,
    models,
    ran,
)

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.strategies.streaming_diloco import (  # noqa: E402
    due_fragment,
    fragment_slices,
)
from placer.launch.runtime.training.outer_optimizer import (  # noqa: E402
    MOMENTUM,
    RATE,
    OuterOptimizer,
)
from placer.launch.runtime.training.trainer import Trainer  # noqa: E402
from placer.launch.runtime.wire.codec import Codec  # noqa: E402
from placer.launch.runtime.wire.feedback import Feedback  # noqa: E402
from placer.problem.exchange.streaming_diloco import fragments  # noqa: E402
from placer.profiler.workload import Workload  # noqa: E402

torch.set_num_threads(1)
COARSE = ("int8", "int4", "sparse")


def losses(records: Records) -> list[float]:
    """Return the loss over the batch, by step."""
    steps = [record for record in records if record["kind"] == "step"]
    return [
        sum(r["loss"] for r in steps if r["step"] == number)
        for number in sorted({r["step"] for r in steps})
    ]


def ends(records: Records) -> set[str]:
    """Return the digests of the parameters with which the workers ended."""
    return {r["parameters_sha256"] for r in records if r["kind"] == "end"}


def outer_steps(shares: list[int], every: int, steps: int) -> Any:
    """DiLoCo in one process: replicas, and Nesterov momentum over their mean change."""
    replicas, total = [Alone() for _ in shares], sum(shares)
    common = replicas[0].vector
    velocity = torch.zeros_like(common)
    for step in range(steps):
        for rank, replica in enumerate(replicas):
            replica.step(step, {rank: shares[rank]})
        if (step + 1) % every == 0:
            change = sum(
                (replica.vector - common) * (share / total)
                for replica, share in zip(replicas, shares, strict=True)
            )
            velocity = MOMENTUM * velocity + change
            common = common + RATE * (change + MOMENTUM * velocity)
            for replica in replicas:
                replica.load(common)
    return common


def test_outer_optimizer_is_torchs_nesterov() -> None:
    """Three steps with changes d are three of torch's SGD with gradients -d."""
    changes = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    optimizer = OuterOptimizer(torch.zeros(5), RATE)
    theirs = torch.nn.Parameter(torch.zeros(5))
    nesterov = torch.optim.SGD([theirs], lr=RATE, momentum=MOMENTUM, nesterov=True)
    for change in changes:
        optimizer.step(change)
        theirs.grad = -change
        nesterov.step()
    torch.testing.assert_close(optimizer.common, theirs.detach())


def test_diloco_is_the_papers_arithmetic(tmp_path: Path) -> None:
    """H = 3, six steps: two outer steps; 10 samples on two workers with 5 each."""
    told = document("diloco", (A, 1), (B, 1), local_steps=3, target_batch_size=10)
    records = ran(tmp_path, told)
    vector = outer_steps([5, 5], 3, 6)
    for model in models(tmp_path, plan_of(told)):
        torch.testing.assert_close(model, vector, **TOLERANCE)
    check_bytes(told, tmp_path, records, tolerance=0.04)  # shards of 17 and 16 elements
    assert len(ends(records)) == 1


@pytest.mark.parametrize("compression", ["none", *COARSE])
def test_loss_falls_and_models_are_equal(tmp_path: Path, compression: str) -> None:
    """Three workers with AdamW, 80 steps, an outer step every four: all end with the same model to
    the last bit, and the loss of the last eight steps is below that of the first eight.
    """
    told = document("diloco", (A, 2), (B, 1), local_steps=4, compression=compression)
    records = ran(tmp_path, told, steps=80, train="run_plans:calm")
    found = losses(records)
    assert sum(found[-8:]) < 0.8 * sum(found[:8])
    assert len(ends(records)) == 1


@pytest.mark.parametrize("strategy", ["diloco", "streaming-diloco"])
def test_a_resumed_run_keeps_momentum_and_errors(tmp_path: Path, strategy: str) -> None:
    """Momentum, the model all agree on and the errors of INT4 are in the checkpoint: four steps, a
    checkpoint, four more are eight in one go, to the last bit.
    """
    told = document(
        strategy,
        (A, 1),
        (B, 1),
        local_steps=4,
        compression="int4",
        overlap=strategy == "streaming-diloco",
    )
    ran(tmp_path, told, steps=4)
    resumed = ran(tmp_path, told, steps=8, resume=True)
    whole = ran(tmp_path, told, steps=8, checkpoint_every=4)
    assert ends(resumed) == ends(whole)
    assert len(ends(whole)) == 1


def test_a_fragment_is_read_and_moved_alone() -> None:
    """Values 2 to 5 of eight, over two parameters of which one lies in memory column by column:
    halfway to 100.
    """
    module = torch.nn.ParameterList([torch.arange(4.0).view(2, 2).T, torch.arange(4.0, 8.0)])
    workload = Workload(
        name="two",
        title="two parameters",
        family="other",
        module=module,
        batch=lambda count, device: torch.zeros(count),
        loss=lambda module, batch: module[0].sum(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        source="test",
    )
    trainer = Trainer(workload, torch.device("cpu"), rank=0, seed=0, microbatch=1)
    assert trainer.part(slice(2, 6)).tolist() == [1, 3, 4, 5]
    trainer.move_part(slice(2, 6), torch.full((4,), 100.0), 0.5)
    assert trainer.vector().tolist() == [0, 2, 50.5, 51.5, 52, 52.5, 6, 7]


@pytest.mark.parametrize("compression", ["none", "int4"])
def test_streaming_sends_the_same_bytes_in_fragments(tmp_path: Path, compression: str) -> None:
    """H = 4, so four fragments of 8 or 9 elements; 80 steps: loss falls, all end with the outer
    parameters, and every pair carried in a round what DiLoCo's carries.
    """
    told = document(
        "streaming-diloco", (A, 1), (B, 1), local_steps=4, compression=compression, overlap=True
    )
    records = ran(tmp_path, told, steps=80, train="run_plans:calm")
    found = losses(records)
    assert sum(found[-8:]) < 0.8 * sum(found[:8])
    assert len(ends(records)) == 1
    if compression == "none":  # scales of tiny INT4 messages are most of their bytes
        check_bytes(told, tmp_path, records, tolerance=0.2)
    beside = [r["beside"] for r in records if r["kind"] == "step" and "beside" in r]
    assert any(part["exchange_s"] > 0 for part in beside)


@pytest.mark.parametrize("strategy", ["diloco", "streaming-diloco"])
@pytest.mark.parametrize("sharding", ["none", "zero-3"])
def test_islands_keep_the_state_of_each_process(
    tmp_path: Path, strategy: str, sharding: str
) -> None:
    """Two islands of two processes: momentum and errors of each process's piece are in the island's
    checkpoint, so a resumed run ends as one in one go.
    """
    told = islands(
        strategy,
        (A, 1, 2),
        (B, 1, 2),
        inner={"sharding": sharding},
        local_steps=4,
        compression="int4",
        overlap=strategy == "streaming-diloco",
    )
    ran(tmp_path, told, steps=4)
    resumed = ran(tmp_path, told, steps=8, resume=True)
    whole = ran(tmp_path, told, steps=8, checkpoint_every=4)
    assert ends(resumed) == ends(whole)
    assert len(ends(whole)) == 1


def test_a_run_that_ends_inside_a_round_sums_all_once_more(tmp_path: Path) -> None:
    """Six steps of H = 4: the last two are not lost, all end alike."""
    told = document("streaming-diloco", (A, 1), (B, 1), local_steps=4, overlap=True)
    assert len(ends(ran(tmp_path, told))) == 1


def test_a_streaming_plan_without_overlap_is_refused() -> None:
    """It runs beside the calculation or it is another strategy."""
    with pytest.raises(PlacerError, match="always overlaps the calculation"):
        plan_of(document("streaming-diloco", (A, 2), local_steps=4))


@pytest.mark.parametrize("compression", ["int4", "sparse"])
def test_a_plan_too_coarse_for_its_exchange_is_refused(compression: str) -> None:
    """Only strategies with an outer optimizer feed the errors back."""
    with pytest.raises(PlacerError, match="too coarse for the exchange all-reduce"):
        plan_of(document("all-reduce", (A, 2), compression=compression))


@given(st.integers(1, 600), st.integers(1, 2_000))
def test_every_fragment_leaves_once_in_a_round(steps: int, elements: int) -> None:
    """In H steps each of the fragments is due once, the last at the end, and they are the model."""
    count = fragments(steps)
    due = [due_fragment(done, steps, count) for done in range(steps + 1, 2 * steps + 1)]
    assert [number for number in due if number is not None] == list(range(count))
    parts = fragment_slices(elements, count)
    assert sum(part.stop - part.start for part in parts) == elements


@settings(deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(COARSE), st.integers(0, 99))
def test_messages_have_their_size_and_come_back(elements: int, compression: str, seed: int) -> None:
    """A message has the bytes that are allocated for it, and its vector the same length; INT4 is
    off by half a step of a fourteenth of the largest value.
    """
    vector = torch.randn(elements, generator=torch.Generator().manual_seed(seed))
    codec = Codec(compression)
    message = codec.encode(vector)
    assert len(message) == codec.size(elements) == len(codec.empty(elements))
    back = codec.decode(message, elements)
    assert len(back) == elements
    if elements and compression == "int4":
        assert float((back - vector).abs().max()) <= float(vector.abs().max()) / 14 * (1 + 1e-5)
    if elements >= 4_096 and compression == "sparse":
        kept = back[:4_096] != 0
        assert int(kept.sum()) == 64
        assert float(vector[:4_096][kept].abs().min()) >= float(vector[:4_096][~kept].abs().max())
        assert bool((back[:4_096][kept].sign() == vector[:4_096][kept].sign()).all())


def test_sparse_is_146_times_less() -> None:
    """64 of 4,096 values with 14 bits each: 32 x 4,096 / (64 x 14) = 146.3, as Covenant-72B (arXiv
    2603.08163) counts.
    """
    elements = 4_096_000
    assert 4 * elements / Codec("sparse").payload(elements) == pytest.approx(146.3, abs=0.05)
    assert 4 * elements / Codec("sparse").size(elements) > 146


@pytest.mark.parametrize("compression", COARSE)
def test_what_is_lost_comes_later(compression: str) -> None:
    """The sum of 200 messages of one vector is near 200 times the vector: nothing is lost for
    good. Without feedback a sparse message would never tell of small values.
    """
    vector = torch.randn(4_096, generator=torch.Generator().manual_seed(1))
    codec, feedback = Codec(compression), Feedback(4_096)
    total = torch.zeros(4_096)
    for _ in range(200):
        said = feedback.added(vector)
        heard = codec.decode(codec.encode(said), 4_096)
        feedback.sent = said - heard
        total += heard
    assert float((total / 200 - vector).norm() / vector.norm()) < 0.5

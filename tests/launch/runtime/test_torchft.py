"""Local SGD, DiLoCo and Streaming DiLoCo from a manifest, by torchft, on CPUs."""

import signal
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("torchft")
from forked_ranks import ran as forked  # noqa: E402
from forked_ranks import signalling  # noqa: E402
from plain_torch import TOLERANCE, digests, ends, outer_steps  # noqa: E402
from run_plans import A, B, C, document, islands, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.processes.run import check_torchft, run_here  # noqa: E402
from placer.launch.runtime.run_log import summary  # noqa: E402
from placer.launch.runtime.strategies.replicas import RATES  # noqa: E402
from placer.problem.exchange import bytes_by_link  # noqa: E402

torch.set_num_threads(1)


def planned(strategy: str, *counts: tuple[str, int], **exchange: Any) -> dict[str, Any]:
    """Manifest of an exchange after many steps."""
    late = strategy == "streaming-diloco"
    return document(strategy, *counts, overlap=late, **exchange)


@pytest.mark.parametrize("strategy", ["local-sgd", "diloco"])
def test_it_is_the_papers_arithmetic(tmp_path: Path, strategy: str) -> None:
    """H = 3, six steps: two outer steps with Nesterov momentum over the mean change; for local SGD
    the mean itself. A round sends S = 132 bytes each way, as priced.
    """
    told = planned(strategy, (A, 1), (B, 1), local_steps=3)
    records = forked(tmp_path, told, checkpoints="")
    momentum = 0.9 if strategy == "diloco" else 0.0
    wanted = outer_steps([{0: 12}, {1: 12}], 3, 6, RATES[strategy], momentum)
    assert len(digests(records, 2)) == 1
    torch.testing.assert_close(ends(records)[0], wanted, **TOLERANCE)
    check_bytes(told, tmp_path, records, 2)


def check_bytes(
    told: dict[str, Any], folder: Path, records: list[dict[str, Any]], rounds: int
) -> None:
    """Rounds and bytes are those of the plan."""
    plan = plan_of(told)
    exchanged = [r for r in records if r["kind"] == "step" and r["rank"] == 0 and r["sent"]]
    assert len({r["step"] // plan.exchange.local_steps for r in exchanged}) == rounds
    for row in summary(plan, settings_of(folder, plan), records)["bytes"]:
        assert row["measured"] == pytest.approx(row["predicted"], rel=0.02), row


def test_streaming_sends_the_same_bytes_in_fragments(tmp_path: Path) -> None:
    """H = 16: eight fragments, each summed beside the step after it left; over a round the bytes of
    DiLoCo. All end with the outer parameters.
    """
    told = planned("streaming-diloco", (A, 1), (B, 1), local_steps=16)
    records = forked(tmp_path, told, steps=32, checkpoints="")
    assert len(digests(records, 2)) == 1
    check_bytes(told, tmp_path, records, 2)
    sizes = [sum(part["bytes"] for part in r["sent"]) for r in records if r.get("sent")]
    assert max(sizes) <= 5 * 4  # 33 elements in eight fragments: 4 or 5
    assert all(r["beside"]["exchange_s"] > 0 for r in records if r.get("beside"))


@pytest.mark.parametrize("compression", ["fp16", "int8", "int4", "sparse"])
def test_compressed_changes_are_the_same_on_all(tmp_path: Path, compression: str) -> None:
    """What torchft does not compress, placer sums: an odd number of elements, errors fed back."""
    told = planned("diloco", (A, 1), (B, 1), local_steps=2, compression=compression)
    records = forked(tmp_path, told, steps=8, train="run_plans:calm", checkpoints="")
    assert len(digests(records, 2)) == 1
    sizes = {sum(part["bytes"] for part in r["sent"]) for r in records if r.get("sent")}
    assert sizes
    assert max(sizes) < 132


def test_islands_exchange_piece_by_piece(tmp_path: Path) -> None:
    """Two islands of two processes: equal processes exchange what they hold, together S bytes."""
    told = islands("diloco", (A, 1, 2), (B, 1, 2), inner={"sharding": "zero-3"}, local_steps=3)
    records = forked(tmp_path, told, checkpoints="")
    groups = [{0: 6, 1: 6}, {2: 6, 3: 6}]
    torch.testing.assert_close(
        ends(records)[0], outer_steps(groups, 3, 6, RATES["diloco"], 0.9), **TOLERANCE
    )
    assert len(digests(records, 2)) == 1
    check_bytes(told, tmp_path, records, 2)


@pytest.mark.parametrize("strategy", ["local-sgd", "diloco", "streaming-diloco"])
def test_the_others_go_on_without_a_lost_replica(tmp_path: Path, strategy: str) -> None:
    """Quorum 2 of 3: rank 2 is killed in the first round, the others end with one model, and send
    what is priced for two from then on.
    """
    told = planned(strategy, (A, 1), (B, 1), (C, 1), local_steps=4, quorum=2, grace_s=1.0)
    records = forked(
        tmp_path, told, signalling(2, 1, signal.SIGKILL), steps=12, timeout_s=2.0, checkpoints=""
    )
    assert {r["rank"] for r in records if r["kind"] == "end"} == {0, 1}
    assert len(digests(records, 2)) == 1
    steps = [r for r in records if r["kind"] == "step" and r["rank"] == 0]
    assert max(r["step"] for r in steps) == 11
    two = plan_of(planned(strategy, (A, 1), (B, 1), local_steps=4))
    priced = bytes_by_link(two.phases(132.0))[A, B]
    sent = sum(part["bytes"] for r in steps if r["step"] >= 8 for part in r["sent"])
    assert sent == pytest.approx(priced, rel=0.02)


@pytest.mark.usefixtures("warm_machines")
def test_the_launcher_says_who_is_lost_and_goes_on(tmp_path: Path) -> None:
    """Also without the first worker, whose machine serves store and lighthouse; without a quorum
    the run ends and names it.
    """
    told = planned("diloco", (A, 1), (B, 1), (C, 1), local_steps=2, quorum=2, grace_s=1.0)
    plan, records = plan_of(told), list[dict[str, Any]]()
    # Eight steps may be over before a busy machine has sent the signal.
    settings = settings_of(tmp_path, plan, steps=24, timeout_s=5.0, checkpoints="")
    kill = signalling(0, 1, signal.SIGKILL)

    def watch(record: dict[str, Any]) -> None:
        records.append(record)
        kill(record)

    run_here(plan, told, settings, tmp_path, watch)
    lost = [r for r in records if r["kind"] in ("lost", "notice")]
    assert [r["kind"] for r in lost] == ["lost", "notice"]
    assert lost[0]["reason"] == "killed by SIGKILL"
    assert "2 workers go on" in lost[1]["message"]
    assert {r["rank"] for r in records if r["kind"] == "end"} == {1, 2}


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        ({"strategy": "streaming-diloco", "local_steps": 12, "overlap": True}, "12 local steps"),
        ({"strategy": "diloco", "local_steps": 4}, "no whole rounds of 4 local steps"),
    ],
)
def test_what_torchft_does_not_do_is_refused(exchange: dict[str, Any], words: str) -> None:
    """Before anything starts: what is run would not be what was priced."""
    told = document(exchange.pop("strategy"), (A, 1), (B, 1), **exchange)
    plan = plan_of(told)
    with pytest.raises(PlacerError, match=words):
        check_torchft(plan, 6)

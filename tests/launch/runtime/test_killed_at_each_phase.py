"""A worker or hub that is killed with SIGKILL at each phase: it ends soon, says who and where, and
nothing is lost but its step.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from conftest import ROOT

torch: Any = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("needs gloo", allow_module_level=True)
from killed import ORDER  # noqa: E402
from run_plans import A, B, document, plan_of, settings_of  # noqa: E402

from placer.errors import PlacerError  # noqa: E402
from placer.launch.runtime.processes.run import run_here  # noqa: E402

sys.path.insert(0, str(ROOT / "tests"))
STEPS, ROUND = 8, 2
"""Steps of a run; steps of a round where workers also step alone."""
STORES = ("central", "hierarchical")
# strategy, rank, when, phase, how often the phase came (of poll and download: the step), the step
# that it belongs to
CASES = [
    ("all-reduce", 2, "before", "calculation", 5, 4),
    ("all-reduce", 0, "before", "reduce-scatter", 5, 4),
    ("all-reduce", 1, "after", "reduce-scatter", 5, 4),
    ("all-reduce", 2, "before", "all-gather", 5, 4),
    ("all-reduce", 1, "after", "all-gather", 5, 4),
    ("all-reduce", 1, "before", "update", 5, 4),
    ("all-reduce", 1, "while", "checkpoint", 2, 4),
    ("hierarchical-all-reduce", 0, "before", "reduce-scatter between leaders", 5, 4),
    ("hierarchical-all-reduce", 1, "before", "broadcast inside regions", 5, 4),
    ("parameter-server", 1, "before", "push", 5, 4),
    ("parameter-server", 2, "before", "pull", 5, 4),
    ("parameter-server", 3, "before", "reduce", 5, 4),
    ("local-sgd", 1, "before", "calculation", 6, 5),
    ("local-sgd", 2, "after", "reduce-scatter", 3, 5),
    ("model-averaging", 1, "before", "all-gather inside regions", 6, 5),
    ("model-averaging", 0, "before", "down", 3, 5),
    ("central", 1, "before", "upload", 5, 4),
    ("central", 1, "after", "upload", 5, 4),
    ("central", 2, "before", "poll", 4, 4),
    ("central", 2, "after", "download", 4, 4),
    ("central", 0, "before", "update", 5, 4),
    ("central", 3, "before", "fetch", 5, 4),
    ("central", 3, "before", "put", 5, 4),
    ("central", 3, "before", "delete", 5, 4),
    ("hierarchical", 4, "before", "copy", 5, 4),
    ("asgd-ga", 1, "before", "reduce-scatter inside regions", 6, 5),
    ("asgd-ga", 2, "before", "send", 3, 5),
]


def manifest(strategy: str) -> dict[str, Any]:
    """Three workers in two regions."""
    alone = (
        {"local_steps": ROUND} if strategy in ("local-sgd", "model-averaging", "asgd-ga") else {}
    )
    return document(strategy, (A, 2), (B, 1), **alone)


def ran(folder: Path, strategy: str, endpoint: str, **other: Any) -> list[dict[str, Any]]:
    """Run to the end, with a checkpoint in the middle of each round or two."""
    told = manifest(strategy)
    plan = plan_of(told)
    records: list[dict[str, Any]] = []
    settings = settings_of(
        folder,
        plan,
        train="killed:tiny",
        steps=STEPS,
        checkpoint_every=2,
        endpoint_url=endpoint,
        **other,
    )
    run_here(plan, told, settings, folder, records.append)
    return records


@cache
def undisturbed(strategy: str, endpoint: str) -> frozenset[str]:
    """Digest of the workers' parameters after a run that nothing happened to."""
    with TemporaryDirectory() as folder:
        return digests(ran(Path(folder), strategy, endpoint))


def digests(records: list[dict[str, Any]]) -> frozenset[str]:
    """Of the workers' parameters at the end."""
    return frozenset(
        record["parameters_sha256"]
        for record in records
        if record["kind"] == "end" and record["rank"] < 3
    )


def resumed(folder: Path, strategy: str, endpoint: str) -> list[dict[str, Any]]:
    """Go on after a kill; regions of asgd-ga do not wait for each other, so a slow one may have
    kept nothing yet: then from the start.
    """
    try:
        return ran(folder, strategy, endpoint, resume=True)
    except PlacerError as error:
        if strategy != "asgd-ga" or not error.message.startswith("no checkpoint"):
            raise
        return ran(folder, strategy, endpoint)


@pytest.mark.parametrize(
    ("strategy", "rank", "when", "phase", "times", "step"),
    CASES,
    ids=lambda value: str(value).replace(" ", "-"),
)
def test_nothing_is_lost_but_the_step(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    strategy: str,
    rank: int,
    when: str,
    phase: str,
    times: int,
    step: int,
) -> None:
    """The error names rank, place and step; --resume goes on and ends with the parameters of an
    undisturbed run, to the last bit.

    Synchronous strategies go on before the step of the kill, others before their last whole round.
    """
    url = request.getfixturevalue("endpoint") if strategy in STORES else ""
    ORDER.unlink(missing_ok=True)
    wanted = undisturbed(strategy, url)
    assert len(wanted) == (
        2 if strategy == "asgd-ga" else 1
    )  # its regions differ in the order of late gradients
    place = [A, A, B, A, B][rank]  # of hierarchical 3 and 4 are the functions of the regions
    hub = (
        {"parameter-server": "server ", "central": "function ", "hierarchical": "function "}[
            strategy
        ]
        if rank > 2
        else ""
    )
    ORDER.write_text(f"{rank}|{when}|{phase}|{times}|{tmp_path / 'killed'}")
    said = rf"^{hub}rank {rank} \({place}\) stopped in step {step}: killed by SIGKILL"
    with pytest.raises(PlacerError, match=said) as caught:
        ran(tmp_path, strategy, url)
    assert (tmp_path / "killed").exists()
    assert "--resume" in caught.value.hint
    again = resumed(tmp_path, strategy, url)
    assert len([record for record in again if record["kind"] == "end" and record["rank"] < 3]) == 3
    if (
        strategy == "asgd-ga"
    ):  # what was on its way between regions is lost: no order is the right one
        return
    assert digests(again) == wanted
    start = {record["start"] for record in again if record["kind"] == "ready"}
    exact = (
        step
        if strategy in ("all-reduce", "hierarchical-all-reduce", "parameter-server", *STORES)
        else step - step % ROUND
    )
    assert len(start) == 1
    assert start <= {exact, exact + 1}, "survivors may have ended the step of the kill"
    assert not list(tmp_path.rglob(".writing-*"))

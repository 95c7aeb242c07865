"""Rehearsals: the small plan keeps the shape of the large one, and real processes behind shaped
links do what is predicted.

Seconds are asserted loosely here, as CI is a busy machine: shaped links are never faster than
asked, and a round ends. How near the prediction is on a quiet machine is measured by ``make
rehearse``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from shaping import shaped

from conftest import Run
from placer.cost_model.estimate import estimate, pool_of
from placer.documents.manifest import build_manifest, document_digest, read_manifest
from placer.documents.schemas import schema_text
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.launch.rehearsal.function_runs import runs_of
from placer.launch.rehearsal.island_hosts import as_hosts, host_rates
from placer.launch.rehearsal.machine_calibration import machine_calibration
from placer.launch.rehearsal.options import check_processes, own_elements
from placer.launch.rehearsal.scaled_plan import Scaled, fewer, scaled, usual_scale, without_hosts
from placer.launch.rehearsal.worker_death import WorkerDeath
from placer.launch.runtime.run_plan import plan_from
from placer.launch.shaped_network import Shape, open_network
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.workload.architecture import Architecture
from placer.workload.inner_plan import InnerPlan

US, EU = "gcp/us-central1", "gcp/europe-west1"
TWO = f"{US}=1xT4:spot,{EU}=1xT4:spot"
"""Erben et al. (2024), table 3: 210 Mb/s and 103 ms between them."""
OREGON, LONDON = "aws/us-west-2", "aws/eu-west-2"


def by_hand(
    model: str = "resnet50", book: str = "erben-2023", workers: str = TWO, **words: Any
) -> tuple[Problem, Placement]:
    """A question and a placement."""
    problem = Advisor((book,)).problem(model, **{"exchange": "all-reduce", **words})
    return problem, place_by_hand(workers, problem)


def manifest_of(problem: Problem, placement: Placement) -> dict[str, Any]:
    """Its manifest."""
    return build_manifest(problem, placement, estimate(placement, problem), "feasible", None)


def written(folder: Path, *asked: Any, **words: Any) -> Path:
    """A manifest in a file."""
    path = folder / "plan.json"
    path.write_text(json.dumps(manifest_of(*by_hand(*asked, **words))), encoding="utf-8")
    return path


class TestSmall:
    """The plan in small."""

    @pytest.mark.parametrize(
        "strategy",
        [
            "all-reduce",
            "hierarchical-all-reduce",
            "parameter-server",
            "local-sgd",
            "model-averaging",
            "diloco",
            "streaming-diloco",
        ],
    )
    def test_seconds_and_bytes_shrink_by_one_factor(self, strategy: str) -> None:
        """Round trips apart, which are the same: both of 50 times the bytes and of 1/50 of them."""
        words = {"local_steps": "4"} if traits(strategy).local_steps else {}
        workers = f"{US}=2xT4:spot,{EU}=2xT4:spot"
        problem, placement = by_hand(workers=workers, exchange=strategy, **words)
        problem = without_hosts(problem)
        small = scaled(problem, placement, 1 / 50, float("inf"))
        large, got = estimate(placement, problem), small.estimate
        assert got.step.calculation == pytest.approx(large.step.calculation / 50, rel=1e-3)
        way = (
            problem.network.link(US, EU).rtt_s
        )  # at most a push and a pull, half a round trip each, with the same rest on both sides
        assert got.step.communication == pytest.approx(
            large.step.communication / 50, abs=way * 1.01, rel=1e-3
        )
        for ours, theirs in zip(got.links, large.links, strict=True):
            assert ours.bytes_per_step == pytest.approx(theirs.bytes_per_step / 50, rel=1e-3)
        machine = [group["samples_per_second"] for group in small.manifest()["groups"]]
        assert got.step.calculation == pytest.approx(
            small.problem.batch * placement.exchange.local_steps / sum(2 * m for m in machine)
        )

    def test_dollars_per_hour_stay(self) -> None:
        """Bytes and seconds shrink alike: egress per hour is that of the plan with hosts that take
        no time.
        """
        problem, placement = by_hand()
        problem = without_hosts(problem)
        large, got = (
            estimate(placement, problem),
            scaled(problem, placement, 1 / 50, float("inf")).estimate,
        )
        assert got.usd_per_hour.egress == pytest.approx(large.usd_per_hour.egress, rel=1e-3)
        assert got.usd_per_hour.compute == large.usd_per_hour.compute

    def test_links_are_the_plans_unless_nothing_carries_them(self) -> None:
        """26.25 MB/s (210 Mb/s) between the regions; what is asked above 100 MB/s is cut to it, for
        the prediction too.
        """
        small = scaled(*by_hand(workers=f"{US}=2xT4:spot,{EU}=1xT4:spot"), 0.01, 100e6)
        found = {(shape.src, shape.dst): shape for shape in small.shapes}
        assert found[US, EU].stream_bytes_per_s == pytest.approx(26.25e6)
        assert found[US, EU].rtt_s == pytest.approx(0.1031, rel=0.05)
        assert found[US, US].stream_bytes_per_s == pytest.approx(100e6)
        assert small.problem.network.link(US, US).bytes_per_second == pytest.approx(100e6)

    def test_machines_are_workers_then_the_function_then_the_store(self) -> None:
        """As the runtime numbers its ranks; the store comes last."""
        words = {"exchange": "central", "aggregator": OREGON, "storage": OREGON}
        small = scaled(
            *by_hand(
                "niser",
                "phalak-2023",
                f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
                **words,
            ),
            0.1,
            1e9,
        )
        assert small.machines == (OREGON, LONDON, LONDON, OREGON, OREGON)

    def test_shares_of_data_that_has_its_place_stay(self) -> None:
        """Two thirds of the samples lie with the one worker in the US: 128 of the small batch of
        192, 32 for each of the two others.
        """
        small = scaled(
            *by_hand(
                workers=f"{US}=1xT4:spot,{EU}=2xT4:spot", data=[f"{US}=2M:stay", f"{EU}=1M:stay"]
            ),
            0.05,
            1e9,
        )
        plan = plan_from(small.manifest(), "plan.json")
        assert plan.shares(plan.target_batch_size, range(3)) == {0: 128, 1: 32, 2: 32}
        alone = small.placement.groups[0]
        speed = next(
            g["samples_per_second"] for g in small.manifest()["groups"] if g["place"] == alone.place
        )
        assert small.estimate.step.calculation == pytest.approx(128 / speed)

    def test_each_region_has_a_function_and_a_store(self) -> None:
        """Three workers; the functions of the two regions and the global one; the stores in the
        same order.
        """
        assert in_regions().machines == (OREGON, LONDON, LONDON, *(OREGON, LONDON, OREGON) * 2)

    def test_the_usual_scale_makes_a_round_of_some_seconds(self) -> None:
        """58.7 s of calculation and 1.95 s between the regions: 4 / 60.6 of it, 3.4 MB; a large
        model is bound by its bytes: 24 MB.
        """
        problem, placement = by_hand()
        assert usual_scale(without_hosts(problem), placement) == pytest.approx(4 / 60.6, rel=0.01)
        problem, placement = by_hand("roberta-xlm")
        assert (
            usual_scale(without_hosts(problem), placement) * problem.gradient_bytes <= 24e6 * 1.001
        )

    def test_fewer_workers(self) -> None:
        """Groups are cut one by one; more processes than a machine has room for are refused."""
        placement = by_hand(workers=f"{US}=8xT4:spot,{EU}=1xT4:spot")[1]
        assert [group.count for group in fewer(placement, 2).groups] == [2, 1]
        many = replace(
            placement, groups=tuple(replace(group, count=20) for group in placement.groups)
        )
        with pytest.raises(PlacerError, match="the plan has 40 workers, a rehearsal at most 24"):
            fewer(many, None)


def in_regions() -> Scaled:
    """Hierarchical serverless: one worker in Oregon, two in London, the global pair in Oregon."""
    words = {"exchange": "hierarchical", "aggregator": OREGON, "storage": OREGON}
    return scaled(
        *by_hand(
            "niser",
            "phalak-2023",
            f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
            **words,
        ),
        0.1,
        1e9,
    )


def rounds_of(*ranks: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Two alike rounds, a record for each rank."""
    alike = {
        "kind": "step",
        "calculation_s": 0.0,
        "step_s": 1.0,
        "wire_s": 0.0,
        "samples": 1,
        "exchange_s": {},
    }
    return [
        [{**alike, **told, "step": n, "rank": rank} for rank, told in enumerate(ranks)]
        for n in range(2)
    ]


class TestMachine:
    """What this machine takes."""

    def test_a_butterfly_takes_what_is_beside_calculation_and_messages_and_two_round_trips(
        self,
    ) -> None:
        """1 - 0.25 - 0.35 = 0.4 s of the slower rank, and twice 103 ms to the other continent."""
        small = scaled(*by_hand(), 0.01, 1e9)
        found = machine_calibration(
            small,
            rounds_of(
                {"calculation_s": 0.25, "wire_s": 0.35}, {"calculation_s": 0.25, "wire_s": 0.5}
            ),
        )
        rtt_s = max(small.problem.network.link(*way).rtt_s for way in ((US, EU), (EU, US)))
        assert found.hosts["t4"].base_s == pytest.approx(0.4 + 2 * rtt_s)
        step = small.calibrated(found).estimate.step
        assert step.communication == pytest.approx(
            0.4 + 2 * rtt_s + small.problem.gradient_bytes / 26.25e6
        )

    def test_each_fragment_waits_for_its_own_round_trips(self) -> None:
        """Four fragments in four steps, each twice 103 ms to the other continent; the thread took
        0.5 + 0.1 s, of them 0.35 s messages.
        """
        words = {"exchange": "streaming-diloco", "local_steps": "4", "tbs": "2048"}
        words["samples_to_target"] = "streaming-diloco=1.2"
        small = scaled(*by_hand(**words), 0.01, 1e9)
        thread = {"exchange_s": 0.5, "waited_s": 0.0, "flushed_s": 0.1}
        records = rounds_of({"calculation_s": 0.25, "wire_s": 0.35, "beside": thread})
        found = machine_calibration(small, records)
        rtt_s = small.problem.network.link(US, EU).rtt_s
        assert found.hosts["t4"].base_s == pytest.approx(0.25 + 4 * 2 * rtt_s, rel=1e-3)

    def test_stores_take_the_fastest_transfers_and_the_function_its_sums(self) -> None:
        """Up 0.2 s and down 0.4 s at best: 0.3 s an object; the function's 0.5 s hold one of them,
        the other 0.2 s are 3 gradients.
        """
        words = {"exchange": "central", "aggregator": OREGON, "storage": OREGON}
        small = scaled(
            *by_hand(
                "niser",
                "phalak-2023",
                f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
                **words,
            ),
            0.1,
            1e9,
        )
        slow, fast = (
            {"exchange_s": {"upload": up, "download": down}}
            for up, down in ((0.3, 0.9), (0.2, 0.4))
        )
        found = machine_calibration(
            small,
            rounds_of(slow, fast, slow, {"exchange_s": {"fetch": 0.4, "put": 0.1, "wait": 9.0}}),
        ).services
        assert found.start_s == pytest.approx(0.3)
        assert found.sum_bytes_per_s == pytest.approx(3 * small.problem.gradient_bytes / 0.2)


def test_sums_of_several_functions_are_taken_together() -> None:
    """0.1 s an object; 1 + 2 gradients of the regions and their 2 sums are added in what 0.3, 0.5
    and 0.3 s leave: 0.8 s.
    """
    small = in_regions()
    worker = {"exchange_s": {"upload": 0.1, "download": 0.1}}
    regional = [
        {"exchange_s": {"fetch in regions": s - 0.1, "forward": 0.1, "copy": 9.0}}
        for s in (0.3, 0.5)
    ]
    found = machine_calibration(
        small,
        rounds_of(worker, worker, worker, *regional, {"exchange_s": {"fetch": 0.2, "put": 0.1}}),
    ).services
    assert found.start_s == pytest.approx(0.1)
    assert found.sum_bytes_per_s == pytest.approx(5 * small.problem.gradient_bytes / 0.8)


def test_functions_are_paid_from_the_first_upload_to_their_last_write() -> None:
    """The function of the region waits 0.1 s for the second upload, fetches 0.2 and forwards 0.3;
    it is called again to copy: 0.4 + 0.5.

    What it is idle and what it deletes nobody pays.
    """
    small = in_regions()
    plan = plan_from(small.manifest(), "plan.json")
    paid = {
        "wait": 0.1,
        "fetch in regions": 0.2,
        "forward": 0.3,
        "copy": 0.4,
        "put in regions": 0.5,
    }
    rounds = rounds_of(
        *[{}] * 3, {"exchange_s": {**paid, "idle": 7.0, "delete": 8.0}}, *[{"exchange_s": {}}] * 2
    )
    runs = runs_of(plan)
    told = [(run.rank, run.name, run.place) for run in runs]
    here, there = (
        [(3, "sum", OREGON), (3, "copy", OREGON)],
        [(4, "sum", LONDON), (4, "copy", LONDON)],
    )
    assert told == [*here, *there, (5, "mean", OREGON)]
    assert [run.seconds(rounds) for run in runs] == pytest.approx([0.6, 0.9, 0, 0, 0])
    assert [run.place for run in small.estimate.step.functions] == [run.place for run in runs]


class TestWords:
    """What the command refuses, before anything is started."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--scale", "2"], "--scale '2' is not a share of the plan"),
            (["--scale", "1/0"], "--scale '1/0' is not a share"),
            (["--scale", "nan"], "--scale 'nan' is not a share"),
            (["--kill", "one"], "'one' does not name a worker and a step"),
            (["--kill", "1@0"], "'1@0' does not name a worker and a step"),
            (["--limit", "soon"], "duration 'soon' is not a time"),
            (["--scale", "1/2", "--train", "a:b"], "the size of your model is the scale"),
        ],
    )
    def test_words_that_are_none(
        self, command: Run, tmp_path: Path, words: list[str], message: str
    ) -> None:
        """One line, exit code 2."""
        done = command("run", "--rehearse", str(written(tmp_path)), *words)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--scale", "1e-9"], "leaves 0 of 25,600,000 parameters, fewer than 10,000"),
            (["--limit", "1ms"], "s, the limit is 1 ms"),
            (["--kill", "2@1"], "no worker 2 that dies in step 1"),
            (["--kill", "0@6"], "workers are ranks 0 to 1, steps 1 to 5"),
            (["--dir", "plan.json"], "cannot make the folder 'plan.json': it is a file"),
            (["-o", "no/such.json"], "cannot write 'no/such.json'"),
        ],
    )
    def test_what_cannot_work_is_refused_before_it_takes_time(
        self, command: Run, tmp_path: Path, words: list[str], message: str
    ) -> None:
        """No process of the run was started: there is no log."""
        pytest.importorskip("torch")
        pytest.importorskip("pyroute2")
        done = command(
            "run", "--rehearse", str(written(tmp_path)), "--dir", "logs", *words, cwd=tmp_path
        )
        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "logs" / "machine").exists()

    def test_a_model_without_parameters_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """It would exchange nothing."""
        pytest.importorskip("torch")
        text = """import torch
from placer.profiler.workload import Workload
def empty():
    return Workload(name="e", title="e", family="other", module=torch.nn.Identity(),
                    batch=torch.randn, loss=lambda m, x: x.sum(), optimizer=list)
"""
        (tmp_path / "empty_model.py").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(PlacerError, match="no parameter that is trained"):
            own_elements("empty_model:empty")

    def test_one_worker_has_nothing_to_rehearse(self, command: Run, tmp_path: Path) -> None:
        """It exchanges nothing."""
        pytest.importorskip("torch")
        done = command("run", "--rehearse", str(written(tmp_path, workers=f"{US}=1xT4:spot")))
        assert (done.returncode, "nothing to rehearse" in done.stderr) == (2, True)


Document = dict[str, Any]


@pytest.fixture
def rehearsed(command: Run, tmp_path: Path) -> Callable[..., tuple[Document, str]]:
    """Rehearse a plan; its document and what was said."""

    def one(path: Path, *words: str) -> tuple[Document, str]:
        done = command(
            "run", "--rehearse", str(path), "--dir", str(tmp_path / "logs"), "--json", *words
        )
        assert done.returncode in (0, 6), done.stderr
        document: Document = json.loads(done.stdout)
        jsonschema.validate(document, json.loads(schema_text("rehearsal")))
        return document, done.stderr

    return one


def line(document: Document, what: str) -> Document:
    """One line of it."""
    found: Document = next(row for row in document["lines"] if row["what"] == what)
    return found


@shaped
def test_two_regions(rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path) -> None:
    """512,000 parameters in FP16, 1.02 MB each way, at 26.25 MB/s and 103 ms.

    Each phase of the butterfly carries half of it and half a round trip: 2 x (0.0195 + 0.0516) s,
    and no round is faster.
    """
    document, _ = rehearsed(written(tmp_path, tbs="512"), "--scale", "1/50", "--rounds", "3")
    exchange = line(document, "exchange and waiting")
    assert exchange["measured"] >= 0.95 * 2 * (0.512e6 / 26.25e6 + 0.103 / 2)
    for row in (line(document, f"{US} -> {EU}"), line(document, f"{EU} -> {US}")):
        assert row["predicted"] == pytest.approx(25.6e6 / 50 * 2, rel=0.01)
        assert abs(row["difference"]) < 0.02
        assert row["within"]
    assert line(document, "egress")["predicted"] > 0
    log = (tmp_path / "logs" / "run.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(log[0])["links"] == "shaped"


@shaped
@pytest.mark.parametrize(
    ("strategy", "compression"),
    [("diloco", "int8"), ("diloco", "int4"), ("streaming-diloco", "int8")],
)
def test_changes_of_many_steps_are_rehearsed(
    rehearsed: Callable[..., tuple[Document, str]],
    tmp_path: Path,
    strategy: str,
    compression: str,
) -> None:
    """Four steps and one exchange of a byte or half a byte a value: bytes as planned within 2 %,
    no round faster than its calculation.
    """
    plan = written(
        tmp_path, tbs="2048", exchange=strategy, local_steps="4", compression=compression
    )
    document, _ = rehearsed(plan, "--scale", "1/50", "--rounds", "3")
    per_value = {"int8": 1, "int4": 0.5}[compression]
    for row in (line(document, f"{US} -> {EU}"), line(document, f"{EU} -> {US}")):
        assert row["predicted"] == pytest.approx(25.6e6 / 50 * per_value, rel=0.01)
        assert row["within"]
    whole, calculation = line(document, "round"), line(document, "calculation")
    assert whole["measured"] >= 0.95 * calculation["predicted"]


@shaped
def test_an_exchange_beside_the_next_step(
    rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path
) -> None:
    """Calculation of about a second hides the exchange of `test_two_regions`; the longer of the two
    is predicted.

    The six rounds send six times the gradient: none is left under way at the end.
    """
    document, _ = rehearsed(
        written(tmp_path, tbs="32768", overlap=True), "--scale", "1/50", "--rounds", "3"
    )
    least = 2 * (0.512e6 / 26.25e6 + 0.103 / 2)
    calculation, exchange, hidden, whole = (
        line(document, what)
        for what in ("calculation", "exchange and waiting", "beside the calculation", "round")
    )
    assert calculation["predicted"] > 1
    assert exchange["predicted"] >= least
    assert hidden["predicted"] == min(calculation["predicted"], exchange["predicted"])
    assert whole["predicted"] == pytest.approx(max(calculation["predicted"], exchange["predicted"]))
    assert whole["measured"] >= 0.95 * calculation["predicted"]
    assert exchange["measured"] >= hidden["measured"] >= 0.9 * least
    for row in (line(document, f"{US} -> {EU}"), line(document, f"{EU} -> {US}")):
        assert row["predicted"] == pytest.approx(25.6e6 / 50 * 2, rel=0.01)
        assert row["within"]


@shaped
def test_requests_to_the_store_are_exact(
    rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path
) -> None:
    """N + 1 = 4 writes, 2 n = 6 reads and n = 3 lists in a round (Phalak et al., 2024, eq. 5)."""
    words = {"exchange": "central", "aggregator": OREGON, "storage": OREGON, "tbs": "64"}
    path = written(
        tmp_path,
        "niser",
        "phalak-2023",
        f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
        **words,
    )
    document, _ = rehearsed(path, "--scale", "1/20", "--rounds", "3")
    for what, count in (("write", 4), ("read", 6), ("list", 3)):
        assert (line(document, what)["predicted"], line(document, what)["measured"]) == (
            count,
            count,
        )
    assert line(document, f"{LONDON} -> {OREGON}")["within"] is not None
    for what in ("storage", "functions"):
        assert line(document, what)["predicted"] > 0
        assert line(document, what)["measured"] > 0


@shaped
def test_requests_to_the_stores_of_regions_are_exact(
    rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path
) -> None:
    """Regions of one and two workers, each with a store as in central: n + 1 writes, 2 n reads, n
    lists; the global one serves two regions.

    0.85 MB from London as one sum and back as one mean; its two workers, its function and its store
    exchange 2 x 2 + 2 + 1 of them.
    """
    words = {"exchange": "hierarchical", "aggregator": OREGON, "storage": OREGON, "tbs": "64"}
    path = written(
        tmp_path,
        "niser",
        "phalak-2023",
        f"{OREGON}=1xCPU-2:on-demand,{LONDON}=2xCPU-2:on-demand",
        **words,
    )
    document, _ = rehearsed(path, "--scale", "1/20", "--rounds", "3")
    for store, n in ((OREGON, 1), (LONDON, 2), ("the global store", 2)):
        for kind, count in (("write", n + 1), ("read", 2 * n), ("list", n)):
            row = line(document, f"{kind} in {store}")
            assert (row["predicted"], row["measured"], row["within"]) == (count, count, True)
    for way, count in (((LONDON, OREGON), 1), ((OREGON, LONDON), 1), ((LONDON, LONDON), 7)):
        row = line(document, " -> ".join(way))
        assert row["predicted"] == pytest.approx(count * 0.85e6)
        assert row["measured"] >= row["predicted"]
    for what in (
        f"sum in {LONDON}",
        f"copy in {LONDON}",
        f"mean in {OREGON}",
        "storage",
        "functions",
    ):
        assert line(document, what)["measured"] > 0


@shaped
def test_a_rehearsal_of_fewer_says_so_and_ends_with_a_verdict(command: Run, tmp_path: Path) -> None:
    """Within 80 columns; bytes in MB."""
    plan = written(tmp_path, workers=f"{US}=3xT4:spot,{EU}=1xT4:spot")
    done = command(
        "run",
        "--rehearse",
        str(plan),
        "--dir",
        "logs",
        "--scale",
        "1/50",
        "--rounds",
        "3",
        "--per-group",
        "1",
        cwd=tmp_path,
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "2 of the plan's 4 workers were rehearsed" in done.stdout
    assert "1.024 MB" in done.stdout
    last = done.stdout.splitlines()[-1]
    if done.returncode == 0:
        assert last == "confirmed: 3 of 3 judged"
    else:
        assert "not confirmed: " in done.stdout or "undecided: " in done.stdout


@shaped
def test_a_worker_that_is_killed_costs_its_step(
    rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path
) -> None:
    """It dies in step 2, counted from 0: steps 0 and 1 are kept by the other, and the resumed run
    goes on with step 2.
    """
    document, _ = rehearsed(
        written(tmp_path, tbs="512"), "--scale", "1/50", "--rounds", "3", "--kill", "1@2"
    )
    first, second = document["deaths"]
    assert first.startswith(f"rank 1 ({EU}) killed in step 2;")
    assert second == "resumed before step 2: nothing was lost but the step under way"
    log = [
        json.loads(text)
        for text in (tmp_path / "logs" / "run.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    steps = [record["step"] for record in log if record["kind"] == "step" and record["rank"] == 1]
    assert steps == [2, 3]


@shaped
def test_a_worker_that_is_killed_before_anything_was_kept_begins_again(
    rehearsed: Callable[..., tuple[Document, str]], tmp_path: Path
) -> None:
    """Local SGD keeps its state once a round, here of four steps: a death in the second step has
    nothing to resume from.
    """
    path = written(tmp_path, tbs="512", exchange="local-sgd", local_steps="4")
    document, _ = rehearsed(path, "--scale", "1/100", "--rounds", "3", "--kill", "1@1")
    assert document["deaths"][1] == (
        "nothing was kept yet, so it began again: 1 whole step and the step under way were "
        "done again"
    )


def networks(below: int | None = None) -> set[str]:
    """Network namespaces that some process is in; of a process and its descendants only, if one is
    named.
    """
    found: dict[int, str] = {}
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int(
                (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1]
            )
            found[int(process.name)] = str((process / "ns" / "net").readlink())
        except OSError:
            continue

    def is_below(pid: int) -> bool:
        while pid not in (below, 0):
            pid = parents.get(pid, 0)
        return pid == below

    return {network for pid, network in found.items() if below is None or is_below(pid)}


@shaped
def test_sigkill_leaves_nothing(tmp_path: Path) -> None:
    """Workers, relay and namespaces end by themselves when the command is killed, so that nothing
    is left at the next start.
    """
    here = str(Path("/proc/self/ns/net").readlink())
    words = [
        "run",
        "--rehearse",
        str(written(tmp_path)),
        "--scale",
        "1/5",
        "--rounds",
        "9",
        "--limit",
        "1h",
        "--dir",
        str(tmp_path / "logs"),
    ]
    command = [sys.executable, "-m", "placer", *words]
    until = time.monotonic() + 300
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        next(said for said in process.stderr if "rehearsing:" in said)
        log = tmp_path / "logs" / "run.jsonl"
        while time.monotonic() < until and (
            not log.exists() or '"ready"' not in log.read_text(encoding="utf-8")
        ):
            time.sleep(0.05)
        made = networks(below=process.pid) - {here}
        assert len(made) >= 2  # one for each worker
        process.send_signal(signal.SIGKILL)
    while time.monotonic() < until and networks() & made:
        time.sleep(0.05)
    assert not networks() & made


@shaped
def test_a_relay_that_dies_is_named() -> None:
    """Whoever asks it next hears so, and its broken pipe does not pass for a reader that has closed
    standard output.
    """
    way = {"stream_bytes_per_s": 1e8, "pair_bytes_per_s": 1e8, "rtt_s": 0.0}
    ways = [Shape(src="A", dst="B", **way), Shape(src="B", dst="A", **way)]
    with open_network(["A", "B"], ways, "namespaces") as network:
        os.kill(network.entry(0)["pid"], signal.SIGKILL)
        with pytest.raises(PlacerError, match="the relay of the rehearsal's network has ended"):
            network.sent_bytes()


def test_more_processes_than_a_machine_has_room_for_are_refused() -> None:
    """17 regions of one worker, each with a function and a store, and the global pair: 53
    processes.
    """
    with pytest.raises(PlacerError, match="are 53 processes, a rehearsal has at most 48"):
        check_processes([OREGON] * 53)
    check_processes([OREGON] * 48)


def test_deaths_are_read() -> None:
    """Rank and step."""
    assert WorkerDeath.of(" 3@12 ") == WorkerDeath(rank=3, step=12)


def test_an_early_manifest_has_no_links(tmp_path: Path, command: Run) -> None:
    """It says to write it again."""
    told = {
        key: value
        for key, value in manifest_of(*by_hand()).items()
        if key not in ("question", "digest")
    }
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**told, "digest": document_digest(told)}), encoding="utf-8")
    read_manifest(json.loads(path.read_text(encoding="utf-8")), "plan.json")
    done = command("run", "--rehearse", str(path))
    assert done.returncode == 2
    assert "an early manifest without links and prices" in done.stderr


def test_an_island_of_several_machines_is_not_rehearsed(tmp_path: Path, command: Run) -> None:
    """One shaped host cannot show what its machines send side by side: one line, nothing starts."""
    told = manifest_of(*by_hand())
    inner = {
        "sharding": "none",
        "tensor_parallel": 1,
        "checkpointing": "none",
        "microbatch": 1,
        "precision": "fp32",
    }
    rest = {key: value for key, value in told.items() if key != "digest"}
    for number, group in enumerate(rest["groups"]):
        group |= {"machines": 2, "inner": inner, "rank_offset": 2 * number}
    rest |= {"schema": "placer.manifest/v2", "world_size": 4}
    rest["rendezvous"]["machines"] = 4
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**rest, "digest": document_digest(rest)}), encoding="utf-8")
    done = command("run", "--rehearse", str(path))
    assert done.returncode == 2, done.stderr
    assert "a rehearsal runs workers of one machine, and an island of the plan has 2" in done.stderr


def test_a_worker_with_an_inner_plan_is_one_host_as_fast() -> None:
    """What its GPUs do inside is not rehearsed; how fast it is counts, as for any machine."""
    problem, placement = by_hand()
    inside = replace(
        placement, groups=tuple(replace(g, inner=InnerPlan(microbatch=4)) for g in placement.groups)
    )
    assert as_hosts(inside, "plan.json") == placement
    problem = without_hosts(problem)
    architecture = Architecture(
        layers=2,
        width=64,
        kv_width=64,
        mlp_width=256,
        mlp_matrices=2,
        vocabulary=100,
        tied=False,
        sequence_length=8,
        parameters=problem.profile.parameters,
        active_parameters=problem.profile.parameters,
        computed_parameters=problem.profile.parameters,
        trainable_parameters=problem.profile.parameters,
    )
    assert host_rates(problem, placement) == problem.profile.rates
    profile = replace(problem.profile, architecture=architecture, sample=None, sample_source="")
    language = replace(problem, profile=profile)
    rates = host_rates(language, placement)
    assert {(rate.gpu, rate.gpu_count) for rate in rates} == {("T4", 1)}
    assert {rate.value for rate in rates if rate.framework == "none"} == {
        pool_of(placement.groups[0], language, placement.workers).alone.value
    }

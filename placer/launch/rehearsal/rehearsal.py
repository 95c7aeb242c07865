"""A rehearsal from end to end: scale the plan, measure this machine, predict, run through shaped
links.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.documents.manifest import Manifest
from placer.documents.manifest.question import question_of
from placer.documents.manifest.runtime_support import check_executable
from placer.errors import PlacerError
from placer.launch.folder_lock import locked_folder
from placer.launch.rehearsal.island_hosts import as_hosts
from placer.launch.rehearsal.machine_calibration import machine_calibration
from placer.launch.rehearsal.machine_load import MachineLoad, cpu_ticks, load_between
from placer.launch.rehearsal.options import (
    MACHINE_ROUNDS,
    WARM_ROUNDS,
    RehearsalOptions,
    check_plan,
    check_processes,
    check_size,
    own_elements,
)
from placer.launch.rehearsal.scaled_plan import Scaled, fewer, scaled, usual_scale, without_hosts
from placer.launch.rehearsal.stand_in_model import ELEMENTS, TRAIN
from placer.launch.rehearsal.worker_death import run_with_death
from placer.launch.runtime.processes.launcher import Record
from placer.launch.runtime.processes.run import run_here
from placer.launch.runtime.run_plan import RunPlan, plan_from
from placer.launch.runtime.training.context import Settings
from placer.launch.shaped_network import ShapedNetwork, open_network
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.validation.calibration.run_log import whole_rounds
from placer.workload.profile import COMPRESSION_BYTES

MACHINE_CALCULATION_S = 0.05
"""What a worker calculates in a step of them: they measure the rest."""
TIMEOUT_S = 60.0
POLL_S = 0.05
"""Between two looks into the object store: the wait for the next one is nothing beside a round."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The result of a rehearsal.

    Parameters
    ----------
    small
        The plan that was run, with the constants of this machine.
    plan, settings
        Of its manifest, and how it was run.
    method, why_not
        How links were shaped, and why not better.
    records
        Of the run through shaped links.
    sent
        Bytes on the wire by directed pair of places, of one round.
    slower
        Links that are faster in the plan than anything here: cut, for the prediction too.
    deaths
        What the death of a worker did, in words.
    load
        How busy this machine was during that run; None: it does not say.
    """

    small: Scaled
    plan: RunPlan
    settings: Settings
    method: str
    why_not: str
    records: Sequence[Record]
    sent: Mapping[tuple[str, str], float]
    slower: tuple[tuple[str, str], ...]
    deaths: tuple[str, ...] = ()
    load: MachineLoad | None = None

    @property
    def went_on(self) -> bool:
        """Return whether a worker died and the others went on without it."""
        return any(record["kind"] == "notice" for record in self.records)


Said = Callable[[str], None]


def rehearse(
    manifest: Manifest,
    where: str,
    options: RehearsalOptions,
    folder: Path,
    say: Said = lambda words: None,
) -> Rehearsal:
    """Rehearse a manifest on this machine.

    Parameters
    ----------
    where
        Name of its file, for errors.
    folder
        Of the logs.
    say
        Takes a line on what happens now.

    Raises
    ------
    PlacerError
        If the plan cannot be rehearsed here, or the run fails.
    """
    check_executable(manifest, where)
    problem, planned = question_of(manifest, where)
    placement = as_hosts(planned, where)
    check_plan(placement.workers, where)
    placement, problem = fewer(placement, options.per_group), without_hosts(problem)
    if options.kill is not None:
        options.kill.check(
            placement.workers,
            options.all_rounds(overlap=placement.exchange.overlap) * manifest.exchange.local_steps,
        )
    with locked_folder(folder):
        return _rehearsed(problem, placement, options, folder, say)


def _rehearsed(
    problem: Problem, placement: Placement, options: RehearsalOptions, folder: Path, say: Said
) -> Rehearsal:
    """Measure this machine, predict, and run."""
    elements = None if options.train is None else own_elements(options.train)
    if elements is None:
        scale = options.scale or usual_scale(problem, placement)
    else:
        scale = (
            options.scale
            or elements * COMPRESSION_BYTES["none"] / problem.profile.gradient_bytes_fp32
        )
    first = scaled(problem, placement, scale, float("inf"), elements)
    machines = first.machines
    check_processes(machines)
    with open_network(machines, first.shapes, options.method) as network:
        carried = network.carries_bytes_per_s()
        small = scaled(problem, placement, scale, carried, elements)
        check_size(small, options)
        try:
            say(f"measuring this machine: {MACHINE_ROUNDS} rounds without shaped links")
            small = small.calibrated(
                machine_calibration(small, _unshaped(small, network, options, folder))
            )
            rounds = options.all_rounds(overlap=placement.exchange.overlap)
            say(
                f"rehearsing: {rounds} rounds of about {small.estimate.step.total:.3g} s through "
                f"shaped links"
            )
            return _shaped(small, network, options, folder, say)
        except PlacerError as error:
            if error.exit_code != 1:
                raise
            network.sent_bytes()  # where the relay has ended, that is why, and it says so
            raise PlacerError(
                error.message, f"start the rehearsal again; its logs are in {folder}", exit_code=1
            ) from None


def _settings(
    small: Scaled, plan: RunPlan, options: RehearsalOptions, rounds: int, folder: Path
) -> Settings:
    rates = [group.samples_per_second or 1.0 for group in plan.groups for _ in range(group.count)]
    return Settings(
        train=options.train or TRAIN,
        steps=rounds * plan.steps_per_round,
        target_batch_size=plan.target_batch_size,
        microbatch=plan.microbatch,
        checkpoints="" if options.kill is None else str(folder.absolute() / "checkpoints"),
        checkpoint_every=0,
        timeout_s=max(TIMEOUT_S, 3 * small.estimate.slow_step.total),
        poll_s=POLL_S,
        attempt=plan.name,
        paced=tuple(rates),
    )


def _unshaped(
    small: Scaled, network: ShapedNetwork, options: RehearsalOptions, folder: Path
) -> list[list[Mapping[str, Any]]]:
    """Run warm rounds with next to no calculation over the loopback device, past the relay.

    Notes
    -----
    Through the relay without shaping they would measure the relay, which carries all links one
    after the other; with shaping it works while the slowest link is waited for.
    """
    document = (
        small.in_turn().manifest()
    )  # so that what hosts take is told from calculation, whatever runs beside it later
    plan = plan_from(document, "rehearsal")
    settings = _settings(small, plan, options, MACHINE_ROUNDS, folder)
    seconds = small.estimate.step.calculation / plan.steps_per_round
    faster = max(1.0, seconds / MACHINE_CALCULATION_S)
    settings = replace(settings, paced=tuple(rate * faster for rate in settings.paced))
    environment, services = {ELEMENTS: str(small.elements)}, network.processes
    records = run_here(
        plan,
        document,
        settings,
        folder / "machine",
        lambda record: None,
        environment=environment,
        services=services,
    )
    return _rounds(records, plan)[WARM_ROUNDS:]


def _shaped(
    small: Scaled, network: ShapedNetwork, options: RehearsalOptions, folder: Path, say: Said
) -> Rehearsal:
    document = small.manifest()
    plan = plan_from(document, "rehearsal")
    rounds = options.all_rounds(overlap=plan.exchange.overlap)
    settings = _settings(small, plan, options, rounds, folder)
    began, before = time.monotonic(), Counter[tuple[int, int]]()
    deaths: list[str] = []
    last: list[Record] = []

    def run(settings: Settings, watch: Callable[[Record], None]) -> list[Record]:
        nonlocal before, last
        environment, services = {ELEMENTS: str(small.elements)}, network.processes
        before = Counter(network.sent_bytes())
        last = run_here(
            plan,
            document,
            settings,
            folder,
            watch,
            network=network,
            environment=environment,
            services=services,
        )
        return last

    watch = _watch(plan, rounds, began, say)
    ticks = cpu_ticks()
    records = (
        run(settings, watch)
        if options.kill is None
        else run_with_death(options.kill, plan, settings, run, watch, deaths.append)
    )
    load = load_between(ticks, cpu_ticks())
    sent = Counter(network.sent_bytes())
    sent.subtract(
        before
    )  # of the run that came to its end: what was under way at a death belongs to no round
    return Rehearsal(
        small=small,
        plan=plan,
        settings=settings,
        method=network.method,
        why_not=network.why_not,
        records=records,
        sent=_by_places(sent, small.machines, max(1, len(_rounds(last, plan)))),
        slower=tuple((shape.src, shape.dst) for shape in network.slower),
        deaths=tuple(deaths),
        load=load,
    )


def _rounds(records: Sequence[Record], plan: RunPlan) -> list[list[Mapping[str, Any]]]:
    return whole_rounds(
        (r for r in records if r["kind"] == "step"), plan.workers, plan.steps_per_round
    )


def _watch(plan: RunPlan, rounds: int, began: float, say: Said) -> Callable[[Record], None]:
    """Report when a round has ended."""
    ended: Counter[int] = Counter()
    lost: set[int] = set()
    reported: set[int] = set()

    def watch(record: Record) -> None:
        if record["kind"] == "lost":
            lost.add(record["rank"])
        elif record["kind"] == "step" and record["exchanged"] and record["rank"] < plan.workers:
            step = record["step"]
            ended[step] += 1
            if ended[step] >= plan.workers - len(lost) and step not in reported:
                reported.add(step)
                say(f"round {len(reported)}/{rounds}, {time.monotonic() - began:.0f} s")

    return watch


def _by_places(
    sent: Mapping[tuple[int, int], int], machines: Sequence[str], rounds: int
) -> dict[tuple[str, str], float]:
    total: Counter[tuple[str, str]] = Counter()
    for (src, dst), count in sent.items():
        total[machines[src], machines[dst]] += count
    return {pair: count / rounds for pair, count in total.items() if count}

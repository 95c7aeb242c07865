"""The start of a small plan on a shaped network, by the scripts of ``export --to torchrun``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placer.documents.manifest import read_manifest
from placer.errors import PlacerError
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.folder import write_folder
from placer.launch.export.targets.torchrun import group_scripts
from placer.launch.export.texts.environment import machines
from placer.launch.rehearsal.stand_in_model import ELEMENTS
from placer.launch.runtime.processes.run import run_here, set_aside
from placer.launch.runtime.run_plan import RunPlan, Settings
from placer.launch.shaped_network import ENVIRONMENT, ShapedNetwork
from placer.launch.shaped_network.kernel import how_ended
from placer.validation.calibration.run_log import read_log

LAUNCH, RUN = "launch", "run"
"""Folders of scripts, and of what they write, which all machines share as one world."""
LOOK_S = 0.05
"""Between two looks at processes and logs."""
TIMEOUT_S = 600.0
"""Processes that die are seen at once; on a busy machine the first step of many takes minutes."""
POLL_S = 0.05
"""Between two looks into the object store: the wait for the next one is nothing beside a round."""
Record = Mapping[str, Any]
Watch = Callable[[Record], None]


@dataclass(frozen=True, kw_only=True)
class Start:
    """What is started: the small plan, its manifest, a model and its parameters."""

    plan: RunPlan
    document: dict[str, Any]
    train: str
    elements: int

    def scripts(
        self,
        network: ShapedNetwork,
        steps: int,
        folder: Path,
        watch: Watch,
        kill: tuple[int, int] | None = None,
        *,
        resume: bool = False,
    ) -> list[Record]:
        """Run some steps by the exported scripts, and return the records of all machines.

        ``watch`` gets each record. ``kill`` is a machine and the step in which all its processes
        are killed: what that costs is seen with a checkpoint in each round. `PlacerError` names the
        machine that ended first, and why.
        """
        every = self.plan.exchange.local_steps if kill or resume else 0
        environment = {"PLACER_STEPS": str(steps), "PLACER_RESUME": str(int(resume))}
        with self._started(network, folder, environment, every) as running:
            return _watched(self.plan, network, running, folder, watch, kill)

    def stores(
        self, network: ShapedNetwork | None, steps: int, folder: Path, watch: Watch
    ) -> list[Record]:
        """Run some steps of a plan with functions and stores as ``placer run --local`` does, as no
        target exports them; without a network on the loopback device.
        """
        plan = self.plan
        settings = Settings(
            train=self.train,
            steps=steps,
            target_batch_size=plan.target_batch_size,
            checkpoint_every=0,
            timeout_s=TIMEOUT_S,
            join_s=TIMEOUT_S,
            poll_s=POLL_S,
        )
        environment = {ELEMENTS: str(self.elements)}
        return [*run_here(plan, self.document, settings, folder, watch, network, environment)]

    @contextmanager
    def _started(
        self, network: ShapedNetwork, folder: Path, environment: dict[str, str], every: int
    ) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Export the plan and start the script of each machine; end them with the block."""
        manifest = read_manifest(self.document, "rehearsal")
        plan = ExportPlan(manifest=manifest, text=json.dumps(self.document), train=self.train)
        files = {**group_scripts(plan, "torchrun"), "manifest.json": plan.text}
        write_folder(str(folder / LAUNCH), files)  # of GPUs that idle here nobody is warned
        scripts = [
            (name, str(node))
            for name, group in machines(plan).items()
            for node in range(int(group["PLACER_GROUP_SIZE"]))
        ]
        shared = {
            **os.environ,
            **ENVIRONMENT,
            **_same_placer(),
            **environment,
            ELEMENTS: str(self.elements),
            "PLACER_RENDEZVOUS_ADDRESS": network.addresses[0],
            "PLACER_OUT": str((folder / RUN).absolute()),
        }
        (folder / RUN).mkdir(exist_ok=True)
        # The log is to say that its links and machines are not the plan's.
        words = ["--one-machine", "--device", "cpu", "--threads", "1"]
        words += ["--checkpoint-every", str(every), "--timeout", str(TIMEOUT_S)]
        running = []
        try:
            for machine, (name, node) in enumerate(scripts):
                output_file = output_of(folder, machine)
                set_aside([output_file, log_of(folder, machine)])
                argv = ["bash", str((folder / LAUNCH / f"{name}.sh").absolute()), *words]
                with output_file.open("ab") as output:
                    running.append(
                        subprocess.Popen(  # noqa: S603 - a script that was just written
                            network.command(machine, argv),
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=output,
                            env={**shared, "PLACER_NODE": node},
                        )
                    )
            yield running
        finally:
            for machine, process in enumerate(running):
                if process.poll() is None:
                    network.kill(machine)
                    process.wait()


def output_of(folder: Path, machine: int) -> Path:
    """Return the file of what the script of a machine prints."""
    return folder / RUN / f"output-{machine}.txt"


def log_of(folder: Path, machine: int) -> Path:
    """Return the log of the ranks of a machine; that of the first has all ranks in the end."""
    return folder / RUN / ("run.jsonl" if machine == 0 else f"run-rank-{machine}.jsonl")


def _same_placer() -> dict[str, str]:
    """Let scripts find this placer and the user's modules."""
    own = str(Path(__file__).parents[3])
    paths = [own, str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
    tools = [str(Path(sys.executable).parent), *filter(None, [os.environ.get("PATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "PATH": os.pathsep.join(tools)}


def _watched(
    plan: RunPlan,
    network: ShapedNetwork,
    running: Sequence[subprocess.Popen[bytes]],
    folder: Path,
    watch: Watch,
    kill: tuple[int, int] | None,
) -> list[Record]:
    """Wait for all machines, and kill one when its step has come."""
    logs = [_new_records(log_of(folder, machine)) for machine in range(len(running))]
    ended: list[int] = []
    while any(process.poll() is None for process in running):
        for machine, log in enumerate(logs):
            for record in next(log):
                if record.get("rank") != machine:  # of another machine, gathered at the end
                    continue
                watch(record)
                if record["kind"] == "step" and kill == (machine, record["step"] + 1):
                    network.kill(machine)
        ended += [m for m, process in enumerate(running) if process.poll() and m not in ended]
        network.ask()  # where the relay has ended, that is why the others end, and it says so
        time.sleep(LOOK_S)
    killed = set() if kill is None else {kill[0]}
    ended += [m for m, process in enumerate(running) if process.poll() and m not in ended]
    for machine in (machine for machine in ended if machine not in killed):
        raise _failure(plan, machine, running[machine].returncode, folder)
    return list(read_log(log_of(folder, min({*range(len(running))} - killed))))


def _failure(plan: RunPlan, machine: int, code: int, folder: Path) -> PlacerError:
    """Build the error of the machine that ended first, in the words of its script."""
    lines = output_of(folder, machine).read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    words = said[-1] if said and code > 0 else how_ended(code)
    ranks = tuple(plan.rank_name(rank) for rank in range(plan.ranks))
    named = words if words.startswith(ranks) else f"{ranks[machine]}: {words}"
    return PlacerError(named, f"start the rehearsal again; its logs are in {folder}", exit_code=1)


def _new_records(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Return again and again what a log has got since the last look."""
    read, rest = 0, b""
    while True:
        added = b""
        if path.exists():
            with path.open("rb") as file:
                file.seek(read)
                added = file.read()
        read += len(added)
        *lines, rest = (rest + added).split(b"\n")
        yield [json.loads(line) for line in lines]

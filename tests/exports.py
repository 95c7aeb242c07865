"""Plans to be exported, what is parsed of their files, and programs that stand in for others."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from run_plans import changed, islands, with_question

import placer
from conftest import completed
from placer.documents.manifest import read_manifest
from placer.launch.export import export
from placer.launch.export.export_plan import ExportPlan
from placer.launch.export.texts.files import LOADER
from placer.records import replace

__all__ = ["changed"]


def plan_of(told: dict[str, Any], **words: Any) -> ExportPlan:
    """The plan of a manifest."""
    return ExportPlan(manifest=read_manifest(told, "m.json"), text=json.dumps(told), **words)


def by_runtime(some: ExportPlan) -> ExportPlan:
    """The plan, to be run by placer's own runtime."""
    return replace(some, train="mymodel:workload")


@cache
def plan(
    exchange: str, workers: str = "2..4", regions: str = "2", local_steps: str | None = None
) -> ExportPlan:
    """A small plan in regions of AWS."""
    words: dict[str, Any] = {"workers": workers, "regions": regions, "local_steps": local_steps}
    words |= {"catalog": "phalak-2023", "budget": "3/h", "places": "aws/*", "alternatives": False}
    return plan_of(placer.recommend("niser", exchange=exchange, **words).to_manifest())


def trained(
    *groups: tuple[str, int, int],
    train: str,
    strategy: str = "all-reduce",
    inner: dict[str, Any] | None = None,
    **exchange: Any,
) -> ExportPlan:
    """Islands of machines with 8 GPUs for a trainer that has Llama; 4 sequences at once on each."""
    each = {"sharding": "zero-3", "microbatch": 4, "precision": "bf16", **(inner or {})}
    exchange = {"target_batch_size": 256, **exchange}
    told = islands(strategy, *groups, gpu_count=8, inner=each, **exchange)
    return plan_of(with_question(told), train=train)


def parsed(some: ExportPlan, target: str) -> list[dict[str, Any]]:
    """The documents of all YAML files of an export, by name."""
    files = export(some, target)
    names = sorted(name for name in files if name.endswith(".yaml"))
    return [document for name in names for document in yaml.load_all(files[name], LOADER)]


def tasks_of(some: ExportPlan) -> list[dict[str, Any]]:
    """The tasks of SkyPilot's job group."""
    return parsed(some, "skypilot")[1:]


def jobs_of(some: ExportPlan) -> list[dict[str, Any]]:
    """The replicated jobs of all JobSets."""
    return [job for one in parsed(some, "jobset") for job in one["spec"]["replicatedJobs"]]


def on_path(folder: Path, **programs: str) -> str:
    """A PATH that begins with scripts of bash, by their names."""
    folder.mkdir(exist_ok=True)
    for name, body in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def bash(
    *words: str, given: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run bash with some variables and no others."""
    return done(["bash", *words], given, cwd)


def python(executable: str, code: str, *arguments: str, home: Path) -> str:
    """Output of some code in another Python, with a home of its own."""
    environment = {**os.environ, "HOME": str(home), "PYTHONPATH": "", "PYTHONUTF8": "1"}
    ended = done([executable, "-c", code, *arguments], environment, home)
    assert ended.returncode == 0, ended.stderr[-2000:] + ended.stdout[-2000:]
    return ended.stdout


def done(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path | None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return completed(words, cwd=cwd, env=environment)

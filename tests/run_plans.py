"""Small plans and the model that they train, for `test_runtime.py`; the model is a module of its
own so that processes can import it.
"""

import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from placer.documents.manifest import SCHEMA, document_digest
from placer.documents.manifest.manifest_reader import completed
from placer.documents.manifest.types import ISLANDS_SCHEMA
from placer.launch.runtime.run_plan import RunPlan, Settings, plan_from
from placer.problem.exchange import traits
from placer.profiler.workload import Workload
from placer.records import replace

for _name, _value in (
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
    ("AWS_DEFAULT_REGION", "us-east-1"),
):  # before the first run: its processes are forked from one with the environment of its start
    os.environ.setdefault(_name, _value)
A, B, C = "gcp/a", "gcp/b", "aws/c"
INTERVAL = {"value": 1.0, "low": 1.0, "high": 1.0}


def document(
    strategy: str, *counts: tuple[str, int], storage: str = B, **exchange: Any
) -> dict[str, Any]:
    """Manifest of some workers; ``exchange`` overrides its part, such as ``local_steps=3``;
    ``storage`` is the place of the store.
    """
    offer = {"instance_type": "m", "gpu": "T4", "gpu_count": 1, "market": "spot"}
    offer |= {"usd_per_hour": 0.2, "as_of": "2023-04-15"}
    groups, offset = [], 0
    for number, (place, count) in enumerate(counts):
        provider, region = place.split("/")
        where = {"place": place, "provider": provider, "region": region, "offer": dict(offer)}
        size = {"count": count, "rank_offset": offset, "samples_per_second": None}
        groups.append({"name": f"workers-{number}", **where, **size})
        offset += count
    function = {"function": "lambda", "memory_gib": 1.0, "max_seconds": 900.0}
    server = {"server": {"instance_type": "m", "market": "on_demand"}}
    kind = traits(strategy).hub
    more: dict[str, dict[str, Any]] = {
        "function": function,
        "server": server,
        "region": {"server": None},
    }
    hub = {"kind": kind, "place": A, **more[kind]} if kind else None
    store = {"place": storage, "store": "s3", "bucket": f"tiny-{strategy}"}
    said = {
        "schema": SCHEMA,
        "name": f"tiny-{strategy}-{offset}",
        "model": {"name": "tiny", "parameters": 33, "gradient_bytes": 132.0},
        "world_size": offset,
        "groups": groups,
        "exchange": {
            "strategy": strategy,
            "target_batch_size": 24,
            "microbatch": 3,
            "compression": "none",
            "streams": 1,
            "overlap": False,
            "local_steps": 1,
            "timeouts": {"matchmaking_s": 1.0, "averaging_s": 1.0, "step_s": 1.0, "round_s": 1.0},
            **exchange,
        },
        "aggregator": hub,
        "storage": store if kind == "function" else None,
        "data": {"store": None, "assumption": None},
        "expected": {
            "samples_per_second": INTERVAL,
            "effective_samples_per_second": INTERVAL,
            "samples_to_target": {**INTERVAL, "basis": "assumed", "source": ""},
            "step_seconds": {"calculation": 1.0, "communication": 1.0, "total": 2.0},
            "usd_per_hour": {},
            "usd_per_hour_interval": INTERVAL,
            "usd_per_million_samples": 1.0,
            "links": [],
            "status": "optimal",
            "gap": None,
        },
        "drift": {"min_samples_per_second": 0.5, "max_usd_per_hour": 2.0, "max_round_seconds": 1.0},
        "inputs": {"catalog": "test", "digest": "0", "profile_digest": "0"},
        "question": None,
    }
    return changed(completed(said))


def changed(told: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """The manifest with other parts and the digest of what it now says."""
    rest = {key: value for key, value in {**told, **parts}.items() if key != "digest"}
    return {**rest, "digest": document_digest(rest)}


def completed_again(told: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the parts that follow from the others."""
    rest = {k: v for k, v in told.items() if k not in ("digest", "rendezvous", "buckets")}
    return changed(completed(rest))


def islands(
    strategy: str,
    *groups: tuple[str, int, int],
    inner: dict[str, Any] | None = None,
    gpu_count: int = 1,
    **exchange: Any,
) -> dict[str, Any]:
    """Manifest of islands: place, count and machines of each group, with one inner plan for all;
    the microbatch is that of the inner plan.
    """
    said = document(strategy, *((place, count) for place, count, _ in groups), **exchange)
    plan = {"sharding": "none", "tensor_parallel": 1, "checkpointing": "none", "microbatch": 3}
    plan |= {"precision": "fp32", **(inner or {})}
    offset = 0
    for group, (_, count, machines) in zip(said["groups"], groups, strict=True):
        group |= {"machines": machines, "inner": plan, "rank_offset": offset}
        group["offer"]["gpu_count"] = gpu_count
        offset += count * machines
    return completed_again({**said, "schema": ISLANDS_SCHEMA, "world_size": offset})


ARCHITECTURE = {
    "layers": 32,
    "width": 4096,
    "kv_width": 1024,
    "mlp_width": 14336,
    "mlp_matrices": 3,
    "vocabulary": 128256,
    "tied": False,
    "sequence_length": 8192,
    "parameters": 8030261248,
    "active_parameters": 8030261248,
    "computed_parameters": 7504924672,
    "trainable_parameters": 8030261248,
}


def with_question(told: dict[str, Any]) -> dict[str, Any]:
    """The manifest with as much of its question as exports read: Llama 3.1 8B, by NCCL."""
    profile, asked = {"architecture": ARCHITECTURE}, {"transport": "nccl"}
    return changed(told, question={"profile": profile, "catalog": {}, "requirements": asked})


def saved(folder: Path, told: dict[str, Any]) -> str:
    """Write a manifest; returns its path."""
    path = folder / "plan.json"
    path.write_text(json.dumps(told))
    return str(path)


def plan_of(told: dict[str, Any]) -> RunPlan:
    """Read a manifest."""
    return plan_from(told, "test")


def settings_of(folder: Path, plan: RunPlan, **other: Any) -> Settings:
    """Six steps of the tiny model, its end kept."""
    usual = Settings(
        train="run_plans:tiny",
        steps=6,
        target_batch_size=plan.target_batch_size,
        microbatch=plan.microbatch,
        checkpoints=str(folder / "checkpoints"),
        timeout_s=120.0,
        join_s=600.0,
        poll_s=0.04,
    )
    return replace(usual, **other)


def _regression(module: Any, batch: Any) -> Any:
    return ((module(batch[0]) - batch[1]) ** 2).mean()


def _samples(count: int, device: Any) -> Any:
    import torch

    x = torch.randn(count, 4)
    return x.to(device), (x.sum(1, keepdim=True) + 0.1 * torch.randn(count, 1)).to(device)


def _momentum(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def _plain(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.optim.SGD(parameters, lr=0.05)


def _linear(module: Any, batch: Any) -> Any:
    return module(batch[0]).mean()


def _workload(name: str, module: Any, loss: Any = _regression, optimizer: Any = _plain) -> Workload:
    return Workload(
        name=name,
        title=name,
        family="other",
        module=module,
        batch=_samples,
        loss=loss,
        optimizer=optimizer,
    )


def tiny() -> Workload:
    """33 parameters: 4 x 5 + 5, 5 + 1, and 2 that are frozen; trained with momentum, so that the
    optimizer's state counts.
    """
    import torch

    class Net(torch.nn.Module):  # type: ignore[misc]
        """Two layers and something frozen."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 1)
            self.extra = torch.nn.Parameter(torch.ones(2))
            self.frozen = torch.nn.Parameter(torch.ones(2), requires_grad=False)

        def forward(self, x: Any) -> Any:
            """Prediction."""
            return self.last(self.first(x).tanh()) * self.extra.prod() * self.frozen.prod()

    return _workload("tiny", Net(), optimizer=_momentum)


def _adamw(parameters: Iterable[Any]) -> Any:
    import torch

    return torch.optim.AdamW(parameters, lr=0.005)


def slow() -> Workload:
    """The tiny model, whose third batch takes a second: by then all ranks have met, and they stay
    long enough to be looked at on a machine that does other work.
    """
    third = iter((0.0, 0.0, 1.0))

    def samples(count: int, device: Any) -> Any:
        time.sleep(next(third, 0.0))
        return _samples(count, device)

    return replace(tiny(), batch=samples)


def calm() -> Workload:
    """The tiny model with AdamW and a small learning rate, as the inner optimizer of DiLoCo."""
    return replace(tiny(), optimizer=_adamw)


def patient() -> Workload:
    """The tiny model with a learning rate so small that its parameters hardly change."""
    import torch

    return replace(tiny(), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-4))


def linear() -> Workload:
    """A loss that is linear in its parameters: gradients do not depend on the model, so their order
    does not matter.
    """
    import torch

    return _workload("linear", torch.nn.Linear(4, 3), _linear)


def hungry() -> Workload:
    """Two million parameters, and a server or function (rank 2) that gets 12 MB more of addresses
    than it has: too few for the sums.
    """
    import resource

    import torch

    if os.environ.get("PLACER_TEST_RANK") == "2":
        has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(
            resource.RLIMIT_AS, (has + 12_000_000 + 8_000_000, resource.RLIM_INFINITY)
        )
    return _workload("hungry", torch.nn.Linear(4, 500_000, bias=False), _linear)


def crooked() -> Workload:
    """Parameters that differ from process to process."""
    import os

    import torch

    module = torch.nn.Linear(4, 1)
    torch.nn.init.constant_(module.weight, float(os.getpid()))
    return _workload("crooked", module)


def loose() -> tuple[Any, Any, Any]:
    """The tiny model in the loose form of ``placer profile``; it prints, as users' code does."""
    import torch

    sys.stdout.write("loading data ...\n")
    work = tiny()
    return work.module, lambda count: _samples(count, torch.device("cpu")), work.loss


def stepping() -> Any:
    """A step function: nothing to exchange."""
    return lambda batch_size: None


def stopping() -> Workload:
    """The tiny model; rank 2 draws so many batches, and then waits to be killed."""
    usual, drawn = tiny(), list[int]()

    def batch(count: int, device: Any) -> Any:
        drawn.append(count)
        if os.environ["PLACER_RANK"] == "2" and len(drawn) > int(os.environ["PLACER_TEST_BATCHES"]):
            time.sleep(600)
        return usual.batch(count, device)

    return replace(usual, batch=batch)

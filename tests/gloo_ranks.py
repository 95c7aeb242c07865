"""One rank of two that exchange gradients by gloo over 127.0.0.1 and count what they send: run by
`test_profiler_gloo.py`.
"""

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from placer.profiler.workload import Workload

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
dist: Any = torch.distributed
WIDTH, WORDS = 384, 1000
BYTES_RECEIVED = 128
"""Offset of tcpi_bytes_received in Linux's tcp_info (include/uapi/linux/tcp.h)."""


class Head(nn.Module):  # type: ignore[misc]
    """Body with a second head that the loss does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.idle = (
            nn.Linear(WIDTH, WIDTH),
            nn.Linear(WIDTH, 10),
            nn.Linear(WIDTH, 2 * WIDTH),
        )

    def forward(self, x: Any) -> Any:
        """Logits of the head that is used."""
        return self.head(self.body(x).relu())


def vectors(samples: int, device: Any) -> Any:
    """Random vectors."""
    return torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(1)).to(device)


def words(samples: int, device: Any) -> Any:
    """Texts of 50 words, many of them twice."""
    return torch.randint(WORDS, (samples, 50), generator=torch.Generator().manual_seed(1)).to(
        device
    )


def plain() -> Workload:
    """Three linear layers: 6 tensors, 2 x 384 x 385 + 385 x 10 parameters."""
    module = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
    )
    return _workload("plain", module, vectors)


def tied() -> Workload:
    """Embedding and output layer are one tensor of 384,000 elements; with the bias 385,000."""
    module = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS))
    module[1].weight = module[0].weight
    return _workload("tied", module, words)


def frozen() -> Workload:
    """The first of three layers learns nothing: 4 tensors, 384 x 385 + 385 x 10 parameters."""
    module: Any = plain().module
    module[0].requires_grad_(False)
    return _workload("frozen", module, vectors)


def unused() -> Workload:
    """Six tensors, of which the two of the idle head (2 x 384 x 385) get no gradient."""
    return _workload("unused", Head(), vectors)


def bfloat16() -> Workload:
    """The first layer in BF16, the others in FP32."""
    layers: Any = plain().module
    layers[0].to(torch.bfloat16)
    module = nn.Sequential(
        ToType(torch.bfloat16), layers[0], ToType(torch.float32), layers[2], layers[4]
    )
    return _workload("bfloat16", module, vectors)


class ToType(nn.Module):  # type: ignore[misc]
    """Changes the type of numbers."""

    def __init__(self, to: Any) -> None:
        super().__init__()
        self.to_type = to

    def forward(self, x: Any) -> Any:
        """Give the numbers in another type."""
        return x.to(self.to_type)


def _workload(name: str, module: Any, batch: Callable[[int, Any], Any]) -> Workload:
    return Workload(
        name=name,
        title=name,
        family="other",
        module=module,
        batch=batch,
        loss=lambda module, batch: module(batch).square().mean(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        microbatch=8,
    )


CASES: dict[str, Callable[[], Workload]] = {
    f.__name__: f for f in (plain, tied, frozen, unused, bfloat16)
}


def received() -> int:
    """Bytes that came in over all open TCP connections of this process, as the kernel counts
    them.
    """
    total = 0
    for entry in filter(Path.is_socket, Path("/proc/self/fd").iterdir()):
        with socket.socket(fileno=os.dup(int(entry.name))) as connection:
            if connection.type == socket.SOCK_STREAM and connection.family in {
                socket.AF_INET,
                socket.AF_INET6,
            }:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                total += struct.unpack_from("Q", info, BYTES_RECEIVED)[0]
    return total


def by_ddp(workload: Workload) -> dict[str, int]:
    """One step of DistributedDataParallel, which says through a hook what it hands to the
    all-reduce.
    """
    handed, tensors = 0, 0

    def count(bucket: Any) -> Any:
        nonlocal handed, tensors
        handed, tensors = handed + bucket.buffer().nbytes, tensors + len(bucket.gradients())
        return (
            dist.all_reduce(bucket.buffer(), async_op=True)
            .get_future()
            .then(lambda done: done.value()[0])
        )

    parallel = nn.parallel.DistributedDataParallel(
        workload.module, find_unused_parameters=workload.name == "unused"
    )
    parallel.register_comm_hook(None, lambda state, bucket: count(bucket))
    loss: Any = workload.loss(parallel, workload.batch(8, torch.device("cpu")))
    dist.barrier()
    before = received()
    loss.backward()
    return {"handed": handed, "tensors": tensors, "received": received() - before}


def main(rank: int, store: str) -> None:
    """Run all cases and print what was counted."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting = dist.FileStore(store, 2)
    dist.init_process_group(
        "gloo", store=meeting, rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    found = {}
    for name, case in CASES.items():
        torch.manual_seed(0)
        found[name] = {"by_ddp": by_ddp(case())}
    print(json.dumps(found), flush=True)  # noqa: T201
    # Neither leaves while the other may still send to it, and none takes gloo down: its threads
    # then abort one time in twenty.
    meeting.add("ended", 1)
    while meeting.add("ended", 0) < 2:
        time.sleep(0.02)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

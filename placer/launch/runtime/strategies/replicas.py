"""Local SGD, DiLoCo and Streaming DiLoCo between worlds, by torchft: its Manager agrees on who
takes part in each exchange, so a lost world leaves and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from datetime import timedelta
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from placer.launch.runtime.processes.loopback_store import LIGHTHOUSE, shared_store
from placer.launch.runtime.strategies.strategy import Strategy
from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire import Feedback, PeerLostError, Wire, butterfly_sum
from placer.problem.exchange import fragments

MOMENTUM = 0.9
"""Douillard et al. (DiLoCo, 2023; Streaming DiLoCo, 2025) and Charles et al. (2025)."""
RATES = {"local-sgd": 1.0, "diloco": 0.7, "streaming-diloco": 0.4}
"""Outer learning rates: of Douillard et al. (2023; 0.6 to 0.8 is best in Charles et al., 2025) and
of Douillard et al. (2025). Local SGD replaces the model by the mean: rate 1 without momentum.
"""
OWN_SHARE = 0.5
"""A worker's share where a late outer step meets it: alpha of Douillard et al. (2025)."""


class Replicas(Strategy):
    """One process of one world, of those that torchft keeps alike.

    Each process exchanges what it holds of the model with its equals in other worlds, as pieces of
    the parameters' own memory: fragments are even, whatever the layers are. Worlds count alike in
    the mean, whatever their share of the batch.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        from torchft import Manager
        from torchft.local_sgd import DiLoCo

        exchange, trainer, seat = context.plan.exchange, context.trainer, context.seat
        self.trainer = trainer
        # torchft's Manager has a store in each world.
        self.store = shared_store(
            context.store,
            f"store/{seat.world}",
            context.address,
            context.settings.join_s,
            serves=seat.leads,
        )
        count = fragments(exchange.local_steps) if exchange.strategy == "streaming-diloco" else 1
        self.every = exchange.local_steps // count
        modules = [torch.nn.ParameterList(part) for part in even_parts(trainer.pieces(), count)]
        self.outer = [_outer_optimizer(module, exchange) for module in modules]
        sizes = [sum(p.numel() for p in module.parameters()) for module in modules]
        self.sums = Sums(context, sizes, lambda: self.manager.current_step() % count)
        self.waited = 0.0
        logging.getLogger("torchft").setLevel(logging.CRITICAL)  # a lost world is no error
        self.manager = Manager(
            pg=process_group(self.sums),
            load_state_dict=self._load,
            state_dict=self._state,
            min_replica_size=context.plan.quorum or context.plan.workers,
            use_async_quorum=False,
            timeout=timedelta(seconds=context.settings.timeout_s),
            quorum_timeout=timedelta(seconds=context.settings.timeout_s + context.plan.grace_s),
            rank=seat.world_rank,
            world_size=seat.world_size,
            store_addr=self.store.host,
            store_port=self.store.port,
            lighthouse_addr=context.store.get(LIGHTHOUSE).decode(),
            replica_id=replica_name(seat.rank),
            hostname=context.address,
            init_sync=False,
        )
        self.mark = 0.0
        late = exchange.strategy == "streaming-diloco"
        self.averaging = DiLoCo(
            self.manager,
            modules,
            trainer.optimizer,
            self.outer,
            sync_every=exchange.local_steps,
            use_bucketization=True,
            bucket_cap_mb=1 + 4 * trainer.elements // 2**20,
            fragment_sync_delay=self.every - 1 if late else 0,
            fragment_update_alpha=OWN_SHARE if late else 0.0,
        )

    def _updated(self, *_: Any) -> None:
        self.mark = perf_counter()

    def _state(self) -> dict[str, Any]:
        return {
            "module": self.trainer.module.state_dict(),
            "optimizer": self.trainer.optimizer.state_dict(),
        }

    def _load(self, state: dict[str, Any]) -> None:
        """Take over what the others agree on, in a world that comes back."""
        self.trainer.module.load_state_dict(state["module"])
        self.trainer.optimizer.load_state_dict(state["optimizer"])

    def begin(self) -> None:
        """Go on after so many steps; from now on each step of the optimizer counts."""
        done = self.context.start // self.every
        self.manager.load_state_dict({"step": done, "batches_committed": 0})
        # Before torchft's, which exchanges.
        self.trainer.optimizer.register_step_post_hook(self._updated)
        self.averaging.__enter__()

    def steps(self) -> Iterator[int]:
        """Count the steps of all: a world that comes back skips some."""
        while (done := self.manager.current_step() * self.every) < self.context.settings.steps:
            for local in range(self.every):
                yield done + local

    def step(self, step: int) -> float:
        """Take a step of the own optimizer, with the exchange that is due."""
        context, samples = self.context, self.context.world_samples
        loss = context.calculate(step, max(1, samples))
        began = perf_counter()
        try:
            self.trainer.step()
        except TimeoutError as error:  # too few worlds have come
            raise PeerLostError(None, str(error)) from None
        waited = perf_counter() - self.mark
        context.meter.seconds["calculation"] += self.mark - began
        context.meter.seconds["exchange"] += waited
        self.waited += waited
        if (step + 1) % self.every == 0:
            seconds = self.sums.taken_seconds()
            if context.plan.exchange.overlap:
                late = min(self.waited, seconds)
                context.meter.overlap(exchange_s=max(seconds, 1e-9), waited_s=late)
            self.waited = 0.0
        return loss * samples / context.settings.target_batch_size

    def tensors(self) -> dict[str, Any]:
        """Return the outer model, its momentum, and what compression lost."""
        number = self.context.seat.process
        kept: dict[str, Any] = {}
        for part, (optimizer, fragment) in enumerate(
            zip(self.outer, self.averaging._fragments, strict=True)
        ):
            own = f"{number}/{part}"
            for name, value in fragment.original_parameters.items():
                kept[f"common/{own}/{name}"] = value
            for place, state in enumerate(optimizer.state.values()):
                kept[f"momentum/{own}/{place}"] = state["momentum_buffer"]
            for name, value in self.sums.lost(part).items():
                kept[f"lost/{own}/{name}"] = value
        return kept

    def close(self) -> None:
        """End with the model of the last exchange, which is the same in all worlds."""
        self.averaging._restore_parameters()
        self.averaging.__exit__(None, None, None)

    def leave(self) -> None:
        """Let the others go on without this world."""
        self.manager.shutdown(wait=False)


def replica_name(rank: int) -> str:
    """Name a world. torchft's ring passes the worlds in the order of their names, as texts.

    >>> sorted(map(replica_name, (10, 9)))
    ['worker-00009', 'worker-00010']
    """
    return f"worker-{rank:05}"


def even_parts(pieces: list[Any], count: int) -> list[list[Any]]:
    """Cut pieces of one dimension into fragments of equal size, to an element.

    >>> import torch
    >>> pieces = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.zeros(2))]
    >>> [[len(piece) for piece in part] for part in even_parts(pieces, 2)]
    [[2], [1, 2]]
    """
    total = sum(len(piece) for piece in pieces)
    ends = [total * k // count for k in range(count + 1)]
    parts: list[list[Any]] = []
    for first, end in pairwise(ends):
        part, start = [], 0
        for piece in pieces:
            own = slice(max(0, first - start), max(0, min(len(piece), end - start)))
            if own.start < own.stop:
                part.append(torch.nn.Parameter(piece.detach()[own]))
            start += len(piece)
        parts.append(part)
    return parts


def _outer_optimizer(module: Any, exchange: Any) -> Any:
    """Return the optimizer of a mean change; to sparse messages, feedback is momentum enough."""
    plain = exchange.strategy == "local-sgd" or exchange.compression == "sparse"
    optimizer = torch.optim.SGD(
        module.parameters(),
        lr=1.0 if plain else RATES[exchange.strategy],
        momentum=0.0 if plain else MOMENTUM,
        nesterov=not plain,
    )
    for parameter in () if plain else module.parameters():  # a checkpoint always has them
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


SPARSE_DECAY = 0.95
"""Share of the error that sparse messages feed back: it takes the place of the outer momentum
(SparseLoCo, arXiv 2508.15706; the figure is that of Covenant-72B, arXiv 2603.08163).
"""


class Sums:
    """The sums of one process: counted, timed, and encoded where the plan compresses. ``sizes`` are
    the elements of each fragment, and ``fragment`` says which one is exchanged.
    """

    def __init__(self, context: Context, sizes: Sequence[int], fragment: Callable[[], int]) -> None:
        self.context, self.sizes, self.fragment = context, sizes, fragment
        self.of_world = _sums(sizes)
        self.compression = context.plan.exchange.compression
        self.members: list[int] = []
        self.thread = ThreadPoolExecutor(1, "exchange")
        self.feedback = [self._feedback(size) for size in sizes]
        self.seconds = 0.0

    def _feedback(self, elements: int) -> Feedback:
        feedback = Feedback(elements, SPARSE_DECAY if self.compression == "sparse" else 1.0)
        if self.context.rank < self.context.plan.workers:
            shards = torch.zeros(elements).tensor_split(self.context.plan.workers)
            feedback.summed = shards[self.context.rank].clone()
        return feedback

    def encoded(self, group: Any, tensor: Any) -> Future[None]:
        """Sum encoded messages in the thread; a sum that fails leaves the feedback as it was."""
        context, part = self.context, self.fragment()

        def run() -> None:
            began = perf_counter()
            timeout_s = context.settings.timeout_s
            wire = Wire(
                context.plan, context.rank, self.members, [group], context.wire_meter, timeout_s
            )
            feedback = copy(self.feedback[part])
            vector = tensor.detach().to("cpu", dtype=feedback.sent.dtype)
            tensor.copy_(butterfly_sum(wire, vector, self.members, feedback=feedback))
            self.feedback[part] = feedback
            self.seconds += perf_counter() - began

        return self.thread.submit(run)

    def ended(self, work: Any) -> Future[None]:
        """Wait for a sum of gloo's in the thread, and time it."""

        def run() -> None:
            began = perf_counter()
            work.wait()
            seconds = perf_counter() - began
            self.seconds += seconds
            self.context.wire_meter.wire_s += seconds

        return self.thread.submit(run)

    def count(self, tensors: Sequence[Any]) -> None:
        """Count what this world sends in a ring of gloo's or NCCL's, in the order of the worlds."""
        size = self.of_world[self.fragment()] * tensors[0].element_size()
        self.context.count_ring(self.members, size, len(self.members))

    def taken_seconds(self) -> float:
        """Return the seconds of exchanges since the last look, and count what they sent."""
        seconds, self.seconds = self.seconds, 0.0
        wire_meter = self.context.wire_meter
        wire_meter.seconds.clear()
        whole = sum(self.of_world) / max(1, sum(self.sizes))
        for pair, count in wire_meter.bytes.items():  # its equals in this world send the rest
            wire_meter.bytes[pair] = round(count * whole)
        self.context.meter.absorb(wire_meter)
        return seconds

    def lost(self, part: int) -> dict[str, Any]:
        """Return what compression lost of a fragment; of a sum over fewer worlds, nothing."""
        if self.compression == "none":
            return {}
        usual = self._feedback(self.sizes[part])
        if len(self.feedback[part].summed) != len(usual.summed):
            self.feedback[part].summed = usual.summed
        return {"sent": self.feedback[part].sent, "summed": self.feedback[part].summed}


def _sums(sizes: Sequence[int]) -> list[int]:
    """Add up the sizes of the fragments over the processes of this world."""
    total = torch.tensor(sizes)
    dist.all_reduce(total)
    return [int(size) for size in total]


def process_group(sums: Sums) -> Any:
    """Return torchft's group, over NCCL where GPUs exchange uncompressed, else over gloo."""
    from torchft.process_group import ProcessGroupGloo, ProcessGroupNCCL

    context = sums.context
    on_gpu = context.trainer.device.type == "cuda" and sums.compression == "none"

    class InThread(dist._Work):  # type: ignore[misc]
        """A sum that a thread ends, as torchft waits for one."""

        def __init__(self, task: Future[None], tensors: Any) -> None:
            super().__init__()
            self.task, self.tensors = task, tensors

        def wait(self, timeout: timedelta | None = None) -> bool:
            """Wait for the thread, or raise its error."""
            self.task.result()
            return True

        def get_future(self) -> Any:
            """Return a future of what has been waited for."""
            future: Any = torch.futures.Future()
            future.set_result(self.tensors)
            return future

    class Counted(ProcessGroupNCCL if on_gpu else ProcessGroupGloo):  # type: ignore[misc]
        """The group of one quorum after the other."""

        def configure(self, *words: Any, **named: Any) -> None:
            """Connect the worlds of a quorum."""
            super().configure(*words, **named)
            size = context.seat.world_size
            sums.members = [number // size for number in self._global_ranks or ()]

        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            """Sum over the worlds."""
            if sums.compression != "none":
                return InThread(sums.encoded(self.parent, tensors[0]), tensors)
            sums.count(tensors)
            work = super().allreduce(tensors, opts)
            return work if on_gpu else InThread(sums.ended(work), tensors)

    return Counted(timeout=timedelta(seconds=context.settings.timeout_s))

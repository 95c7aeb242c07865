"""The process group of torchft's Manager, anew for each quorum: equal processes of all worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from datetime import timedelta
from time import perf_counter
from typing import Any

from placer.launch.runtime.training.context import Context
from placer.launch.runtime.wire import Feedback, Wire, butterfly_sum

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
        import torch

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
    import torch
    import torch.distributed as dist

    total = torch.tensor(sizes)
    dist.all_reduce(total)
    return [int(size) for size in total]


def process_group(sums: Sums) -> Any:
    """Return torchft's group, over NCCL where GPUs exchange uncompressed, else over gloo."""
    import torch
    import torch.distributed as dist
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

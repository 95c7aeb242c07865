"""One worker's model: gradients of its share of a batch, updates, and its state as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from placer.errors import PlacerError
from placer.profiler.workload import Workload

if TYPE_CHECKING:
    import torch


def batch_seed(seed: int, step: int, rank: int, microbatch: int) -> int:
    """Return the seed of one microbatch, the same in every attempt, so that a resumed run draws the
    same samples.

    Examples
    --------
    >>> batch_seed(0, 3, 1, 0) == batch_seed(0, 3, 1, 0) != batch_seed(0, 3, 2, 0)
    True
    """
    return int.from_bytes(
        hashlib.sha256(f"{seed}/{step}/{rank}/{microbatch}".encode()).digest()[:6], "big"
    )


def seed_draws(seed: int, device: torch.device) -> None:
    """Seed what a batch on a device is drawn from.

    Notes
    -----
    On a CPU that is one generator. `torch.manual_seed` also formats a stack trace for each other
    kind of device that was not used yet, and keeps it: milliseconds of a step, and memory that
    grows.
    """
    import torch

    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class Trainer:
    """A workload on one device, whose trainable parameters are one flat vector of 32-bit floats on
    the CPU.

    Parameters
    ----------
    workload
        What is trained. All ranks begin with equal parameters: those that rank 0 hands out.
    device
        Where it is trained.
    rank, seed
        Choose the samples.
    microbatch
        Samples that are calculated at once; gradients add up to the share of the step.
    """

    def __init__(
        self, workload: Workload, device: torch.device, *, rank: int, seed: int, microbatch: int
    ) -> None:
        self.workload, self.device, self.rank, self.seed, self.microbatch = (
            workload,
            device,
            rank,
            seed,
            microbatch,
        )
        self.module = workload.module.to(device).train()
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        if not self.parameters:
            raise PlacerError(
                f"{workload.name} has no trainable parameter",
                "give a module whose parameters require gradients",
            )
        self.elements = self.total_elements = sum(p.numel() for p in self.parameters)
        self.optimizer = workload.optimizer(self.parameters)

    def gradient(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> tuple[Any, float]:
        """Calculate gradient and loss of this rank's samples, both weighted with their share of
        ``of`` samples.

        Parameters
        ----------
        step
            Number of the optimizer step.
        samples
            Of this rank.
        of
            Samples over which the mean is taken: the sum over all ranks is then the mean gradient.
        between
            Called before each microbatch.

        Returns
        -------
        tuple
            Flat gradient, and the weighted loss.
        """
        loss = self._backward(step, samples, of, between)
        return flat([p.grad for p in self.parameters]), loss

    def local_step(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> float:
        """Take a step of the worker's own optimizer with the gradient of its own samples; return
        their weighted loss. See `gradient`: here nothing leaves the device.
        """
        loss = self._backward(step, samples, of, between)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss

    def _backward(self, step: int, samples: int, of: int, between: Callable[[], None]) -> float:
        """Leave the gradient at the parameters, zeros where there is none; return the loss."""
        import torch

        loss_sum = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for number, start in enumerate(range(0, samples, self.microbatch)):
            between()
            size = min(self.microbatch, samples - start)
            seed_draws(batch_seed(self.seed, step, self.rank, number), self.device)
            loss = self.workload.loss(self.module, self.workload.batch(size, self.device)) * (
                size / of
            )
            loss.backward()
            loss_sum += float(loss.detach())
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        return loss_sum

    def apply(self, gradient: Any) -> None:
        """Take one optimizer step with a flat gradient."""
        for parameter, part in zip(self.parameters, self._parts(gradient), strict=True):
            parameter.grad = part.to(parameter.device, parameter.dtype)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def vector(self) -> Any:
        """Copy of the trainable parameters."""
        return flat([p.detach() for p in self.parameters])

    def first_digest(self) -> str:
        """Return the digest of the parameters before the first step."""
        return digest_of(self.vector())

    def whole(self) -> Any:
        """Copy of all trainable parameters; those of an island are on several processes."""
        return self.vector()

    def load_vector(self, vector: Any) -> None:
        """Set the trainable parameters."""
        import torch

        with torch.no_grad():
            for parameter, part in zip(self.parameters, self._parts(vector), strict=True):
                parameter.copy_(part)

    def part(self, part: slice) -> Any:
        """Copy of a part of the trainable parameters."""
        return flat([p.detach().reshape(-1)[own] for p, own, _ in self._within(part)])

    def move_part(self, part: slice, towards: Any, share: float) -> None:
        """Move a part of the trainable parameters by a share of the way to other values."""
        for parameter, own, place in self._within(part):
            values, there = parameter.detach().reshape(-1), towards[place]
            values[own].lerp_(there.to(values.device, values.dtype), share)
            if not parameter.is_contiguous():  # the values are a copy
                parameter.detach().copy_(values.view(parameter.shape))

    def _within(self, part: slice) -> Iterator[tuple[Any, slice, slice]]:
        """Iterate over the parameters that have values in a part of the vector: where these are in
        the parameter, and where in the part.
        """
        start = 0
        for parameter in self.parameters:
            first, end = max(part.start, start), min(part.stop, start + parameter.numel())
            if first < end:
                yield (
                    parameter,
                    slice(first - start, end - start),
                    slice(first - part.start, end - part.start),
                )
            start += parameter.numel()

    def whole_of(self, piece: Any) -> Any:
        """Put the pieces of a vector together; of one process it is whole."""
        return piece

    def agree(self, lost: int) -> int:
        """Return the rank that was lost, for all processes of the worker alike; -1: none."""
        return lost

    def joined(self, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the figures of all processes of the worker."""
        return figures

    def _parts(self, vector: Any) -> list[Any]:
        parts = vector.split([p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]

    def state(self) -> dict[str, Any]:
        """Return model, buffers and optimizer as tensors and plain values."""
        return {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a state; `PlacerError` if it belongs to another model."""
        try:
            self.module.load_state_dict(state["module"])
            self.optimizer.load_state_dict(state["optimizer"])
        except (RuntimeError, ValueError, KeyError) as error:
            words = " ".join(str(error).split())[:200]
            raise PlacerError(
                f"the checkpoint is not of this model: {words}",
                "choose another --out, or run without --resume",
            ) from None


def digest_of(vector: Any) -> str:
    """Return the SHA-256 of a vector on the CPU."""
    return hashlib.sha256(vector.numpy().tobytes()).hexdigest()


def flat(tensors: list[Any]) -> Any:
    """Concatenate tensors to one vector of 32-bit floats on the CPU; it shares memory with none."""
    import torch

    return torch.cat([t.detach().reshape(-1).to("cpu", torch.float32) for t in tensors])

"""The model of a rehearsal: the parameters of the scaled plan, with gradients that cost little."""

from __future__ import annotations

import os

from placer.profiler.workload import Workload

ELEMENTS = "PLACER_REHEARSAL_ELEMENTS"
"""Environment variable with the number of parameters."""
TRAIN = "placer.launch.rehearsal.stand_in_model:stand_in"
LEARNING_RATE = 0.1


def stand_in() -> Workload:
    """Make a vector that is pulled to zero: its squared length plus the noise of the samples. Of
    the length one factor counts as given, so the gradient is the vector itself, and nothing on the
    way can leave a part out. The loss falls by ``(1 - LEARNING_RATE) ** 2`` a step.
    """
    import torch

    class Vector(torch.nn.Module):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(int(os.environ[ELEMENTS])).uniform_(-1, 1))

        def forward(self, noise: torch.Tensor) -> torch.Tensor:
            return torch.dot(self.weight, self.weight.detach()) + noise.mean()

    return Workload(
        name="rehearsal",
        title="a vector that is pulled to zero",
        family="other",
        module=Vector(),
        batch=lambda count, device: torch.randn(count, device=device),
        loss=lambda module, noise: module(noise),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE),
        source=TRAIN,
    )

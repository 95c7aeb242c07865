"""The arithmetic of exchanges in one process of plain PyTorch: what runs must equal."""

from math import ceil
from typing import Any

import run_plans

from placer.launch.runtime.training.trainer import batch_seed

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
Records = list[dict[str, Any]]


class Alone:
    """One replica of the tiny model in this process."""

    def __init__(self, work: Any = None) -> None:
        import torch

        torch.manual_seed(0)
        self.work = work() if work else run_plans.tiny()
        self.parameters = [p for p in self.work.module.parameters() if p.requires_grad]
        self.optimizer = self.work.optimizer(self.parameters)

    def calculate(self, step: int, samples: dict[int, int], least: int = 1) -> float:
        """Gradient and loss of a step over the samples of some processes, at most 3 at once, in
        at least so many microbatches.
        """
        import torch

        self.optimizer.zero_grad()
        total, loss_sum = sum(samples.values()), 0.0
        for process, mine in samples.items():
            count = max(least, ceil(mine / 3))
            for number in range(count):
                size = mine // count + (number < mine % count)
                torch.manual_seed(batch_seed(0, step, process, number))
                batch = self.work.batch(size, torch.device("cpu"))
                loss = self.work.loss(self.work.module, batch) * size / total
                loss.backward()
                loss_sum += float(loss.detach())
        return loss_sum

    def step(self, step: int, samples: dict[int, int], least: int = 1) -> float:
        """One optimizer step with the mean gradient over the samples of some processes."""
        loss = self.calculate(step, samples, least)
        self.optimizer.step()
        return loss

    @property
    def vector(self) -> Any:
        """Flat parameters."""
        import torch

        return torch.cat([p.detach().flatten() for p in self.parameters])

    def load(self, vector: Any) -> None:
        """Set the parameters."""
        import torch

        torch.nn.utils.vector_to_parameters(vector.clone(), self.parameters)


def synchronous(samples: dict[int, int], steps: int = 6, least: int = 1) -> tuple[Any, list[float]]:
    """Large-batch SGD in one process: what every synchronous strategy must equal."""
    alone = Alone()
    losses = [alone.step(step, samples, least) for step in range(steps)]
    return alone.vector, losses


def outer_steps(
    groups: list[dict[int, int]], every: int, steps: int, rate: float, momentum: float
) -> Any:
    """Replicas, one for each group of processes, whose mean change drives Nesterov momentum after
    each ``every`` steps; they count alike.
    """
    import torch

    replicas = [Alone() for _ in groups]
    common = torch.nn.Parameter(replicas[0].vector)
    outer = torch.optim.SGD([common], lr=rate, momentum=momentum, nesterov=momentum > 0)
    for step in range(steps):
        for replica, group in zip(replicas, groups, strict=True):
            replica.step(step, group)
        if (step + 1) % every == 0:
            mean = sum(replica.vector for replica in replicas) / len(replicas)
            common.grad = common.detach() - mean
            outer.step()
            for replica in replicas:
                replica.load(common.detach())
    return common.detach()


def ends(records: Records) -> dict[int, Any]:
    """Parameters of each rank at the end."""
    import torch

    return {r["rank"]: torch.tensor(r["parameters"]) for r in records if r["kind"] == "end"}


def digests(records: Records, workers: int) -> set[str]:
    """Models of the workers at the end."""
    return {r["parameters_sha256"] for r in records if r["kind"] == "end" and r["rank"] < workers}

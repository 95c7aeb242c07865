"""Train a step in stages with torch.distributed.pipelining, started by the scripts of an export.

Shows: how a training script of your own follows a plan with stages (`+pp=4`, `+pp=4+vp=2`). Layers
of each piece, microbatches and samples of each rank come in variables PLACER_*; ranks are in the
order of torchtitan and Megatron: those of one stage are in a row.

Prints: the loss of the step, on the rank with the last stage. With a folder as its argument, each
rank writes the gradients of its pieces there.

Needs: PyTorch 2.13. On one machine:

    placer export plan.json --to torchrun --dir launch --train train_stages.py
    bash launch/workers-0.sh
"""

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

WIDTH = 16


class Block(nn.Module):
    """One layer of the model; all processes make the same one of a number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.inside = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add the layer's output to its input."""
        return x + torch.tanh(self.inside(x))


def pieces(layers: list[int], block: type[nn.Module] = Block) -> list[nn.Sequential]:
    """Return the pieces of the model in its order, each with some layers, or none."""
    first = [sum(layers[:number]) for number in range(len(layers))]
    return [
        nn.Sequential(*(block(begin + i) for i in range(count)))
        for begin, count in zip(first, layers, strict=True)
    ]


def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and targets of a step."""
    torch.manual_seed(0)
    return torch.randn(count, WIDTH), torch.randn(count, WIDTH)


def staged(
    model: list[nn.Sequential], rank: int, stages: int, microbatches: int, group: Any = None
) -> Any:
    """Return the schedule of a rank's pieces: 1F1B, or interleaved where it has several."""
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    held = [
        PipelineStage(model[number].to(device), number, len(model), device, group=group)
        for number in range(rank, len(model), stages)
    ]
    if len(held) == 1:
        return Schedule1F1B(held[0], microbatches, nn.functional.mse_loss)
    return ScheduleInterleaved1F1B(held, microbatches, nn.functional.mse_loss)


def main() -> None:
    """Train the first step."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    stages = int(os.environ["PLACER_PIPELINE_PARALLEL"])
    mesh = init_device_mesh(
        device, (stages, dist.get_world_size() // stages), mesh_dim_names=("pp", "dp")
    )
    stage, copy = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    shares = json.loads(os.environ["PLACER_SAMPLES"])[int(os.environ["PLACER_WORLD"])]
    before, mine = sum(shares[:copy]), shares[copy]
    x, y = (part[before : before + mine].to(device) for part in samples(sum(shares)))
    model = pieces([int(word) for word in os.environ["PLACER_PIECE_LAYERS"].split()])
    microbatches = mine // int(os.environ["PLACER_MICROBATCH"])
    schedule = staged(model, stage, stages, microbatches, mesh.get_group("pp"))
    losses: list[torch.Tensor] = []
    first, last = stage == 0, stage == stages - 1
    schedule.step(*([x] if first else []), **({"target": y, "losses": losses} if last else {}))
    gradients = {
        number: [parameter.grad for parameter in model[number].parameters()]
        for number in range(stage, len(model), stages)
    }
    for gradient in (one for several in gradients.values() for one in several):
        dist.all_reduce(gradient, group=mesh.get_group("dp"))
        gradient.div_(len(shares))
    if last:
        loss = torch.stack(losses).mean()
        dist.all_reduce(loss, group=mesh.get_group("dp"))
        if copy == 0:
            print(f"loss {loss.item() / len(shares):.8f}", flush=True)
    if len(sys.argv) > 1 and copy == 0:
        torch.save(gradients, f"{sys.argv[1]}/stage-{stage}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads may abort the end of Python (pytorch/pytorch#179291)

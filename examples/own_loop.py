"""Train with a loop of your own, started by the scripts of `placer export --to torchrun`.

Shows: that the machines need nothing of placer. The exported scripts start torchrun, which joins
the machines; the plan arrives in variables PLACER_*: model, target batch size, microbatch, and the
speed below which something is wrong. launch_torchrun.sh starts it.

Prints: the loss (guessing gives 3.5), samples/s of all machines, and a warning where the plan would
have raised an alarm.

Needs: PyTorch, and train_tiny.py in the same folder. Without torchrun it trains alone:

    python own_loop.py --tbs 64
"""

import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from train_tiny import gpt, loss

words = argparse.ArgumentParser()
words.add_argument("--steps", type=int, default=20)
words.add_argument(
    "--tbs",
    type=int,
    default=int(os.environ.get("PLACER_TARGET_BATCH_SIZE", "64")),
    help="samples a step, all machines",
)
words.add_argument(
    "--microbatch",
    type=int,
    default=int(os.environ.get("PLACER_MICROBATCH", "16")),
    help="samples at once on one device",
)
given = words.parse_args()

cuda, together = torch.cuda.is_available(), "WORLD_SIZE" in os.environ
if together:
    dist.init_process_group("nccl" if cuda else "gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
device = (
    torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
)
rounds = max(1, given.tbs // (world * given.microbatch))  # microbatches of each worker in one step

torch.manual_seed(0)  # the same first parameters everywhere
model = gpt(os.environ.get("PLACER_MODEL", "tiny-gpt")).to(device)
wrapped = DistributedDataParallel(model) if together else model
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
torch.manual_seed(1 + rank)  # and other samples on every worker
started = time.perf_counter()
for step in range(1, given.steps + 1):
    for number in range(rounds):
        if together:
            wrapped.require_backward_grad_sync = (
                number == rounds - 1
            )  # gradients are exchanged once a step
        value = loss(wrapped, model.batch(given.microbatch, device)) / rounds
        value.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0 and step in (1, given.steps):
        print(f"step {step}: loss {value.item() * rounds:.2f}", flush=True)

if rank == 0:
    speed = given.steps * rounds * world * given.microbatch / (time.perf_counter() - started)
    print(f"{speed:,.0f} samples/s on {world} worker{'s' if world > 1 else ''}")
    if "PLACER_MIN_SAMPLES_PER_SECOND" in os.environ:
        least = float(os.environ["PLACER_MIN_SAMPLES_PER_SECOND"])
        print(
            f"the plan of {os.environ['PLACER_MODEL']} should raise an alarm below {least:,.0f} "
            f"samples/s"
        )
if together:
    dist.destroy_process_group()
    if not cuda:
        sys.stdout.flush()
        os._exit(0)  # gloo's threads may abort the end of Python (pytorch/pytorch#179291)

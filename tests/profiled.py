"""A small model that tests measure, written as a user would, and its variants that fail."""

SOURCE = """
import os

import torch

torch.set_num_threads(1)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def batch(count, device):
    return torch.randn(count, 32, device=device), torch.randint(10, (count,), device=device)


def loss(module, batch):
    return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])


def good():
    return network(), batch, loss


def bare():
    return torch.nn.Linear(32, 1), lambda count: torch.randn(count, 32)


def limited(most, error):
    def checked(module, batch):
        if len(batch[0]) > most:
            raise error
        return loss(module, batch)

    return network(), batch, checked


def small():
    words = "DefaultCPUAllocator: can't allocate memory: you tried"
    return limited(5, RuntimeError(f"[enforce fail at alloc_cpu.cpp:121] {words}"))


def none_fits():
    return limited(0, MemoryError())


def crashes():
    return limited(2, ValueError("shapes do not agree\\nsecond line"))


def vector():
    return network(), batch, lambda module, batch: module(batch[0])


def interrupts():
    import signal

    calls = []

    def checked(module, batch):
        calls.append(len(batch[0]))
        if len(batch[0]) == 4 and calls.count(4) > 2:
            os.kill(os.getpid(), signal.SIGINT)
        return loss(module, batch)

    return network(), batch, checked


def step_function():
    module = network()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)

    def step(batch_size):
        optimizer.zero_grad()
        loss(module, batch(batch_size, "cpu")).backward()
        optimizer.step()

    step.module = module
    return step


def hidden_step():
    return lambda batch_size: None


def wider():
    return torch.nn.Linear(32, 11), lambda count: torch.randn(count, 32)


def nothing():
    return 42


def leaves():
    raise SystemExit("I leave")


def talks():
    print("hello from the target")
    return good()


def broken():
    return 1 / 0


def needs(something):
    return something


class Own(BaseException):
    pass


def gives_up():
    return limited(2, SystemExit(0))


def own_exception():
    return limited(2, Own("mine"))


def chats():
    def talking(module, batch):
        print("a word from the loss")
        return loss(module, batch)

    return network(), batch, talking


def moves():
    os.chdir("/")
    return good()


def no_number():
    return network(), batch, lambda module, samples: loss(module, samples) * float("nan")


def no_loss():
    return network(), batch, lambda module, samples: None


def detached():
    return network(), batch, lambda module, samples: loss(module, samples).detach()


def on_meta():
    with torch.device("meta"):
        return network(), batch, loss


def workload(**parts):
    from placer.profiler.workload import Workload

    usual = {"name": "mine", "title": "mine", "family": "other"}
    usual |= {"module": network(), "batch": batch, "loss": loss}
    return Workload(**{"optimizer": torch.optim.SGD, **usual, **parts})


def bad_name():
    return workload(name="a\\nb")


def bad_target():
    return workload(target_batch_size=-4)


def bad_microbatch():
    return workload(microbatch="x")


def bad_samples():
    return workload(samples=7)


def frozen_step():
    step = step_function()
    step.module.requires_grad_(False)
    return step


number = 7
"""
"""Text of a module ``mymodel``: 32 x 64 + 64 + 64 x 10 + 10 = 2,762 parameters in 4 tensors."""
PARAMETERS = 2_762

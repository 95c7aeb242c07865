"""Train a tiny RoBERTa with real hivemind from an exported plan, and compare it with the plan.

    # plan, export, two peers as processes, table; 4 minutes
    python examples/hivemind_roberta_tiny.py
    # links with the plan's bandwidth and delay; needs root
    python examples/hivemind_roberta_tiny.py --peers 3 --shaped

The scripts that ``placer export --to hivemind`` writes start this same file once per machine, with
the options of `peer_options`. The model is a masked language model of 2 million parameters, the
text a Markov chain made in memory: nothing is downloaded.

Needs ``pip install hivemind==1.1.12`` beside PyTorch, and pyroute2 for shaped links.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

WORDS, LENGTH, WIDTH, LAYERS, MASK = 1024, 64, 192, 4, 0
NAMED_OUTCOMES = {
    "Averaged gradients with": "averaged",
    "Averaged parameters with": "averaged",
    "Averaging gradients failed": "failed",
    "out of sync": "out_of_sync",
    "retry": "retried",
}
"""What hivemind's log says of a round, and how it is counted here."""


def build_model() -> Any:
    """A RoBERTa-like encoder with tied embeddings; the same weights in every process."""
    import torch
    from torch import nn

    class TinyRoberta(nn.Module):  # type: ignore[misc]
        """Predicts masked words; the loss is the mean over them, in nats."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
            layer = nn.TransformerEncoderLayer(
                WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH))
            nn.init.normal_(self.words.weight, std=0.02)

        def forward(self, text: Any) -> Any:
            chosen = torch.rand(text.shape) < 0.15
            hidden = self.encoder(self.words(torch.where(chosen, MASK, text)) + self.places.weight)
            return nn.functional.cross_entropy(
                self.head(hidden[chosen]) @ self.words.weight.T, text[chosen]
            )

    torch.manual_seed(0)
    return TinyRoberta()


class Text:
    """Endless text: each word has four successors, common words come often. ``seed`` chooses the
    part that a peer reads.
    """

    def __init__(self, seed: int) -> None:
        import torch

        language = torch.Generator().manual_seed(1)
        common = 1 / torch.arange(1.0, WORDS)
        self.next = 1 + torch.multinomial(common.repeat(WORDS, 1), 4, generator=language)
        self.chance = torch.tensor([0.6, 0.2, 0.15, 0.05])
        self.generator = torch.Generator().manual_seed(seed)

    def batch(self, count: int) -> Any:
        """Sequences of shape (count, LENGTH)."""
        import torch

        choices = torch.multinomial(
            self.chance, count * LENGTH, replacement=True, generator=self.generator
        ).view(LENGTH, count)
        words = [torch.randint(1, WORDS, (count,), generator=self.generator)]
        for choice in choices[1:]:
            words.append(self.next[words[-1], choice])
        return torch.stack(words, 1)


class Outcomes(logging.Handler):
    """Counts what hivemind logs about its rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = dict.fromkeys(NAMED_OUTCOMES.values(), 0)

    def emit(self, record: logging.LogRecord) -> None:
        """Count one line."""
        message = record.getMessage()
        for words, name in NAMED_OUTCOMES.items():
            self.counts[name] += words in message


def peer_options() -> argparse.ArgumentParser:
    """Options that the exported scripts give, and after them those of this example."""
    parser = argparse.ArgumentParser(
        description="one peer; started by the scripts of placer export --to hivemind"
    )
    parser.add_argument("--run_id", required=True)
    for name in ("initial_peers", "host_maddrs", "announce_maddrs"):
        parser.add_argument(f"--{name}", nargs="+")
    parser.add_argument("--identity_path", required=True)
    for name in ("target_batch_size", "batch_size_per_step"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("matchmaking_time", "averaging_timeout"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--steps", type=int, default=8, help="optimizer steps (epochs of hivemind)")
    parser.add_argument(
        "--samples_per_second",
        type=float,
        help="speed of the plan's machine; slower than this one: the peer waits",
    )
    parser.add_argument("--weights", type=Path, help="file for the weights at the end")
    return parser


def optimizer_of(model: Any, dht: Any, options: argparse.Namespace) -> Any:
    """hivemind.Optimizer with the arguments of the plan: all of them are in optimizer.json beside
    the script.
    """
    import hivemind
    import torch

    plan = json.loads(Path(os.environ["PLACER_OPTIMIZER"]).read_text())
    compressions = {
        key: getattr(hivemind.compression, plan[key])()
        for key in ("grad_compression", "state_averaging_compression")
    }
    return hivemind.Optimizer(
        dht=dht,
        params=list(model.parameters()),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=2e-3),
        batch_size_per_step=options.batch_size_per_step,
        verbose=True,
        **plan["optimizer"],
        **compressions,
    )


def wait_for_all(dht: Any, run: str, rank: int, world: int, limit_s: float) -> None:
    """Return when all machines of the plan are there, so that the first step is not one peer's
    alone.
    """
    import hivemind

    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        dht.store(
            f"{run}_ready",
            subkey=rank,
            value=True,
            expiration_time=hivemind.utils.get_dht_time() + 600,
        )
        found = dht.get(f"{run}_ready", latest=True)
        if found is not None and len(found.value) >= world:
            return
        time.sleep(0.5)
    sys.exit(f"error: of {world} peers not all were there after {limit_s:g} s")


def train(options: argparse.Namespace, rank: int, world: int) -> None:
    """Be one peer: train, and print one line of JSON a step."""
    import hivemind
    import torch

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    torch.set_num_threads(1)
    outcomes = Outcomes()
    logging.getLogger("hivemind").addHandler(outcomes)
    where = {
        "host_maddrs": options.host_maddrs,
        "announce_maddrs": options.announce_maddrs,
        "identity_path": options.identity_path,
    }
    dht = hivemind.DHT(
        initial_peers=options.initial_peers,
        start=True,
        use_relay=False,
        use_auto_relay=False,
        **where,
    )
    model, text = build_model(), Text(100 + rank)
    torch.manual_seed(100 + rank)
    optimizer = optimizer_of(model, dht, options)
    try:
        wait_for_all(dht, options.run_id, rank, world, float(os.environ["PLACER_JOIN_TIMEOUT_S"]))
        learn(model, text, optimizer, options, rank, outcomes)
        if options.weights:
            torch.save(model.state_dict(), options.weights)
    finally:
        optimizer.shutdown()
        dht.shutdown()


def learn(
    model: Any,
    text: Text,
    optimizer: Any,
    options: argparse.Namespace,
    rank: int,
    outcomes: Outcomes,
) -> None:
    """Hand over micro-batches at the plan's speed until all steps are done."""
    size = options.batch_size_per_step
    pace_s = size / options.samples_per_second if options.samples_per_second else 0.0
    began = due = time.monotonic()
    losses: list[float] = []
    while optimizer.local_epoch < options.steps:
        loss = model(text.batch(size))
        loss.backward()
        losses.append(loss.item())
        due += pace_s
        time.sleep(max(0.0, due - time.monotonic()))
        epoch, handed = optimizer.local_epoch, time.monotonic()
        optimizer.step()
        optimizer.zero_grad()
        if optimizer.local_epoch != epoch:
            ended = time.monotonic()
            row = {
                "rank": rank,
                "step": optimizer.local_epoch,
                "seconds": ended - began,
                "communication_s": ended - handed,
            }
            row |= {
                "loss": sum(losses) / len(losses),
                "samples": size * len(losses),
                "ended": time.time(),
                **outcomes.counts,
            }
            print(json.dumps(row), flush=True)
            began, due, losses = ended, ended, []


def main() -> int:
    """Be a peer where a script of the export says so, else run the whole example."""
    if importlib.util.find_spec("hivemind") is None or importlib.util.find_spec("torch") is None:
        print(
            "error: hivemind is not installed: pip install torch hivemind==1.1.12", file=sys.stderr
        )
        return 2
    if "--run_id" in sys.argv:
        train(
            peer_options().parse_args(),
            int(os.environ["PLACER_RANK"]),
            int(os.environ["PLACER_WORKERS"]),
        )
        return 0
    from hivemind_parts.trial import main as whole_example

    try:
        return whole_example()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())

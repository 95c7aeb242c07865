"""An island whose first process speaks for it: the strategy runs there alone, with the whole model,
and tells the others what to calculate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placer.launch.runtime.island.island_trainer import IslandTrainer
from placer.launch.runtime.training.trainer import Trainer


class LeaderTrainer(Trainer):
    """The trainer of a strategy that exchanges whole models: each call is one of all processes.

    Notes
    -----
    The other processes are in `follow`. Serverless exchanges, parameter servers and gossip run so:
    they drop a worker as a whole, or send to somebody who holds the whole.
    """

    def __init__(self, trainer: IslandTrainer) -> None:
        self.trainer, self.group = trainer, trainer.group
        self.workload, self.device = trainer.workload, trainer.device
        self.elements = self.total_elements = trainer.total_elements

    def gradient(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> tuple[Any, float]:
        """Calculate gradient and loss of the island's samples; see `Trainer.gradient`."""
        self.group.from_leader(("gradient", step, samples, of))
        piece, loss = self.trainer.gradient(step, samples, of)
        return self.trainer.whole_of(piece), loss

    def local_step(
        self, step: int, samples: int, of: int, between: Callable[[], None] = lambda: None
    ) -> float:
        """Take a step of the island's own optimizer; see `Trainer.local_step`."""
        self.group.from_leader(("local_step", step, samples, of))
        return self.trainer.local_step(step, samples, of)

    def first_digest(self) -> str:
        """Return the digest of the whole model before it was cut."""
        return self.trainer.first_digest()

    def apply(self, gradient: Any) -> None:
        """Take one optimizer step of the island."""
        self.group.from_leader(("apply",))
        self.trainer.apply(_received(self.trainer, gradient))

    def vector(self) -> Any:
        """Copy of the island's parameters."""
        self.group.from_leader(("whole",))
        return self.trainer.whole()

    def load_vector(self, vector: Any) -> None:
        """Set the island's parameters."""
        self.group.from_leader(("load",))
        self.trainer.load_vector(_received(self.trainer, vector))

    def part(self, part: slice) -> Any:
        """Copy of a part of the island's parameters."""
        return self.vector()[part]

    def move_part(self, part: slice, towards: Any, share: float) -> None:
        """Move a part of the island's parameters; see `Trainer.move_part`."""
        vector = self.vector()
        vector[part].lerp_(towards, share)
        self.load_vector(vector)

    def whole(self) -> Any:
        """Copy of the island's parameters."""
        return self.vector()

    def state(self) -> dict[str, Any]:
        """Return the state of the island."""
        self.group.from_leader(("state",))
        return self.trainer.state()

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self.group.from_leader(("load_state",))
        self.trainer.load_state(state)

    def end(self) -> None:
        """Let the other processes go."""
        self.group.from_leader(("end",))


def follow(trainer: IslandTrainer) -> None:
    """Do what the first process of the island does, until it ends the run."""
    while True:
        call, *words = trainer.group.from_leader(None)
        if call == "end":
            return
        _do(trainer, call, words)


def _do(trainer: IslandTrainer, call: str, words: list[Any]) -> None:
    if call == "gradient":
        piece, _ = trainer.gradient(*words)
        trainer.whole_of(piece)
    elif call == "local_step":
        trainer.local_step(*words)
    elif call == "apply":
        trainer.apply(_received(trainer, None))
    elif call == "whole":
        trainer.whole()
    elif call == "load":
        trainer.load_vector(_received(trainer, None))
    elif call == "state":
        trainer.state()
    elif call == "load_state":
        trainer.load_state({})


def _received(trainer: IslandTrainer, vector: Any) -> Any:
    """Hand a whole vector to all processes; each cuts out its piece."""
    return trainer.piece_of(trainer.group.vector_from_leader(vector, trainer.total_elements))

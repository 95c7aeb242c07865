"""The context of a strategy in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from placer.cost_model.timing.store import POLL_SECONDS
from placer.launch.runtime.processes.peer_loss import PeerLostError
from placer.launch.runtime.run_plan import RunPlan
from placer.launch.runtime.training.overlapped_exchange import OverlappedExchange
from placer.launch.runtime.training.quorum import Outcome, Quorum
from placer.launch.runtime.training.trainer import Trainer
from placer.launch.runtime.wire.meter import Meter
from placer.launch.runtime.wire.wire import Wire


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a run that the manifest does not hold.

    Parameters
    ----------
    train
        ``module:function`` of the user.
    steps
        Optimizer steps in all.
    seed
        Of the samples.
    target_batch_size, microbatch
        Samples, the manifest's unless the user asked for others.
    elastic
        Go on with the remaining workers where the strategy allows.
    checkpoints
        Folder of the checkpoints; empty: none.
    checkpoint_every
        Optimizer steps between checkpoints.
    resume
        Go on from the newest checkpoint that all ranks have.
    may_begin
        With ``resume``: begin with the first step where no rank has a checkpoint, as the first
        start of a job that is restarted.
    device
        ``cpu``, ``cuda`` or ``cuda:1``; empty: the first GPU, else the CPU.
    threads
        Of PyTorch in each process; 0: its own choice.
    timeout_s
        A peer that does not answer for so long is lost.
    join_s
        All processes of a run come within so many seconds.
    endpoint_url
        Of the object stores that ``endpoints`` does not name; empty: the provider's own.
    endpoints
        Address of an object store by bucket.
    poll_s
        Seconds between two looks for the mean in the object store.
    attempt
        Name of this attempt in the object store, so that what another left is not taken for its
        own.
    deployed
        Use the functions in the cloud: see `RunPlan.deployed`.
    paced
        Samples/s of each worker: a calculation that is through sooner waits, as in a rehearsal of
        faster or slower machines; empty: not.
    processes
        Of each machine of an island; 0: one for each of its GPUs.
    inner_microbatch
        Samples that a process of an island takes at once; 0: as its inner plan says.
    """

    train: str
    steps: int
    seed: int = 0
    target_batch_size: int
    microbatch: int
    elastic: bool = False
    checkpoints: str = ""
    checkpoint_every: int = 100
    resume: bool = False
    may_begin: bool = False
    device: str = "cpu"
    threads: int = 1
    timeout_s: float = 60.0
    join_s: float = 120.0
    endpoint_url: str = ""
    endpoints: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = POLL_SECONDS
    attempt: str = "run"
    deployed: bool = False
    paced: Sequence[float] = ()
    processes: int = 1
    inner_microbatch: int = 0


@dataclass(kw_only=True)
class Context:
    """The state of one rank that its strategy works with.

    Notes
    -----
    ``members`` are the workers that are still there, ``store`` the ``torch.distributed`` store
    where all meet, ``notice`` tells the user that a rank is given up. A server or function has a
    trainer too: it knows how many elements travel. ``overlapped`` holds the exchange under way,
    where the plan overlaps; ``resume_parameters`` are those with which the first step is
    calculated, where a resumed run was ended by an exchange that failed under way; ``kept`` is what
    the strategy kept in the checkpoint with which a run begins. ``quorum``: exchanges go on with
    some of the workers; ``exchanges`` are then the steps of all. Steps before ``next_step`` are
    left out: the others did them while this worker was away.
    """

    plan: RunPlan
    settings: Settings
    rank: int
    trainer: Trainer
    meter: Meter
    store: Any
    notice: Callable[[int, str], None]
    start: int = 0
    wire: Wire | None = None
    overlapped: OverlappedExchange | None = None
    resume_parameters: Any = None
    kept: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[int, ...] = field(default=())
    quorum: Quorum | None = None
    exchanges: tuple[int, ...] = ()
    next_step: int = 0

    @property
    def connected(self) -> Wire:
        """Return the wire of a strategy that has one."""
        assert self.wire is not None
        return self.wire

    def shares(self) -> dict[int, int]:
        """Return the samples of each member."""
        return self.plan.shares(self.settings.target_batch_size, self.members)

    @property
    def leaders(self) -> tuple[int, ...]:
        """Return the first rank of each region."""
        return tuple(ranks[0] for _, ranks in self.plan.regions)

    def region(self) -> tuple[int, ...]:
        """List the ranks of this rank's region, its leader first."""
        return dict(self.plan.regions)[self.plan.place_of(self.rank)]

    def gradient(self, step: int, of: int) -> tuple[Any, float]:
        """Calculate gradient and loss of this rank's share, no sooner than its pace allows; see
        `Trainer.gradient`.
        """
        with self._paced() as between:
            return self.trainer.gradient(step, self.shares()[self.rank], of, between)

    def local_step(self, step: int) -> float:
        """Take a step of the worker's own optimizer on its own samples, no sooner than its pace
        allows; return its part of the loss.

        Notes
        -----
        The update counts as calculation, as in a machine's samples/s; nothing is exchanged between
        gradient and update.
        """
        mine, batch = self.shares()[self.rank], self.settings.target_batch_size
        with self._paced() as between:
            return self.trainer.local_step(step, mine, max(1, mine), between) * mine / batch

    @contextmanager
    def _paced(self) -> Iterator[Callable[[], None]]:
        """Count a block as calculation, and wait at its end if it was faster than the pace; the
        block calls what it gets between two microbatches.
        """
        check, pause = (
            (self.overlapped.check, self.overlapped.pause)
            if self.overlapped is not None
            else (lambda: None, time.sleep)
        )
        with self.meter.phase("calculation"):
            began, samples = time.perf_counter(), self.shares()[self.rank]
            yield check
            if self.settings.paced:
                seconds = samples / self.settings.paced[self.rank]
                pause(max(0.0, began + seconds - time.perf_counter()))

    def together(self, exchange: Callable[[], Any]) -> Any:
        """Take part in an exchange that holds for all processes of this worker, or for none.

        Raises
        ------
        PeerLostError
            In all of them, if one has lost another worker: no process takes a step that its island
            cannot take.
        """
        result, lost = None, None
        try:
            result = exchange()
        except PeerLostError as error:
            lost = error
        gone = self.trainer.agree(-1 if lost is None else lost.rank)
        if gone >= 0:
            raise lost or PeerLostError(gone, "another process of this island has lost it")
        return result

    def update(self, gradient: Any) -> None:
        """Take an optimizer step."""
        with self.meter.phase("update"):
            self.trainer.apply(gradient)

    def ends_round(self, step: int) -> bool:
        """Return whether the exchange comes after this step; the last step always ends a round."""
        return (step + 1) % self.plan.steps_per_round == 0 or step + 1 == self.settings.steps

    def follow(self, outcome: Outcome) -> None:
        """Go on after the exchange in which this worker took part; after the last step, if there is
        none left.
        """
        late = outcome.total is None
        self.next_step = self.settings.steps if late else self.exchanges[outcome.number] + 1
        if self.quorum is not None:
            self.quorum.away = False

    def saves_checkpoint(self, step: int) -> bool:
        """Return whether a checkpoint comes after this step: at the end of a round."""
        settings, done, h = self.settings, step + 1, self.plan.steps_per_round
        rounds = -(-settings.checkpoint_every // h) * h
        return bool(
            settings.checkpoints
            and settings.checkpoint_every
            and (done % rounds == 0 or done == settings.steps)
        )

    def drop_worker(self, rank: int, step: int) -> None:
        """Go on without a worker."""
        self.members = tuple(r for r in self.members if r != rank)
        self.notice(
            rank,
            f"{self.plan.rank_name(rank)} is gone in step {step}: "
            f"{len(self.members)} workers go on",
        )

"""All of `placer profile` but words and tables: measure a target, and write what is known so far into its profile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from placer.catalog import Catalog
from placer.errors import PlacerError
from placer.measurement import Measurement
from placer.profile import Efficiency, ModelProfile, Rate
from placer.profiler.device_facts import facts
from placer.profiler.document import Sizes, check_same_model, measurement_of, profile_of
from placer.profiler.failures import is_out_of_memory
from placer.profiler.flops import flops_per_sample
from placer.profiler.session import Plan, Session, Told
from placer.profiler.torch_import import load_torch
from placer.profiler.training import StepFunction
from placer.profiler.worked_out import peak_flops, worked_out
from placer.profiler.workload import Workload

STATE_BYTES_PER_PARAMETER = 16
"""FP32 weights, gradients and two Adam moments."""
HOST_BYTES = 2 * 2**30
"""Of a process with PyTorch, besides the model. Assumed."""


@dataclass(kw_only=True)
class Profiling:
    """One target on one device: `run` measures, `profile` is what is known so far, whether it ended or not.

    Parameters
    ----------
    subject, plan
        What to measure, and how.
    catalog
        Names the GPUs for which rates are worked out until one of them is measured.
    command
        What the user typed, for the profile.
    old
        Profile that is added to.
    path
        Its file, for errors.
    told
        Called after every block with a line for a progress bar.
    """

    subject: Workload | StepFunction
    plan: Plan
    catalog: Catalog
    command: str
    old: ModelProfile | None = None
    path: str = ""
    told: Told = lambda words: None
    efficiency: list[Efficiency] = field(default_factory=list)
    sizes: Sizes | None = None
    estimated: Sequence[Rate] = ()
    flops_per_sample: float | None = None
    _session: Session | None = None
    _ended: bool = False

    def run(self) -> None:
        """Count, then measure.

        Raises
        ------
        PlacerError
            If the target cannot be measured; what was measured before stays.
        """
        self._session = Session(subject=self.subject, plan=self.plan, told=self.told)
        self._session.check()
        self.told("counting parameters, gradients and operations")
        self._count()
        self._session.run()
        self._ended = True

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured so far; the precision at work is partial."""
        session = self._session
        if session is None or not session.findings:
            return ()
        known, today = facts(self.plan.device), dt.datetime.now(dt.UTC).date().isoformat()
        made = [
            measurement_of(
                found,
                known,
                flops_per_sample=self.flops_per_sample,
                peak_flops=peak_flops(known.gpu, found.precision),
                loading_seconds_per_sample=session.loading_seconds_per_sample,
                date=today,
                command=self.command,
                partial=not self._ended and found is session.findings[-1],
            )
            for found in session.findings
        ]
        return tuple(row for row in made if row is not None)

    @property
    def notes(self) -> list[str]:
        """What the user should know about the search."""
        return [] if self._session is None else [note for found in self._session.findings for note in found.notes]

    def profile(self) -> ModelProfile | None:
        """The profile with all that was measured so far; None if nothing was."""
        rows = self.measurements
        if self.sizes is None or not rows:
            return None
        return profile_of(
            self.sizes,
            rows,
            estimated=self.estimated,
            catalog=self.catalog,
            efficiency=self.efficiency,
            old=self.old,
            target_batch_size=self.plan.target_batch_size or getattr(self.subject, "target_batch_size", None),
        )

    def _count(self) -> None:
        if isinstance(self.subject, StepFunction) and self.subject.module is None:
            self.sizes = _sizes_of_old(self.subject, self.old)
            return
        workload = self.subject if isinstance(self.subject, Workload) else None
        self.sizes = _counted(self.subject, self.plan.device)
        if self.old is not None:
            check_same_model(self.sizes, self.old, self.path)
        if workload is not None:
            self.flops_per_sample = flops_per_sample(workload)
            found = worked_out(workload, self.catalog, self.plan)
            if found is not None:
                self.estimated = found.rates
                self.sizes = found.with_memory(self.sizes)


def _sizes_of_old(subject: StepFunction, old: ModelProfile | None) -> Sizes:
    """A step function shows no parameters: they are those of the profile that is added to."""
    if old is None:
        raise PlacerError(
            f"{subject.source} returns a step function, which shows no parameters to count",
            "give the function an attribute 'module' with the model, or --out with a profile of it",
        )
    return Sizes(**{name: getattr(old, name) for name in Sizes.__slots__})


def _counted(subject: Workload | StepFunction, device: Any) -> Sizes:
    """Sizes of a model, with memory taken from its parameters."""
    from placer.profiler.gradients import gradient_sizes

    if isinstance(subject, Workload):
        try:
            found = gradient_sizes(subject, device)
        except PlacerError as error:
            if error.__cause__ is None or not is_out_of_memory(error.__cause__):
                raise
            found = gradient_sizes(subject, load_torch().device("meta"))  # the search over batch sizes will say what fits
        parameters, tensors, size = found.parameters, found.tensors, found.bytes_fp32
        source = "; ".join(("counted by hooks in a step: placer profile", *found.notes))
        title, family = subject.title, subject.family
    else:
        assert subject.module is not None
        trained = [p for p in subject.module.parameters() if p.requires_grad]
        parameters, tensors = sum(p.numel() for p in subject.module.parameters()), len(trained)
        size, source = sum(p.numel() for p in trained) * 4, "trainable parameters of the module of a step function x 4"
        title, family = f"step function {subject.source}", "other"
    state = STATE_BYTES_PER_PARAMETER * parameters
    return Sizes(
        name=subject.name,
        title=title,
        family=family,
        parameters=parameters,
        tensors=tensors,
        gradient_bytes_fp32=size,
        gradient_source=source,
        device_memory_bytes=state,
        host_memory_bytes=HOST_BYTES + state,
        memory_source=f"assumed: {STATE_BYTES_PER_PARAMETER} bytes per parameter, without activations",
    )

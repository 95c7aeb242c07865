"""All of `placer profile` but words and tables: measure a target, and write what is known so far
into its profile.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from placer.errors import PlacerError
from placer.market.catalog import Catalog
from placer.profiler.devices import DeviceFacts, busy_words, device, facts, has_nvml, load_nvml
from placer.profiler.estimate.estimate import Estimate, estimate
from placer.profiler.measured_profile import (
    USUAL_PRECISION,
    Sizes,
    check_same_model,
    known_rates,
    main_measurement,
    measured_rates,
    profile_of,
    with_estimates,
)
from placer.profiler.steps.session import Findings, Session
from placer.profiler.workload import (
    SAMPLE_SOURCE,
    StepFunction,
    Workload,
    gradient_sizes,
    sizes_of_module,
)
from placer.records import replace
from placer.workload.measurement import Measurement
from placer.workload.profile import Efficiency, ModelProfile, Rate

STATE_BYTES_PER_PARAMETER = 16
"""FP32 weights, gradients and two Adam moments."""
HOST_BYTES = 2 * 2**30
"""Of a process with PyTorch, besides the model. Assumed."""


@dataclass(kw_only=True)
class Profiling(Session):
    """One target on one device: `run` counts and measures, `profile` is what is known so far,
    whether it ended or not.

    catalog: Names the GPUs for which rates are worked out until one of them is measured.
    """

    catalog: Catalog
    command: str
    old: ModelProfile | None = None
    path: str = ""
    efficiency: list[Efficiency] = field(default_factory=list)
    sizes: Sizes | ModelProfile | None = None
    estimate: Estimate | None = None
    _ended: bool = False
    _facts: DeviceFacts | None = None

    def run(self) -> None:
        """Count, then measure; what was measured before a `PlacerError` stays."""
        if has_nvml(self.plan.device):
            load_nvml()
        self.check()
        busy = busy_words() if self.plan.device.type == "cpu" else None
        self.notes += [busy] if busy else []
        self.progress("counting parameters, gradients and operations")
        self._count()
        if self.estimate is not None:
            self.bytes_per_sample = sum(c.per_sample for c in self.estimate.memory)
        super().run()
        self._ended = True
        self.notes += [note for findings in self.findings for note in findings.notes]
        self.progress("working out rates of other GPUs")
        rows = self._rows()
        self._estimate(main_measurement(rows), known_rates(self.old, measured_rates(rows)))

    def _rows(self) -> tuple[Measurement, ...]:
        """Put new measurements after old ones of other devices and precisions."""
        old, new = self.old.measurements if self.old else (), self.measurements
        again = {(m.gpu, m.device_name, m.precision) for m in new}
        return (*(m for m in old if (m.gpu, m.device_name, m.precision) not in again), *new)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What was measured so far; the precision at work is partial."""
        if not self.findings:
            return ()
        if self._facts is None:
            self._facts = facts(self.plan.device, self.plan.threads)
        timed = [findings for findings in self.findings if findings.rates]
        return tuple(self._measurement(findings, self._facts) for findings in timed)

    def _measurement(self, findings: Findings, known: DeviceFacts) -> Measurement:
        """Turn what was measured in one precision into a row of the profile."""
        flops = None if self.estimate is None else self.estimate.flops_per_sample or None
        sheet, loading_s = device(known.gpu), self.loading_seconds_per_sample
        peak = None if sheet is None else sheet.peak(findings.precision)
        timings = [findings.timings[size] for size in findings.rates]
        if findings.accumulated is not None and findings.accumulated.blocks:
            timings.append(findings.accumulated)
        points = tuple(timing.point(flops, peak) for timing in timings)
        is_at_work = not self._ended and findings is self.findings[-1]
        failed = min(findings.failed, default=None)
        made = Measurement(
            **asdict(known),
            precision=findings.precision,
            date=dt.datetime.now(dt.UTC).date().isoformat(),
            command=self.command,
            points=points,
            knee_batch_size=findings.knee,
            largest_batch_size=max(findings.rates),
            failed_batch_size=failed,
            failure=None if failed is None else findings.failed[failed],
            flops_per_sample=flops,
            loading_seconds_per_sample=loading_s,
            loading_share=None,
            partial=is_at_work or any(point.partial for point in points),
        )
        if loading_s is None:
            return made
        # Share of a step that would wait for its samples, if nothing loads them beside it.
        loading = loading_s * made.best.batch_size * made.best.accumulation
        return replace(made, loading_share=loading / (loading + made.best.step.median))

    def profile(self) -> ModelProfile | None:
        """Build the profile with all that was measured so far; None if nothing was."""
        if self.sizes is None or not self.measurements:
            return None
        rows, sizes = self._rows(), self.sizes
        known, old = known_rates(self.old, measured_rates(rows)), self.old.rates if self.old else ()
        estimated: Sequence[Rate] = [rate for rate in old if rate.basis == "estimated"]
        if (its := self.estimate) is not None:
            estimated, memory = its.rates, its.device_memory_bytes
            how = f"{its.microbatch:,} at once in {its.precision} with {its.optimizer}"
            sizes = replace(sizes, device_memory_bytes=memory, memory_source=f"estimated for {how}")
        own = self.subject.target_batch_size if isinstance(self.subject, Workload) else None
        return profile_of(
            sizes,
            rows,
            with_estimates(known, estimated),
            efficiency=self.efficiency,
            old=self.old,
            target_batch_size=self.plan.target_batch_size or own,
        )

    def _count(self) -> None:
        if isinstance(self.subject, StepFunction) and self.subject.module is None:
            if self.old is None:
                raise PlacerError(
                    f"{self.subject.source} returns a step function, which shows no parameters to "
                    "count",
                    "give the function an attribute 'module' with the model, or --out with a "
                    "profile of it",
                )
            self.sizes = self.old
            return
        self.sizes = _counted(self.subject, self.plan.device)
        if self.old is not None:
            check_same_model(self.sizes, self.old, self.path)
        self._estimate(None, known_rates(self.old, ()))

    def _estimate(self, main: Measurement | None, known: Sequence[Rate]) -> None:
        """Work out what is not measured, from rates that are known; a note says where that is
        impossible: a model that looks at values cannot run on the meta device.

        main: Gives batch size and precision if it is of a GPU of the catalog; None before anything
            was measured.
        """
        if not isinstance(self.subject, Workload):
            return
        precision, microbatch = USUAL_PRECISION, None
        if main and main.gpu in self.catalog.gpus:  # a CPU's batch size would leave a GPU idle
            precision, microbatch = main.precision, main.knee_batch_size
        try:
            self.estimate = estimate(self.subject, self.catalog, microbatch, precision, known=known)
        except PlacerError as error:
            note = f"no rates were worked out for other devices: {error.message}"
            self.notes += [note] if note not in self.notes else []


def _counted(subject: Workload | StepFunction, device: Any) -> Sizes:
    """Count the sizes of a model, with memory from its parameters."""
    if isinstance(subject, Workload):
        gradients = gradient_sizes(subject)
        source = "; ".join(("counted: placer profile", *gradients.notes))
        title, family, sample = subject.title, subject.family, subject.sample(device)
    else:
        gradients = sizes_of_module(subject.module, f"the module of {subject.source}")
        source = "trainable parameters of the module of a step function x 4"
        title, family, sample = f"step function {subject.source}", "other", None
    state = STATE_BYTES_PER_PARAMETER * gradients.parameters
    return Sizes(
        name=subject.name,
        title=title,
        family=family,
        parameters=gradients.parameters,
        tensors=gradients.tensors,
        gradient_bytes_fp32=gradients.bytes_fp32,
        gradient_source=source,
        device_memory_bytes=state,
        host_memory_bytes=HOST_BYTES + state,
        memory_source=f"assumed: {STATE_BYTES_PER_PARAMETER} bytes per parameter, without "
        f"activations",
        sample=sample,
        sample_source=sample and SAMPLE_SOURCE,
    )

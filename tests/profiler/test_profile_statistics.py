"""Medians with intervals, the knee, and the search over batch sizes, without a clock."""

import math
import statistics

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placer.profiler.steps.session import Findings, search
from placer.profiler.steps.timing import (
    Effort,
    Stopwatch,
    Timing,
    is_flat,
    knee,
    measure,
    median_interval,
    ranks,
    warm_up,
)
from placer.profiler.torch_import import OutOfMemory

SECONDS = st.floats(min_value=1e-6, max_value=1e3, allow_nan=False)


@given(st.integers(1, 3000))
@example(1076)  # 0.5**1076 is 0
def test_ranks_are_symmetric_and_as_narrow_as_they_may_be(count: int) -> None:
    """They keep 95 %, and one rank further in would not; the exact binomial sums say so."""
    low, high, sure = ranks(count)
    assert low + high == count + 1
    exact = 1 - 2 * (sum(math.comb(count, k) for k in range(low)) / 2**count)
    assert sure == pytest.approx(max(0.0, exact), abs=1e-9)
    if count >= 6:
        assert sure >= 0.95
        further = 1 - 2 * (sum(math.comb(count, k) for k in range(low + 1)) / 2**count)
        assert further < 0.95


@given(st.lists(SECONDS, min_size=6, max_size=60))
def test_a_slow_step_moves_neither_median_nor_interval_far(values: list[float]) -> None:
    """The median and its interval are values between the smallest and the largest; one value made
    endless keeps the median finite.
    """
    found = median_interval(values)
    assert min(values) <= found.low <= found.value <= found.high <= max(values)
    assert found.value == statistics.median(values)
    hung = median_interval([*sorted(values)[:-1], 1e9])
    assert hung.value <= sorted(values)[len(values) // 2]


def test_few_values_are_widened_and_say_how_sure_they_are() -> None:
    """Three steps: their range and 10 % on each side; all three on one side of the median has 2 /
    8, so 75 %.
    """
    found = median_interval([1.0, 2.0, 1.5])
    assert (found.value, found.low, found.confidence) == (1.5, 0.9, 0.75)
    assert found.high == pytest.approx(2.2)
    assert median_interval([1.0]).confidence == 0.0


@given(st.dictionaries(st.integers(1, 4096), st.floats(1e-3, 1e6), min_size=1))
def test_the_knee_is_fast_and_nothing_smaller_is(rates: dict[int, float]) -> None:
    """By its definition; and it does not depend on units."""
    found, most = knee(rates), max(rates.values())
    assert rates[found] >= 0.95 * most
    assert all(rate < 0.95 * most for size, rate in rates.items() if size < found)
    assert knee({size: 8 * rate for size, rate in rates.items()}) == found


def timing(size: int, seconds: float) -> Timing:
    """Seven equal steps of one batch size."""
    made = Timing(batch_size=size)
    for _ in range(7):
        made.add([{"step": seconds}])
    return made


class Device:
    """A device of 100 samples/s at most, a fixed cost of ten samples a step, and room for so many
    samples.
    """

    def __init__(self, room: int) -> None:
        self.room, self.findings, self.tried = room, Findings(precision="fp32"), list[int]()
        self.parts: list[int] = []

    def probe(self, size: int, share: float) -> None:
        """Take (10 + size) / 100 seconds for a step; note which part of 1e9 s it may take."""
        self.tried.append(size)
        self.parts.append(round(1e9 / share) if share else 0)
        if size > self.room:
            raise OutOfMemory("no room")
        self.findings.timings[size] = timing(size, (10 + size) / 100)


def test_batch_sizes_are_doubled_until_more_brings_nothing() -> None:
    """Samples/s are 100 b / (10 + b): 128 has 92.8, 256 has 96.2 (+3.7 %), 512 has 98.1 (+5.7 %
    over 128), 1024 +2.9 % over 256. So the two largest bring less than 5 % first at 512 and 1,024
    over 256. The knee has 95 % of 99.0 = 94.1: 256.
    """
    device = Device(room=10**6)
    search(device.probe, device.findings, 1e9, clock=lambda: 0.0)
    assert device.tried == [2**k for k in range(11)]
    assert device.parts == [*range(13, 5, -1), 5, 5, 5]
    assert device.findings.knee == 256
    assert is_flat(device.findings.rates)


def test_memory_that_runs_out_is_halved_into() -> None:
    """Room for 43: 64 fails, then 48 fails, 40 fits, 44 fails: three halvings leave a gap of 4. The
    time is shared among twelve sizes and what comes later, then among the halvings.
    """
    device = Device(room=43)
    search(device.probe, device.findings, 1e9, clock=lambda: 0.0)
    assert device.tried == [1, 2, 4, 8, 16, 32, 64, 48, 40, 44]
    assert (max(device.findings.rates), min(device.findings.failed)) == (40, 44)
    assert device.parts == [*range(13, 6, -1), 4, 3, 2]


def test_given_batch_sizes_that_do_not_fit_are_halved() -> None:
    """Asked for 64 and 128 on a device with room for 20: 64 and 32 fail, 16 fits, then 24, 20 and
    22 are tried; 128 never is.
    """
    device = Device(room=20)
    search(device.probe, device.findings, 1e9, sizes=(128, 64), clock=lambda: 0.0)
    assert device.tried == [64, 32, 16, 24, 20, 22]
    assert sorted(device.findings.rates) == [16, 20]
    assert device.parts == [3, 4, 4, 4, 3, 2]


@given(st.integers(1, 5_000))
def test_the_largest_batch_is_known_to_an_eighth(room: int) -> None:
    """Between the largest that fits and the smallest that does not lies an eighth of the first gap
    at most, or the search never failed.
    """
    device = Device(room=room)
    search(device.probe, device.findings, 1e9, clock=lambda: 0.0)
    failed = min(device.findings.failed, default=None)
    if failed is not None:
        fit = max(device.findings.rates)
        assert fit <= room < failed
        assert failed - fit <= max(1, math.ceil(2 ** math.floor(math.log2(fit)) / 8))


def test_larger_batches_need_time() -> None:
    """A step of b samples takes (10 + b) / 100 s. After 1 (0.11 s), five steps of 2 may take 2 x
    0.11 x 5 = 1.1 s: not in 1 s. No larger batch than the target of 3 was wanted anyway.
    """
    device = Device(room=10**6)
    search(device.probe, device.findings, 1.0, clock=lambda: 0.0)
    assert device.tried == [1]
    assert "above 1" in device.findings.notes[0]
    device = Device(room=10**6)
    search(device.probe, device.findings, 1.1, most=3, clock=lambda: 0.0)
    assert (device.tried, device.findings.notes) == ([1, 2], [])


class Script:
    """A step whose seconds are given, on a clock that only it moves."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.now, self.count = list(seconds), 0.0, 0

    def __call__(self, watch: object) -> list[tuple[str, float]]:
        """Move the clock by the next time; the last one is used again and again."""
        start = self.now
        self.now += self.seconds[min(self.count, len(self.seconds) - 1)]
        self.count += 1
        return [("start", start), ("whole", self.now)]


def test_warm_up_ends_when_two_steps_take_the_same_time() -> None:
    """5, 2, 1.2 and 1.15 s: the fourth is within 10 % of the third."""
    step = Script(5.0, 2.0, 1.2, 1.15)
    assert warm_up(step, Stopwatch(), 1e9, clock=lambda: step.now) == pytest.approx(1.15)
    assert step.count == 4


def test_equal_steps_need_six_blocks() -> None:
    """Steps of 1 s are blocks of their own; 2 warm-up steps, then six blocks, whose interval has no
    width.
    """
    step, found = Script(1.0), Timing(batch_size=4)
    measure(step, Stopwatch(), found, Effort(half_width=0.01, seconds=1e9), clock=lambda: step.now)
    assert (step.count, len(found.blocks), found.done) == (8, 6, True)
    assert found.samples_per_second == pytest.approx(4.0)


def test_time_ends_a_measurement() -> None:
    """Steps of 1 and 2 s in turn never agree to 1 %. The warm-up of 6 s and eight steps take 18 s;
    with a ninth as long as those, 18 x 9 / 8, it would be more than 20 s.
    """
    step, found = Script(*([1.0, 2.0] * 50)), Timing(batch_size=1)
    measure(step, Stopwatch(), found, Effort(half_width=0.01, seconds=20.0), clock=lambda: step.now)
    assert (step.now, len(found.blocks)) == (18.0, 8)


@pytest.mark.parametrize(
    ("seconds", "steps", "blocks", "each"),
    [(60.0, 10, 1, 10), (60.0, None, 6, 50), (0.4, None, 6, 20)],
)
def test_short_steps_make_blocks(seconds: float, steps: int | None, blocks: int, each: int) -> None:
    """Of 1 ms: as many as were asked for; else of 0.1 s, or a twentieth of the time, and of no more
    than fifty.
    """
    step, found = Script(0.001), Timing(batch_size=1)
    effort = Effort(half_width=0.01, seconds=seconds, steps=steps)
    measure(step, Stopwatch(), found, effort, clock=lambda: step.now)
    assert (len(found.blocks), len(found.steps["step"])) == (blocks, blocks * each)


def test_a_point_has_medians_quartiles_and_rates() -> None:
    """Seven steps of 0.1 to 0.7 s and two batches of four: 8 / 0.4 samples/s; all seven on one side
    of the median has 2 / 128. At 1 GFLOP a sample they reach 20 of 100 GFLOP/s.
    """
    found = Timing(batch_size=4, accumulation=2, device_memory_bytes=5, host_memory_bytes=7)
    for tenths in range(1, 8):
        found.add([{"forward": tenths / 20, "step": tenths / 10}])
    point = found.point(1e9, 1e11)
    assert (point.samples_per_second, point.low, point.high) == pytest.approx((20, 8 / 0.7, 80))
    assert (point.confidence, point.steps, point.partial) == (126 / 128, 7, True)
    step = point.step
    assert (step.low, step.median, step.high) == pytest.approx((0.25, 0.4, 0.55))
    assert point.forward is not None
    assert point.forward.median == pytest.approx(0.2)
    assert point.backward is None
    assert (point.device_memory_bytes, point.host_memory_bytes) == (5, 7)
    assert point.fraction_of_peak == pytest.approx(0.2)
    for flops, peak in ((None, 1e11), (1e9, None)):
        assert found.point(flops, peak).fraction_of_peak is None

"""What the service counts, as Prometheus reads it; and traces of requests and questions, which
OpenTelemetry sends where its own variables say.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from functools import cache, partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from placer.errors import PlacerError
from placer.service.working.messages import Book, Reply
from placer.version import __version__, install_line

CONTENT_TYPE = "text/plain; version=0.0.4"
SECONDS = (0.005, 0.02, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600)
GAPS = (0.0001, 0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class Metrics:
    """Counters of one service."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        counter, gauge = partial(Counter, registry=own), partial(Gauge, registry=own)
        histogram = partial(Histogram, labelnames=["question"], registry=own)
        said = "Seconds that workers spent on a question."
        self._solve = histogram("placer_solve_seconds", said, buckets=SECONDS)
        said = "Relative gap that a search proved."
        self._gap = histogram("placer_gap", said, buckets=GAPS)
        said = "Questions by how they ended."
        self._answers = counter("placer_answers", said, ["question", "outcome"])
        said = "Requests by method and status."
        self._requests = counter("placer_requests", said, ["method", "status"])
        self._waiting = gauge("placer_waiting", "Questions that wait for a worker.", ["queue"])
        self._lost = counter("placer_lost_workers", "Workers that ended by themselves.")
        self._ready = gauge("placer_ready_workers", "Workers that have read their books.")
        self._age = gauge("placer_book_age_seconds", "Age of the newest price of a book.", ["book"])
        self._books: Callable[[], Iterable[Book]] = tuple
        self.waiting(0, 0)

    def answered(self, question: str, reply: Reply) -> None:
        """Count an answer."""
        self._answers.labels(question, str(reply.outcome)).inc()
        self._solve.labels(question).observe(reply.seconds)
        if reply.gap is not None:
            self._gap.labels(question).observe(reply.gap)

    def requested(self, method: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(method, str(status)).inc()

    def waiting(self, questions: int, jobs: int) -> None:
        """Note how long the queues are."""
        self._waiting.labels("questions").set(questions)
        self._waiting.labels("jobs").set(jobs)

    def lost(self) -> None:
        """Count a worker that ended by itself."""
        self._lost.inc()

    def watch(self, workers: Callable[[], int], books: Callable[[], Iterable[Book]]) -> None:
        """Say at each reading how many workers are ready, and how old their books are."""
        self._ready.set_function(workers)
        self._books = books

    def text(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        self._age.clear()
        for book in self._books():
            seconds = age_s(book.as_of)
            if seconds is not None:
                self._age.labels(book.name).set(seconds)
        return generate_latest(self.registry)


def age_s(as_of: str, now: datetime | None = None) -> float | None:
    """Return the seconds since a day, from its midnight in UTC; None if it is no date.

    >>> age_s("2026-11-22", datetime(2026, 11, 23, tzinfo=UTC))
    86400.0
    """
    try:
        day = date.fromisoformat(as_of)
    except ValueError:
        return None
    midnight = datetime.combine(day, time(), tzinfo=UTC)
    return max(0.0, ((now or datetime.now(UTC)) - midnight).total_seconds())


ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Without one of these nothing is traced."""


@cache
def tracer() -> Any:
    """Return what makes spans; None where nobody asks for them.

    Raise `PlacerError` if packages for it are missing.
    """
    if not any(map(os.environ.get, ENDPOINTS)):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        asked = next(filter(os.environ.get, ENDPOINTS))
        hint = f"install it: {install_line('otel')}, or unset the variable"
        raise PlacerError(f"{asked} is set, and OpenTelemetry is missing", hint) from None
    os.environ.setdefault("OTEL_SERVICE_NAME", "placer")
    provider = TracerProvider()  # sends what is left when the process ends
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer("placer", __version__)


@contextmanager
def span(name: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Time something as a part of what is timed around it; yields what takes its attributes."""
    if tracer() is None:
        yield lambda attributes: None
        return
    with tracer().start_as_current_span(name) as own:
        yield own.set_attributes

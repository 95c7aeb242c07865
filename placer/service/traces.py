"""Traces of requests and questions, which OpenTelemetry sends where its own variables say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from placer.errors import PlacerError
from placer.version import __version__, install_line

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

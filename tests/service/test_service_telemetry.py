"""Traces that a collector hears, and a board of metrics that the service has."""

import re
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from served import QUESTION, serving

from conftest import ROOT
from placer.errors import PlacerError
from placer.service import telemetry
from placer.service.telemetry import Metrics
from placer.service.working.messages import Outcome, Reply


def test_requests_and_solves_are_traced(tmp_path: Path) -> None:
    """A collector on loopback hears the request with its status, and in it the question with its
    outcome and gap; what is left is sent when the service ends.
    """
    proto = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as collector:
        Thread(target=collector.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{collector.server_port}"
        with serving(tmp_path, "--workers", "1", OTEL_EXPORTER_OTLP_ENDPOINT=address) as served:
            with served.client() as client:
                client.post("/v1/recommend", json=QUESTION).raise_for_status()
            assert served.end() == 0
        collector.shutdown()
    heard = [proto.ExportTraceServiceRequest.FromString(body) for body in bodies]
    sent = [r for one in heard for r in one.resource_spans]
    spans = {span.name: span for r in sent for scope in r.scope_spans for span in scope.spans}
    asked, solved = spans["POST /v1/recommend"], spans["recommend"]
    assert solved.parent_span_id == asked.span_id
    assert [a.value.int_value for a in asked.attributes] == [200]
    values = {a.key: a.value for a in solved.attributes}
    assert values["outcome"].string_value == "answered"
    assert 0 <= values["gap"].double_value <= 0.01
    assert any(a.value.string_value == "placer" for a in sent[0].resource.attributes)


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a collector is named and OpenTelemetry is not here, one line says what to install."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    telemetry.tracer.cache_clear()
    with pytest.raises(PlacerError, match="OpenTelemetry is missing") as error:
        telemetry.tracer()
    telemetry.tracer.cache_clear()
    assert "placer-advisor[otel]" in error.value.hint


def test_the_board_shows_metrics_that_there_are() -> None:
    """Every metric that the Grafana board names is one of /metrics, and each of these is on it."""
    metrics = Metrics()
    metrics.answered("recommend", Reply(outcome=Outcome.ANSWERED, gap=0.0))
    metrics.requested("GET", 200)
    named = r"\bplacer_[a-z_]+"
    board = (ROOT / "examples" / "service" / "grafana.json").read_text(encoding="utf-8")
    shown = set(re.findall(named, board))
    there = set(re.findall(named, metrics.text().decode()))
    assert shown <= there
    kinds = {name for name in there if f"# TYPE {name} " in metrics.text().decode()}
    kinds = {name for name in kinds if not name.endswith("_created")}
    assert kinds <= {name.removesuffix("_bucket") for name in shown}

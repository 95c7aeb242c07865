"""Price interfaces on 127.0.0.1 in the formats of AWS, Azure and Google Cloud, and their books."""

import csv
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

Call = Callable[..., tuple[int, str, str]]
ACCESS, SECRET = "AKIACANARY0123456789", "canary/secret+0123456789abcdefghijklmnop"
"""In the formats of AWS' keys; must never come back."""


def log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the canaries as credentials, and hide what this machine knows of AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def said(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    return done.returncode, done.stdout, done.stderr


def rows_of(home: Path, book: str, file: str = "offers.csv") -> list[dict[str, str]]:
    """Rows of a book of the user."""
    with (home / "catalogs" / book / file).open(encoding="utf-8", newline="") as stream:
        return [*csv.DictReader(stream)]


def machines_of(home: Path, book: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """Offers of a book of the user by region, type and market."""
    rows = rows_of(home, book)
    return {(row["region"], row["instance_type"], row["market"]): row for row in rows}


@dataclass
class Request:
    """What a client sent."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """What a server sends; ``length`` is its Content-Length, ``hang`` keeps it silent."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    hang: bool = False


def as_json(document: Any, status: int = 200, **headers: str) -> Answer:
    """Answer with a JSON document."""
    return Answer(
        json.dumps(document).encode(), status, {"Content-Type": "application/json"} | headers
    )


@dataclass
class Server:
    """A server that runs, with what it was asked."""

    url: str
    requests: list[Request]
    asked: threading.Event


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Server]:
    """Serve on a free port; ``answer`` is called for each request."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            request = Request(
                parts.path, query, {k.lower(): v for k, v in self.headers.items()}, body
            )
            server.requests.append(request)
            found = answer(request)
            server.asked.set()
            if found.hang:
                over.wait(60)
                self.close_connection = True
                return
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header(
                "Content-Length", str(len(found.body) if found.length is None else found.length)
            )
            self.end_headers()
            self.wfile.write(found.body)
            self.close_connection = self.close_connection or found.length is not None

        do_GET = do_POST = handle_any  # noqa: N815

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    class Quiet(ThreadingHTTPServer):
        """A client that goes away is its own affair."""

        def handle_error(self, *arguments: object) -> None:
            """Say nothing."""

    httpd = Quiet(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    server = Server(f"http://127.0.0.1:{httpd.server_port}", [], threading.Event())
    thread = threading.Thread(
        target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        over.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def azure_item(
    size: str, region: str, price: float, words: str = "", **changed: Any
) -> dict[str, Any]:
    """One item of the Retail Prices API; ``words`` is Spot, Low Priority or Windows."""
    series = "Virtual Machines NCasT4 v3 Series"
    name = size.removeprefix("Standard_").replace("_", " ")
    tail = f" {words}" if words in ("Spot", "Low Priority") else ""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "armRegionName": region,
        "effectiveStartDate": "2024-03-01T00:00:00Z",
        "meterName": f"{name}{tail}",
        "productName": f"{series} Windows" if words == "Windows" else series,
        "skuName": f"{name}{tail}",
        "serviceName": "Virtual Machines",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
        **changed,
    }


def azure_page(
    items: list[dict[str, Any]], link: str | None = None, count: int | None = None
) -> dict[str, Any]:
    """One page of the Retail Prices API."""
    return {"Items": items, "NextPageLink": link, "Count": len(items) if count is None else count}


def gcp_sku(
    words: str, usd: float, regions: list[str], *, unit: str = "h", usage: str = "", **changed: Any
) -> dict[str, Any]:
    """One SKU of the Cloud Billing Catalog API, as its documentation shows it."""
    units, nanos = divmod(round(usd * 1e9), 10**9)
    return {
        "description": words,
        "category": {
            "usageType": usage or ("Preemptible" if "Preemptible" in words else "OnDemand")
        },
        "serviceRegions": regions,
        "pricingInfo": [
            {
                "pricingExpression": {
                    "usageUnit": unit,
                    "tieredRates": [
                        {
                            "startUsageAmount": 0,
                            "unitPrice": {
                                "currencyCode": "USD",
                                "units": str(units),
                                "nanos": nanos,
                            },
                        }
                    ],
                },
                "effectiveTime": "2025-06-01T00:00:00Z",
            }
        ],
        **changed,
    }


def aws_entry(
    name: str,
    region: str,
    usd: str,
    *,
    gpu: str | None = "1",
    since: str = "2025-06-01T00:00:00Z",
    **changed: str,
) -> str:
    """One entry of GetProducts: JSON in a string, nested as the price list is."""
    sku, term, rate = "6V3F3K4ZYKTQHXXM", "JRTCKXETXF", "6YS6EN2CT7"
    attributes = {
        "locationType": "AWS Region",
        "instanceType": name,
        "tenancy": "Shared",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
        "marketoption": "OnDemand",
        "regionCode": region,
        **({} if gpu is None else {"gpu": gpu}),
        **changed,
    }
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}}
    on_demand = {
        "priceDimensions": {f"{sku}.{term}.{rate}": dimension},
        "sku": sku,
        "effectiveDate": since,
        "offerTermCode": term,
    }
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {f"{sku}.{term}": on_demand}},
        }
    )

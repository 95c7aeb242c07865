"""The same runs by iperf3, for those who trust it more; the server side is ``iperf3 -s``."""

from __future__ import annotations

import math
import shutil
import subprocess

from placer.errors import PlacerError
from placer.market.sources.harvest import Origin
from placer.market.sources.links.probe.bill import Run
from placer.market.sources.links.probe.client import SILENCE_SECONDS, Throughput
from placer.market.sources.links.probe.hosts import ProbeHost
from placer.market.sources.links.probe.protocol import ProbeError
from placer.market.sources.reading.fetch import Document
from placer.market.sources.reading.mapped_rows import mapped_rows
from placer.market.sources.reading.mapping import shipped_mapping
from placer.market.sources.reading.records import read_records
from placer.market.sources.reading.tally import Tally


def find_iperf3() -> str:
    """Find the program; `PlacerError` if it is not installed."""
    program = shutil.which("iperf3")
    if program is None:
        raise PlacerError(
            "iperf3 is not installed here",
            "install it, or leave --with iperf3 out: placer measures with sockets of its own",
        )
    return program


def iperf3_throughput(
    program: str, host: ProbeHost, run: Run, seconds: float
) -> tuple[Throughput, float | None]:
    """Run iperf3 once; the limit of bytes is kept by its bit rate over whole seconds, at least one.

    Returns
    -------
    tuple
        What it measured, and the round-trip time in ms if it says one.

    Raises
    ------
    ProbeError
        If it ends with an error or not in time.
    """
    lasting = max(1, math.ceil(seconds))
    rate = max(1, int(8 * run.most_bytes / lasting / run.streams))
    command = [
        program,
        "--client",
        host.host,
        "--port",
        str(host.port),
        "--json",
        "--parallel",
        str(run.streams),
    ]
    command += [
        "--time",
        str(lasting),
        "--bitrate",
        str(rate),
        *(["--reverse"] if run.verb == "download" else []),
    ]
    try:
        done = subprocess.run(  # noqa: S603 - iperf3 itself, with checked arguments
            command,
            capture_output=True,
            text=True,
            timeout=lasting + 4 * SILENCE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProbeError("iperf3 did not end in time") from None
    except (OSError, ValueError) as error:
        raise ProbeError(f"iperf3 cannot be run: {error}") from None
    bits, rtt_ms = _measured(done.stdout, "server" if run.verb == "download" else "client")
    counted = int(bits * lasting / 8)
    return Throughput(
        streams=run.streams, sent_bytes=counted, received_bytes=counted, bits_per_s=bits
    ), rtt_ms


def _measured(text: str, sender: str) -> tuple[float, float | None]:
    """Return the throughput of a run from one end, bits/s, and its round-trip time."""
    mapping, tally = shipped_mapping("iperf3"), Tally(skip_bad=False)
    document = Document(
        data=text.encode(), origin=Origin(place="iperf3", sha256="", size_bytes=len(text))
    )
    ends = {"from": "client", "to": "server"}
    try:
        records = read_records(document, mapping, tally)
        rows = [one.row for one in mapped_rows(records, mapping, tally, ends, "1970-01-01")]
    except PlacerError as error:
        raise ProbeError(error.message) from None
    gbps = next((row["gbps"] for row in rows if row["src"] == sender and row.get("gbps")), None)
    if gbps is None:
        raise ProbeError("iperf3 measured nothing in this direction")
    rtts = [row["rtt_ms"] for row in rows if row.get("rtt_ms")]
    return float(gbps) * 1e9, float(rtts[0] or 0) if rtts else None

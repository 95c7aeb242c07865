"""The same runs by iperf3, for those who trust it more; the server side is ``iperf3 -s``."""

from __future__ import annotations

import math
import shutil
import subprocess

from placer.errors import PlacerError
from placer.market.sources.links.iperf3 import read_run
from placer.market.sources.links.probe.bill import Run
from placer.market.sources.links.probe.client import SILENCE_SECONDS, Throughput
from placer.market.sources.links.probe.hosts import ProbeHost
from placer.market.sources.links.probe.protocol import ProbeError


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
    try:
        run_result = read_run(done.stdout, "iperf3")
    except PlacerError as error:
        raise ProbeError(error.message) from None
    bits = run_result.back if run.verb == "download" else run_result.forth
    if bits is None:
        raise ProbeError("iperf3 measured the other direction")
    counted = int(bits * lasting / 8)
    return Throughput(
        streams=run.streams, sent_bytes=counted, received_bytes=counted, bits_per_s=bits
    ), run_result.rtt_ms

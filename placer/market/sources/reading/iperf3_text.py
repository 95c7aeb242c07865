"""What iperf3 prints without ``--json``, and what it streams with ``--json-stream``, as the JSON
that it writes with ``--json``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from placer.files.json_text import parse_json

_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_RATE = re.compile(
    r"^\[\s*(SUM|\d+)\](?:\[[TR]X-[CS]\])?.*?([\d.]+) ([KMGT]?)(bits|Bytes)/sec.*\breceiver\s*$",
    re.MULTILINE,
)
_TEXT = re.compile(
    r"^(Connecting to host|iperf |iperf3: error|Server listening|\[ ID\])", re.MULTILINE
)
"""Of a client or a server, also behind the command or the time."""


def as_document(data: bytes) -> bytes:
    """Return a run as one document of JSON; what is neither text nor a stream of iperf3 stays as it
    is. Text has no day: rows need one from elsewhere.
    """
    text = data.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        made = _of_stream(text)
    elif _TEXT.search(text):
        made = _of_text(text)
    else:
        made = None
    return data if made is None else json.dumps(made).encode()


def _of_stream(text: str) -> dict[str, Any] | None:
    """Put events together; None where the lines are none."""
    try:
        events = [parse_json(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(one, dict) and {"event", "data"} <= one.keys() for one in events):
        return None
    return {one["event"]: one["data"] for one in events if one["event"] != "interval"}


def _of_text(text: str) -> dict[str, Any]:
    """Read the sums of what arrived; JSON alone tells apart runs in both directions at once."""
    failed = re.search(r"^iperf3: (?:error - )?(.+)$", text, re.MULTILINE)
    if failed:
        return {"error": failed[1]}
    if "[TX-C]" in text or "[RX-C]" in text:
        return {"error": "text of a run with --bidir: write it with --json"}
    rates: list[tuple[str, float]] = []
    for name, rate, power, unit in _RATE.findall(text):
        # iperf3 counts bits by 1,000 and bytes (-f M) by 1,024.
        each = 8 * 1024.0 ** _POWERS[power] if unit == "Bytes" else 1000.0 ** _POWERS[power]
        rates.append((name, float(rate) * each))
    sums = [rate for name, rate in rates if name == "SUM"] or [rate for _, rate in rates]
    if not sums:
        return {}
    datagrams = "Lost/Total Datagrams" in text
    return {
        "start": {
            "test_start": {
                "protocol": "UDP" if datagrams else "TCP",
                "num_streams": max(1, sum(name != "SUM" for name, _ in rates)),
                "reverse": int("Reverse mode" in text),
            }
        },
        "end": {"sum_received": {"bits_per_second": sums[-1]}},
    }

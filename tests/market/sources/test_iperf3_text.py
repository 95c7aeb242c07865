"""Runs of iperf3 that were not written with ``--json``."""

import json
from pathlib import Path

import pytest

from conftest import Run
from placer.market.sources.reading.iperf3_text import as_document

TEXT = """Connecting to host 10.0.0.2, port 5201
[  5] local 10.0.0.1 port 40000 connected to 10.0.0.2 port 5201
[  7] local 10.0.0.1 port 40001 connected to 10.0.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   112 MBytes   940 Mbits/sec    0   3.0 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
[  5]   0.00-10.00  sec  1.10 GBytes   945 Mbits/sec    0             sender
[  5]   0.00-10.04  sec  1.10 GBytes   940 Mbits/sec                  receiver
[  7]   0.00-10.00  sec  1.20 GBytes  1.03 Gbits/sec    0             sender
[  7]   0.00-10.04  sec  1.20 GBytes  1.02 Gbits/sec                  receiver
[SUM]   0.00-10.00  sec  2.30 GBytes  1.98 Gbits/sec    0             sender
[SUM]   0.00-10.04  sec  2.30 GBytes  1.96 Gbits/sec                  receiver
iperf Done.
"""


def test_text_of_two_streams() -> None:
    """What arrived counts, not what was sent; two streams, from here to there."""
    made = json.loads(as_document(TEXT.encode()))
    assert made["end"]["sum_received"]["bits_per_second"] == 1.96e9
    started = made["start"]["test_start"]
    assert started == {"protocol": "TCP", "num_streams": 2, "reverse": 0}


def test_a_stream_of_json_is_put_together() -> None:
    """``--json-stream`` writes an event a line; the sums stand in the last."""
    lines = (
        {"event": "start", "data": {"test_start": {"protocol": "TCP"}}},
        {"event": "interval", "data": {"sum": {}}},
        {"event": "end", "data": {"sum_received": {"bits_per_second": 5}}},
    )
    data = "\n".join(json.dumps(line) for line in lines).encode()
    made = json.loads(as_document(data))
    assert made == {"start": lines[0]["data"], "end": lines[2]["data"]}


@pytest.mark.parametrize("data", [b'{"start": {}}', b"src,dst\n", b"", b"{", b"\xff\xfe"])
def test_other_documents_stay(data: bytes) -> None:
    """The mapping says what is wrong with them."""
    assert as_document(data) == data


def test_the_command_reads_text(run: Run, tmp_path: Path) -> None:
    """Text has no day, which ``--date`` gives; what is printed is words."""
    (tmp_path / "run.txt").write_text(TEXT, encoding="utf-8")
    ends = ("--from", "aws/us-east-1", "--to", "gcp/us-west1")
    words = ("network", "import", "iperf3", "run.txt", *ends)
    home = {"cwd": tmp_path, "PLACER_HOME": str(tmp_path / "home")}
    assert "give the day with --date" in run(*words, **home).stderr
    done = run(*words, "--date", "2026-11-01", **home)
    assert done.returncode == 0, done.stderr
    assert "1 ordered pair of 2 places: 1 with many streams" in done.stdout


def test_a_run_over_udp_is_named(run: Run, tmp_path: Path) -> None:
    """iperf3 before 3.8 writes no ``sum_received`` of UDP: the protocol is what is wrong."""
    started = {"test_start": {"protocol": "UDP", "num_streams": 1, "reverse": 0}}
    document = {"start": started, "end": {"sum": {"bits_per_second": 1_048_716.9}}}
    (tmp_path / "run.json").write_text(json.dumps(document), encoding="utf-8")
    ends = ("--from", "aws/us-east-1", "--to", "gcp/us-west1")
    done = run("network", "import", "iperf3", "run.json", *ends, cwd=tmp_path)
    assert done.returncode == 7
    assert "is a run over UDP" in done.stderr


@pytest.mark.parametrize(
    ("change", "bits"),
    [
        (("Connecting to host", "$ iperf3 -c 10.0.0.2\nConnecting to host"), 1.96e9),
        (("Connecting to host 10.0.0.2, port 5201", "Server listening on 5201 (test #1)"), 1.96e9),
        (("1.96 Gbits/sec", " 234 MBytes/sec"), 234 * 8 * 2**20),  # of iperf3 -f M
    ],
)
def test_text_as_logs_have_it(change: tuple[str, str], bits: float) -> None:
    """Behind the command, of the server, and with rates in bytes, which iperf3 counts by 1,024."""
    made = json.loads(as_document(TEXT.replace(*change).encode()))
    assert made["end"]["sum_received"]["bits_per_second"] == bits

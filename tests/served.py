"""A service in a process of its own, for tests and benchmarks."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

ROOT = Path(__file__).resolve().parent.parent
START_S = 90.0
BOOK = "erben-2023"
QUESTION: dict[str, Any] = {"model": "roberta-xlm", "budget": "5/h", "catalog": BOOK}
"""Answered in hundredths of a second."""
LONG: dict[str, Any] = {"model": "resnet50", "budget": "500/h", "regions": "2..", "gap": "0.01%"}
"""Not proved for many seconds, on the book that comes with placer."""


@dataclass(kw_only=True)
class Served:
    """A service that listens on loopback, and its process."""

    process: subprocess.Popen[str]
    address: str
    jobs: Path

    def client(self, **words: Any) -> httpx2.Client:
        """Return a client of the service."""
        return httpx2.Client(
            base_url=self.address, timeout=60, trust_env=False, verify=False, **words
        )

    def kill(self) -> None:
        """End it as a power cut does."""
        self.process.kill()
        self.process.wait(START_S)

    def end(self) -> int:
        """End it as an orchestrator does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(START_S)

    def workers(self) -> list[int]:
        """List the processes that solve."""
        found = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                with contextlib.suppress(OSError):
                    if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(int(child))
        return found


@contextlib.contextmanager
def serving(folder: Path, *options: str, **environment: str) -> Iterator[Served]:
    """Start a service, wait until it can answer, and end it."""
    jobs = folder / "jobs.sqlite"
    words = ["serve", "--port", "0", "--jobs", str(jobs), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "placer", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+?:\d+", line)
        assert found, line + process.stderr.read()
        served = Served(process=process, address=found[0], jobs=jobs)
        _wait(served)
        yield served
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
        if process.stderr is not None:
            process.stderr.close()


def _wait(served: Served) -> None:
    end = time.monotonic() + START_S
    with served.client() as client:
        while time.monotonic() < end:
            with contextlib.suppress(httpx2.TransportError):
                if client.get("/readyz").status_code == 200:
                    return
            time.sleep(0.05)
    raise AssertionError("the service does not become ready")

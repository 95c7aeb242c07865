"""The report of an answer, made by ``placer report`` in a process of its own."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections import OrderedDict
from importlib.util import find_spec
from pathlib import Path

MOST_SECONDS = 60.0
MOST_KEPT = 16
"""Reports that are kept in memory: 300 kB each at most."""
PACKAGES = ("altair", "vl_convert")
POLICY = re.compile(r'http-equiv="Content-Security-Policy"\s+content="([^"]+)"')


class Reports:
    """Reports by the name of their job: one is drawn at a time, the last ones are kept. Drawing
    charts loads a JavaScript engine, which has no place in the process that answers, nor in a
    worker whose address space is bounded.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._one = asyncio.Lock()

    @staticmethod
    def possible() -> bool:
        """Tell whether the extra ``report`` is installed."""
        return all(find_spec(name) is not None for name in PACKAGES)

    async def of(self, name: str, document: bytes) -> bytes | None:
        """Return the page of a document; None where it cannot be drawn."""
        async with self._one:
            if name not in self._kept:
                page = await _drawn(document)
                if page is None:
                    return None
                self._kept[name] = page
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
            return self._kept[name]


async def _drawn(document: bytes) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="placer-report-") as folder:
        source, target = Path(folder) / "answer.json", Path(folder) / "report.html"
        source.write_bytes(document)
        words = ("-m", "placer", "report", str(source), "-o", str(target))
        silent = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=silent, stdout=silent, stderr=silent
        )
        try:
            async with asyncio.timeout(MOST_SECONDS):
                code = await process.wait()
        except TimeoutError:
            return None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return target.read_bytes() if code == 0 else None


def policy_of(page: bytes) -> str:
    """Return the policy of a report, which names its one script by its digest, as a header that
    lets the page of its answer frame it.
    """
    found = POLICY.search(page.decode(errors="replace"))
    inner = "default-src 'none'" if found is None else found[1].replace("&#39;", "'")
    return f"{inner}; frame-ancestors 'self'"

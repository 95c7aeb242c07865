"""A page as PDF, printed by a browser that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from placer.errors import PlacerError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
"""Names under which browsers that print PDF are installed."""
LONGEST_S = 60.0
"""A page takes about 2 s."""


def pdf_of(page: str) -> bytes:
    """Print a page.

    Raise `PlacerError` if no such browser is installed, or it fails.
    """
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="placer-report-") as folder:
        source, target = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser,
            "--headless",
            "--disable-gpu",
            "--no-pdf-header-footer",
            f"--user-data-dir={folder}/profile",
            f"--print-to-pdf={target}",
            # Chromium refuses to sandbox itself for root, as in most containers. The page holds no
            # script that its policy does not name.
            *(["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []),
            source.as_uri(),
        ]
        try:
            done = subprocess.run(  # noqa: S603 - a browser by its name, and files of our own
                command, capture_output=True, timeout=LONGEST_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(browser, str(error)) from None
        if not target.exists():
            raise _failed(browser, done.stderr.decode(errors="replace").strip()[-200:])
        return target.read_bytes()


def find_browser() -> str:
    """Find a browser that prints PDF: ``$PLACER_BROWSER``, else one of `BROWSERS`.

    Raise `PlacerError` if there is none.
    """
    wanted = os.environ.get("PLACER_BROWSER")
    for name in (wanted,) if wanted else BROWSERS:
        path = shutil.which(name)
        if path:
            return path
    missing = f"'{wanted}' of PLACER_BROWSER" if wanted else "no browser that prints PDF"
    raise PlacerError(
        f"{missing} is not installed" if wanted else f"{missing} is installed",
        "install Chromium (apt-get install chromium), or write HTML with -o report.html and print "
        "it from any browser",
    )


def _failed(browser: str, words: str) -> PlacerError:
    return PlacerError(
        f"{browser} did not print the report: {words}",
        "write HTML with -o report.html and print it from any browser",
        exit_code=1,
    )

"""Windows of a real browser, for tests of pages."""

import importlib
import shutil
from typing import Any

from placer.report.page import BROWSERS

BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
NO_BROWSER = "no Chromium (apt-get install chromium)"
"""Why a test is skipped."""


class Seen:
    """A window, with what it asked for and what it complained of.

    Parameters
    ----------
    browser
        Of the fixture of that name.
    address
        Of the page or the service: what the window may load.
    context
        Options of the window, as playwright names them.
    """

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.address = address
        window = {"viewport": {"width": 1000, "height": 900}, "base_url": address, **context}
        self.context = browser.new_context(**window)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def violations(self, *rules: str) -> list[tuple[str, str]]:
        """Run axe, all rules or some: what is broken, with the first element."""
        axe = importlib.import_module("axe_playwright_python.sync_playwright")
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else None
        found = axe.Axe().run(self.page, options=only).response["violations"]
        return [(one["id"], one["nodes"][0]["html"][:120]) for one in found]

    def type_in(self, **words: str) -> None:
        """Fill in fields."""
        for name, value in words.items():
            self.page.fill(f"#{name}", value)

    def close(self) -> None:
        """Close the window; nothing was loaded from elsewhere, nothing was complained of."""
        foreign = [url for url in self.requests if not url.startswith((self.address, "data:"))]
        assert foreign == []
        assert self.complaints == []
        self.context.close()

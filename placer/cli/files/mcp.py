"""``placer mcp``: the questions as tools of an assistant."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import click

from placer.cli.command import Catalog, as_command
from placer.cli.files.serve import checked_books
from placer.errors import PlacerError
from placer.version import install_line

EPILOG = """\b
Examples:
  placer mcp
  placer mcp --port 8643 --time-limit 1min
"""


@as_command("mcp", EPILOG)
def command(*, port: int | None = None, catalog: Catalog, time_limit: str = "30s") -> None:
    """Offer the questions to an assistant as tools of the Model Context Protocol, over stdin and
    stdout.

    The program of the assistant starts it. It answers and returns texts; it writes no file and
    starts no run.

    port (0..65535): Listen on this port of 127.0.0.1 in place of stdin; 0: any that is free.
    time_limit (TIME): Longest search of a call.
    """
    missing = [name for name in ("mcp", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise PlacerError(
            f"placer mcp needs {', '.join(missing)}", f"install it: {install_line('mcp')}"
        )
    from placer.interface.advisor import Advisor
    from placer.service.settings import Settings
    from placer.service.tools import serve_http, serve_stdio
    from placer.units import parse_seconds

    books = checked_books(catalog)
    Advisor(books or None).book()  # a book that is wrong is an error now
    settings = Settings(port=port or 0, catalog=books, workers=1, seconds=parse_seconds(time_limit))
    if port is None:
        asyncio.run(serve_stdio(settings))
    else:
        serve_http(settings, lambda address: click.echo(f"serving {address}", err=True))

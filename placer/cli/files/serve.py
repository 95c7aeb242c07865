"""``placer serve`` and ``placer mcp``: the questions over HTTP, and as tools of an assistant."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from placer.cli.command import Catalog, as_command
from placer.cli.screen.option_groups import LargeCommand
from placer.errors import PlacerError
from placer.files.bounded_file import read_file
from placer.units import parse_seconds
from placer.version import install_line

PACKAGES = ("litestar", "uvicorn", "prometheus_client", "jinja2")
EPILOG = """\b
Examples:
  placer serve
  placer serve --host 0.0.0.0 --token-file token.txt --workers 4
"""


@as_command("serve", EPILOG, cls=LargeCommand)
def command(
    *,
    host: str = "127.0.0.1",
    port: int = 8642,
    token_file: str | None = None,
    hosts: tuple[str, ...] = (),
    catalog: Catalog,
    workers: int = 2,
    waiting: int = 32,
    time_limit: str = "30s",
    job_time_limit: str = "10min",
    memory_limit: str = "1500MB",
    body_limit: str = "4MB",
    grace: str = "5s",
    jobs: str | None = None,
    keep: str = "24h",
) -> None:
    """Answer questions over HTTP, with a page for browsers, until Ctrl-C.

    The address /openapi.json describes what may be asked.

    host: Address to listen on.
    port (0..65535): Port to listen on; 0: any that is free.
    token_file (FILE): Secret that requests must show. Needed where others can reach the host.
    hosts (NAME, --allow-host): Name by which browsers may call the service, such as
        placer.example.org. Repeatable.
    workers (1..256): Processes that solve, each one question at a time.
    waiting (1..10000): Questions that may wait for a process; further ones are refused for a while.
    time_limit (TIME): Longest search of a question that is answered at once.
    job_time_limit (TIME): Longest search of a job.
    memory_limit (SIZE): Memory of each process that solves.
    body_limit (SIZE): Largest request.
    grace (TIME): How long a search may overrun before its process is ended, and a shutdown waits.
    jobs (FILE): Where jobs are kept, so that they outlast the service. Default: in the folder of
        placer's own data.
    keep (TIME): How long finished jobs are kept.
    """
    _check_packages("serve", PACKAGES)
    from placer.interface.options import memory_bytes
    from placer.service.server import serve
    from placer.service.settings import Settings

    settings = Settings(
        host=host,
        port=port,
        hosts=hosts,
        token=None if token_file is None else _token(token_file),
        catalog=checked_books(catalog),
        workers=workers,
        waiting=waiting,
        seconds=parse_seconds(time_limit),
        job_seconds=parse_seconds(job_time_limit),
        memory_bytes=memory_bytes(memory_limit),
        body_bytes=memory_bytes(body_limit),
        grace_s=parse_seconds(grace),
        jobs_file=_jobs_file(jobs),
        keep_s=parse_seconds(keep),
    )
    words = "" if settings.token is None else ", for those who have the token"
    serve(
        settings, lambda address: click.echo(f"serving {address}{words}; Ctrl-C ends it", err=True)
    )


def _check_packages(command: str, packages: tuple[str, ...]) -> None:
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise PlacerError(
            f"placer {command} needs {', '.join(missing)}", f"install it: {install_line(command)}"
        )


def _token(path: str) -> str:
    try:
        text = read_file(path).decode().strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise PlacerError(
            f"'{path}' has no token", "write one line, such as that of 'openssl rand -hex 24'"
        )
    return text


def checked_books(catalog: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse books that are not there before anything is started; paths become absolute."""
    from placer.market.books.layers import default_words, find_layer, is_path

    for word in catalog or default_words():
        find_layer(word)
    return tuple(str(Path(word).resolve()) if is_path(word) else word for word in catalog)


def _jobs_file(path: str | None) -> Path:
    from placer.market.books.folders import own_books

    return own_books().parent / "service" / "jobs.sqlite" if path is None else Path(path).resolve()


MCP = """\b
Examples:
  placer mcp
  placer mcp --port 8643 --time-limit 1min
"""


@as_command("mcp", MCP)
def mcp_command(*, port: int | None = None, catalog: Catalog, time_limit: str = "30s") -> None:
    """Offer the questions to an assistant as tools of the Model Context Protocol, over stdin and
    stdout.

    The program of the assistant starts it. It answers and returns texts; it writes no file and
    starts no run.

    port (0..65535): Listen on this port of 127.0.0.1 in place of stdin; 0: any that is free.
    time_limit (TIME): Longest search of a call.
    """
    import asyncio

    _check_packages("mcp", ("mcp", "prometheus_client"))
    from placer.interface.advisor import Advisor
    from placer.service.settings import Settings
    from placer.service.tools import serve_http, serve_stdio

    books = checked_books(catalog)
    Advisor(books or None).book()  # a book that is wrong is an error now
    settings = Settings(port=port or 0, catalog=books, workers=1, seconds=parse_seconds(time_limit))
    if port is None:
        asyncio.run(serve_stdio(settings))
    else:
        serve_http(settings, lambda address: click.echo(f"serving {address}", err=True))

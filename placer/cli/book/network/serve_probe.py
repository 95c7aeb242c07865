"""``placer network serve-probe``: the other end of a probe."""

from __future__ import annotations

import os
import secrets
import signal

import click

from placer.cli.options import Range
from placer.errors import PlacerError

TOKEN = "PLACER_PROBE_TOKEN"  # noqa: S105
"""Environment variable with the shared secret: a command line can be read by every user of a
machine.
"""
LEAST_TOKEN = 8


@click.command(
    "serve-probe",
    epilog="Example: placer network serve-probe --host 0.0.0.0 --port 7447 --seconds 600",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on; 0.0.0.0 is every one.",
)
@click.option(
    "--port",
    default=7447,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="TCP port; 0 takes a free one.",
)
@click.option(
    "--token",
    metavar="TEXT",
    help=f"Shared secret; default: ${TOKEN}, else a new one that is printed.",
)
@click.option(
    "--seconds",
    type=Range(min=0, min_open=True, max=86400 * 30),
    help="End by itself after so many seconds.",
)
@click.option(
    "--max-bytes",
    default="200GB",
    show_default=True,
    metavar="SIZE",
    help="Most that it sends and receives in its life.",
)
@click.option(
    "--max-run", default="60s", show_default=True, metavar="TIME", help="Longest single transfer."
)
@click.option(
    "--connections",
    default=64,
    show_default=True,
    type=click.IntRange(1, 1024),
    help="Most connections at a time.",
)
def command(
    host: str,
    port: int,
    token: str | None,
    seconds: float | None,
    max_bytes: str,
    max_run: str,
    connections: int,
) -> None:
    """Answer probes of clients that know the token, within limits, until Ctrl-C."""
    from placer.market.sources.links.probe.protocol import MOST_BYTES, MOST_SECONDS
    from placer.market.sources.links.probe.server import ProbeServer, ServerLimits, listen
    from placer.units import format_bytes, parse_bytes, parse_seconds

    secret, made = given_token(token, make=True)
    limits = ServerLimits(
        connections=connections,
        most_bytes=int(min(parse_bytes(max_bytes), MOST_BYTES)),
        transfer_seconds=min(parse_seconds(max_run), MOST_SECONDS),
    )
    server = ProbeServer(listener=listen(host, port), token=secret, limits=limits)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.stop())
    click.echo(f"listening on {host} port {server.listener.getsockname()[1]}; Ctrl-C ends")
    if made:
        click.echo(f"token: {secret}\n  on the other machine: export {TOKEN}={secret}")
    served = server.serve(seconds)
    moved = (
        f"{format_bytes(served.sent_bytes)} sent, {format_bytes(served.received_bytes)} received"
    )
    click.echo(
        f"ended: {served.measured} connections served, {served.refused} refused or broken, {moved}"
    )


def given_token(token: str | None, *, make: bool = False) -> tuple[str, bool]:
    """Take the token from the option or the environment; make one if there is none and ``make``.

    Raises
    ------
    PlacerError
        If there is none, or it is too short to be a secret.
    """
    secret = token if token is not None else os.environ.get(TOKEN)
    if secret is None and make:
        return secrets.token_urlsafe(18), True
    if secret is None:
        raise PlacerError(
            "the token of the probe servers is missing",
            f"export {TOKEN}=... as 'placer network serve-probe' printed it",
        )
    if not LEAST_TOKEN <= len(secret) <= 200 or not secret.isprintable():
        raise PlacerError(
            "the token is no secret of 8 to 200 characters",
            f"let 'placer network serve-probe' make one, or set {TOKEN}",
        )
    return secret, False

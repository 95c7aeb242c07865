"""Ctrl-C in a command that has no answer before its last step."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click


@contextmanager
def nothing_kept(why: str) -> Iterator[None]:
    """End all searches at Ctrl-C, say that nothing is kept and why, and exit with code 130.

    A solver takes a KeyboardInterrupt for itself and returns its best, and the next search would
    begin.
    """

    def abort(number: int, frame: object) -> None:
        raise click.Abort

    heard = signal.signal(signal.SIGINT, abort)
    try:
        yield
    except click.Abort:
        click.echo(f"stopped: nothing is kept, because {why}", err=True)
        raise click.exceptions.Exit(130) from None
    finally:
        signal.signal(signal.SIGINT, heard)

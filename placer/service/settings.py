"""What whoever starts the service decides: address, access and limits."""

from __future__ import annotations

import hmac
import socket
from dataclasses import dataclass, field
from pathlib import Path

from placer.errors import PlacerError
from placer.market.sources.reading.web_address import is_loopback

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
LEAST_TOKEN = 16
"""Characters of a token at least: fewer can be guessed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Address, access and limits of a service.

    ``seconds`` is the longest search of a question that is answered at once, ``job_seconds`` that
    of a job. ``grace_s`` is how long a search may overrun before its process is ended, and how long
    a shutdown waits for answers. ``memory_bytes`` is the resident memory of each process that
    solves, ``body_bytes`` the size of a request, ``body_s`` the time in which it must arrive.
    ``waiting`` questions may wait for a process, and ``most_jobs`` jobs may be unfinished;
    ``keep_s`` is how long finished jobs are kept, ``most_kept`` how many. ``most_listeners`` may
    follow jobs at a time. Where ``token`` is None nobody is asked for one.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    hosts: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    catalog: tuple[str, ...] = ()
    workers: int = 2
    seconds: float = 30.0
    job_seconds: float = 600.0
    grace_s: float = 5.0
    memory_bytes: int = 1_500_000_000
    body_bytes: int = 4 * 2**20
    body_s: float = 10.0
    waiting: int = 32
    most_jobs: int = 100
    most_kept: int = 1_000
    most_listeners: int = 100
    keep_s: float = 86_400.0
    jobs_file: Path = Path("jobs.sqlite")

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and self.token is None:
            raise PlacerError(
                f"--host {self.host} can be reached by others, and no token is asked for",
                "put a secret into a file and give it with --token-file FILE",
            )
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise PlacerError(
                f"the token has {len(self.token)} characters",
                f"give {LEAST_TOKEN} or more, such as those of 'openssl rand -hex 24'",
            )

    @property
    def allowed_hosts(self) -> frozenset[str]:
        """Return the names under which a browser may ask: others are refused, so that no foreign
        page reaches the service through a name that resolves to it. Empty: any.
        """
        if self.hosts:
            return frozenset({*self.hosts, *LOOPBACK_NAMES})
        return frozenset(LOOPBACK_NAMES) if is_loopback(self.host) else frozenset()

    @property
    def cookie(self) -> str:
        """Return what a browser shows in place of the token."""
        return hmac.new((self.token or "").encode(), b"placer page", "sha256").hexdigest()


def listen(settings: Settings) -> socket.socket:
    """Listen on the address of a service; `PlacerError` if it is taken."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except (OSError, OverflowError) as error:
        raise PlacerError(
            f"cannot listen on {settings.host}:{settings.port}: "
            f"{getattr(error, 'strerror', None) or error}",
            "choose another --port, or end what has it",
            exit_code=1,
        ) from None

"""The addresses at which a machine reaches the others: their own, or those at which the relay
accepts connections for them.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError

LOOPBACK = "127.0.0.1"
"""Where the relay is asked."""
PATIENCE_S = 5.0
ATTEMPTS = 3
ANSWER_BYTES = 4096


def seen(entry: Mapping[str, Any], address: str, port: int) -> tuple[str, int]:
    """Return the address and port at which a machine reaches a port of another.

    Parameters
    ----------
    entry
        Of `ShapedNetwork.entry`: the machine that looks.
    address, port
        At which a process of another machine listens.

    Raises
    ------
    PlacerError
        If the network is gone.
    """
    if entry["method"] != "relays":
        return address, port
    question = json.dumps([entry["machine"], address, port]).encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(PATIENCE_S)
        asking.connect(tuple(entry["relay"]))
        why = "no answer"
        for _ in range(ATTEMPTS):
            try:
                asking.send(question)
                answer = json.loads(asking.recv(ANSWER_BYTES))
            except OSError as error:
                why = str(error)
                continue
            if isinstance(answer, list):
                return str(answer[0]), int(answer[1])
            why = answer
            break
    raise PlacerError(
        f"the relay of the rehearsal's network: {why}", "start the rehearsal again", exit_code=1
    )


def seen_url(entry: Mapping[str, Any], url: str) -> str:
    """Return the URL at which a machine reaches a server such as ``http://127.0.3.1:5000``."""
    parts = urlsplit(url)
    if not parts.hostname or not parts.port:
        return url
    address, port = seen(entry, parts.hostname, parts.port)
    return parts._replace(netloc=f"{address}:{port}").geturl()

"""The parent's side of a relay process (`placer.launch.shaped_network.relay_protocol`)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from placer.errors import PlacerError
from placer.launch.shaped_network import exit_text

NAME = "the relay of the rehearsal's network"
END_S = 5.0
"""A relay that says no more has ended by then."""


class RelayProcess:
    """A running relay.

    Parameters
    ----------
    module
        Which one.

    Raises
    ------
    PlacerError
        If it cannot be started.
    """

    def __init__(self, module: str) -> None:
        run = [sys.executable, "-m", module]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - this interpreter, a module of our own
                run, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise PlacerError(
                f"cannot start the relay of the network: {error}",
                "see that Python may start itself",
                exit_code=1,
            ) from None
        self.lock = threading.Lock()

    def ask(self, **call: Any) -> dict[str, Any]:
        """Call the relay and wait for its answer.

        Raises
        ------
        PlacerError
            If it has ended.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self.lock:
            try:
                self.process.stdin.write(json.dumps(call) + "\n")
                self.process.stdin.flush()
                answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            except (OSError, ValueError):
                raise PlacerError(
                    f"{NAME} has ended{self._how()}", "start the rehearsal again", exit_code=1
                ) from None
        return answer

    def _how(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            return f": {exit_text.how_ended(self.process.wait(END_S))}"
        return ""

    def end(self) -> None:
        """Kill the relay."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not written when the relay ended
                    pipe.close()

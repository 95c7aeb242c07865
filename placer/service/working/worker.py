"""A worker as the service sees it: a process, and the messages that come from it."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import shutil
import threading
from typing import Any

from placer.advice.runner.blas_threads import starting_one_thread
from placer.service.settings import Settings
from placer.service.working.child import CANCEL, END, main
from placer.service.working.messages import Question, Ready

CONTEXT = multiprocessing.get_context("spawn")
STARTING_S = 120.0
"""A worker that has not read its books by then is ended."""
ENDING_S = 1.0
"""An idle worker that does not end by itself in so long is killed."""


class GoneError(Exception):
    """The process of a worker has ended."""


class Worker:
    """One process that answers one question at a time."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[Any] = asyncio.Queue()
        self._folder = ""
        self._connection, other = CONTEXT.Pipe()
        self.process = CONTEXT.Process(
            target=main,
            args=(other, settings.catalog, settings.memory_bytes),
            daemon=True,
            name="placer worker",
        )
        with starting_one_thread():
            self.process.start()
        other.close()
        threading.Thread(target=self._hear, daemon=True, name="hear worker").start()

    def _hear(self) -> None:
        """Hand messages to the loop; None says that there will be no more."""
        try:
            while True:
                self._hand(self._connection.recv())
        except (EOFError, OSError):
            self._hand(None)

    def _hand(self, message: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)
        except RuntimeError:  # the loop is closed: nobody waits
            raise EOFError from None

    async def ready(self) -> Ready:
        """Wait until the books are read.

        Raises
        ------
        GoneError
            If the process ended, or takes too long.
        """
        try:
            async with asyncio.timeout(STARTING_S):
                message = await self.heard()
        except TimeoutError:
            raise GoneError from None
        assert isinstance(message, Ready)
        self._folder = message.folder
        return message

    async def ask(self, question: Question) -> None:
        """Send a question.

        Raises
        ------
        GoneError
            If the process has ended.
        """
        await self._send(question)

    async def cancel(self) -> None:
        """Ask for the best so far."""
        await self._send(CANCEL)

    async def _send(self, message: Any) -> None:
        try:
            await asyncio.to_thread(self._connection.send, message)
        except (OSError, ValueError):
            raise GoneError from None

    async def heard(self) -> Any:
        """Return the next message.

        Raises
        ------
        GoneError
            If the process has ended.
        """
        message = await self._messages.get()
        if message is None:
            raise GoneError
        return message

    async def end(self) -> None:
        """End the process now, whatever it does, and remove its folder."""
        try:
            with contextlib.suppress(GoneError, TimeoutError):
                async with asyncio.timeout(ENDING_S):
                    await self._send(END)
                    await asyncio.to_thread(self.process.join, ENDING_S)
        finally:  # also where nobody has the time to wait
            self.process.kill()
            self.process.join(ENDING_S)
            self._connection.close()
            if self._folder:
                shutil.rmtree(self._folder, ignore_errors=True)

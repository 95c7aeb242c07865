"""The process of a worker: it hears questions and answers one at a time."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from multiprocessing.connection import Connection

from placer.errors import PlacerError
from placer.service.working.messages import Outcome, Question, Ready, Reply
from placer.service.working.session import Session
from placer.solving.allowance import bounded_address_space

COLLECTED = 50_000
"""New objects after which garbage is looked for, as on the command line."""
CANCEL = "cancel"
"""What the service sends to end the running search with the best so far."""
END = "end"
"""What it sends to end the process, whatever that does."""


def main(connection: Connection, catalog: tuple[str, ...], memory_bytes: int) -> None:
    """Answer questions until the other end of the connection is gone.

    Notes
    -----
    The folder of the process is an empty one of its own, so that no name in a question can be that
    of a file.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service
    gc.set_threshold(COLLECTED)
    with tempfile.TemporaryDirectory(prefix="placer-worker-", ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        session = Session(catalog, memory_bytes)
        with bounded_address_space(memory_bytes):
            try:
                connection.send(Ready(books=session.books(), folder=folder))
            except PlacerError as error:
                connection.send(Ready(problem=str(error)))
                return
            _serve(connection, session, folder)
        os.chdir("/")


def _serve(connection: Connection, session: Session, folder: str) -> None:
    questions: queue.SimpleQueue[Question] = queue.SimpleQueue()
    cancelled = threading.Event()

    def hear() -> None:
        """Pass questions on; without a service there is nobody to answer."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                message = connection.recv()
                if message == END:
                    break
                if message == CANCEL:
                    cancelled.set()
                else:
                    cancelled.clear()
                    questions.put(message)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=hear, daemon=True, name="hear").start()
    while True:
        question = questions.get()
        try:
            reply = session.reply(question, connection.send, cancelled)
        except Exception:
            # The service says that it failed; what failed is for its log.
            traceback.print_exc(file=sys.stderr)
            reply = Reply(outcome=Outcome.FAILED, worn=True)
        connection.send(reply)

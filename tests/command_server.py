"""A process that runs commands of placer, each in a fork of it.

Imports take most of the CPU time of a short command. A forked command has its own arguments,
working folder, environment, output files, exit handlers and exit code, as one that a shell starts.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

COLD = ("--completion", "profile", "run", "serve")
"""Commands that load PyTorch or start processes, which would begin as this module."""
SHARED = ("--jobs", "--dask")
"""Options with which alone a sweep starts processes."""
LEFT_OUT = (
    "placer.__main__",
    "placer.launch.re",
    "placer.launch.runtime",
    "placer.launch.shaped_network",
    "placer.profiler",
    "placer.service",
)
"""What the other commands do not load, by the beginning of its name."""


def is_cold(arguments: Sequence[str]) -> bool:
    """Whether a command needs a process that no server has forked."""
    if arguments[:1] == ("whatif",):
        return not {*SHARED}.isdisjoint(arguments)
    return not arguments or arguments[0] in COLD or arguments[:2] == ("config", "check")


def serve() -> int:
    """Fork a process for each request on stdin, and say its id and its exit code on stdout."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _command(json.loads(line))
        _say(pid)
        _say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return 0


def _say(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _load() -> None:
    """Import what the commands import when they run."""
    root = Path(__file__).resolve().parent.parent
    folders = {"placer": root / "placer", "placer.solvers": root / "solvers"}
    modules = [
        ".".join((package, *path.relative_to(folder).with_suffix("").parts))
        for package, folder in folders.items()
        for path in folder.rglob("*.py")
    ]
    for name in ("numpy.ma", "numpy.random", *sorted(modules)):
        if not name.startswith(LEFT_OUT):
            with contextlib.suppress(ImportError):  # an optional package that is not there
                importlib.import_module(name.removesuffix(".__init__"))


def _command(request: Mapping[str, Any]) -> NoReturn:
    """Take the request's folder, environment and files for one's own, run it and exit.

    Threads are waited for and exit handlers run as at the end of any process. What would follow, to
    take a thousand modules apart that this process shares with the server, copies all their pages
    and takes longer than a short command.
    """
    from placer.cli import run

    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate((os.devnull, request["stdout"], request["stderr"])):
        os.dup2(os.open(name, os.O_RDWR), number)
    code: object = None
    try:
        run(request["arguments"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


class CommandServer:
    """The server as tests see it; it starts when it is first asked."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {**environment, "OPENBLAS_NUM_THREADS": "1"}  # no thread before a fork
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command and return what it printed and its exit code."""
        with (
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as out,
            tempfile.NamedTemporaryFile("r", encoding="utf-8") as err,
        ):
            request = {
                "arguments": [*arguments],
                "cwd": str(cwd),
                "environment": {**environment},
                "stdout": out.name,
                "stderr": err.name,
            }
            code = self._code(json.dumps(request), timeout_s)
            return subprocess.CompletedProcess(["placer", *arguments], code, out.read(), err.read())

    def close(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _code(self, request: str, timeout_s: float) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__],
                bufsize=0,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        requests, replies = self._process.stdin, self._process.stdout
        assert requests is not None
        assert replies is not None
        pid = 0
        try:
            requests.write(f"{request}\n".encode())
            pid = int(replies.readline())
            if not select.select([replies], [], [], timeout_s)[0]:
                raise subprocess.TimeoutExpired("placer", timeout_s)
            return int(replies.readline())
        except BaseException:
            if pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.close()
            raise


if __name__ == "__main__":
    _load()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # as in conftest.py
    sys.exit(serve())

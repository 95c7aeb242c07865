"""Instances and helpers that several tests use."""

import atexit
import gc
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from _pytest.doctest import DoctestModule
from browsing import BROWSER, NO_BROWSER
from command_server import CommandServer, is_cold
from filelock import FileLock
from hypothesis import settings
from served import Served, serving

from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.workload.profile import load_profile

settings.register_profile("drawn", deadline=None, max_examples=100)
settings.register_profile("same", settings.get_profile("drawn"), derandomize=True, max_examples=20)
settings.load_profile("same")
"""Examples have no time limit of their own: tests share a busy machine. They are the same each
time, so that no change fails by chance; `make fuzz` draws others.
"""
pytest.register_assert_rewrite("book_contract", "proofs")
HOME = Path(tempfile.mkdtemp(prefix="placer-tests-"))
os.environ["PLACER_HOME"] = str(HOME)
"""No test reads or writes the books, pins and caches of the person who runs it."""
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
"""Some 200 processes and every worker of xdist read what one of them has compiled."""
with suppress(ValueError):  # outside the main thread no handler can be set
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
"""What a shell starts in the background ignores Ctrl-C, and so would every process of a test."""
ROOT = Path(__file__).resolve().parent.parent
PROCESS_TIMEOUT_S = 150.0
"""Longest wait for a process: shorter than the time-out of a test, so that its output is seen."""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
"""Threads that wait for each other on cores that several workers share burn time."""
gc.set_threshold(20_000, 20, 20)
"""To look for rings after every 700 objects took a tenth of a search."""


@pytest.fixture(autouse=True, scope="module")
def without_old_garbage() -> None:
    """Keep what collection and earlier modules made out of the garbage collector, which the
    profiler calls often.

    A worker holds seven thousand tests and PyTorch: to walk them all took most of the time of a
    short test, and five times as long as alone for the file of a profiled model.
    """
    gc.collect()
    gc.freeze()


class DoctestsWhereTheyAre:
    """Look for doctests only in files that have one.

    Each process that collects would import all modules else, with the servers and the parts of
    PyTorch that few of them need. A plugin of its own, because what a conftest says of files holds
    in its folder.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Leave out the modules of doctests that would have none."""
        collected = yield
        if file_path.suffix != ".py" or ">>> " in file_path.read_text(encoding="utf-8"):
            return collected
        return [one for one in collected if not isinstance(one, DoctestModule)]


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin for all folders that are collected."""
    config.pluginmanager.register(DoctestsWhereTheyAre())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start a worker more for each two cores: a quarter of the time tests wait for processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (3 * (cores or 1) + 1) // 2


SLOW = (
    "launch/rehearsal",
    "launch/export/test_export_runtime.py",
    "launch/runtime/test_full_disk.py",
    "launch/runtime/test_checkpoint.py",
    "launch/runtime/test_run_command.py",
    "launch/runtime/test_runtime.py",
    "launch/runtime/test_torchft.py",
    "market/sources/test_refresh_aws.py",
    "problem/test_use.py",
    "profiler/test_profile_command.py",
    "project/test_documents.py",
    "project/test_examples.py",
    "project/test_packaging.py",
    "service",
    "solvers/test_against_enumeration.py",
    "solvers/test_heuristics.py",
    "solvers/test_milp.py",
    "solvers/test_solvers.py",
    "solving/test_batch_range.py",
    "reproduction/test_reproduce.py",
)
"""Folders and files of tests that together take most of the time: all of them are marked slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `SLOW`. Those that need another installation of Python come last: CI makes
    it beside the tests.
    """
    slow = [ROOT / "tests" / name for name in SLOW]
    is_slow = cache(lambda path: any(path.is_relative_to(one) for one in slow))
    for item in items:
        if is_slow(item.path):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("other_python") is not None)


INTERRUPTIBLE = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT}); "
    "from placer.cli import run; run()"
)
"""``python -c`` for the command where Ctrl-C is tried: what is started in the background of a shell
inherits that it is ignored.
"""


def completed(
    words: Sequence[str | Path], *, timeout: float = PROCESS_TIMEOUT_S, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; ``how`` as `subprocess.run` takes it: ``check`` that it ends well,
    ``cwd``, ``env``.
    """
    check = how.pop("check", False)
    return subprocess.run(
        words, capture_output=True, text=True, timeout=timeout, check=check, **how
    )


def in_fresh_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own in the checkout; it must end well."""
    return completed([sys.executable, "-c", code], check=True, cwd=ROOT)


def free_port() -> int:
    """Find a port that nobody listens on, below those that the system gives out to others
    meanwhile.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Fill a folder that all workers of a session share; whoever asks first makes it, and whoever
    finds that another one failed tries again.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            part = folder.with_name(f"{name}-part")
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            part.rename(folder)
    return folder


@cache
def _compiled() -> tuple[Path, ...]:
    """The shipped book of most commands as the cache keeps it, compiled once in a session."""
    home = HOME / "compiled"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACER_HOME", str(home))
        load_catalog("default")
    return tuple((home / "cache" / "catalogs").iterdir())


def home_with_book(home: Path) -> Path:
    """Put the compiled default book into the cache of a home, where each test would compile it."""
    folder = home / "cache" / "catalogs"
    folder.mkdir(parents=True, exist_ok=True)
    for book in _compiled():
        with suppress(FileExistsError):
            (folder / book.name).hardlink_to(book)
    return home


@pytest.fixture(scope="session")
def erben() -> Catalog:
    """The April 2023 book of Erben et al."""
    return load_catalog("erben-2023")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """An empty object store: moto's S3, whose buckets all servers of a process share."""
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    httpx2.post(f"{address}/moto-api/reset")
    yield address
    server.stop()


@pytest.fixture(scope="session")
def phalak() -> Catalog:
    """The book of Phalak et al.: three clouds in four cities."""
    return load_catalog("phalak-2023")


@pytest.fixture(scope="session")
def default() -> Catalog:
    """The book that `recommend` uses without flags."""
    return load_catalog("default")


@pytest.fixture
def xlm(erben: Catalog) -> Problem:
    """XLM-RoBERTa on the April 2023 book, no limits."""
    return Problem(profile=load_profile("roberta-xlm"), catalog=erben, requirements=Requirements())


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Run the command line in a process of its own, 80 columns, without colour."""
    usual = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    server = CommandServer({**os.environ, **usual})

    def call(
        *arguments: str, columns: int = 80, cwd: Path | None = None, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **usual, "COLUMNS": str(columns), **extra}
        if "PYTHONPATH" not in extra and not is_cold(arguments):
            return server.run(arguments, cwd or Path.cwd(), environment, PROCESS_TIMEOUT_S)
        return completed([sys.executable, "-m", "placer", *arguments], env=environment, cwd=cwd)

    yield call
    server.close()


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process, else as `run` does.

    Cheaper where PyTorch is needed: this process, and the server from which a run's processes are
    forked, load it once for all tests.
    """

    def call(
        *arguments: str, columns: int = 80, cwd: Path | None = None, **extra: str
    ) -> subprocess.CompletedProcess[str]:
        from placer.cli import run as run_command

        environment = {"COLUMNS": str(columns), "NO_COLOR": "1", "PYTHONPATH": str(ROOT), **extra}
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            if cwd is not None:
                patch.chdir(cwd)
            capsys.readouterr()
            with pytest.raises(SystemExit) as end:
                run_command(arguments)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(list(arguments), int(end.value.code or 0), out, err)

    return call


@pytest.fixture
def warm_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the machines of runs that this process launches from a server that has PyTorch."""
    from warm_machines import started

    from placer.launch.runtime.processes import launcher

    replaced = SimpleNamespace(Popen=started, PIPE=subprocess.PIPE)
    monkeypatch.setattr(launcher, "subprocess", replaced)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with one worker and short limits, for the tests that only ask."""
    pytest.importorskip("litestar")
    options = ("--workers", "1", "--time-limit", "20s", "--body-limit", "200KB")
    with serving(tmp_path_factory.mktemp("service"), *options) as served:
        yield served


@pytest.fixture
def client(service: Served) -> Iterator[httpx2.Client]:
    """A client of that service."""
    with service.client() as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for the tests of a file, which `browsing.Seen` opens windows of."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    if BROWSER is None:
        pytest.skip(NO_BROWSER)
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()

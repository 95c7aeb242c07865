"""Every limit of the service, each reached by a real request."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from listening import listeners
from served import BOOK, LONG, QUESTION, Served, serving

from conftest import Run
from placer.service.problems import FullError
from placer.service.settings import Settings
from placer.service.telemetry import Metrics
from placer.service.working.messages import Outcome, Question, Reply
from placer.service.working.pool import Pool
from placer.service.working.worker import Worker

TOKEN = "0123456789abcdef" * 2


def test_a_worker_that_outlives_the_service_is_not_heard() -> None:
    """Its end finds the loop closed: nobody waits, so the thread that heard it ends quietly."""

    async def started() -> Worker:
        return Worker(Settings())

    worker = asyncio.run(started())
    worker.process.kill()
    for thread in threading.enumerate():
        if thread.name == "hear worker":
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service with a token, one worker, and room for one question that waits."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "token").write_text(f"{TOKEN}\n")
    options = ("--token-file", str(folder / "token"), "--workers", "1", "--waiting", "1")
    with serving(folder, *options, "--grace", "1s", "--allow-host", "placer.example") as served:
        yield served


def test_it_listens_on_loopback_alone(service: Served) -> None:
    """No socket of the process or its workers can be reached from another machine."""
    assert {address for address, _, _ in listeners(service.process.pid)} == {"127.0.0.1"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104
def test_beyond_loopback_a_token_is_needed(host: str, command: Run) -> None:
    """It is refused before anything listens."""
    done = command("serve", "--host", host)
    assert done.returncode == 2
    assert "no token is asked for" in done.stderr
    assert "--token-file" in done.stderr


@pytest.mark.parametrize("text", ["", "short", "two words that are long enough", "\xe9" * 40])
def test_a_weak_token_is_refused(text: str, command: Run, tmp_path: Path) -> None:
    """An empty file, few characters, or what a header cannot carry."""
    (tmp_path / "token").write_text(text)
    done = command("serve", "--token-file", str(tmp_path / "token"))
    assert done.returncode == 2
    assert "token" in done.stderr


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--catalog", "nope"),
        ("--time-limit", "soon"),
        ("--memory-limit", "much"),
        ("--token-file", "/nowhere"),
        ("--jobs", "/proc/jobs"),
        ("--port", "99999"),
    ],
)
def test_a_wrong_option_ends_before_anything_listens(
    option: str, value: str, run: Run, command: Run
) -> None:
    """With one line that names the value."""
    call = run if option == "--jobs" else command  # a process has a socket by then
    done = call("serve", "--port", "0", option, value)
    assert done.returncode == 2
    assert value in done.stderr
    assert "Traceback" not in done.stderr


def test_two_services_do_not_share_jobs(service: Served, run: Run) -> None:
    """The second one is told, and the first keeps its file."""
    done = run("serve", "--port", "0", "--jobs", str(service.jobs))
    assert done.returncode == 2
    assert "another service has the jobs" in done.stderr


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "placer_page=x"}]
)
def test_without_the_token_nobody_asks(header: dict[str, str], guarded: Served) -> None:
    """Status 401 with the scheme; probes need none."""
    with guarded.client(headers=header) as client:
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/estimate"), ("GET", "/metrics")):
            answer = client.request(method, path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_the_form_takes_the_token_once(guarded: Served) -> None:
    """The cookie that then stands for it is hidden from scripts and other sites."""
    with guarded.client() as client:
        assert client.get("/v1/models").status_code == 401
        answer = client.post("/login", data={"token": TOKEN})
        kept = answer.headers["set-cookie"].lower()
        assert "httponly" in kept
        assert "samesite=strict" in kept
        assert TOKEN.lower() not in kept
        assert client.get("/v1/models").status_code == 200


def test_foreign_names_and_pages_are_kept_out(client: httpx2.Client) -> None:
    """A name that resolves to loopback, and a page of another site that posts."""
    assert client.get("/v1/models", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/healthz", headers={"Host": "10.1.2.3:8642"}).status_code == 200  # a probe
    headers = {"Origin": "http://evil.example"}
    answer = client.post("/v1/recommend", json=QUESTION, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/origin")


@pytest.mark.parametrize("method", ["DELETE", "TRACE"])
def test_a_wrong_method_is_told_which_are_right(method: str, client: httpx2.Client) -> None:
    """As HTTP asks (RFC 9110, 15.5.6): in the header, on a page and elsewhere."""
    for path, right in (("/v1/recommend", "POST"), ("/healthz", "GET"), ("/compare", "GET")):
        answer = client.request(method, path)
        assert answer.status_code == 405
        assert right in answer.headers["allow"].split(", ")


def test_a_large_body_is_refused(client: httpx2.Client) -> None:
    """200 kB are the limit of this service; a body without a length is counted as it comes."""
    body = b"[" + b" " * 300_000 + b"]"
    assert client.post("/v1/recommend", content=body).status_code == 413

    def parts() -> Iterator[bytes]:
        for start in range(0, len(body), 50_000):
            yield body[start : start + 50_000]

    with contextlib.suppress(httpx2.WriteError):  # it hangs up before all of it has come
        assert client.post("/v1/recommend", content=parts()).status_code == 413


def test_a_search_ends_in_its_time(client: httpx2.Client) -> None:
    """With the best so far: 1 s, and a little for what follows a search."""
    started = time.monotonic()
    answer = client.post("/v1/recommend", json={**LONG, "time_limit": "1s"})
    assert answer.json()["status"] == "time_limit"
    assert time.monotonic() - started < 15  # on a machine that others use too


def test_memory_of_a_request_is_limited(client: httpx2.Client) -> None:
    """A limit that is reached at once; more than the service has is cut to that."""
    answer = client.post("/v1/recommend", json={**LONG, "memory_limit": "20MB"})
    assert answer.json()["status"] == "memory_limit"
    answer = client.post("/v1/recommend", json={**QUESTION, "memory_limit": "900GB"})
    assert answer.json()["status"] == "optimal"


def test_a_full_queue_sends_away(guarded: Served) -> None:
    """One question is worked on and one waits: the third is told when to ask again."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with guarded.client(headers=headers) as client, ThreadPoolExecutor(6) as threads:
        body = {**LONG, "time_limit": "2s", "alternatives": False}
        asked = [threads.submit(client.post, "/v1/recommend", json=body) for _ in range(6)]
        answers = [one.result() for one in asked]
    codes = sorted(answer.status_code for answer in answers)
    assert codes[0] == 200
    assert codes[-1] == 429
    sent_away = next(answer for answer in answers if answer.status_code == 429)
    assert 1 <= int(sent_away.headers["retry-after"]) <= 60


def test_whoever_hangs_up_frees_the_worker(guarded: Served) -> None:
    """A search of 20 s is ended when its asker is gone: the next question is answered at once."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with guarded.client(headers=headers) as client:
        with pytest.raises(httpx2.ReadTimeout):
            client.post("/v1/recommend", json={**LONG, "time_limit": "20s"}, timeout=1.0)
        started = time.monotonic()
        assert client.post("/v1/recommend", json=QUESTION).status_code == 200
        assert time.monotonic() - started < 12


def test_a_slow_body_is_not_waited_for(tmp_path: Path) -> None:
    """Of ten promised bytes one comes; the rest is not waited for beyond the limit."""

    async def ask() -> int:
        from placer.service.application import application

        settings = Settings(jobs_file=tmp_path / "jobs", body_s=0.2, workers=1)
        app = application(settings)
        sent: list[Any] = []
        parts = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> Any:
            if parts:
                return parts.pop()
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": "/v1/recommend", "raw_path": b"/v1/recommend",
            "query_string": b"", "root_path": "", "headers": [(b"host", b"localhost")],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1), "state": {},
        }  # fmt: skip
        await app(scope, receive, send)  # type: ignore[arg-type]
        app.state.desk._store.close()
        return int(sent[0]["status"])

    assert asyncio.run(ask()) == 408


def test_a_header_that_never_ends_is_cut_off(service: Served) -> None:
    """A head above 64 KiB is answered with 400, and the connection closed."""
    address = urlsplit(service.address)
    with socket.create_connection((address.hostname, address.port), timeout=20) as link:
        link.sendall(b"GET / HTTP/1.1\r\nX: ")
        with contextlib.suppress(OSError):
            for _ in range(40):
                link.sendall(b"x" * 4096)
        with contextlib.suppress(ConnectionResetError):
            assert b" 400 " in link.recv(1000)


@contextlib.asynccontextmanager
async def pooled(**limits: Any) -> AsyncIterator[Pool]:
    """A pool of one worker, without a server."""
    pool = Pool(Settings(workers=1, **limits), Metrics())
    pool.start()
    try:
        while not pool.ready:
            assert not pool.problem.startswith("unknown")
            await asyncio.sleep(0.02)
        yield pool
    finally:
        await pool.stop()


def question(seconds: float = 5.0, **words: Any) -> Question:
    """A question to estimate, as the service hands it to a worker."""
    given = {"model": "roberta-xlm", "workers": "gcp/us-central1=4xT4:spot", "catalog": (BOOK,)}
    return Question(name="estimate", words={**given, **words}, seconds=seconds)


def worker_of(pool: Pool) -> int:
    """Return the process of the one worker of a pool."""
    import multiprocessing

    (child,) = [p for p in multiprocessing.active_children() if p.name == "placer worker"]
    assert child.pid is not None
    assert pool.ready == 1
    return child.pid


def test_a_process_that_hangs_or_dies_is_replaced() -> None:
    """A worker that hangs is killed after its time, and its asker is told. The question of one that
    dies is asked once more: it is answered, or fails where that worker dies too. Another worker
    answers the next question.
    """

    async def ask() -> list[Reply]:
        async with pooled(grace_s=0.3) as pool:
            first = worker_of(pool)
            os.kill(first, signal.SIGSTOP)  # as a loop that nobody can interrupt
            replies = [await pool.ask(question(seconds=0.3), asyncio.Event())]
            replies.append(await pool.ask(question(), asyncio.Event()))
            second = worker_of(pool)
            assert second != first
            os.kill(second, signal.SIGSTOP)
            asked = asyncio.create_task(pool.ask(question(), asyncio.Event()))
            await asyncio.sleep(0.1)
            os.kill(second, signal.SIGKILL)
            replies.append(await asked)
            long = Question(name="recommend", words=LONG, seconds=60, searches=1)
            asked = asyncio.create_task(pool.ask(long, asyncio.Event()))
            for _ in range(2):
                while not pool.ready:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.2)  # it has begun
                os.kill(worker_of(pool), signal.SIGKILL)
                while pool.ready:
                    await asyncio.sleep(0.02)
            return [*replies, await asked, await pool.ask(question(), asyncio.Event())]

    outcomes = [reply.outcome for reply in asyncio.run(ask())]
    answered = Outcome.ANSWERED
    assert outcomes == [Outcome.STOPPED, answered, answered, Outcome.FAILED, answered]


def test_a_waiting_question_can_be_given_up() -> None:
    """It leaves the queue. Where three wait, a second each, half of them are answered in two."""

    async def ask() -> str:
        async with pooled(waiting=3, grace_s=0.1) as pool:
            os.kill(worker_of(pool), signal.SIGSTOP)
            ends = [asyncio.Event() for _ in range(4)]
            asked = []
            for end in ends:
                asked.append(asyncio.create_task(pool.ask(question(seconds=9), end)))
                await asyncio.sleep(0.05)
            with pytest.raises(FullError) as full:
                await pool.ask(question(), asyncio.Event())
            for end in ends[1:]:
                end.set()
            given_up = await asyncio.gather(*asked[1:])
            assert {reply.outcome for reply in given_up} == {Outcome.CANCELLED}
            ends[0].set()
            await asked[0]
            return full.value.hint

    assert asyncio.run(ask()) == "ask again in 2 s"


def test_connections_that_say_nothing_stop_nobody(tmp_path: Path) -> None:
    """1,000 idle ones and 1,000 with half a head, then half a body: probes and questions are
    answered meanwhile, and the service closes them, those above 256 of an address at once. 520
    idle ones stopped it for everybody. A connection that has asked is kept for the next question.
    """
    halves = (b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-a: ")
    body = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nmodel="
    with (
        serving(tmp_path, "--workers", "1") as served,
        served.client() as client,
        contextlib.ExitStack() as watched,
    ):
        address, ends = urlsplit(served.address), []
        for half in (*halves, body):
            with contextlib.ExitStack() as links:
                kept = HTTPConnection(address.hostname or "", address.port, timeout=20)
                kept.request("GET", "/healthz")
                assert kept.getresponse().read() == b'{"alive": true}'
                for number in range(1_000):
                    link = socket.create_connection((address.hostname, address.port), timeout=20)
                    if number in (0, 999):  # one for the limit, one for the time
                        ends.append(watched.enter_context(link))
                    else:
                        links.enter_context(link)
                    with contextlib.suppress(ConnectionError):
                        link.sendall(half)
                assert client.get("/healthz").status_code == 200
                assert client.post("/v1/recommend", json=QUESTION).status_code == 200
                assert len([*Path(f"/proc/{served.process.pid}/fd").iterdir()]) < 400
                kept.request("GET", "/healthz")
                assert kept.getresponse().status == 200
                kept.close()
        for link in ends:
            with contextlib.suppress(ConnectionError):
                assert link.recv(1) == b""


def test_workers_end_with_the_service(tmp_path: Path) -> None:
    """Also when it is killed: nobody is left who burns a core."""
    with serving(tmp_path, "--workers", "2") as served:
        workers = served.workers()
        assert len(workers) == 2
        served.kill()
        end = time.monotonic() + 20
        while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < end:
            time.sleep(0.05)
        assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]

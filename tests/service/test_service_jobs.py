"""Jobs: accepted, followed, cancelled, and not lost when the service is killed."""

import asyncio
import contextlib
import json
import resource
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from served import LONG, QUESTION, Served, serving

from placer.errors import PlacerError
from placer.service.jobs.desk import Desk
from placer.service.jobs.store import Job, State, Store
from placer.service.problems import GateError, refused
from placer.service.settings import Settings
from placer.service.telemetry import Metrics
from placer.service.working.messages import Outcome, Reply
from placer.service.working.pool import Pool

MANY_PLACES = "gcp," * 2_000 + "gcp"
LONG_JOB = {"verb": "recommend", "question": {**LONG, "time_limit": "60s", "alternatives": False}}


def finished(client: httpx2.Client, id_: str, seconds: float = 60.0) -> dict[str, Any]:
    """Wait until a job is finished."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job: dict[str, Any] = client.get(f"/v1/jobs/{id_}").json()
        if State(job["state"]).finished:
            return job
        time.sleep(0.05)
    raise AssertionError(f"job {id_} is {job['state']}")


def events(client: httpx2.Client, id_: str, last: str = "done") -> list[tuple[str, Any]]:
    """Read the events of a job up to one of a kind."""
    found = []
    with client.stream("GET", f"/v1/jobs/{id_}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: ") and kind:
                found.append((kind, json.loads(line.removeprefix("data: "))))
                if kind == last:
                    break
    return found


def test_a_job_is_accepted_followed_and_taken_out(client: httpx2.Client) -> None:
    """The answer is the document of the question; the manifest is a file."""
    accepted = client.post("/v1/jobs", json={"question": QUESTION})
    assert accepted.status_code == 202
    id_ = accepted.json()["id"]
    assert accepted.headers["location"] == f"/v1/jobs/{id_}"
    heard = events(client, id_)
    assert heard[-1] == ("done", {"state": "done"})
    job = finished(client, id_)
    assert job["started"] >= job["created"]
    answer = client.get(job["answer"]).json()
    assert answer["schema"] == "placer.result/v1"
    manifest = client.get(job["manifest"])
    assert manifest.headers["content-disposition"] == 'attachment; filename="plan.json"'
    assert manifest.json()["world_size"] == 8  # 8 x A10 of the README
    assert events(client, id_) == [("state", {"state": "done"}), ("done", {"state": "done"})]
    assert client.delete(f"/v1/jobs/{id_}").status_code == 202
    assert client.get(f"/v1/jobs/{id_}").status_code == 404


def test_the_best_so_far_is_told_with_its_gap(client: httpx2.Client) -> None:
    """Better placements as they are found, and soon a bound on the whole question."""
    hard = {"gpu": ["T4", "A10"], "exchange": "asgd-ga", "local_steps": "1..16"}
    question = {**QUESTION, "budget": "20/h", "alternatives": False, **hard, "time_limit": "60s"}
    id_ = client.post("/v1/jobs", json={"question": question}).json()["id"]
    best: list[dict[str, Any]] = []
    with client.stream("GET", f"/v1/jobs/{id_}/events") as stream:
        for line in stream.iter_lines():
            if line.startswith("data: ") and "value" in line:
                best.append(json.loads(line.removeprefix("data: ")))
                if best[-1]["gap"] is not None:
                    break
    assert best[-1]["unit"] == "samples/s"
    assert best[-1]["bound"] >= best[-1]["value"]
    values = [one["value"] for one in best]
    assert values == sorted(values)
    assert client.get(f"/v1/jobs/{id_}/answer").status_code == 409
    assert client.delete(f"/v1/jobs/{id_}").status_code == 202
    job = finished(client, id_)
    assert job["state"] == "cancelled"
    answer = client.get(job["answer"]).json()  # the best until then
    assert answer["objective"]["value"] >= values[-1] * 0.999


def test_a_job_of_a_wrong_question_is_not_accepted(client: httpx2.Client) -> None:
    """The word is named, and nothing is kept."""
    for body, field in (
        ({"verb": "magic", "question": QUESTION}, "verb"),
        ({"question": {**QUESTION, "budgte": "5/h"}}, "budgte"),
        ({"questions": QUESTION}, "questions"),
        ({"question": {**QUESTION, "time_limit": "2d"}}, "time_limit"),
    ):
        answer = client.post("/v1/jobs", json=body)
        assert (answer.status_code, answer.json().get("field")) == (422, field)
    assert client.get("/v1/jobs/nope").status_code == 404
    assert client.delete("/v1/jobs/nope").status_code == 404
    assert client.get("/v1/jobs/nope/events").status_code == 404


@pytest.mark.timeout(175)
def test_what_was_accepted_survives_a_kill(tmp_path: Path) -> None:
    """Killed while one job runs and three wait: all four are answered, or say that they are not. A
    fifth, cancelled while it waits, has no answer of which a manifest might be. No worker is left
    that burns a core.

    The second kill hits the job that runs again, which is then given up as interrupted.
    """
    with serving(tmp_path, "--workers", "1") as first, first.client() as client:
        long = client.post("/v1/jobs", json=LONG_JOB).json()["id"]
        while client.get(f"/v1/jobs/{long}").json()["state"] != "running":
            time.sleep(0.02)
        bodies = [{"question": {**QUESTION, "budget": f"{n}/h"}} for n in (3, 4, 5)]
        *short, unwanted = [
            client.post("/v1/jobs", json=body).json()["id"] for body in (*bodies, bodies[0])
        ]
        client.delete(f"/v1/jobs/{unwanted}")
        job = finished(client, unwanted)
        for part in (job["answer"], job["manifest"]):
            assert "the job was cancelled before it had an answer" in client.get(part).text
        (worker,) = first.workers()
        first.kill()
        end = time.monotonic() + 20
        while Path(f"/proc/{worker}").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert not Path(f"/proc/{worker}").exists()
    with serving(tmp_path, "--workers", "1") as second, second.client() as client:
        end = time.monotonic() + 60
        while client.get(f"/v1/jobs/{long}").json()["attempts"] < 2 and time.monotonic() < end:
            time.sleep(0.02)
        second.kill()
    with serving(tmp_path, "--workers", "1") as third, third.client() as client:
        assert [finished(client, id_)["state"] for id_ in short] == ["done"] * 3
        job = finished(client, long)
        assert (job["state"], job["attempts"]) == ("interrupted", 2)
        assert client.get(job["answer"]).json()["type"] == "/problems/interrupted"
        assert third.end() == 0


def test_a_shutdown_ends_streams_and_keeps_jobs(tmp_path: Path) -> None:
    """Exit code 0 within seconds, though somebody listens to a job that runs."""
    with serving(tmp_path, "--workers", "1", "--grace", "2s") as served, served.client() as client:
        id_ = client.post("/v1/jobs", json=LONG_JOB).json()["id"]
        with client.stream("GET", f"/v1/jobs/{id_}/events") as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: state"
            started = time.monotonic()
            assert served.end() == 0
            assert time.monotonic() - started < 20
            with contextlib.suppress(httpx2.TransportError):
                assert "event: done" not in list(lines)
    base = sqlite3.connect(tmp_path / "jobs.sqlite")
    with contextlib.closing(base):
        assert base.execute("SELECT finished FROM jobs").fetchall() == [(None,)]


def test_old_jobs_are_forgotten(tmp_path: Path) -> None:
    """By age and by number; unfinished ones never are."""
    store = Store(tmp_path / "jobs")
    for name in "abcd":
        store.add(name, "recommend", {})
    for name in "abc":
        store.finish(name, State.DONE, document=b"{}")
    assert store.prune(keep_s=60, most=2) == 1
    assert store.get("a") is None
    assert store.prune(keep_s=-1, most=2) == 2
    assert [job.id for job in store.unfinished()] == ["d"]
    store.close()


@pytest.mark.parametrize("content", [b"no database at all" * 100, b""])
def test_a_file_that_is_no_store_is_refused(content: bytes, tmp_path: Path) -> None:
    """Without touching it; an empty one becomes a store."""
    path = tmp_path / "jobs"
    path.write_bytes(content)
    if content:
        with pytest.raises(PlacerError, match="cannot keep jobs"):
            Store(path)
        assert path.read_bytes() == content
    else:
        Store(path).close()


@pytest.mark.parametrize(
    ("column", "value"), [("words", "{"), ("words", "[]"), ("state", "lost"), ("created", "soon")]
)
def test_a_row_that_cannot_be_read_is_set_aside(column: str, value: str, tmp_path: Path) -> None:
    """The others go on, and the row is kept in a table of its own."""
    path = tmp_path / "jobs"
    store = Store(path)
    for name in "ab":
        store.add(name, "recommend", {})
    store.close()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute(f"UPDATE jobs SET {column} = ? WHERE id = 'a'", (value,))  # noqa: S608
    store = Store(path)
    assert [job.id for job in store.unfinished()] == ["b"]
    assert store.get("a") is None
    store.close()
    with contextlib.closing(sqlite3.connect(path)) as base:
        assert base.execute(f"SELECT id, {column} FROM unreadable").fetchall() == [("a", value)]  # noqa: S608


def test_a_disk_that_is_full_fails_a_job_and_frees_its_slot(tmp_path: Path) -> None:
    """SQLite may take no more pages: the job that runs fails with its reason, further ones are not
    accepted, and once there is room the same service takes and answers a job. The next service
    does not run again what was said to have failed.
    """

    async def ask() -> tuple[str, bool, str, str, list[Job]]:
        settings = Settings(jobs_file=tmp_path / "jobs", workers=1, seconds=5, job_seconds=5)
        pool = Pool(settings, Metrics())
        store = Store(settings.jobs_file)
        desk = Desk(settings, pool, store)
        pool.start()
        await desk.start()

        async def ended(id_: str) -> str:
            while desk.is_running(id_):
                await asyncio.sleep(0.02)
            job = await desk.get(id_)
            assert job is not None
            return f"{job.state} {(job.problem or {}).get('status', '')}"

        try:
            first = await desk.submit("recommend", QUESTION)
            pages = store._base.execute("PRAGMA page_count").fetchone()[0]
            store._base.execute(f"PRAGMA max_page_count = {pages}")
            failed, refused = await ended(first.id), False
            while not refused:
                try:
                    await desk.submit("recommend", {**QUESTION, "places": MANY_PLACES})
                except GateError:
                    refused = True
            store._base.execute("PRAGMA max_page_count = 100000")
            done = await ended((await desk.submit("recommend", QUESTION)).id)
        finally:
            await desk.stop()
            await pool.stop()
        again = Store(settings.jobs_file)
        kept, unfinished = again.get(first.id), again.unfinished()
        again.close()
        assert kept is not None
        return failed, refused, done, str(kept.state), unfinished

    failed, refused, done, kept, unfinished = asyncio.run(ask())
    assert (failed, refused, done) == ("failed 507", True, "done ")
    assert (kept, unfinished) == ("failed", [])


@pytest.mark.parametrize(
    ("outcome", "is_named"),
    [(Outcome.FAILED, True), (Outcome.STOPPED, True), (Outcome.REFUSED, False)],
)
def test_the_log_names_a_job_that_the_service_failed(
    outcome: Outcome, is_named: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its process died or had to be ended; a wrong question is the asker's own affair."""

    async def end() -> None:
        settings, store = Settings(), Store(tmp_path / "jobs")
        store.add("a", "recommend", {})
        desk = Desk(settings, Pool(settings, Metrics()), store)
        await desk._finish("a", State.FAILED, refused(Reply(outcome=outcome)), {})
        await desk.stop()

    asyncio.run(end())
    assert ("job a has no answer" in caplog.text) == is_named


def hand_in(served: Served, accepted: list[str], clients: int = 8) -> None:
    """Hand in jobs from several clients, until each was refused or the service is gone, and name
    those that were accepted.
    """

    def one(number: int) -> None:
        with served.client() as client, contextlib.suppress(httpx2.TransportError):
            for turn in range(8):
                budget = f"{2 + (number + turn) % 8}/h"
                question = {**QUESTION, "budget": budget, "places": MANY_PLACES}
                job = client.post("/v1/jobs", json={"question": question})
                if job.status_code != 202:
                    assert (job.status_code, job.json()["type"]) == (507, "/problems/disk")
                    break
                accepted.append(job.json()["id"])

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(one, range(clients)))


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_kills_and_a_full_disk_under_load_lose_no_job(tmp_path: Path) -> None:
    """Killed three times while 8 clients hand in jobs, then on a disk that takes 200 kB more: each
    accepted job is finished, the log names each that has no answer, and the next service leaves all
    as they are. The page says that the disk is full. Each run kills one service with four jobs and
    fills one disk, above.
    """
    accepted: list[str] = []
    log = ""
    for _ in range(3):
        with serving(tmp_path) as served, ThreadPoolExecutor(1) as thread:
            handing_in, before = thread.submit(hand_in, served, accepted), len(accepted)
            while len(accepted) < before + 10:
                time.sleep(0.01)
            served.kill()
            handing_in.result()
            assert served.process.stderr is not None
            log += served.process.stderr.read()
    with serving(tmp_path) as served, served.client() as client:
        accepted.append(client.post("/v1/jobs", json={"question": QUESTION}).json()["id"])
        finished(client, accepted[-1], 200.0)  # however busy the machine is, one has its answer
        pid, (_, most) = served.process.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
        bytes_ = served.jobs.stat().st_size + 200_000
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (bytes_, most))
        hand_in(served, accepted)
        shown = client.post("/ask", data={**QUESTION, "more": f"places={MANY_PLACES}"})
        assert shown.status_code == 507
        assert "cannot be kept" in shown.text
        assert 'value="5/h"' in shown.text
        states = [finished(client, id_)["state"] for id_ in accepted]
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        assert served.end() == 0
        assert served.process.stderr is not None
        log += served.process.stderr.read()
    assert {"done", "failed"} <= set(states) <= {"done", "failed", "interrupted"}
    silent = [id_ for id_, state in zip(accepted, states, strict=True) if state != "done"]
    assert [id_ for id_ in silent if id_ not in log] == []
    with serving(tmp_path) as served, served.client() as client:
        assert [client.get(f"/v1/jobs/{id_}").json()["state"] for id_ in accepted] == states

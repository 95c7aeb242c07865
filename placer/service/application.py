"""The service as an ASGI application: addresses, limits and errors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Mapping
from typing import Any

from litestar import Litestar, MediaType, Request, Response, delete, get, post
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.response import ServerSentEvent, ServerSentEventMessage
from litestar.types import ASGIApp

from placer.documents.schemas import SCHEMA_NAMES, schema_text
from placer.errors import PlacerError, unknown
from placer.files.json_text import parse_json
from placer.interface.verb import Verb
from placer.records import Json
from placer.service import openapi
from placer.service.jobs.desk import Desk
from placer.service.jobs.store import Job, State, Store
from placer.service.pages import routes as pages
from placer.service.pages.report import Reports
from placer.service.problems import (
    CONTENT_TYPE,
    DISK_HINT,
    KIND_OF_STATUS,
    OPEN,
    PROBE,
    GateError,
    guard,
    problem_of,
    refused,
)
from placer.service.questions.body import WordError, question_of, question_of_list
from placer.service.questions.words import LISTS, VERBS
from placer.service.settings import Settings
from placer.service.telemetry import CONTENT_TYPE as METRICS_TYPE
from placer.service.telemetry import Metrics, age_s, span
from placer.service.working.messages import Outcome, Question, Reply
from placer.service.working.pool import Pool

LOG = logging.getLogger("placer.service")
JSON = MediaType.JSON
KEEP_ALIVE_S = 15.0
"""A stream of events says something at least so often, so that nobody on the way closes it."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
HUNG_UP = "client disconnected prematurely"
"""What Litestar says of a client that goes away before it has sent its body."""
Asked = Request[Any, Any, Any]


def application(settings: Settings) -> Litestar:
    """Build the service.

    Raise `PlacerError` if its file of jobs cannot be used.
    """
    metrics = Metrics()
    pool = Pool(settings, metrics)
    desk = Desk(settings, pool, Store(settings.jobs_file))
    metrics.watch(lambda: pool.ready, lambda: pool.books)

    @contextlib.asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        pool.start()
        await desk.start()
        try:
            yield
        finally:
            await desk.stop()
            await pool.stop()

    app = Litestar(
        [
            *(_verb_route(verb) for verb in VERBS.values()),
            *(_list_route(name) for name in LISTS),
            *ROUTES,
            *pages.ROUTES,
        ],
        guards=[guard],
        exception_handlers={
            PlacerError: _said_wrong,
            GateError: _kept_out,
            HTTPException: _not_understood,
            sqlite3.Error: _not_kept,
            Exception: _failed,
        },
        lifespan=[lifespan],
        openapi_config=None,
        request_max_body_size=settings.body_bytes,
        before_send=[_finish],
        middleware=[_traced],
        logging_config=None,
    )
    app.state.settings, app.state.pool, app.state.desk = settings, pool, desk
    app.state.metrics, app.state.reports = metrics, Reports()
    return app


async def _finish(message: Any, scope: Any) -> None:
    """Add the headers that every answer has, and count it."""
    if message["type"] != "http.response.start":
        return
    given = {name.lower() for name, _ in message["headers"]}
    for name, value in HEADERS.items():
        if name.lower().encode() not in given:
            message["headers"].append((name.lower().encode(), value.encode()))
    scope["litestar_app"].state.metrics.requested(scope["method"], message["status"])
    scope["state"].get("note", len)({"http.response.status_code": message["status"]})


def _traced(app: ASGIApp) -> ASGIApp:
    """Trace requests by the pattern of their address."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        with span(f"{scope['method']} {scope['path_template']}") as note:
            scope["state"]["note"] = note
            await app(scope, receive, send)

    return run


# --- Reading requests ---


async def body_of(request: Asked) -> Any:
    """Read the JSON of a request; `GateError` if it is late, too large or no JSON."""
    settings: Settings = request.app.state.settings
    try:
        async with asyncio.timeout(settings.body_s):
            raw = await request.body()
    except TimeoutError:
        raise GateError("late", f"the body did not arrive within {settings.body_s:g} s") from None
    try:
        return parse_json(raw)
    except json.JSONDecodeError as error:
        raise GateError(
            "body", f"line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise GateError("body", f"not valid JSON: {error}") from None


async def answer(request: Asked, question: Question) -> Reply:
    """Have a question answered while its asker waits; one who goes away ends the search."""
    cancelled = asyncio.Event()

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancelled.set()

    leaving = asyncio.create_task(leave())
    try:
        reply: Reply = await request.app.state.pool.ask(question, cancelled)
        return reply
    finally:
        leaving.cancel()


def replied(reply: Reply) -> Response[bytes]:
    """Turn what came of a question into a response."""
    if reply.outcome is Outcome.ANSWERED:
        return Response(reply.document, media_type=JSON)
    return problem_response(refused(reply))


def said(
    document: Json, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = JSON
) -> Response[bytes]:
    """Return a document as a response."""
    text = json.dumps(document).encode()
    return Response(text, status_code=status, media_type=kind, headers=headers)


def problem_response(problem: Json, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """Return the details of a problem as a response."""
    return said(problem, int(problem["status"]), headers, CONTENT_TYPE)


def _verb_route(verb: Verb) -> HTTPRouteHandler:
    @post(f"/v1/{verb.name}", status_code=200, name=verb.name)
    async def ask(request: Asked) -> Response[bytes]:
        most_s = request.app.state.settings.seconds
        question = question_of(verb, await body_of(request), most_s)
        return replied(await answer(request, question))

    return ask


def _list_route(name: str) -> HTTPRouteHandler:
    @get(f"/v1/{name}", name=name)
    async def show(request: Asked) -> Response[bytes]:
        question = question_of_list(name, request.query_params.dict())
        return replied(await answer(request, question))

    return show


# --- Schemas, jobs, probes ---


@get("/v1/schemas")
async def schemas() -> Response[bytes]:
    """List the names of the JSON Schemas."""
    return said({"schema": "placer.schemas/v1", "schemas": list(SCHEMA_NAMES)})


@get("/v1/schemas/{name:str}")
async def schema(request: Asked) -> Response[bytes]:
    """Return a JSON Schema."""
    name = request.path_params["name"]
    if name not in SCHEMA_NAMES:
        error = unknown("schema", name[:60], SCHEMA_NAMES)
        raise GateError("missing", error.message, error.hint)
    return Response(schema_text(name).encode(), media_type="application/schema+json")


@get("/openapi.json")
async def openapi_document() -> Response[bytes]:
    """Return the OpenAPI document."""
    return Response(openapi.text(), media_type=JSON)


@post("/v1/jobs", status_code=202)
async def new_job(request: Asked) -> Response[bytes]:
    """Accept a long question."""
    body = await body_of(request)
    if not isinstance(body, dict):
        hint = 'send {"verb": "pareto", "question": {}}'
        raise PlacerError("the body is not a JSON object", hint)
    for name in body:
        if name not in ("verb", "question"):
            raise WordError(name, unknown("word", name, ("verb", "question")))
    desk: Desk = request.app.state.desk
    job = await desk.submit(body.get("verb", "recommend"), body.get("question", {}))
    response = _job_said(desk, job, 202)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return response


@get("/v1/jobs/{id_:str}")
async def job(request: Asked) -> Response[bytes]:
    """Say how a job stands."""
    return _job_said(*await found_job(request))


@delete("/v1/jobs/{id_:str}", status_code=202)
async def end_job(request: Asked) -> Response[bytes]:
    """End an unfinished job with the best so far, or forget a finished one."""
    desk, job = await found_job(request)
    await desk.cancel(job.id)
    return _job_said(desk, job, 202)


@get("/v1/jobs/{id_:str}/answer")
async def job_answer(request: Asked) -> Response[bytes]:
    """Return the document of a finished job."""
    return await job_part(request, "document")


@get("/v1/jobs/{id_:str}/manifest")
async def job_manifest(request: Asked) -> Response[bytes]:
    """Return the launch manifest of a finished job, as a file."""
    response = await job_part(request, "manifest")
    if response.status_code in (None, 200):
        response.headers["Content-Disposition"] = 'attachment; filename="plan.json"'
    return response


@get("/v1/jobs/{id_:str}/events")
async def job_events(request: Asked) -> Response[Any]:
    """Tell what becomes of a job, as server-sent events."""
    desk, job = await found_job(request)
    return ServerSentEvent(_events(desk, job.id))


async def _events(desk: Desk, id_: str) -> AsyncIterator[ServerSentEventMessage]:
    async with desk.listening(id_) as heard:
        job, best = await desk.get(id_), desk.best(id_)
        if job is None:
            return
        yield _event("state", {"state": str(job.state)})
        if best is not None:
            yield _event("better", best)
        if heard is None or job.state.finished:
            yield _event("done", {"state": str(job.state)})
            return
        while not desk.stopping:
            try:
                kind, data = await asyncio.wait_for(heard.get(), KEEP_ALIVE_S)
            except TimeoutError:
                yield ServerSentEventMessage(comment="still here")
                continue
            if kind == "end":
                return
            yield _event(kind, data)
            if kind == "done":
                return


def _event(kind: str, data: Json) -> ServerSentEventMessage:
    return ServerSentEventMessage(event=kind, data=json.dumps(data))


async def found_job(request: Asked) -> tuple[Desk, Job]:
    """Return the job of an address, and the desk; `GateError` if there is none of that name."""
    desk, id_ = request.app.state.desk, request.path_params["id_"]
    job = await desk.get(id_)
    if job is None:
        kept = "finished jobs are kept for a while only"
        raise GateError("missing", f"no job '{id_[:60]}'", kept)
    return desk, job


async def job_part(request: Asked, name: str) -> Response[bytes]:
    """Return the document or the manifest of a job."""
    desk, job = await found_job(request)
    if not job.state.finished:
        raise GateError("unfinished", f"the job is {job.state}", "follow it at /v1/jobs/ID/events")
    part = await desk.part(job.id, name)
    if part is not None:
        return Response(part, media_type=JSON)
    if job.problem is not None:
        return problem_response(job.problem)
    if job.state is State.CANCELLED and await desk.part(job.id, "document") is None:
        raise GateError("missing", "the job was cancelled before it had an answer")
    raise GateError("missing", f"the answer has no {name}")


def _job_said(desk: Desk, job: Job, status: int = 200) -> Response[bytes]:
    address = f"/v1/jobs/{job.id}"
    document = {
        "schema": "placer.job/v1",
        "id": job.id,
        "verb": job.verb,
        "question": job.words,
        "state": str(job.state),
        "attempts": job.attempts,
        "created": job.created,
        "started": job.started,
        "finished": job.finished,
        "best": desk.best(job.id),
        "problem": job.problem,
        **{part: f"{address}/{part}" for part in ("events", "answer", "manifest")},
    }
    return said(document, status)


@get("/healthz", opt={OPEN: True, PROBE: True})
async def healthz() -> Response[bytes]:
    """Say that the process is alive."""
    return said({"alive": True})


@get("/readyz", opt={OPEN: True, PROBE: True})
async def readyz(request: Asked) -> Response[bytes]:
    """Say whether questions can be answered, and how old the books are."""
    pool: Pool = request.app.state.pool
    if not pool.ready:
        problem = problem_of("starting", pool.problem, "try again")
        return problem_response(problem, {"Retry-After": "1"})
    books = []
    for book in pool.books:
        seconds = age_s(book.as_of)
        days = None if seconds is None else int(seconds // 86_400)
        books.append({"name": book.name, "digest": book.digest, "as_of": book.as_of, "days": days})
    return said({"ready": True, "workers": pool.ready, "books": books})


@get("/metrics")
async def metrics_text(request: Asked) -> Response[bytes]:
    """Return the counters."""
    return Response(request.app.state.metrics.text(), media_type=METRICS_TYPE)


ROUTES = (
    *(schemas, schema, openapi_document, healthz, readyz, metrics_text),
    *(new_job, job, end_job, job_answer, job_manifest, job_events),
)


# --- Errors ---


def _said_wrong(request: Asked, error: PlacerError) -> Response[bytes]:
    field = error.field if isinstance(error, WordError) else ""
    return _refuse(request, problem_of("words", error.message, error.hint, field))


def _kept_out(request: Asked, error: GateError) -> Response[bytes]:
    if error.kind == "token" and _for_people(request):
        return pages.elsewhere("/login")
    return _refuse(request, problem_of(error.kind, error.detail, error.hint), error.headers)


def _not_understood(request: Asked, error: HTTPException) -> Response[bytes]:
    if error.detail == HUNG_UP:  # no fault of the service, and nobody reads this
        return problem_response(problem_of("late", "the body did not arrive"))
    if error.status_code >= 500:
        return _failed(request, error)
    kind = KIND_OF_STATUS.get(error.status_code, "body")
    allowed = (error.headers or {}).get("allow")
    problem = {**problem_of(kind, error.detail), "status": error.status_code}
    return _refuse(request, problem, {"Allow": allowed} if allowed else None)


def _not_kept(request: Asked, error: sqlite3.Error) -> Response[bytes]:
    LOG.error("the file of jobs: %s", error)
    return _refuse(request, problem_of("disk", str(error), DISK_HINT))


def _failed(request: Asked, error: Exception) -> Response[bytes]:
    """Say that the service failed, and nothing of how: that is for its log."""
    LOG.error("request failed", exc_info=error)
    return _refuse(request, problem_of("failed", "the service failed", "its reason is in the log"))


def _refuse(
    request: Asked, problem: Json, headers: Mapping[str, str] | None = None
) -> Response[bytes]:
    """Say what is wrong: on a page where people look, elsewhere as details of a problem."""
    if not _for_people(request):
        return problem_response(problem, headers)
    words = f"{problem['title']} {problem.get('detail', '')}"
    response = pages.refusal(problem["status"], words, problem.get("hint", ""))
    response.headers.update(headers or {})
    return response


def _for_people(request: Asked) -> bool:
    return f"/{str(request.scope['path']).split('/')[1]}" in pages.PATHS

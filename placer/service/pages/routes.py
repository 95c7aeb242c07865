"""The web page: ask, follow, see, change a wish, compare, take the manifest."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jinja2
from litestar import MediaType, Request, Response, get, post

from placer.errors import PlacerError, one_line
from placer.report.contents import contents
from placer.service.jobs.desk import Desk
from placer.service.jobs.store import Job, State
from placer.service.pages.form import MORE, VERBS, fields_of, typed_again, words_of
from placer.service.pages.report import Reports, policy_of
from placer.service.problems import COOKIE, OPEN, GateError
from placer.service.settings import Settings
from placer.service.working.pool import Pool
from placer.version import __version__, install_line

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing inline runs, and nothing from elsewhere is loaded."""
MOST_FIELDS = 60
Asked = Request[Any, Any, Any]


@cache
def _environment() -> jinja2.Environment:
    loader = jinja2.PackageLoader("placer.service", "pages")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined)


def page(name: str, status: int = 200, **given: Any) -> Response[bytes]:
    """Render a template."""
    text = _environment().get_template(f"{name}.html").render(version=__version__, **given)
    headers = {"Content-Security-Policy": POLICY}
    return Response(text.encode(), status_code=status, media_type=MediaType.HTML, headers=headers)


def elsewhere(path: str) -> Response[bytes]:
    """Send a browser to another page of the service."""
    return Response(b"", status_code=303, headers={"Location": path}, media_type=MediaType.TEXT)


def refusal(status: int, words: str, hint: str = "") -> Response[bytes]:
    """Say on a page why there is nothing to see."""
    return page("refusal", status, words=one_line(words), hint=one_line(hint))


@get("/")
async def form(request: Asked) -> Response[bytes]:
    """Show the form, with what the address says typed in: a link shares a question."""
    return _form(request, {key: values[-1] for key, values in request.query_params.dict().items()})


def _form(
    request: Asked, typed: Mapping[str, str], error: PlacerError | None = None, status: int = 200
) -> Response[bytes]:
    pool: Pool = request.app.state.pool
    wrong = getattr(error, "field", "")
    return page(
        "form",
        status,
        **_asking(typed, wrong),
        error=None if error is None else (one_line(error.message), one_line(error.hint)),
        wrong=wrong,
        books=pool.books,
        before=typed.get("before", ""),
    )


def _asking(typed: Mapping[str, str], wrong: str = "") -> dict[str, Any]:
    return {
        "fields": fields_of(typed, wrong),
        "verbs": VERBS,
        "verb": typed.get("verb", "recommend"),
        "more": typed.get(MORE, ""),
    }


async def _typed(request: Asked) -> dict[str, str]:
    """Read what a form sends; the last value of a name counts."""
    text = (await request.body()).decode("utf-8", errors="replace")
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise PlacerError("the form has too many fields", "send it from the page") from None


@post("/ask")
async def ask(request: Asked) -> Response[bytes]:
    """Accept the question of the form as a job, and go to its answer."""
    desk: Desk = request.app.state.desk
    typed = await _typed(request)
    try:
        verb, words = words_of(typed)
        job = await desk.submit(verb, words)
    except GateError as full:  # of questions that wait, or of a disk
        response = _form(request, typed, PlacerError(full.detail, full.hint), full.status)
        response.headers.update(full.headers)
        return response
    except PlacerError as error:
        return _form(request, typed, error, 422)
    before = typed.get("before", "")
    query = f"?{urlencode({'before': before})}" if before else ""
    return elsewhere(f"/answers/{job.id}{query}")


@get("/answers/{id_:str}")
async def answer(request: Asked) -> Response[bytes]:
    """Show an answer, or how its search goes."""
    desk: Desk = request.app.state.desk
    job = await desk.get(request.path_params["id_"])
    if job is None:
        return refusal(404, "There is no such answer.", "Answers are kept for a while only.")
    before = request.query_params.get("before", "")
    typed = typed_again(job.verb, job.words)
    shared: dict[str, Any] = {"job": job, "before": before, "question": "/?" + urlencode(typed)}
    if not job.state.finished:
        return page("waiting", **shared, best=desk.best(job.id))
    document = await desk.part(job.id, "document")
    manifest = await desk.part(job.id, "manifest")
    view = None if document is None else _view(document)
    return page(
        "answer",
        **shared,
        **_asking(typed, (job.problem or {}).get("field", "")),
        view=view,
        state=_state_words(job, document),
        has_manifest=manifest is not None,
        has_report=view is not None and Reports.possible(),
        other=await _other(desk, before),
    )


def _view(document: bytes) -> Any:
    try:
        return contents(json.loads(document))
    except PlacerError:
        return None


async def _other(desk: Desk, id_: str) -> Any:
    """Return what was answered before a wish was changed; None without."""
    document = await desk.part(id_, "document") if id_ else None
    return None if document is None else _view(document)


def _state_words(job: Job, document: bytes | None) -> str:
    """Say why an answer is missing, or not the last word; empty where it is."""
    if job.state is State.CANCELLED:
        best = "; this is the best until then." if document else " before it had an answer."
        return f"The search was cancelled{best}"
    if job.problem is None:
        return ""
    return "; ".join(filter(None, (job.problem.get("detail"), job.problem.get("hint"))))


@post("/answers/{id_:str}/cancel")
async def cancel(request: Asked) -> Response[bytes]:
    """End a search with the best so far."""
    desk: Desk = request.app.state.desk
    id_ = request.path_params["id_"]
    if desk.is_running(id_):
        await desk.cancel(id_)
    return elsewhere(f"/answers/{id_}")


@get("/answers/{id_:str}/report")
async def report(request: Asked) -> Response[bytes]:
    """Show the report of an answer: map, charts, sources."""
    desk: Desk = request.app.state.desk
    id_ = request.path_params["id_"]
    document = await desk.part(id_, "document")
    if document is None or not Reports.possible():
        return refusal(404, "There is no report of this.", install_line("report"))
    drawn = await request.app.state.reports.of(id_, document)
    if drawn is None:
        return refusal(404, "This answer cannot be drawn.")
    headers = {"Content-Security-Policy": policy_of(drawn)}
    return Response(drawn, media_type=MediaType.HTML, headers=headers)


@get("/compare")
async def compare(request: Asked) -> Response[bytes]:
    """Put two answers side by side."""
    desk: Desk = request.app.state.desk
    names = [request.query_params.get(key, "") for key in ("a", "b")]
    views = [await _other(desk, name) for name in names]
    if None in views:
        return refusal(404, "One of the two answers is not here.")
    return page("compare", pairs=list(zip(names, views, strict=True)))


@get("/login", opt={OPEN: True})
async def login_form(request: Asked) -> Response[bytes]:
    """Ask for the token."""
    return page("login", wrong=False)


@post("/login", opt={OPEN: True})
async def login(request: Asked) -> Response[bytes]:
    """Take the token once, and keep a cookie that stands for it."""
    settings: Settings = request.app.state.settings
    given = (await _typed(request)).get("token", "").strip()
    if not hmac.compare_digest(given.encode(), (settings.token or "").encode()):
        return page("login", 401, wrong=True)
    response = elsewhere("/")
    response.set_cookie(
        key=COOKIE, value=settings.cookie, httponly=True, samesite="strict", path="/"
    )
    return response


@get("/static/page.css", opt={OPEN: True})
async def style() -> Response[bytes]:
    """Return the style sheet."""
    return Response(_file("page.css"), media_type="text/css")


@get("/static/page.js", opt={OPEN: True})
async def script() -> Response[bytes]:
    """Return the script that follows a search."""
    return Response(_file("page.js"), media_type="text/javascript")


def _file(name: str) -> bytes:
    return files("placer.service.pages").joinpath(name).read_bytes()


@get("/api", sync_to_thread=False)
def api() -> Response[bytes]:
    """Show the OpenAPI document, and try its operations."""
    if find_spec(SWAGGER) is None:
        return refusal(404, "This page needs Swagger UI.", f"install it: {install_line('openapi')}")
    return page("api")


@get("/static/{name:str}", opt={OPEN: True})
async def swagger_part(request: Asked) -> Response[bytes]:
    """Return the script or the style sheet of Swagger UI."""
    name = request.path_params["name"]
    if name not in SWAGGER_PARTS or find_spec(SWAGGER) is None:
        raise GateError("missing", f"no file '{name[:60]}'")
    folder, kind = SWAGGER_PARTS[name]
    text = files(SWAGGER).joinpath("swagger-ui", folder, name).read_bytes()
    return Response(text, media_type=kind)


SWAGGER = "mkdocs_swagger_ui_tag"
"""The smallest package that ships Swagger UI 5, which reads OpenAPI 3.1; nothing of it is run."""
SWAGGER_PARTS = {
    "swagger-ui-bundle.js": ("javascripts", "text/javascript"),
    "swagger-ui.css": ("stylesheets", "text/css"),
}
ROUTES = (
    *(form, ask, answer, cancel, report, compare, login_form, login),
    *(style, script, api, swagger_part),
)
PATHS = frozenset({"/", "/ask", "/answers", "/api", "/compare"})
"""First parts of addresses that are for people: without a token they lead to the form for it."""

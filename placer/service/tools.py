"""The verbs and lists as tools of the Model Context Protocol, for assistants."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from placer.documents.schemas import schema_document
from placer.errors import PlacerError, one_line, unknown
from placer.records import Json, replace
from placer.report.blocks import asides, in_text
from placer.report.contents import contents
from placer.report.draw.terminal import plain_text
from placer.service.openapi import body_schema
from placer.service.problems import GateError, refused
from placer.service.questions.body import question_of, question_of_list
from placer.service.questions.words import LISTS, VERBS, words_of
from placer.service.settings import Settings, listen
from placer.service.telemetry import Metrics
from placer.service.working.messages import Outcome, Question, Reply
from placer.service.working.pool import Pool
from placer.service.working.session import said
from placer.version import __version__

COLUMNS = 100
PROGRESS_S = 1.0
"""Seconds between two notes of how long a call has taken, to clients that want them."""
MOST_KEPT = 64
"""Answers that are kept by name; the oldest is forgotten first."""
MANIFEST = "manifest"
"""The tool that returns the launch manifest of an earlier answer, and the word that takes one."""
INSTRUCTIONS = """\
placer decides where a model is trained: machines, regions, markets and gradient exchange. Start \
with recommend. Words are those of the command line; each figure of an answer says whether it is \
measured, published, estimated or assumed: pass that on, with the doubt and the proof. Each answer \
has a name, such as answer-1, which stands for its document where a later call takes one; manifest \
returns its launch manifest. Nothing is written, rented or started."""


class Tools:
    """The tools, and the last answers by name."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = Pool(settings, Metrics())
        self._numbers = count(1)
        self._answers: dict[str, Reply] = {}

    def server(self) -> Server[None]:
        """Build the server of the protocol."""

        @contextlib.asynccontextmanager
        async def lifespan(server: Server[None]) -> AsyncIterator[None]:
            self.pool.start()
            try:
                yield
            finally:
                await self.pool.stop()

        async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
            return types.ListToolsResult(tools=tools())

        async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
            telling = asyncio.ensure_future(self._tell_time(ctx.session.report_progress))
            try:
                return await self.call(params.name, params.arguments or {})
            except PlacerError as error:
                return wrong(error.message, error.hint)
            except GateError as error:
                return wrong(error.detail, error.hint)
            finally:
                telling.cancel()

        return Server(
            "placer",
            version=__version__,
            instructions=INSTRUCTIONS,
            lifespan=lifespan,
            on_list_tools=listed,
            on_call_tool=called,
        )

    async def _tell_time(self, report: Callable[[float, float], Awaitable[None]]) -> None:
        """Report the seconds of a call, of those that a search may take."""
        for number in count(1):
            await asyncio.sleep(PROGRESS_S)
            await report(number * PROGRESS_S, self.settings.seconds)

    async def call(self, name: str, words: Json) -> types.CallToolResult:
        """Answer a call: the document, and the short answer as text.

        Raise `PlacerError`, which names the tool, or the word that is wrong.
        """
        if name == MANIFEST:
            given = words.get("answer")
            text = f"The launch manifest of {given}, for 'placer run' and 'placer export'."
            return right(text, self._document(MANIFEST, given))
        if name not in VERBS and name not in LISTS:
            raise unknown("tool", name, [*VERBS, *LISTS, MANIFEST])
        question = self._question(name, words)
        cancelled = asyncio.Event()
        try:
            reply = await self.pool.ask(question, cancelled)
        finally:
            cancelled.set()  # of a call that its client gave up
        if reply.outcome is not Outcome.ANSWERED:
            problem = refused(reply)
            return wrong(problem["detail"], problem.get("hint", ""))
        document = json.loads(reply.document)
        text = short(document)
        if name in VERBS:
            text += f"\n\nThis answer is {self._keep(reply)}."
        return right(text, document)

    def _question(self, name: str, words: Json) -> Question:
        if name in VERBS:
            named = {
                word: self._document(word, value) if isinstance(value, str) else value
                for word, value in words.items()
                if word in documents_of(name)
            }
            return question_of(VERBS[name], {**words, **named}, self.settings.seconds)
        given = {word: value for word, value in words.items() if value is not None}
        texts = {
            word: [str(part) for part in value] if isinstance(value, list) else [str(value)]
            for word, value in given.items()
        }
        return question_of_list(name, texts)

    def _keep(self, reply: Reply) -> str:
        name = f"answer-{next(self._numbers)}"
        self._answers[name] = reply
        if len(self._answers) > MOST_KEPT:
            del self._answers[next(iter(self._answers))]
        return name

    def _document(self, word: str, name: Any) -> Any:
        """Return what a word takes of an earlier answer: its manifest, or its document."""
        if name not in self._answers:
            raise unknown("answer", one_line(str(name), 60), self._answers)
        reply = self._answers[name]
        if word != MANIFEST:
            return json.loads(reply.document)
        if not reply.manifest:
            raise PlacerError(f"{name} has no manifest", "name an answer that has a placement")
        return json.loads(reply.manifest)


def tools() -> list[types.Tool]:
    """List the tools with the JSON Schemas of their words, as the service has them."""
    hints = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    def tool(name: str, summary: str, words: dict[str, Any], answer: dict[str, Any]) -> types.Tool:
        return types.Tool(
            name=name,
            description=summary,
            input_schema=words,
            output_schema=answer,
            annotations=hints,
        )

    verbs = [
        tool(verb.name, verb.summary, _with_names(verb.name), core_schema(verb.document))
        for verb in VERBS.values()
    ]
    # In an address a catalog is repeated, here it is a list.
    own = {"catalog": words_of("recommend")["catalog"]}
    words = {
        name: _object({word: own.get(word, rows[word]) for word in rows})
        for name, rows in LISTS.items()
    }
    lists = [tool(name, f"List the {name}.", words[name], core_schema(name)) for name in LISTS]
    answer = {"type": "string", "description": "Name of an earlier answer, such as answer-1."}
    manifest = _object({"answer": answer}) | {"required": ["answer"]}
    summary = "Return the launch manifest of an earlier answer."
    # A manifest with islands is of another version.
    either = {"type": "object", "anyOf": [core_schema(f"manifest{v}") for v in ("", "-v2")]}
    return [*verbs, *lists, tool(MANIFEST, summary, manifest, either)]


def core_schema(document: str) -> dict[str, Any]:
    """Return what a client may rely on in a document: its keys that are always there, with their
    kinds, and the objective with value, bound and gap. Whole schemas would take 450 kB in a list
    that each conversation reads; ``placer validate --schema`` prints them.
    """
    whole = schema_document(document)
    parts = whole.get("$defs", {})

    def kind(schema: dict[str, Any], *, deep: bool) -> dict[str, Any]:
        own = parts[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
        if "anyOf" in own:
            return {"anyOf": [kind(one, deep=deep) for one in own["anyOf"]]}
        brief = {key: own[key] for key in ("type", "enum", "const") if key in own}
        if deep and "properties" in own:
            rows = {name: own["properties"][name] for name in own.get("required", ())}
            named = {name: kind(row, deep=name == "objective") for name, row in rows.items()}
            brief |= {"properties": named, "required": [*named]}
        return brief

    return kind(whole, deep=True)


def documents_of(verb: str) -> list[str]:
    """List the words of a verb that are whole documents: an earlier answer may stand for them."""
    words = words_of(verb)
    return [word for word, schema in words.items() if schema.get("type") == "object"]


def _with_names(verb: str) -> dict[str, Any]:
    schema = body_schema(VERBS[verb])
    for word in documents_of(verb):
        kind = schema["properties"][word]
        said = f"{kind['description']} Or the name of an earlier answer, such as answer-1."
        schema["properties"][word] = {**kind, "type": ["object", "string"], "description": said}
    return schema


def _object(properties: Json) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def short(document: Json) -> str:
    """Say the answer in short: its sentence, its figures and its first section, with warnings; of
    launch files their texts.
    """
    if document["schema"] == "placer.export/v1":
        return "\n\n".join(f"{row['name']}:\n{row['text']}" for row in document["files"])
    report = contents(document)
    brief = in_text(replace(report, sections=report.sections[:1]))
    lines = [plain_text(brief, COLUMNS)]
    lines += [f"{tone}: {words}" for tone, words in asides(report) if tone == "warning"]
    return said("\n".join(lines))


def right(text: str, document: Json) -> types.CallToolResult:
    """Return an answer."""
    content = types.TextContent(type="text", text=text)
    return types.CallToolResult(content=[content], structured_content=document)


def wrong(message: str, hint: str) -> types.CallToolResult:
    """Return an error as one line."""
    line = one_line(f"{message} ({hint})" if hint else message)
    return types.CallToolResult(content=[types.TextContent(type="text", text=line)], is_error=True)


async def serve_stdio(settings: Settings) -> None:
    """Serve the program that started this one, until it closes stdin."""
    server = Tools(settings).server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def serve_http(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve on loopback until a signal ends it; `PlacerError` if the port is taken."""
    with listen(settings) as listening:
        app = Tools(settings).server().streamable_http_app(host=settings.host)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=1, ws="none"
        )
        tell(f"http://{settings.host}:{listening.getsockname()[1]}/mcp")
        uvicorn.Server(config).run(sockets=[listening])

"""Answer questions in a worker: one advisor, whose books and profiles are read once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from placer.cost_model.objective import Objective, gap_between, objective_of
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.interface.listings import catalogs_document, models_document, offers_document, offers_of
from placer.market.catalog import Catalog
from placer.problem.words.wishes import WISHES
from placer.records import replace
from placer.service.questions.body import WordError, check_books
from placer.service.questions.words import VERBS
from placer.service.working.messages import Better, Book, Outcome, Question, Reply
from placer.solving import allowance
from placer.solving.allowance import Cancel, resident_bytes
from placer.workload.overlay import overlay_from
from placer.workload.profile import profile_from_json

MOST_BOOKS = 8
"""Stacks of price books that a worker keeps; then it begins anew."""
MOST_MODELS = 64
WORN_SHARE = 0.6
"""Share of its memory that a worker may hold between questions; then it is replaced."""
LEAST_STEP = 1e-4
"""A gap that is closer by less is not told."""
LEAST_PAUSE_S = 0.05
"""Better placements that follow each other faster are not told one by one."""
FLAGS = {wish.flag: wish.name for wish in WISHES.values()}
"""Words of a request by the option of the command line, for messages."""
Tell = Callable[[Better], None]


class Session:
    """What a worker keeps from one question to the next. ``catalog`` names the books of questions
    that name none (empty: those that are pinned), ``memory_bytes`` the resident memory of the
    process at which a search ends with the best so far.
    """

    def __init__(self, catalog: tuple[str, ...], memory_bytes: int) -> None:
        self.catalog = catalog
        self.memory_bytes = memory_bytes
        self._begin()

    def _begin(self) -> None:
        self.advisor = Advisor(self.catalog or None)
        self._stacks: set[tuple[str, ...]] = set()
        self._models: set[str] = set()

    def books(self) -> tuple[Book, ...]:
        """Read the books of questions that name none."""
        book = self.advisor.book()
        return (Book(name=book.name, digest=book.digest, as_of=book.as_of[1]),)

    def reply(self, question: Question, tell: Tell, cancel: Cancel) -> Reply:
        """Answer a question, or say what is wrong with it; nothing is raised."""
        started = time.monotonic()
        try:
            if len(self._stacks) > MOST_BOOKS or len(self._models) > MOST_MODELS:
                self._begin()  # each is kept once read
            reply = ANSWERS[question.name](self, question, tell, cancel)
        except PlacerError as error:
            field = self._field(error, question)
            reply = _refused(said(error.message), said(error.hint), field=field)
        except MemoryError:
            much = "the question takes more memory than this service gives it"
            reply = _refused(much, "ask for fewer places, models of GPU or workers", worn=True)
        except RecursionError:
            reply = _refused("the document is nested too deeply")
        worn = reply.worn or resident_bytes() > WORN_SHARE * self.memory_bytes
        return replace(reply, seconds=time.monotonic() - started, worn=worn)

    def book(self, names: tuple[str, ...] | None) -> Catalog:
        """Return a catalog, and count it among those that are kept."""
        if names is not None:
            self._stacks.add(names)
        return self.advisor.book(names)

    def asked(self, question: Question) -> dict[str, Any]:
        """Return the words of a question as its verb takes them."""
        words = self._read(question.words)
        if "jobs" in words:
            words["jobs"] = [self._read(job) for job in words["jobs"]]
        self.book(words.get("catalog"))
        return words

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return words with the objects that whole documents stand for."""
        words = dict(given)
        model = words.get("model")
        if isinstance(model, Mapping):
            words["model"] = profile_from_json(json.dumps(model).encode(), "model")
        elif model is not None:
            self._models.add(model)
        if isinstance(words.get("calibration"), Mapping):
            words["calibration"] = overlay_from(words["calibration"], "calibration")
        return words

    def limits(self, question: Question) -> dict[str, Any]:
        """Return the limits of a search: what is asked for, within those of the service."""
        from placer.interface.options import memory_bytes

        try:
            asked = memory_bytes(question.words.get("memory_limit", self.memory_bytes))
        except PlacerError as error:
            raise WordError("memory_limit", error) from None
        return {"time_limit": question.seconds, "memory_limit": min(asked, self.memory_bytes)}

    @staticmethod
    def _field(error: PlacerError, question: Question) -> str:
        if error.field in question.words or isinstance(error, WordError):
            return error.field
        return next((name for name in question.words if name in error.message), "")


def said(text: str) -> str:
    """Return a message with the words of a request for the options of the command line.

    >>> said("use --min-throughput, or --exchange central")
    'use min_throughput, or exchange central'
    """
    return re.sub(r"--[a-z][a-z-]*", lambda m: FLAGS.get(m[0], m[0][2:].replace("-", "_")), text)


def _refused(message: str, hint: str = "", **more: Any) -> Reply:
    return Reply(outcome=Outcome.REFUSED, message=message, hint=hint, **more)


def _listed(document: Any) -> Reply:
    return Reply(outcome=Outcome.ANSWERED, document=_json(document))


def _json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False).encode()


def _ask(session: Session, question: Question, tell: Tell, cancel: Cancel) -> Reply:
    verb = VERBS[question.name]
    words = session.asked(question)
    hears: dict[str, Any] = {}
    if verb.searches:
        hears = {"cancel": cancel, **session.limits(question)}
    if verb.searches == 1 and "solver" in verb.rows:
        posed = {n: v for n, v in words.items() if n in WISHES or n in ("model", "catalog")}
        teller = _Teller(objective_of(session.advisor.problem(**posed).requirements), tell)
        hears |= {"on_better": teller.heard, "on_bound": teller.proved}
    # A verb of several searches may ask many more: together they take no longer than is promised.
    several = verb.searches > 1
    with allowance.opened(question.longest_s) if several else nullcontext():
        return _replied(verb.function(advisor=session.advisor, **{**words, **hears}))


def _saved(session: Session, question: Question, tell: Tell, cancel: Cancel) -> Reply:
    return _replied(VERBS[question.name].function(**question.words))


def _replied(answer: Any) -> Reply:
    """Return an answer as its document, with the manifest of its placement where it has one."""
    placed = getattr(answer, "answer", answer)
    has_plan = hasattr(placed, "to_manifest") and placed.placement is not None
    return Reply(
        outcome=Outcome.ANSWERED,
        document=_json(answer.to_dict()),
        manifest=_json(placed.to_manifest()) if has_plan else b"",
        gap=getattr(answer, "gap", None),
    )


class _Teller:
    """Hears values and bounds, and tells the best and the tightest of them."""

    def __init__(self, objective: Objective, tell: Tell) -> None:
        self.objective = objective
        self.tell = tell
        self.started = time.monotonic()
        self.best: float | None = None
        self.bound: float | None = None
        self.told: Better | None = None

    def heard(self, value: float) -> None:
        """Keep a value if it is the best so far."""
        if self.best is None or self.objective.better(value, self.best):
            self.best = value
            self._tell()

    def proved(self, bound: float | None) -> None:
        """Keep a bound if it is the tightest so far; None says nothing."""
        if bound is not None and (self.bound is None or self.objective.better(self.bound, bound)):
            self.bound = bound
        self._tell()

    def _tell(self) -> None:
        if self.best is None:
            return
        now = Better(
            value=self.best,
            unit=self.objective.unit,
            seconds=time.monotonic() - self.started,
            bound=self.bound,
            gap=None if self.bound is None else gap_between(self.best, self.bound),
        )
        if self.told is None or self._is_news(now, self.told):
            self.told = now
            self.tell(now)

    @staticmethod
    def _is_news(now: Better, told: Better) -> bool:
        """Return whether something has changed, and the last news is a moment ago."""
        if now.seconds < told.seconds + LEAST_PAUSE_S:
            return False
        gaps = now.gap, told.gap
        closer = None in gaps or abs((now.gap or 0.0) - (told.gap or 0.0)) > LEAST_STEP
        return now.value != told.value or (gaps != (None, None) and closer)


def _replan(session: Session, question: Question, tell: Tell, cancel: Cancel) -> Reply:
    words = dict(question.words)
    plan = words.pop("manifest")
    if "catalog" not in words:  # those of the plan, if they are names of books that are here
        words["catalog"] = check_books(_books_of(plan))
    logs = words.pop("observed")
    Path("manifest").write_bytes(_json(plan))
    names = [f"observed-{number}" for number in range(1, len(logs) + 1)]
    try:
        for name, log in zip(names, logs, strict=True):
            Path(name).write_text(log, encoding="utf-8", errors="surrogatepass")
        words |= {"cancel": cancel, **session.limits(question)}
        answer = VERBS["replan"].function("manifest", names, **words)
    except UnicodeError:
        raise WordError("observed", PlacerError("observed is not text")) from None
    finally:
        for name in ("manifest", *names):
            Path(name).unlink(missing_ok=True)
    return _replied(answer)


def _bill(session: Session, question: Question, tell: Tell, cancel: Cancel) -> Reply:
    words = dict(question.words)
    try:
        Path("bill.csv").write_text(words.pop("charges"), encoding="utf-8")
        return _replied(VERBS["bill"].function(charges="bill.csv", **words))
    except UnicodeError:
        raise WordError("charges", PlacerError("charges is not text")) from None
    finally:
        Path("bill.csv").unlink(missing_ok=True)


def _books_of(plan: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return tuple(str(plan["question"]["catalog"]["name"]).split("+"))
    except (KeyError, TypeError):
        lacking = PlacerError(
            "the manifest does not say which books it was made with",
            "write it again with placer recommend --manifest FILE, or name a catalog",
        )
        raise WordError("manifest", lacking) from None


def _offers(session: Session, question: Question, tell: Tell, cancel: Cancel) -> Reply:
    words = dict(question.words)
    catalog, limit = words.pop("catalog", None), words.pop("limit", 30)
    book = session.book(catalog)
    return _listed(offers_document(book, offers_of(book, **words), limit))


ANSWERS: Mapping[str, Callable[[Session, Question, Tell, Cancel], Reply]] = {
    **dict.fromkeys(VERBS, _ask),
    "replan": _replan,
    **dict.fromkeys(("diff", "export"), _saved),
    "bill": _bill,
    "offers": _offers,
    "models": lambda *asked: _listed(models_document()),
    # Where books lie on the server is nobody's business.
    "catalogs": lambda *asked: _listed({**catalogs_document(), "folder": ""}),
}
"""What answers each question, by its name."""

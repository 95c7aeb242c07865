"""What is wrong with a request, as RFC 9457 problem details."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from placer.service.working.messages import Outcome, Reply

CONTENT_TYPE = "application/problem+json"
KINDS: Mapping[str, tuple[int, str]] = {
    "body": (400, "The request cannot be read."),
    "host": (400, "The service is not called by that name."),
    "token": (401, "A token is needed."),
    "origin": (403, "The request comes from another site."),
    "missing": (404, "There is nothing here."),
    "method": (405, "The method is not one of this address."),
    "late": (408, "The request did not arrive in time."),
    "unfinished": (409, "The job is not finished."),
    "large": (413, "The request is too large."),
    "words": (422, "A word of the question is wrong."),
    "full": (429, "Too many questions are waiting."),
    "failed": (500, "The service failed."),
    "stopped": (503, "The search was ended."),
    "cancelled": (503, "The question was given up."),
    "interrupted": (503, "The job was interrupted."),
    "starting": (503, "The service is not ready."),
}
"""Status and title of each kind of problem; the kind is the last part of ``type``."""
KIND_OF_STATUS = {400: "body", 401: "token", 404: "missing", 405: "method", 413: "large"}
STOPPED = "the search did not end in time, and its process was ended"


def problem_of(kind: str, detail: str, hint: str = "", field: str = "") -> dict[str, Any]:
    """Build the details of a problem.

    Parameters
    ----------
    kind
        One of `KINDS`.
    detail
        One line that names the thing and its value.
    hint
        What to do about it.
    field
        The word of the request that is wrong.
    """
    status, title = KINDS[kind]
    rows = {
        "type": f"/problems/{kind}",
        "title": title,
        "status": status,
        "detail": one_line(detail),
        "hint": one_line(hint),
        "field": field,
    }
    return {name: value for name, value in rows.items() if value != ""}


def refused(reply: Reply) -> dict[str, Any]:
    """Build the details of a question that has no answer."""
    if reply.outcome is Outcome.REFUSED:
        return problem_of("words", reply.message, reply.hint, reply.field)
    if reply.outcome is Outcome.STOPPED:
        return problem_of("stopped", STOPPED, "ask for less, or give a smaller time_limit")
    if reply.outcome is Outcome.CANCELLED:
        return problem_of("cancelled", "the question was cancelled before it had an answer")
    return problem_of(
        "failed", "the process that worked on the question ended", "its reason is in the log"
    )


def encoded(problem: Mapping[str, Any]) -> bytes:
    """Return the details of a problem as JSON."""
    return json.dumps(problem).encode()


def one_line(text: str, most: int = 400) -> str:
    """Put text that quotes a user's value on one line of bounded length."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= most else f"{flat[: most - 4]} ..."

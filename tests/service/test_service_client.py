"""The client of the examples, and what a request cannot reach."""

import os
import subprocess
import sys
from threading import Event
from typing import Any

import pytest
from served import QUESTION, Served

from conftest import PROCESS_TIMEOUT_S, ROOT
from placer.errors import PlacerError
from placer.problem.words.wishes import WISHES
from placer.service.questions.body import check_body
from placer.service.questions.words import VERBS, words_of
from placer.service.working.messages import Question
from placer.service.working.session import Session
from placer.workload.profile import load_profile


def test_the_client_asks_twice(service: Served) -> None:
    """It prints the best so far and both answers: the one of the README, and two regions."""
    done = subprocess.run(
        [sys.executable, "examples/service_client.py", service.address],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PLACER_TOKEN"},
        capture_output=True,
        text=True,
        timeout=PROCESS_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "at once: 8 x A10 in lambda/us-west-1" in done.stdout
    assert "samples/s, gap" in done.stdout
    assert "as a job: 1 x T4 in gcp/us-central1, 11 x T4 in gcp/us-west1" in done.stdout


def test_no_word_opens_a_file() -> None:
    """While every word of every verb holds a path, nothing of that name is opened or listed.

    Python tells an audit hook of each file that is opened, folder that is listed and address that
    is connected to.
    """
    seen: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir", "socket.connect", "sqlite3.connect"):
            seen.extend(str(one) for one in arguments if "planted" in str(one))

    sys.addaudithook(hook)
    with pytest.raises(PlacerError):
        load_profile("/planted/secret")
    assert seen == ["/planted/secret"]  # it hears what it should
    seen.clear()
    session = Session((), 2_000_000_000)
    for verb in VERBS.values():
        for name in words_of(verb.name):
            for path in ("/planted/secret", "../planted.json", "file://planted.csv"):
                for value in (path, [path], {path: 1}, f"hf:{path}", f"{path}=1"):
                    body = {**QUESTION, "workers": "gcp/us-central1=1xT4", "placements": ["x"]}
                    body |= {"manifest": {}, "observed": ["{}"], "set": [], name: value}
                    words = {key: one for key, one in body.items() if key in words_of(verb.name)}
                    _answer(session, verb.name, words)
    assert set(WISHES) <= set(words_of("recommend"))
    assert seen == []


def _answer(session: Session, verb: str, words: dict[str, Any]) -> None:
    try:
        checked = check_body(VERBS[verb], words)
    except PlacerError:
        return
    cancelled = Event()
    cancelled.set()  # the question is read, and its search ended at once
    session.reply(Question(name=verb, words=checked, seconds=0.2), lambda better: None, cancelled)

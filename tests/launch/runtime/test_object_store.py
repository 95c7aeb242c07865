"""The S3 client of the runtime against moto, with a server in front that fails, is slow, or sends
damaged objects.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from threading import Thread
from typing import Any

import httpx2
import pytest
from run_plans import A, B, document, saved

from conftest import ROOT, Run
from placer.errors import PlacerError
from placer.launch.runtime import object_store
from placer.launch.runtime.object_store import ATTEMPTS, ObjectStore, check_endpoint

pytest.importorskip("boto3")
pytest.importorskip("torch")
server: Any = pytest.importorskip("moto.server")
serving: Any = pytest.importorskip("werkzeug.serving")
from placer.launch.runtime.wire import Meter  # noqa: E402

Answer = Callable[..., Any]


class Faults:
    """Moto's S3 behind a list of faults: each request takes the next one."""

    def __init__(self) -> None:
        self.behind = server.DomainDispatcherApplication(server.create_backend_app)
        self.next: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Answer) -> Any:
        """Answer one request."""
        fault = self.next.pop(0) if self.next else ""
        if fault in ("500", "503"):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(f"{fault} Failed", [("Content-Length", "0")])
            return [b""]
        if fault == "slow":
            time.sleep(1.5)
        if fault == "bare":

            def begin(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
                kept = [one for one in headers if not one[0].lower().startswith("x-amz-meta-")]
                return start_response(status, kept, *more)

            return [b"".join(self.behind(environ, begin))]
        body = b"".join(self.behind(environ, start_response))
        return [body[:-1] + b"?" if fault == "damaged" else body]


@pytest.fixture(scope="module")
def faults() -> Iterator[tuple[Faults, str]]:
    """The server and its address."""
    app = Faults()
    made = serving.make_server("127.0.0.1", 0, app, threaded=True)
    thread = Thread(target=made.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{made.server_port}"
    assert httpx2.get(address, timeout=60).status_code  # the first answer loads moto's services
    yield app, address
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def store(faults: tuple[Faults, str], monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """A bucket; waits between attempts are 1 ms."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(object_store, "FIRST_WAIT_S", 0.001)
    faults[0].next = []
    made = ObjectStore("plan", faults[1], Meter(), timeout_s=1.0, way=("a", "b"))
    made.create()
    made.meter.clear()
    return made


def test_every_request_is_counted_by_kind(store: ObjectStore) -> None:
    """A write, a read, a read that finds nothing, a list, one delete of two objects; the
    bucket may exist already. Its 3 bytes went there once, and came back twice.
    """
    store.create()
    store.put("run/0/gradient-1", b"abc", members="[1]")
    for _ in range(2):
        body, notes = store.get("run/0/gradient-1") or (b"", {})
        assert (body, notes["members"], len(notes)) == (b"abc", "[1]", 2)
    assert store.get("run/0/mean") is None
    assert store.list("run/0/") == ["run/0/gradient-1"]
    store.delete(["run/0/gradient-1", "run/0/mean"])
    assert store.list("run/") == []
    assert dict(store.meter.bytes) == {("a", "b"): 3, ("b", "a"): 6}
    counts = {"create": 1, "write": 1, "read": 2, "poll": 1, "list": 2, "delete": 1}
    assert dict(store.meter.requests) == counts


def test_a_failing_store_is_asked_again(store: ObjectStore, faults: tuple[Faults, str]) -> None:
    """Two failures, then the object is there: one write that counts and two retries."""
    faults[0].next = ["503", "500"]
    store.put("a", b"1")
    assert dict(store.meter.requests) == {"write": 1, "retry": 2}


def test_a_store_that_never_answers_is_named(
    store: ObjectStore, faults: tuple[Faults, str]
) -> None:
    """After six attempts: which request, bucket and address."""
    faults[0].next = ["503"] * (ATTEMPTS + 1)
    words = r"write in bucket 'plan' at http://127\.0\.0\.1:\d+ failed after 6 attempts: 503"
    with pytest.raises(PlacerError, match=words) as caught:
        store.put("a", b"1")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("fault", ["slow", "damaged", "bare"])
def test_an_answer_that_is_late_or_wrong_is_asked_for_again(
    store: ObjectStore, faults: tuple[Faults, str], fault: str
) -> None:
    """1.5 s are longer than the 1 s that an answer may take; a body may not fit its SHA-256; and
    moto may answer between taking an object and its headers. All notes are one header, so none
    comes without the others.
    """
    faults[0].next = ["", fault]
    store.put("a", b"mean", members="[0]", more="1")
    body, notes = store.get("a") or (b"", {})
    assert (body, set(notes)) == (b"mean", {"sha256", "members", "more"})
    assert len(store.client.head_object(Bucket="plan", Key="a")["Metadata"]) == 1
    assert store.meter.requests["retry"] == 1


def test_a_missing_bucket_is_said_at_once(faults: tuple[Faults, str], store: ObjectStore) -> None:
    """No answer will change it, so it is not asked again."""
    other = ObjectStore("nowhere", faults[1], Meter())
    with pytest.raises(PlacerError, match=r"failed after 1 attempts: NoSuchBucket"):
        other.put("a", b"1")


def test_a_wrong_address_is_said() -> None:
    """No scheme."""
    with pytest.raises(PlacerError, match="cannot use the object store at 'somewhere'"):
        ObjectStore("plan", "somewhere", Meter())


def test_missing_credentials_are_said_at_once(
    faults: tuple[Faults, str], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the environment nor in a file, and no metadata service is asked."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(PlacerError, match="failed after 1 attempts: Unable to locate credentials"):
        ObjectStore("plan", faults[1], Meter()).put("a", b"1")


SECRETS = "https://me:hunter2@store.example:9000/?X-Amz-Signature=hunter3#hunter4"


def test_secrets_of_an_address_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the client's own words, nor where the address is named: the log of a run keeps
    such messages.
    """
    monkeypatch.setattr(object_store, "FIRST_WAIT_S", 0.001)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for url in (SECRETS, "http://me:hunter2@127.0.0.1:1", "http://me:hunter2@[::1", "me:hunter2@x"):
        assert "hunter" not in _message(url)
    assert "127.0.0.1:1" in _message("http://me:hunter2@127.0.0.1:1")


def _message(url: str) -> str:
    with pytest.raises(PlacerError) as caught:
        ObjectStore("plan", url, Meter(), timeout_s=0.2).put("a", b"1")
    return caught.value.message


@pytest.mark.parametrize(
    ("url", "words"),
    [
        *((f"http://{usual}", "") for usual in ("127.0.0.1:5000", "s3.example/path", "[::1]:9000")),
        *((url, "is no address") for url in ("ftp://s3.example", "http://", "s3.example")),
        *((f"https://s3.example:{port}", "is no address") for port in (0, 99_999)),
        *((f"https://{it}", "has a user, password, query") for it in ("me@s3", "s3?a=b", "s3#a")),
    ],
)
def test_usual_addresses_are_taken(url: str, words: str) -> None:
    """Ports, paths and IPv6, of http or https; nothing that S3 does not send."""
    with pytest.raises(PlacerError, match=words) if words else nullcontext():
        check_endpoint(url)


def test_the_command_shows_no_secret(command: Run, tmp_path: Any) -> None:
    """Exit code 2, before a log is begun."""
    path = saved(tmp_path, document("central", (A, 1), (B, 1)))
    paths = {"PYTHONPATH": str(ROOT / "tests")}
    words = ("--train", "run_plans:tiny", "--local", "-o", "out", "--endpoint-url", SECRETS)
    done = command("run", path, *words, cwd=tmp_path, **paths)
    assert done.returncode == 2
    assert "store.example" in done.stderr
    assert "hunter" not in done.stderr + done.stdout
    assert not (tmp_path / "out").exists()


def test_a_store_on_this_machine_is_reached_without_the_proxy(
    faults: tuple[Faults, str], store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's port is closed, so that a request through it would fail; a store elsewhere is
    asked for through it.
    """
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://me:hunter2@127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    port = faults[1].rpartition(":")[2]
    for host in ("127.0.0.1", "localhost"):
        near = ObjectStore("plan", f"http://{host}:{port}", Meter(), timeout_s=5.0)
        near.put("a", b"1")
        assert dict(near.meter.requests) == {"write": 1}
    message = _message("http://store.example:9000")
    assert "proxy" in message.lower()
    assert "hunter" not in message
    asked = ObjectStore("plan", "http://10.1.0.1:1", Meter(), timeout_s=0.2, direct=True)
    with pytest.raises(PlacerError) as caught:
        asked.put("a", b"1")
    assert "proxy" not in caught.value.message.lower()

"""A bucket of an object store through the S3 API, with every request counted by kind; and local
stores: ``python -m placer.launch.runtime.object_store ADDRESS`` serves S3 by moto on a free port of
that address until stdin ends.

The server is waitress, which keeps connections open as the stores of clouds do; moto's own closes
each, so that every request would open a new one and start slowly.
"""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from placer.documents.manifest.types import Bucket
from placer.errors import PlacerError, installed
from placer.launch.runtime.processes.loopback_store import LOOPBACK
from placer.launch.serverless import protocol
from placer.market.sources.reading.web_address import is_loopback, public, without_secrets
from placer.version import install_line

if TYPE_CHECKING:
    from placer.launch.runtime.wire import Meter
    from placer.launch.shaped_network import ShapedNetwork


ATTEMPTS = 6
"""Most attempts of one request, with about 6 s of waiting in all."""
FIRST_WAIT_S = 0.2
PASSING = {
    *("408", "429", "500", "502", "503", "504", "InternalError", "SlowDown", "ServiceUnavailable"),
    *("RequestTimeout", "Throttling", "ConditionalRequestConflict"),
}
"""Answers after which the same request may succeed."""
HOPELESS = (
    *("NoCredentialsError", "PartialCredentialsError", "NoRegionError", "ParamValidationError"),
)
"""Errors of botocore after which no attempt succeeds."""
EXAMPLE = "give an address such as http://127.0.0.1:5000"
OWNED = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


class ObjectStore(protocol.Bucket):
    """A client of one bucket, with the credentials of the environment.

    Without ``endpoint_url`` it asks the provider's own S3. Requests count as ``write``, ``read``,
    ``poll`` (a read that found nothing), ``list``, ``delete`` and ``retry``, bodies as bytes on the
    ``way`` from this process to the store. A ``direct`` store runs on this machine, and no proxy is
    asked, as at a loopback address.
    """

    def __init__(
        self,
        bucket: str,
        endpoint_url: str,
        meter: Meter,
        timeout_s: float = 30.0,
        *,
        direct: bool = False,
        region: str | None = None,
        way: tuple[str, str] = ("", ""),
    ) -> None:
        super().__init__(_client(endpoint_url, timeout_s, direct, region), bucket)
        self.meter, self.way = meter, way
        self.where = public(endpoint_url) if endpoint_url else "the provider's S3 endpoint"

    def create(self) -> None:
        """Create the bucket unless it is there."""
        self.call("create", lambda: self.client.create_bucket(Bucket=self.bucket), fine=OWNED)

    def put(self, key: str, body: Any, *, once: bool = False, **notes: Any) -> None:
        """Write; see `placer.launch.serverless.protocol.Bucket.put`."""
        super().put(key, body, once=once, **notes)
        self.meter.sent(*self.way, len(body))

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """Read; see `placer.launch.serverless.protocol.Bucket.get`."""
        found = super().get(key)
        if found is not None:
            self.meter.sent(*self.way[::-1], len(found[0]))
        return found

    def call(self, kind: str, request: Callable[[], Any], fine: Collection[str] = ()) -> Any:
        """Ask until there is an answer, `ATTEMPTS` times at most; answers in ``fine`` are None."""
        from botocore import exceptions

        hopeless = tuple(getattr(exceptions, name) for name in HOPELESS)
        began, words = time.perf_counter(), ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.meter.request(self.bucket, "retry")
                time.sleep(FIRST_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the clients
            try:
                answer = request()
            except exceptions.ClientError as error:
                said = error.response.get("Error", {})
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
                codes = {said.get("Code", ""), str(status)}
                if not codes & set(fine):
                    words = f"{said.get('Code') or status}: {said.get('Message', '')}"
                    if codes & PASSING:
                        continue
                    break
                answer, kind = None, "poll" if kind == "read" else kind
            except (exceptions.BotoCoreError, OSError) as error:
                words = str(error)
                if isinstance(error, hopeless):
                    break
                continue
            self.meter.request(self.bucket, kind)
            self.meter.seconds[kind] += time.perf_counter() - began
            return answer
        raise PlacerError(
            f"object store: {kind} in bucket '{self.bucket}' at {self.where} failed after "
            f"{attempt + 1} attempts: {' '.join(without_secrets(words).split())[:160]}",
            "check the bucket, the credentials and the address",
            exit_code=1,
        )


def check_endpoint(url: str) -> None:
    """Refuse an address that is none of http or https, or that has a user, password, query or
    fragment: S3 sends none of these, and they would stand in the list of processes.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        secret = parts.username is not None or parts.query or parts.fragment
    except ValueError:
        usable = secret = ""
    if not usable:
        raise PlacerError(f"--endpoint-url '{public(url)}' is no address", EXAMPLE)
    if secret:
        raise PlacerError(
            f"--endpoint-url '{public(url)}' has a user, password, query or fragment, which S3 "
            "does not send",
            "leave them out; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead",
        )


def _client(endpoint_url: str, timeout_s: float, direct: bool, region: str | None) -> Any:
    boto3 = installed("boto3", "this exchange needs boto3", "aws")
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    try:
        near = direct or is_loopback(urlsplit(endpoint_url).hostname or "")
        return boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint_url or None,
            region_name=region,
            config=Config(
                connect_timeout=min(10.0, timeout_s),
                read_timeout=timeout_s,
                retries={"total_max_attempts": 1},
                proxies={} if near else None,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        shown = public(endpoint_url)
        words = without_secrets(str(error).replace(endpoint_url, shown))
        raise PlacerError(f"cannot use the object store at '{shown}': {words}", EXAMPLE) from None


LOG = "object-store.log"
THREADS = 32
"""Requests at a time; the clients are the workers and one function."""
LARGEST = 1 << 34
"""Objects stay in memory, whatever their size."""
RECEIVED_AT_ONCE = 1 << 18


@contextmanager
def local_object_stores(
    folder: Path, buckets: Sequence[Bucket], network: ShapedNetwork | None = None, first: int = 0
) -> Iterator[tuple[dict[str, str], dict[str, subprocess.Popen[str]]]]:
    """Serve a store for each bucket: at 127.0.0.1, or on machines from the ``first`` on. Yields
    addresses by bucket, and processes by what errors call them.
    """
    if any(importlib.util.find_spec(name) is None for name in ("moto", "flask", "waitress")):
        raise PlacerError(
            "this exchange needs an object store, and none is given",
            f"give --endpoint-url, or install a local one: {install_line('rehearse')}",
        )
    log = folder / LOG
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = log.open("wb")
    except OSError as error:
        raise PlacerError(
            f"cannot write '{log}': {error.strerror}", "choose another --out"
        ) from None
    started: dict[str, subprocess.Popen[str]] = {}
    try:
        for number, bucket in enumerate(buckets):  # all start before the first is waited for
            address = LOOPBACK if network is None else network.addresses[first + number]
            argv = [sys.executable, "-m", __name__, address]
            name = f"the object store in {bucket.place} ({bucket.name})"
            started[name] = subprocess.Popen(  # noqa: S603 - this interpreter
                argv if network is None else network.command(first + number, argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        addresses = [_address(process, log) for process in started.values()]
        names = [bucket.name for bucket in buckets]
        yield dict(zip(names, addresses, strict=True)), started
    finally:
        for process in started.values():
            process.kill()
            process.communicate()  # closes the pipes
        file.close()


def _address(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("http"):
        raise PlacerError(
            "the local object store did not start",
            f"see {log}, or give --endpoint-url",
            exit_code=1,
        )
    return line.strip()


def main() -> None:
    """Serve, say the address, wait for the end of stdin."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from waitress.server import create_server

    server = create_server(
        DomainDispatcherApplication(create_backend_app),
        host=sys.argv[1],
        port=0,
        threads=THREADS,
        inbuf_overflow=LARGEST,
        outbuf_overflow=LARGEST,
        outbuf_high_watermark=LARGEST,
        max_request_body_size=LARGEST,
        recv_bytes=RECEIVED_AT_ONCE,
    )
    threading.Thread(target=server.run, daemon=True).start()
    sys.stdout.write(f"http://{sys.argv[1]}:{server.effective_port}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()

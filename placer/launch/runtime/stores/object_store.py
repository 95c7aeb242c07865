"""A bucket of an object store through the S3 API, with back-off and a limit of attempts; every
request is counted by kind.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import Any
from urllib.parse import urlsplit

from placer.errors import PlacerError
from placer.launch.runtime.wire.meter import Meter
from placer.launch.serverless.protocol import Bucket
from placer.market.sources.reading.web_address import is_loopback, public, without_secrets
from placer.version import install_line

ATTEMPTS = 6
"""Most attempts of one request; with `FIRST_WAIT_S` doubled each time about 6 s of waiting in all.
"""
FIRST_WAIT_S = 0.2
PASSING = {
    *("408", "429", "500", "502", "503", "504", "InternalError", "SlowDown", "ServiceUnavailable"),
    *("RequestTimeout", "Throttling", "ConditionalRequestConflict"),
}
"""Answers after which the same request may succeed."""
EXAMPLE = "give an address such as http://127.0.0.1:5000"
OWNED = {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}


class ObjectStore(Bucket):
    """A client of one bucket.

    Parameters
    ----------
    bucket
        Its name.
    endpoint_url
        Address of the S3 API; empty: the provider's own, with the credentials of the environment.
    meter
        Counts requests: ``write``, ``read``, ``poll`` (a read that found nothing), ``list``,
        ``delete``, and ``retry``, the failed ones.
    timeout_s
        Of one connection and of the wait for an answer.
    direct
        The store runs on this machine: no proxy is asked. So it is at a loopback address, too.
    region
        Of the bucket; None: as the environment says.
    way
        Places of this process and of the store: bodies count as bytes between them.
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
        near = direct or _is_here(endpoint_url)
        super().__init__(_client(endpoint_url, timeout_s, near, region), bucket)
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
        """Ask until there is an answer, `ATTEMPTS` times at most; answers in ``fine`` are None. The
        seconds are those of the kind of request.
        """
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            NoRegionError,
            ParamValidationError,
            PartialCredentialsError,
        )

        hopeless = (
            NoCredentialsError,
            NoRegionError,
            ParamValidationError,
            PartialCredentialsError,
        )
        began, words = time.perf_counter(), ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self.meter.request(self.bucket, "retry")
                time.sleep(FIRST_WAIT_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the clients
            try:
                answer = request()
            except ClientError as error:
                said = error.response.get("Error", {})
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
                codes = {said.get("Code", ""), str(status)}
                if not codes & set(fine):
                    words = f"{said.get('Code') or status}: {said.get('Message', '')}"
                    if codes & PASSING:
                        continue
                    break
                answer, kind = None, "poll" if kind == "read" else kind
            except (BotoCoreError, OSError) as error:
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
    """Refuse an address of an object store that is none, or that holds a secret.

    Raises
    ------
    PlacerError
        If it is no address of http or https, or has a user, a password, a query or a fragment: S3
        sends none of these, and they would stand in the list of processes.
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


def _is_here(endpoint_url: str) -> bool:
    """Return whether a store is at a loopback address."""
    try:
        return is_loopback(urlsplit(endpoint_url).hostname or "")
    except ValueError:
        return False


def _client(endpoint_url: str, timeout_s: float, direct: bool, region: str | None) -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise PlacerError(
            "this exchange needs boto3, which is not installed",
            f"install it: {install_line('aws')}",
        ) from None
    try:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=endpoint_url or None,
            region_name=region,
            config=Config(
                connect_timeout=min(10.0, timeout_s),
                read_timeout=timeout_s,
                retries={"total_max_attempts": 1},
                proxies={} if direct else None,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        shown = public(endpoint_url)
        words = without_secrets(str(error).replace(endpoint_url, shown))
        raise PlacerError(f"cannot use the object store at '{shown}': {words}", EXAMPLE) from None

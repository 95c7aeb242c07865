"""Calls to AWS with the credentials of boto3's own chain: bounded, retried, errors in a line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placer.errors import PlacerError, SourceError, installed
from placer.market.sources.reading.fetch import LATER, READ_SECONDS

CONNECT_SECONDS = 10.0
ATTEMPTS = 5
"""Attempts of botocore's standard mode, which waits between them when it is told to slow down."""
HOME = "us-east-1"  # Where the price list and the list of regions are asked for
RIGHTS = (
    "pricing:GetProducts, ec2:DescribeRegions, ec2:DescribeInstanceTypes, "
    "ec2:DescribeInstanceTypeOfferings, ec2:DescribeSpotPriceHistory"
)
RIGHTS_OF = {
    "get spot placement scores": "ec2:GetSpotPlacementScores",
    "describe capacity block offerings": "ec2:DescribeCapacityBlockOfferings",
    "search training plan offerings": "sagemaker:SearchTrainingPlanOfferings",
    "list service quotas": "servicequotas:ListServiceQuotas",
}
"""What an account must allow for operations that ask for no prices."""
NO_LOGIN = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "ProfileNotFound",
    "CredentialRetrievalError",
    "NoAuthTokenError",
)
EXPIRED = (
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
    "UnauthorizedSSOTokenError",
    "SSOTokenLoadError",
    "TokenRetrievalError",
)


class Account:
    """Clients of one boto3 session; the credentials stay inside it."""

    def __init__(self) -> None:
        boto3 = installed("boto3", "prices of AWS need boto3", "aws")
        from botocore.config import Config

        retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
        self._config = Config(
            connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS, retries=retries
        )
        with in_words("AWS"):
            self._session = boto3.Session()

    def client(self, service: str, region: str) -> Any:
        """Make a client of one service in one region."""
        with in_words(f"{service} of AWS"):
            return self._session.client(service, region_name=region, config=self._config)

    def rows(self, client: Any, operation: str, result: str, **wishes: Any) -> list[Any]:
        """Return the lists under ``result`` of all pages of one operation, a method of the client
        such as ``describe_instance_types``. Exit code 2 without credentials, 7 if AWS does not
        deliver.
        """
        rows: list[Any] = []
        words = operation.replace("_", " ")
        with in_words(words):
            if client.can_paginate(operation):
                pages = client.get_paginator(operation).paginate(**wishes)
            else:
                pages = [getattr(client, operation)(**wishes)]
            for page in pages:
                if not isinstance(page.get(result), list):
                    raise SourceError(f"AWS answered {words} without {result}", LATER)
                rows += page[result]
        return rows


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Say errors of botocore in one line, without a request, which may hold a key's name."""
    import urllib3.exceptions
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", "an error"))[:60]
        raise _answer(code, what) from None
    except BotoCoreError as error:
        kind = type(error).__name__
        if kind in NO_LOGIN:
            tip = "run 'aws configure', or set AWS_PROFILE or AWS_ACCESS_KEY_ID and its secret"
            raise PlacerError("no usable credentials for AWS", tip) from None
        if kind in EXPIRED:
            raise _answer(kind, what) from None
        if "Timeout" in kind:
            words = f"AWS did not answer {what} for {READ_SECONDS:g} s"
            raise SourceError(words, LATER) from None
        words = f"AWS did not deliver {what}: {kind}"
        raise SourceError(words, "check the connection, proxy and region") from None
    except (ResponseParserError, urllib3.exceptions.HTTPError, ValueError) as error:
        words = f"the answer of AWS to {what} cannot be read: {type(error).__name__}"
        raise SourceError(words, "a login page or proxy may answer in its place") from None


def _answer(code: str, what: str) -> PlacerError:
    tip = "check the credentials"
    if code in EXPIRED:
        tip = "log in again"
    elif "Unauthorized" in code or "AccessDenied" in code:
        tip = f"allow {RIGHTS_OF.get(what, RIGHTS)}"
    elif "Throttl" in code or "Limit" in code or "TooMany" in code:
        tip = f"{LATER}, or for fewer regions with --in"
    elif code.isdecimal() or "Internal" in code or "Unavailable" in code:
        tip = LATER
    return SourceError(f"AWS refused {what}: {code}", tip)

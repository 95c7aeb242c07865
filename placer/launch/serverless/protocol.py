"""The protocol of serverless aggregation: objects, their bytes, and what the function does.

This file is the whole code of the function in AWS Lambda, shipped as text. So it imports nothing of
placer, and NumPy only if it is there. The workers, and the local function of ``placer run``, use
the same code.

Objects of a run, of one average (ROUND is ATTEMPT-STEP):

* ``RUN/gradients/ROUND/PART-of-N``: what a worker, or the function of a region, has to average
* ``RUN/gradients/ROUND/proceed-of-N``: empty; average as soon as N parts are there
* ``RUN/means/ROUND``: the mean

Steps of a round:

1. Each worker puts its gradient. That calls the function: the bucket does it, or the worker where
   the bucket is in another region.
2. The function lists the round. The call that finds all N parts gets them, averages them by their
   samples, puts the mean, and deletes the parts and the mean of the step before.
3. Each worker polls for the mean. If none comes, it puts its gradient again, which calls the
   function again.

The function of a region puts the region's mean as a part into the global bucket. The global
function calls it again when the mean of all is there, and it copies that into its own bucket.

Every call may come late, twice, or not end: a round has one mean, as the first put of it wins, and
parts are deleted only after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from array import array
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote_plus, unquote_plus

try:
    import numpy as np
except ImportError:  # Lambda has it only with a layer
    np = None  # type: ignore[assignment]

GRADIENTS, MEANS = "gradients", "means"
NOTES = "placer"
"""Header, after ``x-amz-meta-``, of what is written with an object; JSON. One header is there or
not: moto shows an object before its headers, and these one after the other.
"""
MISSING = ("404", "NoSuchKey", "NotFound")
THERE = ("412", "PreconditionFailed")
PARTS_OF_ONE_DELETE = 1000
BLOCK = 1 << 20
"""Numbers that are decoded at a time, so that few are held twice."""
LARGEST_HALF = 65504.0
TINIEST = 1.1754943508222875e-38
"""Smallest normal 32-bit float: a scale that divides is never below."""
FORMATS = {"none": ("<f4", "f", 0), "fp16": ("<f2", "e", 0), "int8": ("i1", "b", 4)}
"""By compression: the type of the numbers for NumPy and for `struct`, and the bytes of the scale
before them.
"""
Event = Mapping[str, Any]


def int8_scale(largest: float) -> float:
    """Return the scale of INT8 numbers, 127 steps on each side of 0, rounded to eight significant
    bits: 127 such steps are an exact 32-bit float, so numbers that were decoded are encoded again
    without loss.

    >>> int8_scale(127.0), int8_scale(1.0) * 127
    (1.0, 0.99993896484375)
    """
    bits = struct.unpack("<I", struct.pack("<f", largest / 127))[0]
    scale: float = struct.unpack("<f", struct.pack("<I", bits + 0x8000 & 0xFFFF0000))[0]
    return scale


def gradient_key(run: str, round_: str, part: object, parts: int) -> str:
    """Return the key of one of so many parts of a round."""
    return f"{run}/{GRADIENTS}/{round_}/{part}-of-{parts}"


def part_of(key: str) -> tuple[str, int]:
    """Return the name of a part, and how many parts are enough.

    >>> part_of("run/gradients/a1-7/0-of-3")
    ('0', 3)
    """
    name, _, parts = key.rpartition("/")[2].rpartition("-of-")
    return name, int(parts)


def mean_key(run: str, round_: str) -> str:
    """Return the key of the mean of a round."""
    return f"{run}/{MEANS}/{round_}"


def round_name(attempt: str, step: int) -> str:
    """Return the name of a round; that of the step before follows from it."""
    return f"{attempt}-{step}"


def round_before(round_: str) -> str:
    """Return the name of the round of the step before.

    >>> round_before("a1-7")
    'a1-6'
    """
    attempt, _, step = round_.rpartition("-")
    return f"{attempt}-{int(step) - 1}"


def s3_event(bucket: str, key: str) -> dict[str, Any]:
    """Build the event with which S3 calls a function after an upload."""
    put = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key, safe="/")}}
    return {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": put}]}


def objects_of(event: Event) -> list[tuple[str, str]]:
    """List bucket and key of each object that an event speaks of, each once; a direct call has one.

    >>> objects_of(s3_event("b", "a/gradients/x y"))
    [('b', 'a/gradients/x y')]
    """
    if "Records" not in event:
        return [(event["bucket"], event["key"])]
    told = [record["s3"] for record in event["Records"]]
    return list(
        dict.fromkeys((s3["bucket"]["name"], unquote_plus(s3["object"]["key"])) for s3 in told)
    )


class Bucket:
    """A bucket through the S3 API."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.bucket = client, name

    def put(self, key: str, body: Any, *, once: bool = False, **notes: Any) -> None:
        """Write an object whole, with its SHA-256 and notes; with ``once`` only if it is not
        there.
        """
        metadata = {NOTES: json.dumps({"sha256": hashlib.sha256(body).hexdigest(), **notes})}
        only = {"IfNoneMatch": "*"} if once else {}
        words = {"Bucket": self.bucket, "Key": key, "Body": body, "Metadata": metadata, **only}
        self.call("write", lambda: self.client.put_object(**words), THERE if once else ())

    def get(self, key: str) -> tuple[bytes, dict[str, Any]] | None:
        """Read an object and its notes, None if it is not there; `OSError` if it came damaged."""

        def read() -> tuple[bytes, dict[str, Any]]:
            answer = self.client.get_object(Bucket=self.bucket, Key=key)
            body = answer["Body"].read()
            headers = {
                name.lower(): value for name, value in answer["Metadata"].items()
            }  # servers between may write their names anew
            notes: dict[str, Any] = json.loads(headers.get(NOTES, "{}"))
            if hashlib.sha256(body).hexdigest() != notes.get("sha256"):
                raise OSError(f"{key} came damaged, {len(body):,} bytes")
            return body, notes

        found: tuple[bytes, dict[str, Any]] | None = self.call("read", read, MISSING)
        return found

    def list(self, prefix: str) -> list[str]:
        """List the keys that begin with a prefix, at most 1,000."""
        answer = self.call(
            "list", lambda: self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        )
        return [item["Key"] for item in answer.get("Contents", ())]

    def delete(self, keys: Collection[str]) -> None:
        """Delete objects; what is not there is fine."""
        some = [{"Key": key} for key in keys]
        for at in range(0, len(some), PARTS_OF_ONE_DELETE):
            these = {"Objects": some[at : at + PARTS_OF_ONE_DELETE], "Quiet": True}
            self.call(
                "delete",
                lambda these=these: self.client.delete_objects(Bucket=self.bucket, Delete=these),  # type: ignore[misc]
            )

    def call(self, kind: str, request: Callable[[], Any], fine: Collection[str] = ()) -> Any:
        """Ask once; botocore asks again where that may help. Answers in ``fine`` are None."""
        from botocore.exceptions import ClientError

        try:
            return request()
        except ClientError as error:
            if error.response["Error"]["Code"] in fine:
                return None
            raise


class Mean:
    """A mean of vectors by their samples, held as 32-bit floats."""

    def __init__(self, compression: str) -> None:
        self.number, self.letter, self.head = FORMATS[compression]
        self.sum = bytearray()
        self.total: Any = None
        self.bytes, self.samples = 0, 0.0

    def add(self, part: bytes, samples: float) -> None:
        """Add a vector; `ValueError` if it is longer or shorter than the first: another model."""
        size = struct.calcsize(self.letter)
        count = (len(part) - self.head) // size
        if self.total is None:
            self.sum, self.bytes = bytearray(4 * count), len(part)
            self.total = (
                memoryview(self.sum).cast("f")
                if np is None
                else np.frombuffer(self.sum, dtype=np.float32)
            )
        if len(part) != self.bytes:
            raise ValueError(f"a part has {len(part)} bytes, the first {self.bytes}")
        scale = struct.unpack("<f", part[: self.head])[0] if self.head else 1.0
        for at in range(0, count, BLOCK):
            some = memoryview(part)[self.head + at * size : self.head + (at + BLOCK) * size]
            if np is None:
                numbers = struct.unpack(f"<{len(some) // size}{self.letter}", some)
                old = self.total[at : at + len(numbers)]
                self.total[at : at + len(numbers)] = array(
                    "f", [o + n * scale * samples for o, n in zip(old, numbers, strict=True)]
                )
            else:
                block = np.frombuffer(some, self.number).astype(np.float32)
                block *= np.float32(scale) * np.float32(samples)
                self.total[at : at + len(block)] += block
        self.samples += samples

    def body(self) -> bytearray:
        """Encode the mean like its parts; nothing can be added any more."""
        total, self.total = self.total, None
        if np is None:
            return self._plain_body(total)
        total /= np.float32(self.samples)
        if self.letter == "f":
            return self.sum
        if self.letter == "e":
            np.clip(total, -LARGEST_HALF, LARGEST_HALF, out=total)
        body = bytearray(self.bytes)
        scale = np.float32(0)
        if self.head and len(total):
            scale = np.float32(int8_scale(max(abs(total.min()), abs(total.max()))))
            body[: self.head] = struct.pack("<f", scale)
        out = np.frombuffer(body, self.number, offset=self.head)
        for at in range(0, len(total), BLOCK):
            some = total[at : at + BLOCK]
            if self.head:
                some = np.rint(some / max(scale, np.float32(TINIEST)))
            out[at : at + len(some)] = some
        return body

    def _plain_body(self, total: Any) -> bytearray:
        """Encode without NumPy."""
        mean = [number / self.samples for number in total]
        head = b""
        if self.letter == "e":
            mean = [min(LARGEST_HALF, max(-LARGEST_HALF, number)) for number in mean]
        if self.head:
            scale = int8_scale(max(map(abs, mean), default=0.0))
            head = struct.pack("<f", scale)
            mean = [round(number / max(scale, TINIEST)) for number in mean]
        return bytearray(head + struct.pack(f"<{len(mean)}{self.letter}", *mean))


class Function:
    """An aggregator; ``connect`` opens a bucket by name and region, ``invoke`` calls a function.

    Its settings: ``run``; ``compression`` of `FORMATS`; ``source`` and ``target``, the buckets with
    their regions, from which parts are read and to which the mean goes; ``key`` of the mean there,
    with ROUND for the round; ``calls``, the functions to call with it, each of name and region.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        connect: Callable[[str, str], Bucket],
        invoke: Callable[[Mapping[str, str], Event], None],
    ) -> None:
        self.settings, self.invoke = settings, invoke
        self.source, self.target = (
            connect(place["bucket"], place["region"])
            for place in (settings["source"], settings["target"])
        )

    def handle(self, event: Event) -> list[str]:
        """Do what an event asks for; return the keys that were written."""
        written = []
        for bucket, key in objects_of(event):
            run, kind, round_, *_ = key.split("/")
            if run != self.settings["run"]:
                continue
            if kind == MEANS and bucket == self.target.bucket:
                written.append(self._copied(key))
            elif kind == GRADIENTS and bucket == self.source.bucket:
                written.append(self._averaged(round_))
        return [key for key in written if key]

    def _averaged(self, round_: str) -> str:
        """Average a round if all its parts are there."""
        run, settings = self.settings["run"], self.settings
        parts = sorted(self.source.list(f"{run}/{GRADIENTS}/{round_}/"))
        if not parts or len(parts) < part_of(parts[0])[1]:
            return ""
        mean = Mean(settings["compression"])
        for part in parts:
            found = self.source.get(part)
            if found is None:  # another call was first, and has deleted it
                return ""
            mean.add(found[0], found[1].get("samples", 1))
            del found  # two parts would not fit the memory
        key: str = settings["key"].replace("ROUND", round_)
        # A part is put again where a call was lost, so that it calls again. Of means the first
        # stays: workers may have read it.
        once = f"/{MEANS}/" in key
        self.target.put(key, mean.body(), once=once, samples=mean.samples)
        for other in settings["calls"]:
            self.invoke(other, {"bucket": self.target.bucket, "key": key})
        self.source.delete([*parts, mean_key(run, round_before(round_))])
        return key

    def _copied(self, key: str) -> str:
        """Copy a mean from the target to the source, where the workers of this region poll."""
        found = self.target.get(key)
        if found is None:  # the region has gone on since
            return ""
        body, notes = found
        del notes["sha256"]
        self.source.put(key, body, once=True, **notes)
        return key


def handler(event: Event, context: Any) -> dict[str, int]:
    """Serve a call of AWS Lambda; return how many means it wrote."""
    import boto3

    def connect(bucket: str, region: str) -> Bucket:
        return Bucket(boto3.client("s3", region_name=region), bucket)

    def invoke(function: Mapping[str, str], said: Event) -> None:
        invoke_function(boto3, function, said)

    settings = json.loads(os.environ["PLACER_FUNCTION"])
    return {"written": len(Function(settings, connect, invoke).handle(event))}


def invoke_function(boto3: Any, function: Mapping[str, str], event: Event) -> None:
    """Call a function by its name, without waiting for its end; Lambda asks again if it fails."""
    client = boto3.client("lambda", region_name=function["region"])
    payload = json.dumps(event).encode()
    client.invoke(FunctionName=function["name"], InvocationType="Event", Payload=payload)

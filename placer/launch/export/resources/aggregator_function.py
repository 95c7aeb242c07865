"""The aggregator that runs in AWS Lambda. It is shipped as text inside the stack, so it imports
nothing of placer.

Objects: RUN/gradients/ROUND/PART in, RUN/means/ROUND out (from a region: RUN/gradients/ROUND/REGION
of the next bucket). Every upload calls the function; the one that finds all parts sums them.
Numbers are little-endian float32 or float16.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote_plus

BLOCK_BYTES = 1 << 24
PARTS_OF_ONE_DELETE = 1000


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Aggregate the rounds that an event of S3, or a direct call with bucket and key, speaks of;
    return how many were complete.
    """
    records = event.get("Records")
    calls = (
        [(event["bucket"], event["key"])]
        if records is None
        else [_object_of(record) for record in records]
    )
    return {"aggregated": sum(aggregate(bucket, key) for bucket, key in dict.fromkeys(calls))}


def _object_of(record: dict[str, Any]) -> tuple[str, str]:
    found = record["s3"]
    return found["bucket"]["name"], unquote_plus(found["object"]["key"])


def aggregate(bucket: str, key: str) -> bool:
    """Sum the parts of one round if all are there; say whether it was done here."""
    import boto3
    from botocore.exceptions import ClientError

    run, kind, number, _part = key.split("/")
    if run != os.environ["PLACER_RUN"] or kind != "gradients":
        return False
    store = boto3.client("s3", region_name=os.environ["PLACER_BUCKET_REGION"])
    prefix = f"{run}/gradients/{number}/"
    pages = store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    parts = sorted(item["Key"] for page in pages for item in page.get("Contents", []))
    if len(parts) < int(os.environ["PLACER_PARTS"]):
        return False
    try:
        body = _summed(store, bucket, parts)
    except ClientError as error:
        if error.response["Error"]["Code"] in (
            "NoSuchKey",
            "404",
        ):  # another call was first and has tidied up
            return False
        raise
    for target in json.loads(os.environ["PLACER_TARGETS"]):
        out = boto3.client("s3", region_name=target["region"])
        out.put_object(
            Bucket=target["bucket"], Key=target["key"].replace("ROUND", number), Body=body
        )
    for start in range(0, len(parts), PARTS_OF_ONE_DELETE):
        some = [{"Key": part} for part in parts[start : start + PARTS_OF_ONE_DELETE]]
        store.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
    return True


def _summed(store: Any, bucket: str, parts: list[str]) -> bytes:
    """Sum of the parts over PLACER_DIVISOR, block by block, in float32."""
    import numpy as np

    kind = np.dtype(os.environ["PLACER_NUMBERS"])
    total: Any = None
    for part in parts:
        answer = store.get_object(Bucket=bucket, Key=part)
        if total is None:
            total = np.zeros(answer["ContentLength"] // kind.itemsize, dtype=np.float32)
        if answer["ContentLength"] != total.size * kind.itemsize:
            raise ValueError(
                f"{part} has {answer['ContentLength']} bytes, the first part "
                f"{total.size * kind.itemsize}"
            )
        at = 0
        while block := answer["Body"].read(BLOCK_BYTES):
            numbers = np.frombuffer(block, dtype=kind)
            total[at : at + numbers.size] += numbers
            at += numbers.size
    total /= float(os.environ["PLACER_DIVISOR"])
    return bytes(total.astype(kind).tobytes())

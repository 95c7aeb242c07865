"""The cloud functions of a serverless plan: what each reads, averages, writes and calls, and if AWS
Lambda can run them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from placer.documents.manifest.manifest_reader import plain_name, run_digest
from placer.documents.manifest.types import Bucket, Manifest
from placer.errors import PlacerError
from placer.launch.serverless.protocol import FORMATS, gradient_key, mean_key
from placer.problem.exchange import traits
from placer.units import GIB

LONGEST_RUN = 40
"""Characters of a run's name in that of a function, which has at most 64."""
ROUND = "ROUND"


@dataclass(frozen=True, kw_only=True)
class CloudFunction:
    """A function that averages what is in its source bucket and puts the mean into the target,
    under a key with ROUND in place of the round. It ``calls`` others, by name and place, with the
    mean. Names in the cloud differ between plans, and places are PROVIDER/REGION.
    """

    name: str
    place: str
    run: str
    compression: str
    source: Bucket
    target: Bucket
    key: str
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def region(self) -> str:
        """Return the region without its provider."""
        return region_of(self.place)

    @property
    def called_by_bucket(self) -> bool:
        """Return whether uploads call it: a bucket calls functions of its own region only."""
        return self.place == self.source.place

    def settings(self) -> dict[str, Any]:
        """Return what `placer.launch.serverless.protocol.Function` reads, as JSON."""
        return {
            "run": self.run,
            "compression": self.compression,
            "source": _address(self.source),
            "target": _address(self.target),
            "key": self.key,
            "calls": [
                {"name": name, "place": place, "region": region_of(place)}
                for name, place in self.calls
            ],
        }


def region_of(place: str) -> str:
    """Return the region of PROVIDER/REGION."""
    return place.partition("/")[2]


def _address(bucket: Bucket) -> dict[str, str]:
    return {"bucket": bucket.name, "region": region_of(bucket.place)}


def functions_of(manifest: Manifest, document: Mapping[str, Any]) -> tuple[CloudFunction, ...]:
    """List the functions of a plan: one of each region with a bucket of its own, in the order of
    `Manifest.buckets`, then the global one; none if the plan has no function. The digest of the
    manifest's JSON ends their names.
    """
    aggregator, exchange = manifest.aggregator, manifest.exchange
    if aggregator is None or traits(exchange.strategy).hub != "function":
        return ()
    main, *regional = manifest.buckets
    run, compression = manifest.name, exchange.compression
    head = f"{run[:LONGEST_RUN].strip('-')}-{run_digest(document)}"
    last, here = f"{head}-mean", f"{head}-sum"
    far = () if aggregator.place == main.place else ((last, aggregator.place),)
    sums = tuple(
        CloudFunction(
            name=here,
            place=bucket.place,
            run=run,
            compression=compression,
            source=bucket,
            target=main,
            key=gradient_key(run, ROUND, bucket.place.replace("/", "-"), len(regional)),
            calls=far,
        )
        for bucket in regional
    )
    mean = CloudFunction(
        name=last,
        place=aggregator.place,
        run=run,
        compression=compression,
        source=main,
        target=main,
        key=mean_key(run, ROUND),
        calls=tuple((here, bucket.place) for bucket in regional),
    )
    return (*sums, mean)


HELD = {"none": 2.0, "fp16": 3.0, "int8": 5.0}
"""Memory of a function for each byte of a gradient: the sum in float32, and one part or the mean as
it is sent (`placer.launch.serverless.protocol.Mean`).
"""
RUNTIME_GIB = 0.25
"""Python, boto3 and NumPy (assumed)."""
MOST_GIB = 10.0
MOST_SECONDS = 900
"""Limits of AWS Lambda."""


def check_functions(manifest: Manifest) -> None:
    """Refuse functions that are not, or cannot be, in AWS Lambda."""
    aggregator = manifest.aggregator
    if aggregator is None or traits(manifest.exchange.strategy).hub != "function":
        raise PlacerError(
            f"the exchange {manifest.exchange.strategy} has no cloud function",
            "cloudformation is for central and hierarchical",
        )
    for place in (aggregator.place, *(b.place for b in manifest.buckets)):
        provider, _, region = place.partition("/")
        if provider != "aws" or plain_name(region) != region:
            raise PlacerError(
                f"the functions are deployed on AWS Lambda, and {place} is not a region of AWS",
                "ask again with --in 'aws/*', or with --exchange parameter-server; placer run "
                "--local and --to compose play them here",
            )
    if manifest.exchange.compression not in FORMATS:
        raise PlacerError(
            f"the aggregator cannot sum {manifest.exchange.compression} gradients",
            f"use --compression {', '.join(FORMATS)}",
        )
    if memory_gib(manifest) > MOST_GIB:
        raise PlacerError(
            f"the aggregator needs {memory_gib(manifest):.1f} GiB, AWS Lambda has {MOST_GIB:g}",
            "use a server: --exchange parameter-server",
        )


def memory_gib(manifest: Manifest, *, regional: bool = False) -> float:
    """Return the GiB of a function: the plan's, or what the protocol holds, and in a region 1."""
    aggregator = manifest.aggregator
    assert aggregator is not None
    each = HELD[manifest.exchange.compression]
    held = each * manifest.model.gradient_bytes / GIB + RUNTIME_GIB
    return max(1.0 if regional else aggregator.memory_gib or 0.0, held)

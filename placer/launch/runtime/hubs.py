"""The hubs of a run: its parameter server, or its cloud functions with the bucket of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import Bucket, Manifest
from placer.errors import PlacerError
from placer.problem.exchange import traits


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A process beside the workers: a parameter server or a cloud function.

    Parameters
    ----------
    place
        Where it runs.
    gathers
        Ranks whose gradients it sums.
    bucket
        Into which they put them; None: a server, which is sent them.
    """

    place: str
    gathers: tuple[int, ...]
    bucket: Bucket | None = None


def hubs_of(
    manifest: Manifest, regions: Sequence[tuple[str, tuple[int, ...]]], where: str
) -> tuple[Hub, ...]:
    """List the hubs in the order of their ranks, which begin after the workers': a function of each
    region, if there are any, then the global one.

    Parameters
    ----------
    regions
        Places with the ranks of their workers.
    where
        Name of the manifest, for errors.

    Raises
    ------
    PlacerError
        If a function has no bucket.
    """
    chosen = traits(manifest.exchange.strategy)
    if manifest.aggregator is None or chosen.hub not in ("server", "function"):
        return ()
    place, workers = manifest.aggregator.place, tuple(range(manifest.workers))
    if chosen.hub == "server":
        return (Hub(place=place, gathers=workers),)
    regional = regions if chosen.transport == "regional-stores" else ()
    buckets = {(str(bucket.role), bucket.place): bucket for bucket in manifest.buckets}
    assert manifest.storage is not None
    functions = [
        Hub(place=p, gathers=ranks, bucket=_bucket(buckets, "workers", p, where))
        for p, ranks in regional
    ]
    sums = tuple(range(len(workers), len(workers) + len(functions))) or workers
    return (
        *functions,
        Hub(
            place=place,
            gathers=sums,
            bucket=_bucket(buckets, "exchange", manifest.storage.place, where),
        ),
    )


def _bucket(buckets: Mapping[tuple[str, str], Bucket], role: str, place: str, where: str) -> Bucket:
    bucket = buckets.get((role, place))
    if bucket is None:
        raise PlacerError(
            f"{where}: no bucket of the {role} in {place}", "write it again with --manifest"
        )
    return bucket

"""The hubs of a run: its parameter server, or its cloud functions with the bucket of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placer.documents.manifest.types import Bucket, Manifest
from placer.errors import PlacerError
from placer.launch.serverless.functions import CloudFunction
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
    function
        What it is in the cloud; None: a server.
    """

    place: str
    gathers: tuple[int, ...]
    function: CloudFunction | None = None

    @property
    def bucket(self) -> Bucket | None:
        """Return the bucket into which they put them; None: a server, which is sent them."""
        return None if self.function is None else self.function.source


def hubs_of(
    manifest: Manifest,
    regions: Sequence[tuple[str, tuple[int, ...]]],
    functions: Sequence[CloudFunction],
    where: str,
) -> tuple[Hub, ...]:
    """List the hubs in the order of their ranks, which begin after the workers': a function of each
    region, if there are any, then the global one.

    Parameters
    ----------
    regions
        Places with the ranks of their workers.
    functions
        Of the manifest.
    where
        Name of the manifest, for errors.

    Raises
    ------
    PlacerError
        If a region has no bucket.
    """
    workers = tuple(range(manifest.workers))
    if traits(manifest.exchange.strategy).hub == "server" and manifest.aggregator is not None:
        return (Hub(place=manifest.aggregator.place, gathers=workers),)
    if not functions:
        return ()
    *sums, last = functions
    by_place = {function.place: function for function in sums}
    hubs = []
    for place, ranks in regions if sums else ():
        if place not in by_place:
            raise PlacerError(
                f"{where}: no bucket of the workers in {place}", "write it again with --manifest"
            )
        hubs.append(Hub(place=place, gathers=ranks, function=by_place[place]))
    gathers = tuple(range(len(workers), len(workers) + len(hubs))) or workers
    return (*hubs, Hub(place=last.place, gathers=gathers, function=last))

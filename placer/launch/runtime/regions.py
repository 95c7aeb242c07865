"""Who is in a worker's region, and who leads the regions."""

from __future__ import annotations

from placer.launch.runtime.training.context import Context


def region_of(context: Context) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Ranks of this rank's region, its leader first, and the leaders of all regions."""
    place = context.plan.place_of(context.rank)
    regions = dict(context.plan.regions)
    return regions[place], tuple(ranks[0] for ranks in regions.values())


def region_samples(context: Context, ranks: tuple[int, ...]) -> int:
    """Samples of a region in one step."""
    shares = context.shares()
    return sum(shares[rank] for rank in ranks)

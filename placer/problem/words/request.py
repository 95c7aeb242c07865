"""From the user's words to a validated Problem; the command line and the Python interface share it."""

from __future__ import annotations

import os
import re
from datetime import date, timedelta
from pathlib import Path

from placer.errors import PlacerError, unknown
from placer.market.carbon import parse_carbon
from placer.market.catalog import Catalog
from placer.market.selection import Words, gpus_of, patterns_of, words
from placer.problem.contradictions import without_contradictions
from placer.problem.exchange import traits
from placer.problem.problem import MOST_KNOWN_LOCAL_STEPS, Problem
from placer.problem.requirements import ALL_REGIONS, EXCHANGES, Requirements
from placer.problem.words.budget import read_budget, read_samples
from placer.problem.words.data import parse_datasets, parse_kept, parse_multipliers
from placer.problem.words.machines import parse_used
from placer.problem.words.quotas import read_quotas
from placer.units import (
    parse_bandwidth,
    parse_count,
    parse_fraction,
    parse_range,
    parse_rate,
    parse_seconds,
)
from placer.workload.constants import Calibration
from placer.workload.overlay import LinkSpeed, Overlay, as_overlay, with_link_speeds
from placer.workload.profile import ModelProfile

USER_SPREAD = 0.1
"""A measured stream of the user's repeats within this share: as the cloud links of Erben et al.
(2024) did.
"""
MOST_LOCAL_STEPS = 100_000
"""More local steps are a slip of the keyboard."""
MOST_DAYS = 36_500
"""Prices older than a century are a slip of the keyboard."""


def build_problem(
    profile: ModelProfile,
    catalog: Catalog,
    *,
    budget: str | None = None,
    min_throughput: str | None = None,
    samples: str | int | None = None,
    deadline: str | None = None,
    max_carbon: str | None = None,
    objective: str | None = None,
    gpu: Words = None,
    places: Words = None,
    not_places: Words = None,
    use: Words = None,
    market: str = "any",
    workers: str | int = "1..64",
    regions: str | int | None = None,
    quota: str | None = None,
    exchange: str = "auto",
    aggregator: str | None = None,
    storage: str | None = None,
    compression: str | None = None,
    local_steps: str | int | None = None,
    streams: str | int = 1,
    overlap: bool = False,
    samples_to_target: Words = None,
    tbs: str | int | None = None,
    critical_batch: str | int | None = None,
    data: Words = None,
    passes: str | float = 1,
    keep: Words = None,
    interruption: str | float | None = None,
    unavailable: str | float | None = None,
    links: Words = None,
    calibration: str | os.PathLike[str] | Calibration | Overlay | None = None,
    zones: str = "one",
    require_measured: bool = False,
    max_price_age: str | None = None,
) -> Problem:
    """Read the user's words and check them against profile and catalog.

    Parameters
    ----------
    budget, min_throughput
        Such as ``5/h`` and ``400/s``; with ``samples`` also a budget in total, such as ``200usd``.
    samples, deadline
        How many samples to train on, at equal progress, such as ``10M``; and the time for them,
        such as ``12h``.
    max_carbon
        Most emissions of the machines, such as ``500g/h`` (CO2e).
    objective
        ``throughput``, ``cost``, ``cost-per-sample``, ``time`` or ``carbon``; by default
        throughput, or cost if there is a throughput floor or a deadline and no budget.
    gpu, places, not_places
        Names, comma-separated or as a list; places may have wildcards.
    use
        Machines that are owned or run already and must be among the workers, as ``PLACE`` or
        ``PLACE=NxDEVICE[:market]``; at least so many. Place and device may have wildcards.
    market
        ``spot``, ``on-demand`` or ``any``.
    workers
        A number or a range such as ``1..16``.
    regions
        A number or a range of regions with workers, such as ``2..3``; None: any number.
    quota
        CSV file with the columns place, gpu, market, gpus and, if wanted, scope (each or together).
    exchange, aggregator, storage, compression, tbs
        How gradients are exchanged; None takes the profile's or the best. ``aggregator`` is the
        place of the function, parameter server or hub, or ``function@place`` where a place has
        several. ``tbs`` may be a range such as ``8K..64K``: its ends and the powers of two between
        are tried.
    critical_batch
        Gradient noise scale in samples: how many more samples larger batches need.
    local_steps
        Optimizer steps between exchanges, a number or a range; None: 1, or for a local strategy
        whatever is best up to 64.
    streams, overlap
        TCP streams of each pair of machines; whether the exchange runs beside the next step.
    samples_to_target
        The user's own multipliers, such as ``local-sgd=1.2``, in place of the default table.
    data
        Store of the dataset, such as ``b2``, or datasets with a place, such as
        ``aws/us-east-1=2M:stay``; None: the data is with the workers.
    passes, keep
        How often the data is read before it moves again; residency rules such as
        ``gradients=europe``.
    interruption, unavailable
        Chance per month that a spot machine is taken away; share of the time in which a zone has no
        spot capacity.
    links
        Measured single streams, both directions, such as ``gcp/us-west1:aws/us-west-2=250Mb/s``.
    calibration
        File of ``placer calibrate``, an overlay, or constants; links that are given win over its
        links.
    zones
        ``one``: workers of a region share a zone; ``spread``: they pay for traffic between zones.
    require_measured
        Leave out devices that nobody measured this model on.
    max_price_age
        Leave out machines whose price is older than this, such as ``30d``.

    Raises
    ------
    PlacerError
        Names the word that is wrong.
    """
    overlay = as_overlay(calibration)
    catalog = with_links(overlay.over_catalog(catalog), words(links, "link") if links else [])
    usd_per_hour, usd = read_budget(budget, samples)
    requirements = Requirements(
        objective=("cost" if (min_throughput or deadline) and not budget else "throughput")
        if objective is None
        else objective,
        budget_usd_per_hour=usd_per_hour,
        min_samples_per_second=None if min_throughput is None else parse_rate(min_throughput),
        samples=read_samples(samples),
        deadline_s=None if deadline is None else parse_seconds(deadline),
        budget_usd=usd,
        max_carbon_g_per_hour=None if max_carbon is None else parse_carbon(max_carbon),
        gpus=gpus_of(gpu, catalog),
        places_in=patterns_of(places, catalog),
        places_not_in=patterns_of(not_places, catalog),
        market=market.replace("-", "_"),
        min_workers=parse_range(str(workers))[0],
        max_workers=parse_range(str(workers))[1],
        min_regions=1 if regions is None else parse_range(str(regions), "regions", ALL_REGIONS)[0],
        max_regions=ALL_REGIONS
        if regions is None
        else parse_range(str(regions), "regions", ALL_REGIONS)[1],
        exchange=_exchange(exchange, aggregator, storage, catalog),
        aggregator=None if aggregator is None else _hub_place(exchange, aggregator, catalog),
        function=None
        if aggregator is None or "@" not in aggregator
        else catalog.function(aggregator).function,
        storage=None if storage is None else catalog.store(storage).place,
        compression=compression,
        min_local_steps=None if local_steps is None else _local_steps(local_steps)[0],
        max_local_steps=None if local_steps is None else _local_steps(local_steps)[1],
        streams=_streams(streams),
        overlap=overlap,
        samples_to_target=parse_multipliers(words(samples_to_target, "samples to target"))
        if samples_to_target
        else (),
        target_batch_size=_batches(tbs)[0],
        batch_range=_batches(tbs)[1],
        critical_batch=None
        if critical_batch is None
        else parse_count(str(critical_batch), "critical-batch"),
        data_store=_data_store(data, catalog),
        datasets=parse_datasets(_datasets(data), catalog),
        passes=_passes(passes),
        kept=parse_kept(words(keep, "keep"), catalog) if keep else (),
        interruption=None
        if interruption is None
        else parse_fraction(str(interruption), "interruption", 0.99),
        unavailable=None
        if unavailable is None
        else parse_fraction(str(unavailable), "unavailable", 0.99),
        used=parse_used(words(use, "use"), catalog) if use not in (None, ()) else (),
        quotas=() if quota is None else read_quotas(Path(quota), catalog),
        same_zone=_zones(zones),
        require_measured=require_measured,
        oldest_price=None if max_price_age is None else _oldest(max_price_age),
    )
    profile = overlay.over_profile(profile)
    return without_contradictions(
        Problem(
            profile=profile,
            catalog=catalog,
            requirements=requirements,
            calibration=overlay.calibration,
        )
    )


def _local_steps(value: str | int) -> tuple[int, int]:
    low, high = parse_range(str(value), "local-steps", MOST_KNOWN_LOCAL_STEPS)
    if high > MOST_LOCAL_STEPS:
        raise PlacerError(
            f"local-steps '{value}' is above {MOST_LOCAL_STEPS:,}",
            "give the optimizer steps between exchanges",
        )
    return low, high


def _batches(tbs: str | int | None) -> tuple[int | None, tuple[int, int] | None]:
    """The batch, or the range to choose it from."""
    if tbs is None:
        return None, None
    low, dots, high = str(tbs).partition("..")
    if not dots:
        return parse_count(low, "tbs"), None
    if not (low.strip() and high.strip()):
        raise PlacerError(f"tbs '{tbs}' has an open end", "write a range of batches as 8K..64K")
    ends = parse_count(low, "tbs"), parse_count(high, "tbs")
    return None, ends


def _oldest(age: str) -> str:
    """Date before which prices are too old, ISO."""
    days = parse_seconds(age) / 86400
    if days > MOST_DAYS:
        raise PlacerError(
            f"max-price-age '{age}' is more than {MOST_DAYS:,} days", "write it as 30d"
        )
    return (date.today() - timedelta(days=days)).isoformat()


def _streams(value: str | int) -> int:
    return parse_count(str(value), "streams")


def _passes(value: str | float) -> float:
    try:
        return float(value)
    except ValueError:
        raise PlacerError(
            f"passes '{value}' is not a number", "write how often the data is read, such as 3"
        ) from None


def _datasets(data: Words) -> list[str]:
    """The words of --data that give a dataset its place."""
    return [word for word in words(data, "data") if "=" in word] if data else []


def _data_store(data: Words, catalog: Catalog) -> str | None:
    """The one word of --data that names a store."""
    stores = [word for word in words(data, "data") if "=" not in word] if data else []
    if not stores:
        return None
    if len(stores) > 1 or _datasets(data):
        raise PlacerError(
            f"data '{', '.join(stores)}' beside other data",
            "name one store, or datasets as PLACE=SAMPLES:stay, without commas in numbers",
        )
    return catalog.store(stores[0]).place


def with_links(catalog: Catalog, given: list[str]) -> Catalog:
    """Put measured links of the user's over those of a catalog; round-trip times stay as they are
    known.

    Raises
    ------
    PlacerError
        If a link does not follow ``A:B=RATE``, or a place is unknown.
    """
    speeds = []
    for word in given:
        match = re.fullmatch(r"(?P<a>[^:=]+):(?P<b>[^:=]+)=(?P<rate>.+)", word)
        if match is None:
            raise PlacerError(
                f"link '{word}' is not a measured link",
                "write it as gcp/us-west1:aws/us-west-2=250Mb/s",
            )
        gbps = parse_bandwidth(match["rate"]) * 8 / 1e9
        for src, dst in ((match["a"], match["b"]), (match["b"], match["a"])):
            low, high = gbps * (1 - USER_SPREAD), gbps * (1 + USER_SPREAD)
            day = catalog.as_of[1]
            made = LinkSpeed(
                src=src,
                dst=dst,
                gbps_one_stream=gbps,
                gbps_low=low,
                gbps_high=high,
                source="given with --link",
                as_of=day,
            )
            speeds.append(made)
    return with_link_speeds(catalog, speeds)


def _exchange(exchange: str, aggregator: str | None, storage: str | None, catalog: Catalog) -> str:
    """Places of an aggregator or a store ask for a central exchange unless another one is named."""
    if exchange not in EXCHANGES:
        raise unknown("exchange", exchange, EXCHANGES)
    hub = "function" if exchange == "auto" else traits(exchange).hub
    if (not hub and aggregator is not None) or (hub != "function" and storage is not None):
        what = "store" if hub else "aggregator and no store"
        raise PlacerError(
            f"the exchange {exchange} has no {what}",
            "leave out --aggregator and --storage, or use --exchange central",
        )
    if hub != "function" or (exchange == "auto" and aggregator is None and storage is None):
        return exchange
    if not (catalog.functions and catalog.stores):
        missing = "stores" if catalog.functions else "functions"
        named = "central" if exchange == "auto" else exchange
        hint = "use --exchange all-reduce, or another catalog"
        raise PlacerError(
            f"catalog '{catalog.name}' has no {missing}, so the exchange {named} cannot run", hint
        )
    return "central" if exchange == "auto" else exchange


def _hub_place(exchange: str, place: str, catalog: Catalog) -> str:
    """Check the place of a function, or of a server."""
    if exchange == "auto" or traits(exchange).hub == "function":
        return catalog.function(place).place
    return catalog.region(place).place


def _zones(value: str) -> bool:
    if value not in ("one", "spread"):
        raise unknown("zones", value, ["one", "spread"])
    return value == "one"

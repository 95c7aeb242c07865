"""Words about data and convergence: datasets, residency rules, samples to target."""

from __future__ import annotations

import re

from placer.errors import PlacerError, unknown
from placer.market.catalog import Catalog, StoreOffer
from placer.market.words.selection import is_named, places_of
from placer.problem.datasets import Dataset
from placer.problem.requirements import EXCHANGES, Kept
from placer.units import parse_bytes, parse_count, parse_rate
from placer.workload.profile import ModelProfile

SCHEMES = {
    "s3": "s3",
    "gs": "gcs",
    "az": "blob",
    "abfs": "blob",
    "abfss": "blob",
    "wasbs": "blob",
    "r2": "r2",
    "b2": "b2",
}
"""Names of stores in the books by the scheme of their addresses."""
_SIZED = re.compile(r"(?P<size>[0-9.]+\s*[A-Za-z]{1,3})\s*@\s*(?P<where>.+)")
_BYTES = re.compile(r"(?P<place>[^=\s]+)=(?P<size>[0-9.]+\s*[A-Za-z]{0,2}B)(?P<may>:.+)")
_ADDRESS = re.compile(r"(?P<scheme>[a-z0-9]+)://(?P<where>.*)", re.IGNORECASE)
KINDS = ("raw-data", "gradients", "checkpoints")
"""What a residency rule can be about."""


def in_plain_words(given: list[str], profile: ModelProfile) -> tuple[list[str], str | None]:
    """Write words about data without sizes: ``2TB@STORE`` as the store, ``PLACE=2TB:stay`` in
    samples of a model; and return the size of the data in the store, if one was given.
    """
    words, size = [], None
    for word in given:
        stored, placed = _SIZED.fullmatch(word.strip()), _BYTES.fullmatch(word.strip())
        if stored is not None:
            size = stored["size"]
            parse_bytes(size)
            words.append(stored["where"])
        elif placed is not None:
            each = profile.bytes_per_sample
            if each is None:
                raise PlacerError(
                    f"data '{word}': nobody knows the bytes of a sample of {profile.name}",
                    f"give samples: {placed['place']}=2M{placed['may']}",
                )
            samples = max(1, round(parse_bytes(placed["size"]) / each))
            words.append(f"{placed['place']}={samples}{placed['may']}")
        else:
            words.append(word)
    return words, size


def floor_in_samples(words: str, profile: ModelProfile) -> str:
    """Write a throughput in samples of a model, of which a language model's have some tokens."""
    shape = profile.architecture
    return f"{parse_rate(words, None if shape is None else shape.sequence_length)!r}/s"


MULTI_REGIONS = {
    "eu": "europe-west4",
    "us": "us-central1",
    "asia": "asia-east1",
    "nam4": "us-central1",
    "eur4": "europe-north1",
    "eur5": "europe-west1",
    "eur7": "europe-west2",
    "eur8": "europe-west3",
    "asia1": "asia-northeast1",
}
"""Places of buckets of Google Cloud that span regions, with one of the regions in each."""


def store_named(word: str, catalog: Catalog) -> StoreOffer:
    """Find a store by its place or name, or by an address whose host is a region:
    ``s3://us-east-1``, ``gs://us-central1``, ``az://eastus``. `PlacerError` if there is none; a
    bucket is not looked up.
    """
    match = _ADDRESS.fullmatch(word.strip())
    if match is None:
        return catalog.store(word)
    kind = SCHEMES.get(match["scheme"].lower())
    if kind is None:
        error = unknown("scheme", match["scheme"], SCHEMES)
        raise PlacerError(f"data '{word}': {error.message}", error.hint)
    stores = {store.region: store for store in catalog.stores if store.store == kind}
    path, _, named = match["where"].strip("/").rpartition("@")
    region = named.partition("/")[0] if not path else named
    store = stores.get(region)
    if store is not None:
        return store
    if not stores:
        raise PlacerError(
            f"data '{word}': catalog '{catalog.name}' has no store '{kind}'",
            f"it has {', '.join(sorted({s.store for s in catalog.stores})) or 'no stores'}",
        )
    if kind == "gcs" and region.lower() in MULTI_REGIONS:
        inside = MULTI_REGIONS[region.lower()]
        raise PlacerError(
            f"data '{word}': '{region}' is a multi-region of Google Cloud, whose reads are not "
            "priced here",
            f"name a region in it, such as {match['scheme']}://{inside}, and add what Google takes "
            f"for reads out of {region} into a region",
        )
    error = unknown("region", region, stores)
    raise PlacerError(
        f"data '{word}': '{region}' is not a region of the store '{kind}'; "
        "buckets are not looked up",
        f"{error.hint}; write {match['scheme']}://REGION, or {match['scheme']}://BUCKET@REGION",
    )


def parse_datasets(given: list[str], catalog: Catalog) -> tuple[Dataset, ...]:
    """Read ``PLACE=SAMPLES:stay`` or ``:move``; rows of one place and kind add up."""
    samples_of: dict[tuple[str, bool], int] = {}
    for word in given:
        match = re.fullmatch(r"(?P<place>[^=\s]+)=(?P<samples>[^:]+)(?::(?P<may>stay|move))?", word)
        if match is None:
            raise PlacerError(
                f"data '{word}' is not a dataset",
                "write PLACE=SAMPLES:stay or :move, such as aws/us-east-1=2M:stay or =2TB:stay",
            )
        if match["may"] is None:
            raise PlacerError(
                f"data '{word}' does not say whether it may leave",
                f"write {word}:stay or {word}:move",
            )
        key = (catalog.region(match["place"]).place, match["may"] == "move")
        samples_of[key] = samples_of.get(key, 0) + parse_count(match["samples"], "samples")
    return tuple(
        Dataset(place=place, samples=samples, may_move=may)
        for (place, may), samples in samples_of.items()
    )


def parse_kept(given: list[str], catalog: Catalog) -> tuple[Kept, ...]:
    """Read ``KIND=AREA``: what is of a kind and in an area does not leave it."""
    rules = []
    for word in given:
        kind, sign, area = word.partition("=")
        if not sign:
            raise PlacerError(
                f"keep '{word}' is not a rule",
                "write KIND=AREA, such as raw-data=europe or gradients=gcp/europe-west1",
            )
        if kind not in KINDS:
            raise unknown("kind", kind, KINDS)
        patterns = places_of(area, catalog)
        inside = tuple(place for place in catalog.regions if is_named(place, patterns))
        rules.append(Kept(kind=kind, area=area, places=inside))
    return tuple(rules)


def parse_multipliers(given: list[str]) -> tuple[tuple[str, float], ...]:
    """Read ``STRATEGY=FACTOR``: samples to target over those of synchronous training."""
    factors = {}
    for word in given:
        name, sign, factor = word.partition("=")
        if not sign or not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,20})?", factor):
            raise PlacerError(
                f"samples to target '{word}' is not a strategy with a factor above 0",
                "write STRATEGY=FACTOR, such as local-sgd=1.2: 20 % more samples",
            )
        if name not in EXCHANGES or name == "auto":
            raise unknown("exchange", name, EXCHANGES[1:])
        if name in factors:
            raise PlacerError(
                f"samples to target of {name} are given twice", "give one factor for each strategy"
            )
        factors[name] = float(factor)
    return tuple(factors.items())

"""Small random markets, drawn from a seed, for which every placement can be tried."""

import random
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from placer.market.catalog import (
    Catalog,
    EgressPrice,
    FunctionOffer,
    Gpu,
    MeasuredLink,
    Region,
    Setting,
    StoreOffer,
    VmOffer,
)
from placer.problem.datasets import Dataset
from placer.problem.problem import Problem
from placer.problem.requirements import ALL_REGIONS, EXCHANGES, Narrowed, Quota, Requirements, Used
from placer.problem.workers.pool import Pool
from placer.records import replace
from placer.workload.architecture import Architecture
from placer.workload.profile import Efficiency, ModelProfile, Rate, load_profile

AS_OF = "2026-01-01"
TEST: dict[str, Any] = {"source": "test", "as_of": AS_OF}
"""Where rows of made-up books come from."""
ANY: dict[str, Any] = {"place": "*", "gpu": "*", "market": "*"}
"""What a quota is of unless it says so."""
OBJECTIVES = ("throughput", "cost", "cost-per-sample")
"""What the seeds of the first generators draw from."""
CITIES = [
    ("NA", 39.0, -77.5),
    ("NA", 45.6, -121.2),
    ("EU", 50.5, 3.8),
    ("EU", 50.1, 8.7),
    ("AS", 24.1, 120.5),
    ("OC", -33.9, 151.2),
    ("NA", 34.1, -118.2),
    ("EU", 51.5, -0.1),
    ("SA", -23.5, -46.6),
    ("NA", 39.0, -77.4),
]
"""Continent, latitude, longitude of the places that instances use."""
GPUS = {
    "T4": (15.0, 65.0, 320.0, "t4"),
    "A10": (22.5, 125.0, 600.0, "a10"),
    "V100": (16.0, 125.0, 900.0, "a10"),
}


def question(model: str, book: Catalog, **wishes: Any) -> Problem:
    """Ask for a shipped model on a book."""
    return Problem(profile=load_profile(model), catalog=book, requirements=Requirements(**wishes))


def wishing(problem: Problem, **wishes: Any) -> Problem:
    """Return a question with some wishes changed."""
    return replace(problem, requirements=replace(problem.requirements, **wishes))


def gpu_of(name: str, figures: Sequence[Any] = (), nvlink_gb_per_s: float | None = None) -> Gpu:
    """Build a device by its row of `GPUS`, or by other figures."""
    memory, flops, bandwidth, host = figures or GPUS[name]
    return Gpu(
        gpu=name,
        kind="gpu",
        memory_gib=memory,
        fp16_tflops=flops,
        memory_gb_per_s=bandwidth,
        host=host,
        nvlink_gb_per_s=nvlink_gb_per_s,
        **TEST,
    )


def rate_of(gpu: str, gpu_count: int, value: float) -> Rate:
    """Build a measured speed of a machine, in samples/s."""
    ends: dict[str, Any] = dict.fromkeys(("value", "low", "high"), value)
    return Rate(
        gpu=gpu, gpu_count=gpu_count, framework="none", **ends, basis="measured", source="test"
    )


def link_of(src: str, dst: str, gbps: float, rtt_ms: float) -> MeasuredLink:
    """Build a measured link."""
    ends: dict[str, Any] = {"gbps_one_stream": gbps, "gbps_low": gbps / 2, "gbps_high": gbps * 2}
    return MeasuredLink(src=src, dst=dst, **ends, rtt_ms=rtt_ms, basis="measured", **TEST)


def combinations(pools: Iterable[Pool], most_workers: int) -> int:
    """Count the ways to choose machines of some pools, none at all included."""
    return prod(min(pool.max_count, most_workers) + 1 for pool in pools)


def region(provider: str, name: str, city: int) -> Region:
    """Build a region in one of `CITIES`."""
    continent, latitude, longitude = CITIES[city]
    return Region(
        provider=provider,
        region=name,
        display_name=name,
        city=name,
        country="XX",
        continent=continent,
        egress_zone=continent,
        latitude_deg=latitude,
        longitude_deg=longitude,
        **TEST,
    )


def offer(
    provider: str,
    name: str,
    gpu: str,
    usd: float,
    *,
    market: str = "spot",
    gpus: int = 1,
    available: int | None = None,
) -> VmOffer:
    """Build an offer with 64 GiB of host memory."""
    return VmOffer(
        provider=provider,
        region=name,
        instance_type=f"{gpu}x{gpus}",
        gpu=gpu,
        gpu_count=gpus,
        vcpus=8,
        memory_gib=64,
        market=market,
        usd_per_hour=usd,
        price_basis="list",
        available=available,
        **TEST,
    )


def profile(
    gradient_mb: float, rates: dict[str, float], batch: int, efficiency: float = 0.6
) -> ModelProfile:
    """Build a profile whose gradients have ``gradient_mb`` MB in FP16."""
    size = int(gradient_mb * 1e6)
    return ModelProfile(
        name="toy",
        title="toy",
        family="cnn",
        parameters=size // 2,
        tensors=100,
        gradient_bytes_fp32=2 * size,
        gradient_source="test",
        device_memory_bytes=10**9,
        host_memory_bytes=10**9,
        memory_source="test",
        bytes_per_sample=100_000,
        bytes_per_sample_source="test",
        target_batch_size=batch,
        microbatch=8,
        compression="fp16",
        efficiency=(
            Efficiency(
                framework="hivemind",
                value=efficiency,
                low=efficiency,
                high=efficiency,
                basis="measured",
                source="test",
            ),
        ),
        rates=tuple(rate_of(gpu, 1, value) for gpu, value in rates.items()),
    )


def random_problem(seed: int) -> Problem:
    """Draw a market of up to three regions and five offers, and wishes that bind now and then."""
    draw = random.Random(seed)
    cities = draw.sample(range(6), draw.choice([1, 2, 2, 3]))
    regions, offers = [], []
    for number, city in enumerate(cities):
        provider = draw.choice(["aws", "gcp"])
        regions.append(region(provider, f"r{number}", city))
        for gpu, gpus, market in draw.sample(
            [(g, k, m) for g in GPUS for k in (1, 2) for m in ("spot", "on_demand")],
            draw.choice([1, 1, 2]),
        ):
            usd = round(draw.uniform(0.1, 1.5) * gpus, 3)
            offers.append(offer(provider, f"r{number}", gpu, usd, market=market, gpus=gpus))
    catalog = Catalog(
        name="toy",
        digest="0",
        regions={**{r.place: r for r in regions}, "backblaze/b": region("backblaze", "b", 1)},
        gpus={name: gpu_of(name) for name in GPUS},
        offers=tuple(offers),
        functions=tuple(function_at(r) for r in regions if draw.random() < 0.7),
        stores=(
            *(store_at(r) for r in regions if draw.random() < 0.7),
            store_at(region("backblaze", "b", 1)),
        ),
        egress=tuple(_prices(draw)),
    )
    rates = {gpu: round(draw.uniform(20, 400), 1) for gpu in GPUS}
    model = profile(draw.choice([0.5, 20, 200, 1000]), rates, draw.choice([256, 4096, 32768]))
    return Problem(profile=model, catalog=catalog, requirements=_wishes(draw))


def sized_problem(seed: int, most: int = 10_000) -> Problem:
    """Draw machines of one to eight devices that share quotas of 7 to 63 devices or none at all,
    with gradients so small that many machines pay.

    ``most``: most combinations of counts, so that plain enumeration stays quick.
    """
    draw = random.Random(seed)
    while True:
        problem = _sized(draw)
        if problem.pools and combinations(problem.pools, problem.requirements.max_workers) <= most:
            return problem


def _sized(draw: random.Random) -> Problem:
    base = random_problem(draw.randrange(10**6))
    places = [r for r in base.catalog.regions.values() if r.provider != "backblaze"][:2]
    sizes = {gpu: sorted(draw.sample((1, 2, 4, 8), draw.choice((2, 3, 4)))) for gpu in GPUS}
    offers = tuple(
        offer(
            here.provider,
            here.region,
            gpu,
            round(draw.uniform(0.1, 1.2) * size, 3),
            gpus=size,
            available=draw.choice([None, None, None, 2]),
        )
        for here in places
        for gpu in draw.sample(sorted(GPUS), draw.choice((1, 1, 2)))
        for size in sizes[gpu]
    )
    alone = {gpu: draw.uniform(20, 400) for gpu in GPUS}
    values = {
        (gpu, size): round(alone[gpu] * size ** draw.uniform(0.7, 1.1), 1)
        for gpu in GPUS
        for size in (1, 2, 4, 8)
    }
    rates = tuple(rate_of(gpu, size, value) for (gpu, size), value in values.items())
    quota = draw.choice((7, 16, 17, 63, None))
    low = draw.choice((1, 1, 2))
    return replace(
        base,
        profile=replace(
            base.profile, rates=rates, gradient_bytes_fp32=draw.choice((10**4, 10**6, 10**8))
        ),
        catalog=replace(base.catalog, offers=offers),
        requirements=replace(
            base.requirements,
            budget_usd_per_hour=draw.choice((None, round(draw.uniform(1, 30), 2))),
            min_workers=low,
            max_workers=draw.choice((4, 6, 9, 16)),
            exchange=draw.choice(("all-reduce", "all-reduce", "auto")),
            data_store=None,
            quotas=(),
            quota_gpus=quota,
        ),
    )


ISLAND_GPUS = {
    "L4": (22.5, 121.0, 300.0, None),
    "A100-40": (39.5, 312.0, 1555.0, 300.0),
    "H100": (79.5, 989.0, 3350.0, 450.0),
}
"""Memory, FP16 peak, memory bandwidth and NVLink of the devices of islands."""


def decoder_of(layers: int, width: int, parameters: int, **others: Any) -> Architecture:
    """Build a decoder that trains and computes with all its parameters."""
    counts = ("parameters", "active_parameters", "computed_parameters", "trainable_parameters")
    usual = {"mlp_matrices": 2, "vocabulary": 32_000, "tied": True, "sequence_length": 2_048}
    usual |= {"kv_width": width, "mlp_width": 4 * width, **dict.fromkeys(counts, parameters)}
    return Architecture(layers=layers, width=width, **{**usual, **others})


def language_model(layers: int, width: int, batch: int) -> ModelProfile:
    """Build a decoder without rates: its speed and its plans follow from its dimensions."""
    parameters = layers * 12 * width**2 + 32_000 * width
    shape = decoder_of(layers, width, parameters)
    base = profile(parameters * 2 / 1e6, {"T4": 1.0}, batch)
    return replace(base, family="transformer", rates=(), efficiency=(), architecture=shape)


def loading_problem(seed: int) -> Problem:
    """Draw a market whose workers read large samples from a store, over links, network cards and a
    limit of the store that bind now and then; often several times, with local disks that hold the
    data, are too small or are not known.
    """
    draw = random.Random(seed)
    base = random_problem(draw.randrange(10**6))
    gbps = draw.choice((None, round(draw.uniform(0.5, 8), 2)))
    stores = tuple(replace(store, read_gbps=gbps) for store in base.catalog.stores)
    offers = tuple(
        replace(offer, network_gbps=draw.choice((None, 1.0, 10.0))) for offer in base.catalog.offers
    )
    size = draw.choice((10**5, 10**6, 5 * 10**6))
    once = replace(
        base,
        profile=replace(base.profile, bytes_per_sample=size),
        catalog=replace(base.catalog, stores=stores, offers=offers),
        requirements=replace(
            base.requirements, data_store=draw.choice([store.place for store in stores])
        ),
    )
    return once if draw.random() < 0.3 else _with_passes(draw, once)


def reading_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` whose workers read several times from a store that holds
    them back, with local disks that hold the data, are too small or are not known.
    """
    draw = random.Random(f"reading {seed}")
    base = exchange_problem(draw.randrange(10**6))
    while not (base.pools and base.catalog.stores):
        base = exchange_problem(draw.randrange(10**6))
    gbps = draw.choice((None, round(draw.uniform(0.05, 4), 2)))
    stores = tuple(replace(store, read_gbps=gbps) for store in base.catalog.stores)
    offers = tuple(
        replace(offer, network_gbps=draw.choice((None, 1.0, 10.0))) for offer in base.catalog.offers
    )
    store = draw.choice([store.place for store in stores])
    return _with_passes(
        draw,
        replace(
            base,
            profile=replace(base.profile, bytes_per_sample=draw.choice((10**5, 10**6))),
            catalog=replace(base.catalog, stores=stores, offers=offers),
            requirements=replace(base.requirements, datasets=(), passes=1.0, data_store=store),
        ),
    )


def site_problem(seed: int) -> Problem:
    """Draw a market of `loading_problem` with a site of one's own, whose machines share a line."""
    draw = random.Random(f"site {seed}")
    base = loading_problem(draw.randrange(10**6))
    site = region("onprem", "site", draw.choice((6, 7)))
    own = tuple(
        replace(
            offer("onprem", "site", gpu, round(draw.uniform(0.05, 0.5), 3), gpus=gpus),
            network_gbps=10.0,
            local_disk_gb=draw.choice((None, 900.0)),
        )
        for gpu, gpus in draw.sample([(g, k) for g in GPUS for k in (1, 2)], 2)
    )
    gbps = round(draw.uniform(0.2, 4), 2)
    line = link_of(site.place, site.place, gbps, 0.3)
    book = base.catalog
    catalog = replace(
        book,
        regions={**book.regions, site.place: site},
        offers=(*book.offers[:2], *own),
        egress=(*book.egress, *(_price("onprem", "*", dst, 0.0) for dst in EGRESS_ENDS)),
        links=(*book.links, line),
    )
    return replace(base, catalog=catalog)


EGRESS_ENDS = ("intra_zone", "inter_zone", "*", "internet")
"""Where bytes may go from a site."""


def _with_passes(draw: random.Random, problem: Problem) -> Problem:
    """Read the data of a store several times, on machines with local disks of any size."""
    disks = tuple(
        replace(offer, local_disk_gb=draw.choice((None, 125.0, 900.0, 3800.0)))
        for offer in problem.catalog.offers
    )
    size = problem.profile.bytes_per_sample or 1
    data_bytes = draw.choice((50e9, 300e9, 2e12))
    passes = draw.choice((1.5, 3.0, 20.0, 200.0))
    said = draw.random() < 0.5
    wish = replace(
        problem.requirements,
        data_bytes=data_bytes,
        passes=passes if said else 1.0,
        samples=None if said else int(passes * data_bytes / size),
        data_cache=draw.choice((None, None, "auto", "disk", "none")),
    )
    return replace(problem, catalog=replace(problem.catalog, offers=disks), requirements=wish)


def server_problem(seed: int) -> Problem:
    """Draw a market around a parameter server whose vCPUs, and with them its sum, differ by machine
    and by the memory that the gradients need.
    """
    draw = random.Random(f"server {seed}")
    base = exchange_problem(draw.randrange(10**6))
    offers = tuple(
        replace(
            offer,
            vcpus=draw.choice((1, 2, 4, 8, 96)),
            memory_gib=offer.memory_gib * draw.choice((1, 2, 8)),
            available=None,
        )
        for offer in base.catalog.offers
    )
    size = draw.choice((10**8, 10**9, 5 * 10**9))
    return replace(
        base,
        profile=replace(base.profile, gradient_bytes_fp32=size),
        catalog=replace(base.catalog, offers=offers),
        requirements=replace(
            base.requirements,
            exchange="parameter-server",
            compression=draw.choice((None, "none", "fp16", "int8")),
            overlap=False,
            min_local_steps=None,
            max_local_steps=None,
            budget_usd_per_hour=draw.choice((5.0, 20.0, 100.0)),
            min_samples_per_second=None,
            datasets=(),
            storage=None,
            aggregator=None,
            min_regions=1,
            min_workers=2,
            max_workers=max(3, base.requirements.max_workers),
        ),
    )


def island_problem(seed: int, most: int = 3_000) -> Problem:
    """Draw a language model on machines of up to three regions, of which several may be one worker.

    ``most``: most combinations of counts, so that plain enumeration stays quick.
    """
    draw = random.Random(seed)
    while True:
        problem = _islands(draw)
        pools = problem.every_pool
        if pools and combinations(pools, problem.requirements.max_workers) <= most:
            return problem


def of_workers(problem: Problem, workers: int) -> Problem:
    """Return what a search over numbers of workers asks about one of them: their speeds add up."""
    wish = problem.requirements
    one = replace(wish, min_workers=workers, max_workers=workers, narrowed=Narrowed(few_sizes=True))
    return replace(problem, requirements=one)


def _islands(draw: random.Random) -> Problem:
    base = random_problem(draw.randrange(10**6))
    places = [r for r in base.catalog.regions.values() if r.provider != "backblaze"]
    offers = []
    for here in places:
        for gpu in draw.sample(sorted(ISLAND_GPUS), draw.choice((1, 1, 2))):
            gpus, gbps = draw.choice((1, 4, 8)), draw.choice((None, 10.0, 100.0, 400.0, 3200.0))
            made = offer(
                here.provider,
                here.region,
                gpu,
                round(draw.uniform(0.5, 3) * gpus, 3),
                gpus=gpus,
                market=draw.choice(("spot", "on_demand")),
                available=draw.choice((None, None, 3)),
            )
            made = replace(
                made,
                memory_gib=2_000,
                network_gbps=gbps,
                fabric="" if gbps is None else draw.choice(("efa", "ethernet")),
                max_island_machines=draw.choice((None, 2, 4)),
            )
            offers += [
                made,
                # The same machine with another network: no twin, although it is dearer.
                replace(
                    made,
                    instance_type="fat",
                    network_gbps=1600.0,
                    usd_per_hour=made.usd_per_hour * 1.2,
                    fabric="infiniband",
                ),
            ][: draw.choice((1, 1, 2))]
    devices = {
        name: gpu_of(name, (*figures, "a10"), nvlink_gb_per_s=nvlink)
        for name, (*figures, nvlink) in ISLAND_GPUS.items()
    }
    setting = Setting(
        setting="transport", value=draw.choice(("nccl", "nccl", "gloo", "hivemind")), **TEST
    )
    layers, width = draw.choice(((12, 1_024), (32, 4_096), (48, 8_192)))
    local = draw.random() < 0.4
    quota = draw.choice((7, 16, 17, 32, 63))
    return replace(
        base,
        profile=language_model(layers, width, draw.choice((16, 256, 1_024))),
        catalog=replace(base.catalog, offers=tuple(offers), gpus=devices, settings=(setting,)),
        requirements=replace(
            base.requirements,
            gpus=(),
            budget_usd_per_hour=draw.choice((None, round(draw.uniform(5, 150), 2))),
            min_samples_per_second=None,
            min_workers=draw.choice((1, 1, 2)),
            max_workers=draw.choice((3, 4, 6)),
            max_machines=draw.choice((None, None, 4, 9)),
            min_island_machines=None,
            max_island_machines=draw.choice((None, 2, 4)),
            exchange=draw.choice(("local-sgd", "model-averaging", "asgd-ga"))
            if local
            else draw.choice(("all-reduce", "auto")),
            min_local_steps=1 if local else None,
            max_local_steps=draw.choice((4, 16)) if local else None,
            sharding=draw.choice((None, None, None, "zero-3")),
            overlap=False,
            data_store=None,
            quotas=(Quota(**ANY, gpus=quota),),
        ),
    )


def wide_problem(seed: int, most: int = 3000) -> Problem:
    """Draw what `random_problem` never has: up to six regions, owned and limited machines, measured
    links, free providers.

    ``most``: most combinations of counts and exchanges, so that plain enumeration stays quick.
    """
    draw = random.Random(seed)
    while True:
        problem = _wide(draw)
        hubs = len(problem.aggregator_places) or 1
        size = hubs * combinations(problem.pools, problem.requirements.max_workers)
        if problem.pools and size <= most:
            return problem


def _wide(draw: random.Random) -> Problem:
    regions, offers = [], []
    for number in range(draw.choice([1, 2, 3, 3, 4, 5, 6])):
        here = region(
            draw.choice(["aws", "gcp", "lambda", "onprem"]),
            f"r{number}",
            draw.randrange(len(CITIES)),
        )
        regions.append(here)
        kinds = [
            (gpu, size, market)
            for gpu in GPUS
            for size in (1, 2, 4)
            for market in ("spot", "on_demand")
        ]
        for gpu, size, market in draw.sample(kinds, draw.choice([1, 1, 2, 3])):
            usd = (
                0.0
                if draw.random() < 0.12
                else round(draw.uniform(0.05, 2) * size * draw.choice([1, 1, 1, 20]), 3)
            )
            made = offer(
                here.provider,
                here.region,
                gpu,
                usd,
                market=market,
                gpus=size,
                available=draw.choice([None, None, None, 1, 2]),
            )
            offers += [
                made,
                replace(made, instance_type=f"{made.instance_type}-twin", usd_per_hour=usd * 1.5),
            ][: draw.choice([1, 1, 1, 2])]
    places = {**{r.place: r for r in regions}, "backblaze/b": region("backblaze", "b", 1)}
    catalog = Catalog(
        name="toy",
        digest="0",
        regions=places,
        gpus={name: gpu_of(name) for name in GPUS},
        offers=tuple(offers),
        functions=tuple(
            replace(
                function_at(r),
                max_seconds=draw.choice([5, 30, 900]),
                max_memory_gib=draw.choice([1, 8]),
            )
            for r in regions
            if draw.random() < 0.5
        ),
        stores=(
            *(store_at(r) for r in regions if draw.random() < 0.5),
            store_at(places["backblaze/b"]),
        ),
        egress=tuple(_wide_prices(draw)),
        links=tuple(
            _measured(draw, a, b) for a in places for b in places if a != b and draw.random() < 0.3
        ),
    )
    rates = {
        gpu: round(draw.choice([draw.uniform(20, 400), draw.uniform(1, 2000)]), 1) for gpu in GPUS
    }
    model = profile(
        draw.choice([0.1, 0.5, 20, 120, 1000, 4000]),
        rates,
        draw.choice([64, 256, 4096, 32768]),
        draw.choice([0.5, 0.9, 1.0]),
    )
    return Problem(
        profile=replace(model, tensors=draw.choice([100, 467, 1000, None])),
        catalog=catalog,
        requirements=_wide_wishes(draw, catalog),
    )


def _wide_wishes(draw: random.Random, catalog: Catalog) -> Requirements:
    low = draw.choice([1, 1, 2, 3])
    return Requirements(
        objective=draw.choice(OBJECTIVES),
        budget_usd_per_hour=draw.choice(
            [None, round(draw.uniform(0.3, 10), 2), round(draw.uniform(0.1, 30), 2)]
        ),
        min_samples_per_second=draw.choice([None, None, round(draw.uniform(10, 1000), 1)]),
        places_in=("*/*", "onprem/*"),
        min_workers=low,
        max_workers=draw.choice([low, 4, 6, 8, 64]),
        exchange=draw.choice(["auto", "all-reduce", "central"]),
        data_store=draw.choice([None, None, *(s.place for s in catalog.stores)]),
        same_zone=draw.random() < 0.6,
        quotas=(
            Quota(**ANY, gpus=draw.choice([2, 3, 4, 8, 20])),
            Quota(place="*/r0", gpu="*", market="*", gpus=draw.choice([0, 1, 2, 8])),
        ),
    )


def _wide_prices(draw: random.Random) -> list[EgressPrice]:
    rows = []
    for provider in ("aws", "gcp", "lambda", "onprem", "backblaze"):
        free = provider == "lambda"
        for dst in ("intra_zone", "inter_zone", "*", "internet"):
            stays = dst == "intra_zone" and draw.random() < 0.8
            rows.append(
                _price(
                    provider,
                    "*",
                    dst,
                    0.0 if free or stays else draw.choice([0.0, 0.01, 0.02, 0.09, 0.5]),
                )
            )
        for zone in ("NA", "OC", "AS"):
            if draw.random() < 0.5 and not free:
                rows.append(_price(provider, "*", zone, draw.choice([0.0, 0.05, 0.15])))
            if draw.random() < 0.3 and not free:
                rows.append(_price(provider, zone, "internet", draw.choice([0.0, 0.05, 0.3])))
    return rows


def _price(provider: str, src: str, dst: str, usd: float) -> EgressPrice:
    return EgressPrice(provider=provider, src=src, dst=dst, usd_per_gib=usd, **TEST)


def _measured(draw: random.Random, src: str, dst: str) -> MeasuredLink:
    gbps = draw.choice([0.01, 0.1, 1, 5])
    return link_of(src, dst, gbps, draw.choice([1, 20, 200]))


def _wishes(draw: random.Random) -> Requirements:
    low = draw.choice([1, 1, 1, 2, 3])
    return Requirements(
        objective=draw.choice(OBJECTIVES),
        budget_usd_per_hour=draw.choice(
            [None, round(draw.uniform(0.3, 6), 2), round(draw.uniform(0.3, 6), 2)]
        ),
        min_samples_per_second=draw.choice([None, None, round(draw.uniform(10, 600), 1)]),
        min_workers=low,
        max_workers=draw.choice([low, 4, 5]),
        exchange=draw.choice(["auto", "auto", "all-reduce", "central"]),
        data_store=draw.choice([None, None, "backblaze/b"]),
        same_zone=draw.random() < 0.8,
        quotas=(
            Quota(**ANY, gpus=draw.choice([2, 3, 4])),
            Quota(place="*/r0", gpu="T4", market="*", gpus=draw.choice([0, 1, 2])),
        ),
    )


def function_at(r: Region) -> FunctionOffer:
    """Build a function as AWS sells it, billed by 100 ms."""
    return FunctionOffer(
        provider=r.provider,
        region=r.region,
        function="f",
        usd_per_gib_second=1.66667e-05,
        usd_per_million_requests=0.2,
        max_memory_gib=8,
        max_seconds=900,
        billing_step_ms=100,
        **TEST,
    )


def store_at(r: Region) -> StoreOffer:
    """Build a store as AWS sells it."""
    return StoreOffer(
        provider=r.provider,
        region=r.region,
        store="s",
        usd_per_gib_month=0.02,
        usd_per_thousand_writes=0.005,
        usd_per_thousand_reads=0.0004,
        usd_per_thousand_lists=0.005,
        **TEST,
    )


def _prices(draw: random.Random) -> list[EgressPrice]:
    rows = []
    for provider in ("aws", "gcp", "backblaze"):
        for dst, usd in (
            ("intra_zone", 0.0),
            ("inter_zone", 0.01),
            ("*", draw.choice([0.0, 0.02, 0.1])),
            ("internet", draw.choice([0.01, 0.09])),
        ):
            rows.append(_price(provider, "*", dst, usd))
    return rows


def exchange_problem(seed: int) -> Problem:
    """Draw a wide market of a few hundred combinations, and any strategy, local steps, streams,
    overlap and placed data.
    """
    draw = random.Random(seed)
    while True:
        problem = _wide(draw)
        wish = problem.requirements
        if 1 < combinations(problem.pools, wish.max_workers) <= 300:
            break
    least, most = draw.choice([(None, None), (1, 2), (1, 8), (4, 4)])
    changed = replace(
        wish,
        exchange=draw.choice(["auto", "auto", *EXCHANGES]),
        min_local_steps=least,
        max_local_steps=most,
        streams=draw.choice([1, 1, 4]),
        overlap=draw.random() < 0.3,
        samples_to_target=draw.choice([(), (), (("local-sgd", 1.5), ("parameter-server", 0.9))]),
        data_store=None,
        datasets=_datasets(draw, problem),
        passes=draw.choice([1, 100]),
    )
    if changed.exchange == "hierarchical":
        changed = replace(changed, max_workers=max(4, changed.max_workers), datasets=())
        problem = replace(problem, catalog=_serverless(problem.catalog))
    made = replace(problem, requirements=changed)
    if made.modes:
        return made
    return replace(
        problem,
        requirements=replace(changed, overlap=False, min_local_steps=None, max_local_steps=None),
    )


def _datasets(draw: random.Random, problem: Problem) -> tuple[Dataset, ...]:
    if draw.random() < 0.6:
        return ()
    places = sorted({pool.offer.place for pool in problem.pools})
    chosen = draw.sample(places, min(len(places), draw.choice([1, 2, 2, 3])))
    return tuple(
        Dataset(
            place=place,
            samples=draw.choice([10**3, 10**6, 3 * 10**6]),
            may_move=draw.random() < 0.3,
        )
        for place in chosen
    )


def _serverless(catalog: Catalog) -> Catalog:
    """Give every region with machines a function and a store."""
    regions = [catalog.region(place) for place in sorted({offer.place for offer in catalog.offers})]
    stores = (
        *(store_at(r) for r in regions),
        *(s for s in catalog.stores if s.provider == "backblaze"),
    )
    return replace(catalog, functions=tuple(function_at(r) for r in regions), stores=stores)


def used_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem`, rules on machines that must be used, and an owned
    machine now and then.
    """
    draw = random.Random(f"used {seed}")
    while True:
        problem = exchange_problem(draw.randrange(10**6))
        owned = draw.random() < 0.4
        if owned:
            problem = _with_owned(draw, problem)
        wish = problem.requirements
        homes = (
            None if wish.data_moves or not wish.datasets else {data.place for data in wish.datasets}
        )
        pools = [pool for pool in problem.pools if homes is None or pool.offer.place in homes]
        if pools:
            break
    rules = {_rule(draw, draw.choice(pools)): None for _ in range(draw.choice([1, 1, 2]))}
    if owned:
        offer = next(offer for offer in problem.catalog.offers if offer.price_basis == "owned")
        rules[Used(place=offer.place, device=draw.choice(["*", offer.device]))] = None
        wish = replace(wish, places_in=())
    budget = (
        None
        if wish.budget_usd_per_hour is None
        else wish.budget_usd_per_hour * draw.choice([1, 3, 10])
    )
    floor = draw.choice([None, None, None, 50.0])
    most = max(wish.max_workers, draw.choice([3, 5]))
    changed = replace(
        wish,
        used=tuple(rules),
        budget_usd_per_hour=budget,
        min_samples_per_second=floor,
        max_workers=most,
    )
    return replace(problem, requirements=changed)


def _rule(draw: random.Random, pool: Pool) -> Used:
    """A named place, or a pattern of places with a device."""
    offer = pool.offer
    market, count = draw.choice(["*", offer.market]), min(draw.choice([1, 1, 2, 3]), pool.max_count)
    if draw.random() < 0.5:
        return Used(
            place=offer.place,
            device=draw.choice(["*", offer.device, f"{offer.gpu}*"]),
            market=market,
            count=count,
        )
    place = draw.choice(["*", f"{offer.provider}/*"])
    return Used(
        place=place, device=draw.choice([offer.device, f"{offer.gpu}*"]), market=market, count=count
    )


def _with_owned(draw: random.Random, problem: Problem) -> Problem:
    """Own one machine of the market: it costs nothing, and there is only one."""
    offers = list(problem.catalog.offers)
    at = draw.randrange(len(offers))
    offers[at] = replace(
        offers[at], usd_per_hour=0.0, price_basis="owned", available=1, instance_type="own"
    )
    return replace(problem, catalog=replace(problem.catalog, offers=tuple(offers)))


def two_places(**wishes: Any) -> Problem:
    """Build a market of one T4 in each of two places: 1.00 USD/h on demand in aws/a, 0.60 on the
    spot market in gcp/b; 100 samples/s.
    """
    places = [region("aws", "a", 0), region("gcp", "b", 2)]
    return Problem(
        profile=profile(20, {"T4": 100.0}, 4096),
        catalog=Catalog(
            name="toy",
            digest="0",
            regions={r.place: r for r in places},
            gpus={"T4": gpu_of("T4")},
            offers=(offer("aws", "a", "T4", 1.0, market="on_demand"), offer("gcp", "b", "T4", 0.6)),
            egress=tuple(
                _price(p, "*", dst, usd)
                for p in ("aws", "gcp")
                for dst, usd in (
                    ("intra_zone", 0.0),
                    ("inter_zone", 0.01),
                    ("*", 0.02),
                    ("internet", 0.1),
                )
            ),
        ),
        requirements=Requirements(**wishes),
    )


def total_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` with a number of samples, limits in total near those of
    one machine.
    """
    draw = random.Random(f"total {seed}")
    problem = exchange_problem(seed)
    samples, pool = draw.choice([10**4, 10**6, 10**8]), draw.choice(problem.pools)
    each_usd = pool.offer.usd_per_hour / 3600 / pool.alone.value
    return wishing(
        problem,
        objective=draw.choice([*OBJECTIVES, "time"]),
        samples=samples,
        deadline_s=draw.choice([None, samples / pool.alone.value / draw.uniform(0.8, 2.5)]),
        budget_usd=draw.choice([None, samples * each_usd * draw.uniform(0.6, 1.5)]) or None,
        budget_usd_per_hour=draw.choice([None, None, problem.requirements.budget_usd_per_hour]),
        min_samples_per_second=None,
    )


def batch_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` with a range of batches, and a critical batch now and
    then.
    """
    draw = random.Random(f"batch {seed}")
    problem = exchange_problem(seed)
    low = draw.choice([48, 256, 1000, 4096])
    return wishing(
        problem,
        batch_range=(low, low * draw.choice([1, 3, 8])),
        critical_batch=draw.choice([None, 100, 2_000, 50_000]),
    )


def carbon_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` with grids and powers, some unknown, hosts of different
    size, and carbon limited or minimised.
    """
    draw = random.Random(f"carbon {seed}")
    problem = exchange_problem(seed)
    book = problem.catalog
    grids = {
        place: draw.choice([None, 0.0, 30.0, 200.0, 400.0, 400.0, 800.0]) for place in book.regions
    }
    offers = [replace(o, vcpus=draw.choice([4, 8, 96])) for o in book.offers]
    catalog = replace(
        book,
        regions={
            place: replace(r, grid_carbon_g_per_kwh=grids[place])
            for place, r in book.regions.items()
        },
        gpus={
            name: replace(gpu, power_w=power)
            for (name, gpu), power in zip(book.gpus.items(), (70.0, 150.0, 300.0), strict=True)
        },
        offers=tuple(offers),
    )
    if draw.random() < 0.1:
        catalog = replace(
            catalog, gpus={**catalog.gpus, "A10": replace(catalog.gpus["A10"], power_w=None)}
        )
    objective = draw.choice([*OBJECTIVES, "carbon", "carbon"])
    limit = draw.choice([20.0, 60.0, 200.0]) * draw.uniform(0.5, 3)
    changed = replace(
        problem.requirements,
        objective=objective,
        max_carbon_g_per_hour=draw.choice([None, limit]) if objective == "carbon" else limit,
    )
    return replace(problem, catalog=catalog, requirements=changed)


def joint_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` with quotas over places, devices or markets together."""
    draw = random.Random(f"joint {seed}")
    problem = exchange_problem(seed)
    places = sorted({pool.offer.place for pool in problem.pools})
    patterns: list[dict[str, Any]] = [
        {"gpus": draw.choice([1, 2, 3, 5])},
        {"market": draw.choice(["spot", "on_demand"]), "gpus": draw.choice([0, 1, 2, 4])},
        {"gpu": draw.choice(["T4", "A10", "V100"]), "gpus": draw.choice([0, 1, 2, 4])},
        {"place": draw.choice(places), "gpus": draw.choice([1, 2, 3])},
    ]
    rows = [Quota(**{**ANY, **pattern}, scope="together") for pattern in patterns]
    chosen = draw.sample(rows, draw.choice([1, 1, 2, 3]))
    return wishing(problem, quotas=(*problem.requirements.quotas, *chosen))


def ring_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` in which NCCL or gloo averages in a ring over any number
    of regions: gradients in every step, or models after some, limited in carbon or quotas at times.
    """
    draw = random.Random(f"ring {seed}")
    limited = draw.choice([exchange_problem, exchange_problem, carbon_problem, joint_problem])
    problem = limited(seed)
    limits = problem.requirements
    regions = len({pool.place for pool in problem.pools})
    name = draw.choice(["all-reduce", "all-reduce", "local-sgd", "diloco", "streaming-diloco"])
    local = name != "all-reduce"
    wish = replace(
        limits,
        exchange=name,
        min_local_steps=1 if local else None,
        max_local_steps=draw.choice([4, 16]) if local else None,
        compression="none" if local else draw.choice(["none", "fp16"]),
        transport=draw.choice(["nccl", "gloo"]),
        streams=1,
        overlap=False,
        min_regions=max(1, min(draw.choice([1, 2, 2, 3]), regions)),
        max_regions=draw.choice([3, 4, ALL_REGIONS]),
        max_workers=draw.choice([3, 4, 6]),
        min_workers=1,
        min_samples_per_second=draw.choice(
            [None, None, problem.requirements.min_samples_per_second]
        ),
        budget_usd_per_hour=draw.choice([None, problem.requirements.budget_usd_per_hour]),
    )
    return replace(problem, requirements=wish)


def vcpu_problem(seed: int) -> Problem:
    """Draw a market of `exchange_problem` in which some offers have a dearer or cheaper twin with
    other vCPUs, with quotas of vCPUs of all machines, a market, a place, a GPU or a machine type.
    """
    draw = random.Random(f"vcpus {seed}")
    problem = exchange_problem(seed)
    offers = []
    for row in problem.catalog.offers:
        size = draw.choice([4, 8, 16, 32])
        offers.append(replace(row, vcpus=size))
        if len(problem.pools) <= 3 and draw.random() < 0.4:
            twin = {
                "instance_type": f"{row.instance_type}-large",
                "vcpus": 2 * size,
                "usd_per_hour": round(row.usd_per_hour * draw.choice([0.9, 1.0, 1.1]), 4),
            }
            offers.append(replace(row, **twin))
    patterns: list[dict[str, Any]] = [
        {},
        {"market": draw.choice(["spot", "on_demand"])},
        {"place": draw.choice([row.place for row in offers])},
        {"gpu": "|".join(draw.sample(["T4", "A10", "V100"], 2))},
        {"machine": draw.choice(["*-large", "*[0-9]", "*[0-9]", "T4*|A10*"])},
    ]
    rows = tuple(
        Quota(**{**ANY, **pattern}, scope="together", vcpus=draw.choice([8, 16, 32, 32, 48, 96]))
        for pattern in draw.sample(patterns, draw.choice([1, 1, 2, 3]))
    )
    wish = replace(problem.requirements, quotas=(*problem.requirements.quotas, *rows))
    return replace(
        problem, catalog=replace(problem.catalog, offers=tuple(offers)), requirements=wish
    )


def like_problem(seed: int) -> Problem:
    """Draw a market of some other kind whose workers have to be alike, with machines of several
    networks, any objective, and local steps or several regions more often than there.
    """
    draw = random.Random(f"like {seed}")
    bases = (random_problem, exchange_problem, joint_problem, carbon_problem, total_problem)
    others = (used_problem, loading_problem, reading_problem, site_problem, ring_problem)
    base = draw.choice((exchange_problem, *bases, *others))(seed)
    offers = tuple(
        replace(row, network_gbps=draw.choice((None, 0.5, 5.0, 50.0)))
        for row in base.catalog.offers
    )
    base = replace(base, catalog=replace(base.catalog, offers=offers))
    changed: dict[str, Any] = {"uniform": True, "transport": draw.choice(("nccl", "gloo"))}
    if base.requirements.max_workers > 1:
        changed |= draw.choice(({}, {"min_workers": 2}, {"min_regions": 2}))
    if draw.random() < 0.6 and base.requirements.objective != "cost":
        changed["min_samples_per_second"] = None
    if draw.random() < 0.3:
        changed |= {"min_local_steps": 1, "max_local_steps": 4, "overlap": False}
    if draw.random() < 0.5:
        changed["exchange"] = "auto"
    if draw.random() < 0.3 and base.requirements.objective in ("throughput", "cost-per-sample"):
        changed["objective"] = draw.choice(("throughput", "cost-per-sample"))
    made = wishing(base, **changed)
    return made if made.modes and made.uniform else wishing(base, uniform=True, transport="nccl")

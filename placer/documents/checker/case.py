"""What a checker reads of a document: its question, market and placement."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from placer.documents.checker.averages import class_of, transport_of
from placer.records import Json, replace

LOADER_STREAMS = 16
"""Streams side by side in which one machine reads samples."""
DISK_SHARE = 0.9
"""Share of its disks that samples may fill."""
ONE_DISK, EACH_GB = 660e6, 0.88e6
"""Bytes/s of one local disk, and of each GB of several."""


class Reading(Struct, frozen=True):
    """Samples/s of a worker from the store and from its disks, and the share of the store."""

    store: float
    disk: float
    streamed: float

    def mean(self, speed: float = float("inf")) -> float:
        """Return the samples/s over all passes of a worker that calculates so fast at most."""
        first, later = min(speed, self.store), min(speed, self.disk)
        return 1 / (self.streamed / first + (1 - self.streamed) / later)

    def first(self, speed: float) -> float:
        """Return the speed in the first pass of a worker with some speed over all passes."""
        return min(speed, self.store)


UNKNOWN = Reading(float("inf"), float("inf"), 1.0)
"""Of data that is with the workers, or that comes over a link that a file does not name."""


def passes_of(wish: Json, bytes_per_sample: float) -> float:
    """Return how often the run reads the data: as asked, else by its samples and the size."""
    if wish["passes"] != 1:
        return max(1.0, float(wish["passes"]))
    if not wish["samples"] or not wish.get("data_bytes"):
        return 1.0
    return max(1.0, float(wish["samples"] * bytes_per_sample / wish["data_bytes"]))


def reading_of(
    wish: Json, offer: Json, machines: int, bytes_per_sample: float, bytes_per_s: float
) -> Reading:
    """Return how a worker of some machines reads, of which one reads so much from the store."""
    passes, gb = passes_of(wish, bytes_per_sample), offer.get("local_disk_gb")
    store = machines * bytes_per_s / bytes_per_sample
    disk = max(ONE_DISK, EACH_GB * (gb or 0.0))
    if passes <= 1 or disk < bytes_per_s or not _kept(wish, gb, machines, bytes_per_sample):
        return Reading(store, store, 1.0)
    return Reading(store, machines * disk / bytes_per_sample, 1 / passes)


def _kept(wish: Json, gb: float | None, machines: int, bytes_per_sample: float) -> bool:
    size = wish.get("data_bytes")
    if not size and wish["samples"] and wish["passes"] != 1:
        size = wish["samples"] * bytes_per_sample / max(1.0, wish["passes"])
    if wish.get("data_cache") in ("disk", "none"):
        return bool(wish["data_cache"] == "disk")
    return bool(gb and size and size <= DISK_SHARE * machines * gb * 1e9)


BYTES_PER_ELEMENT = {"none": 4, "fp16": 2, "int8": 1, "int4": 0.5, "sparse": 0.02734375}
"""Of 4,096 values, sparse sends 64 as 12 bits of place and 2 of value."""
BUTTERFLIES = ("all-reduce", "local-sgd", "diloco", "streaming-diloco")
"""Strategies in which every worker sends a shard to every other, or passes all to the next one."""
THROUGH_ONE = ("none", "central", "hierarchical", "parameter-server")
"""Strategies in which no worker sends to another: a store or a server is between."""
ALWAYS_OVERLAP = ("streaming-diloco",)
SITES = "onprem/"
"""What the places of one's own machines begin with: all machines of a site share its line."""
EQUAL_PARTS = ("central", "hierarchical", "parameter-server")
"""Strategies whose workers get equal parts."""
GIB = 1 << 30


class Road(Struct, frozen=True):
    """One directed link: bytes/s of one stream, bytes/s of many, seconds there and back."""

    one: float
    cap: float
    rtt: float

    def rate(self, streams: int = 1) -> float:
        """Return the bytes/s of some streams together."""
        return min(streams * self.one, max(self.cap, self.one))


class SiteGroup(Struct, frozen=True):
    """Equal machines: place, how many, samples/s, class of host and USD/h of one, how one reads."""

    place: str
    count: int
    speed: float
    host: str
    usd_per_hour: float
    reading: Reading


class Case:
    """One placement and the problem beside it, as they stand in a file, with the speeds of machines
    and links of its certificate and the multiplier of the exchange. ``KeyError`` and
    ``StopIteration`` say that the file lacks something.
    """

    def __init__(
        self, problem: Json, placement: Json, figures: Json, samples_to_target: float
    ) -> None:
        self.problem, self.placement, self.multiplier = problem, placement, samples_to_target
        self.profile, self.wish = problem["profile"], problem["requirements"]
        self.book = problem["catalog"]
        self.strategy: str = placement["exchange"]
        # Places of the function, server or hub, and of the object store of an exchange.
        self.hub, self.store = (
            str((placement[part] or {}).get("place")) for part in ("aggregator", "storage")
        )
        # Bytes of one gradient on the wire, and samples of a step over all workers.
        packed = BYTES_PER_ELEMENT[placement["compression"]] / BYTES_PER_ELEMENT["none"]
        self.size = float(self.profile["gradient_bytes_fp32"] * packed)
        self.batch = int(self.wish["target_batch_size"] or self.profile["target_batch_size"])
        self.streams, self.local_steps = int(placement["streams"]), int(placement["local_steps"])
        self.roads = {
            (r["from"], r["to"]): Road(r["bytes_per_second"], r["cap"], r["rtt_s"])
            for r in figures["links"]
        }
        self.speeds = {kind_of(m): m for m in figures["machines"]}

    @property
    def in_ring(self) -> bool:
        """Return whether several places average in a ring: PyTorch averages gradients of 4 or 2
        bytes, torchft models of 4, over one stream, and beside the next step only fragments.
        """
        packed, late = self.placement["compression"], self.placement["overlap"]
        if transport_of(self.problem) == "hivemind" or self.streams > 1 or len(self.counts) < 2:
            return False
        if self.strategy == "all-reduce":
            return packed in ("none", "fp16") and not late
        averages_models = self.strategy in BUTTERFLIES and packed == "none"
        return averages_models and (not late or self.strategy in ALWAYS_OVERLAP)

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Return the edges of a ring between places in the order of names; gloo's goes back."""
        places = sorted(self.counts)
        pairs = list(zip(places, places[1:] + places[:1], strict=True))
        return [(b, a) for a, b in pairs] if transport_of(self.problem) == "gloo" else pairs

    @property
    def edge_bytes(self) -> float:
        """Return what an edge of a ring carries in a round."""
        return 2 * self.size * (1 - 1 / self.workers)

    @cached_property
    def site_groups(self) -> list[SiteGroup]:
        """Return the worker groups, as slow as the lines, the store and each other make them."""
        groups = [self._site_group(row) for row in self.placement["workers"]]
        firsts = [group.reading.first(group.speed) for group in groups]
        size = self.profile["bytes_per_sample"] or 0.0
        asked: dict[str, float] = {}
        for group, v in zip(groups, firsts, strict=True):
            asked[group.place] = asked.get(group.place, 0.0) + group.count * v * size
        lines = {place: max(1.0, own / self.line(place)) for place, own in asked.items()}
        pairs = [*zip(groups, firsts, strict=True)]
        together = sum(group.count * v / lines[group.place] for group, v in pairs)
        from_store = max(1.0, together / self._store_samples_per_s)
        lacks = [lines[group.place] * from_store - 1 for group in groups]
        rows = [*zip(groups, firsts, lacks, strict=True)]
        # Seconds of a sample over all passes, in the first one and in later ones.
        mean_s = [1 / group.speed + group.reading.streamed * lack / v for group, v, lack in rows]
        share = min((group.reading.streamed for group in groups), default=1.0)
        if share < 1 and self.strategy in EQUAL_PARTS:
            # All wait for the slowest, which may be another one in the first pass than later.
            first_s = [(1 + lack) / v for _, v, lack in rows]
            later_s = [
                mean if group.reading.streamed == 1 else (mean - share * first) / (1 - share)
                for group, mean, first in zip(groups, mean_s, first_s, strict=True)
            ]
            longest = share * max(first_s) + (1 - share) * max(later_s)
            waits = max(1.0, longest / max(mean_s))
            mean_s = [waits * mean for mean in mean_s]
        elif not any(lacks):
            return self._waiting(groups)
        slower = zip(groups, mean_s, strict=True)
        return self._waiting([replace(group, speed=1 / mean) for group, mean in slower])

    def _waiting(self, groups: list[SiteGroup]) -> list[SiteGroup]:
        """Slow workers with a plan down to the slowest: they have equal parts of a step."""
        if self.wish["datasets"] or not any(row.get("inner") for row in self.placement["workers"]):
            return groups
        slowest = min(group.speed for group in groups)
        return [replace(group, speed=slowest) for group in groups]

    @property
    def free_share(self) -> float:
        """Return the share of the time in which an exchange may hide that workers inside leave."""
        rows = (self.speeds[kind_of(row)] for row in self.placement["workers"])
        return min(float(row.get("free_share", 1.0)) for row in rows)

    @property
    def _store_samples_per_s(self) -> float:
        name, size = self.wish["data_store"], self.profile["bytes_per_sample"]
        gbps = None if name is None else self.object_store(name).get("read_gbps")
        return float("inf") if gbps is None or not size else float(gbps * 1e9 / 8 / size)

    def _site_group(self, row: Json) -> SiteGroup:
        speed = self.speeds[kind_of(row)]["alone" if self.strategy == "none" else "in_group"]
        offer, machines = self.offer(row), row.get("machines", 1)
        host = class_of(offer, machines, self.problem)
        usd = machines * offer["usd_per_hour"]
        return SiteGroup(row["place"], row["count"], speed, host, usd, self.reading(row) or UNKNOWN)

    def line(self, place: str) -> float:
        """Return the bytes/s of the dataset's store that all machines of a place get together: what
        the line of a site of one's own carries.
        """
        name = self.wish["data_store"]
        road = self.roads.get((place, place))
        if name is None or road is None or not place.startswith(SITES):
            return float("inf")
        return float("inf") if self.object_store(name)["place"] == place else road.one

    @property
    def copy_from(self) -> str | None:
        """Return the place that data is copied from before the run; None: nothing is copied."""
        source = self.wish.get("data_source")
        return None if source in (None, "none") else str(self.object_store(source)["place"])

    def reading(self, row: Json) -> Reading | None:
        """Return how a worker of a group reads its samples; None where the data is with the
        workers, or over a link that the file does not name.
        """
        name, size = self.wish["data_store"], self.profile["bytes_per_sample"]
        if name is None or not size:
            return None
        offer, store = self.offer(row), self.object_store(name)["place"]
        card, road = offer.get("network_gbps"), self.roads.get((store, row["place"]))
        if road is None:  # a certificate from before speeds counted what is read
            return None
        most = float("inf") if card is None else card * 1e9 / 8
        if row["place"] != store or card is None:
            most = min(most, road.rate(LOADER_STREAMS), self.line(row["place"]))
        return reading_of(self.wish, offer, row.get("machines", 1), size, most)

    @property
    def workers(self) -> int:
        """Return the number of workers."""
        return sum(site_group.count for site_group in self.site_groups)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return the workers of each place, in the order of the groups."""
        counts: dict[str, int] = {}
        for site_group in self.site_groups:
            counts[site_group.place] = counts.get(site_group.place, 0) + site_group.count
        return counts

    @cached_property
    def pace(self) -> dict[str, float]:
        """Return the samples/s of each place."""
        return {
            p: sum(c.count * c.speed for c in self.site_groups if c.place == p) for p in self.counts
        }

    @cached_property
    def lanes(self) -> dict[str, int]:
        """Return the machines of the smallest worker of each place, which send their parts side by
        side; none under hivemind, or where workers send to a store or a server.
        """
        if self.strategy in THROUGH_ONE or transport_of(self.problem) == "hivemind":
            return {}
        machines: dict[str, int] = {}
        for row in self.placement["workers"]:
            own, place = row.get("machines", 1), row["place"]
            machines[place] = min(own, machines.get(place, own))
        return machines

    def road(self, src: str, dst: str) -> Road:
        """Find the link from one place to another: the machines of the smaller end send in pairs,
        each as if it were alone, unless one line carries all that a site sends.
        """
        road, pairs = self.roads[src, dst], min(self.lanes.get(src, 1), self.lanes.get(dst, 1))
        if src.startswith(SITES) or dst.startswith(SITES):
            return Road(road.rate(pairs), road.cap, road.rtt)
        return Road(pairs * road.one, pairs * road.cap, road.rtt)

    def machine(self, place: str) -> float:
        """Return the bytes/s that the machines of one worker send or receive in all."""
        line = self.roads[place, place].one
        return line if place.startswith(SITES) else self.lanes.get(place, 1) * line

    def offer(self, row: Json) -> Json:
        """Find the row of the book for a group."""
        wanted = kind_of(row)[:5]
        offer: Json = next(o for o in self.book["offers"] if offer_kind(o) == wanted)
        return offer

    def usd_per_byte(self, src: str, dst: str, *, zonal: bool) -> float:
        """Price of a byte that leaves one place for another: the first paid tier of the most
        specific row. ``zonal``: both ends are machines, which may be in different zones.
        """
        here, there = self.book["regions"][src], self.book["regions"][dst]
        if src == dst:
            ends = ["inter_zone" if zonal and not self.wish["same_zone"] else "intra_zone"]
        elif here["provider"] != there["provider"]:
            ends = ["internet"]
        else:
            ends = [there["region"], there["egress_zone"], "*"]
        starts = [here["region"], here["egress_zone"], "*"]
        keys = sorted((i + j, i, starts[i], ends[j]) for i in range(3) for j in range(len(ends)))
        for _, _, start, end in keys:
            rows = self._egress.get((here["provider"], start, end))
            if rows:
                first = min(rows, key=lambda r: (r["usd_per_gib"] <= 0, r["above_gib_per_month"]))
                return float(first["usd_per_gib"]) / GIB
        raise KeyError(f"egress price from {src} to {dst}")

    @cached_property
    def _egress(self) -> dict[tuple[str, str, str], list[Json]]:
        rows: dict[tuple[str, str, str], list[Json]] = {}
        for row in self.book["egress"]:
            rows.setdefault((row["provider"], row["src"], row["dst"]), []).append(row)
        return rows

    def function(self, place: str) -> Json:
        """Find the cloud function of a place: the one asked for, else the first."""
        rows = [f for f in self.book["functions"] if f"{f['provider']}/{f['region']}" == place]
        named = [f for f in rows if f["function"] == self.wish["function"]]
        found: Json = (named or rows)[0]
        return found

    def object_store(self, name: str) -> Json:
        """Find an object store by place or name."""
        for row in self.book["stores"]:
            place = f"{row['provider']}/{row['region']}"
            if name in (place, f"{row['store']}@{place}", row["store"]):
                return {**row, "place": place}
        raise KeyError(f"store {name}")

    @cached_property
    def shares(self) -> dict[str, float]:
        """Return the share of a step by place: by placed data, else by heads or by speed."""
        if self.wish["datasets"]:
            return self._shares_by_data()
        if self.strategy in EQUAL_PARTS:
            return {place: count / self.workers for place, count in self.counts.items()}
        total = sum(self.pace.values())
        return {place: pace / total for place, pace in self.pace.items()}

    def _shares_by_data(self) -> dict[str, float]:
        """Divide a step so that all places end together, none with less than data that stays."""
        datasets, pace = self.wish["datasets"], self.pace
        total = sum(d["samples"] for d in datasets)
        stay = {
            p: sum(d["samples"] for d in datasets if d["place"] == p and not d["may_move"])
            for p in pace
        }
        if not any(d["may_move"] for d in datasets):
            return {p: samples / total for p, samples in stay.items()}
        open_ = set(stay)
        while True:
            left = total - sum(stay[p] for p in stay if p not in open_)
            seconds = left / sum(pace[p] for p in open_)
            full = {p for p in open_ if stay[p] > seconds * pace[p] * (1 + 1e-15)}
            if not full or full == open_:
                break
            open_ -= full
        return {p: (seconds * pace[p] if p in open_ else stay[p]) / total for p in stay}

    def moves(self) -> Iterator[tuple[str, str, float, float]]:
        """Yield (from, to, samples, USD per sample) of the data that moves before the run: home
        first, then by the cheapest way.
        """
        datasets, size = self.wish["datasets"], self.profile["bytes_per_sample"]
        total = sum(d["samples"] for d in datasets)
        wanted = {place: share * total for place, share in self.shares.items()}
        left: dict[str, float] = {}
        for data in datasets:
            if data["may_move"]:
                left[data["place"]] = left.get(data["place"], 0.0) + data["samples"]
            else:
                wanted[data["place"]] -= data["samples"]
        ways = [
            (src != dst, self.usd_per_byte(src, dst, zonal=False), src, dst)
            for src in left
            for dst in wanted
        ]
        for away, price, src, dst in sorted(ways):
            samples = min(left[src], wanted[dst])
            left[src] -= samples
            wanted[dst] -= samples
            if away and samples >= 1:
                yield src, dst, samples, size * price


def kind_of(row: Json) -> tuple[str, str, str, int, str, int, str]:
    """Return what tells the groups of a document apart: offer, machines of a worker, their plan."""
    inner = ",".join(f"{key}={value}" for key, value in sorted((row.get("inner") or {}).items()))
    offer = row["place"], row["offer"], row["gpu"], row["gpu_count"], row["market"]
    return *offer, row.get("machines", 1), inner


def offer_kind(offer: Json) -> tuple[str, str, str, int, str]:
    """Return the same of a row of the book."""
    return (
        f"{offer['provider']}/{offer['region']}",
        offer["instance_type"],
        offer["gpu"],
        offer["gpu_count"],
        offer["market"],
    )

"""Exchanges: bytes against a simulation that moves arrays, local strategies, and quorums."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.cost_model.estimate import estimate
from placer.cost_model.limits import violations
from placer.documents.checker.strategies import required_modes
from placer.documents.manifest import build_manifest
from placer.interface.advisor import Advisor
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import STRATEGIES, bytes_by_link, memory_gib, strategy, traits
from placer.problem.placement import Exchange
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand

ELEMENTS = 60
"""Divides evenly among 2 to 6 owners."""
SIZE = ELEMENTS * 8.0
"""Bytes of one gradient of 60 float64."""
Array = NDArray[Any]
Sent = dict[tuple[str, str], float]


class Machines:
    """Workers with a model each; `send` copies an array to another place and counts its bytes."""

    def __init__(self, places: list[str]) -> None:
        rng = np.random.default_rng(0)
        self.places = places
        self.values: list[Array] = [rng.normal(size=ELEMENTS) for _ in places]
        self.mean = np.mean(self.values, axis=0)
        self.sent: Sent = defaultdict(float)

    def send(self, array: Array, src: str, dst: str) -> Array:
        """Copy an array over a link."""
        self.sent[src, dst] += array.nbytes
        return array.copy()

    def by_region(self) -> dict[str, list[int]]:
        """Workers of each place."""
        return {
            place: [i for i, p in enumerate(self.places) if p == place]
            for place in sorted(set(self.places))
        }

    def butterfly(self, members: list[int], weights: list[float]) -> None:
        """Average among some workers by shards: owner j collects shard j from all and sends the
        mean back.
        """
        results = [np.zeros(ELEMENTS) for _ in members]
        for owner, shard in enumerate(np.array_split(np.arange(ELEMENTS), len(members))):
            home = self.places[members[owner]]
            parts = [
                self.values[i][shard]
                if k == owner
                else self.send(self.values[i][shard], self.places[i], home)
                for k, i in enumerate(members)
            ]
            mean = np.average(parts, axis=0, weights=weights)
            for k, i in enumerate(members):
                results[k][shard] = mean if k == owner else self.send(mean, home, self.places[i])
        for k, i in enumerate(members):
            self.values[i] = results[k]

    def ring(self, step: int) -> None:
        """Average around: in each of N - 1 rounds every worker passes a part on, which the next one
        adds to its own; in as many more the sums go around.
        """
        count = len(self.places)
        parts = [np.array_split(value, count) for value in self.values]
        for number in range(2 * (count - 1)):
            passed = []
            for rank in range(count):
                part, to = (rank - step * number) % count, (rank + step) % count
                sent = self.send(parts[rank][part], self.places[rank], self.places[to])
                passed.append((to, part, sent))
            for to, part, sent in passed:
                parts[to][part] = parts[to][part] + sent if number < count - 1 else sent
        self.values = [np.concatenate(own) / count for own in parts]

    def inside_regions(self) -> None:
        """Average inside each region."""
        for members in self.by_region().values():
            if len(members) > 1:
                self.butterfly(members, [1.0] * len(members))

    def broadcast(self) -> None:
        """Hand the leader's model to the other workers of its region."""
        for place, members in self.by_region().items():
            for i in members[1:]:
                self.values[i] = self.send(self.values[members[0]], place, place)


def all_reduce(machines: Machines, exchange: Exchange) -> None:
    """Flat butterfly."""
    machines.butterfly(list(range(len(machines.places))), [1.0] * len(machines.places))


def hierarchical_all_reduce(machines: Machines, exchange: Exchange) -> None:
    """Regions, then their leaders weighted by workers, then regions."""
    machines.inside_regions()
    regions = machines.by_region()
    machines.butterfly(
        [members[0] for members in regions.values()], [float(len(m)) for m in regions.values()]
    )
    machines.broadcast()


def parameter_server(machines: Machines, exchange: Exchange) -> None:
    """Push to one machine, pull its mean."""
    hub = str(exchange.aggregator)
    mean = np.mean(
        [machines.send(v, p, hub) for v, p in zip(machines.values, machines.places, strict=True)],
        axis=0,
    )
    machines.values = [machines.send(mean, hub, place) for place in machines.places]


def model_averaging(machines: Machines, exchange: Exchange) -> None:
    """H averages inside the regions, models up to the hub, their mean down and on to the
    workers.
    """
    for _ in range(exchange.local_steps):
        machines.inside_regions()
    hub, regions = str(exchange.aggregator), machines.by_region()
    models = [
        machines.values[m[0]] if p == hub else machines.send(machines.values[m[0]], p, hub)
        for p, m in regions.items()
    ]
    mean = np.average(models, axis=0, weights=[float(len(m)) for m in regions.values()])
    for place, members in regions.items():
        machines.values[members[0]] = mean if place == hub else machines.send(mean, hub, place)
    machines.broadcast()


def asgd_ga(machines: Machines, exchange: Exchange) -> None:
    """Run R - 1 exchanges, so that every partner has its turn, and count their mean."""
    regions = machines.by_region()
    for turn in range(1, len(regions)):
        for _ in range(exchange.local_steps):
            machines.inside_regions()
        names = list(regions)
        for k, place in enumerate(names):
            machines.send(machines.values[regions[place][0]], place, names[(k + turn) % len(names)])
    for link in machines.sent:
        machines.sent[link] /= len(regions) - 1


def central(machines: Machines, exchange: Exchange) -> None:
    """Use a dictionary as the store and one function that reads, sums and writes."""
    store, function = str(exchange.storage), str(exchange.aggregator)
    objects = {
        i: machines.send(v, machines.places[i], store) for i, v in enumerate(machines.values)
    }
    total = np.sum([machines.send(array, store, function) for array in objects.values()], axis=0)
    mean = machines.send(total / len(objects), function, store)
    machines.values = [machines.send(mean, store, place) for place in machines.places]


def hierarchical(machines: Machines, exchange: Exchange) -> None:
    """Use a store and function in each region, sums into the global store, the mean copied back to
    each region.
    """
    store, function, sums = str(exchange.storage), str(exchange.aggregator), []
    for place, members in machines.by_region().items():
        objects = [machines.send(machines.values[i], place, place) for i in members]
        total = np.sum([machines.send(array, place, place) for array in objects], axis=0)
        sums.append(machines.send(total, place, store))
    mean = machines.send(
        np.sum([machines.send(s, store, function) for s in sums], axis=0) / len(machines.places),
        function,
        store,
    )
    for place, members in machines.by_region().items():
        copy = machines.send(machines.send(mean, store, place), place, place)
        for i in members:
            machines.values[i] = machines.send(copy, place, place)


SIMULATIONS: dict[str, Callable[[Machines, Exchange], None]] = {
    "all-reduce": all_reduce,
    "local-sgd": all_reduce,
    "hierarchical-all-reduce": hierarchical_all_reduce,
    "parameter-server": parameter_server,
    "model-averaging": model_averaging,
    "asgd-ga": asgd_ga,
    "central": central,
    "hierarchical": hierarchical,
    "diloco": all_reduce,
    "streaming-diloco": all_reduce,
}


def test_every_strategy_has_a_simulation() -> None:
    """A new strategy needs one."""
    assert {*SIMULATIONS, "none"} == {*STRATEGIES}


@pytest.mark.parametrize("name", SIMULATIONS)
@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6), st.integers(1, 3))
def test_bytes_are_those_of_a_simulation(name: str, places: list[str], local_steps: int) -> None:
    """Bytes of every pair of places agree exactly, and what averages ends with the mean
    everywhere.
    """
    found = traits(name)
    if len(set(places)) < found.least_regions:
        reject()
    exchange = Exchange(
        strategy=name,
        compression="none",
        local_steps=local_steps if found.local_steps else 1,
        aggregator={"function": "f", "server": "a", "region": places[0]}.get(found.hub),
        storage="s" if found.hub == "function" else None,
    )
    machines = Machines(sorted(places))
    SIMULATIONS[name](machines, exchange)
    workers = [(place, places.count(place)) for place in sorted(set(places))]
    counted = {
        link: size
        for link, size in bytes_by_link(strategy(name).phases(workers, SIZE, exchange)).items()
        if size
    }
    assert counted == pytest.approx({link: size for link, size in machines.sent.items() if size})
    if name != "asgd-ga":
        assert all(np.allclose(value, machines.mean) for value in machines.values)


@given(st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=2, max_size=6))
def test_bytes_of_a_ring_are_those_of_a_simulation(places: list[str]) -> None:
    """What PyTorch and torchft average goes around all workers in the order of their places: NCCL's
    from each to the next, gloo's to the one before. hivemind and INT8 are no rings.
    """
    workers = [(place, places.count(place)) for place in sorted(set(places))]
    for name, transport, step in (("all-reduce", "nccl", 1), ("diloco", "gloo", -1)):
        exchange = Exchange(strategy=name, compression="none", transport=transport)
        machines = Machines(sorted(places))
        machines.ring(step)
        sent = bytes_by_link(strategy(name).phases(workers, SIZE, exchange))
        assert sent == pytest.approx(machines.sent)
        assert all(np.allclose(value, machines.mean) for value in machines.values)
        assert exchange.in_ring
        assert not replace(exchange, transport="hivemind").in_ring
        assert not replace(exchange, compression="int8").in_ring
        assert not replace(exchange, streams=4).in_ring


def test_function_memory_holds_all_gradients() -> None:
    """64 gradients of 17 MB are 1.09 GB: one GiB is too little, two are enough."""
    assert (memory_gib(17e6, 4), memory_gib(17e6, 64)) == (1.0, 2.0)


def names(model: str, **words: Any) -> set[str]:
    """Return the strategies that a request admits."""
    return {name for name, _ in Advisor("default").problem(model, **words).modes}


@pytest.mark.parametrize(
    ("model", "kept", "left_out"),
    [
        ("llama-3.1-8b", {"diloco", "streaming-diloco"}, {"local-sgd"}),
        ("resnet50", {"local-sgd"}, {"diloco", "streaming-diloco"}),
    ],
)
def test_auto_takes_diloco_for_language_models(
    model: str, kept: set[str], left_out: set[str]
) -> None:
    """Published losses are those of decoders; the bytes are the same. By name each can be asked
    for, and without local steps nothing changes.
    """
    found = names(model, local_steps="1..64")
    assert kept | {"model-averaging", "asgd-ga"} <= found
    assert not left_out & found
    assert not (kept | left_out) & names(model)
    for name in left_out:
        assert names(model, exchange=name, local_steps=8) == {name}


def test_coarse_compression_leaves_only_what_feeds_errors_back() -> None:
    """INT4 with local steps: DiLoCo and its streaming form."""
    found = names("llama-3.1-8b", local_steps="8..64", compression="int4")
    assert found == {"diloco", "streaming-diloco"}


def test_streaming_overlaps_without_being_asked() -> None:
    """And stays the only one of the two where overlap is asked for."""
    problem = Advisor("default").problem("llama-3.1-8b", local_steps=16)
    assert exchange_for("streaming-diloco", 4, problem, local_steps=16).overlap
    assert not exchange_for("diloco", 4, problem, local_steps=16).overlap
    asked = names("llama-3.1-8b", local_steps=16, overlap=True)
    assert "streaming-diloco" in asked
    assert "diloco" not in asked


TWO = "gcp/us-west1=1xT4:spot,gcp/europe-west1=1xT4:spot"
DILOCO: dict[str, Any] = {
    "exchange": "diloco",
    "local_steps": "16",
    "samples_to_target": "diloco=1.2",
}


def question(**words: Any) -> Problem:
    """A question about ResNet-50."""
    return Advisor(("erben-2023",)).problem("resnet50", **words)


@pytest.mark.parametrize(
    ("transport", "mixed", "alike"),
    [
        ("nccl", False, True),
        ("gloo", False, True),
        ("gloo", True, False),
        ("hivemind", False, False),
    ],
)
def test_software_that_divides_by_speed_mixes_machines(
    transport: str, mixed: bool, alike: bool
) -> None:
    """Hivemind gives fast machines more of a step, so that nothing is asked to be alike; rings
    divide it equally, unless unlike machines are asked for.
    """
    asked = Advisor().problem("roberta-xlm", transport=transport, mixed=mixed)
    assert asked.uniform == alike
    unlike = place_by_hand("aws/us-east-1=1xT4:spot,aws/us-east-1=1xV100:8:spot", asked)
    said = f"T4, V100:8 are unlike, and {transport} divides a step equally: --mixed"
    assert [broken.message for broken in violations(unlike, asked)] == [said] * alike


def test_as_many_workers_are_needed() -> None:
    """Three at least; without a quorum one is enough."""
    assert question(**DILOCO).requirements.min_workers == 1
    assert question(**DILOCO, quorum=3).requirements.min_workers == 3
    assert question(**DILOCO, quorum=3, workers="4..8").requirements.min_workers == 4


@pytest.mark.parametrize("words", [DILOCO, {"local_steps": "1..8"}])
def test_only_exchanges_that_go_on_are_admitted(words: dict[str, Any]) -> None:
    """The second implementation requires the same of a proof; with a quorum of two no single
    machine.
    """
    problem = question(**words, quorum=2)
    assert {name for name, _ in problem.modes} <= {"local-sgd", "diloco", "streaming-diloco"}
    assert required_modes(problem.to_dict()) == set(problem.modes)


def test_figures_stay_and_the_manifest_has_it() -> None:
    """Two workers that are through together: speed and price are those without a quorum; a minute
    of grace where nobody says.
    """
    plain, asked = question(**DILOCO), question(**DILOCO, quorum=2)
    placement = place_by_hand(TWO, plain)
    first, second = estimate(placement, plain), estimate(placement, asked)
    assert (second.samples_per_second, second.usd_per_hour) == (
        first.samples_per_second,
        first.usd_per_hour,
    )
    parts = [build_manifest(p, placement, first, "feasible", None) for p in (plain, asked)]
    assert "quorum" not in parts[0]["exchange"]
    assert (parts[1]["exchange"]["quorum"], parts[1]["exchange"]["grace_s"]) == (2, 60.0)

"""Exchange strategies: their bytes against a plain simulation that moves real arrays."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.errors import PlacerError
from placer.exchange import STRATEGIES, strategy
from placer.exchange.allreduce import phases as butterfly
from placer.exchange.central import memory_gib
from placer.exchange.central import phases as central
from placer.exchange.phase import bytes_by_link
from placer.placement import Exchange

FP16 = Exchange(strategy="all-reduce", compression="fp16")
STORE = Exchange(strategy="central", compression="fp16", aggregator="f", aggregator_memory_gib=1.0, storage="s")
Sent = dict[tuple[str, str], float]


def simulated_butterfly(places: list[str], elements: int) -> tuple[list[np.ndarray], Sent]:
    """Average by shards: worker j collects shard j from everybody and sends the mean back; count what is sent."""
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=elements) for _ in places]
    shards = np.array_split(np.arange(elements), len(places))
    sent: Sent = defaultdict(float)
    results = [np.zeros(elements) for _ in places]
    for owner, shard in enumerate(shards):
        collected = []
        for worker, gradient in enumerate(gradients):
            part = gradient[shard].copy()
            if worker != owner:
                sent[places[worker], places[owner]] += part.nbytes
            collected.append(part)
        mean = np.mean(collected, axis=0)
        for worker in range(len(places)):
            if worker != owner:
                sent[places[owner], places[worker]] += mean.nbytes
            results[worker][shard] = mean
    return results, sent


def simulated_store(places: list[str], elements: int) -> tuple[np.ndarray, Sent]:
    """Put gradients into a dictionary, let one function read, sum and write, let all read back; count what moves."""
    rng = np.random.default_rng(0)
    store: dict[str, np.ndarray] = {}
    sent: Sent = defaultdict(float)
    for worker, place in enumerate(places):
        store[f"gradient-{worker}"] = rng.normal(size=elements)
        sent[place, "s"] += store[f"gradient-{worker}"].nbytes
    total = np.zeros(elements)
    for worker in range(len(places)):
        read = store[f"gradient-{worker}"]
        sent["s", "f"] += read.nbytes
        total += read
    store["mean"] = total / len(places)
    sent["f", "s"] += store["mean"].nbytes
    for place in places:
        sent["s", place] += store["mean"].nbytes
    return store["mean"], sent


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6))
def test_butterfly_bytes_are_those_of_a_simulation(places: list[str]) -> None:
    """60 float64 divide evenly among 2 to 6 workers: the bytes of each pair of places agree exactly."""
    results, sent = simulated_butterfly(places, 60)
    assert all(np.allclose(r, results[0]) for r in results)
    workers = [(place, places.count(place)) for place in sorted(set(places))]
    assert bytes_by_link(butterfly(workers, 60 * 8.0, FP16)) == pytest.approx(sent)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=6))
def test_central_bytes_are_those_of_a_simulation(places: list[str]) -> None:
    """Upload, fetch, put and download move what a dictionary store moves."""
    _, sent = simulated_store(places, 50)
    workers = [(place, places.count(place)) for place in sorted(set(places))]
    assert bytes_by_link(central(workers, 50 * 8.0, STORE)) == pytest.approx(sent)


def test_a_worker_sends_two_n_minus_one_over_n_gradients() -> None:
    """4 workers, S = 100: each sends 2 x 3/4 x 100 = 150 bytes; all together 600."""
    assert sum(bytes_by_link(butterfly([("a", 4)], 100.0, FP16)).values()) == pytest.approx(600)


def test_one_worker_exchanges_nothing() -> None:
    """No phases, no bytes."""
    assert strategy("none").phases([("a", 1)], 100.0, Exchange(strategy="none", compression="fp16")) == ()


def test_function_memory_holds_all_gradients() -> None:
    """64 gradients of 17 MB are 1.09 GB: one GiB is too little, two are enough."""
    assert (memory_gib(17e6, 4), memory_gib(17e6, 64)) == (1.0, 2.0)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_names_framework_division_and_transport(name: str) -> None:
    """A new strategy is tested without an edit here."""
    found = strategy(name)
    assert found.FRAMEWORK in ("none", "hivemind")
    assert found.DIVISION in ("adaptive", "equal")
    assert found.TRANSPORT in ("none", "butterfly", "store")


def test_unknown_strategy_names_the_nearest() -> None:
    """Did-you-mean."""
    with pytest.raises(PlacerError) as caught:
        strategy("allreduce")
    assert "all-reduce" in caught.value.hint

"""The small plan of a rehearsal keeps the shape of the large one, and prices what runs here."""

from typing import Any

import pytest
from rehearsed import EU, FOUR, LONDON, OREGON, STORES, US, by_hand

from instances import decoder_of
from placer.errors import PlacerError
from placer.launch.rehearsal.small_plan import (
    CARRIED_BYTES_PER_S,
    SmallPlan,
    as_hosts,
    fewer,
    small_plan,
)
from placer.launch.runtime.run_plan import plan_from
from placer.problem.exchange import bytes_by_link, traits
from placer.records import replace
from placer.workload.inner_plan import InnerPlan

WAY_S = 0.10314
"""Round trip between the two regions."""


def small(scale: float | None = None, **words: Any) -> SmallPlan:
    """A plan by hand, made small."""
    return small_plan(*by_hand(**words), scale)


def test_between_two_workers_links_are_the_plans() -> None:
    """Two transfers at once may have 15 MB/s each; 26.25 MB/s (210 Mb/s) between the regions are
    cut to it, and named; round trips stay. To a hub in one of the regions one transfer is under
    way at a time: nothing is cut. A server's messages reach 93 % of what the network carries:
    its links have so much of 26.25 MB/s a stream, and of 30 MB/s a pair.
    """
    found = {(shape.src, shape.dst): shape for shape in small(0.1).shapes}
    assert found[US, EU].stream_bytes_per_s == pytest.approx(CARRIED_BYTES_PER_S / 2)
    assert found[US, EU].rtt_s == pytest.approx(WAY_S, rel=0.01)
    assert found[US, US].stream_bytes_per_s == pytest.approx(CARRIED_BYTES_PER_S)
    assert (US, EU) in small(0.1).slower
    words = {"exchange": "model-averaging", "local_steps": "4", "aggregator": US}
    assert (EU, US) not in small(0.1, **words).slower
    served = small(0.1, exchange="parameter-server", aggregator=US).shapes
    (way,) = (shape for shape in served if (shape.src, shape.dst) == (EU, US))
    assert way.stream_bytes_per_s == pytest.approx(0.93 * 26.25e6)
    assert way.pair_bytes_per_s == pytest.approx(0.93 * CARRIED_BYTES_PER_S)


@pytest.mark.parametrize(
    "strategy",
    [
        "all-reduce",
        "hierarchical-all-reduce",
        "parameter-server",
        "local-sgd",
        "model-averaging",
        "diloco",
        "streaming-diloco",
        "asgd-ga",
    ],
)
def test_bytes_shrink_and_the_exchange_is_all_that_is_waited_for(strategy: str) -> None:
    """Each link carries 1/50 of the plan's bytes; calculation takes next to nothing, and the
    exchange grows with the bytes.
    """
    words = {"local_steps": "4"} if traits(strategy).local_steps else {}
    hub = {"aggregator": US} if strategy in ("parameter-server", "model-averaging") else {}
    problem, placement = by_hand(workers=FOUR, exchange=strategy, **words, **hub)
    plan = small_plan(problem, placement, 1 / 50)
    whole = bytes_by_link(plan.plan.phases(problem.gradient_bytes))
    sent = bytes_by_link(plan.plan.phases(plan.problem.gradient_bytes))
    assert sent == pytest.approx({pair: count / 50 for pair, count in whole.items()}, rel=1e-3)
    assert plan.estimate.step.calculation < 1e-5
    double, quadruple = (small_plan(problem, placement, n / 50).exchange_s for n in (2, 4))
    assert 0.05 < plan.exchange_s < double < quadruple


def test_a_butterfly_waits_for_two_round_trips_and_the_slower_link() -> None:
    """Each phase sends a quarter of 5.12 MB to each of the others at 30 / 8 MB/s: eight transfers
    between the regions at once.
    """
    plan = small(0.1, workers=FOUR, exchange="local-sgd", local_steps="4")
    assert not plan.rings
    assert plan.exchange_s == pytest.approx(2 * WAY_S + 2 * 1.28e6 / (30e6 / 8), rel=0.01)


def test_what_pytorch_averages_is_priced_as_a_ring() -> None:
    """5.12 MB, a half at a time in three segments of 57 ms. The first is asked for, sent and there
    after a round trip and 57 ms; the third is asked for then. Before the first of four rounds rank
    0 has sent the model, 10.24 MB.
    """
    plan = small(0.1)
    assert plan.rings
    assert plan.exchange_s == pytest.approx(2 * (2 * WAY_S + 2 * 0.0569), rel=0.03)
    sent = {(US, EU): 5.12e6 + 10.24e6 / 4, (EU, US): 5.12e6}
    assert plan.sent_bytes(4) == pytest.approx(sent)


def test_inside_one_zone_the_cards_are_priced_not_published_hosts() -> None:
    """Four workers pass 2 x 3/4 of 5.12 MB through cards of 30 / 4 MB/s."""
    plan = small(0.1, workers=f"{US}=4xT4:spot")
    assert plan.exchange_s == pytest.approx(1.5 * 5.12e6 / 7.5e6, rel=0.03)


def test_each_fragment_waits_for_its_own_round_trips() -> None:
    """Four fragments in four steps, two round trips each, and one exchange of 2.56 MB each way."""
    words: dict[str, Any] = {"exchange": "streaming-diloco", "local_steps": "4", "tbs": "2048"}
    plan = small(0.1, compression="int8", **words)
    assert plan.exchange_s == pytest.approx(8 * WAY_S + 2.56e6 / 15e6, rel=0.02)


def test_two_groups_of_one_kind_of_machine_have_one_rate() -> None:
    """With a language model the rates are those of its architecture, once for each kind of machine
    and not once for each group.
    """
    problem, placement = by_hand()
    size = problem.profile.parameters
    architecture = decoder_of(2, 64, size, vocabulary=100, tied=False, sequence_length=8)
    profile = replace(problem.profile, architecture=architecture, sample=None, sample_source="")
    plan = small_plan(replace(problem, profile=profile), placement, 0.1)
    assert [group.gpu for group in placement.groups] == ["T4", "T4"]
    assert {(rate.gpu, rate.gpu_count) for rate in plan.problem.profile.rates} == {("T4", 1)}
    assert plan.exchange_s == small(0.1).exchange_s


def test_the_usual_scale_makes_an_exchange_of_a_second_and_a_half() -> None:
    """Round trips apart; a large model is bound by its bytes, a tiny one is taken whole."""
    assert small().exchange_s == pytest.approx(1.5 + 2 * WAY_S, rel=0.1)
    assert small(model="roberta-xlm").exchange_s == pytest.approx(1.5 + 2 * WAY_S, rel=0.1)
    words: dict[str, Any] = {"exchange": "diloco", "local_steps": "4", "tbs": "2048"}
    assert small(compression="int4", **words).scale == 1.0


def test_machines_are_workers_then_functions_then_stores() -> None:
    """As the runtime numbers its ranks; the stores come last, in the order of their functions."""
    central = small(0.1, exchange="central", **STORES)
    assert central.plan.machines == (OREGON, LONDON, LONDON, OREGON, OREGON)
    regional = small(0.1, exchange="hierarchical", **STORES)
    assert regional.plan.machines == (OREGON, LONDON, LONDON, *(OREGON, LONDON, OREGON) * 2)


def test_fewer_workers() -> None:
    """Groups are cut one by one; more processes than a machine has room for are refused."""
    placement = by_hand(workers=f"{US}=8xT4:spot,{EU}=1xT4:spot")[1]
    assert [group.count for group in fewer(placement, 2).groups] == [2, 1]
    many = replace(placement, groups=tuple(replace(g, count=20) for g in placement.groups))
    with pytest.raises(PlacerError, match="the plan has 40 workers, a rehearsal at most 24"):
        fewer(many, None)


def test_a_worker_with_an_inner_plan_is_one_host() -> None:
    """What its GPUs do inside is not rehearsed; several machines of an island are refused."""
    placement = by_hand()[1]
    inner = InnerPlan(microbatch=4)
    inside = replace(placement, groups=tuple(replace(g, inner=inner) for g in placement.groups))
    assert as_hosts(inside, "plan.json") == placement
    several = replace(inside, groups=tuple(replace(g, machines=2) for g in inside.groups))
    with pytest.raises(PlacerError, match="an island of the plan has 2"):
        as_hosts(several, "plan.json")


def test_the_small_plan_can_be_read_and_run() -> None:
    """Its manifest has all workers and the batch of the rehearsal."""
    plan = plan_from(small(0.1, workers=FOUR).manifest(), "rehearsal")
    assert (plan.workers, plan.target_batch_size) == (4, 256)

"""Properties of the model that hold for every strategy, on random markets."""

import importlib
import json
import re
from itertools import islice, product
from typing import Any

import msgspec
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from instances import exchange_problem, link_of, wishing
from placer.cost_model.dollars import egress_usd
from placer.cost_model.estimate import Outcome, evaluate, exchange_phases
from placer.cost_model.limits import violations
from placer.cost_model.reduced_problem import used_problem
from placer.market.catalog import Catalog
from placer.problem.exchange import traits
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace

placements = importlib.import_module("placer.solvers.exhaustive").placements
UNUSABLE = {"exchange", "function", "data", "batch"}
"""Codes of placements that cannot run at all: nothing is said about their time."""


def drawn(seed: int, pick: int) -> tuple[Problem, Placement]:
    """Draw a market and one of the placements that can run on it; another one where none can."""
    problem = exchange_problem(seed)
    found = [
        p
        for p in islice(placements(problem), 120)
        if not UNUSABLE & {v.code for v in violations(p, problem)}
    ]
    several = [p for p in found if p.workers > 1] or found
    if not several:
        reject()
    return problem, several[pick % len(several)]


def outcome(problem: Problem, placement: Placement, **changes: Any) -> Outcome:
    """Evaluate a placement after changes of the catalog."""
    catalog: Catalog = replace(problem.catalog, **changes)
    return evaluate(placement, replace(problem, catalog=catalog))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400), st.integers(0, 99))
def test_a_faster_link_never_slows_a_step(seed: int, pick: int, which: int) -> None:
    """Twice the bandwidth of any one link, inside a region too: the round is not longer."""
    problem, placement = drawn(seed, pick)
    places = sorted(problem.catalog.regions)
    src, dst = places[which % len(places)], places[which // len(places) % len(places)]
    link = problem.network.link(src, dst)
    low, gbps, high = (2 * 8 / 1e9 * x for x in (link.low, link.bytes_per_second, link.high))
    faster = replace(link_of(src, dst, gbps, link.rtt_s * 1e3), gbps_low=low, gbps_high=high)
    links = (
        *(known for known in problem.catalog.links if (known.src, known.dst) != (src, dst)),
        faster,
    )
    assert outcome(problem, placement, links=links).step.total <= evaluate(
        placement, problem
    ).step.total * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400), st.integers(0, 99))
def test_a_dearer_link_never_lowers_cost(seed: int, pick: int, which: int) -> None:
    """One egress price a cent higher: the time is the same, USD/h not less."""
    problem, placement = drawn(seed, pick)
    rows = list(problem.catalog.egress)
    rows[which % len(rows)] = replace(
        rows[which % len(rows)], usd_per_gib=rows[which % len(rows)].usd_per_gib + 0.01
    )
    before, after = evaluate(placement, problem), outcome(problem, placement, egress=tuple(rows))
    assert after.step == before.step
    assert after.usd.total >= before.usd.total * (1 - 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400))
def test_splitting_a_group_changes_nothing(seed: int, pick: int) -> None:
    """Machines listed one by one are the same machines."""
    problem, placement = drawn(seed, pick)
    split = replace(
        placement,
        groups=tuple(replace(g, count=1) for g in placement.groups for _ in range(g.count)),
    )
    before, after = evaluate(placement, problem), evaluate(split, problem)
    assert after.step.total == pytest.approx(before.step.total)
    assert after.usd.total == pytest.approx(before.usd.total)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400))
def test_renaming_regions_changes_nothing(seed: int, pick: int) -> None:
    """Names that sort the other way round: r0 becomes z9, r1 becomes z8 and so on."""
    problem, placement = drawn(seed, pick)

    def renamed(document: Any) -> Any:
        return json.loads(
            re.sub(
                r"\br(\d)\b",
                lambda m: f"z{9 - int(m[1])}",
                json.dumps(msgspec.to_builtins(document)),
            )
        )

    other = Problem.from_dict(renamed(problem.to_dict()))
    moved = msgspec.convert(renamed(placement), Placement)
    before, after = evaluate(placement, problem), evaluate(moved, other)
    assert after.step.total == pytest.approx(before.step.total)
    assert after.usd.total == pytest.approx(before.usd.total)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400))
def test_a_book_cut_down_to_a_placement_changes_nothing(seed: int, pick: int) -> None:
    """With the offers and places of the placement alone, and with its links written down or not,
    the same round costs the same.
    """
    problem, placement = drawn(seed, pick)
    before, measured = evaluate(placement, problem), {*problem.catalog.links}
    for fixed in (False, True):
        small = used_problem(problem, placement, links_fixed=fixed)
        after, places = evaluate(placement, small), small.catalog.regions
        assert after.step.total == pytest.approx(before.step.total)
        assert after.usd.total == pytest.approx(before.usd.total)
        assert {*placement.places} <= {*places} <= {*problem.catalog.regions}
        links = [(link.src, link.dst) for link in small.catalog.links]
        assert links == [*product(places, places)] if fixed else {*small.catalog.links} <= measured


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400))
def test_dollars_per_hour_are_dollars_per_round_times_rounds(seed: int, pick: int) -> None:
    """Egress of one round by its phases, times 3600 over the seconds of a round; the parts add up
    to the total.
    """
    problem, placement = drawn(seed, pick)
    got = evaluate(placement, problem)
    per_round = egress_usd(
        exchange_phases(placement, problem),
        problem.network,
        same_zone=problem.requirements.same_zone,
    )
    assert got.usd.egress == pytest.approx(per_round * 3600 / got.step.total)
    assert got.usd.total == pytest.approx(
        sum((got.usd.compute, got.usd.egress, got.usd.storage, got.usd.functions, got.usd.data))
    )
    assert got.processed_per_second == pytest.approx(
        problem.batch * placement.exchange.local_steps / got.step.total
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 100_000), st.integers(0, 400), st.sampled_from(["none", "fp16", "int8"]))
def test_fewer_bytes_never_cost_or_take_more(seed: int, pick: int, compression: str) -> None:
    """Compression to half or a quarter: not slower a round, and not more egress in a round."""
    problem, placement = drawn(seed, pick)
    full, small = (
        evaluate(
            replace(placement, exchange=replace(placement.exchange, compression=name)),
            wishing(problem, compression=name),
        )
        for name in ("none", compression)
    )
    assert small.step.total <= full.step.total * (1 + 1e-9)
    assert (
        small.usd.egress * small.step.total
        <= full.usd.egress * full.step.total * (1 + 1e-9) + 1e-15
    )


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 100_000), st.integers(0, 400), st.sampled_from((1.05, 1.5, 4.0)), st.booleans()
)
def test_faster_machines_never_lengthen_a_round(
    seed: int, pick: int, faster: float, overlap: bool
) -> None:
    """Every device faster by one factor, beside the exchange too: the searches compare machines of
    a class of hosts by their speed alone.
    """
    problem, placement = drawn(seed, pick)
    if overlap and traits(placement.exchange.strategy).may_overlap:
        exchange = replace(placement.exchange, overlap=True)
        placement = replace(placement, exchange=exchange)
    rates = tuple(
        replace(rate, value=faster * rate.value, low=faster * rate.low, high=faster * rate.high)
        for rate in problem.profile.rates
    )
    quicker = replace(problem, profile=replace(problem.profile, rates=rates))
    before, after = evaluate(placement, problem).step, evaluate(placement, quicker).step
    assert after.calculation < before.calculation
    assert after.total <= before.total * (1 + 1e-9)

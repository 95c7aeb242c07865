"""No placement of alike workers has shorter steps than each mode allows, nor sends for less."""

import importlib
import random
from collections import Counter
from itertools import islice

import numpy as np

from instances import exchange_problem, wishing
from placer.cost_model.estimate import evaluate, pool_of
from placer.cost_model.limits import violations
from placer.cost_model.timing.least_modes import LeastModes
from placer.cost_model.timing.least_steps import LeastSteps
from placer.market.table import members
from placer.problem.admitted_exchanges import exchange_for
from placer.problem.exchange import traits
from placer.problem.problem import Problem
from placer.problem.workers.pools import Pools
from placer.records import replace
from placer.units import SECONDS_PER_HOUR

placements = importlib.import_module("placer.solvers.exhaustive").placements
ROUNDING = 1e-9
REACHED = {
    "butterfly, 1": 500,
    "butterfly, 1, beside": 80,
    "butterfly, 2": 50,
    "butterfly, 2, beside": 12,
    "leaders, 2": 35,
    "leaders, 2, beside": 12,
    "region-hub, 2": 90,
    "region-gossip, 2": 12,
    "server, 1": 1,
    "server, 2": 10,
    "store, 1": 95,
    "store, 2": 15,
}
"""Steps at least that a bound comes within a tenth of, by transport, regions (2: or more) and
whether the exchange runs beside the next step. Regional stores are several hubs, which are free.
"""
PAID = {
    "butterfly, 2": 50,
    "butterfly, 2, beside": 20,
    "leaders, 2": 50,
    "leaders, 2, beside": 25,
    "region-hub, 2": 150,
    "region-gossip, 2": 70,
    "server, 2": 4,
}
"""The same of what is sent for money."""


def drawn(seed: int) -> Problem:
    """Machines of several networks, of one kind in a placement, over links of every speed."""
    draw, base = random.Random(f"modes {seed}"), exchange_problem(seed)
    offers = tuple(
        replace(offer, network_gbps=draw.choice((0.5, 5.0, 50.0))) for offer in base.catalog.offers
    )
    local_steps = draw.choice((None, 4))
    return wishing(
        replace(base, catalog=replace(base.catalog, offers=offers)),
        transport=draw.choice(("nccl", "gloo")),
        exchange="auto",
        aggregator=None,
        overlap=draw.random() < 0.4,
        min_local_steps=None if local_steps is None else 1,
        max_local_steps=local_steps,
        min_regions=1,
        min_workers=2,
        max_regions=4,
        max_workers=draw.choice((3, 4)),
        budget_usd_per_hour=None,
        min_samples_per_second=None,
        datasets=(),
    )


def kinds(problem: Problem) -> dict[str, Pools]:
    """Divide the admitted workers by their device."""
    pools = problem.pools
    rows = members(*pools.by_kind(lambda pool: pool.offer.device))
    return {own.kinds[0].offer.device: own for own in map(pools.at, rows)}


def test_no_mode_is_faster_or_sends_for_less_than_the_bound() -> None:
    """All placements of one kind in 240 markets: over one region by request, over several or any.
    The worker whose average takes longest bounds the step, and of each transport some bounds are
    reached within a tenth.
    """
    seen, near, paid = Counter[str](), Counter[str](), Counter[str]()
    for seed in range(240):
        limits: tuple[dict[str, int], ...] = ({"max_regions": 1}, {"min_regions": 2}, {})
        problem = wishing(drawn(seed), **limits[seed % 3])
        exchanges = [exchange_for(n, 1, problem, local_steps=h) for n, h in problem.modes]
        steps = LeastSteps(problem)
        least = {
            device: LeastModes(steps, pools, exchanges) for device, pools in kinds(problem).items()
        }
        for placement in islice(placements(problem), 400):
            workers, used = placement.workers, placement.exchange
            devices = {group.device for group in placement.groups}
            if violations(placement, problem) or len(devices) > 1:
                continue
            outcome, own = evaluate(placement, problem), least[devices.pop()]
            found_s = outcome.step.total / used.local_steps
            sent_usd = outcome.usd.egress / SECONDS_PER_HOUR * found_s
            pools = [pool_of(group, problem, workers) for group in placement.groups]
            fastest = max(pool.shared.value for pool in own.pools.kinds)
            hosts = {pool.host: steps.exchange_s("butterfly", pool.host, 2) for pool in pools}
            slowest = max(hosts, key=hosts.__getitem__)
            part_s = problem.batch / workers / fastest
            steps_s, usd = own.of(np.array([part_s]), slowest, np.array([workers]))
            at = problem.modes.index((used.strategy, used.local_steps))
            least_s, least_usd = float(steps_s[at, 0]), float(usd[at, 0])
            assert least_s <= found_s * (1 + ROUNDING), (seed, placement)
            assert least_usd <= sent_usd * (1 + ROUNDING), (seed, placement)
            regions = min(2, len(placement.places))
            transport = f"{traits(used.strategy).transport}, {regions}{', beside' * used.overlap}"
            seen[transport] += 1
            near[transport] += least_s > 0.9 * found_s > part_s
            paid[transport] += least_usd > 0.9 * sent_usd > 0
    assert min(seen.values()) >= 30
    for counted, wanted in ((near, REACHED), (paid, PAID)):
        assert {name: counted[name] for name in wanted if counted[name] < wanted[name]} == {}

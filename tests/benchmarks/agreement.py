"""Compare the solvers: exact, milp and cpsat on medium markets.

    python tests/benchmarks/agreement.py --seeds 0:200 --solvers exact,milp --time-limit 60

Prints a table of disagreements, times and gaps.
"""

import argparse
import random
import sys
import time
from pathlib import Path
from statistics import median

from placer.records import replace

sys.path.insert(0, str(Path(__file__).parent.parent))

from instances import (
    AS_OF,
    CITIES,
    GPUS,
    _measured,
    _wide_prices,
    function_at,
    offer,
    profile,
    region,
    store_at,
)
from placer.market.catalog import Catalog, Gpu
from placer.problem.data.datasets import Dataset
from placer.problem.problem import Problem
from placer.problem.requirements import EXCHANGES, Quota, Requirements
from placer.solving.answer import SolveOptions
from placer.solving.cross_check import _contradiction
from placer.solving.result import Result
from placer.solving.solve import solve


def medium_problem(seed: int) -> Problem:
    """Draw a market of 4 or 5 regions and 6 to 12 pools with quotas of 2 to 8 GPUs, and any
    strategy, objective and limits.
    """
    draw = random.Random(seed)
    regions = [
        region(draw.choice(["aws", "gcp", "lambda"]), f"r{i}", city)
        for i, city in enumerate(draw.sample(range(len(CITIES)), draw.choice([4, 5])))
    ]
    kinds = [
        (r, gpu, size, market)
        for r in regions
        for gpu in GPUS
        for size in (1, 1, 2)
        for market in ("spot", "on_demand")
    ]
    chosen = dict.fromkeys(
        [*(draw.choice([k for k in kinds if k[0] is r]) for r in regions), *draw.sample(kinds, 20)]
    )
    offers = tuple(
        offer(
            r.provider,
            r.region,
            gpu,
            round(draw.uniform(0.1, 1.5) * size * {"spot": 0.4, "on_demand": 1.0}[market], 3),
            market=market,
            gpus=size,
        )
        for r, gpu, size, market in list(chosen)[: draw.randint(6, 12)]
    )
    places = {**{r.place: r for r in regions}, "backblaze/b": region("backblaze", "b", 1)}
    catalog = Catalog(
        name="medium",
        digest="0",
        regions=places,
        gpus={
            n: Gpu(
                gpu=n,
                kind="gpu",
                memory_gib=m,
                fp16_tflops=f,
                memory_gb_per_s=b,
                host=h,
                source="test",
                as_of=AS_OF,
            )
            for n, (m, f, b, h) in GPUS.items()
        },
        offers=offers,
        functions=tuple(
            replace(function_at(r), max_memory_gib=draw.choice([8, 32]))
            for r in regions
            if draw.random() < 0.7
        ),
        stores=(
            *(store_at(r) for r in regions if draw.random() < 0.7),
            store_at(places["backblaze/b"]),
        ),
        egress=tuple(_wide_prices(draw)),
        links=tuple(
            _measured(draw, a, b) for a in places for b in places if a != b and draw.random() < 0.2
        ),
    )
    rates = {gpu: round(draw.uniform(20, 400), 1) for gpu in GPUS}
    model = profile(
        draw.choice([0.5, 20, 120, 1000]),
        rates,
        draw.choice([4096, 32768]),
        draw.choice([0.6, 0.9]),
    )
    return Problem(profile=model, catalog=catalog, requirements=_wishes(draw, catalog))


def _wishes(draw: random.Random, catalog: Catalog) -> Requirements:
    homes = sorted({o.place for o in catalog.offers})
    kept = draw.random()
    datasets = tuple(
        Dataset(place=p, samples=draw.choice([10**5, 10**6]), may_move=draw.random() < 0.2)
        for p in draw.sample(homes, draw.choice([1, 2, 3]))
    )
    least = draw.choice([1, 1, 2, 4])
    return Requirements(
        objective=draw.choice(("throughput", "cost", "cost-per-sample")),
        budget_usd_per_hour=draw.choice(
            [None, round(draw.uniform(1, 20), 2), round(draw.uniform(1, 20), 2)]
        ),
        min_samples_per_second=draw.choice([None, None, round(draw.uniform(50, 2000), 1)]),
        min_workers=least,
        max_workers=draw.choice([8, 16, 24]),
        min_regions=draw.choice([1, 1, 1, 2, 3]),
        max_regions=draw.choice([3, 4, 1000, 1000]),
        exchange=draw.choice(["auto", "auto", "auto", *EXCHANGES[1:]]),
        max_local_steps=draw.choice([None, None, 8]),
        streams=draw.choice([1, 4]),
        overlap=False,
        data_store=None if kept < 0.2 else draw.choice([None, None, "backblaze/b"]),
        datasets=datasets if kept < 0.2 else (),
        same_zone=draw.random() < 0.7,
        quotas=(Quota(place="*", gpu="*", market="*", gpus=draw.choice([2, 4, 8])),),
    )


def main() -> None:
    """Print one line for each instance with something to see, and the figures of each solver."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--seeds", default="0:20")
    words.add_argument("--solvers", default="exact,milp,cpsat")
    words.add_argument("--time-limit", type=float, default=60.0)
    words.add_argument("--gap", type=float, default=0.001)
    given = words.parse_args()
    first, last = map(int, given.seeds.split(":"))
    names = given.solvers.split(",")
    options = SolveOptions(gap=given.gap, time_limit_s=given.time_limit)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    unproved: dict[str, int] = dict.fromkeys(names, 0)
    disagreements = 0
    for seed in range(first, last):
        problem = medium_problem(seed)
        results: dict[str, Result] = {}
        for name in names:
            started = time.perf_counter()
            results[name] = solve(problem, name, options)
            seconds[name].append(time.perf_counter() - started)
            unproved[name] += results[name].status not in ("optimal", "infeasible")
        wrong = [
            f"{a}/{b}"
            for i, a in enumerate(names)
            for b in names[i + 1 :]
            if _contradiction(results[a], results[b])
        ]
        disagreements += bool(wrong)
        shown = "  ".join(
            f"{n} {r.status} {r.value and round(r.value, 6)} <> {r.bound and round(r.bound, 6)} "
            f"{seconds[n][-1]:.1f}s"
            for n, r in results.items()
        )
        print(
            f"{seed:4d} {problem.requirements.exchange:24s} {problem.requirements.objective:15s} "
            f"{shown} {','.join(wrong)}",
            flush=True,
        )
    print(f"\n{last - first} instances, {disagreements} with a disagreement")
    print(f"{'solver':8s} {'median s':>9s} {'mean s':>8s} {'most s':>8s} {'unproved':>9s}")
    for name in names:
        took = seconds[name]
        print(
            f"{name:8s} {median(took):9.2f} {sum(took) / len(took):8.2f} {max(took):8.2f} "
            f"{unproved[name]:9d}"
        )


if __name__ == "__main__":
    main()

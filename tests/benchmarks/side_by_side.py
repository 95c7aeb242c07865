"""Ask SkyPilot's optimizer and placer for machines within the same budgets, at the same prices.

    python -m venv build/sky && build/sky/bin/pip install skypilot==0.14.1
    python tests/benchmarks/side_by_side.py --sky build/sky/bin/python

SkyPilot (Yang et al., NSDI 2023) finds the cheapest of machines that somebody names; how fast a
model trains on them is no question of it. So it is asked for the cheapest machine of each device,
count and market. Then the kind is taken of which the budget pays most samples/s, as machines have
them alone: what someone does who has measured each device. placer prices that choice, exchange
included. Planners of stages, such as Sailor's, divide a model over given machines: they choose no
prices.
"""

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fresh_questions import MODELS, asked
from ledger import markdown, percentile

from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog

CATALOGS = ".sky/catalogs/v8"
"""Where SkyPilot 0.14 reads catalogs, below the home folder."""
CLOUDS = {"aws": "AWS", "gcp": "GCP", "azure": "Azure", "lambda": "Lambda"}
"""SkyPilot's classes of providers; RunPod's data centres are zones there and regions here."""
MOST = 64  # Machines of a placement, as placer has it unless told otherwise
OPTIMIZER = """
import json, sys, time
import sky
from sky import check, clouds, optimizer
some = [getattr(clouds, name)() for name in json.loads(sys.argv[1])]
check.get_cached_enabled_clouds_or_refresh = lambda *_, **__: some  # no account is asked
for cloud in some:
    type(cloud).get_image_size = classmethod(lambda *_, **__: 0.0)
for device, count, spot in json.loads(sys.argv[2]):
    began = time.process_time()
    with sky.Dag() as dag:
        task = sky.Task()
        task.set_resources(sky.Resources(accelerators={device: count}, use_spot=spot))
    try:
        optimizer.Optimizer.optimize(dag, quiet=True)
    except sky.exceptions.ResourcesUnavailableError:
        continue
    best = task.best_resources
    found = str(best.cloud).lower(), best.region, best.instance_type, spot, best.get_cost(3600)
    print("found", json.dumps([*found, time.process_time() - began]), flush=True)
"""


class Machine(NamedTuple):
    """The cheapest machine of a kind, as a group's words without a count; CPU of finding it."""

    place: str
    device: str
    usd_per_hour: float
    cpu_s: float

    def workers(self, count: int) -> str:
        """Name some of them as `placer estimate` reads it."""
        return f"{self.place}={count}x{self.device}"


def cheapest(python: str, book: Catalog) -> Iterator[Machine]:
    """Let SkyPilot find the cheapest machine of each kind of the default book."""
    with tempfile.TemporaryDirectory() as home:
        catalogs = Path(home, CATALOGS)
        export = [sys.executable, "-m", "placer", "catalog", "export", "skypilot", str(catalogs)]
        subprocess.run(export, check=True, capture_output=True)
        kinds = {
            (row["AcceleratorName"], int(float(row["AcceleratorCount"])))
            for cloud in CLOUDS
            for row in csv.DictReader((catalogs / cloud / "vms.csv").open(encoding="utf-8"))
            if row["AcceleratorName"]
        }
        names = "".join(f'{name},"[]"\n' for name in sorted({name for name, _ in kinds}))
        (catalogs / "common").mkdir()
        text = f"AcceleratorName,Clouds\n{names}"
        (catalogs / "common" / "accelerators.csv").write_text(text, encoding="utf-8")
        asked_for = [(*kind, spot) for kind in sorted(kinds) for spot in (False, True)]
        words = [python, "-c", OPTIMIZER, json.dumps([*CLOUDS.values()]), json.dumps(asked_for)]
        own = {**os.environ, "HOME": home, "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"}
        said = subprocess.run(words, check=True, capture_output=True, text=True, env=own).stdout
    for line in said.splitlines():
        if line.startswith("found "):
            cloud, region, kind, spot, usd, cpu_s = json.loads(line.removeprefix("found "))
            market = "spot" if spot else "on_demand"
            same = (cloud, region, kind, market)
            offers = (
                offer
                for offer in book.offers
                if (offer.provider, offer.region, offer.instance_type, offer.market) == same
            )
            for offer in offers:
                device = f"{offer.gpu}:{offer.gpu_count}:{market.replace('_', '-')}"
                yield Machine(offer.place, device, usd, cpu_s)
                break


def speed(advisor: Advisor, model: str, workers: str) -> float:
    """Return the samples/s of some machines by placer's model; 0 where they cannot train it."""
    try:
        return advisor.estimate(model, workers=workers).samples_per_second.value
    except PlacerError:
        return 0.0


def main() -> None:
    """Ask and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--sky", default=sys.executable, help="a Python that has SkyPilot")
    words.add_argument("--count", type=int, default=20)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    book = load_catalog("default")
    draw, advisor = random.Random(given.seed), Advisor(book)
    machines = list(cheapest(given.sky, book))
    alone = {
        (model, machine): speed(advisor, model, machine.workers(1))
        for model in MODELS
        for machine in machines
    }
    asked(advisor, {"model": MODELS[0], "budget": "5/h"}, alternatives=False)  # all is loaded
    promises, shares, seconds = [], [], []
    for _ in range(given.count):
        model, usd = draw.choice(MODELS), 10 ** draw.uniform(0.3, 2.5)
        paid = {machine: min(MOST, int(usd / machine.usd_per_hour)) for machine in machines}
        best = max(machines, key=lambda m: paid[m] * alone[model, m])
        question = {"model": model, "budget": f"{usd:.2f}/h", "supply": "any", "figures": "book"}
        took, result = asked(advisor, question, alternatives=False)
        if not paid[best] or result is None or result.estimate is None:
            continue
        reached = speed(advisor, model, best.workers(paid[best]))
        promises.append(100 * reached / (paid[best] * alone[model, best]))
        shares.append(100 * reached / result.estimate.samples_per_second.value)
        seconds.append(took)
    heads = ["what", "least", "p50", "most"]
    ends = (0.0, 0.5, 1.0)
    rows: list[list[object]] = [
        ["machines by SkyPilot reach, % of their samples/s alone", *quantiles(promises, ends)],
        ["machines by SkyPilot reach, % of placer's answer", *quantiles(shares, ends)],
        ["CPU s of SkyPilot for a kind", *quantiles([m.cpu_s for m in machines], ends)],
        ["CPU s of placer for a question", *quantiles(seconds, ends)],
    ]
    print(f"{len(shares)} questions, {len(machines)} kinds of machines\n")
    print("\n".join(markdown(heads, rows)))


def quantiles(values: list[float], shares: tuple[float, ...]) -> list[float]:
    """Return some quantiles."""
    return [percentile(values, share) for share in shares]


if __name__ == "__main__":
    main()

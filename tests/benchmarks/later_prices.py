"""How well defended prices predict later ones, and what they save: 23 spot prices of Google Cloud
that were read twice (tests/market/spot_price_moves.csv).

    python tests/benchmarks/later_prices.py [--questions 80]

Prediction: the half-life and the usual share are fitted to all devices but one, whose later prices
are then predicted, against taking the older price. Backtest: questions for the least dollars per
sample are asked of a book whose prices of that device are the older ones, as they stand and
defended with the figures fitted to the others; the answers are paid at the later prices. The regret
is what an answer then costs more than the best one.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from ledger import markdown

from placer.cost_model.estimate import evaluate
from placer.cost_model.objective import objective_of
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.books.book_reader import load_catalog
from placer.market.books.defended_figures import USUAL_SHARES, defended
from placer.market.catalog import Catalog, VmOffer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.answer import SolveOptions
from placer.solving.solve import solve

Array = npt.NDArray[Any]
PAIRS = Path(__file__).parent.parent / "market" / "spot_price_moves.csv"
HALF_LIVES = (20, 30, 45, 60, 75, 90, 120, 150, 200, 300)
SHARES = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6)
MODELS = ("roberta-xlm", "resnet152", "convnext-large", "whisper-small", "gpt2", "llama-3.2-1b")
DATE = "2026-08-03"
"""When the questions are asked."""


class Move(NamedTuple):
    """A price that was read twice, as logarithms of its share of on-demand."""

    device: str
    region: str
    instance_type: str
    days: int
    before: float
    after: float
    usual: float


def moves(book: Catalog) -> list[Move]:
    """Read the pairs; usual is the mean of the other rows of the device on the older day."""
    whole = {
        (o.region, o.instance_type): o.usd_per_hour
        for o in book.offers
        if (o.provider, o.market) == ("gcp", "on_demand")
    }
    with PAIRS.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    shares = [
        np.log(float(row["usd_before"]) / whole[row["region"], row["instance_type"]])
        for row in rows
    ]
    found = []
    for row, share in zip(rows, shares, strict=True):
        others = [
            other
            for twin, other in zip(rows, shares, strict=True)
            if twin is not row
            and (twin["device"], twin["before"]) == (row["device"], row["before"])
        ]
        on_demand = whole[row["region"], row["instance_type"]]
        days = (date.fromisoformat(row["after"]) - date.fromisoformat(row["before"])).days
        found.append(
            Move(
                device=row["device"].split("-")[0],
                region=row["region"],
                instance_type=row["instance_type"],
                days=days,
                before=share,
                after=float(np.log(float(row["usd_after"]) / on_demand)),
                usual=float(np.mean(others)) if others else share,
            )
        )
    return found


def errors(
    rows: list[Move], half_life: float, usual_share: float, *, lowers: bool = False
) -> Array:
    """Return log(later / predicted) of each row; see `placer.market.books.defended_figures`, which
    lowers no price. For a fit it may: else a general rise would count as what is usual.
    """
    weight = np.array([2 ** (-row.days / half_life) for row in rows])
    own, usual, later = (
        np.array([getattr(row, name) for row in rows]) for name in ("before", "usual", "after")
    )
    target = weight * usual + (1 - weight) * np.log(usual_share)
    predicted: Array = weight * own + (1 - weight) * target
    return later - (predicted if lowers else np.maximum(own, predicted))


def fitted(rows: list[Move]) -> tuple[float, float]:
    """Return the half-life and the usual share with the least root mean square error."""
    return min(
        ((days, share) for days in HALF_LIVES for share in SHARES),
        key=lambda pair: float(np.mean(errors(rows, *pair, lowers=True) ** 2)),
    )


def predictions(rows: list[Move]) -> tuple[list[list[str]], dict[str, tuple[float, float]]]:
    """Return the table of errors of each device left out, and the figures of the others."""
    table, figures, all_errors = [], {}, []
    for device in sorted({row.device for row in rows}):
        left = [row for row in rows if row.device == device]
        figures[device] = fitted([row for row in rows if row.device != device])
        mine = errors(left, *figures[device])
        theirs = np.array([row.after - row.before for row in left])
        all_errors.append((mine, theirs))
        days, share = figures[device]
        table.append([device, str(len(left)), f"{days} d, {share}", *words(mine), *words(theirs)])
    mine, theirs = (np.concatenate([pair[k] for pair in all_errors]) for k in (0, 1))
    table.append(["all", str(len(rows)), "", *words(mine), *words(theirs)])
    days, share = fitted(rows)
    table.append(
        ["fit to all", "", f"{days} d, {share}", *words(errors(rows, days, share)), "", ""]
    )
    return table, figures


def words(logs: Array) -> list[str]:
    """Write the median and the 90 % quantile of errors as factors."""
    return [f"{np.exp(np.quantile(np.abs(logs), part)):.2f}" for part in (0.5, 0.9)]


def older(book: Catalog, device: str) -> Catalog:
    """Return the machines of Google Cloud on demand and of one device on spot, at older prices."""
    with PAIRS.open(encoding="utf-8") as file:
        pairs = {
            (row["region"], row["instance_type"]): row
            for row in csv.DictReader(file)
            if row["device"].split("-")[0] == device and row["after"] == DATE
        }

    def rows() -> Iterator[VmOffer]:
        for offer in book.offers:
            pair = pairs.get((offer.region, offer.instance_type))
            if offer.provider != "gcp" or offer.as_of > DATE:
                continue
            if offer.market == "on_demand":
                yield offer
            elif pair is not None:
                usd = float(pair["usd_before"])
                yield msgspec.structs.replace(offer, usd_per_hour=usd, as_of=pair["before"])

    return replace(book, offers=tuple(rows()))


def later(old: Catalog, book: Catalog) -> Catalog:
    """Return the same machines at the prices of the book."""
    known = {(o.place, o.instance_type, o.gpu_count, o.market): o for o in book.offers}
    offers = (known[o.place, o.instance_type, o.gpu_count, o.market] for o in old.offers)
    return replace(old, offers=tuple(offers))


def regrets(
    device: str, figures: tuple[float, float], book: Catalog, questions: int
) -> Iterator[tuple[float, float]]:
    """Yield the regret of the answer at book figures and at defended ones of drawn questions."""
    old = older(book, device)
    new = later(old, book)
    days, share = figures
    safe = defended(old, days, {**USUAL_SHARES, "spot": share})
    draw, devices = random.Random(device), ("T4", "L4", "A100", "H100", "V100")
    for _ in range(questions):
        asked: dict[str, Any] = {
            "budget": f"{round(draw.uniform(3, 120), 1)}/h",
            "gpu": ",".join(sorted({device, *draw.sample(devices, 3)})),
        }
        try:
            problem = Advisor(old).problem(
                draw.choice(MODELS), figures="book", objective="cost-per-sample", **asked
            )
            answers = [answer(replace(problem, catalog=each)) for each in (old, safe, new)]
        except PlacerError:
            continue
        paid = [usd_per_sample(each, replace(problem, catalog=new)) for each in answers if each]
        if len(paid) == 3:
            yield paid[0] / paid[2] - 1, paid[1] / paid[2] - 1


def answer(problem: Problem) -> Placement | None:
    """Return the best placement of a question."""
    return solve(problem, "exact", SolveOptions(time_limit_s=10)).placement


def usd_per_sample(placement: Placement, problem: Problem) -> float:
    """Return what a placement costs at the prices of a book."""
    wish = replace(problem.requirements, objective="cost-per-sample")
    return objective_of(wish).value(evaluate(placement, problem))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=80, help="of each device")
    asked = parser.parse_args()
    book = load_catalog(("default",))
    table, figures = predictions(moves(book))
    heads = ["left out", "rows", "fitted to the others", "median", "p90", "older price", "p90"]
    print(*markdown(heads, table), sep="\n")
    found: Mapping[str, list[tuple[float, float]]] = {
        device: list(regrets(device, pair, book, asked.questions))
        for device, pair in figures.items()
    }
    every = [pair for pairs in found.values() for pair in pairs]
    lines = []
    for name, pairs in (*found.items(), ("all", every)):
        plain, safe = (np.array([pair[k] for pair in pairs]) for k in (0, 1))
        parts = [f"{x:.1%}" for v in (plain, safe) for x in (v.mean(), np.quantile(v, 0.9))]
        lines.append([name, str(len(pairs)), *parts])
    heads = ["device", "questions", "book: mean", "p90", "defended: mean", "p90"]
    print(*markdown(heads, lines), sep="\n")


if __name__ == "__main__":
    main()

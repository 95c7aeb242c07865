"""Answer a queue of jobs with one `Advisor`: a scheduler's loop in a market that moves.

Shows: a queue with a job that does not fit and one with a typing error; the same job at many
budgets (`prepare` works out once what the budgets share); what to do with running jobs when prices
move or capacity goes (`whatif`: keep them or move). `1xH100:2:spot` is one spot machine with two
H100.

Prints: a line for each job, and how many requests a second this machine answered. Takes about 15 s.
"""

import time
from typing import Any

from placer import Advisor, PlacerError, Result, SolveOptions, whatif
from placer.records import replace
from placer.solving.solve import prepare

QUEUE: list[dict[str, Any]] = [
    {"model": "roberta-xlm", "budget": "5/h"},
    {"model": "resnet50", "min_throughput": "2000/s", "market": "spot"},
    {"model": "convnext-large", "budget": "2/h", "gpu": "T4,L4"},
    {"model": "roberta-base", "budget": "0.01/h"},
    {"model": "roberta-xml", "budget": "5/h"},
]
MARKET_MOVES: list[dict[str, Any]] = [
    {"set": "price:runpod/*:RTX4090:community=+20%"},
    {"set": "price:aws/*:H200:spot=x0.1"},
    {"drop": "runpod/*:RTX4090:community"},
]


def said(result: Result) -> str:
    """One line: what to rent, how fast, for how much."""
    if result.placement is None or result.estimate is None:
        return str(result.status)
    workers = " + ".join(group.spec for group in result.placement.groups)
    return (
        f"{workers}, {result.estimate.samples_per_second.value:,.0f} samples/s for "
        f"{result.estimate.usd_per_hour.total:.2f} USD/h"
    )


# catalogs and profiles are read once, at the first request for them; safe to share between threads
advisor = Advisor()

print("the queue")
accepted = []
for job in QUEUE:
    try:
        result = advisor.recommend(
            **job, alternatives=False
        )  # no comparison with anything else: faster
        accepted.append(job)
        if result.placement is None:
            fits = advisor.recommend(**job).nearest  # asked again, with what would fit
            print(
                f"  {job['model']}: {result.status}; a change that works: "
                f"{'; or '.join(option.note for option in fits)}"
            )
        else:
            print(f"  {job['model']}: {said(result)}")
    except PlacerError as error:  # what a person typed; the loop goes on
        print(f"  {job['model']}: refused: {error.message} ({error.hint})")
started = time.perf_counter()
for job in accepted:
    advisor.recommend(**job, alternatives=False)
print(
    f"  the {len(accepted)} valid ones once more: "
    f"{len(accepted) / (time.perf_counter() - started):.0f} requests/s"
)

print("\none job, many budgets")
question = advisor.problem("roberta-xlm", budget="20/h")
answer = prepare(question)
budgets = (0.5, 1, 2, 5, 10, 20)
started = time.perf_counter()
for budget in budgets:
    wishes = replace(question.requirements, budget_usd_per_hour=budget)
    print(
        f"  {budget:g} USD/h: "
        f"{said(answer(replace(question, requirements=wishes), SolveOptions()))}"
    )
print(f"  {len(budgets) / (time.perf_counter() - started):.0f} requests/s")

print("\nthe market moves under roberta-xlm, which runs for at most 5 USD/h")
for move in MARKET_MOVES:
    got = whatif("roberta-xlm", budget="5/h", advisor=advisor, **move)
    assert got.kept is not None
    if got.same:
        advice = "keep it: still the best"
    elif got.kept.broken:
        advice = f"move to {said(got.after)}: {got.kept.broken[0]}"
    else:
        advice = f"move to {said(got.after)}: staying gives up {got.regret:.0%} of that speed"
    print(f"  {' '.join(*move.items())}: {advice}")

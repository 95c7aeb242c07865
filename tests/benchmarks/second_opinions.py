"""Count how many small questions about the default book a second solver decides.

    python tests/benchmarks/second_opinions.py --solver milp
    python tests/benchmarks/second_opinions.py --drawn 0:90 --solver cpsat
    python tests/benchmarks/second_opinions.py --questions 5,12 --stretch 4

Asks the frozen questions below, or drawn ones of at most 60 offers. Prints a line for each, and the
share that is decided: both solvers have proved their answer, the second one with no more CPU
seconds than the time limit. CPU seconds are those of the child process; on a machine that others
use too, ``--stretch`` multiplies the time by the clock that both may take.
"""

import argparse
import random
import resource
from collections.abc import Iterator
from typing import Any

from placer.market.books.book_reader import load_catalog
from placer.market.catalog import Catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.problem.words.request import build_problem
from placer.solving.answer import SolveOptions
from placer.solving.cross_check import verification_words, verified
from placer.solving.solve import solve
from placer.workload.profile import load_profile

QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("roberta-xlm", {"gpu": "T4", "places": "gcp/us-*", "market": "spot", "budget": "5/h"}),
    (
        "resnet50",
        {"gpu": "T4,A10G", "places": "aws/us-*", "market": "spot", "budget": "5/h", "quota": "8"},
    ),
    (
        "convnext-large",
        {"gpu": "L4", "places": "gcp/us-*", "market": "spot", "budget": "10/h", "quota": "4"},
    ),
    (
        "whisper-small",
        {
            "gpu": "T4",
            "places": "gcp/europe-*",
            "market": "spot",
            "budget": "3/h",
            "workers": "1..16",
        },
    ),
    (
        "roberta-base",
        {
            "gpu": "T4,L4",
            "places": "gcp/europe-*",
            "market": "on_demand",
            "budget": "8/h",
            "exchange": "all-reduce",
            "workers": "4..16",
        },
    ),
    (
        "resnet152",
        {
            "gpu": "T4",
            "places": "aws/us-*,gcp/us-*",
            "market": "spot",
            "budget": "4/h",
            "regions": "2..3",
            "quota": "4",
        },
    ),
    ("vit-b-16", {"gpu": "A100", "places": "aws/*,gcp/us-*", "market": "spot", "budget": "20/h"}),
    (
        "convnext-large",
        {"gpu": "T4", "places": "gcp/us-*", "market": "spot", "min_throughput": "150/s"},
    ),
    (
        "resnet50",
        {
            "gpu": "T4,A10G",
            "places": "aws/us-*",
            "market": "spot",
            "samples": "500M",
            "deadline": "48h",
            "quota": "8",
        },
    ),
    (
        "roberta-xlm",
        {
            "gpu": "T4,L4",
            "places": "gcp/us-*",
            "market": "spot",
            "budget": "10/h",
            "objective": "cost-per-sample",
            "workers": "4..16",
        },
    ),
    (
        "whisper-small",
        {
            "gpu": "T4,A10G",
            "places": "aws/us-*",
            "market": "spot",
            "budget": "5/h",
            "objective": "cost-per-sample",
            "workers": "4..8",
        },
    ),
    (
        "roberta-xlm",
        {
            "gpu": "T4",
            "places": "gcp/us-*,aws/us-*",
            "market": "spot",
            "budget": "3/h",
            "local_steps": "1..16",
            "exchange": "local-sgd",
            "quota": "4",
            "regions": "2..",
        },
    ),
    (
        "gpt2",
        {
            "gpu": "T4",
            "places": "gcp/europe-*",
            "market": "spot",
            "budget": "6/h",
            "local_steps": "1..64",
            "exchange": "diloco",
            "quota": "8",
        },
    ),
    (
        "convnext-large",
        {
            "gpu": "T4",
            "places": "gcp/us-*",
            "market": "spot",
            "budget": "5/h",
            "local_steps": "1..4",
            "quota": "2",
        },
    ),
    (
        "resnet50",
        {
            "gpu": "L4",
            "places": "gcp/us-*",
            "market": "spot",
            "budget": "5/h",
            "exchange": "hierarchical-all-reduce",
            "regions": "2..",
        },
    ),
    (
        "resnet18",
        {
            "gpu": "T4",
            "places": "aws/us-*",
            "market": "on_demand",
            "budget": "8/h",
            "exchange": "parameter-server",
        },
    ),
    ("mpt-1b", {"gpu": "A100", "places": "aws/us-*,gcp/us-*", "market": "spot", "budget": "20/h"}),
    (
        "llama-3.2-1b",
        {"gpu": "L4", "places": "aws/us-*", "market": "spot", "budget": "20/h", "quota": "8"},
    ),
    (
        "llama-3.1-8b",
        {"gpu": "H100", "places": "aws/us-*", "market": "spot", "tokens": "1B", "deadline": "72h"},
    ),
    (
        "gpt-1.3b",
        {
            "gpu": "A10G",
            "places": "aws/us-*,aws/eu-*",
            "market": "spot",
            "min_throughput": "4/s",
            "quota": "16",
        },
    ),
    (
        "gpt2-xl",
        {
            "gpu": "A100",
            "places": "gcp/us-*",
            "market": "spot",
            "budget": "20/h",
            "objective": "cost-per-sample",
            "workers": "2..8",
        },
    ),
    (
        "vit-l-16",
        {
            "gpu": "T4",
            "places": "gcp/us-*",
            "market": "spot",
            "min_throughput": "60/s",
            "regions": "2..3",
            "quota": "4",
        },
    ),
)
"""Models and wishes: one device and islands, throughput, cost under a floor or a deadline, price of
a sample, local steps; 2 to 20 USD/h, few regions, quotas.
"""
MOST_OFFERS = 60
"""Questions with more are not small."""
PLACES = (("aws/us-*",), ("gcp/us-*", "gcp/europe-*"), ("aws/*",), ("azure/*",), ("europe",))
GPUS = (("T4",), ("A10G", "L4"), ("T4", "A10G"), ("A100",), ("V100", "T4"))
EXCHANGES = ("auto", "auto", "auto", "all-reduce", "parameter-server", "hierarchical-all-reduce")
MODELS = ("roberta-xlm", "resnet50", "convnext-large", "whisper-small")


def question(seed: int) -> tuple[str, Requirements]:
    """Draw a model and wishes of a few places and GPUs."""
    draw = random.Random(f"second opinion {seed}")
    objective = draw.choice(("throughput", "throughput", "cost", "cost-per-sample"))
    local = draw.choice((None, None, None, 4, 16))
    least = 1 if objective == "throughput" else 4
    return draw.choice(MODELS), Requirements(
        places_in=draw.choice(PLACES),
        gpus=draw.choice(GPUS),
        market=draw.choice(("any", "spot", "on_demand")),
        quota_gpus=draw.choice((None, 4, 8)),
        budget_usd_per_hour=draw.choice((3.0, 5.0, 10.0, 30.0)),
        min_regions=draw.choice((1, 1, 2)),
        max_workers=draw.choice((8, 16, 64)),
        exchange=draw.choice(EXCHANGES),
        min_local_steps=None if local is None else 1,
        max_local_steps=local,
        objective=objective,
        min_workers=least,
    )


def drawn(seeds: range, book: Catalog) -> Iterator[tuple[str, Problem]]:
    """Yield the drawn questions that are small, with their seeds and models."""
    for seed in seeds:
        model, wish = question(seed)
        problem = Problem(profile=load_profile(model), catalog=book, requirements=wish)
        if 0 < len(problem.pools) <= MOST_OFFERS:
            yield f"{seed:4} {model}", problem


def frozen(numbers: list[int], book: Catalog) -> Iterator[tuple[str, Problem]]:
    """Yield frozen questions, with their numbers and models."""
    for number in numbers:
        model, wishes = QUESTIONS[number]
        yield f"{number:4} {model}", build_problem(load_profile(model), book, **wishes)


def main() -> None:
    """Print what a second solver says of each question, and the share that it decides."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--questions", help="numbers, such as 0,3; default: all frozen ones")
    words.add_argument("--drawn", help="FIRST:END, seeds of drawn questions in their place")
    words.add_argument("--solver", default="milp")
    words.add_argument("--time-limit", type=float, default=60.0)
    words.add_argument("--stretch", type=float, default=1.0)
    asked = words.parse_args()
    book, decided, count = load_catalog("default"), 0, 0
    limit = SolveOptions(time_limit_s=asked.time_limit * asked.stretch)
    chosen = asked.questions.split(",") if asked.questions else range(len(QUESTIONS))
    questions = (
        drawn(range(*map(int, asked.drawn.split(":"))), book)
        if asked.drawn
        else frozen([int(number) for number in chosen], book)
    )
    for name, problem in questions:
        first = solve(problem, options=limit)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        second = verified(first, asked.solver, limit).verification
        cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        count += 1
        decided += second is not None and second.verdict == "agree" and cpu_s <= asked.time_limit
        said = "no answer" if second is None else verification_words(second)
        offers = len(problem.pools)
        print(f"{name:20} {offers:3} offers {cpu_s:6.1f} s CPU  {said}", flush=True)
    print(f"{decided} of {count} decided")


if __name__ == "__main__":
    main()

"""Count how many small questions about the default book a second solver decides.

    python tests/benchmarks/second_opinions.py --seeds 0:90 --solver highs --time-limit 60

Prints a line for each question with at most 60 offers, and the share that is decided. CPU seconds
are those of the child process, so that other work on the machine shows.
"""

import argparse
import random
import resource

from placer.market.books.book_reader import load_catalog
from placer.problem.problem import Problem
from placer.problem.requirements import Requirements
from placer.solving.answer import SolveOptions
from placer.solving.cross_check import verification_words, verified
from placer.solving.solve import solve
from placer.workload.profile import load_profile

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


def main() -> None:
    """Print what a second solver says of each question, and the share that it decides."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--seeds", default="0:90")
    words.add_argument("--solver", default="highs")
    words.add_argument("--time-limit", type=float, default=60.0)
    asked = words.parse_args()
    book, decided, count = load_catalog("default"), 0, 0
    limit = SolveOptions(time_limit_s=asked.time_limit)
    for seed in range(*map(int, asked.seeds.split(":"))):
        model, wish = question(seed)
        problem = Problem(profile=load_profile(model), catalog=book, requirements=wish)
        if not 0 < len(problem.pools) <= MOST_OFFERS:
            continue
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        second = verified(solve(problem, options=limit), asked.solver, limit).verification
        cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        count += 1
        decided += second is not None and second.verdict == "agree"
        said = "no answer" if second is None else verification_words(second)
        print(f"{seed:4} {model:14} {len(problem.pools):3} offers {cpu_s:6.1f} s CPU  {said}")
    print(f"{decided} of {count} decided")


if __name__ == "__main__":
    main()

"""Compare `exact` with plain enumeration on fresh random instances.

    python tests/benchmarks/oracle.py --seeds 810000:810125
    python tests/benchmarks/oracle.py --generators wide,carbon --seeds 900000:900020 -o FILE.jsonl

Solves each instance with `exhaustive` and with `exact` at a gap of 0, and prints instances,
differences and outcomes. The exit code is 1 if any instance differs. The seeds of the tests are
below 10,000, so larger ones give instances that nobody has tuned a bound on.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import solve
from proofs import MARKETS

RELATIVE = 1e-8
"""Largest relative difference of two values that counts as rounding."""
PROOF = SolveOptions(gap=0.0, time_limit_s=600.0)


def compared(generator: str, seed: int) -> dict[str, Any]:
    """Solve one instance with both solvers.

    Returned: generator and seed, status, strategy, value and second criterion of both solvers, the
    bound and nodes of `exact`, and ``differs``.
    """
    problem = MARKETS[generator](seed)
    oracle, answer = (solve(problem, solver, PROOF) for solver in ("exhaustive", "exact"))
    same = answer.status == oracle.status and close(answer.value, oracle.value)
    if generator == "random":  # ties of the other generators may outlast the second search
        same = same and close(second_criterion(answer), second_criterion(oracle))
    placement = answer.placement
    return {
        "generator": generator,
        "seed": seed,
        "objective": problem.requirements.objective,
        "status": str(answer.status),
        "oracle_status": str(oracle.status),
        "strategy": None if placement is None else placement.exchange.strategy,
        "value": answer.value,
        "oracle_value": oracle.value,
        "bound": answer.bound,
        "nodes": answer.nodes,
        "combinations": oracle.candidates,
        "differs": not same,
    }


def close(one: float | None, other: float | None) -> bool:
    """Return whether two values are equal up to rounding; None equals None alone."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= max(RELATIVE * abs(other), 1e-12)


def second_criterion(result: Result) -> float | None:
    """Return USD/h behind throughput, samples/s behind cost; None without a placement or a tie
    rule.
    """
    objective, estimate = result.problem.requirements.objective, result.estimate
    if estimate is None or objective == "cost-per-sample":
        return None
    if objective == "throughput":
        return estimate.usd_per_hour.total
    return estimate.samples_per_second.value


def records(generators: list[str], seeds: range) -> Iterator[dict[str, Any]]:
    """Yield one record for each generator and seed, with a line of progress on a terminal."""
    for generator in generators:
        for seed in seeds:
            if sys.stderr.isatty():
                print(f"\r{generator} {seed}  ", end="", file=sys.stderr)
            yield compared(generator, seed)


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """List the counts of outcomes, then every instance that differs."""
    lines = [f"{len(rows)} instances, {sum(row['differs'] for row in rows)} differences"]
    for key in ("generator", "objective", "status", "strategy"):
        counts = Counter(str(row[key]) for row in rows)
        lines.append(f"{key}: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    combinations, nodes = (sum(row[key] for row in rows) for key in ("combinations", "nodes"))
    lines.append(f"{combinations:,} placements enumerated, {nodes:,} nodes searched")
    lines += [f"DIFFERS {json.dumps(row)}" for row in rows if row["differs"]]
    return lines


def main() -> None:
    """Compare the solvers, print the summary, and write the records if a file is named."""
    words = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--generators", default=",".join(MARKETS), help=f"of {', '.join(MARKETS)}")
    words.add_argument("--seeds", default="810000:810125", help="FIRST:END, for each generator")
    words.add_argument("-o", "--output", type=Path, help="file of JSON lines, one an instance")
    given = words.parse_args()
    chosen = given.generators.split(",")
    unknown = [name for name in chosen if name not in MARKETS]
    if unknown:
        words.error(f"unknown generator '{unknown[0]}': choose from {', '.join(MARKETS)}")
    first, end = map(int, given.seeds.split(":"))
    rows = list(records(chosen, range(first, end)))
    print("\n".join(summary(rows)))
    if given.output:
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    if any(row["differs"] for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

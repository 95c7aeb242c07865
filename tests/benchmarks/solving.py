"""Measure how long `exact` takes to prove its answers, by size of the market and budget.

    python tests/benchmarks/solving.py [--quick]
    python tests/benchmarks/solving.py --sizes book    the default book of one day, with islands

Each size runs in a child process of its own, one question after the other, so that its peak memory
is known. A question is timed from a market that nobody has looked at: links and egress prices of
its regions are worked out within the time. Drawing the market is not. Limits count CPU seconds too,
but for solvers that work in other processes, so that a busy machine stops no search sooner.
"""

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ledger import FOLDER, Ledger, Record, markdown, peak_mib, percentile, problem_digest, read
from markets import BOOK_BUDGETS, BOOK_QUOTAS, BUDGETS, SIZES, Question, book_questions

from placer.interface.advisor import Advisor
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import NO_EXCHANGE
from placer.solving.answer import SolveOptions
from placer.solving.result import Result
from placer.solving.solve import solve

WHOLE = "book"
"""Instead of a size: the copy of the default book, each model with and without a quota."""
PROGRAMS = ("milp", "cpsat")
"""Solvers that work in other processes: their limits are by the clock."""
NEAR = 0.03
"""A first answer within this of the last one is one to start with."""


def limit_cpu_seconds() -> None:
    """Let all limits of this process count its CPU seconds, those of parts of a search included."""
    time.monotonic = time.process_time


def searched_classes(exact: Any) -> list[Any]:
    """List the classes of the searches of all strategies, in a ring and not, each once."""
    mode = importlib.import_module("placer.solvers._mode").Mode
    asked = Advisor("default").problem
    problems = [asked("resnet50", transport=software) for software in ("nccl", "hivemind")]
    names = [name for name in STRATEGIES if name != NO_EXCHANGE]
    modes = [mode(problem, name, 1) for problem in problems for name in names]
    return list(dict.fromkeys(map(exact.search_of, modes)))


@contextmanager
def watched(wanted: bool) -> Iterator[dict[str, dict[str, float]]]:
    """While this lasts, sum what the searches of `exact` take, by strategy, local steps and
    objective.

    It wraps ``turns`` of each class of ``exact.search_of``; what lies outside of them (single
    machines, set-up, the bound of a stopped search) is not in the sums. The cost is two readings of
    a clock for each search.
    """
    exact = importlib.import_module("placer.solvers.exact.branch_and_bound")

    spent: dict[str, dict[str, float]] = {}
    kinds = searched_classes(exact) if wanted else []
    plain = {kind: kind.turns for kind in kinds}
    for kind in kinds:
        kind.turns = _timed(plain[kind], spent)
    try:
        yield spent
    finally:
        for kind, turns in plain.items():
            kind.turns = turns


def _timed(
    turns: Callable[[Any], Iterator[None]], spent: dict[str, dict[str, float]]
) -> Callable[[Any], Iterator[None]]:
    def timed(search: Any) -> Iterator[None]:
        under_way, going = turns(search), True
        while going:
            started, nodes, target = time.process_time(), search.target.ticks, search.target
            going = False
            try:
                for _ in under_way:
                    going = True
                    break
            finally:
                own = target.tied is None
                mode = search.mode
                steps = f" H {mode.local_steps}" if mode.local_steps > 1 else ""
                name = f"{mode.strategy}{steps}{'' if own else ' (tie)'}"
                part = spent.setdefault(name, {"cpu_s": 0.0, "nodes": 0})
                part["cpu_s"] += time.process_time() - started
                part["nodes"] += target.ticks - nodes
            if going:
                yield

    return timed


def measured(
    question: Question, options: SolveOptions, *, solver: str = "exact", by_strategy: bool = False
) -> Record:
    """Solve one question and say all that is known of it."""
    import msgspec

    problem = question.problem()
    digest = problem_digest(problem)
    problem = question.problem()  # one that nobody has looked at
    better: list[tuple[float, float, float]] = []
    with watched(by_strategy) as spent:
        wall, cpu = time.perf_counter(), time.process_time()
        heard = SolveOptions(
            gap=options.gap,
            time_limit_s=options.time_limit_s,
            on_better=lambda value: better.append(
                (time.process_time() - cpu, time.perf_counter() - wall, value)
            ),
        )
        result = solve(problem, solver, heard)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    placement = result.placement
    return {
        "kind": "question",
        **asdict(question),
        "digest": digest,
        "solver": solver,
        "model": problem.profile.name,
        "batch": problem.batch,
        "pools": len(problem.pools),
        "cpu_s": round(cpu, 4),
        "wall_s": round(wall, 4),
        "status": str(result.status),
        "value": result.value,
        "bound": result.bound,
        "gap": result.gap,
        "candidates": result.candidates,
        "strategy": None if placement is None else placement.exchange.strategy,
        "placement": None if placement is None else msgspec.to_builtins(placement),
        **answers(better, result),
        **({"by_strategy": spent} if by_strategy else {}),
    }


def answers(better: Sequence[tuple[float, float, float]], result: Result) -> Record:
    """CPU and wall seconds and value of the first answer, and of the first one within `NEAR` of the
    last.
    """
    if not better or result.value is None:
        return {"first": None, "near": None}
    last = result.value
    near = next((found for found in better if abs(found[2] - last) <= NEAR * abs(last)), better[-1])
    return {
        name: {"cpu_s": round(found[0], 4), "wall_s": round(found[1], 4), "value": found[2]}
        for name, found in (("first", better[0]), ("near", near))
    }


def measure_size(size: str, given: argparse.Namespace) -> Iterator[Record]:
    """Solve all questions of a size in a child process; its last line is the peak of its memory."""
    words = [
        sys.executable,
        __file__,
        "--child",
        size,
        "--seeds",
        given.seeds,
        *(["--budgets", given.budgets] if given.budgets else []),
        "--gap",
        str(given.gap),
        "--solver",
        given.solver,
        "--time-limit",
        str(given.time_limit),
        *(["--local-steps", str(given.local_steps)] if given.local_steps else []),
    ]
    words += [
        flag
        for flag, wanted in (("--huge", given.huge), ("--by-strategy", given.by_strategy))
        if wanted
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            yield json.loads(line)
    if child.returncode:
        raise SystemExit(f"error: the child for size {size} ended with code {child.returncode}")


def child(size: str, given: argparse.Namespace) -> None:
    """Body of the child: one line for each question, then its memory."""
    if given.solver not in PROGRAMS:
        limit_cpu_seconds()
    options = SolveOptions(gap=given.gap, time_limit_s=given.time_limit)
    solve(
        Question(regions=4, types=4, budget=5.0, seed=0).problem()
    )  # modules are loaded outside the first time
    for question in questions(size, given):
        record = measured(question, options, solver=given.solver, by_strategy=given.by_strategy)
        print(json.dumps(record), flush=True)
    print(
        json.dumps({"kind": "memory", "size": size, "peak_mib": round(peak_mib(), 1)}), flush=True
    )


def questions(size: str, given: argparse.Namespace) -> list[Question]:
    """List the questions of a size, or those to the copy of the default book."""
    budgets = [float(budget) for budget in given.budgets.split(",")] if given.budgets else None
    if size == WHOLE:
        return book_questions(budgets or BOOK_BUDGETS, BOOK_QUOTAS, given.local_steps)
    regions, types = SIZES[size]
    return [
        Question(
            regions=regions,
            types=types,
            budget=budget,
            seed=seed,
            local_steps=given.local_steps,
            huge=given.huge,
        )
        for budget in budgets or BUDGETS
        for seed in seeds(given.seeds)
    ]


def market_words(record: Record) -> str:
    """Say which market a question is about."""
    if record.get("book_model") is None:
        return f"{record['regions']} x {record['types']}"
    quota = record["quota"]
    return f"default book, {'no quota' if quota is None else f'quota {quota}'}"


def seeds(words: str) -> range:
    """Seeds of ``first:end``."""
    first, end = map(int, words.split(":"))
    return range(first, end)


def table(records: Sequence[Record]) -> list[str]:
    """Summarise questions by size and budget."""
    asked = [record for record in records if record["kind"] == "question"]
    peaks = {
        SIZES.get(record["size"], (0, 0)): record["peak_mib"]
        for record in records
        if record["kind"] == "memory"
    }
    rows = []
    for key in dict.fromkeys((market_words(r), r["budget"]) for r in asked):
        own = [r for r in asked if (market_words(r), r["budget"]) == key]
        gaps = [float("inf") if r["gap"] is None else r["gap"] for r in own if r["value"]]
        proved = sum(r["status"] in ("optimal", "infeasible") for r in own)
        rows.append([
            f"{key[0]}, {key[1]:g} USD/h",
            f"{proved}/{len(own)}",
            *(sum(gap <= most for gap in gaps) for most in (0.01, 0.02, 0.05, 0.15)),
            *(percentile([r["cpu_s"] for r in own], share) for share in (0.5, 0.95, 1.0)),
            percentile([r["wall_s"] for r in own], 0.95),
            100 * percentile(gaps, 0.95),
            *(
                percentile([r[name]["cpu_s"] for r in own if r[name]], 0.95)
                for name in ("first", "near")
            ),
            peaks.get((own[0]["regions"], own[0]["types"])),
        ])  # fmt: skip
    heads = (
        "regions x types|proved|gap at most 1 %|2 %|5 %|15 %|CPU s p50|p95|max|wall s p95|gap % "
        "p95|first answer CPU s "
        "p95|within 3 % CPU s p95|peak MiB of the size"
    )
    return markdown(heads.split("|"), rows)


def slow_table(records: Sequence[Record], most: int = 10) -> list[str]:
    """List the slowest questions, and the searches that took their time if these were watched."""
    asked = sorted((r for r in records if r["kind"] == "question"), key=lambda r: -r["cpu_s"])[
        :most
    ]
    rows = []
    for r in asked:
        spent = sorted(r.get("by_strategy", {}).items(), key=lambda item: -item[1]["cpu_s"])[:3]
        words = "; ".join(
            f"{name} {part['cpu_s']:.1f} s, {part['nodes']} nodes" for name, part in spent
        )
        what = f"{market_words(r)}, {r['budget']:g} USD/h, seed {r['seed']}"
        gap = None if r["gap"] is None else 100 * r["gap"]
        rows.append(
            [what, r["model"], r["batch"], r["cpu_s"], r["status"], gap, r["strategy"], words]
        )
    return markdown(
        ["question", "model", "batch", "CPU s", "status", "gap %", "answer", "where the time went"],
        rows,
    )


def words() -> argparse.ArgumentParser:
    """Build the command's words."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "--sizes",
        default=",".join(SIZES),
        help="of " + ", ".join(f"{n} {r}x{t}" for n, (r, t) in SIZES.items()) + f"; or {WHOLE}",
    )
    found.add_argument(
        "--budgets",
        help=f"USD/h (default {','.join(f'{budget:g}' for budget in BUDGETS)}; the book "
        f"{','.join(f'{budget:g}' for budget in BOOK_BUDGETS)})",
    )
    found.add_argument("--seeds", help="FIRST:END (default 0:20)")
    found.add_argument(
        "--local-steps",
        type=int,
        help="allow up to so many local steps: all strategies are open then",
    )
    found.add_argument(
        "--huge",
        action="store_true",
        help="batches that go beyond what is trained: many small regions pay",
    )
    found.add_argument("--solver", default="exact", help="any solver by name")
    found.add_argument("--gap", type=float, default=0.001)
    found.add_argument("--time-limit", type=float, help="seconds of CPU (default 60)")
    found.add_argument(
        "--quick",
        action="store_true",
        help="3 seeds and 2 seconds unless others are given: a check within a minute or two",
    )
    found.add_argument(
        "--by-strategy", action="store_true", help="also say which search took the time"
    )
    found.add_argument("--freeze", action="store_true", help="add what was proved to frozen.csv")
    found.add_argument(
        "--check",
        action="store_true",
        help="compare with frozen.csv; exit code 1 if an answer contradicts it",
    )
    found.add_argument(
        "-o",
        "--output",
        type=Path,
        help="file of JSON lines (default build/bench/solving[-book][-local][-huge].jsonl)",
    )
    found.add_argument("--child", help=argparse.SUPPRESS)
    return found


def main() -> None:
    """Run the sizes, write each measurement as it comes, print the table."""
    given = words().parse_args()
    given.seeds = given.seeds or ("0:3" if given.quick else "0:20")
    given.time_limit = given.time_limit or (2.0 if given.quick else 60.0)
    if given.child:
        child(given.child, given)
        return
    path = (
        given.output
        or FOLDER
        / f"solving{'-book' if given.sizes == WHOLE else ''}"
        f"{'-local' if given.local_steps else ''}{'-huge' if given.huge else ''}.jsonl"
    )
    ledger = Ledger(
        path,
        seeds=given.seeds,
        time_limit_s=given.time_limit,
        gap=given.gap,
        local_steps=given.local_steps,
        huge=given.huge or None,
    )
    for size in given.sizes.split(","):
        if size not in (*SIZES, WHOLE):
            raise SystemExit(
                f"error: unknown size '{size}'\n  tip: the sizes are {', '.join((*SIZES, WHOLE))}"
            )
        for record in measure_size(size, given):
            ledger.write(record)
            if record["kind"] == "question" and sys.stderr.isatty():
                print(
                    f"\r{size} {record['budget']:g} USD/h seed {record['seed']}  ",
                    end="",
                    file=sys.stderr,
                )
    ledger.close()
    records = read(path)[1]
    print("\n".join(table(records)))
    if given.by_strategy:
        print("\n" + "\n".join(slow_table(records)))
    from frozen import check, freeze

    if given.freeze:
        freeze(path)
    if given.check:
        check(path)


if __name__ == "__main__":
    main()

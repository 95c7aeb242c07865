"""Measure the CPU of fresh questions to the default book, one after the other in one process.

    python tests/benchmarks/fresh_questions.py --count 1000
    python tests/benchmarks/fresh_questions.py --count 200 --proof quick --alternatives

Without a full proof each question is asked once more with one, outside of the time, and the last
columns say by how much the answer is worse.
"""

import argparse
import random
import time
from typing import Any

from ledger import markdown, peak_mib, percentile

from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.solving.result import Result

MODELS = ("roberta-xlm", "resnet50", "resnet152", "whisper-small", "convnext-large")
"""Models whose workers have no plan."""
OFTEN: dict[str, tuple[float, tuple[Any, ...]]] = {
    "market": (0.4, ("spot", "on-demand")),
    "places": (0.4, ("aws/*", "gcp/*", "aws/*,gcp/*", "europe", "us")),
    "regions": (0.15, ("2..", "..1", "..3")),
    "local_steps": (0.15, ("1..16", "8")),
    "quota": (0.2, ("4", "8", "64")),
    "mixed": (0.1, (True,)),
}
"""Share of the questions that have a wish, and its values."""


def drawn(draw: random.Random) -> dict[str, Any]:
    """Draw the words of a question."""
    usd = 10 ** draw.uniform(0.3, 2.5)
    words: dict[str, Any] = {"model": draw.choice(MODELS)}
    if draw.random() < 0.7:
        words["budget"] = f"{usd:.2f}/h"
    else:
        words["min_throughput"] = f"{50 * usd:.0f}/s"
        words["objective"] = draw.choice(("cost", "cost-per-sample"))
    for word, (share, values) in OFTEN.items():
        if draw.random() < share:
            words[word] = draw.choice(values)
    return words


def asked(advisor: Advisor, words: dict[str, Any], **how: Any) -> tuple[float, Result | None]:
    """Ask a question; return CPU seconds and the result, None where nothing passes its filters."""
    began = time.process_time()
    try:
        result = advisor.recommend(**words, **how)
    except PlacerError:
        result = None
    return time.process_time() - began, result


def loss(quick: Result | None, proved: Result | None) -> float | None:
    """Return by how much an answer is worse than the proved one; None where that has none."""
    if proved is None or proved.value is None:
        return None
    if quick is None or quick.value is None:
        return 1.0
    return max(0.0, proved.objective.gain(proved.value, quick.value) / abs(proved.value))


def main() -> None:
    """Ask and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--count", type=int, default=200)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--proof", choices=("full", "quick", "none"), default="full")
    words.add_argument("--alternatives", action="store_true")
    given = words.parse_args()
    draw, advisor, proving = random.Random(given.seed), Advisor("default"), Advisor("default")
    how = {"proof": given.proof, "alternatives": given.alternatives}
    asked(advisor, {"model": MODELS[0], "budget": "5/h"}, **how)  # modules and book are loaded
    seconds, losses = [], []
    for _ in range(given.count):
        question = drawn(draw)
        took, result = asked(advisor, question, **how)
        seconds.append(took)
        if given.proof != "full":
            losses.append(loss(result, asked(proving, question, alternatives=False)[1]))
    known = [100 * each for each in losses if each is not None]
    shares = (0.5, 0.95, 1.0)
    row: list[object] = [len(seconds), *(percentile(seconds, s) for s in shares), peak_mib()]
    row += [percentile(known, s) for s in shares] if known else [None] * 3
    heads = "questions|CPU s p50|p95|most|peak MiB|worse by % p50|p95|most"
    print("\n".join(markdown(heads.split("|"), [row])))


if __name__ == "__main__":
    main()

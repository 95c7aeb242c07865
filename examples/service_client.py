"""Ask a running ``placer serve``: a question at once, then a long one as a job.

Run ``placer serve`` beside it, then ``python examples/service_client.py``. With a token, set
PLACER_TOKEN; for another address, give it as the argument.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import httpx2

QUESTION = {"model": "roberta-xlm", "budget": "5/h", "catalog": "erben-2023"}


def ask(client: httpx2.Client, verb: str, question: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a question; say what is wrong with it in one line."""
    answer = client.post(f"/v1/{verb}", json=question)
    if answer.is_error:
        problem = answer.json()
        sys.exit(f"{problem['detail']} ({problem.get('hint', '')})")
    document: dict[str, Any] = answer.json()
    return document


def follow(client: httpx2.Client, verb: str, question: dict[str, Any]) -> dict[str, Any]:
    """Have a job done, and print the best so far with its gap."""
    job = client.post("/v1/jobs", json={"verb": verb, "question": question}).json()
    with client.stream("GET", job["events"]) as events:
        for line in events.iter_lines():
            if line.startswith("data: ") and '"value"' in line:
                best = json.loads(line.removeprefix("data: "))
                gap = "unknown" if best["gap"] is None else f"{best['gap']:.1%}"
                print(f"  {best['value']:,.0f} {best['unit']}, gap {gap}")
    document: dict[str, Any] = client.get(job["answer"]).json()
    return document


def main(address: str) -> None:
    """Ask twice."""
    token = os.environ.get("PLACER_TOKEN")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=address, headers=headers, timeout=90) as client:
        for name, document in (
            ("at once", ask(client, "recommend", QUESTION)),
            ("as a job", follow(client, "recommend", {**QUESTION, "regions": "2.."})),
        ):
            workers = [
                f"{row['count']} x {row['gpu']} in {row['place']}"
                for row in document["placement"]["workers"]
            ]
            speed = document["estimate"]["samples_per_second"]["value"]
            price = document["estimate"]["usd_per_hour"]["total"]
            print(f"{name}: {', '.join(workers)}: {speed:,.0f} samples/s for ${price:.2f}/h")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8642")

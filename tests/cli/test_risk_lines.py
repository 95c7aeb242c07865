"""The risk of placements on the screen: one line each, and no fact twice."""

from __future__ import annotations

import json
import re

from conftest import Run

ERBEN = ("--model", "roberta-xlm", "--catalog", "erben-2023")
A10, T4 = "lambda/us-west-1=8xA10", "gcp/us-central1=8xT4:spot"


def test_a_comparison_says_the_risk_of_each_placement(run: Run) -> None:
    """One line a row; the document has the whole outlook."""
    done = run("estimate", *ERBEN, "--workers", A10, "--workers", T4)
    lines = done.stdout.splitlines()
    assert "row 1  none of it spot" in lines
    assert any(line.startswith("row 2  ") and "reclaimed" in line for line in lines)
    assert "all 8 launch" in " ".join(done.stdout.split())
    document = json.loads(
        run("estimate", *ERBEN, "--workers", A10, "--workers", T4, "--json").stdout
    )
    one, two = (row["outlook"]["spot"] for row in document["placements"])
    assert one is None
    assert [stock["market"] for stock in two["risk"]["stocks"]] == ["spot"]


def test_a_comparison_is_silent_where_nothing_is_spot(run: Run) -> None:
    """On-demand machines are assumed to be there."""
    words = ("--workers", A10, "--workers", "lambda/us-west-1=4xA10")
    assert "reclaimed" not in run("estimate", *ERBEN, *words).stdout


def test_no_fact_stands_twice(run: Run) -> None:
    """How often machines launch and how often they are reclaimed, once each."""
    words = ("--model", "llama-3.1-8b", "--workers", "gcp/us-central1=8xH100:8:spot")
    text = " ".join(run("estimate", *words, columns=200).stdout.split())
    assert len(re.findall(r"all 8 machines launch", text)) == 1
    assert len(re.findall(r"machines reclaimed", text)) == 1


def test_community_machines_are_not_called_spot(run: Run) -> None:
    """RunPod's community machines are a market of their own, in the document."""
    placement = "runpod/AP-IN-1=2xRTX4090:community"
    document = json.loads(
        run("estimate", "--model", "resnet50", "--workers", placement, "--json").stdout
    )
    stocks = document["outlook"]["spot"]["risk"]["stocks"]
    assert [stock["market"] for stock in stocks] == ["community"]

"""Workers that a user writes: their machines, their exchange, and why they cannot run."""

from itertools import pairwise
from typing import Any

import pytest

import placer
from placer.cost_model.estimate import evaluate
from placer.errors import PlacerError
from placer.solving.by_hand import every_exchange, place_by_hand

WEST, OREGON = "gcp/us-west1=2xT4:spot", "aws/us-west-2=2xT4:spot"
VIRGINIA, LAMBDA = "aws/us-east-1=2xT4:spot", "lambda/us-east-1=2xA10"


def placed(workers: str, **words: Any) -> placer.Placement:
    """Place workers by hand, on the book of 2023 unless another one is named."""
    words = {"catalog": "erben-2023", **words}
    return place_by_hand(workers, placer.Advisor().problem("roberta-xlm", **words))


@pytest.mark.parametrize(
    ("workers", "words", "spec", "exchange"),
    [
        ("gcp/us-west1=2xt4", {}, "gcp/us-west1=2xT4:spot", "all-reduce"),  # it is the cheaper one
        ("gcp/us-west1=1xT4:on-demand", {}, "gcp/us-west1=1xT4:on-demand", "none"),
        (WEST, {"local_steps": "1..8"}, WEST, "all-reduce"),
        (WEST, {"local_steps": 8}, WEST, "local-sgd"),
        (WEST, {"exchange": "parameter-server"}, WEST, "parameter-server"),
    ],
)
def test_what_is_left_open_is_chosen(
    workers: str, words: dict[str, Any], spec: str, exchange: str
) -> None:
    """The cheapest market, and an all-reduce unless something else is asked for."""
    found = placed(workers, **words)
    assert ([g.spec for g in found.groups], found.exchange.strategy) == ([spec], exchange)


@pytest.mark.parametrize(
    ("workers", "words", "message", "hint"),
    [
        (
            WEST,
            {"exchange": "hierarchical-all-reduce"},
            "the exchange hierarchical-all-reduce needs workers in 2 regions",
            "use --exchange all-reduce here",
        ),
        (
            f"{VIRGINIA},{LAMBDA}",
            {"exchange": "hierarchical", "catalog": "default"},
            "lambda/us-east-1 has no function and store",
            "each region of a hierarchical exchange needs both",
        ),
        (
            f"{VIRGINIA},{OREGON}",
            {"exchange": "model-averaging", "aggregator": "gcp/us-west1", "catalog": "default"},
            "no worker is in gcp/us-west1",
            "the hub is one of the regions with workers",
        ),
        (
            "gcp/us-west1=2xA10:spot",
            {},
            "catalog 'erben-2023' has no A10 spot in gcp/us-west1",
            "it has T4:on-demand, T4:spot",
        ),
        (
            "lambda/us-west-1=2xT4",
            {},
            "catalog 'erben-2023' has no T4 in lambda/us-west-1",
            "it has A10:on-demand",
        ),
        (
            WEST,
            {"tbs": "1024..4096"},
            "tbs 1,024..4,096 is a range; a placement by hand needs one batch",
            "give --tbs N, or use placer recommend",
        ),
        (
            "aws/us-east-2=2x8xH200:8~8xH100:8",
            {"catalog": "default"},
            "2 workers, of which one has machines behind a ~",
            "give one: its parts hold as many replicas as their GPUs make",
        ),
        (
            "gcp/us-west1=1x(2xT4):spot",
            {},
            "2 x T4 in gcp/us-west1: roberta-xlm has no architecture from which a plan would "
            "follow",
            "choose other machines, or another plan",
        ),
    ],
)
def test_workers_that_cannot_run_are_refused(
    workers: str, words: dict[str, Any], message: str, hint: str
) -> None:
    """With what would do."""
    with pytest.raises(PlacerError) as refused:
        placed(workers, **words)
    assert (refused.value.message, refused.value.hint) == (message, hint)


ANYWHERE = "all-reduce local-sgd diloco streaming-diloco parameter-server central"
APART = f"{ANYWHERE} asgd-ga model-averaging hierarchical-all-reduce"
"""Exchanges of workers in one region, and of some in two."""


@pytest.mark.parametrize(
    ("workers", "words", "exchanges"),
    [
        (VIRGINIA, {}, ANYWHERE),
        (f"{VIRGINIA},{LAMBDA}", {}, APART),  # Lambda has no functions
        (f"{VIRGINIA},{OREGON}", {}, f"{APART} hierarchical"),
        (
            f"{VIRGINIA},{OREGON}",
            {"overlap": True},
            "all-reduce local-sgd streaming-diloco hierarchical-all-reduce",
        ),
        (
            f"{VIRGINIA},{OREGON}",
            {"exchange": "central", "aggregator": "aws/us-east-1"},
            "central hierarchical parameter-server model-averaging",
        ),
    ],
)
def test_every_exchange_that_the_workers_can_have_is_compared(
    workers: str, words: dict[str, Any], exchanges: str
) -> None:
    """Each once, as its question asks for it, the fastest first; none without a region, a function
    or a hub that it needs.
    """
    problem = placer.Advisor().problem("roberta-xlm", **words)
    found = every_exchange(workers, problem)
    names = [placement.exchange.strategy for placement, _ in found]
    assert names == [asked.requirements.exchange for _, asked in found]
    assert sorted(names) == sorted(exchanges.split())
    speeds = [evaluate(placement, problem).samples_per_second for placement, _ in found]
    assert all(fast >= slow for fast, slow in pairwise(speeds))
    assert all(len(placement.places) == workers.count("=") for placement, _ in found)

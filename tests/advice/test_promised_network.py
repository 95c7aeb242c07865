"""A placement whose machines are promised less network than its exchange needs says so."""

from __future__ import annotations

import msgspec
import pytest

from placer.advice.recommendation.promised_network import network_warnings
from placer.cost_model.estimate import estimate
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.records import replace
from placer.solving.by_hand import place_by_hand


def promised(erben: Catalog, gbps: float | None) -> Catalog:
    """The April 2023 book with one promise for all machines."""
    return replace(
        erben,
        offers=tuple(msgspec.structs.replace(offer, network_gbps=gbps) for offer in erben.offers),
    )


@pytest.mark.parametrize(("gbps", "seconds"), [(None, None), (10.0, None), (0.5, "31.4 s")])
def test_a_slow_promise_is_named_with_the_seconds_it_needs(
    erben: Catalog, gbps: float | None, seconds: str | None
) -> None:
    """Eight peers move 2 x 7 / 8 x 1.12 GB = 1.96 GB each; 0.5 Gb/s take 31.4 s for it, the model
    18.4 s; 10 Gb/s take 1.6 s.
    """
    problem = Advisor(promised(erben, gbps)).problem("roberta-xlm")
    placement = place_by_hand("gcp/us-central1=8xT4:spot", problem)
    found = [
        warning.message
        for warning in network_warnings(problem, placement, estimate(placement, problem))
    ]
    assert bool(found) == (seconds is not None)
    assert all(str(seconds) in message for message in found)


def test_a_parameter_server_moves_the_gradients_of_all(erben: Catalog) -> None:
    """Eight pushes and eight pulls of 1.12 GB at 2 Gb/s: 71.7 s; each worker alone needs 9 s."""
    problem = Advisor(promised(erben, 2.0)).problem("roberta-xlm", exchange="parameter-server")
    placement = place_by_hand("gcp/us-central1=8xT4:spot", problem)
    (warning,) = network_warnings(problem, placement, estimate(placement, problem))
    assert "72 s" in warning.message or "71.7 s" in warning.message

"""What to expect beyond the rate: spot machines, a month of egress, and the notes about a
placement's shape.
"""

from typing import Any

import msgspec
import pytest

from placer.advice.recommendation.notes import notes_of
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.outlook.losses import ASSUMED_INTERRUPTION, of_island
from placer.cost_model.outlook.outlook import spot_outlook
from placer.interface.advisor import Advisor
from placer.problem.exchange import STRATEGIES
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import every_exchange, place_by_hand


def placed(
    workers: str, model: str = "roberta-xlm", catalog: str = "erben-2023", **words: Any
) -> tuple[Placement, Estimate, Problem]:
    """Place and estimate by hand."""
    problem = Advisor(catalog).problem(model, **words)
    placement = place_by_hand(workers, problem)
    return placement, estimate(placement, problem), problem


def test_interruptions_slow_a_run_and_the_floor_is_what_remains() -> None:
    """4 x T4 on demand remain of 8; a machine that is taken away half of the months costs more than
    one in twenty.
    """
    workers = "gcp/us-central1=4xT4:spot,gcp/us-west1=4xT4:on-demand"
    often, seldom = (spot_outlook(*placed(workers, interruption=share)) for share in ("50%", "5%"))
    assert often is not None
    assert seldom is not None
    speed = placed(workers)[1].samples_per_second.value
    assert (
        often.expected_samples_per_second.value < seldom.expected_samples_per_second.value < speed
    )
    four = placed("gcp/us-west1=4xT4:on-demand")[1].samples_per_second.value
    assert often.floor_samples_per_second == pytest.approx(four)


@pytest.mark.parametrize(
    ("low", "high", "basis", "chance"),
    [(0.05, 0.15, "published", 0.1), (0.2, 1.0, "published", 0.35), (None, None, "assumed", 0.2)],
)
def test_the_band_of_the_book_is_used(
    low: float | None, high: float | None, basis: str, chance: float
) -> None:
    """The middle of the provider's band, an open one ending at 50 %; without a band 20 % is
    assumed; --interruption wins.
    """
    placement, got, problem = placed("gcp/us-central1=4xT4:spot")
    offers = tuple(
        msgspec.structs.replace(offer, interruption_low=low, interruption_high=high)
        for offer in problem.catalog.offers
    )
    banded = replace(problem, catalog=replace(problem.catalog, offers=offers))
    found = spot_outlook(placement, got, banded)
    assert found is not None
    assert found.chance_basis == basis
    assert found.chance_per_month == pytest.approx(chance)
    said = spot_outlook(
        placement,
        got,
        replace(banded, requirements=replace(banded.requirements, interruption=0.01)),
    )
    assert said is not None
    assert (said.chance_basis, said.chance_per_month) == ("given", 0.01)


def test_a_large_island_has_a_rate_where_its_chance_rounds_to_one() -> None:
    """Of 64 machines, half of which may go in a month, one goes for certain: 1 - 0.5 ** 64 is 1 in
    64-bit numbers. The rates are 64 times those of one machine, -ln 0.8 and -ln 0.5 a month.
    """
    stopped = of_island(ASSUMED_INTERRUPTION, 64).per_month
    assert (stopped.value, stopped.high) == pytest.approx((64 * 0.2231436, 64 * 0.6931472))
    found = spot_outlook(
        *placed("azure/eastus=1x64xH100:8:spot", "llama-3.1-70b", "default", interruption="50%")
    )
    assert found is not None
    assert found.risk is not None
    assert found.chance_per_month == 1.0
    assert found.risk.losses_per_hour == pytest.approx(64 * 0.6931472 / 730)
    assert 0 < found.share.value < 1


def test_capacity_of_two_regions_is_correlated() -> None:
    """Each zone without capacity 20 % of the time: both at once 0.04 + 0.14 x 0.16 = 6.24 %, not 4
    %.
    """
    found = spot_outlook(
        *placed("gcp/us-central1=4xT4:spot,gcp/us-west1=4xT4:spot", unavailable="20%")
    )
    assert found is not None
    assert found.all_lost == pytest.approx(0.0624)
    assert found.any_lost == pytest.approx(0.3376)


def test_notes_have_codes() -> None:
    """Growth, continents and memory of 4 + 4 T4 over two continents with a model that nearly fills
    them.
    """
    placement, got, problem = placed("gcp/us-central1=4xT4:spot,gcp/europe-west1=4xT4:spot")
    notes = {note.code: note.message for note in notes_of(problem, placement, got)}
    assert set(notes) == {"doubling", "continents", "memory"}
    assert "2 continents" in notes["continents"]
    assert "of the 30 GiB of the host" in " ".join(
        note.message for note in notes_of(problem, placement, got)
    )


def test_every_exchange_that_can_run_is_compared() -> None:
    """Two AWS regions can run all of them; one region cannot run those that need two."""
    problem = Advisor("default").problem("resnet50")
    both = every_exchange("aws/us-east-1=2xT4:spot,aws/us-west-2=2xT4:spot", problem)
    assert {placement.exchange.strategy for placement, _ in both} == {*STRATEGIES} - {"none"}
    one = every_exchange("aws/us-east-1=4xT4:spot", problem)
    assert {p.exchange.strategy for p, _ in one} == {
        "all-reduce",
        "central",
        "parameter-server",
        "local-sgd",
        "diloco",
        "streaming-diloco",
    }

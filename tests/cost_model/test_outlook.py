"""What to expect beyond the rate: spot machines, a month of egress, notes on a placement."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import wishing
from placer.advice.recommendation.notes import notes_of
from placer.cost_model.dollars import (
    Schedule,
    egress_usd,
    monthly_egress_usd,
    tiered_usd,
    without_allowance,
)
from placer.cost_model.estimate import Estimate, estimate
from placer.cost_model.outlook.losses import (
    ASSUMED_INTERRUPTION,
    chance_all_lost,
    chance_any_lost,
    of_island,
)
from placer.cost_model.outlook.outlook import month_outlook, spot_outlook
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog, EgressPrice
from placer.market.network.graph import Network
from placer.problem.exchange import Phase, Transfer
from placer.problem.placement import Placement
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand
from placer.units import GIB


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
        replace(offer, interruption_low=low, interruption_high=high)
        for offer in problem.catalog.offers
    )
    banded = replace(problem, catalog=replace(problem.catalog, offers=offers))
    found = spot_outlook(placement, got, banded)
    assert found is not None
    assert found.chance_basis == basis
    assert found.chance_per_month == pytest.approx(chance)
    said = spot_outlook(placement, got, wishing(banded, interruption=0.01))
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
    %. Spread over zones two machines of one region are in two of them, four in three.
    """
    workers = "gcp/us-central1=2xT4:spot,gcp/us-west1=4xT4:spot"
    for zones, places in (("one", [1, 1]), ("spread", [2, 3])):
        found = spot_outlook(*placed(workers, unavailable="20%", zones=zones))
        assert found is not None
        assert found.all_lost == chance_all_lost(places, 0.2)
        assert found.any_lost == chance_any_lost(places, 0.2)


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


AWS, TOKYO, GCP, AZURE = "aws/us-east-1", "aws/ap-northeast-1", "gcp/us-central1", "azure/eastus"


def schedule(*tiers: tuple[float, float]) -> Schedule:
    """Tiers of one price from (mark in GiB, USD per GiB)."""
    return tuple(
        EgressPrice(
            provider="x",
            src="*",
            dst="internet",
            above_gib_per_month=mark,
            usd_per_gib=usd,
            source="test",
            as_of="2026-01-01",
        )
        for mark, usd in tiers
    )


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """One to five tiers with any prices, free ones among them."""
    marks = sorted(draw(st.sets(st.floats(0.5, 1e5), max_size=4)))
    prices = draw(
        st.lists(
            st.one_of(st.just(0.0), st.floats(0.001, 0.3)),
            min_size=len(marks) + 1,
            max_size=len(marks) + 1,
        )
    )
    return schedule(*zip([0.0, *marks], prices, strict=True))


amounts = st.floats(0.0, 1e6)


@given(schedules(), amounts, amounts)
def test_more_bytes_never_cost_less(tiers: Schedule, a: float, b: float) -> None:
    """Exactly, not only to rounding: each band grows with what is sent."""
    assert tiered_usd(min(a, b), tiers) <= tiered_usd(max(a, b), tiers)


@given(schedules(), amounts, amounts)
def test_a_month_in_two_parts_costs_as_much_as_in_one(
    tiers: Schedule, first: float, second: float
) -> None:
    """The second part starts in the tier that the first one reached."""
    parts = tiered_usd(first, tiers) + tiered_usd(second, tiers, already_gib=first)
    assert parts == pytest.approx(tiered_usd(first + second, tiers), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(
    ("gib", "usd"),
    [
        (0, 0.0),
        (100, 0.0),  # the allowance
        (10_240, 912.60),  # + 10,140 x 0.09
        (51_200, 912.60 + 40_960 * 0.085),  # 4,394.20
        (153_600, 4_394.20 + 102_400 * 0.07),  # 11,562.20
        (163_600, 11_562.20 + 10_000 * 0.05),
    ],
)
def test_aws_list_price_at_its_marks(default: Catalog, gib: float, usd: float) -> None:
    """10,240 GB are 912.60 USD with the 100 free ones and 921.60 without: about 920, not 0."""
    tiers = Network(default).egress_tiers(AWS, GCP)
    assert tiered_usd(gib, tiers) == pytest.approx(usd, abs=1e-9)
    paid = min(gib, 100) * 0.09
    assert tiered_usd(gib, without_allowance(tiers)) == pytest.approx(usd + paid, abs=1e-9)


def test_solvers_count_with_the_first_paid_price(default: Catalog) -> None:
    """0.09 from AWS, not the allowance's 0: a step of 1 GiB costs 0.09 USD, however little is
    sent.
    """
    network = Network(default)
    assert network.egress_price(AWS, GCP).usd_per_gib == 0.09
    assert egress_usd([Phase("upload", (Transfer(AWS, GCP, GIB),))], network) == pytest.approx(0.09)


def test_links_of_one_account_and_schedule_share_the_tiers(default: Catalog) -> None:
    """Two links from Virginia and Ohio, 5,120 GiB each, are one month of 10,240: 912.60, not two of
    451.80.
    """
    network = Network(default)
    month = {(AWS, GCP): 5_120.0 * GIB, ("aws/us-east-2", AZURE): 5_120.0 * GIB}
    assert monthly_egress_usd(month, network) == pytest.approx(912.60)


def test_one_allowance_for_all_schedules_of_an_account(default: Catalog) -> None:
    """100 GiB from Virginia (0.09) use up the free ones; 100 more from Tokyo (0.114) cost 11.40,
    not 0.
    """
    network = Network(default)
    assert monthly_egress_usd({(AWS, GCP): 100.0 * GIB}, network) == 0.0
    assert monthly_egress_usd(
        {(AWS, GCP): 100.0 * GIB, (TOKYO, GCP): 100.0 * GIB}, network
    ) == pytest.approx(11.40)
    assert monthly_egress_usd(
        {(AWS, GCP): 40.0 * GIB, (TOKYO, GCP): 100.0 * GIB}, network
    ) == pytest.approx(40 * 0.114)


@given(st.lists(amounts, min_size=4, max_size=4), st.integers(0, 3), amounts)
def test_more_on_one_link_never_makes_the_month_cheaper(
    default: Catalog, sent: list[float], link: int, more: float
) -> None:
    """Whatever the other links send; and the month costs at most what the prices per hour say."""
    network = Network(default)
    pairs = [(AWS, GCP), (TOKYO, GCP), (GCP, AWS), (AZURE, AWS)]
    month = {pair: gib * GIB for pair, gib in zip(pairs, sent, strict=True)}
    usd = monthly_egress_usd(month, network)
    dearer = monthly_egress_usd({**month, pairs[link]: month[pairs[link]] + more * GIB}, network)
    assert dearer >= usd * (1 - 1e-12)
    assert usd <= sum(amount * network.usd_per_byte(*pair) for pair, amount in month.items()) * (
        1 + 1e-9
    )


def test_a_month_of_rounds_is_billed_in_tiers(default: Catalog) -> None:
    """730 h of rounds of 50 s send 1.68 GB each way, 82,187 GiB in all: AWS bills 4,394.20 USD for
    51,200 of them and 0.07 for each beyond. What stays in a region is free.
    """
    placement, got, problem = placed(f"{AWS}=2xT4:spot,{GCP}=2xT4:spot", catalog="default")
    found, network = month_outlook(placement, got, problem), Network(default)
    (sent,) = {use.bytes_per_step * 730 * 3600 / got.step.total for use in got.links}
    assert sent / GIB == pytest.approx(82_187, abs=1)
    aws = monthly_egress_usd({(AWS, GCP): sent}, network)
    assert aws == pytest.approx(4_394.20 + (sent / GIB - 51_200) * 0.07)
    both = aws + monthly_egress_usd({(GCP, AWS): sent}, network)
    assert found.egress_usd_with_tiers == pytest.approx(both)
    assert found.egress_usd_at_rate == pytest.approx(730 * got.usd_per_hour.egress)

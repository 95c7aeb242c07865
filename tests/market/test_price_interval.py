"""How far a price may be off: intervals, figures that can be defended, spot prices far off."""

import csv
import math
from datetime import date
from pathlib import Path

import pytest

import placer
from conftest import Run
from instances import offer, two_places
from placer.interface.advisor import Advisor
from placer.market.books.defended_figures import Outlier, defended, outlier_of, usual_share
from placer.market.catalog import Catalog, Setting, VmOffer
from placer.market.network.graph import network_of
from placer.market.price_interval import ESTIMATE, EXACT, GUESS, MOVING, PAPER, price_interval
from placer.problem.words.changes import AT_BOOK_FIGURES, defended_book
from placer.records import replace

MOVES = Path(__file__).with_name("spot_price_moves.csv")
DAYS = 30


def moves() -> list[tuple[str, float]]:
    """Device family and change of log(price) of each pair of lists, scaled to 30 days."""
    found = []
    with MOVES.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            days = (date.fromisoformat(row["after"]) - date.fromisoformat(row["before"])).days
            change = math.log(float(row["usd_after"]) / float(row["usd_before"]))
            found.append((row["device"].split("-")[0], change * math.sqrt(DAYS / days)))
    return found


def shares(provider: str) -> list[float]:
    """Spot over on-demand of the rows of a provider in the default book that were read."""
    book = placer.load_catalog("default")
    on_demand = {
        (o.place, o.instance_type): o.usd_per_hour for o in book.offers if o.market == "on_demand"
    }
    return sorted(
        o.usd_per_hour / on_demand[o.place, o.instance_type]
        for o in book.offers
        if o.market == "spot"
        and o.provider == provider
        and "x on-demand" not in o.source
        and (o.place, o.instance_type) in on_demand
    )


def test_a_guess_of_0_40_x_on_demand_spans_what_either_provider_says() -> None:
    """10 and 90 % of AWS are 0.17 and 0.46, of Google Cloud 0.31 and 0.60. The interval of one
    holds only 60 % of the other, so it takes the ends of both: 0.17 / 0.40 = 0.43 to 0.60 / 0.40 =
    1.5 hold 88 and 95 %.
    """
    ends = []
    for provider, held in (("aws", 0.88), ("gcp", 0.95)):
        known = shares(provider)
        ends += [known[int(len(known) * 0.1)], known[int(len(known) * 0.9)]]
        inside = [0.4 * GUESS.low <= share <= 0.4 * GUESS.high + 1e-9 for share in known]
        assert sum(inside) / len(inside) == pytest.approx(held, abs=0.01)
    assert min(ends) / 0.4 == pytest.approx(GUESS.low, abs=0.01)
    assert max(ends) / 0.4 == pytest.approx(GUESS.high, abs=0.01)


def test_a_history_counts_as_far_again_either_way() -> None:
    """A price of 1.00 that was at 0.80 for the tenth of 30 days may fall to 0.80 and rise to 1.25:
    as far again. One that did not move is exact.
    """
    row = replace(offer("aws", "a", "T4", 1.0), usd_per_hour_low=0.8, usd_per_hour_high=1.0)
    got = price_interval(row)
    assert (got.low, got.value, got.high, got.basis) == (0.8, 1.0, 1.25, "history")
    still = replace(row, usd_per_hour_low=1.0)
    assert price_interval(still).exact


@pytest.mark.parametrize(
    ("market", "basis", "source", "expected"),
    [
        ("on_demand", "list", "", EXACT),
        ("on_demand", "negotiated", "", EXACT),
        ("on_demand", "published", "", PAPER),
        ("on_demand", "estimated", "", ESTIMATE),
        ("spot", "list", "", MOVING),
        ("spot", "published", "", MOVING),
        ("spot", "negotiated", "", EXACT),
        ("spot", "estimated", "estimate: 0.40 x on-demand", GUESS),
        ("spot", "estimated", "on-demand less the savings of the AWS Spot Advisor", ESTIMATE),
        ("spot", "owned", "", EXACT),
    ],
)
def test_each_price_without_a_history_has_a_class(
    market: str, basis: str, source: str, expected: object
) -> None:
    """What is listed on demand, agreed or owned is exact; what moves or is not read is not."""
    row = replace(offer("aws", "a", "T4", 2.0, market=market), price_basis=basis, source=source)
    got = price_interval(row)
    assert (got.low, got.high) == (2 * expected.low, 2 * expected.high)  # type: ignore[attr-defined]
    assert (got.basis, got.source) == (expected.basis, expected.source)  # type: ignore[attr-defined]


def test_a_price_of_nothing_stays_one() -> None:
    """A machine that is paid for anyway costs 0 at both ends, and its factors are 1."""
    free = replace(offer("aws", "a", "T4", 0.0), price_basis="owned")
    assert price_interval(free).exact
    assert price_interval(free).factors == (1.0, 1.0)


NEWEST = "2026-03-17"
OLD = "2026-01-01"  # 75 days before: such a price counts half


def dated(
    provider: str, usd: float, as_of: str, market: str = "spot", **changed: object
) -> VmOffer:
    """One T4 in region r."""
    made = offer(provider, "r", "T4", usd, market=market)
    return replace(made, as_of=as_of, **changed)


def book(*offers: VmOffer) -> Catalog:
    """A book of some offers."""
    return replace(two_places().catalog, offers=offers)


def test_an_old_price_counts_half_and_what_is_usual_the_rest() -> None:
    """A spot price of 1.00 of 75 days ago beside 4.00 on demand has the share 1/4 and the weight
    1/2. It is the only one of its device, so that usual is half of ln(1/4) and half of ln(1/2), a
    share of 0.35355. Planned are 4 x sqrt(0.25 x 0.35355) = 1.1892.
    """
    plain = book(dated("aws", 1.0, OLD), dated("aws", 4.0, NEWEST, "on_demand"))
    spot, on_demand = defended(plain).offers
    assert spot.usd_per_hour == pytest.approx(4 * math.sqrt(0.25 * 0.25**0.5 * 0.5**0.5))
    assert spot.usd_per_hour == pytest.approx(1.1892, abs=1e-4)
    assert spot.price_basis == "estimated"
    assert "50% of a price of 1 USD/h" in spot.source
    assert on_demand.usd_per_hour == 4.0


@pytest.mark.parametrize(
    ("usd", "as_of", "source", "planned"),
    [
        (1.0, NEWEST, "a list", 1.0),  # new: it says all
        (3.0, OLD, "a list", 3.0),  # above what is usual: no price becomes lower
        (1.6, NEWEST, "estimate: 0.40 x on-demand", 2.0),  # a guess says nothing: half of 4.00
    ],
)
def test_new_prices_high_ones_and_guesses(
    usd: float, as_of: str, source: str, planned: float
) -> None:
    """What is left as it is, and what a guess becomes."""
    spot = dated("aws", usd, as_of, source=source)
    changed = defended(book(spot, dated("aws", 4.0, NEWEST, "on_demand"))).offers[0]
    assert changed.usd_per_hour == pytest.approx(planned)


def test_prices_by_contract_stay() -> None:
    """A negotiated spot price, and one without a machine on demand beside it."""
    spot = dated("aws", 1.0, OLD, price_basis="negotiated")
    alone = dated("gcp", 1.0, OLD)
    plain = book(spot, dated("aws", 4.0, NEWEST, "on_demand"), alone)
    prices = [each.usd_per_hour for each in defended(plain).offers]
    assert prices == [1.0, 4.0, 1.0]


def test_networks_are_documented_or_assumed_with_caution() -> None:
    """RunPod states 100 Mb/s between pods; others are taken to have 1 Gb/s. A network that the book
    names stays, and so do own machines.
    """
    rows = (
        dated("runpod", 1.0, NEWEST, "on_demand"),
        dated("lambda", 1.0, NEWEST, "on_demand"),
        dated("aws", 1.0, NEWEST, "on_demand", network_gbps=50.0),
        dated("onprem", 0.1, NEWEST, "on_demand", price_basis="owned"),
    )
    nccl = Setting(setting="transport", value="nccl", source="test", as_of=NEWEST)
    plain = replace(book(*rows), settings=(nccl,))
    assert [o.network_gbps for o in defended(plain).offers] == [0.1, 1.0, 50.0, None]
    assert defended(book(*rows)) == book(*rows)  # hivemind's classes of hosts were measured


def test_links_follow_from_the_networks_of_defended_machines() -> None:
    """Many streams between places of RunPod carry no more than the 100 Mb/s of a pod: 12.5 MB/s.
    Those of other providers are as in the book.
    """
    plain = Advisor("default").book()
    changed = defended_book(plain)
    pods, others = ["runpod/AP-IN-1", "runpod/US-MD-1"], ["aws/us-east-1", "gcp/us-central1"]
    (_, there), _ = network_of(changed).speeds(pods, 64)
    assert there <= 12.5e6
    assert (network_of(changed).speeds(others, 64) == network_of(plain).speeds(others, 64)).all()


def test_no_price_of_the_default_book_becomes_lower_and_on_demand_stays() -> None:
    """Old and estimated prices rise, those of RunPod of November stay as they are."""
    plain = Advisor("default").book()
    changed = defended_book(plain)
    assert changed is defended_book(plain)  # once for all questions
    assert changed.memo[AT_BOOK_FIGURES] is plain
    pairs = list(zip(plain.offers, changed.offers, strict=True))
    assert all(new.usd_per_hour >= old.usd_per_hour for old, new in pairs)
    assert all(new.usd_per_hour == old.usd_per_hour for old, new in pairs if not old.moves)
    risen = sum(new.usd_per_hour > old.usd_per_hour for old, new in pairs)
    assert 1_000 < risen < len(pairs) / 2
    fresh = [(o, n) for o, n in pairs if o.market == "community" and o.as_of == "2026-11-09"]
    assert len(fresh) > 100
    assert all(old.usd_per_hour == new.usd_per_hour for old, new in fresh)


@pytest.mark.parametrize(("model", "budget"), [("roberta-xlm", "5/h"), ("resnet152", "2/h")])
def test_a_saved_question_keeps_its_figures(
    run: Run, tmp_path: Path, model: str, budget: str
) -> None:
    """A question that was saved with defended figures says so, and is checked at these: with
    community machines, and with a proved best of older prices beside it.
    """
    saved = tmp_path / "answer.json"
    done = run("recommend", "--model", model, "--budget", budget, "-o", str(saved))
    assert done.returncode == 0, done.stderr
    assert "figures=defended" in saved.read_text()
    checked = run("validate", str(saved))
    assert checked.returncode == 0, checked.stdout


def spot_book(*spot: float) -> Catalog:
    """One T4 for 1.00 USD/h on demand in each region of aws, and its spot price there."""
    offers = [
        o
        for i, usd in enumerate(spot)
        for o in (
            offer("aws", f"r{i}", "T4", 1.0, market="on_demand"),
            offer("aws", f"r{i}", "T4", usd),
        )
    ]
    return replace(two_places().catalog, offers=tuple(offers))


def outliers(catalog: Catalog) -> list[tuple[VmOffer, Outlier]]:
    """The offers whose spot price is far off, in the order of the book."""
    found = ((offer, outlier_of(offer, catalog)) for offer in catalog.offers)
    return [(offer, outlier) for offer, outlier in found if outlier is not None]


def test_a_price_far_below_the_others_is_named_with_its_score() -> None:
    """Five regions ask 0.30 to 0.36 of on-demand, the sixth 0.10. The median of the logarithms is
    that of 0.315 (between 0.31 and 0.32), the median deviation is below 0.05, which stands for it:
    0.6745 x ln(0.10 / 0.315) / 0.0573 is about -13.5.
    """
    catalog = spot_book(0.30, 0.31, 0.32, 0.34, 0.36, 0.10)
    (found,) = outliers(catalog)
    assert found[0].region == "r5"
    usual = usual_share("aws", "T4", catalog)
    assert usual is not None
    assert usual.regions == 6
    assert usual.share == pytest.approx((0.31 * 0.32) ** 0.5)
    assert found[1].share == pytest.approx(0.10)
    assert found[1].score < -10


def test_equal_shares_do_not_make_a_small_difference_an_outlier() -> None:
    """With a deviation of 0, 0.35 beside 0.40 would be infinitely far; with the least of 0.05 it is
    0.6745 x ln(0.35 / 0.40) / 0.05 = -1.8, within 3.5. 0.20 is at -9.4, beyond.
    """
    assert not outliers(spot_book(0.4, 0.4, 0.4, 0.4, 0.4, 0.35))
    (found,) = outliers(spot_book(0.4, 0.4, 0.4, 0.4, 0.4, 0.2))
    assert found[1].score == pytest.approx(-9.35, abs=0.01)


def test_nobody_can_say_what_is_usual_in_four_regions() -> None:
    """Five regions are the least."""
    catalog = spot_book(0.3, 0.3, 0.3, 0.03)
    assert usual_share("aws", "T4", catalog) is None
    assert not outliers(catalog)
    assert outlier_of(catalog.offers[0], catalog) is None

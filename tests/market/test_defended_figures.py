"""Figures that can be defended: what a spot price still says, what is usual, and networks."""

import math
from pathlib import Path

import msgspec
import pytest

from conftest import Run
from instances import offer, two_places
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.books.defended_figures import defended
from placer.market.catalog import Catalog, Setting, VmOffer
from placer.market.network.graph import network_of
from placer.problem.words.changes import AT_BOOK_FIGURES, defended_book
from placer.records import replace

NEWEST = "2026-03-17"
OLD = "2026-01-01"
"""75 days before: such a price counts half."""


def dated(
    provider: str, usd: float, as_of: str, market: str = "spot", **changed: object
) -> VmOffer:
    """One T4 in region r."""
    made = offer(provider, "r", "T4", usd, market=market)
    return msgspec.structs.replace(made, as_of=as_of, **changed)


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


def test_other_words_for_figures_are_refused() -> None:
    """The message names both words."""
    with pytest.raises(PlacerError, match="figures 'bold'") as caught:
        Advisor().problem("roberta-xlm", budget="5/h", figures="bold")
    assert "defended or book" in caught.value.hint


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

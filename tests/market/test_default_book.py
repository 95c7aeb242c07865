"""The default book: what it covers, slips it must not have, and the prices that its columns tell
apart.
"""

from typing import Any

import pytest

from placer.cost_model.dollars import function_usd
from placer.cost_model.estimate import estimate
from placer.errors import PlacerError
from placer.interface.advisor import Advisor
from placer.market.catalog import Catalog
from placer.market.network.graph import Network
from placer.problem.problem import Problem
from placer.records import replace
from placer.solving.by_hand import place_by_hand

BANDS = {(0.0, 0.05), (0.05, 0.1), (0.1, 0.15), (0.15, 0.2), (0.2, 1.0)}


def test_carbon_has_a_year_and_a_source(default: Catalog) -> None:
    """Between 1 and 1,000 g/kWh where somebody publishes it, of 2022 or later; three quarters of
    the cloud regions have it.
    """
    clouds = [r for r in default.regions.values() if r.provider in ("aws", "azure", "gcp")]
    known = [r for r in default.regions.values() if r.grid_carbon_g_per_kwh is not None]
    assert all(
        1 < (r.grid_carbon_g_per_kwh or 0) < 1000
        and (r.carbon_year or 0) >= 2022
        and r.carbon_source
        for r in known
    )
    assert all(
        r.carbon_year is None and not r.carbon_source
        for r in default.regions.values()
        if r.grid_carbon_g_per_kwh is None
    )
    assert sum(r.grid_carbon_g_per_kwh is not None for r in clouds) >= 0.75 * len(clouds)


OWN = {"A5000", "A800", "GB300", "GH200", "H20", "MI325X", "MI355X", "RTX2080Ti"}


def test_every_device_has_a_price(default: Catalog) -> None:
    """No GPU of gpus.csv that nobody rents out but those of papers and of machines of one's own."""
    known = {gpu.gpu for gpu in default.gpus.values() if gpu.kind == "gpu"}
    assert known - {offer.gpu for offer in default.offers} == {"RTX8000", *OWN}


def test_attached_gpus_cost_host_and_accelerator(default: Catalog) -> None:
    """GCP's T4 in us-central1: n1-standard-4 0.19 + T4 0.35 = 0.54 USD/h; two T4 on n1-standard-8
    0.38 + 0.70.
    """
    prices = {
        o.instance_type: o.usd_per_hour
        for o in default.offers_at("gcp/us-central1")
        if o.market == "on_demand"
    }
    assert prices["n1-standard-4+1xT4"] == pytest.approx(0.54, abs=0.005)
    assert prices["n1-standard-8+2xT4"] == pytest.approx(1.08, abs=0.005)


def test_no_part_of_a_gpu_is_sold_as_a_whole(default: Catalog) -> None:
    """Azure's A10 sizes below 36 vCPUs have a third or less of one; AWS g6f a part of an L4."""
    names = {o.instance_type for o in default.offers}
    assert not [
        name
        for name in names
        if name.startswith(("Standard_NV6", "Standard_NV12", "Standard_NV18", "g6f", "gr6f"))
    ]
    assert "Standard_NV36ads_A10_v5" in names


def test_bands_of_the_spot_advisor(default: Catalog) -> None:
    """Only AWS publishes how often spot machines go: five bands, on spot offers alone, most of the
    GPU ones.
    """
    banded = [
        o
        for o in default.offers
        if o.interruption_low is not None or o.interruption_high is not None
    ]
    assert {(o.interruption_low, o.interruption_high) for o in banded} == BANDS
    assert {(o.provider, o.market) for o in banded} == {("aws", "spot")}
    spot = [o for o in default.offers if o.provider == "aws" and o.market == "spot"]
    assert len(banded) > 0.8 * len(spot)


def test_a_function_is_found_by_place_or_by_name(default: Catalog) -> None:
    """The place alone means the first of the book; an unknown name names the nearest one."""
    assert default.function("aws/us-east-1").function == "lambda"
    assert default.function("lambda-arm@aws/us-east-1").function == "lambda-arm"
    with pytest.raises(PlacerError, match="lambda-amr@aws/us-east-1") as caught:
        default.function("lambda-amr@aws/us-east-1")
    assert "lambda-arm@aws/us-east-1" in caught.value.hint


def test_the_named_function_is_priced_and_links_use_its_place() -> None:
    """The same placement and seconds; the function's part of the price is 0.8 as large but for the
    requests.
    """
    wish: dict[str, Any] = {"exchange": "central", "storage": "aws/us-east-1"}
    x86, arm = (
        Advisor("default").estimate("resnet50", "aws/us-east-1=4xT4:spot", aggregator=name, **wish)
        for name in ("aws/us-east-1", "lambda-arm@aws/us-east-1")
    )
    assert arm.step.total == x86.step.total
    assert arm.usd_per_hour.functions / x86.usd_per_hour.functions == pytest.approx(0.8, rel=0.01)


def test_a_named_function_lasts_in_saved_problems() -> None:
    """The name comes back from JSON; where a place lacks it, the first function of that place is
    meant.
    """
    problem = Advisor("default").problem(
        "resnet50", exchange="central", aggregator="lambda-arm@aws/us-east-1"
    )
    again = Problem.from_dict(problem.to_dict())
    assert again.requirements.aggregator_words == "lambda-arm@aws/us-east-1"
    assert [again.function(place).function for place in ("aws/us-east-1", "azure/eastus")] == [
        "lambda-arm",
        "functions",
    ]


def test_cpu_of_cloud_run_is_billed_apart(default: Catalog) -> None:
    """4 GiB for 1 s in us-central1: 4 x 2.5e-6 + 2 vCPUs x 2.4e-5 + 0.4e-6 = 5.84e-5 USD; 1 ms is
    billed as 100 ms.
    """
    run = default.function("gcp/us-central1")
    assert (run.function, run.max_memory_gib, run.max_seconds) == ("cloud-run-functions", 32, 3600)
    assert function_usd(run, 4.0, 1.0) == pytest.approx(5.84e-5)
    assert function_usd(run, 4.0, 0.001) == pytest.approx(5.8e-6 + 0.4e-6)


def test_functions_have_their_least_billed_time(default: Catalog) -> None:
    """Azure and Google bill 100 ms at least, AWS a millisecond."""
    found = {f.function: f.min_billed_ms for f in default.functions}
    assert found == {"lambda": 1, "lambda-arm": 1, "cloud-run-functions": 100, "functions": 100}


@pytest.mark.parametrize(
    ("src", "dst", "usd_per_gib"),
    [
        ("us-east-1", "us-east-2", 0.01),
        ("us-east-1", "eu-west-1", 0.02),
        ("us-west-2", "ap-southeast-7", 0.08),
        ("eu-central-1", "mx-central-1", 0.05),
        ("eu-west-3", "ca-west-1", 0.05),
        ("ca-west-1", "eu-west-3", 0.05),
        ("ca-west-1", "us-east-1", 0.02),
        ("mx-central-1", "ap-northeast-1", 0.08),
        ("mx-central-1", "me-south-1", 0.14),
        ("ap-southeast-4", "ap-southeast-6", 0.08),
        ("ap-southeast-4", "il-central-1", 0.14),
        ("ap-southeast-4", "us-east-1", 0.1),
        ("ap-east-2", "ap-northeast-3", 0.09),
        ("ap-northeast-3", "ap-east-2", 0.08),
        ("il-central-1", "ap-southeast-2", 0.15),
        ("sa-east-1", "ap-southeast-7", 0.14),
        ("sa-east-1", "us-east-1", 0.138),
        ("af-south-1", "ap-southeast-7", 0.147),
    ],
)
def test_aws_charges_by_pair_of_regions(
    default: Catalog, src: str, dst: str, usd_per_gib: float
) -> None:
    """Pairs of AWS's list of 2026: newer regions, and pairs that differ by direction."""
    price = Network(default).egress_price(f"aws/{src}", f"aws/{dst}")
    assert (price.usd_per_gib, price.as_of) == (usd_per_gib, "2026-01-01")


@pytest.mark.parametrize(
    ("place", "first", "last"),
    [
        ("azure/westeurope", 0.087, 0.05),
        ("azure/israelcentral", 0.087, 0.05),
        ("azure/chilecentral", 0.087, 0.05),
        ("azure/southindia", 0.12, 0.08),
        ("azure/uaenorth", 0.181, 0.16),
        ("azure/southafricanorth", 0.181, 0.16),
        ("aws/ap-southeast-3", 0.132, 0.09),
        ("aws/ap-southeast-7", 0.108, 0.072),
        ("aws/me-central-1", 0.11, 0.055),
    ],
)
def test_tiers_to_the_internet(default: Catalog, place: str, first: float, last: float) -> None:
    """First and last paid tier of the lists of July 2026; zones of Azure's list are no continents:
    Israel and Chile pay as Europe does, South Africa and the Emirates as Brazil.
    """
    tiers = Network(default).egress_tiers(place, "gcp/us-central1")
    assert (tiers[0].usd_per_gib, tiers[1].usd_per_gib, tiers[-1].usd_per_gib) == (0, first, last)


def test_retrieval_is_priced() -> None:
    """A class with 0.01 USD per GiB read costs 2 n S x 0.01 more a step; n = 4."""
    problem = Advisor("default").problem(
        "resnet50", exchange="central", aggregator="aws/us-east-1", storage="aws/us-east-1"
    )
    stores = tuple(replace(store, usd_per_gib_retrieved=0.01) for store in problem.catalog.stores)
    placement = place_by_hand("aws/us-east-1=4xT4:spot", problem)
    plain, dear = (
        estimate(placement, asked)
        for asked in (problem, replace(problem, catalog=replace(problem.catalog, stores=stores)))
    )
    more = (dear.usd_per_hour.storage - plain.usd_per_hour.storage) * plain.step.total / 3600
    assert more == pytest.approx(2 * 4 * problem.gradient_bytes / 2**30 * 0.01)

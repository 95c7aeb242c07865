"""Price lists as clouds and tools write them: recognised, read by their mapping, and what another
list says of its prices.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from placer.cli.book.catalog_import import read_words
from placer.errors import PlacerError
from placer.market.sources.harvest import Harvest, Row
from placer.market.sources.reading.book_rows import read_listing

AWS_PREAMBLE = """"FormatVersion","v1.0"
"Disclaimer","for information only"
"Publication Date","2026-11-20T00:00:00Z"
"Version","20261120000000"
"OfferCode","AmazonEC2"
"""
AWS = (
    "SKU,TermType,PriceDescription,EffectiveDate,Unit,PricePerUnit,Currency,LeaseContractLength,"
    "Instance Type,Region Code,Operating System,Tenancy,CapacityStatus\n"
    "A,OnDemand,$1.006 per On Demand Linux,2026-11-01,Hrs,1.006,USD,,{},eu-west-1,{},{},{}\n"
)
FOCUS_NAMES = (
    "ChargePeriodStart,ChargeCategory,ChargeDescription,ServiceCategory,ProviderName,RegionId,"
    "PricingUnit,ListUnitPrice,ContractedUnitPrice\n"
)


def read(tmp_path: Path, text: str, *constants: str, maps: tuple[str, ...] = ()) -> Harvest:
    """Read a file as ``placer catalog import csv`` does."""
    path = tmp_path / "list"
    path.write_text(text, encoding="utf-8")
    return read_listing([str(path)], read_words("csv", None, maps, constants))


def only(found: Harvest, file: str = "offers.csv") -> Row:
    """The one row of a file of the book."""
    (row,) = found.rows[file]
    return row


def test_a_bulk_price_list_of_aws(tmp_path: Path) -> None:
    """Five lines stand above the names of columns; the book says that g5.xlarge has one A10G."""
    plain = AWS.format("g5.xlarge", "Linux", "Shared", "Used")
    other = [
        plain.splitlines()[1].replace("g5.xlarge", "g5.2xlarge").replace(old, new)
        for old, new in (
            ("On Demand Linux", "Capacity Block Linux"),
            ("OnDemand", "Reserved"),
            (",Linux,", ",Windows,"),
            ("Shared", "Dedicated"),
            ("Used", "UnusedCapacityReservation"),
            ("USD", "CNY"),
        )
    ]
    found = read(tmp_path, AWS_PREAMBLE + plain + "\n".join(other) + "\n")
    row = only(found)
    figures = [row[name] for name in ("provider", "region", "gpu", "gpu_count", "usd_per_hour")]
    assert figures == ["aws", "eu-west-1", "A10G", 1, 1.006]
    assert sum(found.left_out.values()) == len(other)
    assert any("was read as AWS's bulk price list" in note for note in found.notes)


def test_a_page_of_azure_that_was_saved_by_hand(tmp_path: Path) -> None:
    """It may lack keys that no filter needs."""
    item = {
        "currencyCode": "USD",
        "retailPrice": 3.673,
        "armRegionName": "westeurope",
        "meterName": "NC24ads A100 v4",
        "skuName": "NC24ads A100 v4",
        "productName": "Virtual Machines NCads A100 v4 Series",
        "armSkuName": "Standard_NC24ads_A100_v4",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    }
    spot = {**item, "meterName": "NC24ads A100 v4 Spot", "retailPrice": 0.9}
    found = read(tmp_path, json.dumps({"Items": [item, spot, {**item, "type": "Reservation"}]}))
    prices = {row["market"]: row["usd_per_hour"] for row in found.rows["offers.csv"]}
    assert prices == {"on_demand": 3.673, "spot": 0.9}


def test_instance_types_of_lambda(tmp_path: Path) -> None:
    """Cents, one row a region; a type that no region has now is counted."""
    kind: dict[str, Any] = {
        "instance_type": {
            "name": "gpu_8x_a100_80gb_sxm4",
            "price_cents_per_hour": 1432,
            "specs": {"vcpus": 240, "memory_gib": 1800, "gpus": 8},
        },
        "regions_with_capacity_available": [{"name": "us-east-1"}, {"name": "us-midwest-1"}],
    }
    data = {"a": kind, "b": {**kind, "regions_with_capacity_available": []}}
    found = read(tmp_path, json.dumps({"data": data}))
    rows = [(row["region"], row["gpu"], row["usd_per_hour"]) for row in found.rows["offers.csv"]]
    assert rows == [("us-east-1", "A100-80", 14.32), ("us-midwest-1", "A100-80", 14.32)]
    assert found.left_out == {"record without regions_with_capacity_available": 1}


def test_gpu_types_of_runpod(tmp_path: Path) -> None:
    """One price for all data centres, secure and community; 0 is no offer."""
    kind = {"displayName": "H100 SXM", "memoryInGb": 80, "securePrice": 2.99, "communityPrice": 0}
    found = read(tmp_path, json.dumps({"data": {"gpuTypes": [kind]}}))
    rows = found.rows["offers.csv"]
    assert len({row["region"] for row in rows}) == len(rows) > 20
    assert {(row["gpu"], row["market"], row["usd_per_hour"]) for row in rows} == {
        ("H100", "on_demand", 2.99)
    }


def test_a_catalog_of_gpuhunt(tmp_path: Path) -> None:
    """Whose machines they are, the name of the file says, or a word."""
    text = (
        "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot\n"
        "p4d.24xlarge,us-east-1,21.96,96,1152,8,A100,40.0,False\n"
        "p4d.24xlarge,us-east-1,9.5,96,1152,8,A100,40.0,True\n"
        "m5.large,us-east-1,0.096,2,8,0,,,False\n"
    )
    found = read(tmp_path, text, "provider=aws")
    rows = [(row["gpu"], row["market"], row["usd_per_hour"]) for row in found.rows["offers.csv"]]
    assert rows == [("A100-40", "on_demand", 21.96), ("A100-40", "spot", 9.5)]
    assert found.left_out == {"machine without a GPU": 1}


def test_a_bill_has_prices_of_machines_and_of_egress(tmp_path: Path) -> None:
    """FOCUS: the contracted price, not the listed one; the same machine stands there each hour.
    A price of a GB is one of egress, never one of a machine; APN1 is Tokyo in words of AWS.
    """
    machine = "2026-10-{}T00:00:00Z,Usage,USE2-BoxUsage:g6.xlarge,Compute,AWS,us-east-2,Hours,"
    lines = (
        f"{machine.format('03')}0.8048,0.65",
        f"{machine.format('04')}0.8048,0.65",
        "2026-10-04,Usage,USE2-APN1-AWS-Out-Bytes,Networking,AWS,us-east-2,GB,0.02,0.02",
        "2026-10-04,Tax,Tax,Other,AWS,us-east-2,,,9",
    )
    text = FOCUS_NAMES + "\n".join(lines) + "\n"
    found = read(tmp_path, text)
    row = only(found)
    figures = [row[name] for name in ("gpu", "usd_per_hour", "price_basis", "as_of")]
    assert figures == ["L4", 0.65, "negotiated", "2026-10-04"]
    egress = only(found, "egress.csv")
    figures = [egress[name] for name in ("src", "dst", "usd_per_gib")]
    assert figures == ["us-east-2", "ap-northeast-1", 0.02]


MAP = ("instance_type=Machine,region=Place,usd_per_hour=Price",)
SET = (
    *("provider=aws", "gpu=H100", "gpu_count=8", "vcpus=192", "memory_gib=2048"),
    *("market=on_demand", "price_basis=list", "source=quote", "as_of=2026-11-01"),
)


def test_another_currency_is_refused_with_what_works(tmp_path: Path) -> None:
    """The tip followed makes a book."""
    text = "Machine,Place,Price,Currency\np5.48xlarge,us-east-1,{},{}\n"
    with pytest.raises(PlacerError, match="in EUR") as error:
        read(tmp_path, text.format(40, "EUR"), *SET, maps=MAP)
    assert "convert the price and write USD as its currency" in error.value.hint
    assert only(read(tmp_path, text.format(44.8, "USD"), *SET, maps=MAP))["usd_per_hour"] == 44.8


def test_a_contract_of_ones_own_passes(tmp_path: Path) -> None:
    """A commitment that is paid for is a price, if the row is said to be one."""
    text = "Machine,Place,Price,Remark\np5.48xlarge,us-east-1,40,3 year commitment\n"
    mine = ("price_basis=negotiated" if word == "price_basis=list" else word for word in SET)
    assert only(read(tmp_path, text, *mine, maps=MAP))["price_basis"] == "negotiated"


AWS_PRODUCT = {
    "sku": "A",
    "attributes": {
        "instanceType": "g5.xlarge",
        "regionCode": "eu-west-1",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "capacitystatus": "Used",
        "preInstalledSw": "NA",
    },
}
AWS_TERM = {
    "A.B": {
        "effectiveDate": "2026-11-01T00:00:00Z",
        "priceDimensions": {"A.B.C": {"unit": "Hrs", "pricePerUnit": {"USD": "1.0060000000"}}},
    }
}


@pytest.mark.parametrize(
    "document",
    [
        {
            "offerCode": "AmazonEC2",
            "products": {"A": AWS_PRODUCT, "B": AWS_PRODUCT},  # B is not sold on demand
            "terms": {"OnDemand": {"A": AWS_TERM}, "Reserved": {}},
        },
        {"PriceList": [json.dumps({"product": AWS_PRODUCT, "terms": {"OnDemand": AWS_TERM}})]},
    ],
)
def test_price_lists_of_aws_as_json(tmp_path: Path, document: dict[str, Any]) -> None:
    """The bulk list has machines and prices apart, and what `aws pricing get-products` prints has
    each entry as a text.
    """
    row = only(read(tmp_path, json.dumps(document)))
    assert (row["instance_type"], row["region"], row["gpu"]) == ("g5.xlarge", "eu-west-1", "A10G")
    assert row["usd_per_hour"] == 1.006


def azure_item(region: str) -> dict[str, Any]:
    """A machine with one T4 as Azure lists it."""
    return {
        "currencyCode": "USD",
        "retailPrice": 0.526,
        "armRegionName": region,
        "meterName": "NC4as T4 v3",
        "skuName": "NC4as T4 v3",
        "productName": "Virtual Machines NCasT4 v3 Series",
        "armSkuName": "Standard_NC4as_T4_v3",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
    }


def test_pages_of_azure(tmp_path: Path) -> None:
    """Items alone, as jq prints them, and several pages in a list; one that names the next is said
    to be a part.
    """
    east, west = azure_item("eastus"), azure_item("westeurope")
    page = {"Items": [east], "NextPageLink": "https://prices.azure.com/api/retail/prices?$skip=1"}
    assert len(read(tmp_path, json.dumps([east, west])).rows["offers.csv"]) == 2
    both = read(tmp_path, json.dumps([page, {"Items": [west], "NextPageLink": None}]))
    assert len(both.rows["offers.csv"]) == 2
    alone = read(tmp_path, json.dumps(page))
    assert any("is one page of several" in note for note in alone.notes)
    last = read(tmp_path, json.dumps({"Items": [west], "NextPageLink": None}))
    assert not any("is one page of several" in note for note in last.notes)


def test_older_and_newer_answers_of_providers(tmp_path: Path) -> None:
    """Lambda did not say the number of GPUs beside the name; RunPod says a spot price."""
    kind = {"name": "gpu_2x_a6000", "price_cents_per_hour": 160}
    specs = {"vcpus": 28, "memory_gib": 200}
    one = {
        "instance_type": {**kind, "specs": specs},
        "regions_with_capacity_available": [{"name": "us-west-1"}],
    }
    row = only(read(tmp_path, json.dumps({"data": {"gpu_2x_a6000": one}})))
    assert (row["gpu"], row["gpu_count"], row["usd_per_hour"]) == ("A6000", 2, 1.6)
    l4 = {"displayName": "L4", "securePrice": 0.43, "communityPrice": 0, "secureSpotPrice": 0.2}
    rows = read(tmp_path, json.dumps([l4])).rows["offers.csv"]
    assert {(row["market"], row["usd_per_hour"]) for row in rows} == {
        ("on_demand", 0.43),
        ("spot", 0.2),
    }

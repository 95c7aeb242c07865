"""Price lists of any provider: what is guessed of columns and numbers, and what is asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from placer.cli.ask.try_prices import _pairs
from placer.errors import PlacerError
from placer.market.books.book_reader import load_catalog
from placer.market.sources.guessed.book import PriceList, harvest_of, read_list
from placer.market.sources.harvest import Harvest, Row
from placer.market.words.money import (
    amount,
    currency_in,
    decimals_of,
    each_in,
    exchange_rates,
    rates_given,
    time_in,
)
from placer.units import GIB

LISTS = ROOT / "tests" / "fixtures" / "price_lists"
BOOK = load_catalog("default")
EUR, INR, CHF = (exchange_rates()[name].usd for name in ("EUR", "INR", "CHF"))
PLAIN = "gpu,region,USD per hour\nH100,Berlin,2.5\nL4,Berlin,0.75\n"


def listed(path: Path, **given: str) -> PriceList:
    """A list with what is guessed of it."""
    return read_list(str(path), given, BOOK)


def read(tmp_path: Path, text: str, rates: dict[str, float] | None = None, **given: str) -> Harvest:
    """The book of a list."""
    path = tmp_path / "list.csv"
    path.write_text(text, encoding="utf-8")
    return harvest_of(listed(path, **given), "mine", rates or {}, BOOK)


def offers(harvest: Harvest) -> dict[tuple[Any, ...], Row]:
    """Offers by machine, place and market."""
    return {
        (row["instance_type"], row["region"], row["market"]): row
        for row in harvest.rows["offers.csv"]
    }


def test_a_german_list_in_euros_with_semicolons() -> None:
    """19,92 EUR are of a machine with eight: one has 2,49. Spot is a column of its own, 1.760 GB
    have a point of thousands, and the row without a GPU is counted.
    """
    harvest = harvest_of(listed(ROOT / "examples" / "nordkarte.csv"), "nordkarte", {}, BOOK)
    found = offers(harvest)
    eight = found["nk.h100.8", "frankfurt-am-main", "on_demand"]
    assert eight["usd_per_hour"] == pytest.approx(19.92 * EUR)
    assert (eight["gpu"], eight["gpu_count"], eight["vcpus"]) == ("H100", 8, 208)
    assert eight["memory_gib"] == pytest.approx(1760e9 / GIB)
    spot = found["nk.h100.8", "frankfurt-am-main", "spot"]
    assert spot["usd_per_hour"] == pytest.approx(10.80 * EUR)
    assert ("nk.h100.1", "munich", "spot") not in found
    assert {row["region"] for row in harvest.rows["regions.csv"]} == {
        *("frankfurt-am-main", "munich", "oslo")
    }
    assert harvest.left_out == {"row without a GPU that is known": 1}
    assert any("1 EUR = " in note for note in harvest.notes)


def test_an_indian_list_in_rupees_a_month() -> None:
    """1,85,000 INR are 185 thousand, for 730 hours. Commitments and prices on request are
    counted, and a note says what an hour of a month is.
    """
    harvest = harvest_of(listed(LISTS / "himalaya-cloud.csv"), "himalaya", {}, BOOK)
    found = offers(harvest)
    one = found["H100-1", "mumbai", "on_demand"]
    assert one["usd_per_hour"] == pytest.approx(185_000 * INR / 730)
    eight = found["H100-8", "mumbai", "on_demand"]
    assert eight["usd_per_hour"] == pytest.approx(1_420_000 * INR / 730)
    assert eight["memory_gib"] == pytest.approx(1.5e12 / GIB)
    assert found["L4-2", "chennai", "on_demand"]["gpu_count"] == 2
    assert sum(harvest.left_out.values()) == 2
    assert any("1/730 of the price of a month" in note for note in harvest.notes)


def test_a_swiss_list_by_the_gpu() -> None:
    """2.95 CHF of each of eight; vCPUs are assumed, and said to be."""
    harvest = harvest_of(listed(LISTS / "gpuwerk.csv"), "gpuwerk", {}, BOOK)
    found = offers(harvest)
    assert found["8xH100", "zurich", "on_demand"]["usd_per_hour"] == pytest.approx(8 * 2.95 * CHF)
    assert found["8xH100", "zurich", "spot"]["usd_per_hour"] == pytest.approx(8 * 1.55 * CHF)
    assert found["4xRTX6000Ada", "geneva", "on_demand"]["vcpus"] == 32
    assert any(note.startswith("assumed where the list does not say it") for note in harvest.notes)


def test_bytes_cost_as_the_dearest_cloud_near_by_and_are_labelled(tmp_path: Path) -> None:
    """Google's 0.12 USD per GiB in Germany are above AWS's 0.09 and Azure's; what is said counts,
    per GB of 1e9 bytes.
    """
    rows = {row["dst"]: row for row in read(tmp_path, PLAIN).rows["egress.csv"]}
    assert {*rows} == {"intra_zone", "inter_zone", "*", "internet"}
    assert rows["internet"]["usd_per_gib"] == 0.12
    assert rows["*"]["usd_per_gib"] == 0.12
    assert "assumed: as gcp/" in str(rows["internet"]["source"])
    clouds = [row for row in BOOK.egress if row.provider in ("aws", "gcp", "azure")]
    between = max(row.usd_per_gib for row in clouds if row.dst == "inter_zone")
    assert rows["inter_zone"]["usd_per_gib"] == between
    said = {row["dst"]: row for row in read(tmp_path, PLAIN, egress="0.01").rows["egress.csv"]}
    assert said["internet"]["usd_per_gib"] == pytest.approx(0.01 * GIB / 1e9, rel=1e-5)
    assert said["internet"]["source"] == "as given"


def test_what_stands_for_an_area_is_said(tmp_path: Path) -> None:
    """The capital of a country, the largest city of a state, and of two cities of a name that which
    is meant. Two Portlands are two regions.
    """
    cells = ("Norway", "Texas, US", "Portland, OR", "Portland, ME", "London", "Gera, Germany")
    rows = "".join(f'L4,"{cell}",0.75\n' for cell in cells)
    harvest = read(tmp_path, f"gpu,region,USD per hour\n{rows}")
    said = [note for note in harvest.notes if "is taken to be in" in note]
    assert said == [
        "'Norway' is taken to be in Oslo/Norway",
        "'Texas, US' is taken to be in Houston/Texas",
        "'London' is taken to be in London/United Kingdom",
        "'Gera, Germany' is taken to be in Berlin/Germany",
    ]
    places = {row["region"]: row["longitude_deg"] for row in harvest.rows["regions.csv"]}
    assert {*places} == {"oslo", "houston", "portland", "portland-maine", "london", "berlin"}
    assert places["portland"] == -122.68
    assert places["portland-maine"] == -70.26


@pytest.mark.parametrize(
    ("cell", "asked"),
    [
        ("US", "where 'US' is is not known"),
        ("Jaipurgarh, IN", "where 'Jaipurgarh, IN' is is not known"),
        ("Georgia", "may be Tbilisi/Georgia or Atlanta/Georgia"),
        ("Ontario, CA", "may be Ontario/California or Toronto/Ontario"),
        ("Washington, US", "may be Washington/District of Columbia or Seattle/Washington"),
    ],
)
def test_a_place_that_may_be_two_is_asked_for(tmp_path: Path, cell: str, asked: str) -> None:
    """As it is in a country that is wide, for which Washington or New Delhi cannot stand: Indiana
    is no better. What the message says to type is taken, with the comma in the name.
    """
    text = f'gpu,region,USD per hour\nL4,"{cell}",0.75\n'
    with pytest.raises(PlacerError) as it:
        read(tmp_path, text)
    assert asked in it.value.message
    assert f"--columns '{cell}=" in it.value.hint
    given = _pairs((f"per=machine,{cell}=Dallas",))
    regions = read(tmp_path, text, {}, **given).rows["regions.csv"]
    assert [row["region"] for row in regions] == ["dallas"]


def test_all_places_of_a_providers_own_are_asked_for_at_once(tmp_path: Path) -> None:
    """A column that says by its header that it has places is taken for one, also if a third of its
    cells are cities.
    """
    text = "gpu,Region,USD per hour\nL4,US-East,0.75\nL4,Zone 9,0.80\n"
    with pytest.raises(PlacerError, match="where 'US-East' is is not known, and 1 more") as it:
        read(tmp_path, text)
    words = "--columns 'US-East=Frankfurt','Zone 9=Frankfurt'"
    assert words in it.value.hint
    given = _pairs(("US-East=Ashburn,Zone 9=Oslo",))
    rows = read(tmp_path, text, {}, **given).rows["regions.csv"]
    assert [row["region"] for row in rows] == ["ashburn", "oslo"]
    with pytest.raises(PlacerError, match="where 'US-East' is is not known, and 1 more"):
        read(tmp_path, f"{text}L4,Berlin,0.75\n")


def test_words_correct_what_was_guessed(tmp_path: Path) -> None:
    """A currency, a time, a size and a place for all rows; a rate of one's own before the dated
    one; a city for the name of a data centre.
    """
    text = 'Karte,Ort,Wert,Listenwert\n8x L4,FRA1,"4,25","9,99"\n8x L4,Oslo,"5,25","9,99"\n'
    harvest = read(
        tmp_path,
        text,
        {"EUR": 2.0},
        price="Wert",
        currency="EUR",
        unit="hour",
        per="machine",
        region="Ort",
        FRA1="Frankfurt",
    )
    prices = {row["region"]: row["usd_per_hour"] for row in harvest.rows["offers.csv"]}
    assert prices == {"frankfurt-am-main": 8.5, "oslo": 10.5}
    assert "1 EUR = 2 USD as given" in harvest.notes


def test_of_two_prices_of_one_machine_the_dearer_counts(tmp_path: Path) -> None:
    """What they differ in is not read: the answer is never too cheap, and a note says so."""
    harvest = read(tmp_path, "gpu,region,USD per hour\nL4,Berlin,0.75\nL4,Berlin,0.95\n")
    (row,) = harvest.rows["offers.csv"]
    assert row["usd_per_hour"] == 0.95
    assert any("the higher one counts" in note for note in harvest.notes)


def test_what_is_no_plain_price_is_left_out_and_counted(tmp_path: Path) -> None:
    """A lowest price, a capacity block and a machine with a licence of Windows, as `catalog import`
    refuses them.
    """
    text = "gpu,region,USD per hour,description,OS\nL4,Berlin,{},{},{}\nT4,Berlin,0.4,,Linux\n"
    for price, words, system, reason in (
        ("from 0.3", "", "Linux", "price that is only the lowest of some: from 0.3"),
        ("0.3", "Capacity Block", "Linux", "is the price of a capacity block"),
        ("0.3", "", "Windows", "has a licence in its price:"),
    ):
        harvest = read(tmp_path, text.format(price, words, system))
        assert [row["gpu"] for row in harvest.rows["offers.csv"]] == ["T4"]
        (left_out,) = harvest.left_out
        assert left_out.startswith(reason)


def test_what_is_billed_monthly_may_have_a_price_of_an_hour(tmp_path: Path) -> None:
    """The header of the price counts; a column of units counts where it says nothing."""
    text = "gpu,region,billing period,{}\nL4,Berlin,monthly,{}\n"
    (hourly,) = read(tmp_path, text.format("USD per hour", "0.75")).rows["offers.csv"]
    assert hourly["usd_per_hour"] == 0.75
    (monthly,) = read(tmp_path, text.format("price USD", "365.5")).rows["offers.csv"]
    assert monthly["usd_per_hour"] == pytest.approx(365.5 / 730)


def test_neighbours_of_a_count_are_none(tmp_path: Path) -> None:
    """Ten machines in stock have one GPU each, and the memory of a GPU tells two of a name apart,
    but is no memory of the machine.
    """
    text = "gpu,region,USD per hour,available GPUs,GPU memory\nA100,Berlin,1.75,10,80 GB\n"
    (row,) = read(tmp_path, text).rows["offers.csv"]
    assert (row["gpu"], row["gpu_count"], row["memory_gib"]) == ("A100-80", 1, 64)


@pytest.mark.parametrize("traffic", ["inet_up_cost", "egress cost", "Kosten Traffic"])
def test_a_price_of_traffic_is_no_price_of_a_machine(tmp_path: Path, traffic: str) -> None:
    """As Vast.ai lists hosts, with dollars per hour (dph) and memory in MB, 8 TB of it the largest:
    without a price of the machine one is asked for.
    """
    text = "gpu_name,num_gpus,geolocation,cpu_cores,cpu_ram,{}\n{}"
    rows = ["RTX 4090,4,Berlin,64,{},0.004", "H100 SXM,8,Paris,192,{},0.01"]
    sizes = ("257000", "8063000")
    plain = "\n".join(row.format(size) for row, size in zip(rows, sizes, strict=True))
    with pytest.raises(PlacerError, match="no column looks like a price"):
        read(tmp_path, text.format(traffic, plain))
    priced = plain.replace("0.004", "0.004,1.42").replace("0.01", "0.01,15.2")
    listed = text.format(f"{traffic},dph_total", priced)
    got = read(tmp_path, listed, currency="USD", unit="hour", per="machine")
    small, large = got.rows["offers.csv"]
    assert (small["usd_per_hour"], large["usd_per_hour"]) == (1.42, 15.2)
    assert large["memory_gib"] == pytest.approx(8063e9 / GIB)
    few = "gpu,region,USD per hour,vcpus,ram\nL4,Berlin,0.75,8,64\nH100,Berlin,2,96,4096\n"
    assert read(tmp_path, few).rows["offers.csv"][0]["memory_gib"] == pytest.approx(64e9 / GIB)


def test_a_search_of_vast_names_hosts(tmp_path: Path) -> None:
    """Each host is one machine: 4 RTX 4090 in Texas by a third party for 1.42 USD/h, 8 H100 of a
    data centre in Sweden, and a bid. What both ways of traffic cost is the egress of the place, by
    the dearest of its two hosts: 0.02 + 0.02 USD per GB, also inside it, for lack of a network.
    A taken host, one without a place and one without a known device stay out.
    """
    harvest = harvest_of(listed(LISTS / "vast.json"), "vast", {}, BOOK)
    found = {key[0]: row for key, row in offers(harvest).items()}
    four, eight, bid = (found[f"{n}_host_{m}"] for n, m in _VAST)
    assert [row["usd_per_hour"] for row in (four, eight, bid)] == [1.42, 15.2, 0.21]
    assert [row["market"] for row in (four, eight, bid)] == ["community", "on_demand", "spot"]
    assert [row["region"] for row in (four, eight, bid)] == ["houston", "stockholm", "houston"]
    assert four["memory_gib"] == pytest.approx(257000 / 1024)
    assert (four["available"], four["max_island_machines"]) == (1, 1)
    assert four["network_gbps"] == 0.7275
    egress = {(row["src"], row["dst"]): row["usd_per_gib"] for row in harvest.rows["egress.csv"]}
    assert egress["houston", "intra_zone"] == pytest.approx(0.04 * GIB / 1e9, rel=1e-5)
    assert egress["stockholm", "internet"] == pytest.approx(0.006 * GIB / 1e9, rel=1e-5)
    assert {row["rtt_ms"] for row in harvest.rows["links.csv"]} == {10.0}
    assert harvest.left_out == {
        "host that is taken": 1,
        "place that is no one place (--columns 'NAME=CITY'): , US": 1,
        "row without a GPU that is known: GTX 1070": 1,
    }
    bare = tmp_path / "offers.json"
    hosts = json.loads((LISTS / "vast.json").read_text())["offers"]
    half = {**hosts[0], "num_gpus": 2, "dph_total": 0.71}  # of the same host
    bare.write_text(json.dumps([half, *hosts]))
    placed = harvest_of(listed(bare, **{", US": "Dallas"}), "vast", {}, BOOK)
    assert "1 host with several sizes: one size can be rented at a time" in placed.notes
    assert any("'A100 PCIE' is taken for A100-80 with NVLink" in note for note in placed.notes)
    assert placed.rows["offers.csv"][-1]["region"] == "dallas"
    assumed = placed.rows["egress.csv"][-1]
    assert "assumed: as gcp/" in str(assumed["source"])


_VAST = (("4x_RTX_4090", 4711), ("8x_H100_SXM", 4712), ("1x_RTX_4090", 4713))


def test_a_list_of_json_is_read_as_one_of_csv(tmp_path: Path) -> None:
    """The longest list of objects has the rows; names inside names are columns, and usd is USD."""
    machines = [
        {
            "instance_type": f"{count}H100",
            "gpu": {"description": f"{count}x H100 SXM5 80GB", "number_of_gpus": count},
            "memory": {"size_in_gigabytes": 150 * count},
            "price_per_hour": f"{2.5 * count}",
            "currency": "usd",
            "tags": ["new"],
        }
        for count in (1, 8)
    ]
    text = json.dumps({"meta": [{"page": 1}], "data": machines})
    found = read(tmp_path, text, region="Helsinki").rows["offers.csv"]
    assert [(row["gpu_count"], row["usd_per_hour"]) for row in found] == [(1, 2.5), (8, 20.0)]
    assert found[1]["memory_gib"] == pytest.approx(1200e9 / GIB)
    with pytest.raises(PlacerError, match="is no JSON"):
        read(tmp_path, text[:-1], region="Helsinki")


def test_a_spreadsheet_of_windows_is_read(tmp_path: Path) -> None:
    """It is written in cp1252, with tabs or semicolons."""
    path = tmp_path / "list.csv"
    path.write_bytes("gpu;Ort;Preis (€/Std.)\nL4;Zürich;0,75\n".encode("cp1252"))
    (row,) = harvest_of(listed(path), "mine", {}, BOOK).rows["offers.csv"]
    assert row["region"] == "zurich"
    assert row["usd_per_hour"] == pytest.approx(0.75 * EUR)


def test_prices_that_hardly_grow_are_of_one_gpu(tmp_path: Path) -> None:
    """2.0 for one and 1.9 with eight are of a GPU; 2 and 7 are neither, and asked for."""
    text = "gpu,count,region,USD per hour\nL4,1,Berlin,0.8\nL4,8,Berlin,{}\n"
    by_gpu = offers(read(tmp_path, text.format("0.7")))
    assert by_gpu["8xL4", "berlin", "on_demand"]["usd_per_hour"] == pytest.approx(5.6)
    by_machine = offers(read(tmp_path, text.format("6.2")))
    assert by_machine["8xL4", "berlin", "on_demand"]["usd_per_hour"] == 6.2
    of_two = text.replace("L4,1,Berlin,0.8", "L4,2,Berlin,1.6").format("6.2")
    by_two = offers(read(tmp_path, of_two))
    assert by_two["2xL4", "berlin", "on_demand"]["usd_per_hour"] == 1.6
    with pytest.raises(PlacerError, match="of one GPU or of a whole machine"):
        read(tmp_path, text.format("2.5"))


def test_numbers_are_read_one_way_or_not_at_all() -> None:
    """All numbers of a column decide together; a Swiss apostrophe and an Indian lakh group."""
    assert decimals_of(["1,250", "1,5"]) == "comma"
    assert decimals_of(["1,250", "2.5"]) == "point"
    assert decimals_of(["1.5", "2,5"]) is None
    assert amount("CHF 2'150.50", "point") == 2150.5
    assert amount("12-24", "point") is None
    assert [time_in(text) for text in ("H100-8", "EUR/Monat", "par heure")] == [
        *(None, "month", "hour")
    ]
    assert [currency_in(text) for text in ("£3", "3 CHF", "GPU")] == ["GBP", "CHF", None]
    assert [each_in(text) for text in ("€/GPU/h", "per node")] == ["gpu", "machine"]
    for wrong in ("EUR", "EUR=0", "EUR=-1", "EURO=1", "EUR=x"):
        with pytest.raises(PlacerError, match="is not USD for one unit"):
            rates_given([wrong])


@pytest.mark.parametrize(
    ("header", "cell", "usd"),
    [
        ("USD per second", "0.0007", 2.52),
        ("Price per 1000 GPU-hours (USD)", "2490", 2.49),
        ("USD per year", "17520", 2.0),
        ("USD per month, billed hourly", "1460", 2.0),
        ("USD per week", "336", 2.0),
        ("Cents per hour (USD)", "249", 2.49),
        ("Preis ct/h (EUR)", "200", 2 * EUR),
        ("A$ per hour", "3", 3 * exchange_rates()["AUD"].usd),
        ("Price", "CA$3 / h", 3 * exchange_rates()["CAD"].usd),
        ("Price (JPY/hour)", "¥450", 450 * exchange_rates()["JPY"].usd),
        ("Price per hour", "$.75", 0.75),
        ("pricePerHourUsd", "2.5", 2.5),
        ("pricePerSecond_USD", "0.0005", 1.8),
        ("zł/h", '"9,90"', 9.9 * exchange_rates()["PLN"].usd),
    ],
)
def test_prices_in_parts_and_for_other_times(
    tmp_path: Path, header: str, cell: str, usd: float
) -> None:
    """A list says what its prices are of: cents, thousands of hours, dollars of another country."""
    (row,) = read(tmp_path, f'gpu,region,"{header}"\nL4,Berlin,{cell}\n').rows["offers.csv"]
    assert row["usd_per_hour"] == pytest.approx(usd, rel=1e-5)


def test_a_price_with_tax_is_said_to_be_one(tmp_path: Path) -> None:
    """And one of a spot machine that its name alone tells is no price on demand."""
    taxed = read(tmp_path, "gpu,region,USD per hour incl. VAT\nL4,Berlin,0.75\n")
    assert any("have tax in them" in note for note in taxed.notes)
    (row,) = read(tmp_path, "gpu,region,USD/h\nL4 (spot),Berlin,0.3\n").rows["offers.csv"]
    assert row["market"] == "spot"


@pytest.mark.parametrize("header", ["Spot capacity", "Spot vCPUs", "spot interruptions"])
def test_figures_of_spot_machines_are_no_spot_prices(tmp_path: Path, header: str) -> None:
    """A column of numbers whose name begins with spot has no price unless it is one."""
    text = f"gpu,region,price per hour (USD),{header}\nL4,Berlin,0.75,12\nL4,Paris,0.75,9\n"
    rows = read(tmp_path, text).rows["offers.csv"]
    assert {row["market"] for row in rows} == {"on_demand"}

"""Links and egress of books, the networks of machines, and the link model beside measured links."""

import itertools
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec import structs

from placer.errors import PlacerError
from placer.market.catalog import Catalog, EgressPrice, MeasuredLink, Region
from placer.market.network.graph import Link, Network, network_of
from placer.market.network.link_model import SPREAD
from placer.market.network.measured_links import ALL, SAME_REGION, check_network
from placer.market.scaled_market import set_bandwidths, with_scaled_egress
from placer.market.words.own_machines import parse_own, with_own_machines
from placer.records import replace

PUBLISHED = [
    ("gcp/us-central1", "gcp/europe-west1", 0.21),
    ("gcp/us-central1", "gcp/asia-east1", 0.13),
    ("gcp/europe-west1", "gcp/australia-southeast1", 0.07),
    ("gcp/us-west1", "azure/southcentralus", 0.45),
]
"""Single streams of Erben et al., tables 3 and 4, in Gb/s."""


def test_changed_links_share_all_but_their_bandwidth(erben: Catalog) -> None:
    """Of changes of one link each begins with the one before; round trips, prices and the network
    of the book stay, whatever another book has measured between the same places.
    """
    ends, network = ("gcp/us-central1", "gcp/europe-west1"), network_of(erben)
    usual, rtt_s = network.link(*ends), network.rtts_s(ends)
    row = replace(usual, rtt_s=1.0).row("2026-11-29")
    far = Network(replace(erben, links=(row,)))
    assert far.link(*ends).rtt_s == pytest.approx(1.0)
    halves = (("bandwidth:*", ("*", "*"), 0.5, None), ("bandwidth", ends, 0.5, None))
    changed = set_bandwidths(erben, halves)
    link = network_of(changed).link(*ends)
    assert link.bytes_per_second == pytest.approx(usual.bytes_per_second / 4)
    assert link.rtt_s == pytest.approx(usual.rtt_s)
    assert network_of(changed).prices(ends).tolist() == network.prices(ends).tolist()
    assert changed.rows_by_place is erben.rows_by_place
    again = Network(erben)
    assert (again.link(*ends), again.rtts_s(ends).tolist()) == (usual, rtt_s.tolist())


@pytest.mark.parametrize(("src", "dst", "gbps"), PUBLISHED)
def test_published_links_are_used_as_they_are(
    erben: Catalog, src: str, dst: str, gbps: float
) -> None:
    """The book wins over the model."""
    link = Network(erben).link(src, dst)
    assert link.basis == "published"
    assert link.bytes_per_second == pytest.approx(gbps * 1e9 / 8)


ROW = MeasuredLink(
    src="aws/us-west-2",
    dst="gcp/us-central1",
    gbps_one_stream=None,
    gbps_many_streams=None,
    gbps_low=None,
    gbps_high=None,
    rtt_ms=None,
    basis="measured",
    source="iperf3",
    as_of="2026-11-01",
)
"""A row that says nothing yet."""


def measured(erben: Catalog, **figures: float) -> Link:
    """Link of a row with some figures only."""
    return Network(replace(erben, links=(replace(ROW, **figures),))).link(ROW.src, ROW.dst)


def test_a_measured_round_trip_sets_one_stream(erben: Catalog) -> None:
    """Window over round-trip time: 2.67 MB in 50 ms are 53.4 MB/s; the label stays estimated."""
    link = measured(erben, rtt_ms=50.0)
    assert link.bytes_per_second == pytest.approx(53.4e6)
    assert (link.rtt_s, link.basis) == (0.05, "estimated")


def test_many_streams_cap_one_stream(erben: Catalog) -> None:
    """0.2 Gb/s in all leave no more to one stream, whose window would carry 0.43."""
    link = measured(erben, rtt_ms=50.0, gbps_many_streams=0.2)
    assert (link.bytes_per_second, link.speed(10)) == (0.2e9 / 8, 0.2e9 / 8)


def test_one_measured_stream_gets_the_spread_of_the_model(erben: Catalog) -> None:
    """A measured stream is uncertain as an estimated one; the provider caps many: 4.8 Gb/s."""
    link = measured(erben, gbps_one_stream=1.0)
    assert (link.low * SPREAD, link.bytes_per_second, link.high / SPREAD) == pytest.approx(
        (1e9 / 8,) * 3
    )
    assert link.speed(100) == pytest.approx(4.8e9 / 8)
    assert link.rtt_s == Network(erben).estimated_link(ROW.src, ROW.dst).rtt_s


def test_the_network_card_of_the_best_machine_caps_a_place(erben: Catalog) -> None:
    """The largest card of a place is the most; one silent offer lifts the cap."""
    offers = tuple(structs.replace(offer, network_gbps=0.1) for offer in erben.offers)
    one = Network(replace(erben, offers=offers, links=())).link(
        "gcp/us-central1", "gcp/europe-west1"
    )
    assert one.bytes_per_second == one.cap == 0.1e9 / 8
    silent = (structs.replace(offers[0], network_gbps=None), *offers[1:])
    place = offers[0].place
    assert (
        Network(replace(erben, offers=silent, links=())).link(place, place).bytes_per_second
        > 1e9 / 8
    )


@pytest.mark.parametrize("same_zone", [True, False])
def test_tables_hold_what_links_and_prices_say(default: Catalog, same_zone: bool) -> None:
    """A table of some places is cut out of that of all: each cell is the own of its pair."""
    own = parse_own("lab=2xT4@Dallas", default)
    network = Network(with_own_machines(default, own))
    places = [*sorted(default.regions)[3:90:7], own.place]
    rtts_s, speeds = network.rtts_s(places), network.speeds(places, 2)
    of_three = network.speeds(places, 2, 3)
    prices = network.prices(places, same_zone=same_zone)
    for (i, src), (j, dst) in itertools.product(enumerate(places), repeat=2):
        assert rtts_s[i, j] == network.link(src, dst).rtt_s
        assert speeds[i, j] == network.link(src, dst).speed(2)
        assert of_three[i, j] == network.link(src, dst).of_machines(3).speed(2)
        assert prices[i, j] == network.usd_per_byte(src, dst, same_zone=same_zone)


def test_rows_that_differ_in_their_prices_alone_share_what_they_name(default: Catalog) -> None:
    """Egress at twice the price has the tables of a network made anew, without looking for its rows
    again; other rows are looked for.
    """
    plain, places = network_of(default), sorted(default.regions)
    before = plain.prices(places)
    dearer = with_scaled_egress(default, 2.0)
    prices = dearer.memo["network"].prices(places)
    assert np.array_equal(prices, Network(dearer).prices(places))
    assert np.array_equal(prices, 2 * before)
    assert dearer.memo["network"]._prices._numbers is plain._prices._numbers
    fewer = replace(default, egress=default.egress[:-1])
    other = Network(fewer, plain)
    assert other._prices._numbers is not plain._prices._numbers


def test_a_table_with_a_missing_price_is_an_error_that_names_the_pair(default: Catalog) -> None:
    """Egress is never free by omission, in a table as for one pair; an unknown place is named."""
    bare = Network(replace(default, egress=tuple(p for p in default.egress if p.provider == "aws")))
    places = ["aws/us-east-1", "gcp/us-west1"]
    assert bare.prices(places[:1])[0, 0] >= 0
    with pytest.raises(PlacerError, match="no egress price from gcp/us-west1 to aws/us-east-1"):
        bare.prices(places)
    with pytest.raises(PlacerError, match="aws/us-east-11"):
        bare.prices(["aws/us-east-11"])
    with pytest.raises(PlacerError, match="aws/us-east-11"):
        bare.link("aws/us-east-11", "aws/us-east-1")


NAMES = [name for name in Region.__struct_fields__ if not name.endswith("_deg")][:9]
HERE = msgspec.convert({**dict.fromkeys(NAMES, "x"), "latitude_deg": 0, "longitude_deg": 0}, Region)


@given(st.data())
def test_the_most_specific_price_wins(data: st.DataObject) -> None:
    """Against a search of every row for one pair, over drawn books of rows by region, zone and
    ``*``; of two rows as specific, the one with the more specific source.
    """
    ends, zones = {"p": ["p1", "p2", "p3"], "q": ["q1", "q2"]}, st.sampled_from(["east", "west"])
    regions = {
        f"{provider}/{name}": replace(
            HERE, provider=provider, region=name, egress_zone=data.draw(zones)
        )
        for provider, names in ends.items()
        for name in names
    }
    names = st.sampled_from(["p1", "p2", "p3", "q1", "east", "west", "*"])
    far = st.sampled_from(["internet", "p/p1", "q/q1", "intra_zone", "inter_zone"])
    keys = data.draw(st.sets(st.tuples(st.sampled_from("pq"), names, names | far), max_size=25))
    rows = {key: float(number) for number, key in enumerate(sorted(keys), start=1)}
    egress = (
        EgressPrice(
            provider=provider, src=src, dst=dst, usd_per_gib=usd, source="test", as_of="2026-11-01"
        )
        for (provider, src, dst), usd in rows.items()
    )
    network = Network(
        Catalog(name="drawn", digest="", regions=regions, gpus={}, offers=(), egress=tuple(egress))
    )
    for (a, here), (b, there), same in itertools.product(
        regions.items(), regions.items(), (True, False)
    ):
        if a == b:
            wanted = ["intra_zone" if same else "inter_zone"]
        elif here.provider == there.provider:
            wanted = [there.region, there.egress_zone, "*"]
        else:
            wanted = [b, "internet"]
        found = [
            (i + j, i, rows[here.provider, src, dst])
            for i, src in enumerate((here.region, here.egress_zone, "*"))
            for j, dst in enumerate(wanted)
            if (here.provider, src, dst) in rows
        ]
        event("priced" if found else "no price")
        if found:
            assert network.egress_price(a, b, same_zone=same).usd_per_gib == min(found)[2]
        else:
            with pytest.raises(PlacerError):
                network.egress_price(a, b, same_zone=same)


HEADER = "src,dst,gbps_one_stream,gbps_many_streams,gbps_low,gbps_high,rtt_ms,basis,source,as_of"


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No books of the user's own."""
    monkeypatch.setenv("PLACER_HOME", str(tmp_path / "home"))


def grid(tmp_path: Path, *rows: str) -> str:
    """Write a grid; rows are ``src,dst,one,many,rtt``, measured unless a sixth cell says so."""
    lines = [HEADER]
    for row in rows:
        src, dst, one, many, rtt, *basis = row.split(",")
        kind = basis[0] if basis else "measured"
        lines.append(f"{src},{dst},{one},{many},,,{rtt},{kind},iperf3,2026-11-01")
    path = tmp_path / "grid.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_book_of_erben_is_compared_with_the_model_not_with_itself() -> None:
    """28 links between regions and 8 inside, whose streams are as the model's caps; no pair is
    exact. The inside of both sites has no row in the default book's model.
    """
    found = check_network(["erben-2023"], "default")
    groups = {(group.figure, group.group): group for group in found.errors}
    assert groups["rtt", ALL].links == 28
    assert groups["one stream", SAME_REGION].links == 8
    assert 0 < groups["rtt", ALL].median_error <= 0.1
    assert groups["one stream", "AS-EU"].worst_error == pytest.approx(0.14, abs=0.01)
    assert (found.rows, found.suspects, found.unknown_places) == (38, (), {})


def test_each_figure_counts_where_it_was_measured(tmp_path: Path) -> None:
    """One row with a round-trip time, one with many streams: 4.8 for 4, 20 % above."""
    rows = ("aws/us-east-1,aws/eu-west-2,,,80", "aws/us-east-1,gcp/us-central1,,4.0,")
    found = check_network([grid(tmp_path, *rows)], "default")
    links = {(group.figure, group.group): group.links for group in found.errors}
    assert links == {
        ("rtt", "EU-NA"): 1,
        ("rtt", ALL): 1,
        ("many streams", "NA-NA"): 1,
        ("many streams", ALL): 1,
    }
    assert found.errors[-1].worst_error == pytest.approx(0.2)


def test_rows_faster_than_light_are_suspects_and_no_errors(tmp_path: Path) -> None:
    """Virginia to London are 5,900 km: 59 ms at least, so 20 ms is a slip, with its line."""
    rows = ("aws/us-east-1,aws/eu-west-2,,,20", "aws/us-east-1,aws/eu-central-1,,,90")
    found = check_network([grid(tmp_path, *rows)], "default")
    (suspect,) = found.suspects
    assert suspect.where.endswith("grid.csv:2")
    assert suspect.light_ms == pytest.approx(59, abs=1)
    assert [group.links for group in found.errors] == [1, 1]


def test_unknown_places_estimated_rows_and_empty_rows_are_counted(tmp_path: Path) -> None:
    """Three rows name a moon base, one is an estimate, one has no figure."""
    moon = "moon/base"
    rows = (
        f"{moon},aws/us-east-1,,,2600",
        f"aws/us-east-1,{moon},,,2600",
        f"{moon},{moon},,,1",
        "aws/us-east-1,aws/us-west-2,,,60,estimated",
        "aws/us-east-1,aws/us-east-2,,,",
        "aws/us-east-1,aws/eu-west-2,,,80",
    )
    found = check_network([grid(tmp_path, *rows)], "default")
    assert (found.unknown_places, found.estimated_rows, found.empty_rows) == ({moon: 3}, 1, 1)


def test_a_grid_may_bring_its_regions(tmp_path: Path) -> None:
    """A folder with regions.csv beside links.csv makes an unknown site known."""
    grid(tmp_path, "onprem/oslo,aws/eu-north-1,,,12")
    (tmp_path / "grid.csv").rename(tmp_path / "links.csv")
    head = (
        "provider,region,display_name,city,country,continent,egress_zone,"
        "latitude_deg,longitude_deg,source,as_of"
    )
    (tmp_path / "regions.csv").write_text(
        f"{head}\nonprem,oslo,Oslo,Oslo,NO,EU,EU,59.9,10.8,mine,2026-11-01\n", encoding="utf-8"
    )
    found = check_network([str(tmp_path)], "default")
    assert found.unknown_places == {}
    assert found.errors[0].group == "EU-EU"

"""The link model: none beats light, published links are near, cables are whole."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import region
from placer.market.books.csv_rows import shipped_table
from placer.market.catalog import Catalog, Region
from placer.market.network.graph import Network
from placer.market.network.link_model import (
    FIBRE_KM_PER_RTT_S,
    RTT_FLOOR_S,
    ZONES,
    Corridor,
    Pairs,
    great_circle_km,
    hub_distances_km,
    hubs,
)
from placer.records import replace

PUBLISHED = {
    ("gcp/us-central1", "gcp/europe-west1"): 0.21,
    ("gcp/us-central1", "gcp/asia-east1"): 0.13,
    ("gcp/us-central1", "gcp/australia-southeast1"): 0.12,
    ("gcp/europe-west1", "gcp/asia-east1"): 0.08,
    ("gcp/europe-west1", "gcp/australia-southeast1"): 0.07,
    ("gcp/asia-east1", "gcp/australia-southeast1"): 0.16,
    ("gcp/us-west1", "aws/us-west-2"): 1.52,
    ("aws/us-west-2", "gcp/us-west1"): 1.81,
    ("gcp/us-west1", "azure/southcentralus"): 0.45,
    ("azure/southcentralus", "gcp/us-west1"): 0.47,
    ("gcp/us-central1", "gcp/us-central1"): 6.9,
    ("aws/us-west-2", "aws/us-west-2"): 4.87,
    ("azure/southcentralus", "azure/southcentralus"): 7.63,
}
"""Single streams between clouds of Erben et al. (2024), tables 3 and 4, in Gb/s."""
latitudes = st.floats(-90, 90)
longitudes = st.floats(-180, 180)


def at(
    latitude_deg: float, longitude_deg: float, provider: str = "onprem", name: str = "here"
) -> Region:
    """A place of which nothing but its coordinates is known."""
    return replace(
        region(provider, name, 2),
        egress_zone="x",
        latitude_deg=latitude_deg,
        longitude_deg=longitude_deg,
    )


def rtt_s_of(a: Region, b: Region) -> float:
    """The estimated round-trip time of one pair."""
    return float(Pairs([a, b]).rtt_s[0, 1])


def light_s(a: Region, b: Region) -> float:
    """Light in fibre along the great circle, there and back."""
    return great_circle_km(a, b) / FIBRE_KM_PER_RTT_S


def test_no_pair_of_the_default_book_is_faster_than_light_in_fibre(default: Catalog) -> None:
    """Every ordered pair of places; both directions take equally long."""
    places = [*default.regions.values()]
    pairs = Pairs(places)
    assert (pairs.rtt_s == pairs.rtt_s.T).all()
    for (i, a), (j, b) in itertools.product(enumerate(places), repeat=2):
        assert pairs.rtt_s[i, j] >= light_s(a, b)


@pytest.mark.parametrize(
    ("pair", "gbps"),
    PUBLISHED.items(),
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_published_streams_between_clouds_are_within_15_percent(
    default: Catalog, pair: tuple[str, str], gbps: float
) -> None:
    """Window over estimated round-trip time, without the measured rows; the interval holds each."""
    link = Network(default).estimated_link(*pair)
    assert link.basis == "estimated"
    assert link.bytes_per_second == pytest.approx(gbps * 1e9 / 8, rel=0.15)
    assert link.low <= gbps * 1e9 / 8 <= link.high


def test_streams_from_an_unknown_site_have_a_wide_interval(erben: Catalog) -> None:
    """The cluster of Erben et al. (table 5) reached a third of the model; its interval says so."""
    network = Network(erben)
    for link in (row for row in erben.links if row.src == "onprem/erben-eu" != row.dst):
        assert link.gbps_one_stream is not None
        model = network.estimated_link(link.src, link.dst)
        assert model.low <= link.gbps_one_stream * 1e9 / 8 <= model.high


def test_two_providers_in_one_city_are_the_floor_apart() -> None:
    """No detour over a hub: 2.4 ms and what light takes for a kilometre."""
    rtt_s = rtt_s_of(at(50.11, 8.68, "aws", "a"), at(50.12, 8.68, "gcp", "b"))
    assert RTT_FLOOR_S < rtt_s < RTT_FLOOR_S + 0.0001


def test_neighbouring_providers_meet_at_a_hub() -> None:
    """Boardman and The Dalles are 118 km apart; between two clouds the way leads over Seattle: 13
    ms, within one much less.
    """
    boardman, dalles = at(45.84, -119.7, "aws", "a"), at(45.59, -121.18, "gcp", "b")
    assert rtt_s_of(boardman, dalles) > 2 * rtt_s_of(boardman, at(45.59, -121.18, "aws", "b"))


@given(latitudes, longitudes, latitudes, longitudes)
def test_any_two_points_have_a_way(lat_a: float, lon_a: float, lat_b: float, lon_b: float) -> None:
    """Poles and antimeridian too: finite, symmetric, no faster than light, never above 1.2 s."""
    a, b = at(lat_a, lon_a, name="a"), at(lat_b, lon_b, name="b")
    rtt_s = rtt_s_of(a, b)
    assert light_s(a, b) <= rtt_s < 1.2
    assert rtt_s == rtt_s_of(b, a)
    assert Pairs([a]).zones[0] in ZONES


def test_streams_between_places_obey_the_caps() -> None:
    """The source's cap on egress, 4.8 and 7 Gb/s; Azure's one stream is not wider than inside its
    region; unknown ends stay at 3.3.
    """
    aws, gcp, azure, site = (
        at(50.0, 8.0, provider, provider) for provider in ("aws", "gcp", "azure", "onprem")
    )
    caps = [
        float(Pairs([a, b]).cap_bytes_per_s(np.array([[0.005]]))[0, 1]) * 8e-9
        for a, b in ((aws, gcp), (gcp, aws), (azure, gcp), (azure, site), (site, gcp))
    ]
    assert caps == pytest.approx([4.8, 7.0, 9.5, 3.3, 3.3])
    streams = [
        float(Pairs([a, b]).one_stream_bytes_per_s(np.array([[0.001]]))[0, 1]) * 8e-9
        for a, b in ((aws, gcp), (gcp, aws), (azure, azure), (azure, gcp))
    ]
    assert streams == pytest.approx([4.8, 4.8, 7.6, 7.0])


def test_the_spread_follows_what_is_known() -> None:
    """Far pairs of clouds are surest, near ones less, sites least."""
    aws, gcp, site = (at(50.0, 8.0, provider, provider) for provider in ("aws", "gcp", "onprem"))
    far, near, unknown = (
        float(Pairs([aws, end]).spread(np.array([[rtt_s]]))[0, 1])
        for end, rtt_s in ((gcp, 0.1), (gcp, 0.01), (site, 0.1))
    )
    assert far < near < unknown


@pytest.mark.parametrize("gcp", [False, True])
def test_distances_between_hubs_are_the_shortest_of_networkx(gcp: bool) -> None:
    """Another implementation of Dijkstra's algorithm finds the same for every pair."""
    graph: nx.Graph[str] = nx.Graph()
    for corridor in shipped_table("corridors.csv", Corridor):
        length_km = great_circle_km(hubs()[corridor.hub_a], hubs()[corridor.hub_b])
        graph.add_edge(
            corridor.hub_a,
            corridor.hub_b,
            weight=length_km * ((gcp and corridor.gcp_factor) or 1.0),
        )
    found = hub_distances_km(gcp)
    for start, distances in nx.all_pairs_dijkstra_path_length(graph):
        of_start = dict(zip(hubs(), found[[*hubs()].index(start)], strict=True))
        assert of_start == pytest.approx(dict(distances))


def test_many_streams_over_a_long_way_reach_what_was_published(erben: Catalog) -> None:
    """Erben et al. (2024), artifact: 40 streams from the EU to the US of Google Cloud reach 6.17
    Gb/s; 1.78 / sqrt(0.103 s) is 5.5.
    """
    eu, us = erben.region("gcp/europe-west1"), erben.region("gcp/us-central1")
    pair = Pairs([eu, us])
    far, farther = (float(pair.cap_bytes_per_s(np.array([[s]]))[0, 1]) for s in (0.103, 0.3))
    assert far * 8e-9 == pytest.approx(6.17, rel=0.15)
    assert farther < pair.cap_bytes_per_s(np.array([[0.1]]))[0, 1]

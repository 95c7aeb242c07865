"""Links: measured where the book has them, estimated and labelled elsewhere."""

import pytest

from placer.catalog import Catalog
from placer.network import Network

PUBLISHED = [
    ("gcp/us-central1", "gcp/europe-west1", 0.21),
    ("gcp/us-central1", "gcp/asia-east1", 0.13),
    ("gcp/europe-west1", "gcp/australia-southeast1", 0.07),
    ("gcp/us-west1", "azure/southcentralus", 0.45),
]
"""Single streams of Erben et al., tables 3 and 4, in Gb/s."""


@pytest.mark.parametrize(("src", "dst", "gbps"), PUBLISHED)
def test_published_links_are_used_as_they_are(erben: Catalog, src: str, dst: str, gbps: float) -> None:
    """The book wins over the model."""
    link = Network(erben).link(src, dst)
    assert link.basis == "published"
    assert link.bytes_per_second == pytest.approx(gbps * 1e9 / 8)


@pytest.mark.parametrize(("src", "dst", "gbps"), PUBLISHED)
def test_link_model_comes_near_the_published_streams(default: Catalog, src: str, dst: str, gbps: float) -> None:
    """Window over estimated round-trip time, within 35 % on these pairs; the interval holds them."""
    link = Network(default).link(src, dst)
    assert link.basis == "estimated"
    assert link.bytes_per_second == pytest.approx(gbps * 1e9 / 8, rel=0.35)
    assert link.low <= gbps * 1e9 / 8 <= link.high


def test_farther_is_slower(default: Catalog) -> None:
    """From Virginia: Ohio, Oregon, Frankfurt, Sydney."""
    network = Network(default)
    rtts = [
        network.link("aws/us-east-1", f"aws/{r}").rtt_s for r in ("us-east-1", "us-east-2", "us-west-2", "eu-central-1", "ap-southeast-2")
    ]
    assert rtts == sorted(rtts)


def test_graph_has_every_ordered_pair(erben: Catalog) -> None:
    """Three places give nine edges with bandwidth and price."""
    places = ["gcp/us-central1", "gcp/europe-west1", "aws/us-west-2"]
    graph = Network(erben).graph(places)
    assert graph.number_of_edges() == 9
    assert graph.edges["gcp/us-central1", "gcp/europe-west1"]["usd_per_gib"] == 0.08

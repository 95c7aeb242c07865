"""``placer network``: links between places; one file a command."""

from __future__ import annotations

from placer.cli.group import subgroup

command = subgroup(
    "book.network",
    "Show, check and import links between places.",
    "placer network show gcp/us-central1 gcp/europe-west1 aws/us-west-2",
    {
        "show": "Show bandwidth, round-trip time and egress price of pairs of places.",
        "check": "Compare estimated links with measured ones, and list implausible rows.",
        "import": "Import measured links: Skyplane's grids, iperf3, any CSV.",
    },
)

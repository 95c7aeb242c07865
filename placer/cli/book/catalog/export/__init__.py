"""``placer catalog export``: price books as files of other tools; one file a kind."""

from __future__ import annotations

from placer.cli.group import subgroup

command = subgroup(
    "book.catalog.export",
    "Write a book in the format of another tool.",
    "placer catalog export skypilot my-catalogs",
    {
        "skypilot": "SkyPilot's catalogs: a vms.csv of each provider.",
    },
)

"""``placer catalog``: price books; one file a command."""

from __future__ import annotations

from placer.cli.group import subgroup

command = subgroup(
    "book.catalog",
    "List, refresh, import, compare and check price books.",
    "placer catalog list",
    {
        "list": "List price books and what they cover.",
        "show": "Show what a book covers, how old it is and where it comes from.",
        "diff": "List the differences between two books.",
        "validate": "Check that a book is complete and plausible.",
        "pin": "Choose the books that are used by default.",
        "refresh": "Write today's prices of aws, azure or gcp as a book of your own.",
        "import": "Make a book from SkyPilot's catalogs or any CSV file.",
        "export": "Write a book in the format of another tool.",
    },
)

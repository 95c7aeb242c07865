"""``placer capacity``: what zones launch; one file a command."""

from __future__ import annotations

from placer.cli.group import subgroup

command = subgroup(
    "book.capacity",
    "Show, import, check and forecast the capacity of zones, and try policies on it.",
    "placer capacity show --gpu H100",
    {
        "show": "Show how often zones launch so many machines, and how long they stay.",
        "forecast": "Forecast from a log of launches which zones will have enough.",
        "replay": "Run policies over a trace of capacity: dollars to finish in time.",
        "watch": "Follow what zones launch for a plan, and say what to hold.",
        "import": "Make a table of your own from what providers say, or from a log.",
        "check": "Check a table, and say what of a book it knows.",
    },
)

"""``placer config``: the defaults of the options, and this installation; one file a command."""

from __future__ import annotations

from placer.cli.group import subgroup

command = subgroup(
    "files.config",
    "Write and show the defaults of the options, and check what is installed.",
    "placer config show --origin",
    {
        "init": "Write placer.toml, a file of defaults.",
        "check": "Show what is installed, and test the optional solvers.",
        "show": "List the defaults that hold, and where each comes from.",
    },
)

"""``--help`` with the options in groups: a command's own first, then what many commands share."""

from __future__ import annotations

import click

from placer.problem.words.wishes import WISHES

SHARED = {
    "Goal": ("samples", "tokens"),
    "Where": ("places", "not_places", "regions", "zones", "links"),
    "Machines": ("catalog",),
    "Model": (
        "model",
        "tbs",
        "critical_batch",
        "seq_len",
        "lora",
        "qlora",
        "calibration",
    ),
    "Exchange": (),
    "Data": (),
    "Risk": ("interruption", "unavailable"),
    "Simulation": ("simulate", "rounds", "draw", "jitter", "stragglers", "straggler_factor"),
    "Solver": ("solver", "verify", "gap", "time_limit", "memory_limit", "seed"),
    "Output": (
        "top",
        "format",
        "output",
        "manifest",
        "certificate",
        "as_json",
        "no_cache",
        "verbose",
    ),
}
"""Options of each group by name, beside the wishes of its groups below; in the order of --help."""
GROUPS = {
    "limits": "Goal",
    "training": "Model",
    "inside a worker": "Model",
    "machines": "Machines",
    "exchange": "Exchange",
    "data": "Data",
    "assumptions": "Machines",
    "risk": "Risk",
}
"""Group on the screen of each group of the table of wishes."""
NAMED = {name: title for title, names in SHARED.items() for name in names}
FEW = 12
"""Options that need no groups."""


def group_of(option: click.Parameter) -> str:
    """Return the title of an option's group; empty for one of a command's own."""
    name = option.name or ""
    if "--help" in option.opts:
        return "Output"
    wish = WISHES.get(name)
    return NAMED.get(name) or ("" if wish is None else GROUPS[wish.group])


class GroupedCommand(click.Command):
    """A command whose ``--help`` lists its options in groups, its own first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group that has any."""
        rows: dict[str, list[tuple[str, str]]] = {"": [], **{title: [] for title in SHARED}}
        options = [(option, option.get_help_record(ctx)) for option in self.get_params(ctx)]
        shown = [(option, record) for option, record in options if record is not None]
        for option, record in shown:
            rows[group_of(option) if len(shown) > FEW else ""].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(f"{title} options".strip().capitalize()):
                    formatter.write_dl(records)

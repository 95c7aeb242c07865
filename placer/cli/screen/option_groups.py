"""``--help`` in two levels: the most common options, and with ``--help all`` every one in groups, a
command's own first, then what many commands share.
"""

from __future__ import annotations

import click

from placer.problem.words.wishes import WISHES

SHARED = {
    "Goal": "samples tokens",
    "Where": "places not_places regions zones links",
    "Machines": "catalog",
    "Model": "model question tbs critical_batch seq_len lora qlora calibration",
    "Exchange": "",
    "Data": "",
    "Risk": "interruption unavailable",
    "Simulation": "simulated rounds jitter stragglers straggler_factor",
    "Solver": "solver proof verify gap time_limit memory_limit seed",
    "Output": "top format output manifest certificate plot as_json no_cache verbose",
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
NAMED = {name: title for title, names in SHARED.items() for name in names.split()}
FEW = 12
"""Options that need no groups."""
ALL = "placer.help_all"
"""Key in a context's ``meta`` of whether ``--help`` shows everything."""
ASKING = "model budget min_throughput deadline samples tokens places gpu"
COMMON = {
    "recommend": f"{ASKING} market output",
    "try": "yes columns rate name model budget tokens gpu catalog output",
    "pareto": f"points {ASKING} output",
    "estimate": "workers model exchange tbs catalog quota every simulated manifest as_json",
    "explain": f"why_not {ASKING} as_json",
    "whatif": f"set drop {ASKING}",
    "sweep": f"over jobs {ASKING}",
    "robust": f"box exact {ASKING}",
    "watch": "machines work deadline slack gpu prices on_demand held done idle",
    "replay": "machines work deadline slack gpu policy prices on_demand jobs output",
    "profile": "builtin batch_sizes device precisions quick thorough estimate name out as_json",
    "run": "train local rank steps tbs microbatch out checkpoint_every resume resume_if_any",
    "serve": "host port token_file hosts catalog workers waiting time_limit memory_limit jobs",
}
"""The ten most common options of the commands that have many, in the order of ``--help``."""


def group_of(option: click.Parameter) -> str:
    """Return the title of an option's group; empty for one of a command's own."""
    name = option.name or ""
    if "--help" in option.opts:
        return "Output"
    wish = WISHES.get(name)
    return NAMED.get(name) or ("" if wish is None else GROUPS[wish.group])


class LargeCommand(click.Command):
    """A command whose ``--help`` lists its most common options, and ``--help all`` every one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep whether ``all`` was typed, which matters for ``--help`` alone."""
        ctx.meta[ALL] = "all" in args
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the most common options, or all."""
        common = COMMON.get(self.name or "", "").split()
        if not common or ctx.meta.get(ALL):
            self.format_all(ctx, formatter)
            return
        options = {p.name: p for p in self.params if isinstance(p, click.Option)}
        rows = [options[name].get_help_record(ctx) for name in common]
        with formatter.section("Common options"):
            formatter.write_dl([row for row in rows if row is not None])
        more = len(options) - len(common)
        formatter.write_paragraph()
        formatter.write_text(f"{more} more options: {ctx.command_path} --help all")

    def format_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every option."""
        super().format_options(ctx, formatter)


class GroupedCommand(LargeCommand):
    """A large command whose ``--help all`` lists its options in groups, its own first."""

    def format_all(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group that has any."""
        rows: dict[str, list[tuple[str, str]]] = {"": [], **{title: [] for title in SHARED}}
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        each = [(option, option.get_help_record(ctx)) for option in options]
        shown = [(option, record) for option, record in each if record is not None]
        for option, record in shown:
            rows[group_of(option) if len(shown) > FEW else ""].append(record)
        for title, listed in rows.items():
            if listed:
                with formatter.section(f"{title} options".strip().capitalize()):
                    formatter.write_dl(listed)

"""Commands found by what a user means, and imported only when they run."""

from __future__ import annotations

import importlib
import os
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from placer.advice.runner.blas_threads import loading_one_thread
from placer.errors import PlacerError, unknown

STARTS_NOTHING = "placer rents and starts nothing: "
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "placer recommend": (
        *("plan", "optimize", "optimise", "solve", "find", "search", "choose", "advise"),
        *("suggest", "place", "placement", "best", "cheapest", "fastest", "train", "ask"),
    ),
    "placer offers": (
        *("price", "prices", "pricing", "show-gpus", "list-gpus", "gpus", "gpu", "machines"),
        *("instances", "instance-types", "list", "ls", "regions", "zones", "show", "search-offers"),
    ),
    "placer estimate": ("cost", "costs", "quote", "time", "predict", "breakdown"),
    "placer estimate --workers A --workers B": ("compare", "comparison"),
    "placer estimate --simulate": ("simulate", "simulation"),
    "placer pareto": ("frontier", "tradeoff", "trade-off", "curve", "budgets"),
    "placer explain": ("why", "why-not", "reason", "debug"),
    "placer whatif": ("what-if", "scenario", "change", "set"),
    "placer whatif --over WHAT=LOW..HIGH": ("sweep",),
    "placer whatif plan.json --observed run.jsonl (capacity watch follows a feed)": (
        *("replan", "migrate", "move", "failover", "recover", "resume"),
    ),
    "placer robust": ("sensitivity", "uncertainty", "risk", "robustness"),
    "placer profile": ("measure", "benchmark", "bench", "flops", "memory"),
    "placer profile runs RUNS": ("calibrate", "tune", "fit"),
    "placer run --rehearse plan.json": ("rehearse", "rehearsal"),
    "placer report --diff BEFORE AFTER": ("diff",),
    "placer validate --schema KIND": ("schema", "schemas"),
    "placer catalog refresh": ("update", "refresh", "sync", "fetch", "pull"),
    "placer catalog list": ("catalogs", "books", "sources"),
    "placer network show": ("links", "bandwidth", "egress", "latency", "ping"),
    "placer capacity show": ("availability", "quota", "quotas", "spot"),
    "placer capacity replay": ("replay", "backtest"),
    "placer portfolio": ("jobs", "schedule", "batch", "queue-jobs"),
    "placer config check": ("doctor", "check", "info", "env", "diagnose"),
    "placer models": ("model", "list-models", "zoo"),
    "placer config init": ("init", "setup", "configure", "new", "create"),
    "placer config show --origin": ("settings", "options", "preferences"),
    "placer serve": ("server", "ui", "web", "dashboard", "gui", "api"),
    "placer watch": ("alert", "alerts", "notify", "monitor", "webhook"),
    "placer mcp": ("assistant", "agent", "tools", "claude"),
    "placer report": ("html", "plot", "visualize", "visualise", "map", "export-report"),
    "placer --help": ("help", "commands", "usage"),
    "placer --version": ("version",),
    "placer --completion bash|zsh|fish": ("completion", "completions"),
    f"{STARTS_NOTHING}placer export TARGET plan.json writes launch files for the tool that does, "
    "placer run plan.json executes a plan on machines that are there": (
        *("deploy", "launch", "up", "start", "apply", "submit", "provision", "exec", "rent"),
        *("buy", "create-cluster", "spin-up", "job"),
    ),
    f"{STARTS_NOTHING}stop machines with the tool that started them": (
        *("down", "stop", "terminate", "destroy", "delete", "cancel", "kill", "autostop"),
    ),
    f"{STARTS_NOTHING}the tool that runs the job knows its state; placer whatif --observed reads "
    "its log": (*("status", "logs", "queue", "ps", "tail", "ssh", "attach"),),
}
"""Commands of others by what to type, or to know, instead."""


def unknown_command(name: str, known: Collection[str]) -> PlacerError:
    """Build the error for a command that does not exist: with the one that does the same, else the
    one that is written most alike.

    >>> unknown_command("show-gpus", ["offers"]).hint
    'the command for it is: placer offers'
    """
    lowered = name.lower().replace("_", "-")
    if lowered in known:
        return PlacerError(f"unknown command '{name}'", f"write it as {lowered}")
    for instead, others in COMMANDS.items():
        if lowered in others:
            if instead.startswith(STARTS_NOTHING):
                return PlacerError(f"unknown command '{name}'", instead)
            first = instead.split()[1]
            if first.startswith("-") or first in known:
                return PlacerError(f"unknown command '{name}'", f"the command for it is: {instead}")
    return unknown("command", name, known)


ASKS = "ask."
"""Room of the commands whose options may have defaults of the user's."""
COMPLETION = "_PLACER_COMPLETE"
"""Variable that a shell sets where it asks for completions."""


class LazyGroup(click.Group):
    """A group whose commands are imported one by one.

    ``paths``: module of each command below `placer.cli`, and after a colon its name there, if that
    is not ``command``; without an entry the group itself has it. ``forms``: the same of forms of a
    command, by the word that asks for them: ``--over`` of ``whatif`` has options of its own.
    ``helps``: short help of each command by name, in the order of --help. ``**attributes``: what
    `click.Group` takes.
    """

    def __init__(
        self,
        *,
        helps: Mapping[str, str],
        paths: Mapping[str, str],
        forms: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self.paths, self.forms, self.helps = paths, forms, helps

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of --help."""
        return list(self.helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        path = self.paths.get(cmd_name)
        return super().get_command(ctx, cmd_name) if path is None else loaded(path)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.helps.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Answer an unknown command with the nearest one."""
        if args and args[0] not in self.helps and not args[0].startswith("-"):
            if ctx.parent is None:
                raise unknown_command(args[0], self.helps)
            raise unknown("command", args[0], self.helps)
        if ctx.parent is not None or not args or not self.paths.get(args[0], "").startswith(ASKS):
            return self._formed(*super().resolve_command(ctx, args))
        with loading_one_thread():
            name, command, rest = self._formed(*super().resolve_command(ctx, args))
            if command is not None and name:
                ctx.default_map = {name: _defaults(args[0], command, rest)}
        return name, command, rest

    def _formed(
        self, name: str | None, command: click.Command | None, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the form of a command that a word asks for, without a word that is a switch."""
        for word, path in self.forms.get(name or "", {}).items():
            found = (n for n, arg in enumerate(args) if arg.partition("=")[0] == word)
            at = next(found, None)
            if at is None or (at and not word.startswith("-")):
                continue
            form = loaded(path)
            options = [p for p in form.params if isinstance(p, click.Option)]
            if not any(word in p.opts for p in options) or {*args} & {"-h", "--help"}:
                value = args[at].partition("=")[2]
                args = [*args[:at], *([value] if value else []), *args[at + 1 :]]
            return f"{name} {word}", form, args
        return name, command, args


def loaded(path: str) -> click.Command:
    """Import a command; see `LazyGroup`."""
    module, _, name = path.partition(":")
    command: click.Command = getattr(
        importlib.import_module(f"placer.cli.{module}"), name or "command"
    )
    if COMPLETION in os.environ:
        from placer.cli.screen.completed_values import add_completion

        add_completion(command)
    return command


def _defaults(name: str, command: click.Command, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the defaults that files and environment set, and say on stderr which they are."""
    if {*arguments} & {"-h", "--help"}:
        return {}
    from placer.interface.settings import defaults_for

    names = [option.name for option in command.params if option.name]
    written = {word.partition("=")[0] for word in arguments}
    flags = [p.name for p in command.params if p.name and written & {*p.opts}]
    found = defaults_for(names, flags, name)
    if found:
        said = ", ".join(f"{s.option} ({s.origin})" for s in found)
        click.echo(f"defaults: {said}", err=True)
    return {setting.name: setting.value for setting in found}

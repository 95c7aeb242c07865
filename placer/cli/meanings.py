"""Commands of neighbouring tools and of earlier versions, with what to type instead."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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

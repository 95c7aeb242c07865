"""The command line: the module of a command is imported only when it runs.

Nothing else in placer prints.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from placer.cli.group import COMPLETION, LazyGroup
from placer.cli.screen.formats import STDOUT, Collected
from placer.cli.screen.streams import outlasting, to_nowhere
from placer.errors import PlacerError, one_line
from placer.version import __version__

COMMANDS = {
    "recommend": "Find, prove and explain the best placement for a model.",
    "try": "Ask a question of any price list: columns are guessed, shown and confirmed.",
    "pareto": "Show what each budget buys: the frontier of cost and speed.",
    "estimate": "Time, price, compare or simulate placements given by hand.",
    "explain": "Explain what binds an answer, or why nothing fits.",
    "whatif": "Solve a question under changed prices, links or wishes, or ranges of them.",
    "robust": "Show how much an answer loses if its figures are wrong.",
    "models": "List the models that have a profile, or show one.",
    "offers": "List machines and their prices.",
    "network": "Show, check and import links between places.",
    "capacity": "Show, import, forecast, replay and watch what zones launch and keep.",
    "profile": "Measure a model on this device, estimate it for others, or fit measured runs.",
    "run": "Execute a launch manifest, or rehearse it here, and compare with its prediction.",
    "portfolio": "Choose where many jobs run that share quotas and budgets.",
    "bill": "Compare what an answer predicted with what a bill charges.",
    "reproduce": "Recompute a published paper and compare.",
    "catalog": "List, compare, refresh, import and check price books.",
    "export": "Write launch files: torchrun, SkyPilot, Kubernetes and others.",
    "report": "Write a page of saved results, or show what changes between two.",
    "watch": "Ask a saved question again, and tell when prices change its answer.",
    "serve": "Answer questions over HTTP, with a page for browsers.",
    "mcp": "Offer the questions to an assistant as tools.",
    "validate": "Check a result, manifest, profile or other file, or print the schema of one.",
    "config": "Write and show the defaults of the options, and check what is installed.",
}
"""Commands in the order of --help, with their short help: no command is imported for --help."""
ROOMS = {
    "ask": "recommend estimate",
    "book": "models offers",
    "measure": "profile reproduce",
    "launch": "run",
    "files": "serve validate",
}
"""Commands with a module of their name, by what a user does with them."""
PATHS = {
    **{name: f"{room}.{name}" for room, names in ROOMS.items() for name in names.split()},
    "try": "ask.try_prices",
    "whatif": "ask.worlds:whatif_command",
    "robust": "ask.worlds:robust_command",
    **{name: f"ask.limits:{name}_command" for name in ("explain", "pareto", "portfolio")},
    "export": "launch.manifests:export_command",
    "mcp": "files.serve:mcp_command",
    **{name: f"files.saved:{name}_command" for name in ("bill", "report", "watch")},
}
"""Where each command lies; see `LazyGroup`."""
FORMS = {
    "whatif": {
        "--over": "ask.worlds:sweep_command",
        "--merge": "ask.worlds:sweep_command",
        "--observed": "ask.worlds:replan_command",
    },
    "profile": {
        "exchange": "measure.calibration:exchange_command",
        "runs": "measure.calibration:runs_command",
    },
    "run": {"--rehearse": "launch.manifests:rehearse_command"},
    "report": {"--diff": "files.saved:diff_command"},
    "validate": {"--schema": "files.validate:schema_command"},
}
"""Forms of commands by the word that asks for them: each has options of its own."""
GROUPS: dict[str, tuple[str, str, dict[str, str]]] = {
    "network": (
        "book.network",
        "placer network show gcp/us-central1 gcp/europe-west1 aws/us-west-2",
        {
            "show": "Show bandwidth, round-trip time and egress price of pairs of places.",
            "check": "Compare estimated links with measured ones, and list implausible rows.",
            "import": "Import measured links: Skyplane's grids, iperf3, any CSV.",
        },
    ),
    "capacity": (
        "book.capacity",
        "placer capacity show --gpu H100",
        {
            "show": "Show how often zones launch so many machines, and how long they stay.",
            "forecast": "Forecast from a log of launches which zones will have enough.",
            "replay": "Run policies over a trace of capacity: dollars to finish in time.",
            "watch": "Follow what zones launch for a plan, and say what to hold.",
            "import": "Make a table of your own from what providers say, or from a log.",
            "check": "Check a table, and say what of a book it knows.",
        },
    ),
    "catalog": (
        "book.catalog",
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
    ),
    "config": (
        "files.config",
        "placer config show --origin",
        {
            "init": "Write placer.toml, a file of defaults.",
            "check": "Show what is installed, and test the optional solvers.",
            "show": "List the defaults that hold, and where each comes from.",
        },
    ),
    "catalog export": (
        "book.catalog",
        "placer catalog export skypilot my-catalogs",
        {"skypilot": "SkyPilot's catalogs: a vms.csv of each provider."},
    ),
}
"""Module, example, and short helps of the commands below a command; they are named there as
``show_command``.
"""
IMPORTS = {
    "capacity import": "book.capacity_import",
    "catalog import": "book.catalog_import",
    "catalog refresh": "book.catalog_import",
}
"""Those that lie in another module."""


COLLECTED = 50_000
"""New objects after which garbage is looked for: a search makes few circles, and Python's own 700
cost a twentieth of the main job.
"""
EPILOG = "Start with: placer recommend --model roberta-xlm --budget 5/h"


def _print_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell or "")
    if complete is not None and not ctx.resilient_parsing:
        click.echo(complete(cli, {}, "placer", COMPLETION).source())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    helps=COMMANDS,
    paths=PATHS,
    forms=FORMS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="placer")
@click.option(
    "--completion",
    type=click.Choice(["bash", "zsh", "fish"]),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print the completion script of a shell and exit.",
)
def cli() -> None:
    """Decide where a model is trained: regions, machines, markets and gradient exchange, proved and
    explained.
    """


def _add_groups() -> None:
    for path, (module, example, helps) in GROUPS.items():
        above, _, name = path.rpartition(" ")
        parent: Any = cli.commands[above] if above else cli
        group = LazyGroup(
            name=name,
            help=parent.helps[name],
            epilog=f"Example: {example}",
            helps=helps,
            paths={
                sub: f"{IMPORTS.get(f'{path} {sub}', module)}:{sub}_command"
                for sub in helps
                if f"{path} {sub}" not in GROUPS
            },
        )
        parent.add_command(group)


_add_groups()


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and turn errors into one line, a tip and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(COLLECTED)
    # Else Python looks for garbage among all that is left while it ends: a twelfth of the main job.
    atexit.register(gc.freeze)
    sys.stdout, sys.stderr = outlasting(sys.stdout), outlasting(sys.stderr)
    try:
        code = _main(given)
    except PlacerError as error:
        code = _say(error, given)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 0
    except click.UsageError as error:
        code = _say(_usage(error), given)
    except click.Abort:
        click.echo("interrupted", err=True)
        code = 130
    except OSError as error:
        code = _say(
            PlacerError(f"cannot write the output: {error.strerror or error}", exit_code=1), given
        )
    except Exception as error:
        if os.environ.get("PLACER_DEBUG"):
            raise
        words = f"internal failure: {type(error).__name__}: {one_line(str(error))}"
        code = _say(
            PlacerError(
                words,
                "run it again with PLACER_DEBUG=1 for the traceback, and report it",
                exit_code=1,
            ),
            given,
        )
    sys.exit(_flushed(code if isinstance(code, int) else 0))


def _main(given: list[str]) -> Any:
    """Run a command, and write what it printed in the format that it was asked for."""
    stdout = sys.stdout
    try:
        code = cli.main(args=given, prog_name="placer", standalone_mode=False, obj=given)
    finally:
        kept, sys.stdout = sys.stdout, stdout
    if isinstance(kept, Collected) and kept.name != STDOUT:
        text = kept.text(failed=isinstance(code, int) and code != 0)
        if kept.path is None:
            click.echo(text, nl=False)
        else:
            from placer.cli.output import write_text

            write_text(kept.path, text)
            click.echo(f"wrote {kept.path}", err=True)
    return code


def _flushed(code: int) -> int:
    """Flush what is left; a full disk is an error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        to_nowhere(sys.stdout.fileno())
        click.echo(f"error: cannot write the output: {error.strerror or error}", err=True)
        return 1
    return code


def _say(error: PlacerError, given: Sequence[str]) -> int:
    """Print an error: as text on stderr, and on stdout as JSON, which is YAML too, where a document
    was asked for.
    """
    asked = [*given, *map("=".join, pairwise(given))]
    if {"--json", "--format=json", "--format=yaml"}.intersection(asked):
        with contextlib.suppress(OSError):  # where stdout is what failed, stderr still says so
            click.echo(json.dumps(error.to_dict(), indent=2))
    click.echo(f"error: {one_line(error.message)}", err=True)
    if error.hint:
        click.echo(f"  tip: {one_line(error.hint)}", err=True)
    return error.exit_code


def _usage(error: click.UsageError) -> PlacerError:
    """Say a usage error of click in placer's words, with the nearest option."""
    if isinstance(error, click.NoSuchOption):
        options = [name for p in error.ctx.command.params for name in p.opts] if error.ctx else []
        from placer.problem.words.meanings import unknown_word

        return unknown_word("option", error.option_name, options)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        name = error.param.opts[-1]
        help_ = f"see {error.ctx.command_path} --help" if error.ctx else ""
        if name == "--model":
            help_ = f"such as --model Qwen2.5-7B ('placer models' lists names); {help_}"
        return PlacerError(f"{name} is missing", help_)
    message = error.format_message().rstrip(".")
    return PlacerError(
        message[:1].lower() + message[1:],
        f"see {error.ctx.command_path if error.ctx else 'placer'} --help",
    )

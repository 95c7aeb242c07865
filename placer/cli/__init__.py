"""The command line: one file per command, imported only when it runs.

Nothing else in placer prints.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from placer.cli.group import COMPLETION, LazyGroup
from placer.errors import PlacerError
from placer.version import __version__

COMMANDS = {
    "recommend": "Find, prove and explain the best placement for a model.",
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
    "reproduce": "Recompute a published paper and compare.",
    "catalog": "List, compare, refresh, import and check price books.",
    "export": "Write launch files: torchrun, SkyPilot, Kubernetes and others.",
    "report": "Write a page of saved results, or show what changes between two.",
    "serve": "Answer questions over HTTP, with a page for browsers.",
    "validate": "Check a result, manifest, profile or other file, or print the schema of one.",
    "config": "Write and show the defaults of the options, and check what is installed.",
}
"""Commands in the order of --help, with their short help: no command is imported for --help."""
ROOMS = {
    "ask": ("recommend", "pareto", "estimate", "explain", "whatif", "robust", "portfolio"),
    "book": ("models", "offers", "network", "capacity", "catalog"),
    "measure": ("profile", "reproduce"),
    "launch": ("run", "export"),
    "files": ("report", "serve", "validate", "config"),
}
"""Subpackage of each command: by what a user does with it."""
FORMS = {
    "whatif": {"--over": "ask.sweep", "--merge": "ask.sweep", "--observed": "ask.replan"},
    "profile": {"exchange": "measure.profile_exchange", "runs": "measure.profile_runs"},
    "run": {"--rehearse": "launch.rehearse"},
    "report": {"--diff": "files.diff"},
    "validate": {"--schema": "files.schema"},
}
"""Forms of commands by the word that asks for them: each has a module with options of its own."""


COLLECTED = 50_000
"""New objects after which garbage is looked for: a search makes few circles, and Python's own 700
cost a twentieth of the main job.
"""
EPILOG = "Start with: placer recommend --model roberta-xlm --budget 5/h"


def _print_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    """Print the script by which a shell completes commands, options and values."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell or "")
    if complete is not None and not ctx.resilient_parsing:
        click.echo(complete(cli, {}, "placer", COMPLETION).source())
        ctx.exit()


@click.group(
    cls=LazyGroup,
    package="placer.cli",
    helps=COMMANDS,
    rooms={name: room for room, names in ROOMS.items() for name in names},
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


def run(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and turn errors into one line, a tip and an exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(COLLECTED)
    # Else Python looks for garbage among all that is left while it ends: a twelfth of the main job.
    atexit.register(gc.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what the terminal cannot show is written as \\x
        sys.stdout.reconfigure(errors="backslashreplace")
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
    except BrokenPipeError:
        code = 0
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
    from placer.cli.screen.formats import STDOUT, Collected

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
    """Flush what is left; a reader that is gone is no error, a full disk is."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            click.echo(f"error: cannot write the output: {error.strerror or error}", err=True)
            return 1
    return code


def _say(error: PlacerError, given: Sequence[str]) -> int:
    """Print an error: as text on stderr, as JSON on stdout with --json."""
    if "--json" in given or "--format=json" in given or ("--format", "json") in pairwise(given):
        with contextlib.suppress(OSError):  # where stdout is what failed, stderr still says so
            click.echo(json.dumps(error.to_dict(), indent=2))
    click.echo(f"error: {one_line(error.message)}", err=True)
    if error.hint:
        click.echo(f"  tip: {one_line(error.hint)}", err=True)
    return error.exit_code


def one_line(text: str, most: int = 400) -> str:
    """Put text that quotes a user's value on one line of bounded length."""
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= most else f"{flat[: most - 4]} ..."


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

"""``placer completion``: shell completion."""

from __future__ import annotations

import click

from placer.cli.group import COMPLETION
from placer.errors import unknown

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", epilog='Example: eval "$(placer completion bash)"')
@click.argument("shell", metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class

    from placer.cli import cli

    if shell not in SHELLS:
        raise unknown("shell", shell, SHELLS)
    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(cli, {}, "placer", COMPLETION).source())

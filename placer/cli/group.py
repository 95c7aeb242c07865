"""A group of commands that imports each only when it runs, so that --help stays fast."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from placer.advice.runner.blas_threads import loading_one_thread
from placer.errors import unknown

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
                from placer.cli.meanings import unknown_command

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

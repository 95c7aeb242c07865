"""A group of commands that imports each only when it runs, so that --help stays fast."""

from __future__ import annotations

import importlib
import keyword
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click

from placer.advice.runner.blas_threads import loading_one_thread
from placer.errors import unknown

ASKS = "ask"
"""Room of the commands whose options may have defaults of the user's."""
COMPLETION = "_PLACER_COMPLETE"
"""Variable that a shell sets where it asks for completions."""


class LazyGroup(click.Group):
    """A group whose commands lie in a package, one module a command.

    Parameters
    ----------
    package
        Package of the modules; each has its click command in ``command``. A module is named as its
        command, with ``_`` for ``-`` and a ``_`` after a word that Python keeps for itself:
        ``import`` lies in ``import_``.
    rooms
        Subpackage of each command that does not lie in the package itself, by name.
    forms
        Other modules of a command by a word that asks for them: ``--over`` of ``whatif`` is the
        module ``ask.sweep``, with options of its own.
    helps
        Short help of each command by name, in the order of --help: no command is imported for
        --help.
    **attributes
        What `click.Group` takes.
    """

    def __init__(
        self,
        *,
        package: str,
        helps: Mapping[str, str],
        rooms: Mapping[str, str] = MappingProxyType({}),
        forms: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        **attributes: Any,
    ) -> None:
        super().__init__(**attributes)
        self.package = package
        self.rooms = rooms
        self.forms = forms
        self.helps = helps

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that a reader is gone is no error, for which click would end with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise BrokenPipeError from None  # without a number click passes it on

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of --help."""
        return list(self.helps)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in self.helps:
            return None
        name = cmd_name.replace("-", "_")
        name = f"{name}_" if keyword.iskeyword(name) else name
        return self.loaded(".".join(filter(None, (self.rooms.get(cmd_name), name))))

    def loaded(self, path: str) -> click.Command:
        """Import the command of a module below the package."""
        command: click.Command = importlib.import_module(f"{self.package}.{path}").command
        if COMPLETION in os.environ:
            from placer.cli.screen.completed_values import add_completion

            add_completion(command)
        return command

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
        if ctx.parent is not None or not args or self.rooms.get(args[0]) != ASKS:
            return self._formed(*super().resolve_command(ctx, args))
        with loading_one_thread():
            name, command, rest = self._formed(*super().resolve_command(ctx, args))
            if command is not None and name:
                ctx.default_map = {name: _defaults(args[0], command, rest)}
        return name, command, rest

    def _formed(
        self, name: str | None, command: click.Command | None, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the form of a command that a word asks for, without the word where it is but a
        switch.
        """
        for word, path in self.forms.get(name or "", {}).items():
            found = (n for n, arg in enumerate(args) if arg.partition("=")[0] == word)
            at = next(found, None)
            if at is None or (at and not word.startswith("-")):
                continue
            form = self.loaded(path)
            options = [p for p in form.params if isinstance(p, click.Option)]
            if not any(word in p.opts for p in options) or {*args} & {"-h", "--help"}:
                value = args[at].partition("=")[2]
                args = [*args[:at], *([value] if value else []), *args[at + 1 :]]
            return f"{name} {word}", form, args
        return name, command, args


def subgroup(path: str, text: str, example: str, helps: Mapping[str, str]) -> LazyGroup:
    """Make a group of commands below a command.

    Parameters
    ----------
    path
        Its package below `placer.cli`; the last part is its name.
    text, example
        What ``--help`` says of it, and an example of one of its commands.
    helps
        As `LazyGroup` takes it.
    """
    return LazyGroup(
        name=path.rpartition(".")[2],
        package=f"placer.cli.{path}",
        helps=helps,
        help=text,
        epilog=f"Example: {example}",
    )


def _defaults(name: str, command: click.Command, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the defaults of a command's options that files and environment set, and say on stderr
    which they are.
    """
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
